//! A run: every case under every allocator, round after round.
//!
//! Within a round all (case, allocator) pairs are shuffled. So a machine that
//! slows down for a while affects random pairs, not one allocator, and no
//! allocator always runs after the same neighbour.

use crate::cases::{self, Case};
use crate::gates;
use crate::measure::{self, Job};
use crate::peers::{self, build_dir, Allocator};
use crate::report::{self, OutputArgs};
use crate::results::{CaseResult, Machine, Results};
use anyhow::{bail, Result};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct RunArgs {
    /// Small sizes and two rounds, and only the allocators that the gates need
    #[arg(long)]
    quick: bool,
    /// Only cases whose name contains, or whose group is, one of these words
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these allocators (comma separated)
    #[arg(long, value_delimiter = ',')]
    allocators: Vec<String>,
    /// How often each case is run under each allocator
    #[arg(long)]
    rounds: Option<usize>,
    /// Run each program on a heap that is old when its main begins (real/aged.c)
    #[arg(long)]
    aged: bool,
    /// Seed of the order; by default another one each time
    #[arg(long)]
    seed: Option<u64>,
    /// The library of glebe [default: build/libglebe.so of the repository]
    #[arg(long)]
    glebe: Option<PathBuf>,
    /// Where to write the results
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

pub fn run(args: &RunArgs) -> Result<bool> {
    let (cases, skipped) = skip(cases::select(&args.only)?);
    let mut allocators = peers::find(&args.allocators, args.glebe.as_deref())?;
    if args.quick && args.allocators.is_empty() {
        let subject = args.output.subject.as_str();
        allocators.retain(|a| a.name == subject || gates::REFERENCES.contains(&a.name.as_str()));
    }
    if allocators.is_empty() {
        bail!("no allocator to measure; run bench/setup");
    }
    let mut results = Results {
        machine: machine(),
        when: now(),
        seed: args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000)),
        rounds: args.rounds.unwrap_or(if args.quick { 2 } else { 5 }),
        quick: args.quick,
        aged: args.aged,
        floor_kb: measure::floor_kb()?,
        allocators,
        cases: cases.iter().map(empty_result).collect(),
        skipped,
    };
    println!("{}", report::heading(&results));
    run_rounds(&cases, &mut results);

    let path = args.json.clone().unwrap_or_else(|| build_dir().join("results.json"));
    results.save(&path)?;
    println!("results: {}", path.display());
    report::show(&results, &args.output)
}

/// Separates the cases that can run here from the others, with the reasons.
fn skip(mut cases: Vec<Case>) -> (Vec<Case>, BTreeMap<String, String>) {
    let mut skipped = BTreeMap::new();
    cases.retain(|case| {
        let missing = case.missing();
        if let Some(what) = &missing {
            let why = format!("no {what}; bench/setup installs it");
            skipped.insert(case.name.clone(), why);
        }
        missing.is_none()
    });
    (cases, skipped)
}

fn empty_result(case: &Case) -> CaseResult {
    CaseResult {
        name: case.name.clone(),
        group: case.group,
        about: case.about.clone(),
        runs: BTreeMap::new(),
    }
}

fn run_rounds(cases: &[Case], results: &mut Results) {
    let mut random = fastrand::Rng::with_seed(results.seed);
    let allocators = results.allocators.clone();
    let bar = ProgressBar::new((results.rounds * cases.len() * allocators.len()) as u64);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {eta_precise} {msg}");
    bar.set_style(style.expect("the template is well-formed"));

    for round in 0..results.rounds {
        let mut order: Vec<(usize, usize)> =
            (0..cases.len()).flat_map(|c| (0..allocators.len()).map(move |a| (c, a))).collect();
        random.shuffle(&mut order);
        for (c, a) in order {
            bar.set_message(format!("{} {}", cases[c].name, allocators[a].name));
            run_one(
                &cases[c],
                &allocators[a],
                &mut results.cases[c],
                results.quick,
                results.aged,
                round,
                &bar,
            );
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    check_outputs(cases, results);
}

/// Runs one case once. A failure is reported at once and stored, and ends this
/// case for this allocator: a program that broke once has no honest mean.
fn run_one(
    case: &Case,
    allocator: &Allocator,
    result: &mut CaseResult,
    quick: bool,
    aged: bool,
    round: usize,
    bar: &ProgressBar,
) {
    let runs = result.runs.entry(allocator.name.clone()).or_default();
    if runs.failure.is_some() || (case.once && round > 0) {
        return;
    }
    let job = Job {
        command: case.command(quick),
        preload: vec![allocator.library.clone()],
        environment: case.environment(&allocator.name),
        prepare: case.prepare(quick),
        client: case.client(quick),
        stop: case.stop,
        aged,
        output: case.output(),
    };
    match measure::run(&job) {
        Ok(sample) => runs.samples.push(sample),
        Err(error) => {
            let failure = format!("round {}: {error:#}", round + 1);
            bar.println(format!("FAILED  {} under {}: {failure}", case.name, allocator.name));
            runs.failure = Some(failure);
        }
    }
}

/// A program must print the same under every malloc. If the outputs differ, those
/// that differ from the most common one are failures.
fn check_outputs(cases: &[Case], results: &mut Results) {
    for (case, result) in cases.iter().zip(&mut results.cases) {
        if !case.same_output {
            continue;
        }
        let mut votes: BTreeMap<u64, usize> = BTreeMap::new();
        for sample in result.runs.values().flat_map(|r| &r.samples) {
            *votes.entry(sample.output).or_default() += 1;
        }
        let Some((&usual, _)) = votes.iter().max_by_key(|(_, n)| **n) else {
            continue;
        };
        for (allocator, runs) in &mut result.runs {
            if runs.failure.is_none() && runs.samples.iter().any(|s| s.output != usual) {
                println!("FAILED  {} under {allocator}: its output differs", case.name);
                runs.failure = Some("its output differs from that of the others".to_string());
            }
        }
    }
}

fn machine() -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str, separator: char| -> String {
        let line = text.lines().find(|l| l.starts_with(name)).unwrap_or_default();
        line.split_once(separator)
            .map_or("unknown", |(_, v)| v)
            .trim()
            .trim_matches('"')
            .to_string()
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal", ':');
    let kb: u64 = memory.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let thp = read("/sys/kernel/mm/transparent_hugepage/enabled");
    Machine {
        cpu: field(&read("/proc/cpuinfo"), "model name", ':'),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        memory_mb: kb / 1024,
        kernel: read("/proc/sys/kernel/osrelease").trim().to_string(),
        os: field(&read("/etc/os-release"), "PRETTY_NAME", '='),
        huge_pages: thp.split(['[', ']']).nth(1).unwrap_or("none").to_string(),
    }
}

fn now() -> String {
    let output = std::process::Command::new("date").arg("-u").arg("+%Y-%m-%d %H:%M UTC").output();
    output.map_or(String::new(), |o| String::from_utf8_lossy(&o.stdout).trim().to_string())
}
