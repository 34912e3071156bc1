//! A profile, or the difference of two, as a table, as folded lines and as JSON.

use super::lifetimes;
use super::raw::Weight;
use super::stacks::Stacks;
use crate::screen::Screen;
use crate::size::{counted, mib, percent};
use crate::table::Texts;
use anyhow::Result;
use serde_json::{json, Value};
use std::collections::HashMap;
use std::fmt::Write;

/// Functions in a table.
pub const ROWS: usize = 10;

pub fn amount(bytes: u64) -> String {
    format!("{:.1} MiB", mib(bytes as f64))
}

/// Those with the most bytes first.
pub fn ordered(sums: HashMap<&str, Weight>) -> Vec<(&str, Weight)> {
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by(|a, b| b.1.bytes.cmp(&a.1.bytes).then(a.0.cmp(b.0)));
    rows
}

/// The functions with the most bytes; with `by`, the values of this label.
pub fn table(stacks: &Stacks, by: Option<&str>, screen: Screen) -> String {
    let sums = by.map_or_else(|| stacks.by_function(), |key| stacks.by_value(key));
    let rows: Vec<Vec<String>> = ordered(sums)
        .iter()
        .take(ROWS)
        .map(|(name, sum)| {
            vec![
                amount(sum.bytes),
                format!("{:.1} %", percent(sum.bytes, stacks.total_bytes)),
                format!("{:.0}", sum.objects),
                name.to_string(),
            ]
        })
        .collect();
    let what = stacks.kind.text();
    let head = [what, "share", "blocks", by.unwrap_or("function")];
    Texts { head: &head, rows, name: 3 }.table(screen) + "\n" + &screen.wrapped(&estimated(stacks))
}

/// The sum, and what it rests on.
pub fn estimated(stacks: &Stacks) -> String {
    let mut sum = format!("{} {}", amount(stacks.total_bytes), stacks.kind.text());
    if stacks.mean_bytes > 0 {
        let (samples, mean) = (stacks.samples(), spelled(stacks.mean_bytes));
        let _ = write!(sum, ", estimated from about {}, one in {mean}", counted(samples, "sample"));
    }
    sum
}

/// Bytes as --mean takes them: in KiB if there are whole ones.
fn spelled(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1024 && bytes % 1024 == 0 => format!("{} KiB", bytes >> 10),
        bytes => counted(bytes as usize, "byte"),
    }
}

/// One line a stack, the outermost caller first, and its bytes: the input of flame graph tools.
pub fn folded(stacks: &Stacks) -> Result<String> {
    let mut text = String::new();
    for (stack, bytes) in stacks.folded()? {
        let _ = writeln!(text, "{stack} {bytes}");
    }
    Ok(text)
}

/// With `lived`, also how long the blocks of each function lived.
pub fn json(stacks: &Stacks, lived: bool) -> String {
    let functions: Vec<Value> = ordered(stacks.by_function())
        .iter()
        .map(|(name, sum)| json!({"function": name, "bytes": sum.bytes, "blocks": sum.objects.round() as u64}))
        .collect();
    let labels = stacks.by_label().into_iter().map(|((key, value), sum)| {
        json!({"key": key, "value": value, "bytes": sum.bytes, "blocks": sum.objects.round() as u64})
    });
    let mut all = json!({
        "title": stacks.title,
        "kind": stacks.kind.name(),
        "total_bytes": stacks.total_bytes,
        "mean_bytes": mean(stacks),
        "functions": functions,
        "labels": labels.collect::<Vec<Value>>(),
    });
    if lived {
        all["lifetimes"] = lifetimes::json(stacks).into();
    }
    all.to_string()
}

fn mean(stacks: &Stacks) -> Value {
    match stacks.mean_bytes {
        0 => Value::Null,
        bytes => json!(bytes),
    }
}

/// What a function had before and after.
struct Change<'a> {
    function: &'a str,
    before: u64,
    after: u64,
}

impl Change<'_> {
    /// Bytes that were added; negative if it shrank. Both are below 2^63.
    fn growth(&self) -> i64 {
        self.after as i64 - self.before as i64
    }
}

/// The functions that changed, the largest change first.
fn changes<'a>(before: &'a Stacks, after: &'a Stacks) -> Vec<Change<'a>> {
    let mut sums: HashMap<&str, [u64; 2]> = HashMap::new();
    for (side, stacks) in [before, after].into_iter().enumerate() {
        for (name, weight) in stacks.by_function() {
            sums.entry(name).or_default()[side] = weight.bytes;
        }
    }
    let mut rows: Vec<Change> = sums
        .into_iter()
        .map(|(function, [before, after])| Change { function, before, after })
        .filter(|change| change.growth() != 0)
        .collect();
    rows.sort_by_key(|change| (std::cmp::Reverse(change.growth().unsigned_abs()), change.function));
    rows
}

fn signed(bytes: i64) -> String {
    format!("{:+.1} MiB", mib(bytes as f64))
}

/// The standard error of a change is at most this (docs/profile.md): sums of both profiles are estimates.
fn error_of(before: u64, after: u64, means: [u64; 2]) -> Option<f64> {
    let square = |bytes: u64, mean: u64| bytes as f64 * mean as f64;
    (means[0] > 0 && means[1] > 0)
        .then(|| (square(before, means[0]) + square(after, means[1])).sqrt())
}

