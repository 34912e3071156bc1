//! Counters of whole programs: why one allocator is faster than another.
//!
//! Times of a program differ by a third between rounds on a shared machine, and
//! do not say what made the difference. Valgrind's cachegrind counts the
//! instructions of a process and simulates its caches, so its figures repeat:
//!
//! | column | what |
//! |---|---|
//! | instructions | all that the process executed |
//! | D1 misses | data accesses that missed a first level of 32 KiB |
//! | LL misses | accesses that missed a last level of 2 MiB, a processor's share of a cache |
//! | estimate | instructions + 10 x first-level misses + 100 x last-level misses, as KCachegrind weighs them |
//!
//! The simulation has no prefetcher, huge pages or page faults; `bench/run`
//! counts faults. Of several processes the one with the most instructions
//! counts. Programs run with their quick sizes, and servers not at all.

use crate::cases::{self, Case, Group};
use crate::instructions::valgrind;
use crate::peers::{self, Allocator};
use anyhow::{bail, Context, Result};
use comfy_table::{presets, CellAlignment, Table};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

#[derive(clap::Args)]
pub struct CounterArgs {
    /// Only cases whose name contains, or whose group is, one of these words
    #[arg(long, value_delimiter = ',', default_value = "real")]
    only: Vec<String>,
    /// Only these allocators (comma separated)
    #[arg(long, value_delimiter = ',')]
    allocators: Vec<String>,
    /// The allocator that ratios refer to
    #[arg(long, default_value = "glibc")]
    baseline: String,
    /// The library of glebe [default: build/libglebe.so of the repository]
    #[arg(long)]
    glebe: Option<PathBuf>,
    /// Write the figures to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write the tables as Markdown to this file
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Programs to run at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Counters {
    instructions: u64,
    d1_misses: u64,
    ll_misses: u64,
    estimate: u64,
}

/// Case -> allocator -> counters, or why there are none.
type Figures = BTreeMap<String, BTreeMap<String, Result<Counters, String>>>;

pub fn run(args: &CounterArgs) -> Result<bool> {
    let mut cases = cases::select(&args.only)?;
    cases.retain(|case| {
        let counted = case.group != Group::Memory && case.client(true).is_none();
        counted && case.missing().is_none()
    });
    let allocators = peers::find(&args.allocators, args.glebe.as_deref())?;
    if cases.is_empty() || allocators.is_empty() {
        bail!("nothing to count; run bench/setup");
    }
    let figures = count_all(&cases, &allocators, args.jobs.max(1));
    let text = tables(&cases, &allocators, &figures, &args.baseline);
    println!("{text}");
    if let Some(path) = &args.markdown {
        std::fs::write(path, &text).with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &args.json {
        let found = figures.iter().map(|(case, by_allocator)| {
            let counted = by_allocator.iter().map(|(a, f)| (a, f.as_ref().ok()));
            (case, counted.collect::<BTreeMap<_, _>>())
        });
        let found: BTreeMap<_, _> = found.collect();
        std::fs::write(path, serde_json::to_string_pretty(&found)? + "\n")
            .with_context(|| path.display().to_string())?;
    }
    Ok(figures.values().flat_map(BTreeMap::values).all(Result::is_ok))
}

/// Counts everything, a few processes at a time.
fn count_all(cases: &[Case], allocators: &[Allocator], jobs: usize) -> Figures {
    let work: Vec<(&Case, &Allocator)> =
        cases.iter().flat_map(|c| allocators.iter().map(move |a| (c, a))).collect();
    let bar = indicatif::ProgressBar::new(work.len() as u64);
    let next = AtomicUsize::new(0);
    let figures = Mutex::new(Figures::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some((case, allocator)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let counted = count(case, allocator).map_err(|e| format!("{e:#}"));
                    if let Err(why) = &counted {
                        bar.println(format!(
                            "FAILED  {} under {}: {why}",
                            case.name, allocator.name
                        ));
                    }
                    let mut figures = figures.lock().unwrap();
                    let by_allocator = figures.entry(case.name.clone()).or_default();
                    by_allocator.insert(allocator.name.clone(), counted);
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    figures.into_inner().unwrap()
}

fn count(case: &Case, allocator: &Allocator) -> Result<Counters> {
    let mut command = valgrind();
    command.args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]);
    command.args(["--I1=32768,8,64", "--D1=32768,8,64", "--LL=2097152,16,64"]);
    // `env` starts the program, so that the library is not preloaded into valgrind itself.
    command.args(["--trace-children=yes", "env"]);
    command.arg(format!("LD_PRELOAD={}", allocator.library.display()));
    command.args(case.command(true)).envs(case.environment(&allocator.name));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let output = command.output().context("cannot run valgrind; run bench/setup")?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let reason = text.lines().rfind(|l| !l.trim().is_empty() && !l.starts_with("=="));
        bail!("does not run under valgrind: {}", reason.unwrap_or("no reason given").trim());
    }
    parse(&text).context("valgrind printed no totals")
}

/// The totals of the process with the most instructions. Each line begins with the number of its process.
fn parse(text: &str) -> Option<Counters> {
    let mut processes: BTreeMap<&str, BTreeMap<String, u64>> = BTreeMap::new();
    for line in text.lines() {
        let Some((process, said)) = line.strip_prefix("==").and_then(|l| l.split_once("==")) else {
            continue;
        };
        let Some((name, figures)) = said.split_once(':') else { continue };
        let first = figures.split_whitespace().next().unwrap_or_default().replace(',', "");
        if let Ok(count) = first.parse() {
            let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
            processes.entry(process).or_default().insert(name, count);
        }
    }
    let counters = processes.values().filter_map(|of| {
        let (instructions, d1_misses) = (*of.get("I refs")?, *of.get("D1 misses")?);
        let (i1_misses, ll_misses) = (*of.get("I1 misses")?, *of.get("LL misses")?);
        let estimate = instructions + 10 * (i1_misses + d1_misses) + 100 * ll_misses;
        Some(Counters { instructions, d1_misses, ll_misses, estimate })
    });
    counters.max_by_key(|c| c.instructions)
}

fn tables(cases: &[Case], allocators: &[Allocator], figures: &Figures, baseline: &str) -> String {
    let mut text = String::new();
    for (title, pick) in [
        ("Instructions", (|c| c.instructions) as fn(&Counters) -> u64),
        ("First-level data misses", |c| c.d1_misses),
        ("Last-level misses", |c| c.ll_misses),
        ("Estimate: instructions + 10 x first-level misses + 100 x last-level misses", |c| {
            c.estimate
        }),
    ] {
        let table = ratios(cases, allocators, figures, baseline, pick);
        let _ =
            writeln!(text, "{title}, as a multiple of {baseline}'s; lower is better.\n\n{table}\n");
    }
    text
}

fn ratios(
    cases: &[Case],
    allocators: &[Allocator],
    figures: &Figures,
    baseline: &str,
    pick: fn(&Counters) -> u64,
) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["case"].into_iter().chain(allocators.iter().map(|a| a.name.as_str())));
    let mut logs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for case in cases {
        let of = |name: &str| figures[&case.name].get(name)?.as_ref().ok().map(|c| pick(c) as f64);
        let mut row = vec![case.name.clone()];
        for allocator in allocators {
            let ratio = of(&allocator.name).zip(of(baseline)).map(|(own, base)| own / base);
            row.push(ratio.map_or("-".into(), |r| format!("{r:.3}")));
            if let Some(ratio) = ratio {
                logs.entry(&allocator.name).or_default().push(ratio.ln());
            }
        }
        table.add_row(row);
    }
    let mut row = vec![format!("MEAN ({})", cases.len())];
    for allocator in allocators {
        let logs = logs.get(allocator.name.as_str()).map_or(&[][..], Vec::as_slice);
        let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        let whole = logs.len() == cases.len();
        row.push(if whole { format!("{mean:.3}") } else { format!("{mean:.3} of {}", logs.len()) });
    }
    table.add_row(row);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_process_counts() {
        let text = "\
==7== I refs:        1,000
==7== I1  misses:       10
==7== LLi misses:        1
==7== D1  misses:       20  (  15 rd   +   5 wr)
==7== LL misses:         3  (   2 rd   +   1 wr)
==8== I refs:           50
==8== I1  misses:        1
==8== D1  misses:        1  (   1 rd   +   0 wr)
==8== LL misses:         1  (   1 rd   +   0 wr)
";
        let expected = Counters { instructions: 1000, d1_misses: 20, ll_misses: 3, estimate: 1600 };
        assert_eq!(parse(text), Some(expected));
        assert_eq!(parse("==7== I refs: 5\n"), None);
    }
}
