//! `glebe stats PID`: the numbers of a process as it runs.
//!
//! We read the process from outside, by process_vm_readv and /proc, and never stop it. We open no file of its file
//! system, so this works across containers and after a file was deleted. We need no symbols, so it works however glebe
//! got in: preloaded, linked in (static, PIE or not, stripped), in a Rust program, in a Lua module.
//!
//! ```text
//!   /proc/PID/maps ─▶ the mappings of each file
//!       writable ─▶ glebe_live         magic "glebeLIV" | version 1 | size_bytes | count | count values    all u64
//!       any      ─▶ glebe_live_names   "committed_bytes\0used_bytes\0…\0\0"
//! ```
//!
//! The names come from the process: this reader knows only two, and new ones need no new reader. Each value is read
//! whole, but the process runs on meanwhile, so the values are not of one moment.

use super::measure::children;
use super::statistics::{plain, Statistics};
use crate::stop::Ending;
use crate::words::{print, say};
use anyhow::{anyhow, bail, Context, Result};
use std::fs;
use std::io;

/// The first word of glebe_live in memory.
pub const MAGIC: [u8; 8] = 0x676c_6562_654c_4956_u64.to_ne_bytes();
const VERSION: u64 = 1;
/// Magic, version, size and count.
const HEAD_BYTES: u64 = 32;
/// A larger count means that this is not glebe_live.
const COUNT_MAX: u64 = 4096;
/// How glebe_live_names begins.
const NAMES_BEGIN: &[u8] = b"committed_bytes\0used_bytes\0";

/// Prints the statistics of a running process.
pub fn show_live(pid: i32, json: bool) -> Result<Ending> {
    for statistics in read_live(pid)? {
        print(if json { statistics.json() } else { statistics.text() })?;
    }
    Ok(Ending::Exit(0))
}

/// The statistics of the process, which must exist, and may end meanwhile.
fn read_live(pid: i32) -> Result<Vec<Statistics>> {
    there_is(pid)?;
    read_tree(pid).map_err(|error| or_ended(pid, error))
}

/// Fails unless there is such a process, or what is left of one.
pub fn there_is(pid: i32) -> Result<()> {
    match fs::metadata(format!("/proc/{pid}")) {
        Ok(_) => Ok(()),
        Err(_) => bail!("there is no process {pid}"),
    }
}

/// Why a process could not be read: it has ended meanwhile, or its main thread has, or `error`.
pub fn or_ended(pid: i32, error: anyhow::Error) -> anyhow::Error {
    match runs(pid) {
        true => error,
        false if has_other_threads(pid) => anyhow!(
            "the main thread of process {pid} has ended: the kernel shows nothing of its memory any more, though other \
             threads run"
        ),
        false => anyhow!("process {pid} has ended"),
    }
}

