//! Reads the recorder's raw files: merges the threads, and gives blocks ids instead of addresses.
//!
//! record/raw.h describes the file. Nothing in it is trusted: a damaged record ends the reading with an error, a block
//! that is there twice counts once, and addresses are only names.
//!
//! ```text
//!   blocks by thread ──▶ one lane a thread ──▶ heap by (moment, allocations first) ──▶ address -> id ──▶ events
//! ```
//!
//! A realloc passes the heap twice: at its first moment it gives up the old address, at its second it has the new one.

use super::event::{About, Call, Event, Kind, Source, Totals};
use anyhow::{bail, Context, Result};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
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

/// A record before addresses become ids.
#[derive(Debug, Clone, Copy)]
enum Record {
    Allocate {
        kind: Kind,
        address: u64,
        bytes: u64,
        align_log2: u8,
    },
    Reallocate {
        old: u64,
        new: u64,
        bytes: u64,
        second: u64,
    },
    /// The second half of a realloc, of a block that had this id.
    Moved {
        id: Option<u64>,
        new: u64,
        bytes: u64,
    },
    Free {
        address: u64,
    },
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
    next: usize,
    now_ns: u64,
    head: Option<Record>,
}

pub struct Raw {
    file: File,
    shown: String,
    about: About,
    totals: Totals,
    start_ns: u64,
    last_ns: u64,
    lanes: Vec<Lane>,
    /// (moment, whether it frees, lane)
    order: BinaryHeap<Reverse<(u64, bool, usize)>>,
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
            order: BinaryHeap::new(),
            ids: FxHashMap::default(),
            next_id: 0,
            waiting: None,
        };
        for lane in 0..raw.lanes.len() {
            raw.lanes[lane].now_ns = start_ns;
            raw.advance(lane)?;
        }
        Ok(raw)
    }

    /// Takes the lane's next record as its head, and puts it in order.
    fn advance(&mut self, lane: usize) -> Result<()> {
        let shown = &self.shown;
        let this = &mut self.lanes[lane];
        this.head = None;
        loop {
            let first = this.words.get(this.next).copied().unwrap_or(0);
            if first == 0 {
                let Some((offset, bytes)) = this.blocks.next() else { return Ok(()) };
                let mut block = vec![0u8; bytes as usize];
                self.file.read_exact_at(&mut block, offset).with_context(|| shown.clone())?;
                let words = block[BLOCK_HEAD.min(block.len())..].chunks_exact(8);
                this.words = words.map(|word| u64_at(word, 0)).collect();
                this.next = 0;
                continue;
            }
            let words = &this.words[this.next..];
            let length = match first & 0xff {
                1..=3 => 3,
                4 => 5,
                5 | 6 => 2,
                other => bail!(
                    "{shown}: thread {} has a record of kind {other}, which is damage",
                    this.thread
                ),
            };
            if words.len() < length {
                bail!("{shown}: a record of thread {} is cut off", this.thread);
            }
            let moment = first >> 16;
            let align_log2 = (first >> 8 & 63) as u8;
            let (record, frees) = match first & 0xff {
                kind @ 1..=3 => {
                    let kind = [Kind::Malloc, Kind::Calloc, Kind::Aligned][kind as usize - 1];
                    (
                        Record::Allocate { kind, address: words[1], bytes: words[2], align_log2 },
                        false,
                    )
                }
                4 => {
                    let (old, new, bytes, second) = (words[1], words[2], words[3], words[4]);
                    (Record::Reallocate { old, new, bytes, second }, true)
                }
                5 => (Record::Free { address: words[1] }, true),
                _ => {
                    this.now_ns = words[1];
                    this.next += length;
                    continue;
                }
            };
            this.next += length;
            this.head = Some(record);
            self.order.push(Reverse((moment, frees, lane)));
            return Ok(());
        }
    }

    /// Handles one head, which is no, one or two calls.
    fn step(&mut self, lane: usize) -> Result<(Option<Call>, Option<Call>)> {
        let Some(record) = self.lanes[lane].head else { return Ok((None, None)) };
        let mut fresh = |ids: &mut FxHashMap<u64, u64>, address| {
            let id = self.next_id;
            self.next_id += 1;
            (id, ids.insert(address, id))
        };
        let (call, lost) = match record {
            Record::Reallocate { old, new, bytes, second } => {
                let id = if new == 0 { None } else { self.ids.remove(&old) };
                self.lanes[lane].head = Some(Record::Moved { id, new, bytes });
                self.order.push(Reverse((second, false, lane)));
                return Ok((None, None));
            }
            Record::Free { address } => {
                let id = self.ids.remove(&address);
                self.totals.unknown_frees += u64::from(id.is_none());
                (id.map(|id| Call::Free { id }), None)
            }
            Record::Allocate { address: 0, bytes, .. } | Record::Moved { new: 0, bytes, .. } => {
                (Some(Call::Fail { bytes }), None)
            }
            Record::Allocate { kind, address, bytes, align_log2 } => {
                let (id, lost) = fresh(&mut self.ids, address);
                (Some(Call::Allocate { kind, id, bytes, align_log2 }), lost)
            }
            Record::Moved { id: Some(id), new, bytes } => {
                let lost = self.ids.insert(new, id);
                (Some(Call::Resize { id, bytes }), lost)
            }
            Record::Moved { id: None, new, bytes } => {
                self.totals.unknown_frees += 1;
                let (id, lost) = fresh(&mut self.ids, new);
                (Some(Call::Allocate { kind: Kind::Malloc, id, bytes, align_log2: 0 }), lost)
            }
        };
        self.advance(lane)?;
        // The address was handed out again, so its block has been freed where the recorder did not see it.
        Ok(match lost {
            Some(id) => (Some(Call::Free { id }), call),
            None => (call, None),
        })
    }
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
        while let Some(Reverse((_, _, lane))) = self.order.pop() {
            let now_ns = self.lanes[lane].now_ns;
            if let (Some(call), then) = self.step(lane)? {
                let fresh = &mut self.totals.threads;
                let thread = *self.lanes[lane].number.get_or_insert_with(|| {
                    *fresh += 1;
                    *fresh - 1
                });
                self.totals.events += 1;
                self.last_ns = self.last_ns.max(now_ns.saturating_sub(self.start_ns));
                let event = |call| Event { at_ns: self.last_ns, thread, call };
                self.waiting = then.map(event);
                return Ok(Some(event(call)));
            }
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
            head: None,
        });
    }
    Ok(lanes)
}
