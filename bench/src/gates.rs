//! The targets: glebe's promises, figure by figure.
//!
//! Each gate is a figure of the results and a limit. A gate that cannot be
//! evaluated, because a case failed or was not run, fails. Judging another
//! allocator with the same gates shows that they can fail:
//! `--gate --subject glibc`.

use crate::cases::Group;
use crate::results::{Quantity, Results};

/// The allocators that the gates compare with.
pub const REFERENCES: [&str; 4] = ["mimalloc-v3", "mimalloc-v2", "rpmalloc", "glibc"];

pub struct Gate {
    pub what: String,
    pub value: Option<f64>,
    pub limit: f64,
}

impl Gate {
    pub fn passed(&self) -> bool {
        self.value.is_some_and(|v| v <= self.limit)
    }
}

/// All gates for `subject`, in the order of the promises.
pub fn evaluate(results: &Results, subject: &str) -> Vec<Gate> {
    let mut gates = Vec::new();
    let mut add =
        |what: String, value: Option<f64>, limit: f64| gates.push(Gate { what, value, limit });

    let mean =
        |quantity| results.mean(None, subject, "mimalloc-v3", quantity).map(|(mean, _)| mean);
    // A mean over fewer cases would be a different figure.
    let complete = results.skipped.is_empty()
        && results.group(None).all(|c| {
            let has = |name| c.value(name, Quantity::Cpu).is_some();
            has(subject) && has("mimalloc-v3")
        });
    let mean = |quantity| if complete { mean(quantity) } else { None };
    add("CPU time, all cases, of mimalloc v3".into(), mean(Quantity::Cpu), 1.00);
    add("peak RSS, all cases, of mimalloc v3".into(), mean(Quantity::PeakRss), 0.60);

    for case in results.group(Some(Group::Real)) {
        let ratio = |other, quantity| case.ratio(subject, other, quantity);
        let cpu = worst(ratio("mimalloc-v2", Quantity::Cpu), ratio("mimalloc-v3", Quantity::Cpu));
        add(format!("{}: CPU time, of the better mimalloc", case.name), cpu, 1.05);
        add(format!("{}: peak RSS, of glibc", case.name), ratio("glibc", Quantity::PeakRss), 1.10);
    }

    let ratio = |case: &str, other, quantity| results.case(case)?.ratio(subject, other, quantity);
    let hello = |allocator| results.case("hello")?.runs.get(allocator)?.metric("resident_bytes");
    let of_glibc = hello(subject).and_then(|bytes| Some(bytes / hello("glibc")?));
    add("hello: resident memory, of glibc".into(), of_glibc, 1.15);
    add("grow-block: CPU time, of glibc".into(), ratio("grow-block", "glibc", Quantity::Cpu), 1.00);
    for other in ["rpmalloc", "mimalloc-v2"] {
        let value = ratio("threads-300", other, Quantity::Cpu);
        add(format!("threads-300: CPU time, of {other}"), value, 1.00);
    }
    for case in ["idle-silent", "idle-calls"] {
        let value = results.case(case).and_then(|c| c.runs.get(subject)?.metric("idle_ratio"));
        add(format!("{case}: resident over live pages"), value, 1.15);
    }
    gates
}

/// The ratio to the better of two: the larger ratio; None if either is missing.
fn worst(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a?.max(b?))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::cases;
    use crate::measure::Sample;
    use crate::results::{CaseResult, Machine, Runs};
    use std::collections::BTreeMap;

    /// Results in which every case costs an allocator the same everywhere.
    pub fn results(costs: &[(&str, f64, u64, f64)]) -> Results {
        let runs = |_: &cases::Case| -> BTreeMap<String, Runs> {
            let one = |&(name, cpu_s, peak_rss_kb, idle): &(&str, f64, u64, f64)| {
                let metrics = BTreeMap::from([
                    ("idle_ratio".to_string(), idle),
                    ("resident_bytes".to_string(), peak_rss_kb as f64 * 1024.0),
                ]);
                let sample = Sample { cpu_s, peak_rss_kb, metrics, ..Sample::default() };
                (name.to_string(), Runs { samples: vec![sample], failure: None })
            };
            costs.iter().map(one).collect()
        };
        let case = |c: &cases::Case| CaseResult {
            name: c.name.clone(),
            group: c.group,
            about: String::new(),
            runs: runs(c),
        };
        Results {
            machine: Machine {
                cpu: String::new(),
                cores: 1,
                memory_mb: 1,
                kernel: String::new(),
                os: String::new(),
                huge_pages: String::new(),
            },
            when: String::new(),
            seed: 0,
            rounds: 1,
            quick: true,
            aged: false,
            floor_kb: 0,
            allocators: Vec::new(),
            cases: cases::load().unwrap().iter().map(case).collect(),
            skipped: BTreeMap::new(),
        }
    }

    const PEERS: [(&str, f64, u64, f64); 4] = [
        ("mimalloc-v3", 1.0, 2000, 9.0),
        ("mimalloc-v2", 1.0, 1800, 9.0),
        ("rpmalloc", 1.0, 1500, 9.0),
        ("glibc", 1.0, 1000, 9.0),
    ];

    fn with_glebe(cpu_s: f64, peak_rss_kb: u64, idle: f64) -> Results {
        results(&[&PEERS[..], &[("glebe", cpu_s, peak_rss_kb, idle)]].concat())
    }

    #[test]
    fn what_meets_every_target_passes() {
        for gate in evaluate(&with_glebe(0.99, 1100, 1.1), "glebe") {
            assert!(gate.passed(), "{}: {:?}", gate.what, gate.value);
        }
    }

    #[test]
    fn each_gate_can_fail() {
        for gate in evaluate(&with_glebe(1.06, 1300, 1.2), "glebe") {
            assert!(!gate.passed(), "{}: {:?}", gate.what, gate.value);
        }
    }

    #[test]
    fn what_was_not_measured_does_not_pass() {
        let mut results = with_glebe(0.99, 1100, 1.1);
        for case in &mut results.cases {
            case.runs.get_mut("glebe").unwrap().failure = Some("it broke".into());
        }
        for gate in evaluate(&results, "glebe") {
            assert!(!gate.passed(), "{}", gate.what);
        }
    }
}
