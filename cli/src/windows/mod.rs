//! Windows: we load glebe.dll into a process that was created but has not started.
//!
//! ```text
//!   launch      suspend a process, load the library, resume it        libraries   glebe.dll, paths
//!   measure     one run of a comparison                               interrupt   Ctrl-C
//!   prng        lets this command start under older Wine
//! ```
//!
//! We do not inspect programs beforehand. Loading the library into the process shows whether the program is for another
//! processor or lacks one of its libraries, and we report that then.

pub mod interrupt;
mod launch;
pub mod libraries;
mod measure;
mod prng;

pub use launch::run;
pub use measure::{measure, scratch, NULL, SAMPLED_OF};

use crate::program::Program;
use crate::run::Checked;
use crate::stop::{Ending, Stop, NOT_FOUND};
use anyhow::{bail, Result};
use std::ffi::{OsStr, OsString};
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::ptr;
use windows_sys::Win32::Storage::FileSystem::SearchPathW;

/// Must be called first; on Windows it does nothing.
pub fn begin(_program: &[OsString]) -> Result<()> {
    Ok(())
}

/// Ends this process with the program's exit code.
pub fn pass_on(program: Ending) -> ! {
    std::process::exit(program.code())
}

/// Refuses no program, and has no notes.
pub fn check(_program: &Program, _force: bool, _replaces: Option<&str>) -> Result<Checked> {
    Ok(Checked::default())
}

/// Nothing is preloaded on Windows.
pub fn left_out(_library: Option<&Path>) -> Option<String> {
    None
}

pub fn under_every_program() -> Option<String> {
    None
}

/// The limits of a process are looked at on Linux only.
pub fn no_limit(_snapshot: &OsStr, _own: Option<u64>) -> Option<String> {
    None
}

/// Windows has no closed standard handles that we would open.
pub fn is_closed(_descriptor: i32) -> bool {
    false
}

/// Statistics of other processes are read on Linux only.
pub fn show_live(pid: i32, _json: bool) -> Result<Ending> {
    bail!("glebe cannot read process {pid} on Windows; a program prints the same at its exit: glebe stats -- PROGRAM")
}

/// The file that a name means, with `.exe` or without: beside this command, here, in the system's directories, in
/// `PATH`.
pub fn search(name: &OsStr) -> Result<PathBuf, Stop> {
    let wanted = wide(name);
    let mut found = vec![0u16; PATH_MAX];
    // SAFETY: both strings end in NUL, and `found` has the length that we pass.
    let length = unsafe {
        let suffix = windows_sys::w!(".exe");
        let length = PATH_MAX as u32;
        SearchPathW(
            ptr::null(),
            wanted.as_ptr(),
            suffix,
            length,
            found.as_mut_ptr(),
            ptr::null_mut(),
        )
    };
    match found.get(..length as usize) {
        Some(path) if !path.is_empty() => Ok(OsString::from_wide(path).into()),
        _ => {
            let shown = name.to_string_lossy();
            Err(Stop { code: NOT_FOUND, message: format!("{shown}: there is no such program") })
        }
    }
}

/// The longest path of Windows.
const PATH_MAX: usize = 1 << 15;

/// The text in UTF-16, with a NUL at its end.
fn wide(text: &OsStr) -> Vec<u16> {
    text.encode_wide().chain([0]).collect()
}
