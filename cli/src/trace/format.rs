//! The trace file: few bytes a call, checked, and read in bounded memory. docs/record.md has the format in one table.
//!
//! ```text
//!   magic, version | section META | section CALL | section CALL | ... | section DONE
//!
//!   section: tag, events, plain bytes, packed bytes (4 x u32, little endian), then one zstd frame with a checksum
//! ```
//!
//! A CALL section has up to 65,536 operations in four columns, since bytes of one kind compress best together:
//!
//! ```text
//!   ops     a byte each: the call, or a change of time or thread before the next call
//!   sizes   bytes of an allocation or realloc
//!   refs    the block of a free or realloc: how many allocations ago it was made, 1 for the last
//!   more    nanoseconds since the last time; a thread; log2 of an alignment
//! ```
//!
//! Numbers are LEB128. A reader believes nothing: each length has a most, each column must end where its operations
//! end, and a section that fails names itself and the file.

use super::event::{About, Call, Event, Kind, Source, Totals};
use anyhow::{anyhow, bail, Context, Result};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

pub const MAGIC: [u8; 8] = *b"GLBTRACE";
const VERSION: u32 = 1;
const META: u32 = u32::from_le_bytes(*b"META");
const CALL: u32 = u32::from_le_bytes(*b"CALL");
const DONE: u32 = u32::from_le_bytes(*b"DONE");
/// Operations in a section, which bounds the reader's memory.
const OPS_MOST: usize = 1 << 16;
/// A section's columns, unpacked: an operation takes a byte, and at most two numbers of ten.
const PLAIN_MOST: u32 = 24 * OPS_MOST as u32;
const PACKED_MOST: u32 = 2 * PLAIN_MOST;
/// Of zstd. Level 9 takes three to seven times the instructions, for traces that are 2 to 15 % smaller.
const LEVEL: i32 = 3;

mod op {
    pub const MALLOC: u8 = 1;
    pub const CALLOC: u8 = 2;
    pub const ALIGNED: u8 = 3;
    pub const RESIZE: u8 = 4;
    pub const FREE: u8 = 5;
    pub const FAIL: u8 = 6;
    pub const TIME: u8 = 7;
    pub const THREAD: u8 = 8;
}

/// Writes a number as LEB128.
fn push(column: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        column.push(number as u8 | 0x80);
        number >>= 7;
    }
    column.push(number as u8);
}

