//! `glebe profile PID`: the profile of a process that was started without one.
//!
//! ```text
//!   we write a word into the process ─▶ its next tick starts the sampler      src/retain/ask.c
//!   seconds pass, or Ctrl-C; a beat tells the process that we are still there
//!   we write another word ─▶ it stops the sampler; we read its samples from outside
//! ```
//!
//! No signal, no file, and no stop: the process looks at the word when malloc looks at the clock. A program that gets
//! the same warm block each time would never look, so we make the comparisons of its fast paths fail meanwhile, as the
//! sampler does.

use super::raw::{Module, Profile};
use crate::args::ProfileOptions;
use crate::explain::bytes::{copy, u32_at};
use crate::explain::heap::{locate, Located};
use crate::explain::samples::{self, Samples};
use crate::system::interrupt;
use crate::system::live::{
    maps_of, memory_of, name_of, no_glebe, or_ended, pieces, program_of, runs, there_is, Memory,
    Reader, MAGIC,
};
use crate::words::say;
use anyhow::{anyhow, bail, Result};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// The states of gb_ask_state in src/types.h that we write or wait for.
const NONE: u32 = 0;
const DUE: u32 = 1;
const STARTS: u32 = 2;
const RUNS: u32 = 3;
const STOP: u32 = 4;
const DONE: u32 = 5;
const FAILED: u32 = 6;

/// What the process samples if it is not told otherwise: GB_SAMPLE_BYTES.
const MEAN_BYTES: u64 = 512 << 10;
const STEP: Duration = Duration::from_millis(20);
/// How long we wait for the process to stop its sampler.
const PATIENCE: Duration = Duration::from_secs(10);
/// A command that waits for the process beats more often.
const SILENCE: Duration = Duration::from_secs(1);
/// So often samples are read, for the case that the process ends.
const KEEP: Duration = Duration::from_secs(1);

struct Asked {
    memory: Memory,
    located: Located,
    program: String,
    modules: Vec<Module>,
}

impl Asked {
    fn at(&self, field: &str) -> Result<u64> {
        let shape = &self.located.shape;
        Ok(shape.region + shape.value(&format!("region.ask.{field}"))? as u64)
    }

    fn get(&self, field: &str) -> Result<u32> {
        let bytes = self.memory.read::<4>(self.at(field)?);
        Ok(u32_at(&bytes.map_err(|error| self.gone(error))?, 0))
    }

    fn set(&self, field: &str, value: u32) -> Result<()> {
        self.put(field, &value.to_ne_bytes())
    }

    fn put(&self, field: &str, bytes: &[u8]) -> Result<()> {
        self.write(self.at(field)?, bytes)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let written = self.memory.write(at, bytes);
        written.map_err(|error| self.gone(error))
    }

    /// Why its memory can neither be read nor written. Of a process that runs, what was there is gone with its program.
    fn gone(&self, error: io::Error) -> anyhow::Error {
        let no_memory = error.raw_os_error() == Some(libc::EFAULT);
        or_ended(self.memory.pid, if no_memory { anyhow!(self.end()) } else { error.into() })
    }

    /// Waits until the state is none of `states`, and returns it; None once `gives_up`.
    fn wait(&self, states: &[u32], gives_up: impl Fn() -> bool) -> Result<Option<u32>> {
        loop {
            let state = self.get("state")?;
            if !states.contains(&state) {
                return Ok(Some(state));
            }
            if gives_up() {
                return Ok(None);
            }
            self.beat()?;
            thread::sleep(STEP);
        }
    }

    fn beat(&self) -> Result<()> {
        self.set("beat", self.get("beat")?.wrapping_add(1))
    }

    /// Whether the process has ended, or become another program by exec: glebe is not where it was.
    fn is_gone(&self) -> bool {
        !self.memory.read(self.located.live).is_ok_and(|word| word == MAGIC)
    }

    /// The same while we sample. Another program may have glebe at the same place, if addresses are not random; nobody
    /// asked that one.
    fn is_over(&self) -> bool {
        self.is_gone() || !matches!(self.get("state"), Ok(RUNS)) || self.beat().is_err()
    }

