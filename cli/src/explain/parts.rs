//! The resident set as parts that sum to it: every resident OS page is counted once, by its mapping, and inside glebe's
//! memory by what the tables say about its address.
//!
//! ```text
//!   a small page of four slices, one OS page of it purged:
//!     | live free live live | purged hole | free live ... | not carved |        each OS page: live share, free share
//!       live = resident bytes x blocks in use / blocks carved outside holes     free in pages = the rest
//! ```
//!
//! Lists of free blocks run through the blocks, so we do not know which block of a small page is live without a walk
//! over the page's memory. The counts suffice for sums: within a page the live bytes are taken as spread evenly.

use super::heap::{Free, Glebe, Run, What};
use super::part::Part;
use super::pins::{pins, Pin};
use super::process::{
    leave_out_zeros, limits, mappings, stack_pointers, status_bytes, Limit, Mapping, Pagemap,
    Pages, Stretch, Use,
};
use super::samples;
use crate::profile::sites::Sites;
use crate::system::live::{maps_of, memory_of, name_of, no_memory, pieces, program_of};
use anyhow::Result;
use std::collections::BTreeMap;

/// One size class.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Class {
    pub blocks: u64,
    pub live_bytes: u64,
    /// Resident bytes of its pages that are in no live block.
    pub free_bytes: u64,
}

/// A process and its parts at one moment.
pub struct Explanation {
    pub program: String,
    pub pid: i32,
    pub bytes: [u64; Part::ALL.len()],
    pub swap_bytes: u64,
    /// VmRSS of the kernel, read beside.
    pub kernel_bytes: u64,
    pub peak_bytes: u64,
    /// By the size of a block; 0: mixed pages.
    pub classes: BTreeMap<u32, Class>,
    pub live_blocks_bytes: u64,
    /// Live bytes that are not resident: never touched, purged by the program, or in swap.
    pub live_absent_bytes: u64,
    /// At most so much of the live bytes is the rounding of requests.
    pub rounding_most_bytes: u64,
    /// Of the retained bytes, those that the kernel may take at any time.
    pub lazy_bytes: u64,
    pub glebes: Vec<Glebe>,
    pub mappings: Vec<(String, u64)>,
    pub limits: Vec<Limit>,
    /// Whether allocations were sampled.
    pub sampled: bool,
    /// None: a snapshot, or no samples.
    pub sites: Option<Sites>,
    /// After find_pins.
    pub pins: Vec<Pin>,
}

impl Explanation {
    pub fn rss_bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }
    pub fn part(&self, part: Part) -> u64 {
        self.bytes[part as usize]
    }

    /// Finds the sites that hold free bytes. It reads the names of functions from the program's files, so only
    /// callers that show them call it.
    pub fn find_pins(&mut self) {
        if let Some(sites) = &mut self.sites {
            self.pins = pins(&self.classes, sites);
        }
    }
}

/// A copy of a process's tables, mappings and resident pages.
pub struct Seen {
    pub pid: i32,
    pub mappings: Vec<Mapping>,
    pub glebes: Vec<Glebe>,
    pub stretches: Vec<(usize, Vec<Stretch>)>,
    pub program: String,
    pub kernel_bytes: u64,
    pub peak_bytes: u64,
    pub limits: Vec<Limit>,
    /// Whether allocations were sampled. A snapshot has no `sites` even then.
    pub sampled: bool,
    pub sites: Option<Sites>,
}

