//! What a search for leaks needs of a process: of a copy of it, or of itself while it is stopped.
//!
//! ```text
//!   mappings that are or were writable, resident or in swap ─▶ bytes        less glebe's tables and free slices
//!       a thread's stack                      from its stack pointer on
//!       the stack of a thread that ended      its control block, which has the result until pthread_join
//!   registers of every thread ─▶ words
//! ```
//!
//! Mappings that glebe did not make are roots: programs keep references in memory that they map themselves, as Python's
//! arenas and JIT compilers do.
//!
//! A mirror (mirror.rs) has read all of a process's own memory already.
//!
//! Of a copy (twin.rs), memory that is shared with other processes, or that a fork leaves out, is read from the process
//! itself, while it runs.

use super::mirror::{self, Mirror};
use super::room::Room;
use super::stop::{self, Registers};
use super::twin;
use crate::explain::heap::{self, Glebe, What};
use crate::explain::process::{mappings, status_bytes, Mapping, Pagemap, Pages, Use};
use crate::explain::samples::{self, Samples};
use crate::profile::raw::Module;
use crate::system::live::{maps_of, name_of, no_glebe, pieces, program_of, Memory, Reader};
use crate::words::say;
use anyhow::{bail, Result};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// The address without its memory tag, which the secure build has on Arm (src/heap/tags.c).
fn untagged(word: u64) -> u64 {
    if cfg!(target_arch = "aarch64") {
        word & !(15 << 56)
    } else {
        word
    }
}

/// Where the bytes from an address of the process are in the copy.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    pub start: u64,
    pub end: u64,
    pub room: usize,
    pub from: usize,
}

/// A copy of a process.
pub struct Snapshot {
    pub program: String,
    pub glebes: Vec<Glebe>,
    /// In the order of their addresses.
    parts: Vec<Part>,
    rooms: Vec<Room>,
    /// Ranges whose words are roots, in memory.
    pub roots: Vec<(u64, u64)>,
    pub registers: Vec<u64>,
    /// The sampled blocks.
    pub samples: Option<Samples>,
    pub modules: Vec<Module>,
    pub threads: usize,
    /// Their times after the stop.
    pub times: BTreeMap<i32, (u64, bool)>,
    pub stopped: Duration,
    /// Whether most was read while the process ran.
    pub read_before_stop: bool,
}

/// Where mappings are read from.
struct Source {
    memory: Memory,
    mappings: Vec<Mapping>,
}

/// Copies what the process has now. It is stopped for a moment; if it is not to be copied as a whole, then while all is
/// read. A process that never called malloc has not set up its glebe: at its exit, its copy is empty.
pub fn copy(pid: i32, at_exit: bool) -> Result<Snapshot> {
    if fs::metadata(format!("/proc/{pid}")).is_err() {
        bail!("there is no process {pid}");
    }
    // Look before we stop anything: a process without glebe is not disturbed.
    let maps = maps_of(pid)?;
    let memory = Memory { pid };
    let program = program_of(&memory).unwrap_or_else(|| name_of(pid));
    let located = heap::locate(&memory, &pieces(&maps))?;
    if heap::read(&memory, &located)?.is_empty() {
        return match at_exit {
            true => Ok(Snapshot::of(program)),
            false => Err(no_glebe(pid, &program, "run")),
        };
    }
    let mut copy = Snapshot::of(program);
    if !at_exit {
        // What goes wrong there, as a process that ends, goes wrong below too.
        if let Ok(Ok(mirror)) = mirror::make(pid, &maps) {
            copy.take(mirror, &located)?;
            return Ok(copy);
        }
    }
    let twin = match at_exit {
        true => Err(String::new()), // it does nothing but wait
        false => twin::make(pid, &maps)?,
    };
    match twin {
        Ok(twin) => {
            copy.times = stop::times(pid);
            let maps = maps_of(twin.pid)?;
            let of_process = Source { memory, mappings: mappings(&maps_of(pid)?, &[]) };
            let of_copy =
                Source { memory: Memory { pid: twin.pid }, mappings: mappings(&maps, &[]) };
            let sources = shared_out(of_copy, of_process);
            copy.read(&sources, &located, &twin.threads, None)?;
            copy.stopped = twin.stopped;
            copy.look_around(&sources, &maps, &twin.threads);
        }
        Err(why) => {
            let room = room(pid)?;
            let stopped = stop::stop(pid)?;
            let (maps, threads) = (maps_of(pid)?, stopped.registers());
            let sources = [Source { memory, mappings: mappings(&maps, &[]) }];
            copy.read(&sources, &located, &threads, Some(room))?;
            copy.stopped = stopped.go_on();
            copy.times = stop::times(pid);
            copy.look_around(&sources, &maps, &threads);
            // A process that is about to end has no copy either, and then its end is all there is to say.
            if !why.is_empty() {
                say(format!(
                    "note: the process stops while it is read: no copy can be made ({why})"
                ));
            }
        }
    }
    Ok(copy)
}

