//! `glebe run` by preloading.
//!
//! This process becomes the program, so that no process is between the program and its caller. Two options keep this
//! process as a parent: `--verbose`, which checks whether the library really got in, and `--stats`, which collects the
//! statistics of the program and its children.

use super::c_string;
use super::collect::{Collection, Printed};
use super::inspect;
use super::interrupt;
use super::launch::{self, variable, Image};
use super::library::{preload_with, without_allocators, EMBEDDED};
use super::search::image_of;
use super::sentinel;
use super::watch::preload;
use super::witness::{is_mapped, Witness};
use crate::compare::Proof;
use crate::explain::process::limits;
use crate::program::Program;
use crate::run::{Checked, Start};
use crate::stop::{without_result, Ending, Stop, OWN_FAILURE};
use crate::words::say;
use anyhow::Result;
use std::ffi::{CStr, OsStr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

/// Runs the program. Returns only after `--verbose` or `--stats`, or with an error.
pub fn run(mut start: Start) -> Result<Ending> {
    if let Some((_, library)) = &start.library {
        let preload = match start.malloc_stays {
            true => preload_with(variable(OsStr::new("LD_PRELOAD")), library),
            false => preload(library),
        };
        start.changes.push(("LD_PRELOAD", Some(preload)));
    }
    // Without a file, each process prints its own statistics.
    let collection = start.stats.and_then(|_| Collection::begin().ok());
    if let Some(collection) = &collection {
        start.changes.push(("GLEBE_TOOL_STATS", Some(collection.path().into())));
    }
    let image = Image::new(start.program, &start.changes);
    if !start.verbose && collection.is_none() {
        return Err(image.exec().into());
    }
    let library = start.library.as_ref().map(|(_, path)| &**path);
    let temporary = collection.as_ref().map(|collection| c_string(collection.path().as_os_str()));
    let (pid, ending, proof) = supervise(&image, library, temporary.as_deref())?;
    let name = start.program.name.to_string_lossy();
    if start.verbose {
        let build = start.library.as_ref().map(|(build, _)| &**build);
        say(sentence(&name, build, proof));
    }
    if let (Some(collection), Some(format)) = (collection, start.stats) {
        let file = name.rsplit('/').next().unwrap_or(&name);
        match collection.print(file, pid, format) {
            Printed::Nothing(why) if start.must_show => return without_result(ending, why),
            Printed::Nothing(why) | Printed::Children(why) => say(why),
            Printed::All => {}
        }
    }
    Ok(ending)
}

/// Runs the program as a child with the recorder before whatever is preloaded, and `beneath` behind it in place of an
/// allocator.
pub fn run_recorded(mut start: Start, recorder: &Path, beneath: Option<&Path>) -> Result<Ending> {
    let mut preload = recorder.as_os_str().to_owned();
    let before = variable(OsStr::new("LD_PRELOAD")).map(|before| match beneath {
        Some(_) => without_allocators(&before).0,
        None => before,
    });
    let before = before.filter(|before| !before.is_empty());
    for next in before.into_iter().chain(beneath.map(|path| path.as_os_str().to_owned())) {
        preload.push(":");
        preload.push(next);
    }
    start.changes.push(("LD_PRELOAD", Some(preload)));
    let image = Image::new(start.program, &start.changes);
    supervise(&image, None, None).map(|(_, ending, _)| ending)
}

/// Runs the program as a child. Returns its process id, and how it ended. `temporary`: as of `supervise`.
pub fn run_as_child(mut start: Start, temporary: &Path) -> Result<(i32, Ending)> {
    if let Some((_, library)) = &start.library {
        let preload = preload_with(variable(OsStr::new("LD_PRELOAD")), library);
        start.changes.push(("LD_PRELOAD", Some(preload)));
    }
    let image = Image::new(start.program, &start.changes);
    let (pid, ending, _) = supervise(&image, None, Some(&c_string(temporary.as_os_str())))?;
    Ok((pid, ending))
}

/// Decides how glebe gets into the program, with notes, or refuses it. All builds of the library are for the same kind
/// of machine, so we look at the first. `replaces`: the soname of a library that ours is to replace.
pub fn check(program: &Program, force: bool, replaces: Option<&str>) -> Result<Checked> {
    let image = image_of(&program.path);
    let ours = inspect::parse(EMBEDDED[0].bytes);
    let (Some(facts), Some(ours)) = (inspect::facts_of(&image), ours) else {
        return Ok(Checked::default());
    };
    let mut name = program.name.to_string_lossy().into_owned();
    if image != program.path {
        name = format!("{} (the interpreter of {name})", image.display());
    }
    let mut verdict = inspect::judge(&name, &facts, &ours);
    if let Some(refusal) = verdict.refusal {
        if !(force && refusal.forceable) {
            return Err(Stop { code: OWN_FAILURE, message: refusal.text }.into());
        }
        verdict.notes.push("--force starts it; its malloc may not be glebe's".into());
    }
    // What a script or the program of `ld.so PROGRAM` uses is not known here.
    let is_known = image == program.path && facts.loader.is_some() && !facts.is_loader;
    let is_unused = |soname: &&str| facts.needed.iter().all(|needed| needed != soname);
    if let Some(soname) =
        replaces.filter(is_unused).filter(|_| is_known && !facts.needed.is_empty())
    {
        let note =
            format!("{name} does not use {soname}; libraries and programs that it starts may");
        verdict.notes.push(note);
    }
    Ok(Checked { way: verdict.way, notes: verdict.notes })
}

/// A note about a snapshot at a share of a limit while there is no limit. `own`: glebe's.
pub fn no_limit(snapshot: &OsStr, own: Option<u64>) -> Option<String> {
    let snapshot = snapshot.to_string_lossy();
    let (file, threshold) = snapshot.rsplit_once('@').filter(|(_, at)| at.ends_with('%'))?;
    // A value that the library would refuse is none.
    let outer = || crate::size::parse(variable(OsStr::new("GLEBE_LIMIT"))?.to_str()?).ok();
    let is_set = own.or_else(outer).is_some_and(|bytes| bytes > 0);
    (!is_set && limits(std::process::id() as i32).is_empty()).then(|| {
        format!(
            "this process has no limit now: {file}@{threshold} is written only if one is set later; {file}@SIZE \
             needs none"
        )
    })
}

/// The child that gets our signals.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// Signals that would end or stop this process alone, and leave the program behind. launch.rs handles SIGCONT. SIGTTIN
/// and SIGTTOU are not here: they stop a process that uses the terminal, and this process uses it after the program has
/// ended.
const HANDED_ON: [libc::c_int; 12] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGXCPU,
    libc::SIGIO,
];

