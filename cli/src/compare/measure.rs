//! One run of the program under one allocator, and its figures.
//!
//! Output goes to files, since a pipe would make the program wait for its reader. We keep only the length and checksum
//! of the output, since this process must stay small (see `launch` on the floor).

use super::peers::Contender;
use super::sampler::Samples;
use crate::program::Program;
use crate::stop::Ending;
use crate::system;
use anyhow::{Context, Result};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::PathBuf;
use std::time::Duration;

/// How to run: the same for every allocator.
pub struct Setting {
    pub program: Program,
    pub stdin: Option<PathBuf>,
    pub show_output: bool,
    /// None: no samples.
    pub sample_every: Option<Duration>,
    /// Called after each run, to take out of its figures what is not the program's.
    pub correct: Option<Correct>,
}

pub type Correct = Box<dyn Fn(&mut Run) -> Result<()>>;

/// Standard input, and files for output and errors; None: they go to ours.
pub struct Streams<'a> {
    pub input: File,
    pub kept: Option<&'a [File; 2]>,
}

/// The system's figures of a run. None: the system does not report this one.
pub struct Measured {
    pub ending: Ending,
    pub wall_s: f64,
    pub cpu_user_s: Option<f64>,
    pub cpu_sys_s: Option<f64>,
    pub peak_rss_bytes: u64,
    pub peak_is_guess: bool,
    pub faults: Option<u64>,
    pub major_faults: Option<u64>,
    pub samples: Samples,
    /// Whether the program loaded the library; None if there is none, or if we could not see.
    pub proof: Option<Proof>,
}

/// The evidence that a program loaded the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// Neither mapped nor opened.
    Absent,
    /// The file was opened while the program ran.
    #[cfg_attr(windows, allow(dead_code, reason = "we load the library ourselves there"))]
    Opened,
    /// We saw it in the program's memory.
    Mapped,
}

/// One run. The fields are the keys of `--json`, in this order.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    pub allocator: String,
    /// The round, from 1; 0 is the warm-up, which is not reported.
    pub run: u32,
    /// User and system together; null if the system does not report it.
    pub cpu_s: Option<f64>,
    pub wall_s: f64,
    pub peak_rss_bytes: u64,
    /// Minor and major together.
    pub faults: Option<u64>,
    /// As in a shell: 128 + n for signal n. Windows' status codes are negative.
    pub exit: i32,
    pub cpu_user_s: Option<f64>,
    pub cpu_sys_s: Option<f64>,
    pub major_faults: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Mean over time; null if the program ended before it could be sampled.
    pub mean_rss_bytes: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<Samples>,
    /// The program is so small that the kernel's figure may be our size at the fork.
    #[serde(skip)]
    pub peak_is_guess: bool,
    #[serde(skip)]
    pub output: Option<[Output; 2]>,
    #[serde(skip)]
    pub proof: Option<Proof>,
}

impl Run {
    /// `exit 3`, `killed by signal 11` or `exit 0xC0000005`; None if it ended with 0.
    pub fn failure(&self) -> Option<String> {
        match (self.signal, self.exit) {
            (Some(signal), _) => Some(format!("killed by signal {signal}")),
            (None, 0) => None,
            (None, status @ ..0) => Some(format!("exit {status:#010X}")),
            (None, code) => Some(format!("exit {code}")),
        }
    }
}

/// Length and checksum of standard output or standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    pub bytes: u64,
    pub checksum: u64,
}

impl Setting {
    /// Runs the program once under `contender`.
    pub fn run(&self, contender: &Contender, round: u32) -> Result<Run> {
        let input = self.stdin.as_deref().unwrap_or(system::NULL.as_ref());
        let input = File::open(input).with_context(|| input.display().to_string())?;
        let mut kept = match self.show_output {
            true => None,
            false => Some([system::scratch()?, system::scratch()?]),
        };
        let streams = Streams { input, kept: kept.as_ref() };
        let library = contender.library.as_deref();
        let seen = system::measure(&self.program, library, streams, self.sample_every, round == 0)?;
        let mut run = Run {
            allocator: contender.name.clone(),
            run: round,
            cpu_s: seen.cpu_user_s.zip(seen.cpu_sys_s).map(|(user, sys)| microseconds(user + sys)),
            wall_s: microseconds(seen.wall_s),
            peak_rss_bytes: seen.peak_rss_bytes,
            faults: seen.faults,
            exit: seen.ending.code(),
            cpu_user_s: seen.cpu_user_s.map(microseconds),
            cpu_sys_s: seen.cpu_sys_s.map(microseconds),
            major_faults: seen.major_faults,
            signal: match seen.ending {
                Ending::Signal(signal) => Some(signal),
                Ending::Exit(_) => None,
            },
            mean_rss_bytes: seen.samples.mean_bytes(seen.wall_s).map(f64::round),
            samples: self.sample_every.map(|_| seen.samples),
            peak_is_guess: seen.peak_is_guess,
            output: None,
            proof: seen.proof,
        };
        if let Some([out, err]) = &mut kept {
            // Linux's dynamic loader prints this after it has opened the file.
            let refused = |text: &[u8]| contains(text, b"cannot be preloaded");
            let (out, _) = digest(out, |_| false)?;
            let (err, complaint) = digest(err, refused)?;
            run.output = Some([out, err]);
            if complaint && run.proof == Some(Proof::Opened) {
                run.proof = Some(Proof::Absent);
            }
        }
        if let Some(correct) = &self.correct {
            correct(&mut run)?;
        }
        Ok(run)
    }
}

/// Rounded to the precision of the kernel's figures, so that JSON does not show more.
fn microseconds(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

/// Length and checksum (FNV-1a, 64 bits), and whether `look` returned true for a piece.
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
    use crate::compare::table::tests::row;

    #[test]
    fn endings_are_told_in_the_systems_way() {
        let mut run = row("x", &[1.0]).runs.remove(0);
        let mut says = |exit, signal| {
            (run.exit, run.signal) = (exit, signal);
            run.failure().unwrap_or_default()
        };
        assert_eq!(says(0, None), "");
        assert_eq!(says(3, None), "exit 3");
        assert_eq!(says(139, Some(11)), "killed by signal 11");
        assert_eq!(says(0xC000_0005_u32 as i32, None), "exit 0xC0000005");
    }
}
