//! The options of `glebe leaks`.

use crate::args::Target;
use crate::size;
use clap::Args;

/// Find leaks: blocks that malloc handed out and that nothing in the process refers to.
///
/// Roots are the variables of the program and of its libraries, the stacks, registers and thread-local
/// variables of all threads, and what else the program has mapped and can read. A word that holds an address anywhere
/// inside a block reaches it. The command stops the process while it copies what it needs, and then lets it go on.
///
/// A program given instead of a PID runs on glebe, and is looked at at its exit.
#[derive(Args)]
#[command(
    override_usage = "\
glebe leaks [OPTIONS] <PID>
       glebe leaks [OPTIONS] -- <PROGRAM>...",
    after_help = "\
Examples:
  glebe leaks 4711
  glebe leaks --json 4711
  glebe leaks --mean 1 -- ./program input

JSON: one object with leaks, a list of objects with blocks, bytes and site; \
https://glebe-alloc.github.io/glebe/json.html has all fields."
)]
pub struct Options {
    /// Print one JSON object on a line, with exact bytes
    #[arg(long)]
    pub json: bool,
    /// Start the program even if it defines its own malloc or has a sanitizer inside
    #[arg(long, requires = "program")]
    pub force: bool,
    /// Sample the program's allocations, one byte in SIZE on average (1: all), so that leaks have sites
    #[arg(long, value_name = "SIZE", value_parser = size::parse, requires = "program")]
    pub mean: Option<u64>,
    #[command(flatten)]
    pub target: Target,
}
