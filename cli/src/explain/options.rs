//! The options of `glebe explain`.

use crate::pid::PidParser;
use crate::size;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// Explain the resident memory of a process: the parts sum to its resident set.
///
/// The parts are live blocks by size, free bytes in pages that are in use, memory retained for reuse, huge
/// pages that were never used, glebe's tables; and what is not malloc's: stacks, files, other mappings. Of
/// a process with another allocator the command shows what the kernel knows of its mappings.
///
/// A running process is not stopped: the command reads glebe's tables by process_vm_readv, and which OS
/// pages are resident from /proc/PID/pagemap; that takes the rights of a debugger. A program given instead
/// of a PID runs on glebe, and is explained at the highest resident set that was seen, or at its exit.
#[derive(Args)]
#[command(
    override_usage = "\
glebe explain [OPTIONS] <PID>
       glebe explain [OPTIONS] -- <PROGRAM>...
       glebe explain [OPTIONS] --from <FILE>",
    after_help = "\
Examples:
  glebe explain 4711
  glebe explain --json 4711
  glebe explain --svg memory.svg -- ./program input
  glebe explain --at-exit -- python3 script.py
  glebe run --snapshot last.snap@90% -- ./server
  glebe explain --from last.snap

JSON: one object: rss_bytes, and parts, a list of objects with name and bytes that sum to rss_bytes; \
https://glebe-alloc.github.io/glebe/json.html has all fields."
)]
pub struct Options {
    /// Print one JSON object on a line, with exact bytes
    #[arg(long)]
    pub json: bool,
    /// Draw the parts as a waterfall into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Explain the program at its exit, not at its highest resident set
    #[arg(long, requires = "program")]
    pub at_exit: bool,
    /// Start the program even if it defines its own malloc or has a sanitizer inside
    #[arg(long, requires = "program")]
    pub force: bool,
    /// Sample the program's allocations, one byte in SIZE on average (1: all), so that sites are named
    #[arg(long, value_name = "SIZE", value_parser = size::parse, requires = "program")]
    pub mean: Option<u64>,
    /// Explain the snapshot that a process with GLEBE_SNAPSHOT wrote near its limit
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pid", "program"])]
    pub from: Option<PathBuf>,
    /// A process that runs, with glebe inside or without
    #[arg(value_name = "PID", required_unless_present_any = ["program", "from"], conflicts_with = "program",
          value_parser = PidParser)]
    pub pid: Option<i32>,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}
