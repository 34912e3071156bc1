//! A trace as a plan for glebe-replayer: record/plan.h describes the file.
//!
//! Two passes over the trace. The first finds the blocks that one thread allocates and another resizes or frees, and
//! what is live at most. The second gives each block a slot for the time of its life and writes each thread's
//! operations into chunks of its own.
//!
//! ```text
//!   one thread allocates, resizes and frees    a slot that only this thread reuses
//!   others take part, or it is never freed     a shared slot, with a turn for each operation
//! ```
//!
//! A thread is spawned just before its first call, by the thread that made the call before.

use super::event::{Call, Kind};
use super::{check_live, open};
use anyhow::{bail, Context, Result};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: u64 = u64::from_le_bytes(*b"GLBPLAN1");
const CHUNK_BYTES: u64 = 16384;
const OP_BYTES: usize = 24;
const CHUNK_OPS: usize = (CHUNK_BYTES as usize - 16) / OP_BYTES;
/// Calls in an epoch of a trace with several threads.
const EPOCH_CALLS: u64 = 4096;
/// Of a replay at the recorded times: so much later than its last wait a thread waits again.
const PACE_NS: u64 = 1_000_000;
/// Threads that the replayer may have to start.
const THREADS_MOST: usize = 20_000;

const MALLOC: u8 = 1;
const CALLOC: u8 = 2;
const ALIGNED: u8 = 3;
const REALLOC: u8 = 4;
const FREE: u8 = 5;
const SPAWN: u8 = 6;
const ENTER: u8 = 7;
const LEAVE: u8 = 8;
const WAIT: u8 = 9;
const SHARED: u8 = 16;

/// What the first pass found.
#[derive(Default)]
pub struct Survey {
    pub calls: u64,
    pub threads: usize,
    pub peak_bytes: u64,
    pub failed: u64,
    /// Blocks that more than one thread has to do with.
    crossing: FxHashSet<u64>,
}

pub fn survey(path: &Path) -> Result<Survey> {
    let mut source = open(path)?;
    let mut survey = Survey::default();
    let mut live: FxHashMap<u64, (u32, u64)> = FxHashMap::default();
    let mut bytes_now = 0u64;
    while let Some(event) = source.next()? {
        survey.calls += 1;
        check_live(live.len())?;
        match event.call {
            Call::Allocate { id, bytes, .. } => {
                live.insert(id, (event.thread, bytes));
                bytes_now = bytes_now.saturating_add(bytes);
            }
            Call::Resize { id, bytes } => {
                let block = live.get_mut(&id).with_context(|| lost(path, survey.calls))?;
                bytes_now = bytes_now
                    .saturating_sub(std::mem::replace(&mut block.1, bytes))
                    .saturating_add(bytes);
                if block.0 != event.thread {
                    survey.crossing.insert(id);
                }
            }
            Call::Free { id } => {
                let (thread, bytes) = live.remove(&id).with_context(|| lost(path, survey.calls))?;
                bytes_now = bytes_now.saturating_sub(bytes);
                if thread != event.thread {
                    survey.crossing.insert(id);
                }
            }
            Call::Fail { .. } => survey.failed += 1,
        }
        survey.peak_bytes = survey.peak_bytes.max(bytes_now);
    }
    survey.threads = source.totals().threads as usize;
    if survey.threads > THREADS_MOST {
        bail!(
            "{}: {} threads are too many to replay (at most {THREADS_MOST})",
            path.display(),
            survey.threads
        );
    }
    Ok(survey)
}

fn lost(path: &Path, call: u64) -> String {
    format!("{}: damaged: call {call} has a block that is not live", path.display())
}

#[derive(Clone, Copy, Default)]
struct Op {
    kind: u8,
    align_log2: u8,
    turn: u16,
    slot: u32,
    bytes: u64,
    old: u64,
}

impl Op {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind);
        out.push(self.align_log2);
        out.extend_from_slice(&self.turn.to_le_bytes());
        out.extend_from_slice(&self.slot.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.old.to_le_bytes());
    }
}

/// A thread's operations.
#[derive(Default)]
struct Lane {
    /// Offset of the chunk that is being filled; 0 before the first.
    at: u64,
    ops: Vec<u8>,
    /// The epoch that it is in, and has not left.
    epoch: Option<u64>,
    waited_ns: u64,
    free_slots: Vec<u32>,
}

struct Planner<'a> {
    file: &'a File,
    end: u64,
    lanes: Vec<Lane>,
    slots: u32,
    shared_free: Vec<u32>,
    /// The next turn of each shared slot.
    turns: Vec<u16>,
}

