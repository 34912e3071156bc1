//! What a trace says: sizes, lifetimes, live memory over time, threads, growth. One pass, and memory for live blocks
//! only.

use super::check_live;
use super::event::{About, Call, Event, Kind, Source, Totals};
use anyhow::{anyhow, Result};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Points of the curve; when there are as many, pairs of them become one.
const POINTS_MOST: usize = 1024;

/// A live block.
struct Block {
    bytes: u64,
    thread: u32,
    resizes: u32,
    born_event: u64,
    born_ns: u64,
}

/// Blocks of sizes from `from_bytes` to the next one's.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Sizes {
    pub from_bytes: u64,
    /// Allocations of such a size.
    pub allocations: u64,
    pub bytes: u64,
    /// Blocks that had such a size when most bytes were live.
    pub peak_blocks: u64,
    pub peak_bytes: u64,
}

/// Blocks that lived shorter than a limit, and not shorter than the one before.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Lifetimes {
    /// None: longer than all limits.
    pub below: Option<u64>,
    pub blocks: u64,
    pub bytes: u64,
}

/// Live memory at the moment in its stretch of the trace when most was live.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Point {
    pub at_ns: u64,
    pub call: u64,
    pub bytes: u64,
    pub blocks: u64,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Thread {
    pub allocations: u64,
    pub bytes: u64,
    pub frees: u64,
    /// Of these, of blocks that another thread allocated.
    pub frees_of_others: u64,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Growth {
    pub grew: u64,
    pub shrank: u64,
    pub same: u64,
    /// Bytes that the calls would copy if every block moved.
    pub copied_bytes_most: u64,
    /// Reallocs that grew to less than 1.125, 1.25, 1.5, 2, 3 times the size before, or more.
    pub factors: [u64; 6],
    /// Reallocs of the one block that had most.
    pub most_of_a_block: u32,
}

pub const FACTORS: [&str; 6] = ["1.125", "1.25", "1.5", "2", "3", "more"];
const CALL_LIMITS: [u64; 7] = [1 << 4, 1 << 7, 1 << 10, 1 << 13, 1 << 16, 1 << 20, 1 << 24];
const TIME_LIMITS: [u64; 6] =
    [10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000, 60_000_000_000, 3_600_000_000_000];

/// The fields are the keys of `--json`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Analysis {
    pub about: About,
    pub totals: Totals,
    pub duration_ns: u64,
    pub malloc: u64,
    pub calloc: u64,
    pub aligned: u64,
    pub realloc: u64,
    pub free: u64,
    pub failed: u64,
    pub allocated_bytes: u64,
    pub peak: Point,
    pub end: Point,
    pub sizes: Vec<Sizes>,
    pub lifetimes_calls: Vec<Lifetimes>,
    pub lifetimes_ns: Vec<Lifetimes>,
    pub never_freed_blocks: u64,
    pub never_freed_bytes: u64,
    pub threads: Vec<Thread>,
    pub growth: Growth,
    /// By log2 of the alignment.
    pub alignments: Vec<(u8, u64)>,
    pub points: Vec<Point>,
}

/// The row of a size: 0, then two for each power of two.
fn row_of(bytes: u64) -> usize {
    if bytes < 2 {
        return bytes as usize;
    }
    let log2 = bytes.ilog2();
    2 * log2 as usize + usize::from(bytes >> (log2 - 1) & 1 == 1)
}

fn from_of(row: usize) -> u64 {
    match row {
        0 | 1 => row as u64,
        _ => (2 + row as u64 % 2) << (row / 2 - 1),
    }
}

struct Pass {
    out: Analysis,
    live: FxHashMap<u64, Block>,
    /// (blocks, bytes) now, by row of size.
    now: Vec<(u64, u64)>,
    /// The last call made the peak, whose rows are not in `out` yet.
    at_peak: bool,
    stride: u64,
}

/// Reads the whole trace.
pub fn analyse(source: &mut dyn Source) -> Result<Analysis> {
    let mut pass = Pass {
        out: Analysis::default(),
        live: FxHashMap::default(),
        now: vec![(0, 0); row_of(u64::MAX) + 1],
        at_peak: false,
        stride: 1,
    };
    let out = &mut pass.out;
    out.sizes = (0..pass.now.len())
        .map(|row| Sizes { from_bytes: from_of(row), ..Sizes::default() })
        .collect();
    let limits = |limits: &[u64]| {
        let below = limits.iter().map(|limit| Some(*limit)).chain([None]);
        below.map(|below| Lifetimes { below, ..Lifetimes::default() }).collect()
    };
    out.lifetimes_calls = limits(&CALL_LIMITS);
    out.lifetimes_ns = limits(&TIME_LIMITS);
    let mut align = [0u64; 64];
    while let Some(event) = source.next()? {
        if let Call::Allocate { kind: Kind::Aligned, align_log2, .. } = event.call {
            align[usize::from(align_log2 & 63)] += 1;
        }
        pass.event(&event)?;
        check_live(pass.live.len())?;
    }
    pass.peak_ends();
    let mut out = pass.out;
    out.never_freed_blocks = pass.live.len() as u64;
    out.never_freed_bytes = out.end.bytes;
    out.alignments = (0..64).zip(align).filter(|(_, count)| *count > 0).collect();
    out.about = source.about().clone();
    out.totals = source.totals().clone();
    let last = out
        .sizes
        .iter()
        .rposition(|row| row.allocations + row.peak_blocks > 0)
        .map_or(0, |row| row + 1);
    out.sizes.truncate(last);
    Ok(out)
}