extern "C" fn hand_on(
    signal: libc::c_int,
    info: *const libc::siginfo_t,
    _context: *const libc::c_void,
) {
    // SAFETY: the kernel filled the struct in, and the id is our unreaped child's.
    unsafe { interrupt::hand_on(CHILD.load(Ordering::Relaxed), signal, info) };
}

/// From now on this child gets our signals. 0: it has ended.
pub fn hand_signals_to(pid: i32) {
    CHILD.store(pid, Ordering::Relaxed);
    let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
    for signal in HANDED_ON.into_iter().chain(real_time).filter(|_| pid != 0) {
        interrupt::handle(signal, hand_on, true); // the program may handle a signal that it inherits as ignored
    }
}

/// Runs the program as a child. Returns its process id, how it ended, and whether the library was in it. `temporary`: a
/// file or folder to remove even if this command is killed.
fn supervise(
    image: &Image,
    library: Option<&Path>,
    temporary: Option<&CStr>,
) -> Result<(i32, Ending, Option<Proof>)> {
    let witness = library.map(Witness::listen);
    let held = launch::HeldBack::all();
    sentinel::start(temporary);
    let child = image.spawn_under(&held, [None; 3])?;
    hand_signals_to(child.pid);
    let (seen, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let outcome = thread::scope(|scope| {
        let watches = || {
            let Some(library) = library else { return };
            let mut pause = Duration::from_micros(200);
            while !ended.load(Ordering::Acquire) && !seen.load(Ordering::Relaxed) {
                seen.store(is_mapped(child.pid, library), Ordering::Relaxed);
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(100));
            }
        };
        let _ = thread::Builder::new().spawn_scoped(scope, watches); // where there can be none, inotify tells
        drop(held); // only this thread takes signals, one after another
        let outcome = launch::wait_ended_or_stop(child.pid);
        ended.store(true, Ordering::Release);
        outcome
    });
    outcome?;
    CHILD.store(0, Ordering::Relaxed);
    let (ending, _) = launch::wait(child.pid)?;
    let proof = if seen.into_inner() {
        Some(Proof::Mapped)
    } else {
        let opened = witness.and_then(|witness| witness.opened());
        opened.map(|opened| if opened { Proof::Opened } else { Proof::Absent })
    };
    Ok((child.pid, ending, proof))
}

/// The line of `--verbose`. `build`: the library that was put under the program.
fn sentence(name: &str, build: Option<&str>, proof: Option<Proof>) -> String {
    let Some(build) = build else {
        return format!("{name} ran with the glebe that is linked into it");
    };
    match proof {
        Some(Proof::Mapped) => format!("{name} ran with {build} in its memory"),
        Some(Proof::Opened) => {
            format!("{name} was too quick to look at, but its loader opened {build}")
        }
        Some(Proof::Absent) => {
            format!("warning: {name} never loaded {build}; it ran with another malloc")
        }
        None => format!("{name} was too quick to see whether it loaded {build}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_no_limit_has_a_note() {
        let note = |snapshot: &str, own| no_limit(OsStr::new(snapshot), own);
        assert_eq!(note("f@1G", None), None);
        assert_eq!(note("f@90%", Some(1 << 30)), None);
        let limited = !limits(std::process::id() as i32).is_empty();
        for own in [None, Some(0)] {
            let text = note("a@b@90%", own);
            assert_eq!(text.is_none(), limited, "{text:?}");
            assert!(text.is_none_or(|text| text.ends_with("a@b@SIZE needs none")));
        }
    }

    #[test]
    fn an_absent_library_is_a_warning() {
        let says = |proof| sentence("ls", Some("glebe"), proof);
        assert!(says(Some(Proof::Absent)).starts_with("warning: ls never"));
        assert!(!says(Some(Proof::Mapped)).contains("warning"));
        assert!(!says(None).contains("opened"));
        assert!(sentence("ls", None, None).contains("linked into it"));
    }
}