/// Of the copy, what it has of its own; of the process, shared memory, and mappings that the copy does not have. Those
/// that are newer than the copy do no harm.
fn shared_out(mut of_copy: Source, mut of_process: Source) -> [Source; 2] {
    let copied = &of_copy.mappings;
    of_process.mappings.retain(|mapping| {
        let next = copied.partition_point(|other| other.end <= mapping.start);
        copied.get(next).is_none_or(|other| other.start >= mapping.end)
    });
    let (shared, own) =
        of_copy.mappings.into_iter().partition(|mapping| mapping.usage == Use::Shared);
    of_copy.mappings = own;
    of_process.mappings.extend::<Vec<_>>(shared);
    [of_copy, of_process]
}

/// Room for the copy. Its pages are touched now, so that this takes no time while the process is stopped.
fn room(pid: i32) -> Result<Room> {
    let bytes = ["VmRSS", "VmSwap"].map(|name| status_bytes(pid, name).unwrap_or(0));
    let mut room = Room::new(bytes.iter().sum::<u64>() as usize)?;
    room.bytes_mut().iter_mut().step_by(1024).for_each(|byte| *byte = 1);
    Ok(room)
}

/// The parts of [start, end) that are in none of the ranges, which are in order.
pub fn outside(start: u64, end: u64, ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut parts = Vec::new();
    let mut at = start;
    for (from, to) in &ranges[ranges.partition_point(|range| range.1 <= start)..] {
        if *from >= end {
            break;
        }
        if *from > at {
            parts.push((at, *from));
        }
        at = at.max(*to);
    }
    if at < end {
        parts.push((at, end));
    }
    parts
}

impl Snapshot {
    /// Of a process without memory.
    fn of(program: String) -> Snapshot {
        Snapshot {
            program,
            glebes: Vec::new(),
            parts: Vec::new(),
            rooms: Vec::new(),
            roots: Vec::new(),
            registers: Vec::new(),
            samples: None,
            modules: Vec::new(),
            threads: 0,
            times: BTreeMap::new(),
            stopped: Duration::ZERO,
            read_before_stop: false,
        }
    }

    /// Glebe's own ranges that hold no reference of the program: in order.
    fn without_references(&self) -> Vec<(u64, u64)> {
        let mut ranges = Vec::new();
        for glebe in &self.glebes {
            ranges.push(glebe.region);
            for run in glebe.runs() {
                let spare =
                    matches!(run.what, What::Small { entry } if glebe.page(entry).is_spare());
                let warm =
                    matches!(run.what, What::Large { warm: true } | What::Huge { warm: true, .. });
                if spare
                    || warm
                    || matches!(run.what, What::Table | What::Guard | What::Free { .. })
                {
                    ranges.push((run.start, run.end));
                }
            }
        }
        ranges.sort_unstable();
        ranges
    }

    fn read(
        &mut self,
        sources: &[Source],
        located: &[heap::Located],
        threads: &[Registers],
        room: Option<Room>,
    ) -> Result<()> {
        self.read_tables(&sources[0].memory, located, threads)?;
        self.read_memory(sources, room)
    }

    fn read_tables(
        &mut self,
        memory: &impl Reader,
        located: &[heap::Located],
        threads: &[Registers],
    ) -> Result<()> {
        self.threads = threads.len();
        self.registers =
            threads.iter().flat_map(|thread| &thread.words).map(|word| untagged(*word)).collect();
        self.glebes = heap::read(memory, located)?;
        self.samples = samples::of(memory, located);
        Ok(())
    }