impl Pass {
    fn event(&mut self, event: &Event) -> Result<()> {
        self.out.duration_ns = event.at_ns;
        self.out.end.at_ns = event.at_ns;
        self.out.end.call += 1;
        let thread = event.thread as usize;
        if self.out.threads.len() <= thread {
            self.out.threads.resize(thread + 1, Thread::default());
        }
        match event.call {
            Call::Allocate { kind, id, bytes, .. } => {
                match kind {
                    Kind::Malloc => self.out.malloc += 1,
                    Kind::Calloc => self.out.calloc += 1,
                    Kind::Aligned => self.out.aligned += 1,
                }
                self.count(thread, bytes);
                let (born_event, born_ns) = (self.out.end.call, event.at_ns);
                let block = Block { bytes, thread: event.thread, resizes: 0, born_event, born_ns };
                self.live.insert(id, block);
                self.add(bytes);
            }
            Call::Resize { id, bytes } => {
                self.out.realloc += 1;
                let block =
                    self.live.get_mut(&id).ok_or_else(|| lost(self.out.end.call, "realloc"))?;
                let before = std::mem::replace(&mut block.bytes, bytes);
                block.resizes += 1;
                let resizes = block.resizes;
                self.grown(before, bytes, resizes);
                if bytes > before {
                    self.count(thread, bytes);
                }
                self.remove(before);
                self.add(bytes);
            }
            Call::Free { id } => {
                self.out.free += 1;
                let block = self.live.remove(&id).ok_or_else(|| lost(self.out.end.call, "free"))?;
                let entry = &mut self.out.threads[thread];
                entry.frees += 1;
                entry.frees_of_others += u64::from(block.thread != event.thread);
                let lived = |rows: &mut [Lifetimes], value: u64| {
                    if let Some(row) =
                        rows.iter_mut().find(|row| row.below.is_none_or(|below| value < below))
                    {
                        row.blocks += 1;
                        row.bytes = row.bytes.saturating_add(block.bytes);
                    }
                };
                lived(&mut self.out.lifetimes_calls, self.out.end.call - block.born_event);
                lived(&mut self.out.lifetimes_ns, event.at_ns - block.born_ns);
                self.remove(block.bytes);
            }
            Call::Fail { .. } => self.out.failed += 1,
        }
        self.point();
        Ok(())
    }

    /// An allocation of a thread.
    fn count(&mut self, thread: usize, bytes: u64) {
        let row = &mut self.out.sizes[row_of(bytes)];
        row.allocations += 1;
        row.bytes = row.bytes.saturating_add(bytes);
        let thread = &mut self.out.threads[thread];
        thread.allocations += 1;
        thread.bytes = thread.bytes.saturating_add(bytes);
        self.out.allocated_bytes = self.out.allocated_bytes.saturating_add(bytes);
    }

    fn grown(&mut self, before: u64, bytes: u64, resizes: u32) {
        let growth = &mut self.out.growth;
        growth.most_of_a_block = growth.most_of_a_block.max(resizes);
        growth.copied_bytes_most = growth.copied_bytes_most.saturating_add(before.min(bytes));
        match bytes.cmp(&before) {
            std::cmp::Ordering::Less => growth.shrank += 1,
            std::cmp::Ordering::Equal => growth.same += 1,
            std::cmp::Ordering::Greater => {
                growth.grew += 1;
                let factor = bytes as f64 / before.max(1) as f64;
                let limits = [1.125, 1.25, 1.5, 2.0, 3.0];
                growth.factors[limits.iter().position(|limit| factor < *limit).unwrap_or(5)] += 1;
            }
        }
    }

    fn add(&mut self, bytes: u64) {
        let end = &mut self.out.end;
        end.blocks += 1;
        end.bytes = end.bytes.saturating_add(bytes);
        let row = &mut self.now[row_of(bytes)];
        *row = (row.0 + 1, row.1.saturating_add(bytes));
        if end.bytes > self.out.peak.bytes {
            self.out.peak = *end;
            self.at_peak = true;
        }
    }

    fn remove(&mut self, bytes: u64) {
        self.peak_ends();
        let end = &mut self.out.end;
        end.blocks -= 1;
        end.bytes = end.bytes.saturating_sub(bytes);
        let row = &mut self.now[row_of(bytes)];
        *row = (row.0 - 1, row.1.saturating_sub(bytes));
    }

    fn peak_ends(&mut self) {
        if std::mem::take(&mut self.at_peak) {
            for (row, now) in self.out.sizes.iter_mut().zip(&self.now) {
                (row.peak_blocks, row.peak_bytes) = *now;
            }
        }
    }

    fn point(&mut self) {
        let end = self.out.end;
        let points = &mut self.out.points;
        match points.last_mut().filter(|_| end.call % self.stride != 0) {
            Some(last) if end.bytes <= last.bytes => {}
            Some(last) => *last = end,
            None => points.push(end),
        }
        if points.len() >= POINTS_MOST {
            let pairs = points.chunks(2).map(|pair| match pair {
                [a, b] if b.bytes >= a.bytes => *b,
                pair => pair[0],
            });
            *points = pairs.collect();
            self.stride *= 2;
        }
    }
}

fn lost(call: u64, name: &str) -> anyhow::Error {
    anyhow!("the trace is damaged: call {call}, a {name}, has a block that is not live")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_cover_every_size_once() {
        for row in 0..row_of(u64::MAX) {
            assert_eq!(row_of(from_of(row)), row, "{row}");
            assert_eq!(row_of(from_of(row + 1) - 1), row, "{row}");
        }
    }
}
