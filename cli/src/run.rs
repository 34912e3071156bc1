//! `glebe run`: the program, with glebe as its malloc.
//!
//! The options mean the same to the library on every system. The order is the same too: find the program, judge it, and
//! only then write or start anything. The module `system` puts the library in.

use crate::args::{OnError, RunOptions, StatsFormat};
use crate::program::Program;
use crate::stop::{Ending, Stop, OWN_FAILURE};
use crate::system;
use crate::words::say;
use anyhow::Result;
use std::ffi::OsString;
use std::path::PathBuf;

/// The soname of bdwgc's library, for which glebe has a stand-in.
const LIBGC: &str = "libgc.so.1";

/// Changes of the environment; None removes.
pub type Changes = Vec<(&'static str, Option<OsString>)>;

/// How glebe gets into a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Way {
    /// The library is put under it.
    #[default]
    Under,
    /// The library replaces mimalloc's, to which the program is linked; its soname.
    #[cfg_attr(windows, allow(dead_code, reason = "a library of Linux"))]
    StandIn(&'static str),
    /// It is linked in already, and nothing else is put under it.
    #[cfg_attr(windows, allow(dead_code, reason = "programs are not inspected there"))]
    Inside,
}

/// The outcome of looking at a program before it starts.
#[derive(Debug, Default)]
pub struct Checked {
    pub way: Way,
    pub notes: Vec<String>,
}

/// A program about to be run.
pub struct Start<'a> {
    pub program: &'a Program,
    /// The name and path of the library to put under it; None if glebe is linked into it.
    pub library: Option<(String, PathBuf)>,
    /// The library leaves malloc alone, so an allocator that is preloaded already stays.
    #[cfg_attr(windows, allow(dead_code, reason = "nothing is preloaded there"))]
    pub malloc_stays: bool,
    pub changes: Changes,
    pub verbose: bool,
    #[cfg_attr(windows, allow(dead_code, reason = "each process prints its own there"))]
    pub stats: Option<StatsFormat>,
    /// The command is for the statistics alone, and fails without them.
    #[cfg_attr(windows, allow(dead_code, reason = "each process prints its own there"))]
    pub must_show: bool,
}

/// Runs the program. This process may become the program; then it returns only with an error.
pub fn run(options: &RunOptions) -> Result<Ending> {
    run_with(options, system::run)
}

/// Finds and judges the program, then lets `go` start it.
pub fn run_with<T>(options: &RunOptions, go: impl FnOnce(Start) -> Result<T>) -> Result<T> {
    let (build, option) = match (options.secure, options.safe, options.audit) {
        (true, _, _) => ("glebe-secure", "--secure"),
        (_, true, _) => ("glebe-safe", "--safe"),
        (_, _, true) => ("glebe-audit", "--audit"),
        _ => ("glebe", "glebe"),
    };
    let refused = |message| Stop { code: OWN_FAILURE, message };
    let library = system::libraries::build(build).ok_or_else(|| {
        refused(format!("{option}: this system has no such build of the library yet"))
    })?;
    let program = Program::find(&options.program)?;
    let checked = system::check(&program, options.force, options.libgc.then_some(LIBGC))?;
    let name = program.name.to_string_lossy();
    let ordinary = build == "glebe";
    let library = match checked.way {
        Way::Under | Way::StandIn(_) if options.libgc => {
            Some((format!("glebe as {LIBGC}"), system::libraries::stand_in(LIBGC)?))
        }
        Way::Inside if options.libgc => {
            return Err(refused(format!(
                "{name} has glebe linked in, so --libgc cannot tell one collector from the other. Link {name} with \
                 {LIBGC} of glebe's instead."
            ))
            .into())
        }
        Way::Under => Some((build.to_string(), library.place()?)),
        Way::StandIn(soname) if ordinary => {
            Some((format!("glebe as {soname}"), system::libraries::stand_in(soname)?))
        }
        Way::StandIn(soname) => {
            return Err(refused(format!(
                "{name} is linked with {soname}, and glebe's library of that name has no {option} build. Instead, \
                 build {name} without mimalloc."
            ))
            .into())
        }
        Way::Inside if ordinary => None,
        Way::Inside => {
            return Err(refused(format!(
                "{name} has glebe linked in, and {option} cannot replace that. Instead, link {name} with lib{build}.so."
            ))
            .into())
        }
    };
    let ours = library.as_ref().filter(|_| !options.libgc);
    let left_out = ours.and_then(|(_, path)| system::left_out(Some(path)));
    let no_limit = options.snapshot.as_ref().and_then(|at| system::no_limit(at, options.limit));
    for note in checked.notes.iter().chain(&left_out).chain(&no_limit).filter(|_| !options.quiet) {
        say(format!("note: {note}"));
    }
    go(Start {
        program: &program,
        library,
        malloc_stays: options.libgc,
        changes: environment(options),
        verbose: options.verbose,
        stats: options.stats,
        must_show: options.must_show,
    })
}

/// The options as the library's variables.
pub fn environment(options: &RunOptions) -> Changes {
    let mut changes = Changes::new();
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
    if let Some(bytes) = options.guard {
        set("GLEBE_GUARD", bytes.to_string());
    }
    if let Some(report) = &options.report {
        changes.push(("GLEBE_REPORT", Some(report.clone())));
    }
    if let Some(snapshot) = &options.snapshot {
        changes.push(("GLEBE_SNAPSHOT", Some(snapshot.clone())));
    }
    let mut set = |name, value: String| changes.push((name, Some(value.into())));
    if let Some(bytes) = options.mean {
        set("GLEBE_PROFILE_BYTES", bytes.to_string());
    }
    match options.on_error {
        Some(OnError::Abort) => set("GLEBE_ON_ERROR", "abort".into()),
        Some(OnError::Count) => set("GLEBE_ON_ERROR", "count".into()),
        None => {}
    }
    if options.children {
        set("GLEBE_TOOL_CHILDREN", "1".into());
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_reaches_the_library() {
        assert!(environment(&RunOptions::default()).is_empty(), "nothing was asked for");
        let all = RunOptions {
            verbose: true,
            stats: Some(StatsFormat::Json),
            background: true,
            limit: Some(1 << 20),
            guard: Some(8 << 20),
            report: Some("/r".into()),
            snapshot: Some("/a@90%".into()),
            mean: Some(4096),
            purge_ms: Some(250),
            on_error: Some(OnError::Count),
            children: true,
            ..RunOptions::default()
        };
        let all = environment(&all);
        let value = |name| all.iter().find(|(n, _)| *n == name).and_then(|(_, v)| v.clone());
        assert_eq!(value("GLEBE_VERBOSE").unwrap(), "1");
        assert_eq!(value("GLEBE_STATS").unwrap(), "json");
        assert_eq!(value("GLEBE_BACKGROUND").unwrap(), "1");
        assert_eq!(value("GLEBE_LIMIT").unwrap(), "1048576");
        assert_eq!(value("GLEBE_PURGE_MS").unwrap(), "250");
        assert_eq!(value("GLEBE_GUARD").unwrap(), "8388608");
        assert_eq!(value("GLEBE_REPORT").unwrap(), "/r");
        assert_eq!(value("GLEBE_SNAPSHOT").unwrap(), "/a@90%");
        assert_eq!(value("GLEBE_PROFILE_BYTES").unwrap(), "4096");
        assert_eq!(value("GLEBE_ON_ERROR").unwrap(), "count");
        assert_eq!(value("GLEBE_TOOL_CHILDREN").unwrap(), "1");
    }
}
