//! Can this program take a preloaded allocator? Its ELF image shows that before it starts.
//!
//! A preload works by symbol lookup in the dynamic loader, so it can fail in four ways. Each is visible beforehand:
//!
//! ```text
//!   no loader      static: no PT_INTERP, LD_PRELOAD is not read            refuse
//!   deaf loader    AT_SECURE (setuid, setgid, file capabilities)            refuse
//!   wrong kind     other machine, word size or C library than ours          refuse
//!   lost lookup    the executable itself defines malloc, and comes first    refuse, or --force
//! ```
//!
//! All other programs run. Programs with glebe linked in are started as they are. Programs that need libmimalloc get
//! glebe under that name, since blocks of mimalloc's own functions would reach glebe's free. Three more get a note:
//! another DT_NEEDED allocator loses against a preload; an allocator linked in under its own names and Go's runtime
//! never call malloc at all.
//!
//! One function gathers the facts and another judges them, so the test of a decision needs no setuid file. An unknown
//! fact never leads to a refusal.

use super::library::mount_flags;
use super::live;
use super::search::open_regular;
use crate::run::Way;
use object::elf;
use object::read::elf::{Dyn as _, FileHeader, ProgramHeader as _, Sym as _};
use object::Endianness;
use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The facts in a program's image.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// `e_machine`, and 32 or 64.
    pub machine: u16,
    pub bits: u8,
    /// The dynamic loader (PT_INTERP).
    pub loader: Option<String>,
    /// The image is itself a dynamic loader (`ld.so PROGRAM`).
    pub is_loader: bool,
    pub needed: Vec<String>,
    /// The dynamic symbol table defines `malloc`.
    pub exports_malloc: bool,
    /// glebe's statistics are in its data: glebe is linked in.
    pub glebe: bool,
    /// An allocator that is linked in under names of its own.
    pub inner: Option<&'static str>,
    pub go: bool,
    /// Why the kernel tells the loader to ignore LD_PRELOAD.
    pub privileged: Option<&'static str>,
}

/// The outcome: reasons not to start, and remarks if it is started.
#[derive(Debug, Default, PartialEq)]
pub struct Verdict {
    pub way: Way,
    pub refusal: Option<Refusal>,
    pub notes: Vec<String>,
}

/// One clear paragraph: what, why, what to do instead.
#[derive(Debug, PartialEq)]
pub struct Refusal {
    pub text: String,
    /// `--force` may start it anyway.
    pub forceable: bool,
}

/// DT_NEEDED names of allocators that lose malloc to a preload.
const LINKED: [(&str, &str); 8] = [
    ("libmimalloc", "mimalloc"),
    ("libjemalloc", "jemalloc"),
    ("libtcmalloc", "tcmalloc"),
    ("libsnmalloc", "snmalloc"),
    ("librpmalloc", "rpmalloc"),
    ("libhardened_malloc", "hardened_malloc"),
    ("libtbbmalloc", "tbbmalloc"),
    ("libhoard", "Hoard"),
];

/// Symbols of allocators that are linked in under names of their own.
const INNER: [(&str, &str); 7] = [
    ("_rjem_malloc", "jemalloc"),
    ("je_malloc", "jemalloc"),
    ("mi_malloc", "mimalloc"),
    ("mi_heap_malloc", "mimalloc"),
    ("tc_malloc", "tcmalloc"),
    ("sn_rust_alloc", "snmalloc"),
    ("rpmalloc", "rpmalloc"),
];

/// Sanitizer runtimes must come before every other library, and bring their own malloc.
const SANITIZERS: [&str; 5] = ["libasan.", "libtsan.", "liblsan.", "libhwasan.", "libclang_rt."];

/// Reads the facts of `image`. None if it is no ELF image or cannot be read.
pub fn facts_of(image: &Path) -> Option<Facts> {
    let mapped = Mapped::open(image)?;
    let mut facts = parse(&mapped)?;
    facts.privileged = privilege_of(image);
    Some(facts)
}

/// Reads the facts in the bytes of an ELF image.
pub fn parse(bytes: &[u8]) -> Option<Facts> {
    match *bytes.get(4)? {
        elf::ELFCLASS64 => parse_as::<elf::FileHeader64<Endianness>>(bytes, 64),
        elf::ELFCLASS32 => parse_as::<elf::FileHeader32<Endianness>>(bytes, 32),
        _ => None,
    }
}

