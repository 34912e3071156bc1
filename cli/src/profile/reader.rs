//! Reads a profile from a file: pprof's format, packed or plain, or the text that a process wrote.
//!
//! A file may be damaged, or be made by somebody else. Every number that refers to something is checked, and the file
//! can make the reader use a few gigabytes at most:
//!
//! ```text
//!   unpacked bytes   128 MiB      a stack   2,000 frames      all stacks   16 Mi frames
//! ```

use super::lifetimes;
use super::pprof::{File, Kind, Mapping};
use super::raw::Weight;
use super::stacks::Stacks;
use super::MISSING;
use crate::explain::snapshot;
use anyhow::{anyhow, bail, ensure, Context, Result};
use flate2::read::MultiGzDecoder;
use prost::Message;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

/// What a file may make the reader use.
pub struct Limits {
    pub plain_bytes: u64,
    pub depth: usize,
    pub frames: usize,
}

pub const LIMITS: Limits = Limits { plain_bytes: 128 << 20, depth: 2000, frames: 16 << 20 };

const PACKED: [u8; 2] = [0x1f, 0x8b];
/// What begins a profile that is not packed: its first field, a sample type.
const PLAIN: [u8; 3] = [0x0a, 0x04, 0x08];
/// What begins the text of a process.
pub const TEXT: &[u8] = b"glebe-profile ";
/// What tells a profile or a snapshot from a program.
const HEAD_BYTES: u64 = 32;

/// The bytes of a file, unpacked.
pub fn bytes_of(path: &Path, limits: &Limits) -> Result<Vec<u8>> {
    let shown = path.display();
    let about = std::fs::metadata(path).with_context(|| format!("cannot read {shown}"))?;
    ensure!(about.is_file(), "{shown} is no file");
    let file = std::fs::File::open(path).with_context(|| format!("cannot read {shown}"))?;
    let mut packed = Vec::new();
    let read = file.take(limits.plain_bytes + 1).read_to_end(&mut packed);
    read.with_context(|| format!("cannot read {shown}"))?;
    unpacked(packed, limits.plain_bytes).with_context(|| format!("{shown} is no profile"))
}

fn unpacked(packed: Vec<u8>, most: u64) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    if packed.starts_with(&PACKED) {
        let decoder = MultiGzDecoder::new(&*packed);
        let read = decoder.take(most + 1).read_to_end(&mut plain);
        read.map_err(|error| anyhow!("it is damaged: {error}"))?;
    } else {
        plain = packed;
    }
    ensure!(plain.len() as u64 <= most, "it has more than {} MiB", most >> 20);
    ensure!(!plain.is_empty(), "it is empty");
    Ok(plain)
}

/// Whether a file looks like a profile: packed or not, or a process's text or snapshot.
pub fn looks_like_one(path: &Path) -> bool {
    let head = head_of(path);
    head.starts_with(&PACKED)
        || head.starts_with(&PLAIN)
        || head.starts_with(TEXT)
        || snapshot::is_one(&head)
}

/// The first bytes of a file; none of what is no file.
pub fn head_of(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    let file = std::fs::metadata(path).ok().filter(|about| about.is_file());
    let file = file.and_then(|_| std::fs::File::open(path).ok());
    if let Some(file) = file {
        let _ = file.take(HEAD_BYTES).read_to_end(&mut head); // the error comes again when the file is read
    }
    head
}

/// The bytes of a file or a pipe. Of one that begins otherwise, such as /dev/zero, the first bytes alone.
pub fn bytes_if(path: &Path, begins: impl Fn(&[u8]) -> bool) -> Result<Vec<u8>> {
    let shown = || format!("cannot read {}", path.display());
    let mut file = std::fs::File::open(path).with_context(shown)?;
    let mut bytes = Vec::new();
    file.by_ref().take(HEAD_BYTES).read_to_end(&mut bytes).with_context(shown)?;
    if begins(&bytes) {
        file.read_to_end(&mut bytes).with_context(shown)?;
    }
    Ok(bytes)
}

