//! The resident set of a process, as the kernel tells it without stopping the process.
//!
//! ```text
//!   /proc/PID/maps      the mappings: which file, which rights, in order of address
//!   /proc/PID/pagemap   one word for each OS page: present, in swap, of a file, mapped by this process alone
//!   /proc/PID/status    VmRSS, for comparison
//! ```
//!
//! smaps would say the same in sums, but to make them the kernel holds the lock of the address space for a whole
//! mapping: tens of milliseconds for a heap of gigabytes, in which the process's own mmap waits. A read of pagemap
//! holds it for 2 MiB at a time, which takes microseconds.
//!
//! A page that was only read is the kernel's page of zeros: present, but not resident. pagemap does not mark it, except
//! that this process is not the only one to map it. Pages that a fork shares look the same. VmRSS decides which.

use crate::size::amount;
use crate::system::live::{denied, text_of};
use anyhow::{bail, Context, Result};
use serde_json::{json, Value};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;
const EXCLUSIVE: u64 = 1 << 56;
/// pagemap is read for so many OS pages at a time.
const AT_ONCE: usize = 1 << 14;

/// What a mapping is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Code,
    Data,
    Stack,
    Brk,
    Shared,
    Other,
    /// Devices, and memory of the kernel: not part of the resident set.
    Apart,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub readable: bool,
    pub writable: bool,
    pub usage: Use,
    pub file: String,
}

/// Leaves out the kernel's huge page of zeros: pages that count as a file's, where no file is. VmRSS leaves them out.
pub fn leave_out_zeros(mapping: &Mapping, stretches: &mut Vec<Stretch>) {
    let file = &mapping.file;
    if file.is_empty() || mapping.usage == Use::Brk || file.starts_with("[anon:") {
        stretches.retain(|stretch| stretch.pages != Pages::File);
    }
}

/// The state of OS pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// Resident, and this process's own.
    Resident,
    /// Resident, of a file or of shared memory.
    File,
    /// Shared with another process after a fork, or the kernel's page of zeros.
    Doubtful,
    Swapped,
}

