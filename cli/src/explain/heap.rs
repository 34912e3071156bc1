//! The tables of a glebe in another process, copied, and what they say about each piece of its memory.
//!
//! ```text
//!   region ─▶ slice table, records of large blocks, chunk table, extents, heaps      copied as they are
//!     runs()         [start, end) is a page, a large or huge block, free slices, a free extent, a table
//!     out(page)      blocks of a page that are not free in it                       src/heap/page.c: gb_page_out
//!     at_hand        of those, the ones on free lists of heaps                      the thread free lists, slots
//! ```
//!
//! The process runs on while we copy, unless the caller has stopped it. So numbers of one page may not fit together:
//! each is bounded by what the page can hold, and a walk along links ends where a link leads out of its page.

use super::bytes::{copy, u32_at, u64_at, Pages};
use super::page::Page;
use super::shape::{self, Layout, Shape};
use crate::system::live::{find_live, Memory, Piece, Reader};
use anyhow::{Context, Result};
use std::collections::{HashMap, HashSet};
use std::io;

pub const FREE: u8 = 0;
pub const SMALL: u8 = 1;
pub const MEDIUM: u8 = 2;
pub const LARGE: u8 = 3;
const RESERVED: u8 = 4;

const EXTENT_USED: u8 = 2;
const EXTENT_IDLE: u8 = 3;
const EXTENT_LAZY: u8 = 4;
const EXTENT_AWAY: u8 = 6;

const SPAN_HUGE: u8 = 1;
const HEAP_UNUSED: u32 = 0;
/// Of used_bytes, the second statistic, in glebe_live.
const USED_BYTES_AT: u64 = 40;
/// More links than any list has: a damaged one may be a circle.
pub const LINKS_MAX: usize = 1 << 20;

/// What a piece of glebe's memory is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum What {
    Table,
    Small {
        entry: usize,
    },
    Medium {
        entry: usize,
    },
    Large {
        warm: bool,
    },
    Huge {
        warm: bool,
        used: u64,
    },
    Collected,
    /// Slices or an extent without a block. Clean: never touched, or purged.
    Free {
        state: Free,
        huge_pages: bool,
    },
    Guard,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Free {
    Retained,
    Lazy,
    Clean,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    pub start: u64,
    pub end: u64,
    pub what: What,
}

/// The options of a process that decide what happens to its free memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    pub background: bool,
    pub purge_ms: u32,
    pub limit: u64,
}

/// One glebe in a process.
pub struct Glebe {
    pub layout: Layout,
    pub options: Options,
    /// The statistic used_bytes, which the option limit bounds.
    pub used_bytes: u64,
    /// Bytes of a block, by class.
    pub classes: Vec<u32>,
    pub base: u64,
    extents_base: u64,
    pub key: u64,
    pub unkey: u64,
    table: Vec<u8>,
    large: Vec<u8>,
    extents: Vec<u8>,
    chunks: Vec<u8>,
    /// The state of each 2 MiB of extents.
    spans: Vec<u8>,
    tables: Vec<(u64, u64)>,
    /// Blocks on free lists of heaps, and in slots of threads that freed them, by the head of their page.
    pub at_hand: HashMap<usize, u32>,
    /// Their addresses, as far as the lists lead.
    listed: HashSet<u64>,
    /// Medium blocks that their heaps keep warm, and those up to 1 MiB that the safe build holds.
    warm: HashSet<u64>,
    /// The mean size of the blocks of each mixed page, by its entry.
    pub means: HashMap<usize, u64>,
    /// The addresses of heap records, and of the collector's own bits: no roots for `glebe leaks`.
    pub region: (u64, u64),
}

/// Where a glebe is in a process. That does not change.
pub struct Located {
    pid: i32,
    file: String,
    pub live: u64,
    pub shape: Shape,
}

/// Finds each glebe in a process.
pub fn locate(memory: &Memory, pieces: &[Piece]) -> Result<Vec<Located>> {
    let mut all = Vec::new();
    for (live, file) in find_live(memory, pieces) {
        let shape = shape::find(memory, pieces, live, file).with_context(|| {
            format!("process {} has glebe inside ({file}), but cannot be read", memory.pid)
        })?;
        all.push(Located { pid: memory.pid, file: file.into(), live, shape });
    }
    Ok(all)
}

impl Located {
    /// The glebe that a snapshot describes.
    pub fn at(pid: i32, live: u64, shape: Shape) -> Located {
        Located { pid, file: "the snapshot".into(), live, shape }
    }
}

/// Each glebe that has begun to work.
pub fn read(memory: &impl Reader, located: &[Located]) -> Result<Vec<Glebe>> {
    let mut all = Vec::new();
    for one in located {
        let glebe = Glebe::read(memory, one).with_context(|| {
            format!("the tables of {} in process {} cannot be read", one.file, one.pid)
        })?;
        all.extend(glebe);
    }
    Ok(all)
}