impl Planner<'_> {
    fn chunk(&mut self) -> u64 {
        let at = self.end;
        self.end += CHUNK_BYTES;
        at
    }

    fn write(&self, at: u64, next: u64, ops: &[u8]) -> Result<()> {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES as usize);
        chunk.extend_from_slice(&next.to_le_bytes());
        chunk.extend_from_slice(&((ops.len() / OP_BYTES) as u64).to_le_bytes());
        chunk.extend_from_slice(ops);
        chunk.resize(CHUNK_BYTES as usize, 0);
        self.file.write_all_at(&chunk, at).context("the plan, a temporary file")
    }

    fn push(&mut self, thread: usize, op: Op) -> Result<()> {
        if self.lanes[thread].ops.len() == CHUNK_OPS * OP_BYTES {
            let next = self.chunk();
            let lane = &mut self.lanes[thread];
            let (at, ops) = (lane.at, std::mem::take(&mut lane.ops));
            lane.at = next;
            self.write(at, next, &ops)?;
        }
        op.encode(&mut self.lanes[thread].ops);
        Ok(())
    }

    /// All threads that were in the epoch leave it.
    fn leave(&mut self, epoch: u64) -> Result<()> {
        let inside: Vec<usize> =
            (0..self.lanes.len()).filter(|i| self.lanes[*i].epoch == Some(epoch)).collect();
        for thread in &inside {
            self.lanes[*thread].epoch = None;
            let old = inside.len() as u64;
            self.push(*thread, Op { kind: LEAVE, bytes: epoch, old, ..Op::default() })?;
        }
        Ok(())
    }

    fn slot(&mut self, thread: usize, shared: bool) -> u32 {
        let free =
            if shared { self.shared_free.pop() } else { self.lanes[thread].free_slots.pop() };
        free.unwrap_or_else(|| {
            if shared {
                self.turns.push(0);
                return self.turns.len() as u32 - 1;
            }
            self.slots += 1;
            self.slots - 1
        })
    }

    fn turn(&mut self, slot: u32, shared: bool) -> u16 {
        if !shared {
            return 0;
        }
        let turn = &mut self.turns[slot as usize];
        let now = *turn;
        *turn = turn.wrapping_add(1);
        now
    }
}

/// Writes the plan into `file`. `pace`: each call waits for the time at which it was recorded.
pub fn write(path: &Path, survey: &Survey, pace: bool, file: &File) -> Result<()> {
    let mut source = open(path)?;
    let lanes = (0..survey.threads.max(1)).map(|_| Lane::default()).collect();
    let (slots, end) = (0, CHUNK_BYTES);
    let mut planner =
        Planner { file, end, lanes, slots, shared_free: Vec::new(), turns: Vec::new() };
    let first = planner.chunk();
    planner.lanes[0].at = first;
    let many = survey.threads > 1;
    let (mut before, mut number, mut epoch) = (0usize, 0u64, 0u64);
    let mut live: FxHashMap<u64, (u32, bool, u64)> = FxHashMap::default();
    while let Some(event) = source.next()? {
        let thread = event.thread as usize;
        number += 1;
        let gone = || lost(path, number);
        if thread >= planner.lanes.len() {
            bail!("{}: changed while it was read", path.display());
        }
        // A trace's file is checked, so a thread that is not the first has a thread before it.
        if planner.lanes[thread].at == 0 {
            let at = planner.chunk();
            planner.lanes[thread].at = at;
            planner.push(before, Op { kind: SPAWN, bytes: at, ..Op::default() })?;
        }
        if many && number % EPOCH_CALLS == 0 {
            planner.leave(epoch)?;
            epoch += 1;
        }
        if many && planner.lanes[thread].epoch.is_none() {
            planner.lanes[thread].epoch = Some(epoch);
            planner.push(thread, Op { kind: ENTER, bytes: epoch, ..Op::default() })?;
        }
        if pace && event.at_ns >= planner.lanes[thread].waited_ns + PACE_NS {
            planner.lanes[thread].waited_ns = event.at_ns;
            planner.push(thread, Op { kind: WAIT, bytes: event.at_ns, ..Op::default() })?;
        }
        before = thread;
        let mut op = Op::default();
        let shared = match event.call {
            Call::Allocate { kind, id, bytes, align_log2 } => {
                let shared = survey.crossing.contains(&id);
                op.slot = planner.slot(thread, shared);
                live.insert(id, (op.slot, shared, bytes));
                op.bytes = bytes;
                // posix_memalign takes no less than a pointer.
                op.align_log2 = align_log2.clamp(3, 62);
                op.kind = match kind {
                    Kind::Malloc => MALLOC,
                    Kind::Calloc => CALLOC,
                    Kind::Aligned => ALIGNED,
                };
                shared
            }
            Call::Resize { id, bytes } => {
                let block = live.get_mut(&id).with_context(gone)?;
                (op.kind, op.slot, op.bytes) = (REALLOC, block.0, bytes);
                op.old = std::mem::replace(&mut block.2, bytes);
                block.1
            }
            Call::Free { id } => {
                let (slot, shared, _) = live.remove(&id).with_context(gone)?;
                (op.kind, op.slot) = (FREE, slot);
                match shared {
                    true => planner.shared_free.push(slot),
                    false => planner.lanes[thread].free_slots.push(slot),
                }
                shared
            }
            Call::Fail { .. } => continue,
        };
        op.turn = planner.turn(op.slot, shared);
        op.kind |= if shared { SHARED } else { 0 };
        planner.push(thread, op)?;
    }
    planner.leave(epoch)?;
    for lane in planner.lanes.iter().filter(|lane| lane.at != 0) {
        planner.write(lane.at, 0, &lane.ops)?;
    }
    let numbers =
        [MAGIC, first, planner.slots.into(), planner.turns.len() as u64, survey.threads as u64];
    let header: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    file.write_all_at(&header, 0).context("the plan, a temporary file")
}
