//! `glebe explain`: where the resident memory of a process is.
//!
//! ```text
//!   process   /proc: mappings, resident pages, limits        shape   where the fields of glebe's tables are
//!   heap      glebe's tables, read from outside; page        parts   resident pages x tables -> parts that sum to RSS
//!   show      the text, the JSON object, the advice          picture the waterfall as a picture
//!   program   runs a program, and looks at its peak or at its exit
//!   pins      which sites hold pages with free bytes
//!   samples   the profiler's samples, read from outside
//!   snapshot  the file that a process wrote before its end, in place of the process
//! ```
//!
//! Nothing stops the process: we read its tables by process_vm_readv, and /proc/PID/pagemap.

pub mod bytes;
pub mod heap;
mod options;
mod page;
mod part;
mod parts;
mod picture;
mod pins;
pub mod process;
pub mod program;
pub mod samples;
pub mod shape;
pub mod show;
pub mod snapshot;

pub use options::Options;
pub use part::Part;
#[cfg(test)]
use parts::look;
pub use parts::{Explanation, Seen};

use crate::output::probe_each;
use crate::profile::tell_missing;
use crate::screen::Screen;
use crate::stop::{with_result, without_result, Ending};
use crate::system::live::{or_ended, runs, there_is};
use crate::words::print;
use anyhow::Result;
use snapshot::Snapshot;
use std::path::Path;

/// Runs the command.
pub fn explain(options: &Options) -> Result<Ending> {
    probe_each(&options.svg)?;
    if let Some(file) = &options.from {
        return explain_snapshot(options, file);
    }
    let Some(pid) = options.pid else { return explain_program(options) };
    let seen = settled(pid)?;
    report(options, seen, show::NOW)?;
    Ok(Ending::Exit(0))
}

/// Looks until the parts sum to what the kernel counts: while we look at a busy process, its memory changes. A process
/// that ends in between leaves the look before.
pub fn settled(pid: i32) -> Result<Seen> {
    const LOOKS: usize = 3;
    there_is(pid)?;
    let mut seen = parts::look(pid).map_err(|error| or_ended(pid, error))?;
    for _ in 1..LOOKS {
        if seen.is_near() {
            break;
        }
        let Ok(next) = parts::look(pid) else { break };
        seen = next;
    }
    Ok(seen)
}

fn explain_program(options: &Options) -> Result<Ending> {
    let wanted = if options.at_exit { program::Moment::Exit } else { program::Moment::Peak };
    let (mut kept, mut failed) = (None, None);
    let (name, ending) =
        program::run(&options.program, options.force, options.mean, wanted, |pid, moment| {
            match settled(pid) {
                // What was seen at the exit alone is no peak of several looks.
                Ok(seen) => {
                    kept = Some((seen, if kept.is_none() { moment } else { wanted }));
                }
                // A process that ends while we look leaves the picture of before.
                Err(error) if runs(pid) => failed = Some(format!("{error:#}")),
                Err(_) => {}
            }
        })?;
    let Some((seen, moment)) = kept else {
        return without_result(
            ending,
            failed.unwrap_or_else(|| program::unseen(&name, "looked at")),
        );
    };
    with_result(ending, report(options, seen, moment.text()))
}

fn explain_snapshot(options: &Options, file: &Path) -> Result<Ending> {
    let snapshot = Snapshot::read(file)?;
    let moment = snapshot.moment();
    match snapshot.seen()? {
        Some(seen) => report(options, seen, &moment)?,
        None => print(match options.json {
            true => snapshot.sums(true),
            false => Screen::stdout().wrapped(&snapshot.sums(false)),
        })?,
    }
    Ok(Ending::Exit(0))
}

/// What is shown does not depend on whether the picture can be written, nor the other way round.
fn report(options: &Options, seen: Seen, moment: &str) -> Result<()> {
    let mut explanation = seen.explain();
    explanation.find_pins();
    if let Some(sites) = &explanation.sites {
        sites.tell_unread();
    }
    tell_missing(explanation.sites.as_ref().map_or(0, |sites| sites.lost()));
    let drawn = options.svg.as_ref().map(|file| picture::draw(file, &explanation, moment));
    print(if options.json {
        show::json(&explanation, moment)
    } else {
        show::text(&explanation, moment, Screen::stdout())
    })?;
    drawn.transpose().map(|_| ())
}
