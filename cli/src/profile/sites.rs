//! The sites of sampled blocks, for `glebe leaks` and `glebe explain`: a site is the stack that allocated.

use super::names;
use super::raw::{Module, Profile, Site};
use super::symbols::{Function, Symbols};
use crate::explain::samples::{Sampled, Samples};
use std::collections::{HashMap, HashSet};

/// So many frames name a site in a text.
const SHOWN: usize = 3;

/// "function (file:line)"
fn with_line(function: &Function) -> String {
    match function.file.rsplit('/').next().unwrap_or_default() {
        "" => function.name.clone(),
        file => format!("{} ({file}:{})", function.name, function.line),
    }
}

/// The frames of a stack of return addresses, the innermost first: "function (file:line)".
pub fn frames_of(profile: &Profile, callers: &[u64], symbols: &mut Symbols) -> Vec<String> {
    let site = Site { callers: callers.to_vec(), ..Site::default() };
    names(profile, &site, symbols, with_line)
}

pub struct Sites {
    profile: Profile,
    blocks: HashMap<u64, Sampled>,
    symbols: Symbols,
    known: HashMap<u32, Vec<String>>,
    chunks: HashSet<u64>,
}

impl Sites {
    pub fn new(samples: Samples, modules: Vec<Module>) -> Sites {
        let profile = samples.profile(0, "", modules);
        Sites {
            profile,
            blocks: samples.blocks,
            symbols: Symbols::default(),
            known: HashMap::new(),
            chunks: samples.chunks,
        }
    }

    /// Whether the profiler's own records are at this address.
    pub fn are_at(&self, address: u64) -> bool {
        self.chunks.contains(&address)
    }

    /// All sampled blocks that are live.
    pub fn blocks(&self) -> impl Iterator<Item = &Sampled> {
        self.blocks.values()
    }

    /// How many samples were taken.
    pub fn taken(&self) -> u64 {
        self.profile.samples
    }

    /// How many have no record.
    pub fn lost(&self) -> u64 {
        self.profile.lost
    }

    /// Says which files could name no function, once all sites were asked for.
    pub fn tell_unread(&self) {
        self.symbols.tell_unread();
    }

    /// The number of the site of a block; None if it was not sampled.
    pub fn of(&self, block: u64) -> Option<u32> {
        self.blocks.get(&block).map(|sampled| sampled.site)
    }

    /// The frames of a site, the innermost first: "function (file:line)".
    pub fn frames(&mut self, site: u32) -> &[String] {
        let Sites { profile, symbols, known, .. } = self;
        known.entry(site).or_insert_with(|| {
            // The profile leaves out site 0, which is none.
            let Some(of) = (site as usize).checked_sub(1).and_then(|i| profile.sites.get(i)) else {
                return Vec::new();
            };
            names(profile, of, symbols, with_line)
        })
    }

    /// The innermost frames, in one line.
    pub fn text(&mut self, site: u32) -> String {
        let frames = self.frames(site);
        let shown = &frames[..frames.len().min(SHOWN)];
        if shown.is_empty() {
            "(no callers)".into()
        } else {
            shown.join(" < ")
        }
    }
}