/// The process's threads, those included that are ending.
pub fn threads_of(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    threads.filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Whether a thread besides the main one runs or waits.
fn has_other_threads(pid: i32) -> bool {
    let lives = |thread| matches!(state_of_thread(pid, thread), Some('R' | 'S' | 'D'));
    threads_of(pid).into_iter().any(|thread| thread != pid && lives(thread))
}

/// Whether there is such a process, or thread, and it has not ended. One that exits loses its memory before it is
/// called a zombie; the flag PF_EXITING comes first.
pub fn runs(pid: i32) -> bool {
    const EXITING: u64 = 4;
    let words = stat_of(pid).unwrap_or_default();
    let flags = words.get(6).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    !matches!(words.first().map(String::as_str), None | Some("Z" | "X")) && flags & EXITING == 0
}

/// A text of the kernel's. It contains names of files and programs, which are any bytes.
pub fn text_of(path: String) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

/// The words of /proc/PID/stat behind the name, which may contain spaces and parentheses: the state is the first.
pub fn stat_of(pid: i32) -> Option<Vec<String>> {
    let text = text_of(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind) = text.rsplit_once(')')?;
    Some(behind.split_whitespace().map(String::from).collect())
}

/// The state of a thread. Its file here has its own times; for /proc/TID/stat the kernel sums those of all threads,
/// which takes 1.3 ms if there are 10,000.
pub fn state_of_thread(pid: i32, tid: i32) -> Option<char> {
    let text = text_of(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    text.rsplit_once(')')?.1.trim_start().chars().next()
}

/// The statistics of each glebe in the process, mostly one. If it has none, those of the first descendant that has
/// some: a shell, timeout or this command waits for the program that the user means.
fn read_tree(pid: i32) -> Result<Vec<Statistics>> {
    const TREE_MAX: usize = 1000;
    let found = read_process(pid)?;
    if !found.is_empty() {
        return Ok(found);
    }
    let mut tree = children(pid);
    let mut next = 0;
    while let Some(child) = tree.get(next).copied() {
        next += 1;
        // Skip a process that has ended meanwhile or belongs to another user.
        if let Some(found) = read_process(child).ok().filter(|found| !found.is_empty()) {
            let of = name_of(pid);
            say(format!("note: {of}[{pid}] has no glebe; this is its child {child}"));
            return Ok(found);
        }
        if tree.len() < TREE_MAX {
            tree.extend(children(child));
        }
    }
    Err(no_glebe(pid, &name_of(pid), "run"))
}

/// The error about a process without glebe. `command`: the one that puts glebe under the program.
pub fn no_glebe(pid: i32, program: &str, command: &str) -> anyhow::Error {
    let error = anyhow!(
        "no glebe was found in process {pid} ({program}), or it has served no request. To put glebe under the \
         program: glebe {command} -- {program} ARGUMENT... To see whether glebe is linked into it, start it with \
         GLEBE_VERBOSE=1 and look for `was active` at its exit."
    );
    or_ended(pid, error)
}

/// The error about a process of which only the number is left, or never was more.
pub fn no_memory(pid: i32) -> anyhow::Error {
    anyhow!("process {pid} has no memory: it is a kernel thread or has ended")
}

/// The process's mappings, as text of the kernel.
pub fn maps_of(pid: i32) -> Result<String> {
    match text_of(format!("/proc/{pid}/maps")) {
        Ok(maps) if maps.is_empty() => Err(no_memory(pid)),
        Ok(maps) => Ok(maps),
        Err(e) if e.kind() == io::ErrorKind::NotFound => bail!("there is no process {pid}"),
        Err(e) => Err(denied(pid, &e)),
    }
}

/// The process's memory. Fails unless it may be read.
pub fn memory_of(pid: i32, pieces: &[Piece<'_>]) -> Result<Memory> {
    let memory = Memory { pid };
    if let Some(first) = pieces.first() {
        match memory.read::<4>(first.start) {
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => return Err(denied(pid, &e)),
            _ => {}
        }
    }
    Ok(memory)
}

/// The statistics of each glebe in one process, the executable's first.
fn read_process(pid: i32) -> Result<Vec<Statistics>> {
    let maps = maps_of(pid)?;
    let pieces = pieces(&maps);
    let memory = memory_of(pid, &pieces)?;
    let program = program_of(&memory).unwrap_or_else(|| name_of(pid));
    let mut all = Vec::new();
    for (live, file) in find_live(&memory, &pieces) {
        let values = read_statistics(&memory, &pieces, live, file).with_context(|| {
            format!("process {pid} has glebe inside ({file}), but cannot be read")
        })?;
        all.push(Statistics { program: program.clone(), pid: pid as u32, values });
    }
    Ok(all)
}

/// One statistic of the first glebe in a process.
pub fn statistic_of(pid: i32, name: &str) -> Option<u64> {
    let all = read_process(pid).ok()?;
    let values = &all.first()?.values;
    values.iter().find(|(n, _)| n == name).map(|(_, value)| *value)
}

pub fn denied(pid: i32, error: &io::Error) -> anyhow::Error {
    anyhow!(
        "no permission to read process {pid} ({error}); it takes the rights of a debugger: its own \
         user (and kernel.yama.ptrace_scope 0), or CAP_SYS_PTRACE, which root has outside of most containers"
    )
}

/// The kernel's name of a process: at most 15 characters.
pub fn name_of(pid: i32) -> String {
    plain(fs::read(format!("/proc/{pid}/comm")).unwrap_or_default().trim_ascii())
}

/// The program's name as the library prints it: the file passed to execve (AT_EXECFN), without its path.
pub fn program_of(memory: &Memory) -> Option<String> {
    let auxiliary = fs::read(format!("/proc/{}/auxv", memory.pid)).ok()?;
    let word = |bytes: &[u8]| bytes.try_into().map(usize::from_ne_bytes).unwrap_or(0);
    let mut pairs = auxiliary.chunks_exact(2 * size_of::<usize>());
    let pair = pairs.find(|pair| word(&pair[..size_of::<usize>()]) == libc::AT_EXECFN as usize)?;
    let path = memory.string(word(&pair[size_of::<usize>()..]) as u64, 4096).ok()?;
    Some(plain(path.rsplit(|byte| *byte == b'/').next()?))
}

/// A mapping of a file that can be read.
#[derive(Debug, PartialEq)]
pub struct Piece<'a> {
    pub start: u64,
    pub end: u64,
    pub writable: bool,
    pub file: &'a str,
}

pub fn pieces(maps: &str) -> Vec<Piece<'_>> {
    let piece = |line| {
        let (range, rest) = str::split_once(line, ' ')?;
        let (start, end) = range.split_once('-')?;
        let rights = rest.get(..4)?;
        let file = &rest[rest.find('/')?..];
        let at = |text| u64::from_str_radix(text, 16).ok();
        // Reading a device may have side effects.
        let usable = rights.starts_with('r') && !file.starts_with("/dev/");
        usable.then_some(Piece {
            start: at(start)?,
            end: at(end)?,
            writable: rights[1..].starts_with('w'),
            file,
        })
    };
    maps.lines().filter_map(piece).collect()
}

/// Each glebe_live, with the file that it is in.
pub fn find_live<'a>(memory: &impl Reader, pieces: &[Piece<'a>]) -> Vec<(u64, &'a str)> {
    let mut found = Vec::new();
    for piece in pieces.iter().filter(|piece| piece.writable) {
        memory.search(piece, &MAGIC, |at| {
            let [version, size_bytes, count] =
                [8, 16, 24].map(|offset| memory.u64(at + offset).unwrap_or(0));
            if at % 8 == 0 && version > 0 && is_whole(size_bytes, count) {
                found.push((at, piece.file));
            }
            false
        });
    }
    found
}