    /// What became of a process that does not answer any more.
    fn end(&self) -> String {
        let pid = self.memory.pid;
        let what = if runs(pid) { "executed another program" } else { "has ended" };
        format!("process {pid} ({}) {what}", self.program)
    }

    /// Lets the process sample until `over`. If it ends before: the samples that were read last.
    fn until(
        &self,
        over: impl Fn() -> bool,
        is_over: impl Fn(&Asked) -> bool,
    ) -> Option<Result<Samples>> {
        let (mut kept, mut kept_at) = (None, Instant::now());
        while !over() {
            if is_over(self) {
                let ended = self.end();
                let seconds = kept_at.elapsed().as_secs_f64();
                if kept.is_some() {
                    say(format!("{ended}; this is its profile of {seconds:.1} s before"));
                }
                return Some(kept.ok_or_else(|| anyhow!("{ended}, and its samples with it")));
            }
            if kept_at.elapsed() >= KEEP {
                kept = samples::read(&self.memory, &self.located.shape).ok().flatten().or(kept);
                kept_at = Instant::now();
            }
            thread::sleep(STEP * 5);
        }
        None
    }

    /// Whether a command asked, and was killed before the process looked at the clock.
    fn is_left(&self) -> Result<bool> {
        let beat = self.get("beat")?;
        thread::sleep(SILENCE);
        Ok(self.get("state")? == DUE && self.get("beat")? == beat)
    }

    /// Whether the process takes a profile without us. An older library does not tell.
    fn samples_itself(&self) -> bool {
        let shape = &self.located.shape;
        let at = shape.value("region.sampler.profiles").map(|at| shape.region + at as u64);
        at.is_ok_and(|at| self.memory.read::<4>(at).is_ok_and(|word| u32_at(&word, 0) != 0))
    }

    /// Makes the heaps of threads look sampled. Returns what each field was, by its address.
    fn slow_down(&self) -> Result<Vec<(u64, Vec<u8>)>> {
        let shape = &self.located.shape;
        let word = |at: usize| self.memory.u64(shape.region + at as u64);
        let (heaps, made) = (word(shape.layout.heaps)?, word(shape.layout.heaps_made)? as u32);
        let mut before = Vec::new();
        for number in 1..=u64::from(made) {
            let heap = heaps + number * shape.layout.heap as u64;
            if self.memory.read::<4>(heap + shape.layout.heap_kind as u64)? != HEAP_THREAD {
                continue;
            }
            for (field, value) in SAMPLED {
                let at = heap + shape.value(&format!("heap.sampling.{field}"))? as u64;
                before.push((at, copy(&self.memory, at, value.len() as u64)?));
                self.write(at, value)?;
            }
        }
        Ok(before)
    }
}

/// Of gb_sampling in src/types.h, as gb_sampling_set in src/heap/sample.c sets them while it samples.
const SAMPLED: [(&str, &[u8]); 4] = [
    ("few", &i32::MAX.to_ne_bytes()),
    ("warm_least", &u32::MAX.to_ne_bytes()),
    ("medium_most", &0u64.to_ne_bytes()),
    ("on", &1u32.to_ne_bytes()),
];
const HEAP_THREAD: [u8; 4] = 1u32.to_ne_bytes();

fn find(pid: i32, lifetimes: bool) -> Result<Asked> {
    let maps = maps_of(pid)?;
    let pieces = pieces(&maps);
    let memory = memory_of(pid, &pieces)?;
    let program = program_of(&memory).unwrap_or_else(|| name_of(pid));
    let Some(located) = locate(&memory, &pieces)?.into_iter().next() else {
        return Err(no_glebe(pid, &program, "profile"));
    };
    if located.shape.value("samples").ok() != Some(1) {
        bail!("the glebe in process {pid} ({program}) takes no samples: it is a secure or audit build, or too old");
    }
    if lifetimes && samples::freed_at(&located.shape)?.is_none() {
        bail!("the glebe in process {pid} ({program}) is too old to count lifetimes; it has the other profiles");
    }
    let modules = samples::modules(pid, &memory, &maps);
    Ok(Asked { memory, located, program, modules })
}