/// Copies what is needed of a process. Does not stop it. Fails if it ends meanwhile.
pub fn look(pid: i32) -> Result<Seen> {
    let maps = maps_of(pid)?;
    let pieces = pieces(&maps);
    let memory = memory_of(pid, &pieces)?;
    let located = super::heap::locate(&memory, &pieces)?;
    let glebes = super::heap::read(&memory, &located)?;
    let samples = samples::of(&memory, &located);
    let sites = samples.map(|samples| Sites::new(samples, samples::modules(pid, &memory, &maps)));
    let pagemap = Pagemap::open(pid)?;
    let mappings = mappings(&maps, &stack_pointers(pid));
    let mut stretches = Vec::new();
    for (i, mapping) in
        mappings.iter().enumerate().filter(|(_, mapping)| mapping.usage != Use::Apart)
    {
        let mut here = Vec::new();
        pagemap.read(mapping.start, mapping.end, &mut here)?;
        leave_out_zeros(mapping, &mut here);
        stretches.push((i, here));
    }
    let program = program_of(&memory).unwrap_or_else(|| name_of(pid));
    // Read last: a process that has it was alive while all else was read.
    let kernel_bytes = status_bytes(pid, "VmRSS").ok_or_else(|| no_memory(pid))?;
    let peak_bytes = status_bytes(pid, "VmHWM").unwrap_or(0);
    let limits = limits(pid);
    Ok(Seen {
        pid,
        mappings,
        glebes,
        stretches,
        program,
        kernel_bytes,
        peak_bytes,
        limits,
        sampled: sites.is_some(),
        sites,
    })
}

impl Seen {
    /// Pages of which pagemap does not say whether they are resident: true if VmRSS counts them.
    pub fn doubtful_count(&self) -> bool {
        let [with, without] = [true, false].map(|count| self.sum(count));
        with.abs_diff(self.kernel_bytes) <= without.abs_diff(self.kernel_bytes)
    }

    fn sum(&self, doubtful_count: bool) -> u64 {
        let all = self.stretches.iter().flat_map(|(_, stretches)| stretches);
        all.filter(|s| s.pages.count(doubtful_count)).map(|s| s.end - s.start).sum()
    }

    /// Whether the resident pages add up to what the kernel counts, within 1 %.
    pub fn is_near(&self) -> bool {
        let sum = self.sum(self.doubtful_count());
        sum.abs_diff(self.kernel_bytes) <= self.kernel_bytes / 100
    }

    pub fn explain(self) -> Explanation {
        let doubtful_count = self.doubtful_count();
        let mut sum = Explanation {
            program: self.program,
            pid: self.pid,
            bytes: [0; Part::ALL.len()],
            swap_bytes: 0,
            kernel_bytes: self.kernel_bytes,
            peak_bytes: self.peak_bytes,
            classes: BTreeMap::new(),
            live_blocks_bytes: 0,
            live_absent_bytes: 0,
            rounding_most_bytes: 0,
            lazy_bytes: 0,
            glebes: Vec::new(),
            mappings: Vec::new(),
            limits: self.limits,
            sampled: self.sampled,
            sites: None,
            pins: Vec::new(),
        };
        let mut runs: Vec<(usize, Run)> = Vec::new();
        for (number, glebe) in self.glebes.iter().enumerate() {
            runs.extend(glebe.runs().into_iter().map(|run| (number, run)));
        }
        runs.sort_by_key(|(_, run)| run.start);
        if let Some(sites) = &self.sites {
            let large = runs.iter_mut().filter(|(_, run)| matches!(run.what, What::Large { .. }));
            large
                .filter(|(_, run)| sites.are_at(run.start))
                .for_each(|(_, run)| run.what = What::Table);
        }
        for (number, run) in &runs {
            sum.add_live(&self.glebes[*number], run);
        }
        let mut of_files: BTreeMap<&str, u64> = BTreeMap::new();
        for (i, stretches) in &self.stretches {
            let mapping = &self.mappings[*i];
            for stretch in stretches {
                match stretch.pages {
                    Pages::Swapped => sum.swap_bytes += stretch.end - stretch.start,
                    pages if !pages.count(doubtful_count) => {}
                    _ => {
                        let other =
                            sum.add(&self.glebes, &runs, mapping, stretch.start, stretch.end);
                        *of_files.entry(&mapping.file).or_default() += other;
                    }
                }
            }
        }
        let mut of_files: Vec<(String, u64)> = of_files
            .into_iter()
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(file, bytes)| (file.into(), bytes))
            .collect();
        of_files.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        sum.mappings = of_files;
        let resident: u64 =
            Part::ALL[..=Part::LiveHuge as usize].iter().map(|part| sum.part(*part)).sum();
        sum.live_absent_bytes = sum.live_blocks_bytes.saturating_sub(resident);
        sum.glebes = self.glebes;
        sum.sites = self.sites;
        sum
    }
}

