//! The report: tables, Markdown, and the verdicts.

use crate::cases::Group;
use crate::gates;
use crate::plot;
use crate::results::{CaseResult, Quantity, Results};
use anyhow::{Context, Result};
use comfy_table::{presets, CellAlignment, Table};
use std::fmt::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct OutputArgs {
    /// The allocator that ratios refer to
    #[arg(long, default_value = "mimalloc-v3")]
    baseline: String,
    /// Print absolute figures too
    #[arg(long)]
    absolute: bool,
    /// Write the tables as Markdown to this file
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Write the plot (SVG) to this file
    #[arg(long)]
    plot: Option<PathBuf>,
    /// Judge the targets; exit status 1 if one is missed
    #[arg(long)]
    gate: bool,
    /// The allocator that is judged
    #[arg(long, default_value = "glebe")]
    pub subject: String,
}

/// Shows the requested output. False if a gate failed, or a case broke under the
/// judged allocator. A case that breaks under a peer is reported, but no failure.
pub fn show(results: &Results, args: &OutputArgs) -> Result<bool> {
    let text = tables(results, &args.baseline, args.absolute);
    println!("{text}");
    if let Some(path) = &args.markdown {
        let text = format!("{}\n{text}", heading(results));
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &args.plot {
        plot::draw(results, &args.baseline, path)?;
        println!("plot: {}", path.display());
    }
    let broken = results
        .cases
        .iter()
        .any(|c| c.runs.get(&args.subject).is_some_and(|r| r.failure.is_some()));
    Ok(if args.gate { judge(results, &args.subject) } else { true } && !broken)
}

pub fn heading(results: &Results) -> String {
    let m = &results.machine;
    let mut text = format!(
        "{} run{}, {} rounds, seed {}, {}.\n{}, {} cores, {} MB, {}, Linux {}, huge pages: {}.\n",
        if results.quick { "Quick" } else { "Full" },
        if results.aged { " on old heaps" } else { "" },
        results.rounds,
        results.seed,
        results.when,
        m.cpu,
        m.cores,
        m.memory_mb,
        m.os,
        m.kernel,
        m.huge_pages,
    );
    let mut versions: Vec<&str> = results.allocators.iter().map(|a| a.version.as_str()).collect();
    versions.dedup();
    let _ = writeln!(
        text,
        "{}. Measuring itself adds at most {} KB.",
        versions.join(", "),
        results.floor_kb
    );
    text
}

fn tables(results: &Results, baseline: &str, absolute: bool) -> String {
    let mut text = String::new();
    let of = results.allocators.iter().find(|a| a.name == baseline);
    let version = of.map_or(baseline, |a| a.version.as_str());
    for (title, quantity) in [
        ("CPU time", Quantity::Cpu),
        ("Peak RSS", Quantity::PeakRss),
        ("Minor page faults", Quantity::Faults),
    ] {
        let _ =
            writeln!(text, "{title} as a multiple of {baseline}'s ({version}); lower is better.\n");
        let _ = writeln!(text, "{}\n", ratio_table(results, baseline, quantity));
    }
    let memory = memory_table(results);
    if let Some(table) = memory {
        let _ = writeln!(
            text,
            "Memory by itself: KB at the peak, or resident bytes over those of pages with a live byte.\n\n{table}\n"
        );
    }
    if absolute {
        for (title, quantity) in [
            ("CPU seconds", Quantity::Cpu),
            ("Wall seconds", Quantity::Wall),
            ("Peak RSS, KB", Quantity::PeakRss),
            ("Minor page faults", Quantity::Faults),
        ] {
            let _ = writeln!(text, "{title}.\n\n{}\n", absolute_table(results, quantity));
        }
    }
    if let Some(noise) = results.noise() {
        let percent = 100.0 * noise;
        let _ = writeln!(
            text,
            "Rounds of the same case differ by {percent:.0} % in CPU time (median).\n"
        );
    }
    text + &failures(results)
}

fn new_table(results: &Results, first: &str) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    let names = results.allocators.iter().map(|a| a.name.clone());
    table.set_header(std::iter::once(first.to_string()).chain(names));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A row: a label and one cell for each allocator.
fn add_row(table: &mut Table, results: &Results, label: &str, cell: impl Fn(&str) -> String) {
    let cells = results.allocators.iter().map(|a| cell(&a.name));
    table.add_row(std::iter::once(label.to_string()).chain(cells));
}

fn ratio_table(results: &Results, baseline: &str, quantity: Quantity) -> Table {
    let mut table = new_table(results, "case");
    for group in Group::COUNTED {
        for case in results.group(Some(group)) {
            add_row(&mut table, results, &case.name, |a| {
                number_or_failure(case, a, case.ratio(a, baseline, quantity), 2)
            });
        }
    }
    for group in groups_with_means(results) {
        let cases = results.group(group).count();
        let name = group.map_or("all".to_string(), |g| g.to_string());
        add_row(&mut table, results, &format!("MEAN {name} ({cases})"), |a| {
            match results.mean(group, a, baseline, quantity) {
                // Mark a mean of fewer cases, which cannot be compared with the others.
                Some((mean, n)) if n < cases => format!("{mean:.3} of {n}"),
                Some((mean, _)) => format!("{mean:.3}"),
                None => "-".into(),
            }
        });
    }
    table
}

/// The groups that have cases, then all cases together (None), unless they are one group's.
fn groups_with_means(results: &Results) -> Vec<Option<Group>> {
    let mut groups: Vec<_> = Group::COUNTED.map(Some).into();
    groups.retain(|group| results.group(*group).next().is_some());
    if groups.len() > 1 {
        groups.push(None);
    }
    groups
}

fn memory_table(results: &Results) -> Option<Table> {
    results.group(Some(Group::Memory)).next()?;
    let mut table = new_table(results, "case");
    for case in results.group(Some(Group::Memory)) {
        add_row(&mut table, results, &case.name, |a| {
            let metric = |name| case.runs.get(a).and_then(|r| r.metric(name));
            match metric("idle_ratio") {
                Some(ratio) => format!("{ratio:.3}"),
                None => number_or_failure(case, a, metric("resident_bytes").map(|b| b / 1024.0), 0),
            }
        });
    }
    Some(table)
}

fn absolute_table(results: &Results, quantity: Quantity) -> Table {
    let decimals = if matches!(quantity, Quantity::Cpu | Quantity::Wall) { 3 } else { 0 };
    let mut table = new_table(results, "case");
    for case in &results.cases {
        add_row(&mut table, results, &case.name, |a| {
            number_or_failure(case, a, case.value(a, quantity), decimals)
        });
    }
    table
}

fn number_or_failure(
    case: &CaseResult,
    allocator: &str,
    value: Option<f64>,
    decimals: usize,
) -> String {
    match value {
        Some(v) => format!("{v:.decimals$}"),
        None if case.runs.get(allocator).is_some_and(|r| r.failure.is_some()) => "FAILED".into(),
        None => "-".into(),
    }
}

fn failures(results: &Results) -> String {
    let mut text = String::new();
    for (case, why) in &results.skipped {
        let _ = writeln!(text, "skipped: {case}: {why}");
    }
    for case in &results.cases {
        for (allocator, runs) in &case.runs {
            if let Some(failure) = &runs.failure {
                let _ = writeln!(
                    text,
                    "FAILED, in no mean: {} under {allocator}: {failure}",
                    case.name
                );
            }
        }
    }
    text
}

/// Prints one line for each gate; true if all passed.
fn judge(results: &Results, subject: &str) -> bool {
    let gates = gates::evaluate(results, subject);
    for gate in &gates {
        let word = if gate.passed() { "pass" } else { "FAIL" };
        let value = gate.value.map_or("not measured".to_string(), |v| format!("{v:.3}"));
        println!("{word}  {subject}: {}: {value}, limit {:.2}", gate.what, gate.limit);
    }
    let failed = gates.iter().filter(|g| !g.passed()).count();
    println!("{} of {} gates passed", gates.len() - failed, gates.len());
    failed == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::tests::results;

    #[test]
    fn the_mean_of_one_group_is_there_once() {
        let mut results = results(&[("glebe", 1.0, 1000, 1.0)]);
        let means = |results: &Results| -> Vec<String> {
            let text = ratio_table(results, "glebe", Quantity::Cpu).to_string();
            text.lines().filter(|line| line.starts_with("| MEAN ")).map(String::from).collect()
        };
        let all = means(&results);
        assert_eq!(all.len(), Group::COUNTED.len() + 1, "{all:?}");
        assert!(all.last().unwrap().starts_with("| MEAN all "), "{all:?}");
        results.cases.retain(|case| case.group == Group::Real);
        let real = means(&results);
        assert!(real.len() == 1 && real[0].starts_with("| MEAN real "), "{real:?}");
    }
}
