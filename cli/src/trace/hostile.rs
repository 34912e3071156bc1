//! Damaged files: whatever is in them, a reader answers with events or with one line that names the file.

use super::analysis::analyse;
use super::event::{About, Call, Event, Kind, Source, Totals};
use super::format::{Reader, Writer};
use super::raw::Raw;
use crate::compare::noise::{stride, Random};
use anyhow::Result;
use std::fs;

/// Calls of three threads: every kind, blocks that cross threads, and some that stay.
fn sample(calls: usize) -> Vec<Event> {
    let mut random = Random(1);
    let (mut live, mut next, mut threads) = (Vec::new(), 0u64, 0u32);
    let event = |i: usize| {
        let call = match random.below(8) {
            0..3 => {
                let kind = [Kind::Malloc, Kind::Calloc, Kind::Aligned][random.below(3)];
                let align_log2 = if kind == Kind::Aligned { random.below(13) as u8 } else { 0 };
                live.push(next);
                next += 1;
                Call::Allocate {
                    kind,
                    id: next - 1,
                    bytes: random.next() >> random.below(64),
                    align_log2,
                }
            }
            3 if !live.is_empty() => {
                Call::Resize { id: live[random.below(live.len())], bytes: random.next() >> 50 }
            }
            4..7 if !live.is_empty() => {
                Call::Free { id: live.swap_remove(random.below(live.len())) }
            }
            _ => Call::Fail { bytes: random.next() },
        };
        let thread = (random.below(3) as u32).min(threads);
        threads = threads.max(thread + 1);
        Event { at_ns: i as u64 / 7 * 4_000_000, thread, call }
    };
    (0..calls).map(event).collect()
}

fn trace(events: &[Event]) -> Vec<u8> {
    let about =
        About { process: Some(7), command: vec!["a".into(), "b c".into()], ..About::default() };
    let mut writer = Writer::new(Vec::new(), &about).unwrap();
    events.iter().for_each(|event| writer.write(event).unwrap());
    writer.finish(&Totals { unknown_frees: 3, ..Totals::default() }).unwrap()
}

fn read(bytes: &[u8]) -> Result<Vec<Event>> {
    let mut reader = Reader::new(bytes, "FILE")?;
    let mut events = Vec::new();
    while let Some(event) = reader.next()? {
        events.push(event);
    }
    Ok(events)
}

/// One line that names the file, unless the damage is in what the calls say.
fn assert_clear(error: &anyhow::Error) {
    let text = format!("{error:#}");
    assert!(!text.contains('\n') && text.len() < 300, "{text}");
    assert!(text.contains("FILE") || text.contains("the trace is damaged"), "{text}");
}

#[test]
fn a_trace_reads_as_it_was_written() {
    for calls in [0, 1, 1000, 150_000] {
        let events = sample(calls);
        let bytes = trace(&events);
        assert_eq!(read(&bytes).unwrap(), events);
        let mut reader = Reader::new(&bytes[..], "FILE").unwrap();
        let found = analyse(&mut reader).unwrap();
        assert_eq!((found.totals.events, found.totals.unknown_frees), (calls as u64, 3));
        assert_eq!(found.about.command, ["a", "b c"]);
    }
}

#[test]
fn a_trace_that_was_cut_off_is_refused() {
    let bytes = trace(&sample(1200));
    for length in (0..bytes.len()).step_by(stride()) {
        let error = read(&bytes[..length]).unwrap_err();
        assert_clear(&error);
    }
    assert_clear(&read(&[&bytes[..], &[0]].concat()).unwrap_err());
}

#[test]
fn a_bit_that_flipped_is_found() {
    let events = sample(3000);
    let bytes = trace(&events);
    let mut random = Random(2);
    for _ in 0..4000 / stride() {
        let mut bad = bytes.clone();
        let bit = random.below(8 * bad.len());
        bad[bit / 8] ^= 1 << (bit % 8);
        match read(&bad) {
            Err(error) => assert_clear(&error),
            // zstd's headers have bits that mean nothing.
            Ok(read) => assert_eq!(read, events, "bit {bit}"),
        }
    }
}

#[test]
fn columns_with_a_good_checksum_are_checked_too() {
    let plain = columns_of(&trace(&sample(3000)));
    let mut random = Random(3);
    for _ in 0..3000 / stride() {
        let mut bad = plain.clone();
        for _ in 0..=random.below(3) {
            let (at, value) = (random.below(bad.len()), random.next() as u8);
            bad[at] = [value, 0, 0x7f, 0x80, 0xff][random.below(5)];
        }
        let file = around(&bad, 3000);
        match Reader::new(&file[..], "FILE").and_then(|mut reader| analyse(&mut reader)) {
            Ok(_) => {}
            Err(error) => assert_clear(&error),
        }
    }
}

