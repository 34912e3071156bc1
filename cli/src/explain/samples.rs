//! The samples of a process's profiler, read from outside: which stacks allocated, and which sampled blocks are live.
//!
//! ```text
//!   region.sampler ─▶ records in chunks of 128 KiB: samples, sites, frames        src/heap/sample.c
//!       sample: block, site        site: weights, frame        frame: address, the frame that called it
//! ```
//!
//! The process runs on, or is stopped by the caller. A record that changes meanwhile may be read half: numbers are
//! bounded, so that a walk along frames ends.

use super::bytes::{copy, u32_at, u64_at};
use super::heap::Located;
use super::shape::Shape;
use crate::profile::lifetimes::CLASSES;
use crate::profile::raw::{Module, Place, Profile, Site, Weight};
use crate::system::live::Reader;
use anyhow::{ensure, Context, Result};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// At most so many callers has a stack.
const FRAMES_MAX: usize = 128;
/// Of a build-id's note, and all before it in the file's head.
const NOTES_MAX: u64 = 1 << 12;

pub struct Samples {
    pub mean_bytes: u64,
    pub taken: u64,
    pub lost: u64,
    pub peak_bytes: u64,
    /// By number: the first is none.
    pub sites: Vec<Site>,
    /// The sampled blocks that are live, by address.
    pub blocks: HashMap<u64, Sampled>,
    /// Where its own records are.
    pub chunks: HashSet<u64>,
}

/// A sampled block that is live.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampled {
    /// What it stands for.
    pub weight: Weight,
    /// Which sample it was.
    pub born: u64,
    /// The number of its site.
    pub site: u32,
}

impl Sampled {
    pub fn block_bytes(&self) -> u64 {
        (self.weight.bytes as f64 / self.weight.objects).round() as u64
    }
}

/// Records of one kind.
struct Records {
    bytes: Vec<u8>,
    each: usize,
    count: usize,
    chunks: Vec<u64>,
}

impl Records {
    fn of(
        memory: &impl Reader,
        shape: &Shape,
        region: &[u8],
        at: usize,
        each: usize,
    ) -> Result<Records> {
        let value = |name| shape.value(name);
        let chunk_bytes = value("sample_chunk_bytes")?;
        let per_chunk = (chunk_bytes / each.max(1)).max(1);
        let most = per_chunk * value("sample_chunks")?;
        let count = (u32_at(region, at + value("records.count")?) as usize).min(most);
        let (mut bytes, mut chunks) = (Vec::new(), Vec::new());
        for chunk in 0..count.div_ceil(per_chunk) {
            let start = u64_at(region, at + value("records.chunks")? + 8 * chunk);
            let piece = copy(memory, start, (per_chunk * each) as u64)
                .context("the records of its samples cannot be read")?;
            bytes.extend(piece);
            chunks.push(start);
        }
        Ok(Records { bytes, each, count, chunks })
    }

    fn at(&self, number: usize) -> &[u8] {
        self.bytes.get(number * self.each..(number + 1) * self.each).unwrap_or_default()
    }
}

/// The samples of the process whose glebes these are. None if there are none, if the library is too old to say
/// where they are, or if the process ended meanwhile.
pub fn of(memory: &impl Reader, located: &[Located]) -> Option<Samples> {
    read(memory, &located.first()?.shape).ok().flatten()
}

/// Where the lifetimes of a site are. An older library counts none.
pub fn freed_at(shape: &Shape) -> Result<Option<usize>> {
    let Ok(freed) = shape.value("site.freed") else { return Ok(None) };
    let classes = shape.value("lifetimes")?;
    ensure!(classes == CLASSES, "it has {classes} classes of lifetimes, not {CLASSES}");
    Ok(Some(freed))
}