impl Glebe {
    /// None if it has not served a request yet.
    fn read(memory: &impl Reader, located: &Located) -> Result<Option<Glebe>> {
        let shape = &located.shape;
        let l = shape.layout.clone();
        let region = copy(memory, shape.region, l.region as u64)?;
        if region[l.ready] == 0 {
            return Ok(None);
        }
        let at = |field| u64_at(&region, field);
        let count = |field| u64::from(u32_at(&region, field));
        let class_rows = copy(memory, shape.classes, (l.class * l.classes) as u64)?;
        let classes =
            class_rows.chunks_exact(l.class).map(|row| u32_at(row, l.class_bytes)).collect();
        let slices = at(l.slices);
        let option = |field| u32_at(&region, field);
        let mut tables = vec![
            (at(l.table), at(l.committed_table)),
            (at(l.large), at(l.committed_large)),
            (at(l.heads), at(l.committed_heads)),
            (at(l.chunk_table), at(l.committed_chunk_table)),
            (at(l.heaps), at(l.committed_heaps)),
            (at(l.heap_bits), at(l.committed_heap_bits)),
            (at(l.extents), at(l.committed_extents)),
            (at(l.spans), at(l.committed_spans)),
            (at(l.shadow), at(l.committed_shadow)),
        ];
        for bits in (0..l.bits_tables).map(|i| l.bits + i * l.bits_bytes) {
            tables.push((at(bits + l.bits_allocated), at(bits + l.bits_allocated_committed)));
            tables.push((at(bits + l.bits_unmarked), at(bits + l.bits_unmarked_committed)));
            tables.push((at(bits + l.bits_waiting), at(bits + l.bits_waiting_committed)));
        }
        tables.retain(|(start, bytes)| *start != 0 && *bytes != 0);
        let purge_ms = option(l.purge_ms);
        let mut glebe = Glebe {
            used_bytes: memory.u64(located.live + USED_BYTES_AT)?,
            options: Options {
                background: option(l.background) != 0,
                purge_ms: if purge_ms == 0 { 500 } else { purge_ms },
                limit: at(l.limit),
            },
            classes,
            base: at(l.base),
            extents_base: at(l.extents_base),
            key: at(l.key),
            unkey: at(l.unkey),
            table: copy(memory, at(l.table), slices * l.page as u64)?,
            large: copy(memory, at(l.large), slices / l.large_least as u64 * l.page as u64)?,
            extents: copy(memory, at(l.extents), count(l.top) * l.extent as u64)?,
            chunks: copy(memory, at(l.chunk_table), count(l.chunks) * l.chunk as u64)?,
            spans: match at(l.spans) {
                0 => Vec::new(),
                spans => copy(memory, spans, at(l.committed_spans))?,
            },
            tables,
            at_hand: HashMap::new(),
            listed: HashSet::new(),
            warm: HashSet::new(),
            means: HashMap::new(),
            region: (shape.region, shape.region + l.region as u64),
            layout: l,
        };
        let heaps = count(glebe.layout.heaps_made);
        glebe.read_heaps(memory, at(glebe.layout.heaps), heaps)?;
        if glebe.layout.safe != 0 {
            let shadow = copy(memory, at(glebe.layout.shadow), at(glebe.layout.committed_shadow))?;
            glebe.read_held(&shadow);
        }
        glebe.read_mixed(memory);
        Ok(Some(glebe))
    }

    fn read_heaps(&mut self, memory: &impl Reader, heaps: u64, made: u64) -> io::Result<()> {
        let l = self.layout.clone();
        let mut pages = Pages::new(memory);
        for number in 1..=made {
            let heap = copy(memory, heaps + number * l.heap as u64, l.heap as u64)?;
            if u32_at(&heap, l.heap_kind) == HEAP_UNUSED {
                continue;
            }
            for cls in 0..l.small_classes {
                self.walk(&mut pages, u64_at(&heap, l.heap_front + 8 * cls));
            }
            for cls in 0..l.borrowed_classes {
                self.walk(
                    &mut pages,
                    u64_at(&heap, l.heap_borrowed + cls * l.borrowed + l.borrowed_first),
                );
            }
            for slot in (0..l.remote_slots).map(|slot| l.heap_remote + slot * l.remote) {
                if u32_at(&heap, slot + l.remote_page) != 0 {
                    self.walk(&mut pages, u64_at(&heap, slot + l.remote_first));
                }
            }
            for cls in 0..l.classes - l.small_classes {
                let block = u64_at(&heap, l.heap_warm + 8 * cls);
                self.warm.extend((block != 0).then_some(block));
            }
        }
        Ok(())
    }