/// True if the data section of a file contains glebe_live. `data` starts at an address that is a multiple of 8.
pub fn is_in(data: &[u8]) -> bool {
    let words = data.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
    let mut words = words.fuse();
    while let Some(word) = words.next() {
        if word.to_ne_bytes() == MAGIC {
            let [version, size_bytes, count] = [0; 3].map(|_| words.next().unwrap_or(0));
            if version > 0 && is_whole(size_bytes, count) {
                return true;
            }
        }
    }
    false
}

fn is_whole(size_bytes: u64, count: u64) -> bool {
    (1..=COUNT_MAX).contains(&count) && size_bytes == HEAD_BYTES + 8 * count
}

/// The statistics in the struct at `live`, with the names from the same file.
fn read_statistics(
    memory: &impl Reader,
    pieces: &[Piece],
    live: u64,
    file: &str,
) -> Result<Vec<(String, u64)>> {
    let (version, count) = (memory.u64(live + 8)?, memory.u64(live + 24)?);
    if version != VERSION {
        bail!("its statistics are of layout {version}, and this command reads layout {VERSION}");
    }
    let mut names = Vec::new();
    for piece in pieces.iter().filter(|piece| piece.file == file) {
        memory.search(piece, NAMES_BEGIN, |at| {
            names = names_at(memory, at, count).unwrap_or_default();
            !names.is_empty()
        });
        if !names.is_empty() {
            break;
        }
    }
    if names.is_empty() {
        bail!("there are {count} statistics, and no list of as many names");
    }
    let value = |(index, name)| Ok((name, memory.u64(live + HEAD_BYTES + 8 * index as u64)?));
    names.into_iter().enumerate().map(value).collect()
}

/// A list of exactly `count` names. A NUL ends each name, an empty name the list.
fn names_at(memory: &impl Reader, mut at: u64, count: u64) -> Option<Vec<String>> {
    let mut names = Vec::new();
    loop {
        let name = memory.string(at, 200).ok()?;
        at += name.len() as u64 + 1;
        match name.is_empty() {
            true => return (names.len() as u64 == count).then_some(names),
            false => names.push(plain(&name)),
        }
        if names.len() as u64 > count {
            return None;
        }
    }
}

/// Memory that can be read by address.
pub trait Reader {
    fn fill(&self, address: u64, bytes: &mut [u8]) -> io::Result<()>;

