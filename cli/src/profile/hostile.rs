//! Damaged profiles: whatever is in a file, the reader answers with stacks or with one line that says what is wrong.

use super::pprof::{build, compressed, File, Kind};
use super::raw::{Profile, Site, Weight};
use super::reader::Limits;
use super::stacks::{Stacks, BYTES_MOST};
use super::symbols::Symbols;
use super::{reader, show};
use crate::compare::noise::{stride, Random};
use crate::screen::Screen;
use anyhow::Result;
use prost::Message;

/// Limits that small files can reach.
const SMALL: Limits = Limits { plain_bytes: 1 << 20, depth: 100, frames: 10_000 };

/// A profile with functions in some frames and none in others.
fn sample(sites: u64) -> File {
    let weight = |bytes| Weight { objects: 2.0, bytes };
    let site = |n: u64| Site {
        allocated: weight(3 * n),
        live: weight(n),
        peak: weight(2 * n),
        freed: std::array::from_fn(|class| class as u64 % (n + 1) / 9),
        callers: (0..n % 9).map(|depth| 0x1000 + 16 * (n % 5) * depth).collect(),
        labels: (0..n % 3).map(|k| (format!("key{k}"), format!("value{n}"))).collect(),
    };
    let profile =
        Profile { mean_bytes: 512, sites: (1..=sites).map(site).collect(), ..Profile::default() };
    let mut file = build(&profile, Kind::Peak, sites % 2 == 1, &mut Symbols::default());
    let (name, program) = (file.string_table.len() as i64, file.string_table.len() as i64 + 1);
    file.string_table.extend(["named".to_string(), "/bin/program".to_string()]);
    file.function.push(super::pprof::FunctionRecord { id: 7, name, ..Default::default() });
    file.mapping.push(super::pprof::Mapping { id: 1, filename: program, ..Default::default() });
    for (index, location) in file.location.iter_mut().enumerate() {
        if index % 2 == 0 {
            location.line.push(super::pprof::Line { function_id: 7, line: 1 });
        } else {
            location.mapping_id = 1;
        }
    }
    file
}

fn read(file: &File) -> Result<Stacks> {
    reader::parse(&file.encode_to_vec(), "FILE", None, &SMALL)
}

fn said(file: &File) -> String {
    let text = format!("{:#}", read(file).unwrap_err());
    text.strip_prefix("FILE is no profile: ").expect(&text).to_string()
}

/// One line, not a long one.
fn assert_clear(error: &anyhow::Error) {
    let text = format!("{error:#}");
    assert!(!text.contains('\n') && text.len() < 300, "{text}");
}

/// What can be done with stacks works, whatever is in them.
fn use_all(stacks: &Stacks) {
    let text = show::folded(stacks).unwrap();
    let lines = text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
    assert_eq!(lines.sum::<u64>(), stacks.total_bytes);
    assert!(stacks.total_bytes <= BYTES_MOST);
    show::table(stacks, None, Screen::stdout());
    show::table(stacks, Some("key1"), Screen::stdout());
    show::changes_table(stacks, stacks, Screen::stdout());
}

#[test]
fn a_profile_reads_as_it_was_written() {
    let stacks = read(&sample(100)).unwrap();
    assert_eq!((stacks.kind, stacks.mean_bytes), (Kind::Peak, 512));
    assert_eq!(stacks.total_bytes, (1..=100).map(|n| 2 * n).sum::<u64>());
    assert!(stacks.names.iter().any(|name| name == "named"), "{:?}", stacks.names);
    assert!(stacks.names.iter().any(|name| name.starts_with("program+0x")), "{:?}", stacks.names);
    let bytes = sample(100).encode_to_vec();
    let all = reader::parse(&bytes, "FILE", Some(Kind::Allocated), &SMALL).unwrap();
    assert_eq!(all.total_bytes, (1..=100).map(|n| 3 * n).sum::<u64>());
    let error = reader::parse(&bytes, "FILE", Some(Kind::Live), &SMALL).unwrap_err();
    assert_eq!(format!("{error:#}"), "FILE: it shows what was in use at the peak");
    use_all(&stacks);
}

