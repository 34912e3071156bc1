//! One run of a comparison, as Linux sees it.
//!
//! ```text
//!   figure            source                               processes
//!   wall time         CLOCK_MONOTONIC, execve to end       the program
//!   CPU time, faults  wait4's rusage, less what fork took  it and the children it waited for
//!   peak RSS          wait4's ru_maxrss                    the largest single process of these
//!   RSS over time     /proc, every few milliseconds        sum over the process tree
//! ```
//!
//! The kernel's counters behind /proc's statm may lag by some pages for each CPU, and a shared page counts once for
//! each process. That is good enough for a curve, not for the last kilobyte.

use super::interrupt;
use super::launch::{clock_s, seconds, variable, wait, wait_ended, Image};
use super::library::{preload_with, without_allocators};
use super::live::threads_of;
use super::witness::{is_mapped, Witness};
use crate::compare::{sample, Measured, Proof, Samples, Streams};
use crate::program::Program;
use crate::run::Changes;
use anyhow::Result;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;
use std::time::Duration;

/// A file without contents.
pub const NULL: &str = "/dev/null";
/// The processes that are sampled.
pub const SAMPLED_OF: &str = "all its processes together";

/// Runs the program once, with `library` preloaded. Takes a sample every `beat`. With `watch`, also checks whether the
/// program loads the library.
pub fn measure(
    program: &Program,
    library: Option<&Path>,
    streams: Streams,
    beat: Option<Duration>,
    watch: bool,
) -> Result<Measured> {
    let image = Image::new(program, &environment(library));
    let witness = library.map(Witness::listen);
    let output = |n: usize| streams.kept.map(|files| files[n].as_raw_fd());
    let child = image.spawn([Some(streams.input.as_raw_fd()), output(0), output(1)])?;
    interrupt::started(child.pid);

    let (pid, birth) = (child.pid, child.birth);
    let (mut samples, mut mapped) = (Samples::default(), 0);
    let watched = library.filter(|_| watch);
    let look = || {
        if mapped < MAPPED_LOOKS {
            // The loader maps even a library that it then refuses, for some microseconds.
            mapped = if watched.is_some_and(|file| is_mapped(pid, file)) { mapped + 1 } else { 0 };
        }
        let bytes = beat.map_or(0, |_| resident_bytes(pid));
        if bytes > 0 {
            samples.push(clock_s() - birth.clock_s, bytes);
        }
    };
    let ended = sample(beat.or(watched.map(|_| WATCH_BEAT)), look, || {
        wait_ended(pid).map(|()| clock_s() - birth.clock_s)
    });
    interrupt::ended();
    let wall_s = ended?;
    let (ending, usage) = wait(pid)?;

    let faults = usage.ru_minflt + usage.ru_majflt - birth.minor_faults - birth.major_faults;
    let (peak_rss_bytes, peak_is_guess) =
        peak(usage.ru_maxrss * 1024, birth.floor_rss_bytes, &samples);
    Ok(Measured {
        ending,
        wall_s,
        cpu_user_s: Some((seconds(usage.ru_utime) - birth.cpu_user_s).max(0.0)),
        cpu_sys_s: Some((seconds(usage.ru_stime) - birth.cpu_sys_s).max(0.0)),
        peak_rss_bytes,
        peak_is_guess,
        faults: Some(faults.max(0) as u64),
        major_faults: Some((usage.ru_majflt - birth.major_faults).max(0) as u64),
        samples,
        proof: witness.and_then(|witness| {
            let opened = |yes| if yes { Proof::Opened } else { Proof::Absent };
            if mapped == MAPPED_LOOKS {
                Some(Proof::Mapped)
            } else {
                witness.opened().map(opened)
            }
        }),
    })
}

/// The library counts as mapped if this many looks in a row see it.
const MAPPED_LOOKS: u32 = 2;
/// How often to look for the library if nothing is sampled.
const WATCH_BEAT: Duration = Duration::from_millis(10);

/// How much a child may grow between reporting its floor and execve: 548 KiB were seen. Kernels from 6.2 on count
/// resident memory for each processor, and add the parts up late.
const FLOOR_SLACK_BYTES: i64 = 1 << 20;

/// The peak, and whether it is a guess. The kernel's figure if it is the program's own; else the highest sample, or the
/// kernel's figure if there is no sample.
fn peak(maxrss: i64, floor: i64, samples: &Samples) -> (u64, bool) {
    match samples.max_bytes() {
        _ if maxrss > floor + FLOOR_SLACK_BYTES => (maxrss as u64, false),
        0 => (maxrss as u64, true),
        sampled => (sampled.min(maxrss as u64), true),
    }
}