/// The functions whose bytes changed most.
pub fn changes_table(before: &Stacks, after: &Stacks, screen: Screen) -> String {
    let means = [before.mean_bytes, after.mean_bytes];
    let error = |before, after| match error_of(before, after, means) {
        Some(bytes) => format!("{:.1} MiB", mib(bytes)),
        None => "?".into(),
    };
    let all = changes(before, after);
    let rows: Vec<Vec<String>> = all
        .iter()
        .take(ROWS)
        .map(|row| {
            vec![
                signed(row.growth()),
                error(row.before, row.after),
                amount(row.before),
                amount(row.after),
                row.function.to_string(),
            ]
        })
        .collect();
    let head = ["growth", "error", "before", "after", "function"];
    let (first, last) = (before.total_bytes, after.total_bytes);
    let mut sums = format!(
        "{}: {} in {}, {} in {}: {} (error at most {})",
        after.kind.text(),
        amount(first),
        before.title,
        amount(last),
        after.title,
        signed(last as i64 - first as i64),
        error(first, last)
    );
    if all.len() > ROWS {
        let _ = write!(sums, "\nand {} more functions (--json has all)", all.len() - ROWS);
    }
    Texts { head: &head, rows, name: 4 }.table(screen) + "\n" + &screen.wrapped(&sums)
}

/// One line a stack with its bytes before and after.
pub fn changes_folded(before: &Stacks, after: &Stacks) -> Result<String> {
    let mut sums: HashMap<String, [u64; 2]> = HashMap::new();
    for (side, stacks) in [before, after].into_iter().enumerate() {
        for (stack, bytes) in stacks.folded()? {
            sums.entry(stack).or_default()[side] = bytes;
        }
    }
    let mut lines: Vec<_> = sums.into_iter().collect();
    lines.sort();
    let mut text = String::new();
    for (stack, [before, after]) in lines {
        let _ = writeln!(text, "{stack} {before} {after}");
    }
    Ok(text)
}

pub fn changes_json(before: &Stacks, after: &Stacks) -> String {
    let means = [before.mean_bytes, after.mean_bytes];
    let rows: Vec<Value> = changes(before, after)
        .iter()
        .map(|row| {
            json!({
                "function": row.function,
                "growth_bytes": row.growth(),
                "error_bytes": error_of(row.before, row.after, means).map(f64::round),
                "before_bytes": row.before,
                "after_bytes": row.after,
            })
        })
        .collect();
    let side = |stacks: &Stacks| {
        json!({
            "title": stacks.title,
            "total_bytes": stacks.total_bytes,
            "mean_bytes": mean(stacks),
        })
    };
    json!({
        "kind": after.kind.name(),
        "before": side(before),
        "after": side(after),
        "changes": rows,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::super::pprof::Kind;
    use super::super::raw::Weight;
    use super::*;

    const WIDE: Screen = Screen { width: 200, unicode: false, moves: false, styles: false };

    fn stacks(rows: &[(&[&str], u64)]) -> Stacks {
        let mut stacks = Stacks::new("t".into(), Kind::Peak, 1 << 19);
        for (names, mib) in rows {
            let frames = names.iter().map(|name| stacks.number(name)).collect();
            stacks.add(frames, Weight { objects: 2.0, bytes: mib << 20 }).unwrap();
        }
        stacks
    }

    #[test]
    fn the_largest_change_is_first() {
        let before = stacks(&[(&["main", "gone"], 8), (&["main", "same"], 5), (&["main", "f"], 1)]);
        let after = stacks(&[(&["main", "f"], 3), (&["main", "same"], 5), (&["g", "f"], 1)]);
        let text = changes_table(&before, &after, WIDE);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[3].contains("-8.0 MiB") && lines[3].contains("gone"), "{text}");
        assert!(lines[4].contains("+3.0 MiB") && lines[4].contains("1.0 MiB"), "{text}");
        assert!(!text.contains("same"), "{text}");
        // sqrt((14 + 9) MiB * 0.5 MiB)
        assert!(text.contains("14.0 MiB in t, 9.0 MiB in t: -5.0 MiB (error at most 3.4 MiB)"));
        let lines = changes_folded(&before, &after).unwrap();
        assert!(lines.contains("g;f 0 1048576\n") && lines.contains("main;gone 8388608 0\n"));
        let object: Value = serde_json::from_str(&changes_json(&before, &after)).unwrap();
        assert_eq!(object["changes"][0]["growth_bytes"], -8 << 20);
        assert_eq!(object["changes"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn a_table_has_shares() {
        let mut stacks = stacks(&[(&["main", "f"], 3), (&["main"], 1)]);
        let text = table(&stacks, None, WIDE);
        assert!(text.contains("75.0 %") && text.contains("in use at the peak"), "{text}");
        let told = "4.0 MiB in use at the peak, estimated from about 3 samples, one in 512 KiB";
        assert!(text.ends_with(told), "{text}");
        stacks.mean_bytes = 1;
        assert!(table(&stacks, None, WIDE).ends_with("from about 4 samples, one in 1 byte"));
        assert_eq!(
            [spelled(1000), spelled(1024), spelled(1 << 20)],
            ["1000 bytes", "1 KiB", "1024 KiB"]
        );
    }
}
