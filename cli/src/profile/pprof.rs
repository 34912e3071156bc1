//! pprof's profile.proto: https://github.com/google/pprof/blob/main/proto/profile.proto

use super::raw::{Module, Profile, Weight};
use super::symbols::{is_allocator, module_of, Function, Symbols};
use super::{lifetimes, missing};
use anyhow::Result;
use flate2::{write::GzEncoder, Compression};
use prost::Message;
use std::collections::HashMap;
use std::io::Write;

#[derive(Clone, PartialEq, Message)]
pub struct ValueType {
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Label {
    #[prost(int64, tag = "1")]
    pub key: i64,
    #[prost(int64, tag = "2")]
    pub str: i64,
    #[prost(int64, tag = "3")]
    pub num: i64,
    #[prost(int64, tag = "4")]
    pub num_unit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Mapping {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub memory_start: u64,
    #[prost(uint64, tag = "3")]
    pub memory_limit: u64,
    #[prost(uint64, tag = "4")]
    pub file_offset: u64,
    #[prost(int64, tag = "5")]
    pub filename: i64,
    #[prost(int64, tag = "6")]
    pub build_id: i64,
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    pub has_inline_frames: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Line {
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    #[prost(int64, tag = "2")]
    pub line: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Location {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    #[prost(uint64, tag = "3")]
    pub address: u64,
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FunctionRecord {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(int64, tag = "2")]
    pub name: i64,
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    #[prost(int64, tag = "4")]
    pub filename: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct File {
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<FunctionRecord>,
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    pub period: i64,
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    pub default_sample_type: i64,
}

/// Which state of the program `inuse_...` shows, and which type a viewer shows first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Live,
    Allocated,
    Peak,
}

/// The comment of a file whose `inuse_...` are not those of the end.
pub const AT_THE_PEAK: &str = "inuse_objects and inuse_space are those at the peak";

/// Builds the tables of the file.
#[derive(Default)]
struct Builder {
    file: File,
    strings: HashMap<String, i64>,
    functions: HashMap<(String, String), u64>,
    locations: HashMap<u64, u64>,
}

impl Builder {
    fn string(&mut self, text: &str) -> i64 {
        if let Some(index) = self.strings.get(text) {
            return *index;
        }
        let index = self.file.string_table.len() as i64;
        self.file.string_table.push(text.into());
        self.strings.insert(text.into(), index);
        index
    }

    fn value(&mut self, name: &str, unit: &str) -> ValueType {
        ValueType { r#type: self.string(name), unit: self.string(unit) }
    }

    fn label(&mut self, key: &str, value: &str) -> Label {
        Label { key: self.string(key), str: self.string(value), ..Label::default() }
    }

    fn lifetime(&mut self, class: usize) -> Label {
        let (key, num_unit) = (self.string(lifetimes::LABEL), self.string(lifetimes::UNIT));
        Label { key, num: lifetimes::least_ns(class) as i64, num_unit, ..Label::default() }
    }

    fn function(&mut self, function: &Function) -> u64 {
        let key = (function.name.clone(), function.file.clone());
        if let Some(id) = self.functions.get(&key) {
            return *id;
        }
        let id = self.file.function.len() as u64 + 1;
        let name = self.string(&function.name);
        let filename = self.string(&function.file);
        self.file.function.push(FunctionRecord { id, name, system_name: name, filename });
        self.functions.insert(key, id);
        id
    }

    fn location(&mut self, modules: &[Module], address: u64, functions: &[Function]) -> u64 {
        if let Some(id) = self.locations.get(&address) {
            return *id;
        }
        let id = self.file.location.len() as u64 + 1;
        let call = address - 1;
        let at = modules.iter().position(|m| (m.start..m.end).contains(&call));
        let line = functions
            .iter()
            .map(|f| Line { function_id: self.function(f), line: f.line.into() })
            .collect();
        let mapping_id = at.map_or(0, |index| index as u64 + 1);
        self.file.location.push(Location { id, mapping_id, address: call, line });
        self.locations.insert(address, id);
        id
    }
}

fn values(allocated: Weight, live: Weight) -> Vec<i64> {
    let count = |objects: f64| objects.round() as i64;
    vec![count(allocated.objects), allocated.bytes as i64, count(live.objects), live.bytes as i64]
}

/// The callers of a site without the allocator's own frames.
pub fn callers<'a>(profile: &Profile, callers: &'a [u64], symbols: &mut Symbols) -> &'a [u64] {
    let own = callers.iter().take_while(|address| {
        let module = module_of(&profile.modules, **address - 1);
        is_allocator(module, symbols.of(&profile.modules, **address))
    });
    let own = own.count();
    if own < callers.len() {
        &callers[own..]
    } else {
        callers
    }
}

/// With `lived`, samples of freed blocks have their lifetime as a label.
pub fn build(profile: &Profile, kind: Kind, lived: bool, symbols: &mut Symbols) -> File {
    let mut builder = Builder::default();
    builder.string("");
    for (name, unit) in [
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
    ] {
        let value = builder.value(name, unit);
        builder.file.sample_type.push(value);
    }
    for (index, module) in profile.modules.iter().enumerate() {
        let filename = builder.string(&module.path.to_string_lossy());
        let build_id = builder.string(&module.build_id);
        builder.file.mapping.push(Mapping {
            id: index as u64 + 1,
            memory_start: module.start,
            memory_limit: module.end,
            file_offset: module.offset,
            filename,
            build_id,
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        });
    }
    for site in &profile.sites {
        let inuse = if kind == Kind::Peak { site.peak } else { site.live };
        let location_id: Vec<u64> = callers(profile, &site.callers, symbols)
            .iter()
            .map(|address| {
                let functions = symbols.of(&profile.modules, *address).to_vec();
                builder.location(&profile.modules, *address, &functions)
            })
            .collect();
        let label = site.labels.iter().map(|(key, value)| builder.label(key, value));
        let label: Vec<Label> = label.collect();
        let mut rest = site.allocated;
        for (class, weight) in lived.then(|| site.by_lifetime()).into_iter().flatten() {
            let Some(class) = class else { continue };
            let mut label = label.clone();
            label.push(builder.lifetime(class));
            let value = values(weight, Weight::default());
            builder.file.sample.push(Sample { location_id: location_id.clone(), value, label });
            rest.objects -= weight.objects;
            rest.bytes = rest.bytes.saturating_sub(weight.bytes);
        }
        if lived && rest.bytes == 0 && inuse.bytes == 0 {
            continue;
        }
        let value = values(rest, inuse);
        builder.file.sample.push(Sample { location_id, value, label });
    }
    builder.file.period_type = Some(builder.value("space", "bytes"));
    builder.file.period = profile.mean_bytes as i64;
    let default = if kind == Kind::Allocated { "alloc_space" } else { "inuse_space" };
    builder.file.default_sample_type = builder.string(default);
    if kind == Kind::Peak {
        let text = builder.string(AT_THE_PEAK);
        builder.file.comment.push(text);
    }
    if let Some(text) = missing(profile.lost) {
        let text = builder.string(&text);
        builder.file.comment.push(text);
    }
    builder.file
}

pub fn compressed(file: &File) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&file.encode_to_vec())?;
    Ok(encoder.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::lifetimes::Lifetimes;
    use crate::profile::raw::Site;

    #[test]
    fn a_file_has_the_four_types_and_every_site() {
        let weight = |objects, bytes| Weight { objects, bytes };
        let site = Site {
            allocated: weight(2.6, 260),
            live: weight(1.0, 100),
            peak: weight(2.0, 200),
            freed: Lifetimes::default(),
            callers: vec![0x1005, 0x1009],
            labels: vec![("tenant".into(), "a".into())],
        };
        let profile =
            Profile { mean_bytes: 512, sites: vec![site.clone(), site], ..Profile::default() };
        let file = build(&profile, Kind::Peak, false, &mut Symbols::default());
        let text = |index: i64| file.string_table[index as usize].as_str();
        let types: Vec<_> = file.sample_type.iter().map(|t| text(t.r#type)).collect();
        assert_eq!(types, ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]);
        assert_eq!(file.sample[0].value, [3, 260, 2, 200]);
        let label = &file.sample[1].label[0];
        assert_eq!((text(label.key), text(label.str)), ("tenant", "a"));
        assert_eq!((file.sample.len(), file.location.len()), (2, 2));
        assert_eq!(text(file.default_sample_type), "inuse_space");
        let live = build(&profile, Kind::Live, false, &mut Symbols::default());
        assert_eq!(live.sample[1].value, [3, 260, 1, 100]);
        let mut text = Vec::new();
        let bytes = compressed(&live).unwrap();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*bytes), &mut text).unwrap();
        assert_eq!(File::decode(&*text).unwrap(), live);
    }

    #[test]
    fn freed_blocks_are_labelled_by_their_lifetimes() {
        let allocated = Weight { objects: 4.0, bytes: 400 };
        let mut site =
            Site { allocated, live: Weight { objects: 1.0, bytes: 100 }, ..Site::default() };
        (site.freed[0], site.freed[5]) = (100, 200);
        let profile = Profile { sites: vec![site], ..Profile::default() };
        let file = build(&profile, Kind::Allocated, true, &mut Symbols::default());
        let values: Vec<_> = file.sample.iter().map(|sample| &*sample.value).collect();
        assert_eq!(values, [[1, 100, 0, 0], [2, 200, 0, 0], [1, 100, 1, 100]]);
        let text = |index: i64| file.string_table[index as usize].as_str();
        let label = &file.sample[1].label[0];
        assert_eq!(
            (text(label.key), label.num, text(label.num_unit)),
            ("lifetime", 1_000_000, "nanoseconds")
        );
        assert!(file.sample[2].label.is_empty());
    }
}
