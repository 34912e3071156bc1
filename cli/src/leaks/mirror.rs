//! A copy of a process's memory that is made while the process runs, and completed in a stop.
//!
//! ```text
//!   round    the kernel tells what was written, and watches it anew (track.rs) ─▶ read it ─▶ again, if much was
//!   stop     registers, maps, what was written since the last round           ─▶ read it ─▶ go on
//! ```
//!
//! So the stop is as long as a walk over the page tables, 1 to 2 ms for 1 GiB, and what the program wrote in the short
//! last round. A twin (twin.rs) copies the page tables, 20 to 25 ms for 1 GiB in OS pages of 4 KiB.
//!
//! The copy has memory at the addresses of each mapping, less their start: a shadow. What the process has no page for
//! is zero there, and takes no memory here.

use super::copy::{is_root, outside, Part};
use super::room::Room;
use super::stop::{stop, Registers};
use super::track::{track, Pages, Region, Tracked};
use super::twin::suffices;
use crate::explain::process::{mappings, Mapping, Use};
use crate::size::amount;
use crate::system::live::{maps_of, Memory, Reader};
use anyhow::{Context, Result};
use std::io;
use std::time::Duration;

/// A process with fewer bytes in small pages is stopped for less than 3 ms to make a twin.
const LEAST_BYTES: u64 = 128 << 20;
/// Reading a page takes so many times as long as copying its page table entry.
const READ_RATIO: u64 = 16;
/// A round that reads so little is the last.
const LITTLE_BYTES: u64 = 1 << 20;
const ROUNDS_MOST: u32 = 8;
const PAGE_BYTES: usize = 4096;

/// Memory for a part of the process's.
struct Shadow {
    start: u64,
    end: u64,
    room: Room,
}

pub struct Mirror {
    memory: Memory,
    /// In the order of their addresses, like `pages`.
    shadows: Vec<Shadow>,
    /// What the process had contents for when it was stopped.
    pages: Vec<(u64, u64)>,
    /// Pages that were unmapped, or without rights, just as they should be read.
    unread: Vec<u64>,
    pub maps: String,
    pub threads: Vec<Registers>,
    pub stopped: Duration,
}

/// The roots that the process has for itself.
fn own_roots(maps: &str) -> Vec<Mapping> {
    let mut all = mappings(maps, &[]);
    all.retain(|mapping| is_root(mapping) && mapping.usage != Use::Shared);
    all
}

/// Copies the memory of the process. Returns why not, if that would do harm or be no gain.
pub fn make(pid: i32, maps: &str) -> Result<Result<Mirror, String>> {
    let Some(small) = small_bytes(pid, maps) else {
        return Ok(Err("the kernel does not tell what was written".into()));
    };
    if small < LEAST_BYTES {
        return Ok(Err(format!("a copy of {} in small pages is quick", amount(small))));
    }
    if let Err(why) = suffices(pid) {
        return Ok(Err(why));
    }
    let mut tracked = match track(pid, maps)? {
        Ok(tracked) => tracked,
        Err(why) => return Ok(Err(why)),
    };
    let mut mirror = Mirror::new(pid, tracked.stopped);
    let mut before = u64::MAX;
    for _ in 0..ROUNDS_MOST {
        let read = mirror.round(&mut tracked, maps_of(pid)?)?;
        if read < LITTLE_BYTES || read > before / 2 {
            before = read;
            break;
        }
        before = read;
    }
    if before > small / READ_RATIO {
        return Ok(Err(format!("it writes to {} while it is read", amount(before))));
    }
    mirror.complete(&tracked)?;
    Ok(Ok(mirror))
}

fn small_bytes(pid: i32, maps: &str) -> Option<u64> {
    let pages = Pages::of(pid).ok()?;
    let mut bytes = 0;
    for mapping in own_roots(maps) {
        bytes += pages.small_bytes(mapping.start, mapping.end).ok()?;
    }
    Some(bytes)
}

impl Mirror {
    fn new(pid: i32, stopped: Duration) -> Mirror {
        Mirror {
            memory: Memory { pid },
            shadows: Vec::new(),
            pages: Vec::new(),
            unread: Vec::new(),
            maps: String::new(),
            threads: Vec::new(),
            stopped,
        }
    }

