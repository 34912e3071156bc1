//! Runs a program on glebe, and calls back at the moment of interest.
//!
//! ```text
//!   peak   RSS is read every few milliseconds; each time it passes the last look by 1/32, we look again
//!   exit   the library stops its process in its destructor (GLEBE_TOOL_EXIT); we look, and let it go on
//! ```
//!
//! GLEBE_TOOL_EXIT holds our process id. Only our own child stops, not its children, which inherit the variable.

use super::process::status_bytes;
use crate::args::RunOptions;
use crate::program::Program;
use crate::run::{environment, Way};
use crate::stop::Ending;
use crate::system::{self, Image};
use crate::words::say;
use anyhow::Result;
use std::ffi::OsString;
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

/// Runs the program with glebe under it. Calls `look` with its process id; for Exit, while it is stopped. Returns its
/// name and how it ended.
pub fn run(
    words: &[OsString],
    force: bool,
    mean: Option<u64>,
    moment: Moment,
    mut look: impl FnMut(i32),
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
    if moment == Moment::Exit {
        changes.push(("GLEBE_TOOL_EXIT", Some(std::process::id().to_string().into())));
    }
    let pid = system::start(&Image::new(&program, &changes))?;
    let mut seen_bytes = 0;
    loop {
        match system::check_on(pid)? {
            system::State::Ended(ending) => return Ok((name, ending)),
            system::State::Stopped(libc::SIGSTOP) if moment == Moment::Exit => {
                look(pid);
                // SAFETY: our unreaped child.
                unsafe { libc::kill(pid, libc::SIGCONT) };
            }
            system::State::Stopped(_) => system::stop_too(pid),
            system::State::Runs => {}
        }
        if moment == Moment::Peak {
            let bytes = status_bytes(pid, "VmRSS").unwrap_or(0);
            if bytes > seen_bytes + (seen_bytes / 32).max(LEAST_GROWTH_BYTES) {
                look(pid);
                seen_bytes = bytes;
            }
        }
        thread::sleep(BEAT);
    }
}