fn parse_as<Elf: FileHeader<Endian = Endianness>>(bytes: &[u8], bits: u8) -> Option<Facts> {
    let header = Elf::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let mut facts = Facts { machine: header.e_machine(endian), bits, ..Facts::default() };
    for segment in header.program_headers(endian, bytes).ok()? {
        if let Ok(Some(loader)) = segment.interpreter(endian, bytes) {
            facts.loader = Some(String::from_utf8_lossy(loader).into_owned());
        }
        if segment.p_type(endian) == elf::PT_LOAD && segment.p_flags(endian) & elf::PF_W != 0 {
            let data = segment.data(endian, bytes).unwrap_or_default();
            let unaligned = (8 - segment.p_vaddr(endian).into() % 8) % 8;
            facts.glebe |= live::is_in(data.get(unaligned as usize..).unwrap_or_default());
        }
    }
    // Sections may have been stripped; then the other facts stay unknown.
    let Ok(sections) = header.sections(endian, bytes) else { return Some(facts) };
    for section in sections.iter() {
        let name = sections.section_name(endian, section).unwrap_or_default();
        facts.go |= name == b".go.buildinfo" || name == b".note.go.buildid";
    }
    if let Ok(Some((entries, link))) = sections.dynamic(endian, bytes) {
        let strings = sections.strings(endian, bytes, link).unwrap_or_default();
        for entry in entries {
            let tag = entry.d_tag(endian).into();
            let text = || entry.string(endian, strings).ok().map(String::from_utf8_lossy);
            if tag == u64::from(elf::DT_NEEDED) {
                facts.needed.extend(text().map(|name| name.into_owned()));
            } else if tag == u64::from(elf::DT_SONAME) {
                facts.is_loader |= text().is_some_and(|name| name.starts_with("ld-"));
            }
        }
    }
    for table in [elf::SHT_DYNSYM, elf::SHT_SYMTAB] {
        let Ok(symbols) = sections.symbols(endian, bytes, table) else { continue };
        for symbol in symbols.iter().filter(|s| s.st_shndx(endian) != elf::SHN_UNDEF) {
            let name = symbol.name(endian, symbols.strings()).unwrap_or_default();
            let function = matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC);
            if table == elf::SHT_DYNSYM && name == b"malloc" && function {
                facts.exports_malloc = true;
            }
            if facts.inner.is_none() && function {
                let known = INNER.iter().find(|(known, _)| known.as_bytes() == name);
                facts.inner = known.map(|(_, allocator)| *allocator);
            }
        }
    }
    Some(facts)
}

/// Why the kernel would start this file with AT_SECURE, so that the loader ignores LD_PRELOAD.
fn privilege_of(image: &Path) -> Option<&'static str> {
    if mount_flags(image) & libc::ST_NOSUID != 0 {
        return None;
    }
    let meta = fs::metadata(image).ok()?;
    // SAFETY: these four have no arguments and cannot fail.
    let (uid, gid, euid, egid) =
        unsafe { (libc::getuid(), libc::getgid(), libc::geteuid(), libc::getegid()) };
    let mode = meta.mode();
    let new_uid = if mode & libc::S_ISUID != 0 { meta.uid() } else { euid };
    let sgid = mode & libc::S_ISGID != 0 && mode & libc::S_IXGRP != 0;
    let new_gid = if sgid { meta.gid() } else { egid };
    if new_uid != uid {
        return Some("it is setuid");
    }
    if new_gid != gid {
        return Some("it is setgid");
    }
    let path = CString::new(image.as_os_str().as_bytes()).ok()?;
    // SAFETY: both strings end in NUL; with size 0 getxattr only asks for the length.
    let length = unsafe {
        libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0)
    };
    (length > 0 && uid != 0).then_some("it has file capabilities")
}

/// The soname of glebe's stand-in for a library of mimalloc that a program is linked to.
fn mimalloc(needed: &str) -> Option<&'static str> {
    let (name, version) = needed.split_once(".so.")?;
    match (name, version.split('.').next()?) {
        ("libmimalloc" | "libmimalloc-secure" | "libmimalloc-debug", "2") => {
            Some("libmimalloc.so.2")
        }
        ("libmimalloc" | "libmimalloc-secure" | "libmimalloc-debug", "3") => {
            Some("libmimalloc.so.3")
        }
        _ => None,
    }
}

/// Decides. `name` is what the user calls the program, `library` the facts of the library.
pub fn judge(name: &str, program: &Facts, library: &Facts) -> Verdict {
    let mut verdict = Verdict::default();
    let is_static = program.loader.is_none() && !program.is_loader;
    if program.glebe && (program.exports_malloc || is_static) {
        verdict.way = Way::Inside;
        verdict.notes.push(format!(
            "{name} has glebe linked in: nothing is put under it, and it reads the options itself"
        ));
        return verdict;
    }
    if program.glebe {
        verdict.notes.push(format!(
            "{name} has a glebe of its own inside, beside its malloc, which this one serves; each of the two prints \
             its own statistics"
        ));
    }
    if let Some((text, forceable)) = refuse(name, program, library) {
        verdict.refusal = Some(Refusal { text, forceable });
    }
    let linked = program.needed.iter().find_map(|needed| known_allocator(needed));
    if let Some(soname) = program.needed.iter().find_map(|needed| mimalloc(needed)) {
        verdict.way = Way::StandIn(soname);
    } else if let Some(allocator) = linked {
        verdict.notes.push(format!(
            "{name} is linked with {allocator}; a preloaded library comes first, so glebe takes its \
             malloc and free, but direct calls of {allocator}'s own functions still reach {allocator}"
        ));
    }
    if let Some(allocator) = program.inner.filter(|_| !program.exports_malloc) {
        verdict.notes.push(format!(
            "{name} carries {allocator} under names of its own; glebe serves only what still calls \
             malloc, which may be little"
        ));
    }
    if program.go {
        verdict.notes.push(format!(
            "{name} is a Go program: Go's runtime gets its memory straight from the kernel, so glebe \
             serves only its C parts (cgo)"
        ));
    }
    verdict
}