    pub fn pid(&self) -> i32 {
        self.memory.pid
    }

    /// Reads what was written to since the last round. Returns how many bytes that was.
    fn round(&mut self, tracked: &mut Tracked, maps: String) -> Result<u64> {
        let mut written = Vec::new();
        let roots = own_roots(&maps);
        for root in &roots {
            let add = |region: Region| {
                if root.writable || !region.is_file() {
                    written.push((region.start, region.end));
                }
            };
            let range = (root.start, root.end);
            tracked.written(range, !root.writable, add).context("/proc/PID/pagemap")?;
        }
        self.read(&roots, &written)?;
        Ok(written.iter().map(|(start, end)| end - start).sum())
    }

    /// Stops the process for the rest.
    fn complete(&mut self, tracked: &Tracked) -> Result<()> {
        let stopped = stop(self.memory.pid)?;
        self.threads = stopped.registers();
        self.maps = maps_of(self.memory.pid)?;
        let roots = own_roots(&self.maps);
        let mut written = Vec::new();
        for root in &roots {
            let add = |region: Region| {
                if root.writable || !region.is_file() {
                    self.pages.push((region.start, region.end));
                    if region.is_written() {
                        written.push((region.start, region.end));
                    }
                }
            };
            let range = (root.start, root.end);
            tracked.pages.all(range, !root.writable, add).context("/proc/PID/pagemap")?;
        }
        self.read(&roots, &written)?;
        for at in std::mem::take(&mut self.unread) {
            let next = self.pages.partition_point(|(_, end)| *end <= at);
            if self.pages.get(next).is_some_and(|(start, _)| *start <= at) {
                let (room, from) = self.place(at);
                let page = &mut self.shadows[room].room.bytes_mut()[from..from + PAGE_BYTES];
                let _ = self.memory.fill(at, page);
            }
        }
        self.stopped = self.stopped.max(stopped.go_on());
        Ok(())
    }

