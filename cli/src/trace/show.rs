//! `glebe trace`: the tables.

use super::analysis::{analyse, Analysis, Lifetimes, FACTORS};
use super::event::About;
use super::{open, picture, record};
use crate::args::TraceOptions;
use crate::screen::Screen;
use crate::size::{self, counted};
use crate::stop::Ending;
use crate::table::Texts;
use crate::words::{print, say};
use anyhow::{bail, Result};

pub fn show(options: &TraceOptions) -> Result<Ending> {
    if let Some(to) = &options.output {
        let mut source = open(&options.trace)?;
        if std::fs::canonicalize(to)
            .is_ok_and(|to| std::fs::canonicalize(&options.trace).is_ok_and(|it| it == to))
        {
            bail!("{}: is the trace itself; --output names another file", to.display());
        }
        let about = if options.anonymous { About::anonymous() } else { source.about().clone() };
        record::copy(source.as_mut(), to, &about)?;
    }
    let mut found = analyse(open(&options.trace)?.as_mut())?;
    if options.anonymous {
        found.about = About::anonymous();
    }
    if let Some(path) = &options.svg {
        picture::draw(path, &found)?;
    }
    if options.json {
        print(serde_json::to_string(&found)?)?;
    } else {
        tables(&found).iter().try_for_each(print)?;
    }
    if found.totals.stopped != 0 {
        let why = std::io::Error::from_raw_os_error(found.totals.stopped as i32);
        say(format!("note: the recording ended before the program did: {why}"));
    }
    Ok(Ending::Exit(0))
}

/// Bytes in the unit that shows about three figures.
pub fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = (bytes.max(1).ilog2() / 10) as usize;
    let value = bytes as f64 / (1u64 << (10 * power)) as f64;
    match value {
        _ if power == 0 => format!("{bytes} B"),
        v if v < 10.0 => format!("{v:.2} {}", units[power]),
        v if v < 100.0 => format!("{v:.1} {}", units[power]),
        v => format!("{v:.0} {}", units[power]),
    }
}

fn seconds(ns: u64) -> String {
    match ns {
        0..1_000_000_000 => format!("{} ms", ns / 1_000_000),
        1_000_000_000..60_000_000_000 => format!("{:.1} s", ns as f64 / 1e9),
        60_000_000_000..3_600_000_000_000 => format!("{:.0} min", ns as f64 / 60e9),
        _ => format!("{:.0} h", ns as f64 / 3600e9),
    }
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", size::percent(part, whole))
}

/// A table with a title above.
fn table(title: &str, head: &[&str], rows: Vec<Vec<String>>) -> String {
    let screen = Screen::stdout();
    let title = screen.wrapped(title);
    format!("{title}\n{}", Texts { head, rows, name: 0 }.table(screen))
}

fn tables(found: &Analysis) -> Vec<String> {
    let mut tables = vec![summary(found), sizes(found)];
    let with = |unit: fn(u64) -> String, rows: &[Lifetimes]| lifetimes(found, unit, rows);
    tables.push(format!(
        "Lifetimes\n{}",
        with(|calls| counted(calls as usize, "call"), &found.lifetimes_calls)
    ));
    tables.push(with(seconds, &found.lifetimes_ns));
    tables.push(live(found));
    if found.threads.len() > 1 {
        tables.push(threads(found));
    }
    if found.realloc > 0 {
        tables.push(growth(found));
    }
    tables
}

fn summary(found: &Analysis) -> String {
    let Analysis { malloc, calloc, aligned, realloc, free, failed, .. } = found;
    let mut lines = vec![
        found.about.title(),
        format!(
            "{} in {} of {}: malloc {malloc}, calloc {calloc}, aligned {aligned}, realloc {realloc}, free {free}",
            counted(found.totals.events as usize, "call"),
            seconds(found.duration_ns),
            counted(found.threads.len(), "thread"),
        ),
        format!(
            "allocated {} in all; at most {} in {} at once; at the end {} in {}",
            bytes(found.allocated_bytes),
            bytes(found.peak.bytes),
            counted(found.peak.blocks as usize, "block"),
            bytes(found.end.bytes),
            counted(found.end.blocks as usize, "block"),
        ),
    ];
    if *failed > 0 {
        lines.push(format!("{} failed", counted(*failed as usize, "allocation")));
    }
    if found.totals.unknown_frees > 0 {
        let unknown = counted(found.totals.unknown_frees as usize, "free");
        lines.push(format!("{unknown} of blocks from before the recording, left out"));
    }
    Screen::stdout().wrapped(&lines.join("\n"))
}