#[test]
fn a_file_that_was_cut_off_is_refused() {
    let packed = compressed(&sample(200)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("FILE");
    for length in (0..packed.len()).step_by(stride()) {
        std::fs::write(&path, &packed[..length]).unwrap();
        let text = format!("{:#}", read_file(&path).unwrap_err());
        assert!(text.contains("FILE is no profile: ") && !text.contains('\n'), "{length}: {text}");
    }
    std::fs::write(&path, &packed).unwrap();
    read_file(&path).unwrap();
    std::fs::write(&path, [&packed[..], b"x"].concat()).unwrap();
    assert_clear(&read_file(&path).unwrap_err());
    assert!(format!("{:#}", read_file(dir.path()).unwrap_err()).contains("is no file"));
}

fn read_file(path: &std::path::Path) -> Result<Stacks> {
    reader::parse(&reader::bytes_of(path, &SMALL)?, "FILE", None, &SMALL)
}

#[test]
fn bits_that_flipped_in_a_packed_file_are_found() {
    let packed = compressed(&sample(200)).unwrap();
    let stacks = read(&sample(200)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("FILE");
    let mut random = Random(1);
    for _ in 0..1000 / stride() {
        let mut bad = packed.clone();
        let bit = random.below(8 * bad.len());
        bad[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &bad).unwrap();
        match read_file(&path) {
            Err(error) => assert_clear(&error),
            // gzip's head has bits that mean nothing.
            Ok(read) => assert_eq!(read.stacks, stacks.stacks, "bit {bit}"),
        }
    }
}

#[test]
fn bytes_with_a_good_checksum_are_checked_too() {
    let plain = sample(60).encode_to_vec();
    let mut random = Random(2);
    let (rounds, mut good) = (8000 / stride(), 0);
    for _ in 0..rounds {
        let mut bad = plain.clone();
        for _ in 0..=random.below(4) {
            let (at, value) = (random.below(bad.len()), random.next() as u8);
            bad[at] = [value, 0, 0x7f, 0x80, 0xff][random.below(5)];
        }
        match reader::parse(&bad, "FILE", None, &SMALL) {
            Err(error) => assert_clear(&error),
            Ok(stacks) => {
                good += 1;
                use_all(&stacks);
            }
        }
    }
    assert!(
        (rounds / 80..rounds - rounds / 80).contains(&good),
        "control: {good} of {rounds} were read"
    );
}

#[test]
fn what_refers_to_nothing_is_named() {
    let mut file = sample(9);
    file.sample[3].location_id = vec![99];
    assert_eq!(said(&file), "sample 4 refers to location 99, which is not there");
    let mut file = sample(9);
    file.function.clear();
    assert!(said(&file).ends_with("refers to function 7, which is not there"));
    let mut file = sample(9);
    file.location[1].id = file.location[0].id;
    assert_eq!(said(&file), "two locations have the number 1");
    let mut file = sample(9);
    file.function[0].name = -1;
    assert_eq!(said(&file), "text -1 is not there");
    let mut file = sample(9);
    file.sample[0].value.pop();
    assert_eq!(said(&file), "sample 1 has 3 values for 4 types");
    let mut file = sample(9);
    file.sample[8].value[3] = -5;
    assert!(said(&file).starts_with("sample 9 has a negative size"));
    let mut file = sample(9);
    file.sample.iter_mut().for_each(|sample| sample.value[3] = i64::MAX);
    assert_eq!(said(&file), "it has more bytes than any memory");
    assert!(said(&File::default()).contains("no sample types"));
}

#[test]
fn a_profile_of_time_says_what_it_has() {
    let mut file = sample(2);
    let at = file.string_table.iter().position(|text| text == "inuse_space").unwrap();
    file.string_table[at] = "cpu".into();
    assert_eq!(
        format!("{:#}", read(&file).unwrap_err()),
        "FILE: it has no inuse_space, only alloc_objects, alloc_space, inuse_objects, cpu"
    );
}

#[test]
fn small_files_cannot_become_large() {
    let mut deep = sample(2);
    deep.sample[0].location_id = vec![1; 101];
    deep.sample[0].value[3] = 1;
    assert!(said(&deep).contains("more than 100 frames"));
    let mut wide = sample(9);
    wide.sample[5].location_id = vec![1; 100];
    let one = wide.sample[5].clone();
    wide.sample = vec![one; 101];
    assert!(said(&wide).contains("too many frames"));
    let mut lines = sample(9);
    lines.location[0].line = vec![super::pprof::Line { function_id: 7, line: 1 }; 101];
    assert_eq!(said(&lines), "location 1 has too many lines");
    let mut long = sample(9);
    long.string_table.iter_mut().filter(|t| *t == "named").for_each(|t| *t = "n".repeat(1 << 19));
    assert!(read(&long).unwrap().names.iter().all(|name| name.len() <= 4096));
    // 2 MiB of zeros fit in 20 KiB.
    let bomb = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::copy(&mut std::io::Read::take(std::io::repeat(0), 2 << 20), &mut encoder).unwrap();
        encoder.finish().unwrap()
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("FILE");
    std::fs::write(&path, bomb).unwrap();
    assert!(format!("{:#}", read_file(&path).unwrap_err()).contains("more than 1 MiB"));
}

/// The text of a process may be damaged too.
#[test]
fn texts_are_read_or_refused() {
    let text = "glebe-profile 1\nprocess 12 pro gram\nmodule 1000 9000 800 ab0c /a b\n\
        module a000 b000 0 - \nmean 4096\nsamples 3 lost 1\npeak 700\n\
        site 98304 600 65536 400 0 0 1005 2000\nsite 65536 100 0 0 65536 100\nend\n";
    let mut random = Random(3);
    let (rounds, mut good) = (5000 / stride(), 0);
    for _ in 0..rounds {
        let mut bad = text.as_bytes().to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(bad.len());
            bad[at] = b"0 9fz\n-\x01"[random.below(8)];
        }
        let text = String::from_utf8(bad).unwrap();
        let stacks = Profile::parse(&text).and_then(|profile| {
            super::stacks_of(&profile, Kind::Allocated, true, &mut Symbols::default())
        });
        match stacks {
            Err(error) => assert_clear(&error),
            Ok(stacks) => {
                good += 1;
                use_all(&stacks);
            }
        }
    }
    assert!(
        (rounds / 50..rounds - rounds / 50).contains(&good),
        "control: {good} of {rounds} were read"
    );
}
