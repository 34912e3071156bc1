//! The options of `glebe report`.

use clap::Args;
use std::path::PathBuf;

/// Show reports of misuse with functions and lines: who found it, who allocated the block, and who freed it.
///
/// The library appends its reports to the file that `glebe run --report FILE` or GLEBE_REPORT names. This
/// command reads the program's files, so it must run where the program ran. A file with another build-id
/// than the one that ran names nothing.
#[derive(Args)]
#[command(after_help = "\
Examples:
  glebe run --guard 8M --report found.json -- ./server
  glebe report found.json
  glebe report --json found.json")]
pub struct Options {
    /// Print one JSON object for each report, on a line: that of the file, with the functions
    #[arg(long)]
    pub json: bool,
    /// What the library wrote
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}
