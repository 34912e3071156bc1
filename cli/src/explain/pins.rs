//! Which sites hold pages that are mostly free: of each block size, the sites of the sampled blocks that live longest.
//!
//! A page returns only when its last block is freed, so a few old blocks hold many free bytes. Sampled blocks have
//! pages of their own; each stands for blocks of its size and site in the other pages.

use super::parts::Class;
use crate::profile::sites::Sites;
use std::collections::BTreeMap;

/// The sampled live blocks of one size and site.
#[derive(Debug, Clone, PartialEq)]
pub struct Pin {
    pub block_bytes: u64,
    /// Estimates.
    pub blocks: u64,
    pub bytes: u64,
    /// The mean age: 100 were it the first of all samples, 0 the last.
    pub age_percent: f64,
    /// Free bytes in the pages of that block size.
    pub free_bytes: u64,
    /// The innermost first.
    pub frames: Vec<String>,
    pub text: String,
}

#[derive(Default)]
struct Sum {
    samples: u64,
    blocks: f64,
    bytes: u64,
    ages: f64,
}

/// Sizes with the most free bytes first, and in each the oldest blocks.
pub fn pins(classes: &BTreeMap<u32, Class>, sites: &mut Sites) -> Vec<Pin> {
    let mut sums: BTreeMap<(u64, u32), Sum> = BTreeMap::new();
    let taken = sites.taken().max(1) as f64;
    for sampled in sites.blocks() {
        let sum = sums.entry((sampled.block_bytes(), sampled.site)).or_default();
        sum.samples += 1;
        sum.blocks += sampled.weight.objects;
        sum.bytes += sampled.weight.bytes;
        sum.ages += 1.0 - (sampled.born as f64 / taken).min(1.0);
    }
    let pin = |((block_bytes, site), sum): ((u64, u32), Sum)| Pin {
        block_bytes,
        blocks: sum.blocks.round() as u64,
        bytes: sum.bytes,
        age_percent: 100.0 * sum.ages / sum.samples as f64,
        free_bytes: classes.get(&(block_bytes as u32)).map_or(0, |class| class.free_bytes),
        frames: sites.frames(site).to_vec(),
        text: sites.text(site),
    };
    let mut pins: Vec<Pin> = sums.into_iter().map(pin).collect();
    pins.sort_by(|a, b| {
        let by_class = b.free_bytes.cmp(&a.free_bytes).then(a.block_bytes.cmp(&b.block_bytes));
        by_class.then(b.age_percent.total_cmp(&a.age_percent))
    });
    pins
}