/// Samples the process for so many seconds, or until Ctrl-C, and returns the profile. If the process samples already,
/// that is its own profile, from its start on.
pub fn profile(pid: i32, options: &ProfileOptions) -> Result<Profile> {
    let (mean, seconds) = (options.mean, options.seconds);
    there_is(pid)?;
    let asked = find(pid, options.lifetimes).map_err(|error| or_ended(pid, error))?;
    let program = asked.program.clone();
    let state = asked.get("state")?;
    let left = state == DUE && asked.is_left()?;
    if !left && ![NONE, DONE, FAILED].contains(&state) {
        bail!(
            "process {pid} ({program}) is being profiled by another glebe profile; \
             one that was killed counts for 10 s more"
        );
    }
    interrupt::listen();
    let begun = Instant::now();
    let over = || {
        interrupt::caught().is_some()
            || seconds.is_some_and(|most| begun.elapsed() >= Duration::from_secs(most))
    };
    if asked.samples_itself() {
        say(format!(
            "process {pid} ({program}) samples already: its own profile, from its start on{}",
            if mean.is_some() { "; --mean changes nothing" } else { "" }
        ));
        let own = match asked.until(over, Asked::is_gone) {
            Some(kept) => kept?,
            None => {
                let own = samples::read(&asked.memory, &asked.located.shape)?;
                own.ok_or_else(|| anyhow!("process {pid} ({program}) has no samples"))?
            }
        };
        return Ok(own.profile(pid, &program, asked.modules));
    }
    asked.put("mean_bytes", &mean.unwrap_or(0).to_ne_bytes())?;
    let before = samples::read(&asked.memory, &asked.located.shape)?;
    asked.set("state", DUE)?;
    let quick = asked.slow_down()?;
    match asked.wait(&[DUE, STARTS], over)? {
        Some(RUNS) => {}
        Some(FAILED) => {
            let error = io::Error::from_raw_os_error(asked.get("error")? as i32);
            bail!("process {pid} ({program}) cannot start its profiler: {error}")
        }
        Some(state) => bail!("process {pid} ({program}) answered {state}"),
        None => {
            // The heaps looked sampled before if a killed command left them so. The request then stays too: the
            // process's next tick makes both good.
            if !left {
                asked.set("state", NONE)?;
                for (at, bytes) in quick {
                    asked.write(at, &bytes)?;
                }
            }
            say(format!(
                "process {pid} ({program}) allocated nothing in this time: the profile is empty"
            ));
            let mean_bytes = mean.unwrap_or(MEAN_BYTES);
            let modules = asked.modules;
            return Ok(Profile {
                process: pid as u32,
                program,
                mean_bytes,
                modules,
                ..Profile::default()
            });
        }
    }
    let is_ours = asked.get("ours")? != 0;
    let mut after = match asked.until(over, Asked::is_over) {
        Some(kept) => kept?,
        None => {
            asked.set("state", STOP)?;
            let stopping = Instant::now();
            if asked.wait(&[STOP, RUNS], || stopping.elapsed() > PATIENCE)? != Some(DONE) {
                bail!("process {pid} ({program}) does not stop its profiler");
            }
            let after = samples::read(&asked.memory, &asked.located.shape)?;
            after.ok_or_else(|| anyhow!("process {pid} ({program}) has no samples"))?
        }
    };
    // What was allocated before we asked is not of this profile.
    if let Some(before) = before.filter(|_| is_ours) {
        after.taken -= before.taken.min(after.taken);
        after.lost -= before.lost.min(after.lost);
        for (site, before) in after.sites.iter_mut().zip(&before.sites) {
            site.allocated.bytes = site.allocated.bytes.saturating_sub(before.allocated.bytes);
            site.allocated.objects -= before.allocated.objects;
            for (bytes, before) in site.freed.iter_mut().zip(before.freed) {
                *bytes = bytes.saturating_sub(before);
            }
        }
    }
    Ok(after.profile(pid, &program, asked.modules))
}
