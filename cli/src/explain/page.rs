//! A page of small or medium blocks, as its entries in the slice table describe it.
//!
//! The counts follow src/heap/page.c and mixed.c: which blocks are out of the page, and which are free.

use super::bytes::{u16_at, u32_at, u64_at};
use super::heap::{Glebe, LINKS_MAX};
use super::shape::Layout;

const CURRENT: u8 = 0;
const FULL: u8 = 1;
const AVAIL: u8 = 2;
const SPARE: u8 = 3;
const PARKED: u8 = 255;
const MIXED_CELL_BYTES: usize = 64;
const MIXED_UNIT_CELLS: usize = 64;
const MIXED_INSIDE: u8 = 255;

/// The head of a page of small or medium blocks.
#[derive(Clone, Copy)]
pub struct Page<'a> {
    pub glebe: &'a Glebe,
    pub entry: usize,
    pub bytes: &'a [u8],
}

impl Page<'_> {
    fn l(&self) -> &Layout {
        &self.glebe.layout
    }
    pub fn kind(&self) -> u8 {
        self.bytes[self.l().page_kind]
    }
    pub fn is_head(&self) -> bool {
        u32_at(self.bytes, self.l().page_back_bytes) == 0
    }
    fn state(&self) -> u8 {
        self.bytes[self.l().page_state]
    }
    pub fn slices(&self) -> u32 {
        u32_at(self.bytes, self.l().page_slices)
    }
    pub fn cls(&self) -> usize {
        usize::from(self.bytes[self.l().page_cls])
    }
    pub fn is_mixed(&self) -> bool {
        self.cls() == self.l().mixed
    }
    /// Retained, or purged with all its blocks: no block of it is live.
    pub fn is_empty(&self) -> bool {
        self.is_spare() || self.xfree() >> 32 & self.l().xfree_purged_high as u64 != 0
    }
    pub fn is_spare(&self) -> bool {
        self.state() == SPARE
    }
    pub fn start(&self) -> u64 {
        self.glebe.base + ((self.entry as u64) << self.l().slice_log2)
    }
    pub fn page_bytes(&self) -> u64 {
        u64::from(self.slices().min(128)) << self.l().slice_log2
    }
    /// Of one block; of a mixed page, in the mean.
    pub fn block_bytes(&self) -> u64 {
        match self.is_mixed() {
            true => self.glebe.means.get(&self.entry).copied().unwrap_or(0),
            false => self.glebe.classes.get(self.cls()).map_or(0, |bytes| u64::from(*bytes)),
        }
    }
    pub fn bump(&self) -> u64 {
        u64::from(u16_at(self.bytes, self.l().page_bump))
    }
    pub fn holes(&self) -> u32 {
        u32::from(u16_at(self.bytes, self.l().page_holes))
    }
    /// Bytes from the page's start that were handed out at some time.
    pub fn carved_bytes(&self) -> u64 {
        let each = if self.is_mixed() { MIXED_CELL_BYTES as u64 } else { self.block_bytes() };
        (self.bump() * each).min(self.page_bytes())
    }
    fn xfree(&self) -> u64 {
        u64_at(self.bytes, self.l().page_xfree)
    }

    /// Blocks that are not free in a small page.
    fn out(&self) -> u64 {
        let l = self.l();
        let left = u64::from(u32_at(self.bytes, l.page_left) & 0x7fff_ffff);
        let cap = u64::from(u16_at(self.bytes, l.page_cap));
        let mark = self.bytes[l.page_mark];
        match self.state() {
            CURRENT => left,
            FULL => (cap + left).saturating_sub(self.wake()),
            AVAIL if mark != 0 && mark != PARKED => {
                left + cap * (u64::from(mark) - 1) / l.marks as u64
            }
            AVAIL => left,
            _ => 0,
        }
    }

    /// As page_wake in src/heap/page.c.
    fn wake(&self) -> u64 {
        let l = self.l();
        let cap = u64::from(u16_at(self.bytes, l.page_cap));
        let most = (l.wake_bytes as u64)
            .checked_div(self.block_bytes())
            .unwrap_or(0)
            .min(l.wake_most as u64);
        (cap / 8).min(most).max(l.wake_least as u64).min(cap / 2).max(1)
    }

    /// Blocks of a small page that the program has.
    pub fn live_blocks(&self) -> u64 {
        if self.is_empty() {
            return 0;
        }
        let l = self.l();
        let remote = self.xfree() >> l.xfree_count_shift & l.xfree_count as u64;
        let at_hand = self.glebe.at_hand.get(&self.entry).map_or(0, |count| u64::from(*count));
        let out = self.out().saturating_sub(remote).saturating_sub(at_hand);
        match self.block_bytes() {
            0 => 0,
            bytes => out.min(self.page_bytes() / bytes),
        }
    }

    /// A bit for each block of a medium page that is not free in it.
    pub fn medium_out(&self) -> u32 {
        let l = self.l();
        let cap = u16_at(self.bytes, l.page_cap).min(32);
        if u32_at(self.bytes, l.page_notify) & l.notify_purged as u32 != 0 {
            return 0;
        }
        !u32_at(self.bytes, l.page_bits) & ((1u64 << cap) - 1) as u32
    }

    /// Calls `row` with the class, the offset and the number of blocks of each row of a mixed page, given its bytes.
    pub fn mixed_rows(&self, bytes: &[u8], mut row: impl FnMut(usize, usize, usize)) {
        for cell in 1..(self.bump() as usize).min(bytes.len() / MIXED_CELL_BYTES) {
            let unit = cell / MIXED_UNIT_CELLS;
            let mark = bytes[(unit << self.l().unit_log2) + cell % MIXED_UNIT_CELLS];
            if cell % MIXED_UNIT_CELLS == 0 || mark == 0 || mark == MIXED_INSIDE {
                continue;
            }
            let cls = usize::from(mark) - 1;
            let Some(block) = self.glebe.classes.get(cls).map(|block| *block as usize) else {
                continue;
            };
            let group = if unit == 0 { MIXED_CELL_BYTES } else { 256 };
            row(cls, cell * MIXED_CELL_BYTES, (group / block).max(1));
        }
    }

    /// The addresses of the page's own free blocks, given a copy of the page: its list, the list of remote frees, and
    /// those of its units if it is parked. Blocks in holes are not on a list.
    pub fn free_blocks(&self, bytes: &[u8], mut block: impl FnMut(u64)) {
        let l = self.l();
        let link = self.glebe.link_at(self);
        let mut walk = |mut at: u64| {
            for _ in 0..LINKS_MAX {
                let Some(offset) =
                    at.checked_sub(self.start()).filter(|o| *o + link + 8 <= bytes.len() as u64)
                else {
                    return;
                };
                block(at);
                at = self.glebe.decoded(self, at, u64_at(bytes, (offset + link) as usize));
            }
        };
        walk(u64_at(self.bytes, l.page_free));
        let first = self.xfree() & l.xfree_first as u64;
        if first != 0 {
            walk(self.start() + first - 1);
        }
        if self.state() == AVAIL && self.bytes[l.page_mark] == PARKED && self.slices() >= 3 {
            let lists = self.glebe.entry(self.entry + 2);
            for unit in 0..self.page_bytes() >> l.unit_log2 {
                let first = u64::from(u16_at(lists, l.page_units + 2 * unit as usize));
                if self.holes() >> unit & 1 == 0 && first != 0 {
                    walk(self.start() + (first - 1) * self.block_bytes());
                }
            }
        }
    }
}
