//! The options of `glebe top`.

use crate::pid::PidParser;
use crate::size;
use clap::Args;

fn frames(text: &str) -> Result<u64, String> {
    size::whole(text, 1..=u64::MAX)
}

/// Watch the memory of a process: what is live, free and retained, refreshed each second.
///
/// The command shows the parts of the resident set as glebe explain does, how they change, block sizes, threads and
/// heaps. If the process samples (glebe profile, GLEBE_PROFILE), it also shows how fast the program allocates, and the
/// callers with the most live memory, as of the last time that the process wrote its profile.
///
/// The process is not stopped: the command reads glebe's tables by process_vm_readv, and which OS pages are resident
/// from /proc/PID/pagemap; that takes the rights of a debugger. The key q ends it; when the process ends, it ends too.
/// Without a terminal, or if TERM is dumb, it prints one frame as text.
#[derive(Args)]
#[command(
    override_usage = "glebe top [OPTIONS] <PID>",
    after_help = "\
Examples:
  glebe top 4711
  glebe top 4711 | head -n 20
  glebe top --frames 60 4711 > minute.txt"
)]
pub struct Options {
    /// End after so many frames, one a second [default: 1 without a terminal]
    #[arg(short = 'n', long, value_name = "N", value_parser = frames)]
    pub frames: Option<u64>,
    /// The process
    #[arg(value_name = "PID", value_parser = PidParser)]
    pub pid: i32,
}