    /// Reads parts of the roots, which are in order, as the parts are.
    fn read(&mut self, roots: &[Mapping], parts: &[(u64, u64)]) -> Result<()> {
        const MOST_BYTES: u64 = 1 << 20;
        self.cover(roots)?;
        let mut areas: Vec<(u64, &mut [u8])> = Vec::new();
        let mut parts = parts.iter().copied();
        let mut part = parts.next();
        for shadow in &mut self.shadows {
            let (mut at, mut rest) = (shadow.start, shadow.room.bytes_mut());
            while let Some((start, end)) = part.filter(|(start, _)| *start < shadow.end) {
                let to = end.min(shadow.end).min(start + MOST_BYTES);
                let (area, behind) =
                    rest.split_at_mut((start - at) as usize).1.split_at_mut((to - start) as usize);
                areas.push((start, area));
                (at, rest) = (to, behind);
                part = if to < end { Some((to, end)) } else { parts.next() };
            }
        }
        for some in areas.chunks_mut(Memory::PARTS_MOST) {
            if self.memory.fill_parts(some).is_err() {
                for (start, area) in some {
                    for (i, page) in area.chunks_mut(PAGE_BYTES).enumerate() {
                        let at = *start + (i * PAGE_BYTES) as u64;
                        if self.memory.fill(at, page).is_err() {
                            self.unread.push(at);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes shadows for what has none yet.
    fn cover(&mut self, roots: &[Mapping]) -> Result<()> {
        let covered: Vec<_> =
            self.shadows.iter().map(|shadow| (shadow.start, shadow.end)).collect();
        for root in roots {
            for (start, end) in outside(root.start, root.end, &covered) {
                let room = Room::new((end - start) as usize)?;
                self.shadows.push(Shadow { start, end, room });
            }
        }
        self.shadows.sort_by_key(|shadow| shadow.start);
        Ok(())
    }

    /// The shadow that has this address, which has a page, and the place in it.
    fn place(&self, at: u64) -> (usize, usize) {
        let i = self.shadows.partition_point(|shadow| shadow.end <= at);
        (i, (at - self.shadows[i].start) as usize)
    }

    /// What the process had: the parts, in order, and the memory that they are in.
    pub fn into_parts(self) -> (Vec<Part>, Vec<Room>) {
        let mut parts = Vec::new();
        for (start, end) in &self.pages {
            let mut at = *start;
            while at < *end {
                let (room, from) = self.place(at);
                let to = self.shadows[room].end.min(*end);
                parts.push(Part { start: at, end: to, room, from });
                at = to;
            }
        }
        (parts, self.shadows.into_iter().map(|shadow| shadow.room).collect())
    }
}

/// Pages with contents as they were when the process was stopped. Others, as those of constants, as they are now.
impl Reader for Mirror {
    fn fill(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        let (mut at, mut rest) = (address, bytes);
        while !rest.is_empty() {
            let next = self.pages.partition_point(|(_, end)| *end <= at);
            let (start, end) = self.pages.get(next).copied().unwrap_or((u64::MAX, u64::MAX));
            let until = if at < start { start } else { end };
            let mut bytes = (until - at).min(rest.len() as u64) as usize;
            if at < start {
                self.memory.fill(at, &mut rest[..bytes])?;
            } else {
                let (room, from) = self.place(at);
                let behind = &self.shadows[room].room.bytes()[from..];
                bytes = bytes.min(behind.len());
                rest[..bytes].copy_from_slice(&behind[..bytes]);
            }
            (at, rest) = (at + bytes as u64, &mut rest[bytes..]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: usize = 64;

    /// A process that at each word of ours writes to a page, drops another, and maps a new one over a third.
    fn child(memory: *mut u8, words: i32, answers: i32) -> ! {
        let mut word = 0u8;
        // SAFETY: the memory is this process's own; only system calls are made.
        unsafe {
            while libc::read(words, (&raw mut word).cast(), 1) == 1 {
                let page = |i: usize| memory.add(i * PAGE_BYTES);
                *page(1) = word;
                libc::madvise(page(2).cast(), PAGE_BYTES, libc::MADV_DONTNEED);
                let (rights, kind) = (
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                );
                libc::mmap(page(3).cast(), PAGE_BYTES, rights, kind, -1, 0);
                *page(3) = word + 1;
                libc::write(answers, (&raw const word).cast(), 1);
            }
            libc::_exit(0)
        }
    }

    #[test]
    fn what_is_written_after_a_round_is_in_the_copy() {
        let mut room = Room::new(PAGES * PAGE_BYTES).unwrap();
        room.bytes_mut().fill(7);
        let start = room.bytes().as_ptr() as u64;
        let (mut words, mut answers) = ([0; 2], [0; 2]);
        // SAFETY: the child makes system calls only, and closes nothing of ours.
        let pid = unsafe {
            assert_eq!((libc::pipe(words.as_mut_ptr()), libc::pipe(answers.as_mut_ptr())), (0, 0));
            match libc::fork() {
                0 => {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    child(room.bytes_mut().as_mut_ptr(), words[0], answers[1])
                }
                pid => pid,
            }
        };
        let say = |word: u8| {
            let mut answer = 0u8;
            // SAFETY: one byte each.
            unsafe {
                assert_eq!(libc::write(words[1], (&raw const word).cast(), 1), 1);
                assert_eq!(libc::read(answers[0], (&raw mut answer).cast(), 1), 1);
            }
        };
        say(20);
        match track(pid, &maps_of(pid).unwrap()).unwrap() {
            Err(why) => eprintln!("not tried: {why}"), // an older kernel
            Ok(mut tracked) => {
                let mut mirror = Mirror::new(pid, Duration::ZERO);
                let first = mirror.round(&mut tracked, maps_of(pid).unwrap()).unwrap();
                let second = mirror.round(&mut tracked, maps_of(pid).unwrap()).unwrap();
                assert!(
                    first > second + (PAGES as u64 / 2) * PAGE_BYTES as u64,
                    "{first} {second}"
                );
                say(30);
                mirror.complete(&tracked).unwrap();
                say(40); // after the stop: not in the copy
                let byte = |i: u64| mirror.read::<1>(start + i * PAGE_BYTES as u64).unwrap()[0];
                assert_eq!([0, 1, 3, 4].map(byte), [7, 30, 31, 7]);
                let dropped = start + 2 * PAGE_BYTES as u64;
                let (parts, _) = mirror.into_parts();
                assert!(!parts.iter().any(|part| (part.start..part.end).contains(&dropped)));
            }
        }
        // SAFETY: our own child.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, &mut 0, 0);
        }
    }
}
