//! `glebe run`: the program, with glebe as its malloc.
//!
//! Nothing stands between the program and whoever started it: this process becomes the program.
//! Only `--verbose` keeps a parent, because somebody must look whether the library really got in
//! and say so when it did not, which the library itself cannot.

use crate::args::{OnError, RunOptions, StatsFormat};
use crate::inspect::{self, known_allocator};
use crate::launch::{self, variable, Ending, Image};
use crate::library::{preload_with, Embedded};
use crate::program::Program;
use crate::stop::{Stop, OWN_FAILURE};
use crate::witness::{is_mapped, Proof, Witness};
use anyhow::Result;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

/// Runs the program. Returns only with `--verbose`, or with an error.
pub fn run(options: &RunOptions) -> Result<Ending> {
    let build = match (options.secure, options.audit) {
        (true, _) => "glebe-secure",
        (_, true) => "glebe-audit",
        _ => "glebe",
    };
    let library = Embedded::named(build).expect("the build script embeds all three");
    let program = Program::find(&options.program)?;
    for note in check(&program, library, options.force)? {
        if !options.quiet {
            eprintln!("glebe: note: {note}");
        }
    }
    let path = library.place()?;
    let image = Image::new(&program, &environment(options, &path));
    if options.verbose {
        supervise(&image, &path, &program, build)
    } else {
        Err(image.exec().into())
    }
}

/// Refuses a program that cannot take the library, or returns what is to be said about it.
pub fn check(program: &Program, library: &Embedded, force: bool) -> Result<Vec<String>> {
    let ours = inspect::parse(library.bytes);
    let (Some(facts), Some(ours)) = (inspect::facts_of(&program.image), ours) else {
        return Ok(Vec::new());
    };
    let mut name = program.name.to_string_lossy().into_owned();
    if program.image != program.path {
        name = format!("{} (the interpreter of {name})", program.image.display());
    }
    let mut verdict = inspect::judge(&name, &facts, &ours);
    if let Some(refusal) = verdict.refusal {
        if !(force && refusal.forceable) {
            return Err(Stop { code: OWN_FAILURE, message: refusal.text }.into());
        }
        verdict
            .notes
            .push("started all the same, because of --force; glebe may not be used".into());
    }
    verdict.notes.extend(preloaded_before().map(|allocator| {
        format!("LD_PRELOAD already holds {allocator}, which comes first; glebe will not be used")
    }));
    Ok(verdict.notes)
}

/// An allocator that LD_PRELOAD names already.
fn preloaded_before() -> Option<&'static str> {
    let value = variable(OsStr::new("LD_PRELOAD"))?;
    let text = value.to_string_lossy().into_owned();
    text.split([':', ' ']).find_map(|path| known_allocator(path.rsplit('/').next().unwrap_or(path)))
}

/// What the options mean in the library's own language.
fn environment(options: &RunOptions, library: &Path) -> Vec<(&'static str, Option<OsString>)> {
    let preload = preload_with(variable(OsStr::new("LD_PRELOAD")), library);
    let mut changes = vec![("LD_PRELOAD", Some(preload))];
    let mut set = |name, value: String| changes.push((name, Some(value.into())));
    if options.verbose {
        set("GLEBE_VERBOSE", "1".into());
    }
    match options.stats {
        Some(StatsFormat::Text) => set("GLEBE_STATS", "1".into()),
        Some(StatsFormat::Json) => set("GLEBE_STATS", "json".into()),
        None => {}
    }
    if options.background {
        set("GLEBE_BACKGROUND", "1".into());
    }
    if let Some(bytes) = options.limit {
        set("GLEBE_LIMIT", bytes.to_string());
    }
    if let Some(ms) = options.purge_ms {
        set("GLEBE_PURGE_MS", ms.to_string());
    }
    match options.on_error {
        Some(OnError::Abort) => set("GLEBE_ON_ERROR", "abort".into()),
        Some(OnError::Count) => set("GLEBE_ON_ERROR", "count".into()),
        None => {}
    }
    changes
}