    /// What a mirror has, and shared memory as it is now.
    fn take(&mut self, mut mirror: Mirror, located: &[heap::Located]) -> Result<()> {
        let (maps, threads) =
            (std::mem::take(&mut mirror.maps), std::mem::take(&mut mirror.threads));
        let memory = Memory { pid: mirror.pid() };
        self.times = stop::times(memory.pid);
        (self.stopped, self.read_before_stop) = (mirror.stopped, true);
        self.read_tables(&mirror, located, &threads)?;
        (self.parts, self.rooms) = mirror.into_parts();
        let (shared, own) = mappings(&maps, &[])
            .into_iter()
            .partition(|mapping: &Mapping| mapping.usage == Use::Shared);
        let shared = Source { memory: Memory { pid: memory.pid }, mappings: shared };
        self.read_memory(std::slice::from_ref(&shared), None)?;
        self.look_around(&[Source { memory, mappings: own }, shared], &maps, &threads);
        Ok(())
    }

    fn read_memory(&mut self, sources: &[Source], room: Option<Room>) -> Result<()> {
        const MOST_BYTES: u64 = 16 << 20;
        let left_out = self.without_references();
        let mut from = 0;
        let mut counts = Vec::new();
        let read_already = self.parts.len();
        for source in sources {
            let pagemap = Pagemap::open(source.memory.pid)?;
            let before = self.parts.len();
            for mapping in source.mappings.iter().filter(|m| is_root(m)) {
                let mut stretches = Vec::new();
                pagemap.read(mapping.start, mapping.end, &mut stretches)?;
                // Of variables that became constant, as relocations do, only pages that were written to.
                stretches.retain(|stretch| mapping.writable || stretch.pages != Pages::File);
                for stretch in stretches {
                    for (start, end) in outside(stretch.start, stretch.end, &left_out) {
                        for start in (start..end).step_by(MOST_BYTES as usize) {
                            let end = end.min(start + MOST_BYTES);
                            self.parts.push(Part { start, end, room: self.rooms.len(), from });
                            from += (end - start) as usize;
                        }
                    }
                }
            }
            counts.push(self.parts.len() - before);
        }
        let mut room = match room.filter(|room| room.bytes().len() >= from) {
            Some(room) => room,
            None => Room::new(from)?,
        };
        let mut rest = room.bytes_mut();
        let mut parts = &self.parts[read_already..];
        for (source, count) in sources.iter().zip(counts) {
            let (own, behind) = parts.split_at(count);
            parts = behind;
            for some in own.chunks(Memory::PARTS_MOST) {
                let mut areas = Vec::new();
                for part in some {
                    let (area, behind) = rest.split_at_mut((part.end - part.start) as usize);
                    areas.push((part.start, area));
                    rest = behind;
                }
                if source.memory.fill_parts(&mut areas).is_err() {
                    // Part of a file behind its end cannot be read, and has no references.
                    for (start, area) in &mut areas {
                        if source.memory.fill(*start, area).is_err() {
                            area.fill(0);
                        }
                    }
                }
            }
        }
        self.rooms.push(room);
        self.parts.sort_by_key(|part| part.start);
        Ok(())
    }

    /// What can be found out while the process goes on.
    fn look_around(&mut self, sources: &[Source], maps: &str, threads: &[Registers]) {
        self.modules = samples::modules(sources[0].memory.pid, &sources[0].memory, maps);
        let mut mappings: Vec<&Mapping> =
            sources.iter().flat_map(|source| &source.mappings).collect();
        mappings.sort_by_key(|mapping| mapping.start);
        self.find_roots(&mappings, threads);
    }

    /// The parts that overlap [start, end), and the bytes of each.
    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (&Part, &[u8])> {
        let first = self.parts.partition_point(|part| part.end <= start);
        let parts = self.parts[first..].iter().take_while(move |part| part.start < end);
        parts.map(|part| {
            let bytes = self.rooms[part.room].bytes();
            (part, &bytes[part.from..part.from + (part.end - part.start) as usize])
        })
    }