/// The stacks of pprof's bytes. Without a `kind`, those that a viewer would show first.
pub fn parse(plain: &[u8], title: &str, kind: Option<Kind>, limits: &Limits) -> Result<Stacks> {
    let no_profile = || format!("{title} is no profile");
    let file = File::decode(plain).map_err(|_| anyhow!("it is not in pprof's format"));
    let file = file.with_context(no_profile)?;
    let tables = Tables::new(&file).with_context(no_profile)?;
    let kind = tables.kind(kind).with_context(|| title.to_string())?;
    let columns = tables.columns(kind).with_context(|| title.to_string())?;
    let mut stacks = stacks_of(&tables, title, kind, columns, limits).with_context(no_profile)?;
    let comments = file.comment.iter().filter_map(|comment| tables.text(*comment).ok());
    stacks.notes =
        comments.filter(|text| text.ends_with(MISSING)).map(crate::words::plain).collect();
    Ok(stacks)
}

fn stacks_of(
    tables: &Tables,
    title: &str,
    kind: Kind,
    (objects, bytes): (Option<usize>, usize),
    limits: &Limits,
) -> Result<Stacks> {
    let file = tables.file;
    let mean_bytes = if tables.period_is_bytes()? { file.period.max(0) as u64 } else { 0 };
    let mut stacks = Stacks::new(title.into(), kind, mean_bytes);
    let mut frames_left = limits.frames;
    let mut names: HashMap<usize, Vec<u32>> = HashMap::new();
    for (number, sample) in file.sample.iter().enumerate() {
        let about = || format!("sample {}", number + 1);
        ensure!(
            sample.value.len() == file.sample_type.len(),
            "{} has {} values for {} types",
            about(),
            sample.value.len(),
            file.sample_type.len()
        );
        let value = |column: usize| u64::try_from(sample.value[column]);
        let Ok(bytes) = value(bytes) else {
            bail!("{} has a negative size: a difference of profiles has no stacks", about());
        };
        let objects = match objects {
            Some(column) => value(column)
                .map_err(|_| anyhow!("{} has a negative number of blocks", about()))?
                as f64,
            None => 0.0,
        };
        if bytes == 0 {
            continue;
        }
        let mut frames = Vec::new();
        for id in &sample.location_id {
            let at = *tables.locations.get(id).with_context(|| {
                format!("{} refers to location {id}, which is not there", about())
            })?;
            if let std::collections::hash_map::Entry::Vacant(entry) = names.entry(at) {
                let texts = tables.names_at(at, limits.depth)?;
                frames_left = frames_left.checked_sub(texts.len()).context(TOO_MANY)?;
                entry.insert(texts.iter().map(|text| stacks.number(text)).collect());
            }
            frames.extend_from_slice(&names[&at]);
            ensure!(
                frames.len() <= limits.depth,
                "{} has a stack of more than {} frames",
                about(),
                limits.depth
            );
        }
        frames_left = frames_left.checked_sub(frames.len()).context(TOO_MANY)?;
        frames.reverse();
        let (mut labels, mut lifetime) = (Vec::new(), None);
        for label in &sample.label {
            let (key, value) = (tables.text(label.key)?, tables.text(label.str)?);
            if key == lifetimes::LABEL && tables.text(label.num_unit)? == lifetimes::UNIT {
                lifetime = lifetimes::class_from(label.num);
            }
            // Labels of other programs may have numbers in place of a text.
            if !key.is_empty() && !value.is_empty() {
                frames_left = frames_left.checked_sub(1).context(TOO_MANY)?;
                labels.push((stacks.number(key), stacks.number(value)));
            }
        }
        stacks.add_lived(frames, Weight { objects, bytes }, labels, lifetime)?;
    }
    Ok(stacks)
}

const TOO_MANY: &str = "its stacks have too many frames";

/// A file whose references are found by number.
struct Tables<'a> {
    file: &'a File,
    locations: HashMap<u64, usize>,
    functions: HashMap<u64, usize>,
    mappings: HashMap<u64, &'a Mapping>,
}

/// The index of each id, which must be different from 0 and from all others.
fn indexed(what: &str, ids: impl Iterator<Item = u64>) -> Result<HashMap<u64, usize>> {
    let mut found = HashMap::new();
    for (index, id) in ids.enumerate() {
        ensure!(id != 0, "a {what} has no number");
        ensure!(found.insert(id, index).is_none(), "two {what}s have the number {id}");
    }
    Ok(found)
}