/// The samples; None if the process never took any.
pub fn read(memory: &impl Reader, shape: &Shape) -> Result<Option<Samples>> {
    let Ok(1) = shape.value("samples") else { return Ok(None) };
    let value = |name| shape.value(name);
    let region = copy(memory, shape.region, shape.layout.region as u64)?;
    // Labels make its heap before a profile is started.
    if u32_at(&region, value("region.sampler.heap")?) == 0
        || u64_at(&region, value("region.sampler.mean_bytes")?) == 0
    {
        return Ok(None);
    }
    let records = |name, each| Records::of(memory, shape, &region, value(name)?, value(each)?);
    let samples = records("region.sampler.samples", "sample")?;
    let frames = records("region.sampler.frames", "frame")?;
    let sites = records("region.sampler.sites", "site")?;
    let [address, caller] = [value("frame.address")?, value("frame.caller")?];
    // A library without labels does not say where they are.
    let has_labels = shape.value("label").is_ok();
    let labels = match has_labels {
        true => records("region.sampler.labels", "label")?,
        false => Records { bytes: Vec::new(), each: 0, count: 0, chunks: Vec::new() },
    };
    let label_of = |number: usize| {
        let text = |name| {
            let bytes = labels.at(number).get(value(name)?..).unwrap_or_default();
            let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            Ok::<_, anyhow::Error>(String::from_utf8_lossy(bytes).into_owned())
        };
        Ok::<_, anyhow::Error>((text("label.key")?, text("label.value")?))
    };
    let peak_number = u64_at(&region, value("region.sampler.peak_number")?);
    let freed = freed_at(shape)?;
    let freed_of = |site: &[u8]| {
        std::array::from_fn(|class| freed.map_or(0, |freed| u64_at(site, freed + 8 * class)))
    };
    let mut all = Vec::new();
    for number in 0..sites.count {
        let site = sites.at(number);
        let weight = |at: usize| Weight {
            objects: u64_at(site, at) as f64 / 65536.0,
            bytes: u64_at(site, at + 8),
        };
        let live = weight(value("site.live")?);
        let is_kept = u64_at(site, value("site.peak_number")?) == peak_number;
        let peak = if is_kept { weight(value("site.peak")?) } else { live };
        let (mut callers, mut own) = (Vec::new(), Vec::new());
        let mut frame = u32_at(site, value("site.frame")?) as usize;
        while frame != 0 && frame < frames.count && callers.len() < FRAMES_MAX {
            callers.push(u64_at(frames.at(frame), address));
            let label = match has_labels {
                true => u32_at(frames.at(frame), value("frame.label")?) as usize,
                false => 0,
            };
            if label != 0 && label < labels.count {
                own.push(label_of(label)?);
            }
            frame = u32_at(frames.at(frame), caller) as usize;
        }
        callers.retain(|address| *address != 0);
        let allocated = weight(value("site.allocated")?);
        all.push(Site { allocated, live, peak, freed: freed_of(site), callers, labels: own });
    }
    let [block, site, born] =
        [value("sample.block")?, value("sample.site")?, value("sample.born")?];
    let [objects, bytes] = [value("sample.objects")?, value("sample.bytes")?];
    let live = (1..samples.count).map(|number| samples.at(number));
    let live = live.map(|sample| {
        let weight = Weight {
            objects: u64_at(sample, objects) as f64 / 65536.0,
            bytes: u64_at(sample, bytes),
        };
        let sampled = Sampled { weight, born: u64_at(sample, born), site: u32_at(sample, site) };
        (u64_at(sample, block), sampled)
    });
    let blocks = live
        .filter(|(at, s)| *at != 0 && (s.site as usize) < all.len() && s.weight.objects > 0.0)
        .collect();
    let heads = u64_at(&region, value("region.sampler.sample_heads")?);
    let chunks = [samples.chunks, sites.chunks, frames.chunks, labels.chunks, vec![heads]].concat();
    let word = |name| Ok::<_, anyhow::Error>(u64_at(&region, value(name)?));
    Ok(Some(Samples {
        mean_bytes: word("region.sampler.mean_bytes")?,
        taken: word("region.sampler.taken")?,
        lost: word("region.sampler.lost")?,
        peak_bytes: word("region.sampler.peak_bytes")?,
        sites: all,
        blocks,
        chunks: chunks.into_iter().collect(),
    }))
}

impl Samples {
    /// As the profile that the process itself would write.
    pub fn profile(&self, process: i32, program: &str, modules: Vec<Module>) -> Profile {
        Profile {
            process: process as u32,
            program: program.into(),
            mean_bytes: self.mean_bytes,
            samples: self.taken,
            lost: self.lost,
            peak_bytes: self.peak_bytes,
            modules,
            sites: self.sites.iter().skip(1).cloned().collect(),
            ..Profile::default()
        }
    }
}