fn sizes(found: &Analysis) -> String {
    let calls: u64 = found.sizes.iter().map(|row| row.allocations).sum();
    let used =
        found.sizes.iter().enumerate().filter(|(_, row)| row.allocations + row.peak_blocks > 0);
    let rows = used.map(|(i, row)| {
        let next = found
            .sizes
            .get(i + 1)
            .map_or(String::new(), |next| bytes(next.from_bytes.saturating_sub(1)));
        let range = match next.as_str() {
            _ if row.from_bytes < 4 => bytes(row.from_bytes),
            "" => format!("{} and more", bytes(row.from_bytes)),
            next => format!("{} to {next}", bytes(row.from_bytes)),
        };
        vec![
            range,
            row.allocations.to_string(),
            percent(row.allocations, calls),
            bytes(row.bytes),
            row.peak_blocks.to_string(),
            bytes(row.peak_bytes),
            percent(row.peak_bytes, found.peak.bytes),
        ]
    });
    let head = ["size", "allocations", "of all", "bytes", "at peak", "its bytes", "of peak"];
    table(
        "Sizes (a realloc that grows counts as an allocation; at peak: live blocks)",
        &head,
        rows.collect(),
    )
}

fn lifetimes(found: &Analysis, unit: fn(u64) -> String, rows: &[Lifetimes]) -> String {
    let all = found.malloc + found.calloc + found.aligned;
    let row = |name: String, blocks: u64, of: u64| {
        vec![name, blocks.to_string(), percent(blocks, all), bytes(of)]
    };
    let mut out: Vec<_> = rows
        .iter()
        .filter(|row| row.blocks > 0)
        .map(|lived| {
            let name =
                lived.below.map_or("longer".into(), |below| format!("less than {}", unit(below)));
            row(name, lived.blocks, lived.bytes)
        })
        .collect();
    out.push(row("never freed".into(), found.never_freed_blocks, found.never_freed_bytes));
    let text = table("", &["freed after", "blocks", "of all", "bytes"], out);
    text.trim_start().into()
}

fn live(found: &Analysis) -> String {
    const ROWS: usize = 16;
    const BAR: f64 = 24.0;
    let each = found.points.len().div_ceil(ROWS).max(1);
    let rows = found.points.chunks(each).filter_map(|points| {
        let most = points.iter().max_by_key(|point| point.bytes)?;
        let bar = (most.bytes as f64 / found.peak.bytes.max(1) as f64 * BAR).round() as usize;
        Some(vec![
            format!("{:<24}", "#".repeat(bar)),
            seconds(most.at_ns),
            most.call.to_string(),
            bytes(most.bytes),
            most.blocks.to_string(),
        ])
    });
    table(
        "Live over time (the most in each stretch)",
        &["", "at", "call", "bytes", "blocks"],
        rows.collect(),
    )
}

fn threads(found: &Analysis) -> String {
    const ROWS: usize = 12;
    let frees: u64 = found.threads.iter().map(|thread| thread.frees).sum();
    let others: u64 = found.threads.iter().map(|thread| thread.frees_of_others).sum();
    let mut order: Vec<usize> = (0..found.threads.len()).collect();
    order.sort_by_key(|i| {
        std::cmp::Reverse(found.threads[*i].allocations + found.threads[*i].frees)
    });
    let rows = order.iter().take(ROWS).map(|i| {
        let thread = &found.threads[*i];
        vec![
            i.to_string(),
            thread.allocations.to_string(),
            bytes(thread.bytes),
            thread.frees.to_string(),
            thread.frees_of_others.to_string(),
            percent(thread.frees_of_others, thread.frees),
        ]
    });
    let title = format!(
        "Threads (the busiest of {}; {} of all frees are of another thread's block)",
        found.threads.len(),
        percent(others, frees)
    );
    table(
        &title,
        &["thread", "allocations", "bytes", "frees", "of others'", "of its frees"],
        rows.collect(),
    )
}

fn growth(found: &Analysis) -> String {
    let growth = &found.growth;
    let rows = FACTORS.iter().zip(growth.factors).map(|(limit, count)| {
        let name = if *limit == "more" {
            "to 3 times and more".into()
        } else {
            format!("to less than {limit} times")
        };
        vec![name, count.to_string(), percent(count, growth.grew)]
    });
    let title = format!(
        "Realloc: {} grew, {} shrank, {} kept the size; {} to copy if each block moved; at most {} of one block",
        growth.grew,
        growth.shrank,
        growth.same,
        bytes(growth.copied_bytes_most),
        counted(growth.most_of_a_block as usize, "realloc"),
    );
    table(&title, &["grew", "calls", "of these"], rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_unit_that_fits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(bytes(64 << 20), "64.0 MiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
    }
}