impl<'a> Tables<'a> {
    fn new(file: &'a File) -> Result<Tables<'a>> {
        ensure!(!file.sample_type.is_empty(), "it has no sample types");
        ensure!(file.string_table.first().is_some_and(|s| s.is_empty()), "its texts begin wrongly");
        let mappings = indexed("mapping", file.mapping.iter().map(|m| m.id))?;
        Ok(Tables {
            file,
            locations: indexed("location", file.location.iter().map(|l| l.id))?,
            functions: indexed("function", file.function.iter().map(|f| f.id))?,
            mappings: mappings.into_iter().map(|(id, at)| (id, &file.mapping[at])).collect(),
        })
    }

    fn text(&self, index: i64) -> Result<&'a str> {
        let text = usize::try_from(index).ok().and_then(|at| self.file.string_table.get(at));
        text.map(String::as_str).with_context(|| format!("text {index} is not there"))
    }

    fn column(&self, name: &str, unit: &str) -> Result<Option<usize>> {
        for (column, of) in self.file.sample_type.iter().enumerate() {
            if self.text(of.r#type)? == name && self.text(of.unit)? == unit {
                return Ok(Some(column));
            }
        }
        Ok(None)
    }

    /// The columns of a kind: blocks, if the file has them, and bytes.
    fn columns(&self, kind: Kind) -> Result<(Option<usize>, usize)> {
        let of = if kind == Kind::Allocated { "alloc" } else { "inuse" };
        let bytes = self.column(&format!("{of}_space"), "bytes")?;
        let bytes = bytes.with_context(|| {
            let types = self.file.sample_type.iter().map(|t| self.text(t.r#type).unwrap_or("?"));
            let types = types.take(9).collect::<Vec<_>>().join(", ");
            format!("it has no {of}_space, only {types}")
        })?;
        Ok((self.column(&format!("{of}_objects"), "count")?, bytes))
    }

    /// What the file shows: a profile at the peak has nothing of the end.
    fn kind(&self, wanted: Option<Kind>) -> Result<Kind> {
        let mut inuse = Kind::Live;
        for comment in &self.file.comment {
            if self.text(*comment)? == super::pprof::AT_THE_PEAK {
                inuse = Kind::Peak;
            }
        }
        match wanted {
            Some(Kind::Allocated) => Ok(Kind::Allocated),
            Some(kind) => {
                ensure!(kind == inuse, "it shows what was {}", inuse.text());
                Ok(kind)
            }
            None if self.text(self.file.default_sample_type)? == "alloc_space" => {
                Ok(Kind::Allocated)
            }
            None => Ok(inuse),
        }
    }

    fn period_is_bytes(&self) -> Result<bool> {
        match &self.file.period_type {
            Some(of) => Ok(self.text(of.unit)? == "bytes"),
            None => Ok(false),
        }
    }

    /// The names at a location, the innermost first: its functions, or the place in its file.
    fn names_at(&self, at: usize, most: usize) -> Result<Vec<Cow<'a, str>>> {
        let location = &self.file.location[at];
        ensure!(location.line.len() <= most, "location {} has too many lines", location.id);
        let mut names: Vec<Cow<str>> = Vec::new();
        for line in &location.line {
            let function = self.functions.get(&line.function_id).with_context(|| {
                let (id, function) = (location.id, line.function_id);
                format!("location {id} refers to function {function}, which is not there")
            })?;
            let function = &self.file.function[*function];
            let name = match self.text(function.name)? {
                "" => self.text(function.system_name)?,
                name => name,
            };
            names.push(if name.is_empty() { "?".into() } else { name.into() });
        }
        if names.is_empty() {
            names.push(match self.mappings.get(&location.mapping_id) {
                Some(mapping) => {
                    let path = self.text(mapping.filename)?;
                    let file = path.rsplit('/').next().unwrap_or(path);
                    let start = mapping.memory_start.wrapping_sub(mapping.file_offset);
                    format!("{file}+{:#x}", location.address.wrapping_sub(start)).into()
                }
                None => format!("{:#x}", location.address).into(),
            });
        }
        Ok(names)
    }
}
