//! One run of a comparison, as Windows sees it. All figures are those of the program's own process.
//!
//! ```text
//!   wall time       the performance counter, from before the process is made to its end
//!   CPU time        GetProcessTimes
//!   faults          GetProcessMemoryInfo, soft and hard together
//!   peak RSS        the same: the highest working set
//!   RSS over time   the same, every few milliseconds
//! ```
//!
//! The figures include the loading of the library. Wine keeps no counters of a process that has ended, so there the
//! highest sample is the peak. Wine returns the caller's own CPU time and no faults, so we leave these out.

use super::launch;
use crate::compare::{sample, Measured, Proof, Samples, Streams};
use crate::program::Program;
use anyhow::Result;
use std::env;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::Storage::FileSystem::{
    FILE_ATTRIBUTE_TEMPORARY, FILE_FLAG_DELETE_ON_CLOSE,
};
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress};
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::GetProcessTimes;

/// A file without contents.
pub const NULL: &str = "NUL";
/// The process that is sampled.
pub const SAMPLED_OF: &str = "its own process";

/// Runs the program once, with `library` in it. Samples come every `beat`.
pub fn measure(
    program: &Program,
    library: Option<&Path>,
    streams: Streams,
    beat: Option<Duration>,
    _watch: bool,
) -> Result<Measured> {
    let output = |n: usize| match streams.kept {
        Some(files) => files[n].try_clone().map(Stdio::from),
        None => Ok(Stdio::inherit()),
    };
    let streams = [streams.input.into(), output(0)?, output(1)?];
    let born = Instant::now();
    let mut child = launch::start(program, library, &[], streams)?;
    let process = child.as_handle().try_clone_to_owned()?;
    let process = process.as_handle();

    let (mut samples, mut highest) = (Samples::default(), 0);
    let look = || {
        let seen = memory_of(process);
        if seen.WorkingSetSize > 0 {
            samples.push(born.elapsed().as_secs_f64(), seen.WorkingSetSize as u64);
        }
        highest = highest.max(seen.PeakWorkingSetSize);
    };
    let ended = sample(beat, look, || launch::wait(&mut child).map(|e| (e, born.elapsed())));
    let (ending, wall) = ended?;

    let memory = memory_of(process);
    let highest = highest.max(memory.PeakWorkingSetSize);
    let (user, sys) = cpu_of(process).filter(|_| !is_wine()).unzip();
    Ok(Measured {
        ending,
        wall_s: wall.as_secs_f64(),
        cpu_user_s: user,
        cpu_sys_s: sys,
        peak_rss_bytes: highest as u64,
        peak_is_guess: highest == 0,
        faults: (!is_wine()).then_some(memory.PageFaultCount.into()),
        major_faults: None,
        samples,
        proof: library.map(|_| Proof::Mapped),
    })
}

/// All zero if they cannot be read.
fn memory_of(process: BorrowedHandle) -> PROCESS_MEMORY_COUNTERS {
    let mut counters = PROCESS_MEMORY_COUNTERS::default();
    let size = size_of::<PROCESS_MEMORY_COUNTERS>() as u32;
    // SAFETY: the handle is open, and the struct has this size.
    unsafe { K32GetProcessMemoryInfo(process.as_raw_handle(), &mut counters, size) };
    counters
}

/// Seconds in the program and in the system.
fn cpu_of(process: BorrowedHandle) -> Option<(f64, f64)> {
    let mut times = [FILETIME::default(); 4];
    let [made, ended, sys, user] = &mut times;
    // SAFETY: the handle is open, and each place is a FILETIME.
    let known = unsafe { GetProcessTimes(process.as_raw_handle(), made, ended, sys, user) };
    let [_, _, sys, user] = times.map(seconds);
    (known != 0).then_some((user, sys))
}

/// A FILETIME counts tenths of microseconds.
fn seconds(time: FILETIME) -> f64 {
    (f64::from(time.dwHighDateTime) * 4_294_967_296.0 + f64::from(time.dwLowDateTime)) * 1e-7
}

fn is_wine() -> bool {
    // SAFETY: both names end in NUL, and ntdll.dll is in every process.
    unsafe {
        let ntdll = GetModuleHandleW(windows_sys::w!("ntdll.dll"));
        GetProcAddress(ntdll, c"wine_get_version".as_ptr().cast()).is_some()
    }
}

/// A file for output, deleted when it is closed. It appends, so that two writers never overwrite each other.
pub fn scratch() -> io::Result<File> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("glebe-{}-{number}.txt", std::process::id());
    OpenOptions::new()
        .read(true)
        .append(true)
        .create_new(true)
        .attributes(FILE_ATTRIBUTE_TEMPORARY)
        .custom_flags(FILE_FLAG_DELETE_ON_CLOSE)
        .open(env::temp_dir().join(name))
}