fn refuse(name: &str, program: &Facts, library: &Facts) -> Option<(String, bool)> {
    if program.loader.is_none() && !program.is_loader {
        let instead = if program.go {
            "There is nothing to do instead: Go's runtime gets its memory straight from the kernel \
             and does not use malloc."
        } else {
            "Instead, link it dynamically, or link glebe into it (libglebe-override.a)."
        };
        return Some((
            format!(
                "{name} is statically linked: no dynamic loader runs, so nothing can be preloaded \
                 into it. {instead}"
            ),
            false,
        ));
    }
    if (program.machine, program.bits) != (library.machine, library.bits) {
        return Some((
            format!(
                "{name} is built for {}, and this glebe carries a library for {}, which its loader \
                 would ignore. Instead, use a glebe that was built for {}.",
                kind(program),
                kind(library),
                kind(program)
            ),
            false,
        ));
    }
    if program.loader.is_some() && is_musl(program) != is_musl(library) {
        let c_library = |facts| if is_musl(facts) { "musl" } else { "glibc" };
        let (its, ours) = (c_library(program), c_library(library));
        return Some((
            format!(
                "{name} uses {its}, and this glebe was built for {ours}, whose libraries {its}'s loader cannot load. \
                 Instead, use a glebe that was built on {its}. (--force starts it anyway.)"
            ),
            true,
        ));
    }
    if let Some(why) = program.privileged {
        return Some((
            format!(
                "{name} runs with more rights than you have ({why}), so the dynamic loader ignores \
                 LD_PRELOAD. Instead, run it as the user it changes to, or on a copy without these \
                 rights, or link glebe into it."
            ),
            false,
        ));
    }
    if let Some(runtime) =
        program.needed.iter().find(|n| SANITIZERS.iter().any(|s| n.starts_with(s)))
    {
        return Some((
            format!(
                "{name} was built with a sanitizer ({runtime}), whose runtime must be the first \
                 library and brings its own malloc. Instead, build it without -fsanitize. \
                 (--force starts it anyway.)"
            ),
            true,
        ));
    }
    if program.exports_malloc {
        let whose = program.inner.map(|a| format!(" ({a})")).unwrap_or_default();
        return Some((
            format!(
                "{name} defines malloc itself{whose}: symbols of the executable come before every \
                 preloaded library, so glebe would not be used. Instead, build it without its \
                 allocator. (--force starts it anyway.)"
            ),
            true,
        ));
    }
    None
}

/// True if the image is for the C library musl. Its soname has no version, or names the processor.
fn is_musl(facts: &Facts) -> bool {
    let needs = |name: &String| name == "libc.so" || name.starts_with("libc.musl");
    facts.loader.as_deref().is_some_and(|loader| loader.contains("ld-musl"))
        || facts.needed.iter().any(needs)
}

/// The allocator in a library of this file name.
pub fn known_allocator(file_name: &str) -> Option<&'static str> {
    LINKED.iter().find(|(prefix, _)| file_name.starts_with(prefix)).map(|(_, name)| *name)
}

fn kind(facts: &Facts) -> String {
    let machine = match facts.machine {
        elf::EM_X86_64 if facts.bits == 32 => "x32",
        elf::EM_X86_64 => "x86-64",
        elf::EM_386 => "32-bit x86",
        elf::EM_AARCH64 => "AArch64",
        elf::EM_ARM => "32-bit Arm",
        elf::EM_RISCV => "RISC-V",
        elf::EM_PPC64 => "POWER",
        elf::EM_S390 => "s390",
        elf::EM_LOONGARCH => "LoongArch",
        other => return format!("{}-bit (ELF machine {other})", facts.bits),
    };
    machine.to_string()
}

/// A file mapped for reading, so that big programs cost only the pages that are read.
struct Mapped {
    start: *mut libc::c_void,
    length: usize,
}

impl Mapped {
    fn open(path: &Path) -> Option<Mapped> {
        let file = open_regular(path).ok()?;
        let length = usize::try_from(file.metadata().ok()?.len()).ok().filter(|n| *n > 0)?;
        // SAFETY: a fresh private read-only mapping of a file that we hold open.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        (start != libc::MAP_FAILED).then_some(Mapped { start, length })
    }
}

impl std::ops::Deref for Mapped {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is `length` bytes long and lives as long as self.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.length) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no slice of it outlives self.
        unsafe { libc::munmap(self.start, self.length) };
    }
}

#[cfg(test)]
#[path = "inspect_tests.rs"]
mod tests;