/// The code that a process has loaded, by its maps, with the build-ids in its memory.
pub fn modules(pid: i32, memory: &impl Reader, maps: &str) -> Vec<Module> {
    let mut all = Vec::new();
    let (mut path, mut build_id) = ("", String::new());
    let mut found: HashMap<&str, (PathBuf, Place)> = HashMap::new();
    for line in maps.lines() {
        let Some((range, rest)) = line.split_once(' ') else { continue };
        let Some(at) = rest.find('/') else { continue };
        let mut words = rest.split(' ');
        let (rights, offset) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let hex = |text| u64::from_str_radix(text, 16).unwrap_or(0);
        let (start, end) = range.split_once('-').map_or((0, 0), |(a, b)| (hex(a), hex(b)));
        let offset = hex(offset);
        if path != &rest[at..] {
            path = &rest[at..];
            build_id = match offset {
                0 => build_id_at(memory, start).unwrap_or_default(),
                _ => String::new(),
            };
        }
        if rights.contains('x') {
            let build_id = build_id.clone();
            let (path, place) = found.entry(path).or_insert_with(|| file_of(pid, range, path));
            let (path, place) = (path.clone(), place.clone());
            all.push(Module { start, end, offset, build_id, path, place });
        }
    }
    all
}

/// What the kernel adds to the path of a file that is not there any more, or that another one has replaced.
const DELETED: &str = " (deleted)";

/// The file that is mapped at `range` under the name that the text of maps has for it. Bytes of a path that are no
/// UTF-8 are lost in that text, and `\012` may be a newline; the kernel's link has the path itself. To open what a link
/// leads to takes CAP_CHECKPOINT_RESTORE, but the program's own file may always be opened.
fn file_of(pid: i32, range: &str, name: &str) -> (PathBuf, Place) {
    // The text has at least eight digits of an address, the link's name no zero before it.
    let range: Vec<&str> = range.split('-').map(|digits| digits.trim_start_matches('0')).collect();
    let link = format!("/proc/{pid}/map_files/{}", range.join("-"));
    let whole = match name.contains(char::REPLACEMENT_CHARACTER) || name.contains("\\012") {
        true => fs::read_link(&link).unwrap_or_else(|_| name.into()),
        false => name.into(),
    };
    let bytes = whole.as_os_str().as_bytes();
    let Some(before) = bytes.strip_suffix(DELETED.as_bytes()).filter(|_| !whole.exists()) else {
        return (whole, Place::AtPath);
    };
    let program = format!("/proc/{pid}/exe");
    let is_program = || fs::read_link(&program).is_ok_and(|path| path == whole);
    let file = File::open(link).ok();
    let file = file.or_else(|| File::open(&program).ok().filter(|_| is_program()));
    let place = file.map_or(Place::Lost, |file| Place::Held(Arc::new(file)));
    (OsStr::from_bytes(before).into(), place)
}

/// The build-id in the notes of the file whose first bytes are at this address; 64 bits only.
fn build_id_at(memory: &impl Reader, at: u64) -> Option<String> {
    const NOTE: u32 = 4;
    const BUILD_ID: usize = 3;
    let head = memory.read::<64>(at).ok()?;
    if !head.starts_with(b"\x7fELF\x02") {
        return None;
    }
    let count = u16::from_ne_bytes([head[56], head[57]]).min(32);
    for number in 0..u64::from(count) {
        let header = memory.read::<56>(at + u64_at(&head, 32) + 56 * number).ok()?;
        if u32_at(&header, 0) != NOTE {
            continue;
        }
        let bytes = u64_at(&header, 32).min(NOTES_MAX);
        let notes = copy(memory, at + u64_at(&header, 8), bytes).ok()?;
        let mut from = 0;
        while from + 12 <= notes.len() {
            let [name, desc, kind] = [0, 4, 8].map(|i| u32_at(&notes, from + i) as usize);
            let text = from + 12;
            let id = text + name.next_multiple_of(4);
            if kind == BUILD_ID && notes.get(text..text + 4) == Some(b"GNU\0") {
                let id = notes.get(id..id + desc)?;
                return Some(id.iter().map(|byte| format!("{byte:02x}")).collect());
            }
            from = id + desc.next_multiple_of(4);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::live::{maps_of, Memory};
    use object::Object;

    #[test]
    fn the_build_id_in_memory_is_that_of_the_file() {
        let pid = std::process::id() as i32;
        let modules = modules(pid, &Memory { pid }, &maps_of(pid).unwrap());
        let libc = modules.iter().find(|m| m.path.to_string_lossy().contains("libc.so"));
        let Some(libc) = libc else { return };
        let bytes = std::fs::read(&libc.path).unwrap();
        let elf = object::File::parse(&*bytes).unwrap();
        let id = elf.build_id().unwrap().unwrap_or_default();
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(libc.build_id, id);
        let ours = test_address as *const () as u64;
        assert!(modules.iter().any(|m| (m.start..m.end).contains(&ours)));
    }

    fn test_address() {}
}