/// Bytes of the units of [start, end) that a hole takes.
fn in_holes(holes: u32, unit_bytes: u64, start: u64, end: u64) -> u64 {
    if holes == 0 {
        return 0;
    }
    let units = (0..16).filter(|unit| holes >> unit & 1 != 0);
    units.map(|unit| overlap(start, end, unit * unit_bytes, (unit + 1) * unit_bytes)).sum()
}

fn overlap(a: u64, b: u64, from: u64, to: u64) -> u64 {
    b.min(to).saturating_sub(a.max(from))
}

impl Explanation {
    fn put(&mut self, part: Part, bytes: u64) {
        self.bytes[part as usize] += bytes;
    }

    /// Counts the live blocks of a run, resident or not.
    fn add_live(&mut self, glebe: &Glebe, run: &Run) {
        let (blocks, each, cls) = match run.what {
            What::Small { entry } => {
                let page = glebe.page(entry);
                (page.live_blocks(), page.block_bytes(), page.cls())
            }
            What::Medium { entry } => {
                let page = glebe.page(entry);
                let mut live = 0;
                each_medium(glebe, entry, |_, is_live| live += u64::from(is_live));
                (live, page.block_bytes(), page.cls())
            }
            What::Large { warm: false } => {
                self.live_blocks_bytes += run.end - run.start;
                self.rounding_most_bytes += glebe.slice_bytes() - 1;
                return;
            }
            What::Huge { warm: false, used } => {
                self.live_blocks_bytes += used;
                self.rounding_most_bytes += glebe.unit_bytes() - 1;
                return;
            }
            _ => return,
        };
        let mixed = cls >= glebe.classes.len();
        let class = self.classes.entry(if mixed { 0 } else { each as u32 }).or_default();
        class.blocks += blocks;
        class.live_bytes += blocks * each;
        self.live_blocks_bytes += blocks * each;
        let below = if mixed {
            0
        } else {
            cls.checked_sub(1).map_or(0, |cls| u64::from(glebe.classes[cls]))
        };
        self.rounding_most_bytes += if mixed { 0 } else { blocks * (each - below - 1) };
    }

    /// Counts resident memory. Returns how many bytes of it are not glebe's.
    fn add(
        &mut self,
        glebes: &[Glebe],
        runs: &[(usize, Run)],
        mapping: &Mapping,
        mut at: u64,
        end: u64,
    ) -> u64 {
        let mut other = 0;
        let mut next = runs.partition_point(|(_, run)| run.end <= at);
        while at < end {
            let run = runs.get(next).filter(|(_, run)| run.start < end);
            let stop = run.map_or(end, |(_, run)| run.start.max(at));
            let part = match mapping.usage {
                Use::Code => Part::Code,
                Use::Data => Part::Data,
                Use::Stack => Part::Stacks,
                Use::Brk => Part::Brk,
                Use::Shared => Part::Shared,
                Use::Other | Use::Apart => Part::Others,
            };
            self.put(part, stop - at);
            other += stop - at;
            at = stop;
            if let Some((number, run)) = run {
                let stop = end.min(run.end).max(at);
                self.add_run(&glebes[*number], run, at, stop);
                at = stop;
                next += 1;
            }
        }
        other
    }

    /// Counts the resident part [start, end) of a run of glebe's memory.
    fn add_run(&mut self, glebe: &Glebe, run: &Run, start: u64, end: u64) {
        let bytes = end - start;
        match run.what {
            What::Table => self.put(Part::Tables, bytes),
            What::Collected => self.put(Part::LiveCollected, bytes),
            What::Large { warm: true } | What::Huge { warm: true, .. } => {
                self.put(Part::Retained, bytes)
            }
            What::Large { warm: false } => self.put(Part::LiveLarge, bytes),
            What::Huge { warm: false, used } => {
                let live = overlap(start, end, run.start, run.start + used);
                self.put(Part::LiveHuge, live);
                self.put(Part::Retained, bytes - live);
            }
            What::Free { state: Free::Clean, huge_pages: true } => {
                self.put(Part::HugePageExcess, bytes)
            }
            What::Free { state, .. } => {
                self.lazy_bytes += if state == Free::Lazy { bytes } else { 0 };
                self.put(Part::Retained, bytes);
            }
            What::Guard => self.put(Part::Tables, bytes),
            What::Small { entry } => {
                self.add_small(glebe, entry, start - run.start, end - run.start)
            }
            What::Medium { entry } => self.add_medium(glebe, entry, start, end),
        }
    }