impl Pages {
    /// Whether they are part of the resident set.
    pub fn count(self, doubtful_count: bool) -> bool {
        match self {
            Pages::Resident | Pages::File => true,
            Pages::Doubtful => doubtful_count,
            Pages::Swapped => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretch {
    pub start: u64,
    pub end: u64,
    pub pages: Pages,
}

/// The mappings of a process, in order. `stack_pointers` tell which are stacks of threads.
pub fn mappings(maps: &str, stack_pointers: &[u64]) -> Vec<Mapping> {
    let mut all: Vec<Mapping> = Vec::new();
    let mut guard_end = 0;
    for (start, end, rights, file) in maps.lines().filter_map(line) {
        let has = |right| rights.contains(right);
        let private_anonymous = file.is_empty() && !has('s');
        // Memory of a file's variables that are zero at first directly follows those that are not.
        let of_file = all.last().filter(|last| {
            private_anonymous
                && last.end == start
                && last.usage == Use::Data
                && last.writable
                && has('w')
        });
        let usage = if let Some(file) = of_file.map(|last| last.file.clone()) {
            all.push(Mapping {
                start,
                end,
                readable: has('r'),
                writable: true,
                usage: Use::Data,
                file,
            });
            continue;
        } else if file.starts_with("[stack") {
            Use::Stack
        } else if file == "[heap]" {
            Use::Brk
        } else if file.starts_with("[vvar") || file.starts_with("[vsyscall") || is_device(file) {
            Use::Apart
        } else if has('s') {
            Use::Shared
        } else if file.starts_with('/') || file == "[vdso]" {
            if has('x') {
                Use::Code
            } else {
                Use::Data
            }
        } else if private_anonymous
            && guard_end == start
            && stack_pointers.iter().any(|at| (start..end).contains(at))
        {
            Use::Stack
        } else {
            Use::Other
        };
        if private_anonymous && !has('r') && !has('w') {
            guard_end = end;
        }
        all.push(Mapping {
            start,
            end,
            readable: has('r'),
            writable: has('w'),
            usage,
            file: file.into(),
        });
    }
    all
}

fn is_device(file: &str) -> bool {
    let device = file.starts_with("/dev/")
        && !file.starts_with("/dev/shm/")
        && !file.starts_with("/dev/zero");
    device || file.starts_with("/anon_hugepage")
}

/// Start, end, rights and file of a line of /proc/PID/maps.
fn line(line: &str) -> Option<(u64, u64, &str, &str)> {
    let mut rest = line;
    let mut word = || {
        let (word, behind) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = behind.trim_start();
        word
    };
    let (range, rights) = (word(), word());
    for _offset_device_inode in 0..3 {
        word();
    }
    let (start, end) = range.split_once('-')?;
    let at = |text| u64::from_str_radix(text, 16).ok();
    Some((at(start)?, at(end)?, rights, rest))
}

/// The stack pointers of the threads that wait in a system call. A thread that runs has none to tell.
pub fn stack_pointers(pid: i32) -> Vec<u64> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let of_thread = |thread: io::Result<fs::DirEntry>| {
        let text = fs::read_to_string(thread.ok()?.path().join("syscall")).ok()?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let pointer = words.len().checked_sub(2).and_then(|i| words.get(i))?;
        u64::from_str_radix(pointer.strip_prefix("0x")?, 16).ok()
    };
    threads.filter_map(of_thread).collect()
}

pub struct Pagemap {
    file: File,
    page_bytes: u64,
}

impl Pagemap {
    pub fn open(pid: i32) -> Result<Pagemap> {
        let file = match File::open(format!("/proc/{pid}/pagemap")) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => bail!("there is no process {pid}"),
            Err(e) => return Err(denied(pid, &e)),
        };
        // SAFETY: asks for a number.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
        Ok(Pagemap { file, page_bytes })
    }

    /// Appends the stretches of [start, end) that are resident or in swap.
    pub fn read(&self, start: u64, end: u64, all: &mut Vec<Stretch>) -> Result<()> {
        let mut buffer = vec![0; AT_ONCE * 8];
        let mut at = start;
        while at < end {
            let pages = ((end - at) / self.page_bytes).min(AT_ONCE as u64);
            let bytes = &mut buffer[..pages as usize * 8];
            let read =
                self.file.read_at(bytes, at / self.page_bytes * 8).context("/proc/PID/pagemap")?;
            if read < 8 {
                break; // the mapping, or the process, is gone
            }
            for word in bytes[..read / 8 * 8].chunks_exact(8) {
                if let Some(pages) = state(u64::from_ne_bytes(word.try_into().unwrap())) {
                    match all.last_mut() {
                        Some(last) if last.end == at && last.pages == pages => {
                            last.end += self.page_bytes
                        }
                        _ => all.push(Stretch { start: at, end: at + self.page_bytes, pages }),
                    }
                }
                at += self.page_bytes;
            }
        }
        Ok(())
    }
}

fn state(word: u64) -> Option<Pages> {
    match word {
        w if w & SWAPPED != 0 => Some(Pages::Swapped),
        w if w & PRESENT == 0 => None,
        w if w & (OF_FILE | EXCLUSIVE) == 0 => Some(Pages::Doubtful),
        w if w & OF_FILE != 0 => Some(Pages::File),
        _ => Some(Pages::Resident),
    }
}

/// The first word behind a name of /proc/PID/status.
pub fn status_word(pid: i32, name: &str) -> Option<String> {
    let text = text_of(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split_whitespace().nth(1).map(String::from)
}

/// A figure of /proc/PID/status in bytes: `VmRSS`, `VmHWM`, `VmSwap`.
pub fn status_bytes(pid: i32, name: &str) -> Option<u64> {
    status_word(pid, name)?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The name of the limit that glebe's option sets, here and in a snapshot.
pub const OWN_LIMIT: &str = "glebe's option limit";

/// A limit that the process may run into, and how much of it is used.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    pub name: String,
    pub limit_bytes: u64,
    pub used_bytes: u64,
}

impl Limit {
    pub fn text(&self) -> String {
        format!("{}: {} of {}", self.name, amount(self.used_bytes), amount(self.limit_bytes))
    }

    pub fn json(&self) -> Value {
        let (limit_bytes, used_bytes) = (self.limit_bytes, self.used_bytes);
        json!({"name": self.name, "limit_bytes": limit_bytes, "used_bytes": used_bytes})
    }
}

fn group_of(pid: i32) -> Option<Limit> {
    let groups = text_of(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    group_limit(&groups, "/sys/fs/cgroup")
}

/// What the limit of its container leaves to the process.
pub fn group_left(pid: i32) -> Option<u64> {
    group_of(pid).map(|limit| limit.limit_bytes.saturating_sub(limit.used_bytes))
}

/// The limits of the process from outside: of its container, and of its address space and data.
pub fn limits(pid: i32) -> Vec<Limit> {
    let mut all: Vec<Limit> = group_of(pid).into_iter().collect();
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    for (row, used, name) in [
        ("Max address space", "VmSize", "address space (RLIMIT_AS)"),
        ("Max data size", "VmData", "data (RLIMIT_DATA)"),
    ] {
        let soft = text.lines().find_map(|line| line.strip_prefix(row)?.split_whitespace().next());
        if let Some(limit_bytes) = soft.and_then(|soft| soft.parse().ok()) {
            let used_bytes = status_bytes(pid, used).unwrap_or(0);
            all.push(Limit { name: name.into(), limit_bytes, used_bytes });
        }
    }
    all
}

/// The limit of the process's group or of one above that is closest to being reached. In a container the path of the
/// group may be the host's, so the root of the mount counts too.
fn group_limit(groups: &str, root: &str) -> Option<Limit> {
    const NONE: u64 = 1 << 60;
    let number = |path: String| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let mut found: Option<Limit> = None;
    for line in groups.lines() {
        let mut words = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (words.next(), words.next()) else { continue };
        let (mount, name, files) = if controllers.is_empty() {
            (root.to_string(), "container (memory.max)", ["memory.max", "memory.current"])
        } else if controllers.split(',').any(|controller| controller == "memory") {
            let files = ["memory.limit_in_bytes", "memory.usage_in_bytes"];
            (format!("{root}/memory"), "container (memory.limit_in_bytes)", files)
        } else {
            continue;
        };
        let mut path = path.trim_end_matches('/');
        loop {
            let [limit_bytes, used_bytes] =
                files.map(|file| number(format!("{mount}{path}/{file}")));
            if let (Some(limit_bytes), Some(used_bytes)) =
                (limit_bytes.filter(|limit| *limit < NONE), used_bytes)
            {
                let left = |limit: &Limit| limit.limit_bytes.saturating_sub(limit.used_bytes);
                let this = Limit { name: name.into(), limit_bytes, used_bytes };
                if found.as_ref().is_none_or(|before| left(&this) < left(before)) {
                    found = Some(this);
                }
            }
            let Some(above) = path.rfind('/') else { break };
            path = &path[..above];
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_have_a_use() {
        let maps = "1000-2000 r--p 00000000 08:01 12 /bin/a b\n\
                    2000-3000 r-xp 00001000 08:01 12 /bin/a b\n\
                    3000-4000 rw-p 00002000 08:01 12 /bin/a b\n\
                    4000-5000 rw-p 00000000 00:00 0 \n\
                    5000-6000 rw-p 00000000 00:00 0 [heap]\n\
                    6000-7000 ---p 00000000 00:00 0 \n\
                    7000-9000 rw-p 00000000 00:00 0 \n\
                    9000-a000 rw-p 00000000 00:00 0 [anon: pool]\n\
                    a000-b000 rw-s 00000000 00:05 12 /memfd:x (deleted)\n\
                    b000-c000 rw-s 00000000 00:05 12 /dev/dri/card0\n\
                    c000-d000 rw-p 00000000 00:00 0 [stack]\n";
        let uses: Vec<Use> =
            mappings(maps, &[0x8ff0]).iter().map(|mapping| mapping.usage).collect();
        use Use::*;
        assert_eq!(uses, [Data, Code, Data, Data, Brk, Other, Stack, Other, Shared, Apart, Stack]);
        assert_eq!(mappings(maps, &[])[3].file, "/bin/a b", "zero variables are the file's");
        assert_eq!(mappings(maps, &[])[6].usage, Other, "no thread is there");
    }

    #[test]
    fn words_of_pagemap_have_a_state() {
        assert_eq!(state(0), None);
        assert_eq!(state(PRESENT | EXCLUSIVE), Some(Pages::Resident));
        assert_eq!(state(PRESENT | OF_FILE), Some(Pages::File));
        assert_eq!(state(PRESENT), Some(Pages::Doubtful));
        assert_eq!(state(SWAPPED), Some(Pages::Swapped));
    }

    #[test]
    fn own_pages_are_seen() {
        let mut memory = vec![1u8; 1 << 20];
        memory[5] = 2;
        let at = (memory.as_ptr() as u64).next_multiple_of(4096);
        let mut stretches = Vec::new();
        let pagemap = Pagemap::open(std::process::id() as i32).unwrap();
        pagemap.read(at, at + (1 << 19), &mut stretches).unwrap();
        let bytes: u64 = stretches.iter().map(|stretch| stretch.end - stretch.start).sum();
        assert_eq!(bytes, 1 << 19, "{stretches:?}");
    }

    #[test]
    fn the_closest_limit_of_the_groups_counts() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("a/memory.max", "1000\n");
        put("a/memory.current", "900\n");
        put("a/b/memory.max", "max\n");
        put("a/b/memory.current", "10\n");
        put("memory/memory.limit_in_bytes", "9223372036854771712\n");
        put("memory/memory.usage_in_bytes", "5\n");
        let find = |groups| group_limit(groups, root.path().to_str().unwrap());
        let found = find("9:name=systemd:/\n4:memory:/x\n0::/a/b\n").unwrap();
        assert_eq!((found.limit_bytes, found.used_bytes), (1000, 900));
        assert_eq!(find("4:memory:/x\n"), None);
    }
}