/// The unpacked columns of the first CALL section.
fn columns_of(file: &[u8]) -> Vec<u8> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let call = 12 + 16 + word(12 + 12);
    assert_eq!(&file[call..call + 4], b"CALL");
    zstd::bulk::decompress(&file[call + 16..call + 16 + word(call + 12)], word(call + 8)).unwrap()
}

/// A trace of these columns, packed as they are.
fn around(plain: &[u8], calls: u64) -> Vec<u8> {
    let mut file = trace(&[])[..].to_vec();
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    file.truncate(12 + 16 + word(12 + 12));
    let ops = u32::from_le_bytes(plain[..4].try_into().unwrap());
    let totals =
        serde_json::to_vec(&Totals { events: calls, threads: 3, ..Totals::default() }).unwrap();
    for (tag, events, plain) in [(b"CALL", ops, plain), (b"DONE", 0, &totals)] {
        let packed = zstd::bulk::compress(plain, 1).unwrap();
        file.extend_from_slice(tag);
        for number in [events, plain.len() as u32, packed.len() as u32] {
            file.extend_from_slice(&number.to_le_bytes());
        }
        file.extend_from_slice(&packed);
    }
    file
}

/// A raw file of two threads: T0 allocates, T1 frees, and T0 has the address again.
fn raw() -> Vec<u8> {
    let mut file = vec![0u8; 4096];
    file[..8].copy_from_slice(b"GLBRAW1\0");
    file[8..12].copy_from_slice(&1u32.to_le_bytes());
    file[12..16].copy_from_slice(&65536u32.to_le_bytes());
    let block = |thread: u32, records: &[&[u64]]| {
        let mut block = b"GBLK".to_vec();
        block.extend_from_slice(&thread.to_le_bytes());
        block.resize(32, 0);
        let words = records.iter().flat_map(|record| record.iter());
        words.for_each(|word| block.extend_from_slice(&word.to_le_bytes()));
        block
    };
    let first = |kind: u64, moment: u64| kind | moment << 16;
    let mut one = block(
        0,
        &[
            &[first(6, 0), 5_000_000],
            &[first(1, 0), 0x1000, 64],
            &[first(2, 0), 0x2000, 100],
            &[first(3, 0) | 6 << 8, 0x3000, 10],
            &[first(1, 1), 0x1000, 70],
            &[first(4, 1), 0x2000, 0x4000, 200, 2],
            &[first(4, 2), 0x4000, 0, 1 << 60, 3],
        ],
    );
    one.resize(65536, 0);
    file.extend_from_slice(&one);
    file.extend_from_slice(&block(
        1,
        &[&[first(5, 0), 0x1000], &[first(5, 3), 0x4000], &[first(5, 4), 0x9999]],
    ));
    file
}

fn read_raw(bytes: &[u8]) -> Result<(Vec<Call>, Totals)> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("FILE");
    fs::write(&path, bytes)?;
    let mut raw = Raw::open(&path)?;
    let mut calls = Vec::new();
    while let Some(event) = raw.next()? {
        calls.push(event.call);
    }
    let totals = raw.totals().clone();
    analyse(&mut Raw::open(&path)?)?;
    Ok((calls, totals))
}

#[test]
fn threads_are_merged_by_moments() {
    let (calls, totals) = read_raw(&raw()).unwrap();
    let allocate = |kind, id, bytes, align_log2| Call::Allocate { kind, id, bytes, align_log2 };
    assert_eq!(
        calls,
        [
            allocate(Kind::Malloc, 0, 64, 0),
            allocate(Kind::Calloc, 1, 100, 0),
            allocate(Kind::Aligned, 2, 10, 6),
            Call::Free { id: 0 },
            allocate(Kind::Malloc, 3, 70, 0),
            Call::Resize { id: 1, bytes: 200 },
            Call::Fail { bytes: 1 << 60 },
            Call::Free { id: 1 },
        ]
    );
    assert_eq!((totals.threads, totals.unknown_frees), (2, 1));
}

#[test]
fn damaged_raw_files_end_in_a_line() {
    let good = raw();
    let mut random = Random(4);
    for round in 0..1500 / stride() {
        let mut bad = good.clone();
        if round % 3 == 0 {
            bad.truncate(random.below(bad.len()));
        }
        // Most of the file is empty, so aim at headers and records.
        for _ in 0..=random.below(4) {
            let near = [0, 4096, 4096 + 65536][random.below(3)];
            let at = near + random.below(240);
            if let Some(byte) = bad.get_mut(at) {
                *byte = [random.next() as u8, 0, 1, 0x80, 0xff][random.below(5)];
            }
        }
        if let Err(error) = read_raw(&bad) {
            assert_clear(&error);
        }
    }
}