    /// Counts the resident bytes [start, end) of a page of small blocks.
    fn add_small(&mut self, glebe: &Glebe, entry: usize, start: u64, end: u64) {
        let page = glebe.page(entry);
        if page.is_spare() {
            return self.put(Part::Retained, end - start);
        }
        let (carved, holes, unit) = (page.carved_bytes(), page.holes(), glebe.unit_bytes());
        // Blocks are spread over the carved bytes outside holes, resident or not.
        let room = carved - in_holes(holes, unit, 0, carved);
        let stop = end.min(carved);
        let here = stop.saturating_sub(start)
            - if stop > start { in_holes(holes, unit, start, stop) } else { 0 };
        let blocks_bytes = (page.live_blocks() * page.block_bytes()).min(room);
        let live = (u128::from(blocks_bytes) * u128::from(here))
            .checked_div(u128::from(room))
            .unwrap_or(0) as u64;
        self.put(Part::LiveSmall, live);
        self.put(Part::FreeInPages, end - start - live);
        let key = if page.is_mixed() { 0 } else { page.block_bytes() as u32 };
        self.classes.entry(key).or_default().free_bytes += end - start - live;
    }

    fn add_medium(&mut self, glebe: &Glebe, entry: usize, start: u64, end: u64) {
        let page = glebe.page(entry);
        let (mut live, mut warm) = (0, 0);
        let each = page.block_bytes();
        each_medium(glebe, entry, |block, is_live| {
            let bytes = overlap(start, end, block, block + each);
            live += if is_live { bytes } else { 0 };
            warm += if !is_live { bytes } else { 0 };
        });
        self.put(Part::LiveMedium, live);
        self.put(Part::Retained, warm);
        self.put(Part::FreeInPages, end - start - live - warm);
        self.classes.entry(each as u32).or_default().free_bytes += end - start - live - warm;
    }
}

/// Calls `block` with the address of each block of a medium page that is not free in it, and whether it is live: else
/// its heap keeps it warm.
fn each_medium(glebe: &Glebe, entry: usize, mut block: impl FnMut(u64, bool)) {
    let page = glebe.page(entry);
    let out = page.medium_out();
    for index in (0..32).filter(|index| out >> index & 1 != 0) {
        let address = page.start() + index * page.block_bytes();
        block(address, !glebe.is_warm(address));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn holes_are_counted_by_unit() {
        assert_eq!(in_holes(0, 4096, 0, 65536), 0);
        assert_eq!(in_holes(0b101, 4096, 0, 65536), 8192);
        assert_eq!(in_holes(0b101, 4096, 4096, 8192), 0);
        assert_eq!(in_holes(0b100, 4096, 8000, 9000), 808);
    }

    #[test]
    fn names_are_in_the_order_of_the_parts() {
        assert!(Part::ALL.iter().enumerate().all(|(i, part)| *part as usize == i));
        assert!(Part::Tables.of_glebe() && !Part::Brk.of_glebe());
    }

    /// A process at rest that has no glebe: all of it is in mappings.
    #[test]
    fn parts_sum_to_the_resident_set() {
        let mut cat =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        cat.stdin.as_ref().unwrap().write_all(b"x").unwrap();
        cat.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let explanation = look(cat.id() as i32).unwrap().explain();
        cat.kill().and_then(|()| cat.wait()).unwrap();
        let (ours, kernel) = (explanation.rss_bytes(), explanation.kernel_bytes);
        assert!(ours.abs_diff(kernel) <= kernel / 100 + (256 << 10), "{ours} {kernel}");
        assert!(explanation.part(Part::Code) > 0 && explanation.part(Part::Stacks) > 0);
        assert_eq!(explanation.part(Part::LiveSmall), 0);
    }
}
