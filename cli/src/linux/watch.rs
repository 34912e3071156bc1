//! A program that this command starts, and looks at while it runs: for `glebe explain` and `glebe leaks`.

use super::launch::{self, variable, Image};
use super::library::{preload_with, without_allocators};
use super::run::hand_signals_to;
use super::sentinel;
use crate::stop::Ending;
use anyhow::Result;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::Path;

/// The state of our child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Runs,
    /// It has just stopped, by this signal.
    Stopped(i32),
    /// It has ended, and is reaped.
    Ended(Ending),
}

/// The value of LD_PRELOAD with this library behind what is there and no allocator.
pub fn preload(library: &Path) -> OsString {
    let before = variable(OsStr::new("LD_PRELOAD"));
    preload_with(before.map(|before| without_allocators(&before).0), library)
}

/// The note on the allocators in LD_PRELOAD that our `library`, or each library of a comparison, takes the place of.
pub fn left_out(library: Option<&Path>) -> Option<String> {
    let (_, mut gone) = without_allocators(&variable(OsStr::new("LD_PRELOAD"))?);
    gone.retain(|path| library.is_none_or(|library| path != library));
    let names: Vec<_> = gone.iter().map(|path| path.to_string_lossy()).collect();
    (!names.is_empty()).then(|| {
        let names = names.join(" and ");
        format!("left {names} out of the program's LD_PRELOAD, since only the first malloc there is used")
    })
}

/// The note on allocators that the system puts under every program. They come behind those of LD_PRELOAD, so they serve
/// only the contender that preloads none.
pub fn under_every_program() -> Option<String> {
    const FILE: &str = "/etc/ld.so.preload";
    let names = allocators_of_lines(&fs::read_to_string(FILE).ok()?);
    (!names.is_empty()).then(|| {
        let names = names.join(" and ");
        format!("{FILE} puts {names} under every program: \"system\" is measured with it")
    })
}

/// The allocators that the lines of such a file name; `#` begins a comment.
fn allocators_of_lines(text: &str) -> Vec<String> {
    let named = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let named = without_allocators(OsStr::new(&named.collect::<Vec<_>>().join("\n"))).1;
    named.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

/// Starts the program as a child that gets our signals. Returns its process id.
pub fn start(image: &Image) -> Result<i32> {
    let held = launch::HeldBack::all();
    sentinel::start(None);
    let child = image.spawn_under(&held, [None; 3])?;
    hand_signals_to(child.pid);
    Ok(child.pid)
}

/// The child's state, without waiting.
pub fn check_on(pid: i32) -> Result<State> {
    let mut status = 0;
    // SAFETY: waitpid writes to the place that it is given.
    match unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG | libc::WUNTRACED) } {
        0 => Ok(State::Runs),
        -1 => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(State::Runs),
            error => Err(error.into()),
        },
        _ if libc::WIFSTOPPED(status) => Ok(State::Stopped(libc::WSTOPSIG(status))),
        _ => {
            hand_signals_to(0);
            Ok(State::Ended(launch::ending(status)))
        }
    }
}

/// The child was stopped by job control: stops with it, and continues with it.
pub fn stop_too(pid: i32) {
    // SAFETY: only sends a signal.
    unsafe { libc::raise(libc::SIGSTOP) };
    launch::continue_too(pid);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocators_under_every_program_are_found() {
        let file = "# for all: /lib/libmimalloc.so\n/lib/libsnoopy.so:/usr/lib/libglebe.so.0\n";
        let both = format!("{file}\tlibjemalloc.so.2 # since May\n");
        assert_eq!(allocators_of_lines(file), ["/usr/lib/libglebe.so.0"]);
        assert_eq!(allocators_of_lines(&both), ["/usr/lib/libglebe.so.0", "libjemalloc.so.2"]);
        assert!(allocators_of_lines("/lib/libsnoopy.so\n").is_empty());
    }
}