    fn read<const N: usize>(&self, address: u64) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(address, &mut bytes).map(|()| bytes)
    }

    fn u64(&self, address: u64) -> io::Result<u64> {
        self.read(address).map(u64::from_ne_bytes)
    }

    /// Bytes up to a NUL, at most `most`.
    fn string(&self, address: u64, most: u64) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        for at in address..address + most {
            match self.read::<1>(at)? {
                [0] => return Ok(text),
                [byte] => text.push(byte),
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "a text without an end"))
    }

    /// Calls `end` with each address of `wanted` in the piece, until it returns true. Skips unreadable parts.
    fn search(&self, piece: &Piece, wanted: &[u8], mut end: impl FnMut(u64) -> bool) {
        const STEP: u64 = 1 << 18;
        let overlap = wanted.len() as u64 - 1;
        let mut buffer = vec![0; STEP as usize];
        let mut at = piece.start;
        while at + overlap < piece.end {
            let length = STEP.min(piece.end - at);
            let bytes = &mut buffer[..length as usize];
            if self.fill(at, bytes).is_ok() {
                let windows = bytes.windows(wanted.len()).enumerate();
                for (offset, _) in windows.filter(|(_, window)| *window == wanted) {
                    if end(at + offset as u64) {
                        return;
                    }
                }
            }
            at += if length == STEP { STEP - overlap } else { length };
        }
    }
}

/// The memory of another process.
pub struct Memory {
    pub pid: i32,
}

impl Memory {
    /// Fills at most so many parts at once.
    pub const PARTS_MOST: usize = 1024;

