//! The results of a run, as stored on disk.
//!
//! All output is computed from these alone.

use crate::cases::Group;
use crate::measure::Sample;
use crate::peers::Allocator;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    pub machine: Machine,
    pub when: String,
    pub seed: u64,
    pub rounds: usize,
    pub quick: bool,
    /// True if each heap was aged first.
    #[serde(default)]
    pub aged: bool,
    /// The part of every peak resident size that measuring adds.
    pub floor_kb: u64,
    pub allocators: Vec<Allocator>,
    pub cases: Vec<CaseResult>,
    /// Cases that did not run under any allocator, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skipped: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_mb: u64,
    pub kernel: String,
    pub os: String,
    /// The kernel's setting for transparent huge pages: it changes both time
    /// and memory of the allocators that ask for them.
    pub huge_pages: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseResult {
    pub name: String,
    pub group: Group,
    pub about: String,
    pub runs: BTreeMap<String, Runs>,
}

/// The runs of one case under one allocator.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Runs {
    pub samples: Vec<Sample>,
    /// Why this case does not count for this allocator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A quantity that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    Cpu,
    Wall,
    PeakRss,
    /// Minor page faults: they repeat on a busy machine. Major ones depend on
    /// what the OS has cached.
    Faults,
}

impl Runs {
    /// One number for all rounds. For time the least, since disturbances only
    /// add to it. For memory and faults the median.
    pub fn value(&self, quantity: Quantity) -> Option<f64> {
        if self.failure.is_some() || self.samples.is_empty() {
            return None;
        }
        let mut all: Vec<f64> = self.samples.iter().map(|s| pick(s, quantity)).collect();
        all.sort_by(f64::total_cmp);
        Some(match quantity {
            Quantity::Cpu | Quantity::Wall => all[0],
            Quantity::PeakRss | Quantity::Faults => all[all.len() / 2],
        })
    }

    /// The median of a figure that the program itself printed.
    pub fn metric(&self, name: &str) -> Option<f64> {
        if self.failure.is_some() {
            return None;
        }
        let mut all: Vec<f64> =
            self.samples.iter().filter_map(|s| s.metrics.get(name).copied()).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    }
}

fn pick(sample: &Sample, quantity: Quantity) -> f64 {
    match quantity {
        Quantity::Cpu => sample.cpu_s,
        Quantity::Wall => sample.wall_s,
        Quantity::PeakRss => sample.peak_rss_kb as f64,
        Quantity::Faults => sample.minor_faults as f64,
    }
}

impl CaseResult {
    pub fn value(&self, allocator: &str, quantity: Quantity) -> Option<f64> {
        self.runs.get(allocator)?.value(quantity)
    }

    /// The allocator's value as a multiple of the baseline's.
    pub fn ratio(&self, allocator: &str, baseline: &str, quantity: Quantity) -> Option<f64> {
        let base = self.value(baseline, quantity)?;
        Some(self.value(allocator, quantity)? / base).filter(|r| r.is_finite())
    }
}

impl Results {
    pub fn load(path: &Path) -> Result<Results> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }

    pub fn save(&self, path: &Path) -> Result<()> {
        std::fs::write(path, serde_json::to_string_pretty(self)? + "\n")
            .with_context(|| path.display().to_string())
    }

    pub fn case(&self, name: &str) -> Option<&CaseResult> {
        self.cases.iter().find(|c| c.name == name)
    }

    /// The cases of a group; None: all that count in means.
    pub fn group(&self, group: Option<Group>) -> impl Iterator<Item = &CaseResult> {
        self.cases.iter().filter(move |c| match group {
            Some(group) => c.group == group,
            None => Group::COUNTED.contains(&c.group),
        })
    }

    /// The geometric mean of an allocator's ratios to the baseline, over the
    /// cases in which both ran, and how many those are.
    pub fn mean(
        &self,
        group: Option<Group>,
        allocator: &str,
        baseline: &str,
        quantity: Quantity,
    ) -> Option<(f64, usize)> {
        let logs: Vec<f64> = self
            .group(group)
            .filter_map(|c| c.ratio(allocator, baseline, quantity))
            .filter(|r| *r > 0.0)
            .map(f64::ln)
            .collect();
        if logs.is_empty() {
            return None;
        }
        Some(((logs.iter().sum::<f64>() / logs.len() as f64).exp(), logs.len()))
    }

    /// The spread of the rounds in CPU time: the median over all cases and
    /// allocators of greatest over least, less one.
    pub fn noise(&self) -> Option<f64> {
        let spread = |runs: &Runs| {
            let cpu = || runs.samples.iter().map(|s| s.cpu_s);
            (cpu().count() > 1)
                .then(|| cpu().fold(0.0, f64::max) / cpu().fold(f64::MAX, f64::min) - 1.0)
        };
        let counted = self.group(None).flat_map(|c| c.runs.values());
        let mut all: Vec<f64> = counted.filter_map(spread).filter(|s| s.is_finite()).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    }
}
