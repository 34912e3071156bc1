//! `glebe stats PID`: the numbers of a process as it runs.
//!
//! A running process is read from outside, by process_vm_readv and nothing else: no file of its
//! file system is opened, so it works across containers, after the library was deleted, and for
//! programs with glebe linked in, if they export its symbols. What is read is what the dynamic loader itself reads:
//!
//! ```text
//!   /proc/PID/maps ─▶ each mapping of a file at offset 0 ─▶ ELF header ─▶ PT_DYNAMIC
//!       ─▶ DT_GNU_HASH, DT_SYMTAB, DT_STRTAB ─▶ symbols glebe_live, glebe_live_names
//!
//!   glebe_live         magic "glebeLIV" | version 1 | size_bytes | count | count values    all u64
//!   glebe_live_names   "committed_bytes\0used_bytes\0…\0\0"
//! ```
//!
//! Names come from the process, so this reader knows no statistic by name and never gets old.
//! Values are read while the process runs: each is whole, together they are a moment's blur.

use crate::size;
use crate::stop::Ending;
use crate::words::print;
use anyhow::{anyhow, bail, Context, Result};
use comfy_table::{presets, CellAlignment, Table};
use serde_json::{Map, Value};
use std::fs;
use std::io;

const MAGIC: u64 = 0x676c_6562_654c_4956;
const VERSION: u64 = 1;
/// More statistics than this are a misread.
const COUNT_MAX: u64 = 4096;

/// One statistic: name and value. Units are in the name (`_bytes`), all else are counts.
type Statistic = (String, u64);

/// Prints the statistics of a running process.
pub fn show_live(pid: i32, json: bool) -> Result<Ending> {
    let statistics = read_live(pid)?;
    if json {
        let pairs = statistics.into_iter().map(|(name, value)| (name, Value::from(value)));
        print(Value::Object(pairs.collect::<Map<_, _>>()))?;
    } else {
        print(table(&statistics).trim_fmt())?;
    }
    Ok(Ending::Exit(0))
}

