//! `glebe profile PID`: the profile of a process that was started without one.
//!
//! ```text
//!   we write a word into the process ─▶ its next tick starts the sampler      src/retain/ask.c
//!   seconds pass, or Ctrl-C; a beat tells the process that we are still there
//!   we write another word ─▶ it stops the sampler; we read its samples from outside
//! ```
//!
//! No signal, no file, and no stop: the process looks at the word when malloc looks at the clock.

use super::raw::{Module, Profile};
use crate::explain::bytes::u32_at;
use crate::explain::heap::{locate, Located};
use crate::explain::samples;
use crate::system::interrupt;
use crate::system::live::{maps_of, memory_of, name_of, or_ended, pieces, program_of, Memory};
use anyhow::{anyhow, bail, Result};
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

const STEP: Duration = Duration::from_millis(20);
/// A process that makes no slow request for so long does not answer.
const PATIENCE: Duration = Duration::from_secs(10);

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
        use crate::system::live::Reader;
        let bytes = self.memory.read::<4>(self.at(field)?);
        Ok(u32_at(&bytes.map_err(|error| or_ended(self.memory.pid, error.into()))?, 0))
    }

    fn set(&self, field: &str, value: u32) -> Result<()> {
        self.put(field, &value.to_ne_bytes())
    }

    fn put(&self, field: &str, bytes: &[u8]) -> Result<()> {
        let written = self.memory.write(self.at(field)?, bytes);
        written.map_err(|error| or_ended(self.memory.pid, error.into()))
    }

    /// Waits until the state is none of `states`, and returns it; None after the time.
    fn wait(&self, states: &[u32]) -> Result<Option<u32>> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let state = self.get("state")?;
            if !states.contains(&state) {
                return Ok(Some(state));
            }
            thread::sleep(STEP);
        }
        Ok(None)
    }
}

fn find(pid: i32) -> Result<Asked> {
    let maps = maps_of(pid)?;
    let pieces = pieces(&maps);
    let memory = memory_of(pid, &pieces)?;
    let program = program_of(&memory).unwrap_or_else(|| name_of(pid));
    let Some(located) = locate(&memory, &pieces)?.into_iter().next() else {
        bail!(
            "no glebe was found in process {pid} ({program}). To put glebe under the program: \
             glebe profile -- {program} ARGUMENT..."
        );
    };
    if located.shape.value("samples").ok() != Some(1) {
        bail!("the glebe in process {pid} ({program}) takes no samples: it is a secure or audit build, or too old");
    }
    let modules = samples::modules(&memory, &maps);
    Ok(Asked { memory, located, program, modules })
}

/// Samples the process for so many seconds, or until Ctrl-C, and returns the profile.
pub fn profile(pid: i32, mean: Option<u64>, seconds: Option<u64>) -> Result<Profile> {
    if std::fs::metadata(format!("/proc/{pid}")).is_err() {
        bail!("there is no process {pid}");
    }
    let asked = find(pid).map_err(|error| or_ended(pid, error))?;
    let program = asked.program.clone();
    match asked.get("state")? {
        NONE | DONE | FAILED => {}
        _ => bail!(
            "process {pid} ({program}) is being profiled by another glebe profile; \
             one that was killed counts for 10 s more"
        ),
    }
    asked.put("mean_bytes", &mean.unwrap_or(0).to_ne_bytes())?;
    let before = samples::read(&asked.memory, &asked.located.shape)?;
    asked.set("state", DUE)?;
    match asked.wait(&[DUE, STARTS])? {
        Some(RUNS) => {}
        Some(FAILED) => {
            bail!(
                "process {pid} ({program}) cannot start its profiler: error {}",
                asked.get("error")?
            )
        }
        Some(state) => bail!("process {pid} ({program}) answered {state}"),
        None => {
            asked.set("state", NONE)?;
            bail!(
                "process {pid} ({program}) did not answer within {} s: it makes no request of malloc that is slow",
                PATIENCE.as_secs()
            );
        }
    }
    interrupt::listen();
    let begun = Instant::now();
    let mut beat = 0;
    while interrupt::caught().is_none()
        && seconds.is_none_or(|seconds| begun.elapsed() < Duration::from_secs(seconds))
    {
        beat += 1;
        if asked.set("beat", beat).is_err() {
            bail!("process {pid} ({program}) has ended, and its samples with it");
        }
        thread::sleep(STEP * 5);
    }
    let is_ours = asked.get("ours")? != 0;
    asked.set("state", STOP)?;
    if asked.wait(&[STOP, RUNS])? != Some(DONE) {
        bail!("process {pid} ({program}) does not stop its profiler");
    }
    let after = samples::read(&asked.memory, &asked.located.shape)?;
    let mut after = after.ok_or_else(|| anyhow!("process {pid} ({program}) has no samples"))?;
    // What was allocated before we asked is not of this profile.
    if let Some(before) = before.filter(|_| is_ours) {
        after.taken -= before.taken.min(after.taken);
        after.lost -= before.lost.min(after.lost);
        for (site, before) in after.sites.iter_mut().zip(&before.sites) {
            site.allocated.bytes = site.allocated.bytes.saturating_sub(before.allocated.bytes);
            site.allocated.objects -= before.allocated.objects;
        }
    }
    Ok(after.profile(pid, &program, asked.modules))
}