    /// Counts blocks that the program freed, and the safe build holds: a bit for each 16 bytes in every other word of
    /// the shadow (src/base/held.c).
    fn read_held(&mut self, shadow: &[u8]) {
        for (number, words) in shadow.chunks_exact(16).enumerate() {
            let mut held = u64_at(words, 0);
            while held != 0 {
                let block =
                    self.base + ((number as u64) << 10) + (u64::from(held.trailing_zeros()) << 4);
                held &= held - 1;
                match self.small_head(block) {
                    Some(entry) if self.listed.insert(block) => {
                        *self.at_hand.entry(entry).or_default() += 1
                    }
                    Some(_) => {}
                    None => drop(self.warm.insert(block)),
                }
            }
        }
    }

    /// Counts the blocks of a list of small blocks as at hand.
    fn walk(&mut self, pages: &mut Pages<impl Reader>, mut block: u64) {
        for _ in 0..LINKS_MAX {
            let Some(entry) = self.small_head(block) else { return };
            if !self.listed.insert(block) {
                return;
            }
            *self.at_hand.entry(entry).or_default() += 1;
            let page = self.page(entry);
            // At the end of the list it is no block.
            block = self.decoded(&page, block, pages.word(block + self.link_at(&page)));
        }
    }

    /// Where the link of a free block of this page is, in bytes from the block's start.
    pub fn link_at(&self, page: &Page) -> u64 {
        match self.layout.secure {
            0 => self.layout.link_at as u64,
            _ => {
                self.classes.get(page.cls()).map_or(0, |bytes| u64::from(*bytes).saturating_sub(8))
            }
        }
    }

    /// The address that the word at a free block's link means. In the secure build that is the block's tail:
    /// src/region/page_map.h.
    pub fn decoded(&self, page: &Page, block: u64, word: u64) -> u64 {
        const SECRET: u64 = 0x9e37_79b9_7f4a_7c15;
        if self.layout.secure == 0 {
            return match self.layout.keyed {
                0 => word,
                _ => word.wrapping_mul(self.unkey),
            };
        }
        let tail = block + self.link_at(page);
        let plain = word ^ ((self.key ^ tail).wrapping_mul(SECRET) | 1 | 1 << 63);
        let away = (plain << 15) as i64 >> 50; // in words, signed
        match plain >> 49 & 1 {
            1 if away != 0 => block.wrapping_add_signed(away * 8),
            _ => 0,
        }
    }

    /// The head of the small page that contains the address.
    fn small_head(&self, address: u64) -> Option<usize> {
        let slice = address.checked_sub(self.base)? >> self.layout.slice_log2;
        let entry = usize::try_from(slice).ok()?;
        if entry >= self.slices() || self.kind(entry) != SMALL {
            return None;
        }
        entry.checked_sub(
            u32_at(self.entry(entry), self.layout.page_back_bytes) as usize / self.layout.page,
        )
    }

