//! Reads the recorder's raw files: merges the threads, and gives blocks ids instead of addresses.
//!
//! record/raw.h describes the file. Nothing in it is trusted: a damaged record ends the reading with an error, a block
//! that is there twice counts once, and addresses are only names.
//!
//! ```text
//!   blocks by thread ──▶ one lane a thread ──▶ order by (moment, allocations first) ──▶ address -> id ──▶ events
//! ```
//!
//! A realloc comes twice: at its first moment it gives up the old address, at its second it has the new one.

use super::event::{About, Call, Event, Kind, Source, Totals};
use anyhow::{anyhow, bail, Context, Result};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub const MAGIC: [u8; 8] = *b"GLBRAW1\0";
const BLOCK_MAGIC: u32 = u32::from_le_bytes(*b"GBLK");
const HEADER_BYTES: u64 = 4096;
const BLOCK_BYTES: u64 = 64 << 10;
const BLOCK_HEAD: usize = 32;
const COMMAND_AT: usize = 56;
const COMMAND_MOST: usize = 3072;
/// More threads than any process has.
const THREADS_MOST: usize = 1 << 20;

/// The second half of a realloc, of a block that had this id.
struct Moved {
    id: Option<u64>,
    new: u64,
    bytes: u64,
}

/// One thread's records in their order.
struct Lane {
    /// The recorder's number, for errors.
    thread: u32,
    /// Ours; None before its first event.
    number: Option<u32>,
    /// Offset and length of each block, in order.
    blocks: std::vec::IntoIter<(u64, u64)>,
    words: Vec<u64>,
    /// Where the head begins in `words`: the record that is next.
    next: usize,
    now_ns: u64,
    /// The head is a realloc, and its first half was handled.
    moved: Option<Moved>,
}

impl Lane {
    /// The second moment of the head, a realloc.
    fn second(&self) -> u64 {
        self.words[self.next + 4]
    }
}

/// Where a head is in the order of all threads: its moment, whether it frees, and its lane.
type Key = (u64, bool, usize);

pub struct Raw {
    file: File,
    shown: String,
    about: About,
    totals: Totals,
    start_ns: u64,
    last_ns: u64,
    lanes: Vec<Lane>,
    /// The lane whose head is next; None after the last.
    front: Option<usize>,
    /// The other lanes that have a head.
    order: BinaryHeap<Reverse<Key>>,
    /// A block as it is read.
    bytes: Vec<u8>,
    ids: FxHashMap<u64, u64>,
    next_id: u64,
    /// An event that must come after the one just returned.
    waiting: Option<Event>,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes(b.try_into().unwrap_or_default()))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap_or_default()))
}

impl Raw {
    pub fn open(path: &Path) -> Result<Raw> {
        let shown = path.display().to_string();
        let file = File::open(path).with_context(|| shown.clone())?;
        let length = file.metadata().with_context(|| shown.clone())?.len();
        let mut head = [0u8; HEADER_BYTES as usize];
        file.read_exact_at(&mut head, 0).with_context(|| format!("{shown}: no whole header"))?;
        if head[..8] != MAGIC {
            bail!("{shown} is no recording of glebe");
        }
        let (version, block) = (u32_at(&head, 8), u32_at(&head, 12));
        if version != 1 || u64::from(block) != BLOCK_BYTES {
            bail!(
                "{shown}: format {version} with blocks of {block} bytes is newer than this glebe"
            );
        }
        let words = (u32_at(&head, 52) as usize).min(COMMAND_MOST);
        let command = head[COMMAND_AT..COMMAND_AT + words].split(|b| *b == 0);
        let command = command.map(|word| String::from_utf8_lossy(word).into_owned());
        let mut command: Vec<String> = command.collect();
        command.truncate(
            command.len().saturating_sub(usize::from(command.last().is_some_and(String::is_empty))),
        );
        let about = About {
            anonymous: false,
            process: Some(u64_at(&head, 16)),
            parent: Some(u64_at(&head, 24)),
            date_ns: Some(u64_at(&head, 32)),
            command,
        };
        let totals = Totals { stopped: u32_at(&head, 48), ..Totals::default() };
        let start_ns = u64_at(&head, 40);
        let lanes = lanes_of(&file, length).with_context(|| shown.clone())?;
        let mut raw = Raw {
            file,
            shown,
            about,
            totals,
            start_ns,
            last_ns: 0,
            lanes,
            front: None,
            order: BinaryHeap::new(),
            bytes: Vec::new(),
            ids: FxHashMap::default(),
            next_id: 0,
            waiting: None,
        };
        for lane in 0..raw.lanes.len() {
            raw.lanes[lane].now_ns = start_ns;
            let key = raw.advance(lane)?;
            raw.order.extend(key.map(Reverse));
        }
        raw.front = raw.order.pop().map(|Reverse((_, _, lane))| lane);
        Ok(raw)
    }

