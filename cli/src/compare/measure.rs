//! One run of the program under one allocator, and everything that was seen.
//!
//! ```text
//!   what              where from                           of whom
//!   wall time         CLOCK_MONOTONIC, execve to end       the program
//!   CPU time, faults  wait4's rusage, less what fork took  it and the children it waited for
//!   peak RSS          wait4's ru_maxrss                    the largest single process of these
//!   RSS over time     /proc, every few milliseconds        sum over the process tree
//! ```
//!
//! Output goes to memory files and is kept only as length and checksum: a pipe would make the
//! program wait for its reader, and this process must stay small (see `launch` on the floor).

use super::interrupt;
use super::peers::Contender;
use super::sampler::{Sampler, Samples};
use crate::launch::{clock_s, seconds, wait, wait_ended, Ending, Image};
use crate::library::preload_with;
use crate::program::Program;
use crate::witness::{Proof, Witness};
use anyhow::{Context, Result};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::path::PathBuf;
use std::time::Duration;

/// How to run: the same for every allocator.
pub struct Setting {
    pub program: Program,
    pub stdin: Option<PathBuf>,
    pub show_output: bool,
    /// None: no samples.
    pub sample_every: Option<Duration>,
}

/// One run. The fields are the keys of `--json`, in this order.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    pub allocator: String,
    /// The round, from 1; 0 is the warm-up, which is not reported.
    pub run: u32,
    pub cpu_s: f64,
    pub wall_s: f64,
    pub peak_rss_bytes: u64,
    /// Minor and major together.
    pub faults: u64,
    /// As in a shell: 128 + n for signal n.
    pub exit: i32,
    pub cpu_user_s: f64,
    pub cpu_sys_s: f64,
    pub major_faults: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Mean over time; null if the program ended before it could be sampled.
    pub mean_rss_bytes: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<Samples>,
    /// The program is so small that the kernel's figure may be our own size at the fork.
    #[serde(skip)]
    pub peak_is_guess: bool,
    #[serde(skip)]
    pub output: Option<[Output; 2]>,
    /// Whether the library got in; None if there is none, or nothing could be seen.
    #[serde(skip)]
    pub proof: Option<Proof>,
}

impl Run {
    /// `exit 3` or `killed by signal 11`; None if it ended with 0.
    pub fn failure(&self) -> Option<String> {
        match self.signal {
            Some(signal) => Some(format!("killed by signal {signal}")),
            None => (self.exit != 0).then(|| format!("exit {}", self.exit)),
        }
    }
}

/// What remains of standard output or standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    pub bytes: u64,
    pub checksum: u64,
}

impl Setting {
    /// Runs the program once under `contender`.
    pub fn run(&self, contender: &Contender, round: u32) -> Result<Run> {
        let stdin = match &self.stdin {
            Some(path) => File::open(path).with_context(|| path.display().to_string())?,
            None => File::open("/dev/null")?,
        };
        let kept = match self.show_output {
            true => None,
            false => Some([memory_file()?, memory_file()?]),
        };
        let stream =
            |n: usize| -> Option<RawFd> { kept.as_ref().map(|files| files[n].as_raw_fd()) };
        let image = Image::new(&self.program, &environment(contender));
        let witness = contender.library.as_deref().map(Witness::listen);

        let child = image.spawn([Some(stdin.as_raw_fd()), stream(0), stream(1)])?;
        interrupt::started(child.pid);
        let watched = if round == 0 { contender.library.clone() } else { None };
        let sampler = Sampler::start(child.pid, child.birth.clock_s, self.sample_every, watched);
        let ended = wait_ended(child.pid);
        let wall_s = clock_s() - child.birth.clock_s;
        let (samples, mapped) = sampler.stop();
        interrupt::ended();
        ended?;
        let (ending, usage) = wait(child.pid)?;

        let birth = child.birth;
        let cpu_user_s = (seconds(usage.ru_utime) - birth.cpu_user_s).max(0.0);
        let cpu_sys_s = (seconds(usage.ru_stime) - birth.cpu_sys_s).max(0.0);
        let faults = usage.ru_minflt + usage.ru_majflt - birth.minor_faults - birth.major_faults;
        let (peak_rss_bytes, peak_is_guess) =
            peak(usage.ru_maxrss * 1024, birth.floor_rss_bytes, &samples);
        let mut run = Run {
            allocator: contender.name.clone(),
            run: round,
            cpu_s: microseconds(cpu_user_s + cpu_sys_s),
            wall_s: microseconds(wall_s),
            peak_rss_bytes,
            faults: faults.max(0) as u64,
            exit: ending.code(),
            cpu_user_s: microseconds(cpu_user_s),
            cpu_sys_s: microseconds(cpu_sys_s),
            major_faults: (usage.ru_majflt - birth.major_faults).max(0) as u64,
            signal: match ending {
                Ending::Signal(signal) => Some(signal),
                Ending::Exit(_) => None,
            },
            mean_rss_bytes: samples.mean_bytes(wall_s).map(f64::round),
            samples: self.sample_every.map(|_| samples),
            peak_is_guess,
            output: None,
            proof: witness.and_then(|witness| {
                let opened = |yes| if yes { Proof::Opened } else { Proof::Absent };
                if mapped {
                    Some(Proof::Mapped)
                } else {
                    witness.opened().map(opened)
                }
            }),
        };
        if let Some([mut out, mut err]) = kept {
            let refused = |text: &[u8]| contains(text, b"cannot be preloaded");
            let (out, _) = digest(&mut out, |_| false)?;
            let (err, complaint) = digest(&mut err, refused)?;
            run.output = Some([out, err]);
            if complaint && run.proof.is_some() && !mapped {
                run.proof = Some(Proof::Absent);
            }
        }
        Ok(run)
    }
}

