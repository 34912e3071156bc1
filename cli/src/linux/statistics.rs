//! Statistics of a process in words: the library's own text and JSON (src/debug/stats.c), printed here from outside.
//!
//! ```text
//!   glebe: ls[4711]: statistics
//!     committed_bytes           2.0 MiB       KiB below 1 MiB, rounded down
//!     purges                      3           a count
//!
//!   {"program": "ls", "pid": 4711, "committed_bytes": 2097152, ...}
//! ```

use serde_json::{Map, Value};
use std::fmt::Write;

/// One process and its statistics, in the library's order. Names in `_bytes` have that unit; all others are counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    pub program: String,
    pub pid: u32,
    pub values: Vec<(String, u64)>,
}

impl Statistics {
    /// Reads a line that a process has written as JSON.
    pub fn parse(line: &str) -> Option<Statistics> {
        let object: Map<String, Value> = serde_json::from_str(line).ok()?;
        let program = object.get("program")?.as_str()?.to_string();
        let pid = object.get("pid")?.as_u64()?.try_into().ok()?;
        let rest = object.iter().filter(|(name, _)| !matches!(&***name, "program" | "pid"));
        let values = rest.map(|(name, value)| Some((name.clone(), value.as_u64()?)));
        Some(Statistics { program, pid, values: values.collect::<Option<_>>()? })
    }

    /// The text, without a newline at its end.
    pub fn text(&self) -> String {
        let mut text = format!("glebe: {}[{}]: statistics", self.program, self.pid);
        for (name, value) in &self.values {
            let (number, unit) = shown(name, *value);
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {name:<20}{number:>9}{unit}");
        }
        text
    }

    /// The JSON object, on one line.
    pub fn json(&self) -> String {
        let mut text = format!("{{\"program\": \"{}\", \"pid\": {}", self.program, self.pid);
        for (name, value) in &self.values {
            let _ = write!(text, ", \"{name}\": {value}");
        }
        text + "}"
    }

    fn value(&self, name: &str) -> u64 {
        self.values.iter().find(|(n, _)| n == name).map_or(0, |(_, value)| *value)
    }
}

/// One line that sums up the processes that a program started. None if it started none.
pub fn summary(program: &str, children: &[Statistics]) -> Option<String> {
    let largest = children.iter().max_by_key(|child| child.value("peak_used_bytes"))?;
    let sum = |name| children.iter().map(|child| child.value(name)).sum();
    let amount = |name: &str, value| {
        let (number, unit) = shown(name, value);
        format!("{number}{unit}")
    };
    let noun = if children.len() == 1 { "child" } else { "children" };
    Some(format!(
        "{program}: {} {noun}: peak {} at most ({}[{}]), {} purged, {} errors, {} times out of memory",
        children.len(),
        amount("_bytes", largest.value("peak_used_bytes")),
        largest.program,
        largest.pid,
        amount("_bytes", sum("purged_bytes")),
        sum("errors"),
        sum("out_of_memory"),
    ))
}

/// A value as the text shows it: number and unit.
fn shown(name: &str, value: u64) -> (String, &'static str) {
    if !name.ends_with("_bytes") {
        return (value.to_string(), "");
    }
    let (log2, unit) = if value >> 20 > 0 { (20, " MiB") } else { (10, " KiB") };
    let tenths = ((value & ((1 << log2) - 1)) * 10) >> log2;
    (format!("{}.{tenths}", value >> log2), unit)
}

/// A program's name as the library writes it, without characters that would break a line or a JSON string.
pub fn plain(name: &[u8]) -> String {
    let safe = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    name.iter().take(63).map(|byte| if safe(*byte) { char::from(*byte) } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(pid: u32, peak: u64) -> Statistics {
        let values = [("peak_used_bytes", peak), ("purged_bytes", 1023), ("errors", 12345)];
        let values = values.map(|(name, value)| (name.into(), value)).to_vec();
        Statistics { program: "prog".into(), pid, values }
    }

    /// The same rows as in test/unit/stats_test.c.
    #[test]
    fn the_text_is_the_librarys() {
        assert_eq!(
            sample(4711, 1 << 20).text(),
            "glebe: prog[4711]: statistics\n  peak_used_bytes           1.0 MiB\n  \
             purged_bytes              0.9 KiB\n  errors                  12345"
        );
        assert!(sample(1, (1 << 20) - 1)
            .text()
            .contains("\n  peak_used_bytes        1023.9 KiB\n"));
        assert!(sample(1, u64::MAX)
            .text()
            .contains("  peak_used_bytes     17592186044415.9 MiB\n"));
    }

    #[test]
    fn json_is_read_and_written() {
        let sample = sample(4711, 7);
        let json = sample.json();
        assert_eq!(
            json,
            "{\"program\": \"prog\", \"pid\": 4711, \"peak_used_bytes\": 7, \
             \"purged_bytes\": 1023, \"errors\": 12345}"
        );
        assert_eq!(Statistics::parse(&json), Some(sample));
        for other in ["", "{}", "text", "{\"program\": \"x\", \"pid\": -1}", "[1]"] {
            assert_eq!(Statistics::parse(other), None, "{other}");
        }
    }

    #[test]
    fn children_are_summed_up() {
        assert_eq!(summary("sh", &[]), None);
        let one = summary("sh", &[sample(2, 1 << 20)]).unwrap();
        assert!(one.starts_with("sh: 1 child: peak 1.0 MiB at most (prog[2]), 0.9 KiB"), "{one}");
        let both = summary("sh", &[sample(2, 5), sample(3, 3 << 20)]).unwrap();
        assert!(
            both.starts_with("sh: 2 children: peak 3.0 MiB at most (prog[3]), 1.9 KiB"),
            "{both}"
        );
        assert!(both.ends_with("24690 errors, 0 times out of memory"), "{both}");
    }

    #[test]
    fn names_stay_on_their_line() {
        assert_eq!(plain(b"a\"b\\c\nd\xc3\xa9 e"), "a?b?c?d?? e");
        assert_eq!(plain(&[b'n'; 100]).len(), 63);
    }
}