    /// Goes to the lane's next record that is a call. Returns its place in the order; None after the last.
    fn advance(&mut self, lane: usize) -> Result<Option<Key>> {
        loop {
            let this = &mut self.lanes[lane];
            let words = this.words.get(this.next..).unwrap_or_default();
            let first = words.first().copied().unwrap_or(0);
            if first == 0 {
                match self.refill(lane)? {
                    true => continue,
                    false => return Ok(None),
                }
            }
            let length = length_of(first).ok_or_else(|| damaged(&self.shown, this, first))?;
            if words.len() < length {
                bail!("{}: a record of thread {} is cut off", self.shown, this.thread);
            }
            if first & 0xff != TIME {
                return Ok(Some((first >> 16, first & 0xff >= REALLOCATE, lane)));
            }
            this.now_ns = words[1];
            this.next += length;
        }
    }

    /// Reads the lane's next block; false after the last.
    fn refill(&mut self, lane: usize) -> Result<bool> {
        let this = &mut self.lanes[lane];
        let Some((offset, bytes)) = this.blocks.next() else { return Ok(false) };
        self.bytes.resize(bytes as usize, 0);
        let read = self.file.read_exact_at(&mut self.bytes, offset);
        read.with_context(|| self.shown.clone())?;
        let words = self.bytes.get(BLOCK_HEAD..).unwrap_or_default().chunks_exact(8);
        this.words.clear();
        this.words.extend(words.map(|word| u64_at(word, 0)));
        this.next = 0;
        Ok(true)
    }

    /// The front lane has another head now, or none. Mostly it stays in front.
    fn settle(&mut self, key: Option<Key>) {
        let next = match (key, self.order.peek_mut()) {
            (Some(key), Some(mut top)) if top.0 < key => Some(std::mem::replace(&mut top.0, key)),
            (Some(key), _) => Some(key),
            (None, top) => top.map(|top| PeekMut::pop(top).0),
        };
        self.front = next.map(|(_, _, lane)| lane);
    }

    /// Handles the head of a lane. Returns its call, if it is one, and a block that was lost before it.
    #[inline]
    fn step(&mut self, lane: usize) -> (Option<Call>, Option<u64>) {
        let this = &mut self.lanes[lane];
        if let Some(Moved { id, new, bytes }) = this.moved.take() {
            this.next += 5;
            return match id {
                _ if new == 0 => (Some(Call::Fail { bytes }), None),
                Some(id) => (Some(Call::Resize { id, bytes }), self.ids.insert(new, id)),
                None => {
                    self.totals.unknown_frees += 1;
                    self.fresh(Kind::Malloc, new, bytes, 0)
                }
            };
        }
        let words = &this.words[this.next..];
        let (first, address) = (words[0], words[1]);
        match first & 0xff {
            REALLOCATE => {
                let (new, bytes) = (words[2], words[3]);
                let id = if new == 0 { None } else { self.ids.remove(&address) };
                this.moved = Some(Moved { id, new, bytes });
                (None, None)
            }
            FREE => {
                this.next += 2;
                let id = self.ids.remove(&address);
                self.totals.unknown_frees += u64::from(id.is_none());
                (id.map(|id| Call::Free { id }), None)
            }
            kind => {
                let bytes = words[2];
                this.next += 3;
                let kind = [Kind::Malloc, Kind::Calloc, Kind::Aligned][kind as usize - 1];
                match address {
                    0 => (Some(Call::Fail { bytes }), None),
                    _ => self.fresh(kind, address, bytes, (first >> 8 & 63) as u8),
                }
            }
        }
    }