fn table(statistics: &[Statistic]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    for (name, value) in statistics {
        match name.strip_suffix("_bytes") {
            Some(name) => {
                let mib = format!("{:.2}", size::mib(*value as f64));
                table.add_row([name.replace('_', " "), mib, "MiB".into()])
            }
            None => table.add_row([name.replace('_', " "), value.to_string(), String::new()]),
        };
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Finds glebe in the process and reads its statistics.
fn read_live(pid: i32) -> Result<Vec<Statistic>> {
    let maps = match fs::read_to_string(format!("/proc/{pid}/maps")) {
        Ok(maps) => maps,
        Err(e) if e.kind() == io::ErrorKind::NotFound => bail!("there is no process {pid}"),
        Err(e) => return Err(denied(pid, &e)),
    };
    let memory = Memory { pid };
    if maps.is_empty() {
        bail!("process {pid} has no memory: it is a kernel thread or has ended");
    }
    for base in images(&maps) {
        match memory.read::<4>(base) {
            Ok(head) if head == *b"\x7fELF" => {}
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => return Err(denied(pid, &e)),
            _ => continue,
        }
        if let Some((live, names)) = find_symbols(&memory, base) {
            return read_statistics(&memory, live, names)
                .with_context(|| format!("process {pid} has glebe inside, but cannot be read"));
        }
    }
    bail!(
        "no glebe was found in process {pid}: nothing in it exports glebe_live. Start it with: \
         glebe run -- PROGRAM. (A program that glebe is linked into shows it if it is dynamic and was \
         linked with -rdynamic.)"
    )
}

fn denied(pid: i32, error: &io::Error) -> anyhow::Error {
    anyhow!(
        "no permission to read process {pid} ({error}); it takes the rights of a debugger: its own \
         user (and kernel.yama.ptrace_scope 0), or root"
    )
}

/// Where an ELF image may begin: mappings of files at offset 0.
fn images(maps: &str) -> Vec<u64> {
    let begin = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let range = words.next()?;
        let (rights, offset) = (words.next()?, words.next()?);
        let named = words.nth(2).is_some_and(|name| name.starts_with('/'));
        let readable = rights.starts_with('r') && u64::from_str_radix(offset, 16) == Ok(0);
        let start = u64::from_str_radix(range.split('-').next()?, 16).ok()?;
        (named && readable).then_some(start)
    };
    maps.lines().filter_map(begin).collect()
}

/// The addresses of `glebe_live` and `glebe_live_names` in the image at `base`.
fn find_symbols(memory: &impl Reader, base: u64) -> Option<(u64, u64)> {
    let dynamic = Dynamic::read(memory, base)?;
    let live = dynamic.lookup(memory, b"glebe_live")?;
    Some((live, dynamic.lookup(memory, b"glebe_live_names")?))
}

fn read_statistics(memory: &impl Reader, live: u64, names: u64) -> Result<Vec<Statistic>> {
    let [magic, version, size_bytes, count] = [0, 8, 16, 24].map(|at| memory.u64(live + at));
    if magic? != MAGIC {
        bail!("glebe_live does not begin with its magic number");
    }
    let (version, count) = (version?, count?);
    if version != VERSION {
        bail!("its statistics are of layout {version}, and this command reads layout {VERSION}");
    }
    if count > COUNT_MAX || size_bytes? < 32 + 8 * count {
        bail!("glebe_live claims {count} statistics, which its size does not hold");
    }
    let mut statistics = Vec::new();
    let mut at = names;
    for index in 0..count {
        let name = memory.string(at).context("a name of a statistic")?;
        if name.is_empty() {
            bail!("there are {count} statistics and only {index} names");
        }
        at += name.len() as u64 + 1;
        statistics.push((name, memory.u64(live + 32 + 8 * index)?));
    }
    Ok(statistics)
}

/// The dynamic section of an image that is loaded in a 64-bit process of this machine's kind.
struct Dynamic {
    base: u64,
    gnu_hash: u64,
    symbols: u64,
    strings: u64,
}

impl Dynamic {
    fn read(memory: &impl Reader, base: u64) -> Option<Dynamic> {
        const CLASS64: u8 = 2;
        const TYPE_EXEC: u16 = 2;
        const PT_DYNAMIC: u32 = 2;
        const ENTRIES_MAX: u64 = 512;
        if memory.read::<1>(base + 4).ok()? != [CLASS64] {
            return None;
        }
        let fixed = u16::from_ne_bytes(memory.read(base + 16).ok()?) == TYPE_EXEC;
        let bias = if fixed { 0 } else { base };
        let table = base + memory.u64(base + 32).ok()?;
        let count = u16::from_ne_bytes(memory.read(base + 56).ok()?);
        let header = (0..u64::from(count)).map(|i| table + 56 * i);
        let header = header.into_iter().find(|at| memory.u32(*at).ok() == Some(PT_DYNAMIC))?;
        let section = bias + memory.u64(header + 16).ok()?;

        // glibc relocates these pointers in place, musl and the vDSO do not: both are understood.
        let absolute = |value: u64| if value < base { bias + value } else { value };
        let mut found = Dynamic { base: bias, gnu_hash: 0, symbols: 0, strings: 0 };
        for entry in (0..ENTRIES_MAX).map(|i| section + 16 * i) {
            let value = absolute(memory.u64(entry + 8).ok()?);
            match memory.u64(entry).ok()? {
                0 => break,
                5 => found.strings = value,
                6 => found.symbols = value,
                0x6fff_fef5 => found.gnu_hash = value,
                _ => {}
            }
        }
        (found.gnu_hash != 0 && found.symbols != 0 && found.strings != 0).then_some(found)
    }

    /// The loader's lookup: GNU hash table, bucket, chain until its last bit is set.
    fn lookup(&self, memory: &impl Reader, name: &[u8]) -> Option<u64> {
        const CHAIN_MAX: u64 = 100_000;
        let hash = name.iter().fold(5381u32, |h, b| h.wrapping_mul(33).wrapping_add((*b).into()));
        let [buckets, first, bloom] = [0, 4, 8].map(|at| memory.u32(self.gnu_hash + at).ok());
        let (buckets, first, bloom) = (buckets?, u64::from(first?), u64::from(bloom?));
        if buckets == 0 {
            return None;
        }
        let table = self.gnu_hash + 16 + 8 * bloom;
        let chains = table + 4 * u64::from(buckets);
        let start = u64::from(memory.u32(table + 4 * u64::from(hash % buckets)).ok()?);
        if start < first {
            return None;
        }
        for index in start..start + CHAIN_MAX {
            let link = memory.u32(chains + 4 * (index - first)).ok()?;
            if link | 1 == hash | 1 {
                let symbol = self.symbols + 24 * index;
                let text = self.strings + u64::from(memory.u32(symbol).ok()?);
                let section = u16::from_ne_bytes(memory.read(symbol + 6).ok()?);
                if section != 0 && memory.string(text).ok()?.as_bytes() == name {
                    return Some(self.base + memory.u64(symbol + 8).ok()?);
                }
            }
            if link & 1 == 1 {
                break;
            }
        }
        None
    }
}

/// Memory that can be read by address.
trait Reader {
    fn fill(&self, address: u64, bytes: &mut [u8]) -> io::Result<()>;

    fn read<const N: usize>(&self, address: u64) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(address, &mut bytes).map(|()| bytes)
    }

    fn u32(&self, address: u64) -> io::Result<u32> {
        self.read(address).map(u32::from_ne_bytes)
    }

    fn u64(&self, address: u64) -> io::Result<u64> {
        self.read(address).map(u64::from_ne_bytes)
    }

    /// ASCII up to a NUL, 200 bytes at most.
    fn string(&self, address: u64) -> io::Result<String> {
        let mut text = String::new();
        for at in address..address + 200 {
            match self.read::<1>(at)? {
                [0] => return Ok(text),
                [byte] => text.push(char::from(byte)),
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "a name without an end"))
    }
}

