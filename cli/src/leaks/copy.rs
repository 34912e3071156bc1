//! What a search for leaks needs of a process, copied while it is stopped.
//!
//! ```text
//!   writable mappings, resident or in swap ─▶ bytes        less glebe's tables and free slices
//!       a thread's stack                      from its stack pointer on
//!       the stack of a thread that ended      its control block, which has the result until pthread_join
//!   registers of every thread ─▶ words
//! ```
//!
//! Mappings that glebe did not make are roots: programs keep references in memory that they map themselves, as Python's
//! arenas and JIT compilers do.

use super::stop::{self, Registers};
use crate::explain::heap::{self, Glebe, What};
use crate::explain::process::{mappings, status_bytes, Mapping, Pagemap, Pages, Use};
use crate::explain::samples::{self, Samples};
use crate::profile::raw::Module;
use crate::system::live::{maps_of, name_of, no_glebe, pieces, program_of, Memory, Reader};
use anyhow::{bail, Result};
use std::fs;
use std::time::Duration;

/// Where the bytes from an address of the process are in the copy.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    pub start: u64,
    pub end: u64,
    from: usize,
}

/// A copy of a process.
pub struct Snapshot {
    pub program: String,
    pub glebes: Vec<Glebe>,
    /// In the order of their addresses.
    parts: Vec<Part>,
    bytes: Vec<u8>,
    /// Ranges whose words are roots, in memory.
    pub roots: Vec<(u64, u64)>,
    pub registers: Vec<u64>,
    /// The sampled blocks, and the code that allocated them.
    pub samples: Option<(Samples, Vec<Module>)>,
    pub threads: usize,
    pub stopped: Duration,
}

/// Stops the process, copies, and lets it go on. A process that never called malloc has not set up its glebe: at its
/// exit, its copy is empty.
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
    let room = room(pid);
    let stopped = stop::stop(pid)?;
    let maps = maps_of(pid)?;
    let threads = stopped.registers();
    let glebes = heap::read(&memory, &located)?;
    let mappings = mappings(&maps, &[]);
    let mut copy = Snapshot {
        glebes,
        bytes: room,
        registers: threads.iter().flat_map(|thread| thread.words.iter().copied()).collect(),
        threads: threads.len(),
        ..Snapshot::of(program)
    };
    copy.read_memory(&memory, &mappings, &Pagemap::open(pid)?)?;
    let samples = samples::of(&memory, &located);
    copy.stopped = stopped.since.elapsed();
    drop(stopped);
    copy.samples = samples.map(|samples| (samples, samples::modules(&memory, &maps)));
    copy.find_roots(&mappings, &threads);
    Ok(copy)
}

/// Room for the copy. Its pages are touched now, so that this takes no time while the process is stopped.
fn room(pid: i32) -> Vec<u8> {
    let bytes = ["VmRSS", "VmSwap"].map(|name| status_bytes(pid, name).unwrap_or(0));
    let mut room = vec![0; bytes.iter().sum::<u64>() as usize];
    room.iter_mut().step_by(1024).for_each(|byte| *byte = 1);
    room
}

/// The parts of [start, end) that are in none of the ranges, which are in order.
fn outside(start: u64, end: u64, ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
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
            bytes: Vec::new(),
            roots: Vec::new(),
            registers: Vec::new(),
            samples: None,
            threads: 0,
            stopped: Duration::ZERO,
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

    fn read_memory(
        &mut self,
        memory: &Memory,
        mappings: &[Mapping],
        pagemap: &Pagemap,
    ) -> Result<()> {
        const MOST_BYTES: u64 = 16 << 20;
        let left_out = self.without_references();
        let mut parts = Vec::new();
        for mapping in mappings.iter().filter(|m| is_root(m)) {
            let mut stretches = Vec::new();
            pagemap.read(mapping.start, mapping.end, &mut stretches)?;
            // Of variables that became constant, as relocations do, only pages that were written to.
            stretches.retain(|stretch| mapping.writable || stretch.pages != Pages::File);
            for stretch in stretches {
                for (start, end) in outside(stretch.start, stretch.end, &left_out) {
                    let starts = (start..end).step_by(MOST_BYTES as usize);
                    parts.extend(starts.map(|at| (at, MOST_BYTES.min(end - at))));
                }
            }
        }
        let mut from = 0;
        for (start, bytes) in parts {
            self.parts.push(Part { start, end: start + bytes, from });
            from += bytes as usize;
        }
        self.bytes.resize(from, 0);
        let mut rest = &mut self.bytes[..];
        for some in self.parts.chunks(Memory::PARTS_MOST) {
            let mut areas = Vec::new();
            for part in some {
                let (area, behind) = rest.split_at_mut((part.end - part.start) as usize);
                areas.push((part.start, area));
                rest = behind;
            }
            if memory.fill_parts(&mut areas).is_err() {
                // Part of a file behind its end cannot be read, and has no references.
                for (start, area) in &mut areas {
                    if memory.fill(*start, area).is_err() {
                        area.fill(0);
                    }
                }
            }
        }
        Ok(())
    }

    /// The parts that overlap [start, end), and the bytes of each.
    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (&Part, &[u8])> {
        let first = self.parts.partition_point(|part| part.end <= start);
        let parts = self.parts[first..].iter().take_while(move |part| part.start < end);
        parts.map(|part| {
            (part, &self.bytes[part.from..part.from + (part.end - part.start) as usize])
        })
    }

    /// The copied words of [start, end), and where each piece of them begins.
    pub fn each_word(&self, start: u64, end: u64, mut word: impl FnMut(u64)) {
        for (part, bytes) in self.overlapping(start, end) {
            let from = (start.max(part.start) - part.start).next_multiple_of(8) as usize;
            let to = (end.min(part.end) - part.start) as usize;
            for eight in bytes.get(from..to).unwrap_or_default().chunks_exact(8) {
                word(u64::from_ne_bytes(eight.try_into().unwrap()));
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

    fn find_roots(&mut self, mappings: &[Mapping], threads: &[Registers]) {
        // Objects of a collector are roots too; blocks are not.
        let mut blocks = Vec::new();
        for glebe in &self.glebes {
            blocks.push(glebe.region);
            let run =
                |run: heap::Run| (run.what != What::Collected).then_some((run.start, run.end));
            blocks.extend(glebe.runs().into_iter().filter_map(run));
        }
        blocks.sort_unstable();
        let mut roots = Vec::new();
        for (i, mapping) in mappings.iter().enumerate().filter(|(_, m)| is_root(m)) {
            let guarded = i > 0
                && mappings[i - 1].end == mapping.start
                && !mappings[i - 1].readable
                && !mappings[i - 1].writable;
            let is_main = mapping.usage == Use::Stack;
            let mut start = mapping.start;
            if guarded || is_main {
                let inside = |at: &u64| (mapping.start..mapping.end).contains(at);
                let pointers = threads.iter().map(|thread| thread.stack_pointer).filter(inside);
                start = match pointers.min() {
                    Some(pointer) => below(pointer).max(mapping.start),
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

/// Whether a mapping may hold references: memory that can be written to, or could be while the program was loaded.
fn is_root(mapping: &Mapping) -> bool {
    mapping.readable
        && mapping.usage != Use::Apart
        && (mapping.writable || mapping.usage == Use::Data)
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
