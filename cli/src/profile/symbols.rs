//! From addresses to functions and lines, by the files of the modules.
//!
//! A file with debug information of its own, found by build-id below /usr/lib/debug/.build-id, comes before the module
//! itself. A file that changed since the program ran has another build-id, and names nothing.

use super::raw::{Module, Place};
use crate::size::counted;
use crate::words::say;
use addr2line::{gimli, Loader};
use object::read::pe::{ImageNtHeaders, ImageOptionalHeader, PeFile64};
use object::{BinaryFormat, LittleEndian, Object, ObjectSegment, ObjectSymbol, SymbolKind};
use std::collections::HashMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// A function at an address. Several are at one address if some were inlined there, the innermost first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Function {
    pub name: String,
    pub file: String,
    pub line: u32,
    /// It is a static function of glebe's, which a program may have linked in.
    pub ours: bool,
}

struct File {
    loader: Option<Loader>,
    /// Where the bytes of the file are in its own address space: offset, length, address.
    segments: Vec<(u64, u64, u64)>,
    /// Of a Windows program: where it would like to be. Its places are relative to its start.
    base: Option<u64>,
    symbols: Vec<Symbol>,
}

/// A function of the symbol table, in a file's own address space.
struct Symbol {
    start: u64,
    end: u64,
    name: String,
    ours: bool,
}

#[derive(Default)]
pub struct Symbols {
    files: HashMap<(PathBuf, String), File>,
    found: HashMap<u64, Vec<Function>>,
    unread: Unread,
}

/// Files that name nothing.
#[derive(Default)]
struct Unread {
    /// Another build-id is there now.
    changed: Vec<PathBuf>,
    /// Nothing is there, or nothing that is known to be the same.
    gone: Vec<PathBuf>,
}

fn separate_debug_file(build_id: &str) -> Option<PathBuf> {
    let (first, rest) = (build_id.get(..2)?, build_id.get(2..)?);
    let path = PathBuf::from(format!("/usr/lib/debug/.build-id/{first}/{rest}.debug"));
    is_readable(&path).then_some(path)
}

/// Whether to read a module: the path is from a file that anybody may have made. A device or a
/// FIFO has no end, and files of /proc that wait for text say that they are empty.
fn is_readable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() > 0)
}

fn open(module: &Module, unread: &mut Unread) -> File {
    let none = File { loader: None, segments: Vec::new(), base: None, symbols: Vec::new() };
    let path = match &module.place {
        Place::Held(file) => PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
        _ => module.path.clone(),
    };
    // Without a build-id nothing tells a file from its successor. A name that is no path is the kernel's.
    let is_unknown = matches!(module.place, Place::Lost) && module.build_id.is_empty();
    if is_unknown || (path.is_absolute() && !path.exists()) {
        unread.gone.push(module.path.clone());
        return none;
    }
    if !is_readable(&path) {
        return none;
    }
    let Ok(bytes) = fs::read(&path) else { return none };
    let Ok(elf) = object::File::parse(&*bytes) else { return none };
    let (now, base) = match &elf {
        object::File::Pe64(program) => (identity(program), Some(elf.relative_address_base())),
        _ => (elf.build_id().ok().flatten().unwrap_or_default().to_vec(), None),
    };
    let now: String = now.iter().map(|byte| format!("{byte:02x}")).collect();
    if now != module.build_id {
        unread.changed.push(module.path.clone());
        return none;
    }
    let segments =
        elf.segments().map(|s| (s.file_range().0, s.file_range().1, s.address())).collect();
    let debug = separate_debug_file(&module.build_id);
    let loader = Loader::new(debug.as_deref().unwrap_or(&path)).ok();
    let symbols = match debug.and_then(|path| fs::read(path).ok()) {
        Some(bytes) => object::File::parse(&*bytes).map(|debug| functions_of(&debug)),
        None => Ok(functions_of(&elf)),
    };
    File { loader, segments, base, symbols: symbols.unwrap_or_default() }
}

/// What tells a Windows program from others of its name: src/port/windows_profile.c.
fn identity(program: &PeFile64) -> Vec<u8> {
    let head = program.nt_headers();
    let time = head.file_header().time_date_stamp.get(LittleEndian);
    [time, head.optional_header().size_of_image()].map(u32::to_be_bytes).concat()
}

fn functions_of(elf: &object::File) -> Vec<Symbol> {
    let is_pe = elf.format() == BinaryFormat::Pe;
    let mut in_glebe = false; // static functions follow the name of their source
    let mut functions: Vec<Symbol> = elf
        .symbols()
        .chain(elf.dynamic_symbols())
        .map(|symbol| {
            if symbol.kind() == SymbolKind::File {
                in_glebe = symbol.name() == Ok("glebe.c");
            }
            (in_glebe && symbol.is_local(), symbol)
        })
        .filter(|(_, symbol)| symbol.kind() == SymbolKind::Text && (symbol.size() > 0 || is_pe))
        .filter_map(|(ours, symbol)| {
            let (start, name) = (symbol.address(), symbol.name().ok()?.to_owned());
            Some(Symbol { start, end: start.saturating_add(symbol.size()), name, ours })
        })
        .collect();
    functions.sort_by_key(|symbol| symbol.start);
    // Symbols of Windows programs have no size.
    for next in 1..functions.len() {
        let (start, before) = (functions[next].start, &mut functions[next - 1]);
        if is_pe && before.end == before.start {
            before.end = start;
        }
    }
    functions
}

/// The function that the address is in. Code between functions with names, as in a stripped library, has none.
fn symbol_at(symbols: &[Symbol], address: u64) -> Option<&Symbol> {
    let behind = symbols.partition_point(|symbol| symbol.start <= address);
    symbols[..behind].last().filter(|symbol| address < symbol.end)
}

