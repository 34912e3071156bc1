//! Linux: we preload the library, /proc shows the processes, and wait4 reports what they used.
//!
//! ```text
//!   search     a name -> a file, a script -> its interpreter   inspect     can it take a preload?
//!   library    the embedded library -> a path                  libraries   builds, peers, paths
//!   launch     exec, fork, wait                                witness     did it get in?
//!   run        glebe run                                       live        glebe stats PID
//!   collect    the statistics of a run                         statistics  their text and JSON
//!   measure    one run of a comparison                         interrupt   Ctrl-C in it
//!   closed     standard streams that were closed             sentinel    did the group get that signal?
//!   wine       Windows programs                        watch       a program that explain and leaks look at
//! ```

mod closed;
mod collect;
mod inspect;
pub mod interrupt;
mod launch;
pub mod libraries;
mod library;
pub mod live;
mod measure;
mod run;
mod search;
mod sentinel;
mod statistics;
mod watch;
mod wine;
mod witness;

pub use closed::is_closed;
pub use launch::{pass_on, Image};
pub use live::show_live;
pub use measure::{measure, scratch, NULL, SAMPLED_OF};
pub use run::{check, no_limit, run, run_as_child, run_recorded};
pub use search::search;
pub use sentinel::remove_at_end;
pub use watch::{check_on, left_out, preload, start, stop_too, under_every_program, State};
pub use witness::is_mapped;

use anyhow::Result;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Must be called first. `program` is the words after the options; if that is a Windows program and Wine runs it, does
/// not return.
pub fn begin(program: &[OsString]) -> Result<()> {
    launch::restore_sigpipe();
    wine::hand_over(program)
}

/// The text as a C string. Words of a command line and of an environment cannot hold a NUL.
fn c_string(text: &OsStr) -> CString {
    let bytes = text.as_bytes().iter().copied().take_while(|b| *b != 0).collect::<Vec<u8>>();
    CString::new(bytes).unwrap_or_default()
}
