//! What the command itself writes.
//!
//! `println!` and `eprintln!` panic where the file behind a stream is full. Here a failing standard output is an error like
//! any other, and a failing standard error cannot be reported anywhere.

use anyhow::{Context, Result};
use std::fmt::Display;
use std::io::{self, Write};

/// A line on standard error.
pub fn say(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "glebe: {text}");
}

/// A line on standard output, and through it at once.
pub fn print(text: impl Display) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).context("standard output")
}
