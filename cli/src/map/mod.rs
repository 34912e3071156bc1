//! `glebe map`: every slice of glebe's memory in a process, as a picture.
//!
//! ```text
//!   explain::look ─▶ tables, resident pages ─▶ cells, one for a slice      text   terminal, in rows of 2 MiB or less
//!                                                                          picture  --svg
//! ```

mod options;
mod picture;
mod text;

pub use options::Options;

use crate::explain::heap::{Free, Glebe, What};
use crate::explain::{settled, Seen};
use crate::screen::Screen;
use crate::stop::Ending;
use crate::system::live::no_glebe;
use crate::words::print;
use anyhow::Result;

/// What a slice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Small,
    Medium,
    Large,
    Huge,
    Collected,
    Retained,
    /// Free, and not resident unless a huge page made it so.
    Clean,
    Guard,
}

impl Kind {
    pub const ALL: [Kind; 8] = [
        Kind::Small,
        Kind::Medium,
        Kind::Large,
        Kind::Huge,
        Kind::Collected,
        Kind::Retained,
        Kind::Clean,
        Kind::Guard,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Small => "small",
            Kind::Medium => "medium",
            Kind::Large => "large",
            Kind::Huge => "huge",
            Kind::Collected => "collected",
            Kind::Retained => "retained",
            Kind::Clean => "clean",
            Kind::Guard => "guard",
        }
    }
}

/// 16 KiB of glebe's memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    pub start: u64,
    pub kind: Kind,
    /// Percent of it that is in live blocks.
    pub live: u8,
    /// Percent of it that is resident.
    pub resident: u8,
    /// It has OS pages that were purged though blocks around them are in use.
    pub holes: bool,
    /// Bytes of a block, for small and medium pages.
    pub block_bytes: u32,
    /// Its 2 MiB asked for a huge page.
    pub huge_page: bool,
}

/// A process's cells, in the order of their addresses.
pub struct Map {
    pub program: String,
    pub pid: i32,
    pub cells: Vec<Cell>,
    pub cell_bytes: u64,
}

/// Runs the command.
pub fn map(options: &Options) -> Result<Ending> {
    let seen = settled(options.pid)?;
    if seen.glebes.is_empty() {
        return Err(no_glebe(options.pid, &seen.program, "run"));
    }
    let map = Map::of(&seen);
    let drawn = options.svg.as_ref().map(|file| picture::draw(file, &map));
    if options.json {
        print(text::json(&map))?;
    } else if options.svg.is_none() {
        print(text::text(&map, Screen::stdout()))?;
    }
    drawn.transpose()?;
    Ok(Ending::Exit(0))
}

impl Map {
    fn of(seen: &Seen) -> Map {
        let mut cells = Vec::new();
        let mut cell_bytes = 1 << 14;
        for glebe in &seen.glebes {
            cell_bytes = glebe.slice_bytes();
            for run in glebe.runs() {
                let (kind, live_bytes, holes, block_bytes) =
                    describe(glebe, run.what, run.end - run.start);
                let Some(kind) = kind else { continue };
                let bytes = run.end - run.start;
                let live = ((100 * live_bytes + bytes / 2) / bytes).min(100) as u8;
                for start in (run.start..run.end).step_by(cell_bytes as usize) {
                    let here = Cell {
                        start,
                        kind,
                        live,
                        resident: 0,
                        holes: holes.is_some_and(|holes| {
                            let units = cell_bytes >> glebe.layout.unit_log2;
                            let first = (start - run.start) >> glebe.layout.unit_log2;
                            u64::from(holes) >> first.min(63) & ((1 << units) - 1) != 0
                        }),
                        block_bytes,
                        huge_page: glebe.asks_for_huge_page(start),
                    };
                    cells.push(here);
                }
            }
        }
        cells.sort_by_key(|cell| cell.start);
        let mut map = Map { program: seen.program.clone(), pid: seen.pid, cells, cell_bytes };
        map.add_residency(seen);
        map
    }

    /// Sets which share of each cell is resident.
    fn add_residency(&mut self, seen: &Seen) {
        let doubtful_count = seen.doubtful_count();
        let mut bytes = vec![0; self.cells.len()];
        for stretch in seen.stretches.iter().flat_map(|(_, stretches)| stretches) {
            if !stretch.pages.count(doubtful_count) {
                continue;
            }
            let first =
                self.cells.partition_point(|cell| cell.start + self.cell_bytes <= stretch.start);
            for (i, cell) in
                self.cells.iter().enumerate().skip(first).take_while(|(_, c)| c.start < stretch.end)
            {
                let end = (cell.start + self.cell_bytes).min(stretch.end);
                bytes[i] += end - cell.start.max(stretch.start);
            }
        }
        for (cell, bytes) in self.cells.iter_mut().zip(bytes) {
            cell.resident = (100 * bytes / self.cell_bytes).min(100) as u8;
        }
    }
}

/// The kind of a run (None: tables), its live bytes, the holes of a small page, the size of its blocks.
fn describe(glebe: &Glebe, what: What, bytes: u64) -> (Option<Kind>, u64, Option<u32>, u32) {
    let (kind, live, holes, each) = match what {
        What::Table => return (None, 0, None, 0),
        What::Small { entry } => {
            let page = glebe.page(entry);
            let kind = if page.is_spare() { Kind::Retained } else { Kind::Small };
            let live = page.live_blocks() * page.block_bytes();
            (kind, live, Some(page.holes()), if page.is_mixed() { 0 } else { page.block_bytes() })
        }
        What::Medium { entry } => {
            let page = glebe.page(entry);
            let live = u64::from(page.medium_out().count_ones()) * page.block_bytes();
            (Kind::Medium, live, None, page.block_bytes())
        }
        What::Large { warm: false } => (Kind::Large, bytes, None, 0),
        What::Huge { warm: false, used } => (Kind::Huge, used, None, 0),
        What::Large { .. } | What::Huge { .. } => (Kind::Retained, 0, None, 0),
        What::Collected => (Kind::Collected, 0, None, 0),
        What::Free { state: Free::Clean, .. } => (Kind::Clean, 0, None, 0),
        What::Free { .. } => (Kind::Retained, 0, None, 0),
        What::Guard => (Kind::Guard, 0, None, 0),
    };
    (Some(kind), live, holes, each as u32)
}