/// The child that signals are handed to.
static CHILD: AtomicI32 = AtomicI32::new(0);

extern "C" fn hand_on(signal: libc::c_int) {
    let pid = CHILD.load(Ordering::Relaxed);
    if pid > 0 {
        // SAFETY: kill is async-signal-safe, and the id is our unreaped child's.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Runs the program as a child and says afterwards whether the library was in it.
fn supervise(image: &Image, library: &Path, program: &Program, build: &str) -> Result<Ending> {
    let witness = Witness::listen(library);
    let child = image.spawn([None; 3])?;
    CHILD.store(child.pid, Ordering::Relaxed);
    // The terminal sends INT and QUIT to the child as well; the others only reach us.
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: sets a disposition.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2, libc::SIGCONT] {
        // SAFETY: the handler only calls kill.
        unsafe { libc::signal(signal, hand_on as *const () as libc::sighandler_t) };
    }
    let (seen, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            let mut pause = Duration::from_micros(200);
            while !ended.load(Ordering::Acquire) && !seen.load(Ordering::Relaxed) {
                seen.store(is_mapped(child.pid, library), Ordering::Relaxed);
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(100));
            }
        });
        let outcome = launch::wait_ended(child.pid);
        ended.store(true, Ordering::Release);
        outcome
    });
    outcome?;
    CHILD.store(0, Ordering::Relaxed);
    let (ending, _) = launch::wait(child.pid)?;
    let proof = if seen.into_inner() {
        Some(Proof::Mapped)
    } else {
        witness.opened().map(|opened| if opened { Proof::Opened } else { Proof::Absent })
    };
    let name = program.name.to_string_lossy();
    eprintln!("glebe: {}", sentence(&name, build, proof, preloaded_before()));
    Ok(ending)
}

/// `before`: an allocator that LD_PRELOAD named already.
fn sentence(name: &str, build: &str, proof: Option<Proof>, before: Option<&str>) -> String {
    if let (Some(before), Some(Proof::Mapped | Proof::Opened)) = (before, proof) {
        return format!(
            "warning: {name} ran with {build} behind {before}, which served its malloc"
        );
    }
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

    fn sample() -> RunOptions {
        RunOptions {
            verbose: false,
            stats: None,
            background: false,
            limit: None,
            purge_ms: None,
            on_error: None,
            secure: false,
            audit: false,
            force: false,
            quiet: false,
            program: vec!["true".into()],
        }
    }

    #[test]
    fn every_option_reaches_the_library() {
        let none = environment(&sample(), Path::new("/lib.so"));
        assert_eq!(none.len(), 1, "nothing is set that was not asked for");
        let all = RunOptions {
            verbose: true,
            stats: Some(StatsFormat::Json),
            background: true,
            limit: Some(1 << 20),
            purge_ms: Some(250),
            on_error: Some(OnError::Count),
            ..sample()
        };
        let all = environment(&all, Path::new("/lib.so"));
        let value = |name| all.iter().find(|(n, _)| *n == name).and_then(|(_, v)| v.clone());
        assert_eq!(value("GLEBE_VERBOSE").unwrap(), "1");
        assert_eq!(value("GLEBE_STATS").unwrap(), "json");
        assert_eq!(value("GLEBE_BACKGROUND").unwrap(), "1");
        assert_eq!(value("GLEBE_LIMIT").unwrap(), "1048576");
        assert_eq!(value("GLEBE_PURGE_MS").unwrap(), "250");
        assert_eq!(value("GLEBE_ON_ERROR").unwrap(), "count");
    }

    #[test]
    fn an_absent_library_is_a_warning() {
        let says = |proof| sentence("ls", "glebe", proof, None);
        assert!(says(Some(Proof::Absent)).starts_with("warning: ls never"));
        assert!(!says(Some(Proof::Mapped)).contains("warning"));
        assert!(!says(None).contains("opened"));
        let second = sentence("ls", "glebe", Some(Proof::Mapped), Some("jemalloc"));
        assert_eq!(second, "warning: ls ran with glebe behind jemalloc, which served its malloc");
    }
}
