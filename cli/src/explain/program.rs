//! Runs a program on glebe, and calls back at the moment of interest.
//!
//! ```text
//!   peak   RSS is read every few milliseconds; each time it passes the last look by 1/32, we look again
//!   exit   the library stops its process in its destructor (GLEBE_TOOL_EXIT); we look, and let it go on
//! ```
//!
//! The process stops at its exit in both cases: many programs end sooner than a look takes, or grow to the end.
//!
//! GLEBE_TOOL_EXIT holds our process id. Only our own child stops, not its children, which inherit the variable.

use super::process::status_bytes;
use crate::args::RunOptions;
use crate::program::Program;
use crate::run::{environment, Way};
use crate::stop::Ending;
use crate::system::live::threads_of;
use crate::system::{self, Image};
use crate::words::say;
use anyhow::Result;
use std::ffi::OsString;
use std::fs;
use std::thread;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Peak,
    Exit,
}

impl Moment {
    pub fn text(self) -> &'static str {
        match self {
            Moment::Peak => "at its peak",
            Moment::Exit => "at its exit",
        }
    }
}

/// Time between two looks at RSS.
const BEAT: Duration = Duration::from_millis(4);
/// A look is due when RSS passes that of the last one by 1/32 and by this much.
const LEAST_GROWTH_BYTES: u64 = 128 << 10;

/// Why there is nothing to show of a program. `done`: what would have been done.
pub fn unseen(name: &str, done: &str) -> String {
    format!(
        "{name} did not stop at its exit to be {done}: it ended by a signal or by _exit, or glebe was not in it"
    )
}

/// Runs the program with glebe under it. Calls `look` with its process id and the moment; if that is its exit, while it
/// is stopped. Returns its name and how it ended.
pub fn run(
    words: &[OsString],
    force: bool,
    mean: Option<u64>,
    moment: Moment,
    mut look: impl FnMut(i32, Moment),
) -> Result<(String, Ending)> {
    let program = Program::find(words)?;
    let name = program.name.to_string_lossy().into_owned();
    let checked = system::check(&program, force, None)?;
    checked.notes.iter().for_each(|note| say(format!("note: {note}")));
    let mut changes = environment(&RunOptions { mean, ..RunOptions::default() });
    let library = match checked.way {
        Way::Under => {
            system::libraries::build("glebe").map(|library| library.place()).transpose()?
        }
        Way::StandIn(soname) => Some(system::libraries::stand_in(soname)?),
        Way::Inside => None,
    };
    if let Some(library) = library {
        system::left_out(Some(&library)).iter().for_each(|note| say(format!("note: {note}")));
        changes.push(("LD_PRELOAD", Some(system::preload(&library))));
    }
    if mean.is_some() {
        changes.push(("GLEBE_TOOL_SAMPLE", Some("1".into())));
    }
    changes.push(("GLEBE_TOOL_EXIT", Some(std::process::id().to_string().into())));
    let pid = system::start(&Image::new(&program, &changes))?;
    let mut seen_bytes = 0;
    loop {
        match system::check_on(pid)? {
            system::State::Ended(ending) => return Ok((name, ending)),
            system::State::Stopped(libc::SIGSTOP) if is_at_exit(pid) => {
                if moment == Moment::Exit || resident_bytes(pid) > seen_bytes {
                    look(pid, Moment::Exit);
                }
                // SAFETY: our unreaped child.
                unsafe { libc::kill(pid, libc::SIGCONT) };
            }
            system::State::Stopped(_) => system::stop_too(pid),
            system::State::Runs => {}
        }
        if moment == Moment::Peak {
            let bytes = resident_bytes(pid);
            if bytes > seen_bytes + (seen_bytes / 32).max(LEAST_GROWTH_BYTES) {
                look(pid, Moment::Peak);
                seen_bytes = bytes;
            }
        }
        thread::sleep(BEAT);
    }
}

fn resident_bytes(pid: i32) -> u64 {
    status_bytes(pid, "VmRSS").unwrap_or(0)
}

/// Whether a process that is stopped has stopped itself as the library does: by kill, of its own process. A user's
/// SIGSTOP comes in any other place. Where the kernel does not tell, it counts as the exit: the program must go on.
fn is_at_exit(pid: i32) -> bool {
    let call = |thread| fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall")).ok();
    let calls: Vec<String> = threads_of(pid).into_iter().filter_map(call).collect();
    calls.is_empty() || calls.iter().any(|call| is_stop_of(pid, call))
}

/// Whether a line of /proc/PID/task/TID/syscall is kill(PID, SIGSTOP): the number of the call, and its arguments.
fn is_stop_of(pid: i32, call: &str) -> bool {
    let mut words = call.split_whitespace();
    let call = words.next().and_then(|word| word.parse::<libc::c_long>().ok());
    let mut argument = || i64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    call == Some(libc::SYS_kill)
        && argument() == Some(pid.into())
        && argument() == Some(libc::SIGSTOP.into())
}