/// Rounded to what the kernel's figures hold, so that JSON does not show more.
fn microseconds(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

/// What a child still grows between reporting its floor and execve (132 KiB were seen).
const FLOOR_SLACK_BYTES: i64 = 192 << 10;

/// The kernel's figure where it is the program's own; else, as a guess, the highest sample, or the
/// floor where there is none.
fn peak(maxrss: i64, floor: i64, samples: &Samples) -> (u64, bool) {
    match samples.max_bytes() {
        _ if maxrss > floor + FLOOR_SLACK_BYTES => (maxrss as u64, false),
        0 => (maxrss as u64, true),
        sampled => (sampled.min(maxrss as u64), true),
    }
}

fn environment(contender: &Contender) -> Vec<(&'static str, Option<OsString>)> {
    let before = crate::launch::variable(OsStr::new("LD_PRELOAD"));
    match &contender.library {
        Some(library) => vec![("LD_PRELOAD", Some(preload_with(before, library)))],
        None => Vec::new(),
    }
}

/// A file without a name, for output. Appending, so that two writers never overwrite each other.
fn memory_file() -> io::Result<File> {
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

/// Length and checksum (FNV-1a, 64 bits); and whether `look` liked any piece of it.
fn digest(file: &mut File, look: impl Fn(&[u8]) -> bool) -> io::Result<(Output, bool)> {
    let mut output = Output { bytes: 0, checksum: 0xcbf2_9ce4_8422_2325 };
    let mut piece = vec![0u8; 64 << 10];
    let mut liked = false;
    file.rewind()?;
    loop {
        let length = match file.read(&mut piece)? {
            0 => return Ok((output, liked)),
            length => length,
        };
        liked |= look(&piece[..length]);
        output.bytes += length as u64;
        for byte in &piece[..length] {
            output.checksum = (output.checksum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> Run {
        let words = ["sh", "-c", script].map(OsString::from);
        let setting = Setting {
            program: Program::find(&words).unwrap(),
            stdin: None,
            show_output: false,
            sample_every: Some(Duration::from_millis(2)),
        };
        setting.run(&Contender { name: "system".into(), library: None }, 1).unwrap()
    }

    #[test]
    fn a_run_is_measured() {
        let run = run("echo out; echo err >&2; exit 3");
        assert_eq!((run.exit, run.signal), (3, None));
        assert!(run.wall_s > 0.0 && run.cpu_s >= 0.0 && run.faults > 0);
        assert!(run.peak_rss_bytes > 100 << 10, "{run:?}");
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
        assert_eq!(peak(2 << 20, 1 << 20, &samples), (2 << 20, false));
        assert_eq!(peak(1 << 20, 1 << 20, &samples), (1 << 20, true));
        samples.push(0.001, 1 << 19);
        assert_eq!(peak((1 << 20) + 4096, 1 << 20, &samples), (1 << 19, true));
    }
}
