//! Which live blocks are reached from the roots.
//!
//! ```text
//!   live blocks, by page ─▶ spans      [start, end) in blocks of one size, numbered through
//!       an address inside ─▶ number ─▶ a bit in `live`, a bit in `marked`
//!   roots ─▶ words ─▶ blocks not marked yet ─▶ their words ─▶ ...        a stack of numbers
//! ```
//!
//! This is the conservative marking of glebe's collector (src/gc/mark.c) over malloc's pages: range, page, index, in
//! use, test and set. The collector's own code cannot serve here: it follows the tables of its own process.

use super::copy::Snapshot;
use crate::explain::heap::{Glebe, What};
use std::collections::HashSet;

/// Blocks of one size, side by side.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u64,
    end: u64,
    each: u64,
    /// The number of its first block.
    first: usize,
}

/// All live blocks, and those that were reached.
pub struct Blocks {
    /// In the order of their addresses.
    spans: Vec<Span>,
    live: Vec<u64>,
    marked: Vec<u64>,
    count: usize,
}

/// A live block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block {
    pub start: u64,
    pub bytes: u64,
}

fn bit(bits: &[u64], i: usize) -> bool {
    bits[i / 64] >> (i % 64) & 1 != 0
}

/// Sets a bit. Returns whether it was clear.
fn set(bits: &mut [u64], i: usize) -> bool {
    let was = bit(bits, i);
    bits[i / 64] |= 1 << (i % 64);
    !was
}

fn clear(bits: &mut [u64], i: usize) {
    bits[i / 64] &= !(1 << (i % 64));
}

impl Blocks {
    /// The live blocks of a stopped process.
    pub fn of(copy: &Snapshot) -> Blocks {
        let mut blocks =
            Blocks { spans: Vec::new(), live: Vec::new(), marked: Vec::new(), count: 0 };
        let mut free = Vec::new();
        let own = copy.samples.as_ref().map(|samples| &samples.chunks);
        let is_own = |start: u64| own.is_some_and(|chunks| chunks.contains(&start));
        for glebe in &copy.glebes {
            for run in glebe.runs() {
                match run.what {
                    // The profiler's records.
                    What::Large { .. } if is_own(run.start) => {}
                    What::Small { entry } => blocks.add_small(copy, glebe, entry, &mut free),
                    What::Medium { entry } => blocks.add_medium(glebe, entry, &mut free),
                    What::Large { warm: false } => {
                        blocks.add(run.start, run.end, run.end - run.start)
                    }
                    What::Huge { warm: false, used } if used > 0 => {
                        blocks.add(run.start, run.start + used.min(run.end - run.start), used)
                    }
                    _ => {}
                }
            }
        }
        blocks.spans.sort_by_key(|span| span.start);
        blocks.live = vec![!0; blocks.count / 64 + 1];
        for address in free {
            if let Some((number, start)) = blocks.find(address) {
                debug_assert_eq!(start, address);
                clear(&mut blocks.live, number);
            }
        }
        blocks.marked = vec![0; blocks.live.len()];
        blocks
    }

    fn add(&mut self, start: u64, end: u64, each: u64) {
        if end > start && each > 0 {
            self.spans.push(Span { start, end, each, first: self.count });
            self.count += ((end - start) / each) as usize;
        }
    }

    fn add_small(&mut self, copy: &Snapshot, glebe: &Glebe, entry: usize, free: &mut Vec<u64>) {
        let page = glebe.page(entry);
        if page.is_empty() {
            return;
        }
        let bytes = copy.bytes_of(page.start(), page.start() + page.page_bytes());
        page.free_blocks(&bytes, |block| free.push(block));
        let mut add = |start: u64, each: u64, count: u64, blocks: &mut Blocks| {
            blocks.add(start, start + count * each, each);
            for block in (0..count).map(|i| start + i * each) {
                let unit = |at: u64| (at - page.start()) >> glebe.layout.unit_log2;
                let in_hole =
                    (page.holes() >> unit(block) | page.holes() >> unit(block + each - 1)) & 1 != 0;
                if in_hole || glebe.is_listed(block) {
                    free.push(block);
                }
            }
        };
        if page.is_mixed() {
            page.mixed_rows(&bytes, |cls, offset, count| {
                add(page.start() + offset as u64, u64::from(glebe.classes[cls]), count as u64, self)
            });
        } else {
            let fit = page.page_bytes() / page.block_bytes().max(1);
            add(page.start(), page.block_bytes(), page.bump().min(fit), self);
        }
    }