    fn slices(&self) -> usize {
        self.table.len() / self.layout.page
    }
    pub fn entry(&self, entry: usize) -> &[u8] {
        &self.table[entry * self.layout.page..(entry + 1) * self.layout.page]
    }
    fn kind(&self, entry: usize) -> u8 {
        self.entry(entry)[self.layout.page_kind]
    }
    pub fn slice_bytes(&self) -> u64 {
        1 << self.layout.slice_log2
    }
    pub fn unit_bytes(&self) -> u64 {
        1 << self.layout.unit_log2
    }
    pub fn page(&self, entry: usize) -> Page<'_> {
        Page { glebe: self, entry, bytes: self.entry(entry) }
    }

    /// Sets the mean size of the blocks of each mixed page.
    fn read_mixed(&mut self, memory: &impl Reader) {
        for entry in 0..self.slices() {
            let page = self.page(entry);
            if page.is_head() && page.kind() == SMALL && page.is_mixed() {
                let bytes = copy(memory, page.start(), page.page_bytes()).unwrap_or_default();
                let (mut blocks, mut sum) = (0, 0);
                page.mixed_rows(&bytes, |cls, _, count| {
                    blocks += count as u64;
                    sum += count as u64 * u64::from(self.classes[cls]);
                });
                let mean = sum.checked_div(blocks).unwrap_or(0);
                self.means.insert(entry, mean);
            }
        }
    }

    /// Every piece of memory that the tables describe, by address.
    pub fn runs(&self) -> Vec<Run> {
        let table = |(start, bytes): &(u64, u64)| Run {
            start: *start,
            end: start + bytes,
            what: What::Table,
        };
        let mut runs: Vec<Run> = self.tables.iter().map(table).collect();
        let mut entry = 0;
        while entry < self.slices() {
            let run = self.run_at(entry);
            entry += ((run.end - run.start) >> self.layout.slice_log2) as usize;
            // Free slices side by side make one run.
            match runs.last_mut() {
                Some(last) if last.end == run.start && last.what == run.what && free(run.what) => {
                    last.end = run.end
                }
                _ => runs.push(run),
            }
        }
        self.extent_runs(&mut runs);
        runs.sort_by_key(|run| run.start);
        runs
    }

    fn run_at(&self, entry: usize) -> Run {
        let l = &self.layout;
        let start = self.base + ((entry as u64) << l.slice_log2);
        let chunk_slices = 1usize << (l.chunk_log2 - l.slice_log2);
        let left = chunk_slices - entry % chunk_slices;
        let run = |slices: u32, what| {
            let slices = (slices as usize).clamp(1, left) as u64;
            Run { start, end: start + (slices << l.slice_log2), what }
        };
        let page = self.page(entry);
        match page.kind() {
            SMALL if page.is_head() => run(page.slices(), What::Small { entry }),
            MEDIUM if page.is_head() => run(page.slices(), What::Medium { entry }),
            FREE => {
                let record = entry / l.large_least * l.page;
                let record = self.large.get(record..record + l.page).unwrap_or_default();
                let begins = record.get(l.page_kind) == Some(&LARGE)
                    && usize::from(record[l.page_cls]) == entry % l.large_least;
                if begins {
                    let warm = record[l.page_warm] != 0 || self.warm.contains(&start);
                    return run(u32_at(record, l.page_slices), What::Large { warm });
                }
                run(1, self.free_slice(entry))
            }
            RESERVED => run(1, What::Guard),
            kind if kind > RESERVED && page.is_head() => run(page.slices(), What::Collected),
            // The inside of a run whose head changed while we copied.
            _ => run(1, What::Free { state: Free::Retained, huge_pages: false }),
        }
    }

    fn free_slice(&self, entry: usize) -> What {
        let l = &self.layout;
        let chunk_slices = 1usize << (l.chunk_log2 - l.slice_log2);
        let chunk = entry / chunk_slices * l.chunk;
        let chunk = self.chunks.get(chunk..chunk + l.chunk).unwrap_or_default();
        let has = |set: usize| {
            let bit = entry % chunk_slices;
            u64_at(chunk, set + bit / 64 * 8) >> (bit % 64) & 1 != 0
        };
        let state = if has(l.chunk_dirty) {
            Free::Retained
        } else if has(l.chunk_lazy) && has(l.chunk_idle) {
            Free::Lazy
        } else {
            Free::Clean
        };
        What::Free {
            state,
            huge_pages: chunk.get(l.chunk_huge_pages).is_some_and(|asked| *asked != 0),
        }
    }

    fn extent_runs(&self, runs: &mut Vec<Run>) {
        let l = &self.layout;
        let top = self.extents.len() / l.extent;
        let mut number = 1;
        while number < top {
            let extent = &self.extents[number * l.extent..(number + 1) * l.extent];
            let granules = (u32_at(extent, l.extent_granules) as usize).clamp(1, top - number);
            let start = self.extents_base + ((number as u64) << l.granule_log2);
            let end = start + ((granules as u64) << l.granule_log2);
            let huge_pages = self.asks_for_huge_page(start) || self.asks_for_huge_page(end - 1);
            let free = |state| What::Free { state, huge_pages };
            let what = match extent[l.extent_state] {
                EXTENT_USED if extent[l.extent_collected] != 0 => What::Collected,
                EXTENT_USED => What::Huge {
                    warm: extent[l.extent_warm] != 0 || extent[l.extent_held] != 0,
                    used: u64_at(extent, l.extent_bytes),
                },
                EXTENT_IDLE => free(Free::Retained),
                EXTENT_LAZY => free(Free::Lazy),
                _ => free(Free::Clean),
            };
            if extent[l.extent_state] < EXTENT_AWAY {
                runs.push(Run { start, end, what });
            }
            number += granules;
        }
    }

    /// Whether the 2 MiB of chunks or extents around the address asked for a huge page.
    pub fn asks_for_huge_page(&self, address: u64) -> bool {
        let l = &self.layout;
        if address >= self.extents_base {
            let span = ((address - self.extents_base) >> l.chunk_log2) as usize;
            return self.spans.get(span) == Some(&SPAN_HUGE);
        }
        let chunk = (address.saturating_sub(self.base) >> l.chunk_log2) as usize * l.chunk;
        self.chunks.get(chunk + l.chunk_huge_pages).is_some_and(|asked| *asked != 0)
    }

    pub fn is_warm(&self, block: u64) -> bool {
        self.warm.contains(&block)
    }
    pub fn is_listed(&self, block: u64) -> bool {
        self.listed.contains(&block)
    }
}

fn free(what: What) -> bool {
    matches!(what, What::Free { .. } | What::Guard)
}
