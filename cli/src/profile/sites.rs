//! The sites of sampled blocks, for `glebe leaks` and `glebe explain`: a site is the stack that allocated.

use super::raw::{Module, Profile};
use super::symbols::Symbols;
use super::{names, pprof};
use crate::explain::samples::{Sampled, Samples};
use std::collections::HashMap;

/// So many frames name a site in a text.
const SHOWN: usize = 3;

pub struct Sites {
    profile: Profile,
    blocks: HashMap<u64, Sampled>,
    symbols: Symbols,
    known: HashMap<u32, Vec<String>>,
    chunks: Vec<u64>,
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
            let mut lines = Vec::new();
            for address in pprof::callers(profile, &of.callers, symbols) {
                let functions = symbols.of(&profile.modules, *address);
                lines.extend(functions.iter().map(|function| {
                    let file = function.file.rsplit('/').next().unwrap_or_default();
                    (!file.is_empty()).then(|| format!(" ({file}:{})", function.line))
                }));
                lines.extend(functions.is_empty().then_some(None));
            }
            let names = names(profile, of, symbols);
            names.into_iter().zip(lines).map(|(n, l)| n + &l.unwrap_or_default()).collect()
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