    fn add_medium(&mut self, glebe: &Glebe, entry: usize, free: &mut Vec<u64>) {
        let page = glebe.page(entry);
        let (each, out) = (page.block_bytes(), page.medium_out());
        let count = (page.page_bytes() / each.max(1)).min(32);
        self.add(page.start(), page.start() + count * each, each);
        for i in 0..count {
            let block = page.start() + i * each;
            if out >> i & 1 == 0 || glebe.is_warm(block) {
                free.push(block);
            }
        }
    }

    /// The number and the start of the block that contains the address, live or not.
    fn find(&self, address: u64) -> Option<(usize, u64)> {
        let next = self.spans.partition_point(|span| span.start <= address);
        let span = self.spans.get(next.checked_sub(1)?)?;
        if address >= span.end {
            return None;
        }
        let index = (address - span.start) / span.each;
        Some((span.first + index as usize, span.start + index * span.each))
    }

    fn bounds(&self) -> (u64, u64) {
        (
            self.spans.first().map_or(0, |span| span.start),
            self.spans.last().map_or(0, |span| span.end),
        )
    }

    /// Marks all blocks that the roots reach.
    pub fn mark(&mut self, copy: &Snapshot) {
        let mut stack = Vec::new();
        for word in &copy.registers {
            self.reach(*word, &mut stack);
        }
        for (start, end) in &copy.roots {
            copy.each_word(*start, *end, |word| self.reach(word, &mut stack));
            self.mark_from(copy, &mut stack);
        }
        self.mark_from(copy, &mut stack);
    }

    fn reach(&mut self, word: u64, stack: &mut Vec<u64>) {
        let (from, to) = self.bounds();
        if !(from..to).contains(&word) {
            return;
        }
        if let Some((number, start)) = self.find(word) {
            if bit(&self.live, number) && set(&mut self.marked, number) {
                stack.push(start);
            }
        }
    }

    fn mark_from(&mut self, copy: &Snapshot, stack: &mut Vec<u64>) {
        while let Some(start) = stack.pop() {
            let end = start + self.bytes_at(start);
            copy.each_word(start, end, |word| self.reach(word, stack));
        }
    }

    /// The blocks that were not reached.
    pub fn leaked(&self) -> HashSet<Block> {
        let mut leaked = HashSet::new();
        self.each(|block, reached| {
            if !reached {
                leaked.insert(block);
            }
        });
        leaked
    }

    /// Blocks that are not among these count as reached.
    pub fn keep(&mut self, leaked: &HashSet<Block>) {
        let others = self.leaked().into_iter().filter(|block| !leaked.contains(block));
        for block in others.collect::<Vec<_>>() {
            if let Some((number, _)) = self.find(block.start) {
                set(&mut self.marked, number);
            }
        }
    }

    fn bytes_at(&self, block: u64) -> u64 {
        let next = self.spans.partition_point(|span| span.start <= block);
        self.spans[next - 1].each
    }

    /// Calls `block` with each live block, and whether it was reached.
    pub fn each(&self, mut block: impl FnMut(Block, bool)) {
        for span in &self.spans {
            for i in 0..(span.end - span.start) / span.each {
                let number = span.first + i as usize;
                if bit(&self.live, number) {
                    let start = span.start + i * span.each;
                    block(Block { start, bytes: span.each }, bit(&self.marked, number));
                }
            }
        }
    }

    /// Of the blocks that were not reached, those that no other such block refers to.
    pub fn first_of_leaks(&self, copy: &Snapshot) -> Vec<Block> {
        let mut referred = vec![0; self.live.len()];
        self.each(|block, reached| {
            let own = self.find(block.start).map(|(number, _)| number);
            let mut refer = |word| {
                if let Some((number, _)) =
                    self.find(word).filter(|(number, _)| Some(*number) != own)
                {
                    set(&mut referred, number);
                }
            };
            if !reached {
                copy.each_word(block.start, block.start + block.bytes, &mut refer);
            }
        });
        let mut first = Vec::new();
        self.each(|block, reached| {
            let number = self.find(block.start).map_or(0, |(number, _)| number);
            if !reached && !bit(&referred, number) {
                first.push(block);
            }
        });
        first
    }
}