fn environment(library: Option<&Path>) -> Changes {
    let Some(before) = variable(OsStr::new("LD_PRELOAD")) else {
        let preload = library.map(|library| ("LD_PRELOAD", Some(preload_with(None, library))));
        return preload.into_iter().collect();
    };
    // An allocator that is preloaded already would serve every row, that of the system's malloc too.
    let (kept, _) = without_allocators(&before);
    let value = match library {
        Some(library) => preload_with(Some(kept), library),
        None => kept,
    };
    vec![("LD_PRELOAD", Some(value).filter(|value| !value.is_empty()))]
}

/// A file without a name, for output. It appends, so that two writers never overwrite each other.
pub fn scratch() -> io::Result<File> {
    // SAFETY: a new descriptor, owned from here on; the name ends in NUL.
    let file = unsafe {
        match libc::memfd_create(c"glebe-output".as_ptr(), libc::MFD_CLOEXEC) {
            -1 => return Err(io::Error::last_os_error()),
            fd => File::from_raw_fd(fd),
        }
    };
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    OpenOptions::new().read(true).append(true).open(path).or(Ok(file))
}

/// Resident bytes of a process and its living descendants; 0 if it has ended.
fn resident_bytes(pid: i32) -> u64 {
    const TREE_MAX: usize = 1000;
    let mut tree = vec![pid];
    let mut pages = 0;
    let mut next = 0;
    while let Some(pid) = tree.get(next).copied() {
        next += 1;
        let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        pages += statm.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        if tree.len() < TREE_MAX {
            tree.extend(children(pid));
        }
    }
    pages * page_bytes()
}

/// Children of every thread of a process. None if the kernel lacks the file `children`.
pub fn children(pid: i32) -> Vec<i32> {
    const THREADS_MAX: usize = 16;
    let mut threads = vec![pid];
    let count = fs::metadata(format!("/proc/{pid}/task"))
        .map_or(0, |meta| std::os::unix::fs::MetadataExt::nlink(&meta).saturating_sub(2) as usize);
    if count > 1 && count <= THREADS_MAX {
        threads = threads_of(pid);
    }
    let lists = threads.iter().map(|thread| format!("/proc/{pid}/task/{thread}/children"));
    let lists = lists.map(|path| fs::read_to_string(path).unwrap_or_default());
    lists
        .flat_map(|list| list.split(' ').filter_map(|n| n.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn page_bytes() -> u64 {
    // SAFETY: sysconf only reads.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Contender, Run, Setting};
    use std::ffi::OsString;

    fn run(script: &str) -> Run {
        let words = ["sh", "-c", script].map(OsString::from);
        let setting = Setting {
            program: Program::find(&words).unwrap(),
            stdin: None,
            show_output: false,
            sample_every: Some(Duration::from_millis(2)),
            correct: None,
        };
        setting.run(&Contender { name: "system".into(), library: None }, 1).unwrap()
    }

    #[test]
    fn a_run_is_measured() {
        let run = run("echo out; echo err >&2; exit 3");
        assert_eq!((run.exit, run.signal), (3, None));
        assert!(run.wall_s > 0.0 && run.cpu_s.unwrap() >= 0.0 && run.faults.unwrap() > 0);
        assert!(run.peak_is_guess || run.peak_rss_bytes > 100 << 10, "{run:?}");
        let [out, err] = run.output.unwrap();
        assert_eq!((out.bytes, err.bytes), (4, 4));
        assert_ne!(out.checksum, err.checksum);
    }

    #[test]
    fn a_death_by_signal_is_told() {
        let run = run("kill -SEGV $$");
        assert_eq!((run.exit, run.signal), (128 + libc::SIGSEGV, Some(libc::SIGSEGV)));
    }

    #[test]
    fn the_peak_is_that_of_the_program() {
        // Positive control: 40 MB must show, in the kernel's figure and (given time) in the samples.
        let run = run("x=$(head -c 40000000 /dev/zero | tr '\\0' x); sleep 0.1; echo ${#x}");
        assert!(run.peak_rss_bytes > 40_000_000, "{}", run.peak_rss_bytes);
        let samples = run.samples.unwrap();
        assert!(samples.max_bytes() > 40_000_000, "{samples:?}");
        assert!(run.mean_rss_bytes.unwrap() < run.peak_rss_bytes as f64 * 1.5);
    }

    #[test]
    fn a_peak_below_the_floor_is_not_believed() {
        let mut samples = Samples::default();
        assert_eq!(peak(3 << 20, 1 << 20, &samples), (3 << 20, false));
        assert_eq!(peak(2 << 20, 1 << 20, &samples), (2 << 20, true));
        assert_eq!(peak(1 << 20, 1 << 20, &samples), (1 << 20, true));
        samples.push(0.001, 1 << 19);
        assert_eq!(peak((1 << 20) + 4096, 1 << 20, &samples), (1 << 19, true));
    }

    #[test]
    fn this_process_has_memory() {
        let own = std::process::id() as i32;
        assert!(resident_bytes(own) > 100 << 10);
        assert_eq!(resident_bytes(i32::MAX), 0);
    }
}