    /// The copied words of [start, end).
    pub fn each_word(&self, start: u64, end: u64, mut word: impl FnMut(u64)) {
        for (part, bytes) in self.overlapping(start, end) {
            let from = (start.max(part.start) - part.start).next_multiple_of(8) as usize;
            let to = (end.min(part.end) - part.start) as usize;
            for eight in bytes.get(from..to).unwrap_or_default().chunks_exact(8) {
                word(untagged(u64::from_ne_bytes(eight.try_into().unwrap())));
            }
        }
    }

    /// A copy of [start, end); bytes that were not resident are 0.
    pub fn bytes_of(&self, start: u64, end: u64) -> Vec<u8> {
        let mut all = vec![0; (end - start) as usize];
        for (part, bytes) in self.overlapping(start, end) {
            let (from, to) = (start.max(part.start), end.min(part.end));
            all[(from - start) as usize..(to - start) as usize]
                .copy_from_slice(&bytes[(from - part.start) as usize..(to - part.start) as usize]);
        }
        all
    }

    fn find_roots(&mut self, mappings: &[&Mapping], threads: &[Registers]) {
        // Objects of a collector are roots too; blocks are not.
        let mut blocks = Vec::new();
        for glebe in &self.glebes {
            blocks.push(glebe.region);
            let run =
                |run: heap::Run| (run.what != What::Collected).then_some((run.start, run.end));
            blocks.extend(glebe.runs().into_iter().filter_map(run));
        }
        blocks.sort_unstable();
        let mut pointers: Vec<u64> = threads.iter().map(|thread| thread.stack_pointer).collect();
        pointers.sort_unstable();
        let mut roots = Vec::new();
        for (i, mapping) in mappings.iter().enumerate().filter(|(_, m)| is_root(m)) {
            let guarded = i > 0
                && mappings[i - 1].end == mapping.start
                && !mappings[i - 1].readable
                && !mappings[i - 1].writable;
            let is_main = mapping.usage == Use::Stack;
            let mut start = mapping.start;
            if guarded || is_main {
                let first = pointers.partition_point(|pointer| *pointer < mapping.start);
                start = match pointers.get(first).filter(|pointer| **pointer < mapping.end) {
                    Some(pointer) => below(*pointer).max(mapping.start),
                    None if is_main => start,
                    None => self.dead_stack(mapping, threads).unwrap_or(start),
                };
            }
            roots.extend(outside(start, mapping.end, &blocks));
        }
        self.roots = roots;
    }

    /// The end of the stack that a thread that ended left in a mapping with a guard in front: its control block. The C
    /// library still uses the block, for the table of thread-local memory and, until pthread_join, for the result. On
    /// x86-64 it stores the block's own address in the first and third word.
    fn dead_stack(&self, mapping: &Mapping, threads: &[Registers]) -> Option<u64> {
        const STEP: u64 = 64;
        for (part, bytes) in self.overlapping(mapping.start, mapping.end) {
            for (i, block) in bytes.chunks_exact(STEP as usize).enumerate() {
                let at = part.start + i as u64 * STEP;
                let word =
                    |i: usize| u64::from_ne_bytes(block[8 * i..8 * i + 8].try_into().unwrap());
                if cfg!(target_arch = "x86_64") && word(0) == at && word(2) == at {
                    let lives = threads.iter().any(|thread| thread.thread_pointer == at);
                    return (!lives).then_some(at);
                }
            }
        }
        None
    }
}

/// Whether a mapping may hold references: memory that can be written to, or could be before. Code of files never could.
pub fn is_root(mapping: &Mapping) -> bool {
    let was_writable = !matches!(mapping.usage, Use::Code | Use::Shared);
    mapping.readable && mapping.usage != Use::Apart && (mapping.writable || was_writable)
}

/// Functions may use some bytes below the stack pointer.
fn below(stack_pointer: u64) -> u64 {
    const RED_ZONE_BYTES: u64 = 128;
    (stack_pointer - RED_ZONE_BYTES) & !7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_out() {
        assert_eq!(outside(10, 20, &[]), [(10, 20)]);
        assert_eq!(outside(10, 20, &[(0, 10), (12, 14), (14, 15), (19, 30)]), [(10, 12), (15, 19)]);
        assert_eq!(outside(10, 20, &[(5, 25)]), []);
        assert_eq!(outside(10, 20, &[(5, 8), (20, 25)]), [(10, 20)]);
    }
}
