//! The options of `glebe map`.

use clap::Args;
use std::path::PathBuf;

/// Draw glebe's memory in a process: every slice, how full it is, holes, retained memory and huge pages.
///
/// The process is not stopped. The terminal gets a character for each 32 KiB; --svg a cell for each 16 KiB. With
/// LC_ALL=C the characters are plain ASCII; with NO_COLOR, letters replace the colours.
#[derive(Args)]
#[command(after_help = "\
Examples:
  glebe map 4711
  glebe map --svg memory.svg 4711")]
pub struct Options {
    /// Print one JSON object on a line, with exact bytes
    #[arg(long)]
    pub json: bool,
    /// Draw into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// A process that runs with glebe inside
    #[arg(value_name = "PID", value_parser = crate::pid::PidParser)]
    pub pid: i32,
}
