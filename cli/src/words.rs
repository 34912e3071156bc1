//! The command's own output.
//!
//! `println!` and `eprintln!` panic if the file behind a stream is full. Here a failing standard output is an ordinary
//! error, and we ignore a failing standard error, since it cannot be reported.

use crate::system;
use anyhow::{bail, Context, Result};
use std::fmt::Display;
use std::io::{self, Write};

/// Writes a line to standard error.
pub fn say(text: impl Display) {
    let lines = without_numbers(&text.to_string());
    let lines: Vec<String> = lines.split('\n').map(plain).collect(); // a name may hold anything
    tell(format!("glebe: {}", lines.join("\n")));
}

/// Writes lines to standard error as they are: a table, or lines that name glebe themselves.
pub fn tell(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Writes a line to standard output and flushes it.
pub fn print(text: impl Display) -> Result<()> {
    can_print()?;
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).context("standard output")
}

/// Rust takes a closed standard output for one that swallows everything.
pub fn can_print() -> Result<()> {
    if system::is_closed(1) {
        bail!("standard output: Bad file descriptor (it is closed)");
    }
    Ok(())
}

/// The text in at most so many characters; one that is cut ends with `...`.
#[cfg_attr(windows, allow(dead_code, reason = "only Linux has the commands that show sites"))]
pub fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.into(),
        Some(_) => text.chars().take(most - 3).chain("...".chars()).collect(),
    }
}

/// Printable characters alone: a name, a path or a stranger's file may hold anything.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// The text without Rust's `(os error 20)`: the words before it say the same.
fn without_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut kept = parts.next().unwrap_or_default().to_string();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.parse::<u32>().is_ok() => kept += rest,
            _ => kept = kept + " (os error " + part,
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_cut_says_so() {
        assert_eq!(cut("aßcde", 5), "aßcde");
        assert_eq!(cut("aßcdef", 5), "aß...");
    }

    #[test]
    fn numbers_of_errors_are_left_out() {
        let error = std::fs::read("/dev/null/file").unwrap_err();
        assert!(error.to_string().contains("(os error "), "control: {error}");
        assert!(!without_numbers(&format!("a: {error}; b: {error}.")).contains("error"));
        assert_eq!(without_numbers("x (os error 2): y (os error z)"), "x: y (os error z)");
    }
}
