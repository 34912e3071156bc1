//! The command's own output.
//!
//! `println!` and `eprintln!` panic if the file behind a stream is full. Here a failing standard output is an ordinary
//! error, and we ignore a failing standard error, since it cannot be reported.

use anyhow::{Context, Result};
use std::fmt::Display;
use std::io::{self, Write};

/// Writes a line to standard error.
pub fn say(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "glebe: {text}");
}

/// Writes a line to standard output and flushes it.
pub fn print(text: impl Display) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).context("standard output")
}