/// The memory of another process.
struct Memory {
    pid: i32,
}

impl Reader for Memory {
    fn fill(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let remote = libc::iovec { iov_base: address as *mut _, iov_len: bytes.len() };
        // SAFETY: writes to `bytes` only; the remote side is checked by the kernel.
        match unsafe { libc::process_vm_readv(self.pid, &local, 1, &remote, 1, 0) } {
            n if n == bytes.len() as isize => Ok(()),
            -1 => Err(io::Error::last_os_error()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Statistics as a library lays them out, at address 1000, with the names at 2000.
    struct Sample {
        live: Vec<u64>,
        names: &'static [u8],
    }

    impl Reader for Sample {
        fn fill(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
            let live: Vec<u8> = self.live.iter().flat_map(|v| v.to_ne_bytes()).collect();
            let (area, at) = match address {
                2000.. => (self.names, address - 2000),
                _ => (&live[..], address.wrapping_sub(1000)),
            };
            let area = area.get(at as usize..at as usize + bytes.len());
            bytes.copy_from_slice(area.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }
    }

    fn read(live: &[u64], names: &'static [u8]) -> Result<Vec<Statistic>> {
        read_statistics(&Sample { live: live.to_vec(), names }, 1000, 2000)
    }

    #[test]
    fn names_and_values_are_paired() {
        let statistics = read(&[MAGIC, 1, 48, 2, 3 << 20, 7], b"used_bytes\0heaps\0\0").unwrap();
        assert_eq!(statistics, [("used_bytes".into(), 3 << 20), ("heaps".into(), 7)]);
        let table = table(&statistics).to_string();
        assert!(
            table.contains("3.00") && table.contains("MiB") && table.contains("heaps"),
            "{table}"
        );
    }

    #[test]
    fn a_struct_that_lies_is_refused() {
        let says = |live: &[u64], names| read(live, names).unwrap_err().to_string();
        assert!(says(&[1, 1, 40, 1, 0], b"a\0\0").contains("magic"));
        assert!(says(&[MAGIC, 2, 40, 1, 0], b"a\0\0").contains("layout 2"));
        assert!(says(&[MAGIC, 1, 40, 2, 0], b"a\0b\0\0").contains("size"));
        assert!(says(&[MAGIC, 1, 1 << 40, 1 << 30, 0], b"a\0\0").contains("claims"));
        assert!(says(&[MAGIC, 1, 48, 2, 0, 0], b"a\0\0").contains("only 1 names"));
    }

    #[test]
    fn images_begin_at_offset_zero_of_files() {
        let maps = "1000-2000 r--p 00000000 08:01 12 /lib/a.so\n\
                    2000-3000 r-xp 00001000 08:01 12 /lib/a.so\n\
                    4000-5000 rw-p 00000000 00:00 0 \n\
                    6000-7000 ---p 00000000 08:01 12 /lib/b.so\n\
                    8000-9000 r-xp 00000000 08:01 13 /tmp/with space (deleted)\n";
        assert_eq!(images(maps), [0x1000, 0x8000]);
    }

    #[test]
    fn symbols_are_found_as_the_loader_finds_them() {
        // The C library of this very process: where does it keep `environ`?
        let pid = std::process::id() as i32;
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let memory = Memory { pid };
        let found = images(&maps)
            .into_iter()
            .find_map(|base| Dynamic::read(&memory, base)?.lookup(&memory, b"stdout"));
        // SAFETY: dlsym is given a NUL-terminated name.
        let expected = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"stdout".as_ptr()) } as u64;
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn a_process_without_glebe_is_told_how_to_get_it() {
        let error = read_live(std::process::id() as i32).unwrap_err().to_string();
        assert!(error.contains("glebe run"), "{error}");
        assert!(read_live(i32::MAX).unwrap_err().to_string().contains("no process"));
    }
}