/// Reads a number; None at the end, or if it has more than 64 bits.
fn pull(column: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = column.split_first()?;
        *column = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Where both sides are in the trace.
#[derive(Default)]
struct Place {
    at_ns: u64,
    thread: u32,
    next_id: u64,
}

pub struct Writer<W: Write> {
    out: W,
    packer: zstd::bulk::Compressor<'static>,
    place: Place,
    columns: [Vec<u8>; 4],
    totals: Totals,
}

impl Writer<BufWriter<File>> {
    pub fn create(path: &Path, about: &About) -> Result<Self> {
        let file = File::create(path).with_context(|| path.display().to_string())?;
        Writer::new(BufWriter::new(file), about)
    }
}

impl<W: Write> Writer<W> {
    pub fn new(mut out: W, about: &About) -> Result<Self> {
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        let mut packer = zstd::bulk::Compressor::new(LEVEL)?;
        packer.include_checksum(true)?;
        let mut writer = Writer {
            out,
            packer,
            place: Place::default(),
            columns: Default::default(),
            totals: Totals::default(),
        };
        writer.section(META, 0, &serde_json::to_vec(about)?)?;
        Ok(writer)
    }

    fn section(&mut self, tag: u32, events: u32, plain: &[u8]) -> Result<()> {
        let packed = self.packer.compress(plain)?;
        for word in [tag, events, plain.len() as u32, packed.len() as u32] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        Ok(self.out.write_all(&packed)?)
    }

    fn flush(&mut self) -> Result<()> {
        let events = self.columns[0].len() as u32;
        if events == 0 {
            return Ok(());
        }
        let mut plain = Vec::new();
        for column in &self.columns {
            plain.extend_from_slice(&(column.len() as u32).to_le_bytes());
        }
        for column in &mut self.columns {
            plain.append(column);
        }
        self.section(CALL, events, &plain)
    }

    pub fn write(&mut self, event: &Event) -> Result<()> {
        let [ops, sizes, refs, more] = &mut self.columns;
        let place = &mut self.place;
        if event.at_ns > place.at_ns {
            ops.push(op::TIME);
            push(more, event.at_ns - place.at_ns);
            place.at_ns = event.at_ns;
        }
        if event.thread != place.thread {
            ops.push(op::THREAD);
            push(more, event.thread.into());
            place.thread = event.thread;
        }
        match event.call {
            Call::Allocate { kind, bytes, align_log2, .. } => {
                ops.push(match kind {
                    Kind::Malloc => op::MALLOC,
                    Kind::Calloc => op::CALLOC,
                    Kind::Aligned => op::ALIGNED,
                });
                push(sizes, bytes);
                if kind == Kind::Aligned {
                    push(more, align_log2.into());
                }
                place.next_id += 1;
            }
            Call::Resize { id, bytes } => {
                ops.push(op::RESIZE);
                push(refs, place.next_id - id);
                push(sizes, bytes);
            }
            Call::Free { id } => {
                ops.push(op::FREE);
                push(refs, place.next_id - id);
            }
            Call::Fail { bytes } => {
                ops.push(op::FAIL);
                push(sizes, bytes);
            }
        }
        self.totals.events += 1;
        self.totals.threads = self.totals.threads.max(event.thread + 1);
        match self.columns[0].len() + 3 > OPS_MOST {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Ends the trace. Of `totals` only what the events do not show is used.
    pub fn finish(mut self, totals: &Totals) -> Result<W> {
        self.flush()?;
        let Totals { events, threads, .. } = self.totals;
        let totals = Totals { events, threads, ..totals.clone() };
        self.section(DONE, 0, &serde_json::to_vec(&totals)?)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

pub struct Reader<R: Read> {
    input: R,
    shown: String,
    about: About,
    totals: Totals,
    place: Place,
    plain: Vec<u8>,
    /// What is left of each column of `plain`.
    columns: [(usize, usize); 4],
    /// Sections read, for errors.
    sections: u64,
    done: bool,
}

impl Reader<BufReader<File>> {
    pub fn open(path: &Path) -> Result<Self> {
        let shown = path.display().to_string();
        let file = File::open(path).with_context(|| shown.clone())?;
        Reader::new(BufReader::new(file), &shown)
    }
}

impl<R: Read> Reader<R> {
    pub fn new(input: R, shown: &str) -> Result<Self> {
        let mut reader = Reader {
            input,
            shown: shown.into(),
            about: About::default(),
            totals: Totals::default(),
            place: Place::default(),
            plain: Vec::new(),
            columns: [(0, 0); 4],
            sections: 0,
            done: false,
        };
        let mut head = [0u8; 12];
        reader.fill(&mut head)?;
        let version = u32::from_le_bytes(head[8..].try_into()?);
        if head[..8] != MAGIC {
            bail!("{shown} is no trace of glebe");
        }
        if version != VERSION {
            bail!("{shown} is a trace of version {version}; this glebe reads version {VERSION}");
        }
        if reader.section()? != (META, 0) {
            return Err(reader.damage("does not begin with META"));
        }
        let about = serde_json::from_slice(&reader.plain);
        reader.about = about.map_err(|_| reader.damage("has no readable description"))?;
        Ok(reader)
    }

    fn damage(&self, what: &str) -> anyhow::Error {
        anyhow!("{}: damaged: section {} {what}", self.shown, self.sections)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.input.read_exact(bytes).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                anyhow!("{}: truncated in section {}", self.shown, self.sections)
            }
            _ => anyhow!("{}: {e}", self.shown),
        })
    }

    /// Unpacks the next section into `plain`. Returns its tag and number of operations.
    fn section(&mut self) -> Result<(u32, u32)> {
        self.sections += 1;
        let mut head = [0u8; 16];
        self.fill(&mut head)?;
        let word = |i: usize| u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]);
        let (tag, events, plain, packed) = (word(0), word(4), word(8), word(12));
        if plain > PLAIN_MOST || packed > PACKED_MOST || events as usize > OPS_MOST {
            return Err(self.damage("claims impossible lengths"));
        }
        let mut bytes = vec![0u8; packed as usize];
        self.fill(&mut bytes)?;
        self.plain.clear();
        self.plain.resize(plain as usize, 0);
        let unpacked = zstd::bulk::decompress_to_buffer(&bytes, &mut self.plain[..]);
        match unpacked {
            Ok(length) if length == plain as usize => Ok((tag, events)),
            Ok(_) => Err(self.damage("is shorter than it claims")),
            Err(e) => Err(self.damage(&format!("does not unpack ({e})"))),
        }
    }

    /// Takes the columns of a CALL section apart.
    fn enter(&mut self, events: u32) -> Result<()> {
        let mut at = 16;
        for i in 0..4 {
            let length = self
                .plain
                .get(4 * i..4 * i + 4)
                .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            let end =
                length.map(|length| at + length as usize).filter(|end| *end <= self.plain.len());
            let Some(end) = end else { return Err(self.damage("has columns beyond its end")) };
            self.columns[i] = (at, end);
            at = end;
        }
        let ops = self.columns[0];
        if at != self.plain.len() || ops.1 - ops.0 != events as usize || events == 0 {
            return Err(self.damage("has other lengths than it claims"));
        }
        Ok(())
    }

    fn number(&mut self, column: usize) -> Result<u64> {
        let (start, end) = self.columns[column];
        let mut rest = &self.plain[start..end];
        let number = pull(&mut rest);
        self.columns[column].0 = end - rest.len();
        number.ok_or_else(|| self.damage("ends within a number"))
    }

    /// The block of a free or realloc.
    fn block(&mut self) -> Result<u64> {
        let back = self.number(2)?;
        let id = self.place.next_id.checked_sub(back).filter(|_| back > 0);
        id.ok_or_else(|| self.damage("names a block that was never allocated"))
    }

    /// The next section with calls; false after the last.
    fn refill(&mut self) -> Result<bool> {
        if self.columns.iter().any(|(start, end)| start != end) {
            return Err(self.damage("has more numbers than calls"));
        }
        match self.section()? {
            (CALL, events) => self.enter(events).map(|()| true),
            (DONE, 0) => {
                let counted = (self.totals.events, self.totals.threads);
                let said: Option<Totals> = serde_json::from_slice(&self.plain).ok();
                let said = said.filter(|said| (said.events, said.threads) == counted);
                self.totals =
                    said.ok_or_else(|| self.damage("counts other calls than there are"))?;
                let mut one = [0u8];
                if self.input.read(&mut one).map_err(|e| anyhow!("{}: {e}", self.shown))? != 0 {
                    return Err(self.damage("is followed by more"));
                }
                self.done = true;
                Ok(false)
            }
            _ => Err(self.damage("is of no known kind")),
        }
    }
}

