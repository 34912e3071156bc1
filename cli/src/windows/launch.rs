//! Starting a program with a library inside.
//!
//! ```text
//!   glebe.exe                      the program
//!   make a process, suspended ───▶ empty yet
//!   gb_inject ───────────────────▶ a thread of ours loads its libraries, and then glebe.dll
//!   resume ──────────────────────▶ its own thread begins
//! ```
//!
//! The program never runs without the library: if that cannot be loaded, we end the process. We quote arguments as
//! Microsoft's C library reads them; the program inherits the streams.

use super::{interrupt, wide};
use crate::program::Program;
use crate::run::Start;
use crate::stop::{Ending, Stop, NOT_EXECUTABLE, OWN_FAILURE};
use crate::words::say;
use anyhow::Result;
use std::ffi::OsString;
use std::io;
use std::os::windows::io::AsRawHandle;
use std::os::windows::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use windows_sys::Win32::Foundation::{HANDLE, NTSTATUS};
use windows_sys::Win32::System::Threading::CREATE_SUSPENDED;

// override/windows/inject.h
extern "C" {
    fn gb_inject(process: HANDLE, library: *const u16, why: *mut u32) -> i32;
}
const INJECT_DONE: i32 = 0;
const INJECT_32_BIT: i32 = 1;
const INJECT_REFUSED: i32 = 2;

#[link(name = "ntdll")]
extern "system" {
    /// Resumes every thread of a process, since `Child` does not name the first thread.
    fn NtResumeProcess(process: HANDLE) -> NTSTATUS;
}

/// Runs the program with the library in it until it ends. With `verbose`, then prints a line about that.
pub fn run(run: Start) -> Result<Ending> {
    interrupt::outlive();
    let streams = [Stdio::inherit(), Stdio::inherit(), Stdio::inherit()];
    let path = run.library.as_ref().map(|(_, path)| &**path);
    let ending = wait(&mut start(run.program, path, &run.changes, streams)?)?;
    if let Some((build, _)) = run.library.filter(|_| run.verbose) {
        say(format!("{} ran with {build} in its memory", run.program.name.to_string_lossy()));
    }
    Ok(ending)
}

/// Starts the program, with `library` in it if there is one. The program runs when this returns.
pub fn start(
    program: &Program,
    library: Option<&Path>,
    changes: &[(&str, Option<OsString>)],
    [input, output, errors]: [Stdio; 3],
) -> Result<Child> {
    let mut command = Command::new(&program.path);
    command.args(&program.args).stdin(input).stdout(output).stderr(errors);
    command.env_remove("GLEBE_TOOL_DLL"); // ours, and no option of the library
    for (name, value) in changes {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let shown = program.name.to_string_lossy();
    let mut child = command.creation_flags(CREATE_SUSPENDED).spawn().map_err(|e| Stop {
        code: NOT_EXECUTABLE,
        message: format!("{shown} cannot be started: {e}"),
    })?;
    let begun = library.map_or(Ok(()), |library| inject(&child, &shown, library));
    if let Err(stop) = begun.and_then(|()| resume(&child, &shown)) {
        let _ = child.kill();
        return Err(stop.into());
    }
    Ok(child)
}

/// Waits for the end.
pub fn wait(child: &mut Child) -> Result<Ending> {
    Ok(Ending::Exit(child.wait()?.code().unwrap_or(OWN_FAILURE)))
}

fn resume(child: &Child, shown: &str) -> Result<(), Stop> {
    // SAFETY: the handle is the child's, which `child` keeps open.
    match unsafe { NtResumeProcess(child.as_raw_handle()) } {
        0.. => Ok(()),
        status => Err(Stop {
            code: OWN_FAILURE,
            message: format!("{shown} cannot be resumed: status {status:#010X}"),
        }),
    }
}

fn inject(child: &Child, shown: &str, library: &Path) -> Result<(), Stop> {
    let mut why = 0;
    // SAFETY: the handle is the child's, with all rights; the path ends in NUL.
    let result =
        unsafe { gb_inject(child.as_raw_handle(), wide(library.as_os_str()).as_ptr(), &mut why) };
    let library = library.display();
    let stop = |code, message| Err(Stop { code, message });
    match (result, why) {
        (INJECT_DONE, _) => Ok(()),
        (INJECT_32_BIT, _) => stop(
            OWN_FAILURE,
            format!("{shown} is a 32-bit program, and this glebe has a library for 64-bit ones"),
        ),
        (INJECT_REFUSED, error) => {
            let error = io::Error::from_raw_os_error(error as i32);
            stop(OWN_FAILURE, format!("{library} cannot be put into {shown}: {error}"))
        }
        (_, 0) => stop(
            OWN_FAILURE,
            format!(
                "{library} could not be loaded into {shown}: is it a library for 64-bit programs, \
                 and are all libraries here that it needs?"
            ),
        ),
        (_, status) => {
            stop(NOT_EXECUTABLE, format!("{shown} cannot begin: {}", begin_failure(status)))
        }
    }
}

/// Why a process ended before its program began.
fn begin_failure(status: u32) -> String {
    let reason = match status {
        0xC000_0135 => "a library that it needs was not found",
        0xC000_0138 | 0xC000_0139 => "a library that it needs lacks a function",
        0xC000_007B => "a library that it needs is for other processors, or is damaged",
        0xC000_0142 => "a library that it needs could not be initialized",
        _ => "it ended while its libraries were loaded",
    };
    format!("{reason} (status {status:#010X})")
}