    /// A new block. If its address was handed out already, that block has been freed where the recorder did not see it.
    fn fresh(
        &mut self,
        kind: Kind,
        address: u64,
        bytes: u64,
        align_log2: u8,
    ) -> (Option<Call>, Option<u64>) {
        let id = self.next_id;
        self.next_id += 1;
        (Some(Call::Allocate { kind, id, bytes, align_log2 }), self.ids.insert(address, id))
    }

    fn event(&mut self, lane: usize, now_ns: u64, call: Call) -> Event {
        let fresh = &mut self.totals.threads;
        let thread = *self.lanes[lane].number.get_or_insert_with(|| {
            *fresh += 1;
            *fresh - 1
        });
        self.last_ns = self.last_ns.max(now_ns.saturating_sub(self.start_ns));
        self.totals.events += 1;
        Event { at_ns: self.last_ns, thread, call }
    }
}

/// Kinds of records of which more is known than that they allocate: record/raw.h.
const REALLOCATE: u64 = 4;
const FREE: u64 = 5;
const TIME: u64 = 6;

/// Words of a record that begins with this one. None: there is no such record.
fn length_of(first: u64) -> Option<usize> {
    match first & 0xff {
        1..REALLOCATE => Some(3),
        REALLOCATE => Some(5),
        FREE | TIME => Some(2),
        _ => None,
    }
}

#[cold]
fn damaged(shown: &str, lane: &Lane, first: u64) -> anyhow::Error {
    let (thread, kind) = (lane.thread, first & 0xff);
    anyhow!("{shown}: thread {thread} has a record of kind {kind}, which is damage")
}

impl Source for Raw {
    fn about(&self) -> &About {
        &self.about
    }

    fn next(&mut self) -> Result<Option<Event>> {
        if let Some(event) = self.waiting.take() {
            self.totals.events += 1;
            return Ok(Some(event));
        }
        while let Some(lane) = self.front {
            let now_ns = self.lanes[lane].now_ns;
            let (call, lost) = self.step(lane);
            let key = match &self.lanes[lane].moved {
                Some(_) => Some((self.lanes[lane].second(), false, lane)),
                None => self.advance(lane)?,
            };
            self.settle(key);
            let Some(call) = call else { continue };
            let event = self.event(lane, now_ns, call);
            let Some(id) = lost else { return Ok(Some(event)) };
            self.waiting = Some(event);
            self.totals.events -= 1; // until it is its turn
            return Ok(Some(self.event(lane, now_ns, Call::Free { id })));
        }
        Ok(None)
    }

    fn totals(&self) -> &Totals {
        &self.totals
    }
}

/// The blocks of each thread in their order, with threads numbered from 0 without gaps.
fn lanes_of(file: &File, length: u64) -> Result<Vec<Lane>> {
    let mut found: BTreeMap<(u32, u64), (u64, u64, u64)> = BTreeMap::new();
    let mut offset = HEADER_BYTES;
    while offset + BLOCK_HEAD as u64 <= length {
        let mut head = [0u8; BLOCK_HEAD];
        file.read_exact_at(&mut head, offset)?;
        let room = (length - offset).min(BLOCK_BYTES);
        let used = u64_at(&head, 16);
        // A block that was cut off while it was written is whole in the slot that it came from.
        if u32_at(&head, 0) == BLOCK_MAGIC && used <= room {
            let bytes = if used == 0 { room } else { used.max(BLOCK_HEAD as u64) };
            let entry =
                found.entry((u32_at(&head, 4), u64_at(&head, 8))).or_insert((offset, bytes, used));
            if used > entry.2 {
                *entry = (offset, bytes, used);
            }
        }
        offset += BLOCK_BYTES;
    }
    let mut lanes: Vec<Lane> = Vec::new();
    let mut blocks: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
    for ((thread, _), (offset, bytes, _)) in found {
        blocks.entry(thread).or_default().push((offset, bytes));
    }
    if blocks.len() > THREADS_MOST {
        bail!("more than {THREADS_MOST} threads, which is damage");
    }
    for (thread, blocks) in blocks.into_values().enumerate() {
        let blocks = blocks.into_iter();
        lanes.push(Lane {
            thread: thread as u32,
            number: None,
            blocks,
            words: Vec::new(),
            next: 0,
            now_ns: 0,
            moved: None,
        });
    }
    Ok(lanes)
}
