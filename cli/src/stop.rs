//! How a program ends, and the exit codes of the command itself.
//!
//! The exit status belongs to the program, so the command itself uses only the few codes that shells, `env`, `nice` and
//! `timeout` use:
//!
//!   125  glebe itself failed, or refused because the program cannot take it
//!   126  the program was found but cannot be executed
//!   127  the program was not found
//!   2    the command line makes no sense (mostly printed by clap)
//!
//! Every other code is the program's.

use crate::words::say;
use anyhow::{anyhow, Result};
use std::fmt;

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Exit(i32),
    #[cfg_attr(windows, allow(dead_code, reason = "Windows has no signals"))]
    Signal(i32),
}

impl Ending {
    /// As in a shell's `$?`: 128 + n for signal n.
    pub fn code(self) -> i32 {
        match self {
            Ending::Exit(code) => code,
            Ending::Signal(signal) => 128 + signal,
        }
    }
}

/// The command line makes no sense.
pub const WRONG_LINE: i32 = 2;
/// glebe itself failed, or refused.
pub const OWN_FAILURE: i32 = 125;
/// The program exists but cannot be executed.
pub const NOT_EXECUTABLE: i32 = 126;
/// There is no such program.
pub const NOT_FOUND: i32 = 127;

/// An error with its exit code. Any other error exits with [`OWN_FAILURE`].
#[derive(Debug)]
pub struct Stop {
    pub code: i32,
    pub message: String,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Stop {}

/// The program ended, and the command has nothing to show of it. That is an error of the command, unless the program
/// failed itself: then its own status says more, and a line says why there is nothing.
#[cfg_attr(windows, allow(dead_code, reason = "only Linux has the commands that show a program"))]
pub fn without_result(ending: Ending, why: String) -> Result<Ending> {
    if ending == Ending::Exit(0) {
        return Err(anyhow!(why));
    }
    say(why);
    Ok(ending)
}

/// How the command ends after a program: as the program did, unless its result could not be shown or written.
#[cfg_attr(windows, allow(dead_code, reason = "only Linux has the commands that show a program"))]
pub fn with_result(ending: Ending, result: Result<()>) -> Result<Ending> {
    match result {
        Ok(()) => Ok(ending),
        Err(error) => without_result(ending, format!("{error:#}")),
    }
}

/// The exit code of an error.
pub fn code_of(error: &anyhow::Error) -> i32 {
    error.downcast_ref::<Stop>().map_or(OWN_FAILURE, |stop| stop.code)
}