/// The name as its source has it. The demangler also reads types, and would make `int` of a C
/// function `i`, so it gets only names that begin like mangled ones. The units of C++ have names
/// of C too (`extern "C"`).
fn demangled(name: &str, language: Option<gimli::DwLang>) -> String {
    let is_mangled = ["_Z", "__Z", "_R"].iter().any(|begin| name.starts_with(begin));
    match is_mangled {
        true => addr2line::demangle_auto(name.into(), language).into_owned(),
        false => name.into(),
    }
}

impl Symbols {
    /// Says which files could name nothing.
    pub fn tell_unread(&self) {
        for path in &self.unread.changed {
            say(format!(
                "{} has changed since the program ran: its functions have no names",
                path.display()
            ));
        }
        if let Some((first, others)) = self.unread.gone.split_first() {
            let others = match others.len() {
                0 => String::new(),
                n => format!(" and {}", counted(n, "other file")),
            };
            let first = first.display();
            say(format!("{first}{others} cannot be read any more: functions there have no names"));
        }
    }

    /// The functions at the call whose return address this is; empty if nothing is known.
    pub fn of(&mut self, modules: &[Module], address: u64) -> &[Function] {
        if !self.found.contains_key(&address) {
            let functions = self.look_up(modules, address);
            self.found.insert(address, functions);
        }
        &self.found[&address]
    }

    fn look_up(&mut self, modules: &[Module], address: u64) -> Vec<Function> {
        let call = address - 1; // a return address may be the first one of the next function
        let Some(module) = module_of(modules, call) else { return Vec::new() };
        let Symbols { files, unread, .. } = self;
        let key = (module.path.clone(), module.build_id.clone());
        let file = files.entry(key).or_insert_with(|| open(module, unread));
        let Some(loader) = &file.loader else { return Vec::new() };
        let offset = (call - module.start).wrapping_add(module.offset);
        let in_segment = || {
            let mut all = file.segments.iter();
            let (from, _, at) = all.find(|(from, bytes, _)| offset.wrapping_sub(*from) < *bytes)?;
            Some((offset - from).wrapping_add(*at))
        };
        let place = file.base.map(|base| base.wrapping_add(offset)).or_else(in_segment);
        let Some(place) = place else { return Vec::new() };
        let symbol = symbol_at(&file.symbols, place);
        let ours = symbol.is_some_and(|symbol| symbol.ours);
        let mut functions = Vec::new();
        if let Ok(mut frames) = loader.find_frames(place) {
            while let Ok(Some(frame)) = frames.next() {
                let Some(name) = frame.function else { continue };
                let location = frame.location;
                functions.push(Function {
                    name: name.raw_name().map(|n| demangled(&n, name.language)).unwrap_or_default(),
                    file: location.as_ref().and_then(|l| l.file).unwrap_or_default().into(),
                    line: location.and_then(|l| l.line).unwrap_or(0),
                    ours,
                });
            }
        }
        if functions.is_empty() {
            if let Some(symbol) = symbol {
                let name = demangled(&symbol.name, None);
                functions.push(Function { name, file: String::new(), line: 0, ours });
            }
        }
        functions
    }
}

pub fn module_of(modules: &[Module], address: u64) -> Option<&Module> {
    modules.iter().find(|module| (module.start..module.end).contains(&address))
}

/// Whether a stack's innermost frame at this address belongs to the allocator.
pub fn is_allocator(module: Option<&Module>, functions: &[Function]) -> bool {
    const NAMES: [&str; 13] = [
        "malloc",
        "calloc",
        "realloc",
        "reallocarray",
        "aligned_alloc",
        "posix_memalign",
        "memalign",
        "valloc",
        "pvalloc",
        "strdup",
        "strndup",
        "__strdup",
        "__strndup",
    ];
    let name = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned());
    let ours = module
        .and_then(|m| name(&m.path))
        .is_some_and(|n| n.starts_with("libglebe") || n == "glebe.dll");
    ours || functions.first().is_some_and(|f| {
        let n = &*f.name;
        f.ours
            || NAMES.contains(&n)
            || n.starts_with("gb_")
            || n.starts_with("glebe_")
            || n.starts_with("operator new")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_behind_a_function_has_no_name() {
        let symbol = |start, end, name: &str| Symbol { start, end, name: name.into(), ours: false };
        let symbols = [symbol(16, 32, "first"), symbol(64, 80, "second")];
        let found = [15, 16, 31, 32, 63, 64, 79, 80]
            .map(|at| symbol_at(&symbols, at).map(|symbol| &*symbol.name));
        let (none, first, second) = (None, Some("first"), Some("second"));
        assert_eq!(found, [none, first, first, none, none, second, second, none]);
    }

    #[test]
    fn only_mangled_names_are_demangled() {
        for language in [None, Some(gimli::DW_LANG_C_plus_plus), Some(gimli::DW_LANG_Rust)] {
            for name in ["i", "f", "w", "Pc", "main", "_Z", "_R", "_start", ""] {
                assert_eq!(demangled(name, language), name);
            }
        }
        assert_eq!(demangled("_Z4keepi", None), "keep(int)");
        assert_eq!(demangled("_Z4keepi", Some(gimli::DW_LANG_C_plus_plus)), "keep(int)");
        assert_eq!(demangled("_ZN4core4keep17h0123456789abcdefE", None), "core::keep");
        assert_eq!(demangled("_RNvC4core4keep", Some(gimli::DW_LANG_Rust)), "core::keep");
    }
}