impl<R: Read> Source for Reader<R> {
    fn about(&self) -> &About {
        &self.about
    }

    fn next(&mut self) -> Result<Option<Event>> {
        loop {
            if self.done {
                return Ok(None);
            }
            let (at, end) = self.columns[0];
            if at == end {
                self.refill()?;
                continue;
            }
            let op = self.plain[at];
            self.columns[0].0 += 1;
            let call = match op {
                op::MALLOC | op::CALLOC | op::ALIGNED => {
                    let kind =
                        [Kind::Malloc, Kind::Calloc, Kind::Aligned][usize::from(op - op::MALLOC)];
                    let bytes = self.number(1)?;
                    let align = if kind == Kind::Aligned { self.number(3)? } else { 0 };
                    let Ok(align_log2) = u8::try_from(align.min(64)) else { continue };
                    if align_log2 > 63 {
                        return Err(self.damage("has an alignment that cannot be"));
                    }
                    let id = self.place.next_id;
                    self.place.next_id += 1;
                    Call::Allocate { kind, id, bytes, align_log2 }
                }
                op::RESIZE => Call::Resize { id: self.block()?, bytes: self.number(1)? },
                op::FREE => Call::Free { id: self.block()? },
                op::FAIL => Call::Fail { bytes: self.number(1)? },
                op::TIME => {
                    let later = self.number(3)?;
                    let at_ns = self.place.at_ns.checked_add(later);
                    self.place.at_ns =
                        at_ns.ok_or_else(|| self.damage("goes beyond the end of time"))?;
                    continue;
                }
                op::THREAD => {
                    // Threads come in their order, so a number is at most one more than those before.
                    let thread = self.number(3)?;
                    if thread > u64::from(self.totals.threads) {
                        return Err(self.damage("leaves out a thread"));
                    }
                    self.place.thread = thread as u32;
                    continue;
                }
                other => return Err(self.damage(&format!("has an operation {other}"))),
            };
            self.totals.events += 1;
            self.totals.threads = self.totals.threads.max(self.place.thread + 1);
            return Ok(Some(Event { at_ns: self.place.at_ns, thread: self.place.thread, call }));
        }
    }

    fn totals(&self) -> &Totals {
        &self.totals
    }
}