    /// Writes into the process.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let local = libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() };
        let remote = libc::iovec { iov_base: address as *mut _, iov_len: bytes.len() };
        // SAFETY: reads `bytes` only; the remote side is checked by the kernel.
        match unsafe { libc::process_vm_writev(self.pid, &local, 1, &remote, 1, 0) } {
            n if n == bytes.len() as isize => Ok(()),
            -1 => Err(io::Error::last_os_error()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Fills several parts, by one system call.
    pub fn fill_parts(&self, parts: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        let area =
            |base: *mut libc::c_void, bytes: usize| libc::iovec { iov_base: base, iov_len: bytes };
        let local: Vec<_> = parts
            .iter_mut()
            .map(|(_, bytes)| area(bytes.as_mut_ptr().cast(), bytes.len()))
            .collect();
        let remote: Vec<_> =
            parts.iter().map(|(at, bytes)| area(*at as *mut _, bytes.len())).collect();
        let wanted: usize = local.iter().map(|area| area.iov_len).sum();
        let (here, there, count) = (local.as_ptr(), remote.as_ptr(), local.len() as libc::c_ulong);
        // SAFETY: writes to the parts only; the remote side is checked by the kernel.
        match unsafe { libc::process_vm_readv(self.pid, here, count, there, count, 0) } {
            -1 => Err(io::Error::last_os_error()),
            n if n as usize == wanted => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
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

    /// Bytes at address 4096.
    struct Sample(Vec<u8>);

    impl Reader for Sample {
        fn fill(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
            let at = address.wrapping_sub(4096) as usize;
            let area = self.0.get(at..at.wrapping_add(bytes.len()));
            bytes.copy_from_slice(area.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }
    }

    /// A file with `words` at `offset`, and the names behind them.
    fn sample(offset: usize, words: &[u64], names: &[u8]) -> Sample {
        let mut bytes = vec![0; offset];
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend_from_slice(names);
        bytes.resize(bytes.len() + 300, 0);
        Sample(bytes)
    }

    /// What is found in a sample, as one writable mapping.
    fn read(sample: &Sample) -> Option<Result<Vec<(String, u64)>>> {
        let end = 4096 + sample.0.len() as u64;
        let pieces = [Piece { start: 4096, end, writable: true, file: "/a" }];
        let (live, file) = find_live(sample, &pieces).first().copied()?;
        Some(read_statistics(sample, &pieces, live, file))
    }

    const LIVE: u64 = u64::from_ne_bytes(MAGIC);
    const NAMES: &[u8] = b"committed_bytes\0used_bytes\0heaps\0\0";

    #[test]
    fn names_and_values_are_paired_wherever_they_are() {
        let words = [LIVE, 1, 56, 3, 3 << 20, 1 << 20, 7];
        // Both also cross the end of a step.
        for offset in [0, 8, (1 << 18) - 8, (1 << 18) - 72, (1 << 19) - 16] {
            let found = read(&sample(offset, &words, NAMES)).unwrap().unwrap();
            let names = ["committed_bytes", "used_bytes", "heaps"].map(String::from);
            assert_eq!(found, names.into_iter().zip([3 << 20, 1 << 20, 7]).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_only_looks_like_it_is_passed_over() {
        let words = [LIVE, 1, 56, 3, 1, 2, 3];
        assert!(read(&sample(4, &words, NAMES)).is_none(), "not aligned");
        assert!(read(&sample(0, &[LIVE, 1, 48, 3, 1, 2, 3], NAMES)).is_none(), "another size");
        assert!(read(&sample(0, &[LIVE, 1, 32, 0], NAMES)).is_none(), "no statistics");
        assert!(read(&sample(0, &[LIVE, 1, 1 << 40, 1 << 30, 0], NAMES)).is_none());
        assert!(read(&sample(0, &[0; 7], NAMES)).is_none());
        let end = Sample(LIVE.to_ne_bytes().to_vec());
        assert!(read(&end).is_none(), "cut off");
        let mut text = sample(0, &words, NAMES);
        let end = 4096 + text.0.len() as u64;
        let constant = [Piece { start: 4096, end, writable: false, file: "/a" }];
        assert!(find_live(&text, &constant).is_empty(), "a copy in a constant, as in this command");
        // A text that mentions the names is no list of them.
        text.0.splice(0..0, b"committed_bytes\0used_bytes\0more of it\0".iter().copied());
        text.0.splice(0..0, [0; 2]); // 40 bytes: aligned
        assert_eq!(read(&text).unwrap().unwrap().len(), 3);
    }

    #[test]
    fn a_struct_that_is_not_understood_is_an_error() {
        let says =
            |words: &[u64], names| read(&sample(0, words, names)).unwrap().unwrap_err().to_string();
        assert!(says(&[LIVE, 2, 40, 1, 0], NAMES).contains("layout 2"));
        assert!(says(&[LIVE, 1, 48, 2, 0, 0], NAMES).contains("no list"));
        assert!(says(&[LIVE, 1, 48, 2, 0, 0], b"").contains("no list"));
    }

    #[test]
    fn mappings_of_files_are_read() {
        let maps = "1000-2000 r--p 00000000 08:01 12 /lib/a.so\n\
                    2000-3000 ---p 00001000 08:01 12 /lib/a.so\n\
                    4000-5000 rw-p 00000000 00:00 0 \n\
                    5000-6000 rw-p 00000000 00:00 0    [heap]\n\
                    6000-7000 rw-s 00000000 00:05 12 /dev/dri/card0\n\
                    8000-9000 rw-p 00002000 08:01 13                   /tmp/with space (deleted)\n";
        let piece = |start, writable, file| Piece { start, end: start + 0x1000, writable, file };
        let expected =
            [piece(0x1000, false, "/lib/a.so"), piece(0x8000, true, "/tmp/with space (deleted)")];
        assert_eq!(pieces(maps), expected);
    }

    #[test]
    fn a_process_without_glebe_is_told_how_to_get_it() {
        let error = read_live(std::process::id() as i32).unwrap_err().to_string();
        assert!(error.contains("glebe run") && error.contains("GLEBE_VERBOSE"), "{error}");
        assert!(read_live(i32::MAX).unwrap_err().to_string().contains("no process"));
    }

    #[test]
    fn a_process_that_ended_meanwhile_is_called_so() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id() as i32;
        // It ends, and stays as a zombie until we wait for it.
        while !or_ended(pid, anyhow!("other")).to_string().contains("has ended") {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let error = read_live(pid).unwrap_err().to_string();
        assert_eq!(error, format!("process {pid} has ended"));
        child.wait().unwrap();
        let own = std::process::id() as i32;
        assert_eq!(or_ended(own, anyhow!("other")).to_string(), "other", "control");
    }

    #[test]
    fn a_program_has_the_name_that_it_was_started_by() {
        let own = std::env::current_exe().unwrap();
        let name = plain(own.file_name().unwrap().as_encoded_bytes());
        assert_eq!(program_of(&Memory { pid: std::process::id() as i32 }), Some(name));
    }
}
