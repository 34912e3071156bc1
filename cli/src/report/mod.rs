//! `glebe report`: reports of misuse with functions and lines.
//!
//! ```text
//!   the library, as it reports ──▶ FILE, an object on a line       src/debug/evidence.c, docs/json.md
//!   FILE ──▶ each stack's places in modules ──▶ functions and lines, by profile/symbols
//! ```
//!
//! A file may have reports of several programs and runs. Their modules are one table here, so that each file of a
//! program is read once.

mod options;

pub use options::Options;

use crate::profile::raw::{Module, Place, Profile};
use crate::profile::sites::frames_of;
use crate::profile::symbols::Symbols;
use crate::size::counted;
use crate::stop::{Ending, OWN_FAILURE};
use crate::words::{cut, plain, print, say};
use anyhow::{ensure, Context, Result};
use serde::Deserialize;
use serde_json::{json, Value};
use std::ffi::OsString;
use std::fmt::Write;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Columns of a function in the text.
const SHOWN: usize = 76;
/// Address space that each module has here.
const ROOM: u64 = 1 << 40;
/// More than a line of the library's has.
const LINE_BYTES: u64 = 1 << 20;
/// Lines that are no reports, by number.
const NAMED: u64 = 10;

#[derive(Deserialize)]
struct Report {
    program: String,
    pid: u32,
    call: String,
    address: String,
    finding: String,
    block: Option<Block>,
    found: Vec<Frame>,
    allocated: Vec<Frame>,
    freed: Vec<Frame>,
    modules: Vec<Code>,
}

#[derive(Deserialize)]
struct Block {
    start: String,
    bytes: u64,
    offset: i64,
    freed: bool,
}

#[derive(Deserialize)]
struct Frame {
    address: String,
    module: Option<usize>,
    #[serde(default)]
    offset: u64,
}

#[derive(Deserialize)]
struct Code {
    path: String,
    /// All its bytes, if they are no UTF-8.
    path_hex: Option<String>,
    build_id: String,
}

impl Code {
    fn file(&self) -> PathBuf {
        let bytes = self.path_hex.as_deref().and_then(bytes_of);
        bytes.map_or_else(|| (&self.path).into(), |bytes| OsString::from_vec(bytes).into())
    }
}

/// The bytes of hexadecimal digits.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

/// The files of all reports, and their symbols.
#[derive(Default)]
struct Files {
    profile: Profile,
    symbols: Symbols,
}

impl Files {
    /// The number of a module in the table.
    fn number(&mut self, code: &Code) -> u64 {
        let path = code.file();
        let same = |m: &Module| m.path == path && m.build_id == code.build_id;
        let modules = &mut self.profile.modules;
        let at = modules.iter().position(same).unwrap_or_else(|| {
            let start = (modules.len() as u64 + 1) * ROOM;
            modules.push(Module {
                start,
                end: start + ROOM,
                offset: 0,
                build_id: code.build_id.clone(),
                path: path.clone(),
                place: Place::AtPath,
            });
            modules.len() - 1
        });
        at as u64
    }

    /// The functions of a stack, the innermost first.
    fn names(&mut self, frames: &[Frame], modules: &[Code]) -> Vec<String> {
        let place = |frame: &Frame| match frame.module.and_then(|i| modules.get(i)) {
            Some(code) => Some((self.number(code) + 1) * ROOM + frame.offset % ROOM + 1),
            None => u64::from_str_radix(frame.address.trim_start_matches("0x"), 16).ok(),
        };
        let callers: Vec<u64> = frames.iter().filter_map(place).filter(|at| *at > 0).collect();
        frames_of(&self.profile, &callers, &mut self.symbols)
    }
}

/// The stacks of a report with what they are called: in JSON, and in the text.
fn stacks(report: &Report, files: &mut Files) -> [(&'static str, &'static str, Vec<String>); 3] {
    [
        ("found_at", "found at", &report.found),
        ("allocated_at", "allocated at", &report.allocated),
        ("freed_at", "freed at", &report.freed),
    ]
    .map(|(key, title, frames)| (key, title, files.names(frames, &report.modules)))
}

/// The report as the text shows it: one line, then what it is about.
fn text(report: &Report, files: &mut Files) -> String {
    let Report { program, pid, call, address, finding, .. } = report;
    let mut text = plain(&format!("{program}[{pid}]: {call}({address}): {finding}"));
    if let Some(Block { start, bytes, offset, freed }) = &report.block {
        let state = if *freed { "freed" } else { "in use" };
        let line = format!("  the block: {bytes} bytes at {start}, {state}; offset {offset}");
        let _ = write!(text, "\n{}", plain(&line));
    }
    for (_, title, names) in stacks(report, files).into_iter().filter(|stack| !stack.2.is_empty()) {
        let _ = write!(text, "\n  {title}");
        for name in names {
            let _ = write!(text, "\n    {}", cut(&plain(&name), SHOWN));
        }
    }
    text
}

/// The object of the file with the functions of its stacks.
fn object(line: &str, report: &Report, files: &mut Files) -> Result<Value> {
    let mut object: Value = serde_json::from_str(line)?;
    for (key, _, names) in stacks(report, files) {
        object[key] = json!(names);
    }
    Ok(object)
}

/// The file, if it has an end: a regular one, or a pipe.
fn open(path: &Path) -> Result<BufReader<File>> {
    let name = path.display();
    let kind = fs::metadata(path).with_context(|| format!("{name}"))?.file_type();
    ensure!(kind.is_file() || kind.is_fifo(), "{name} is neither a file nor a pipe");
    Ok(BufReader::new(File::open(path).with_context(|| format!("{name}"))?))
}

/// Reads a line. Keeps the first bytes of one that is too long for a report. False: there is none.
fn next(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut rest = Vec::new();
    let mut last = input.take(LINE_BYTES).read_until(b'\n', line)?;
    while last as u64 == LINE_BYTES && !line.ends_with(b"\n") && !rest.ends_with(b"\n") {
        rest.clear();
        last = input.take(LINE_BYTES).read_until(b'\n', &mut rest)?;
    }
    Ok(!line.is_empty())
}

fn show(line: &str, options: &Options, files: &mut Files) -> Result<String> {
    let report: Report = serde_json::from_str(line)?;
    Ok(match options.json {
        true => object(line, &report, files)?.to_string(),
        false => text(&report, files),
    })
}

/// Runs the command. Lines that are no reports are named, and make it fail at the end; if no line is a report, one line
/// says so. Empty ones may be between the reports of processes that wrote behind a cut line at one time.
pub fn report(options: &Options) -> Result<Ending> {
    let name = options.file.display();
    let mut input = open(&options.file)?;
    let mut files = Files::default();
    let mut line = Vec::new();
    let (mut number, mut shown, mut wrong) = (0u64, 0u64, 0u64);
    let mut complaints = Vec::new(); // said as soon as there is a report
    while next(&mut input, &mut line).with_context(|| format!("{name}"))? {
        number += 1;
        let content = String::from_utf8_lossy(&line);
        if content.trim().is_empty() {
            continue;
        }
        match show(&content, options, &mut files) {
            Ok(text) => {
                print(text)?;
                shown += 1;
            }
            Err(error) => {
                wrong += 1;
                if wrong <= NAMED {
                    complaints.push((number, error));
                }
            }
        }
        if shown > 0 {
            for (line, error) in complaints.drain(..) {
                say(format!("{name}: line {line} is no report: {error}"));
            }
        }
    }
    if let (0, Some((line, error))) = (shown, complaints.first()) {
        let lines = counted(wrong as usize, "line");
        say(format!("{name} has no report, but {lines} of something else; line {line}: {error}"));
    } else if wrong > NAMED {
        say(format!("{name}: {} more lines are no reports", wrong - NAMED));
    }
    files.symbols.tell_unread();
    if shown + wrong == 0 {
        say(format!("{name} has no report"));
    }
    Ok(Ending::Exit(if wrong > 0 { OWN_FAILURE } else { 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"program": "a\u0007b", "pid": 7, "build": "default", "call": "access",
        "address": "0x1048", "finding": "read after free: at offset 72 of a block of 80 bytes",
        "block": {"start": "0x1000", "bytes": 80, "offset": 72, "freed": true},
        "found": [{"address": "0x5001", "module": 0, "offset": 4096}, {"address": "0x9001"}],
        "allocated": [{"address": "0x6001", "module": 1, "offset": 16}], "freed": [],
        "modules": [{"path": "/none/program", "build_id": ""}, {"path": "/none/x.so", "build_id": "ab"}]}"#;

    #[test]
    fn places_without_symbols_are_named_by_their_module() {
        let report: Report = serde_json::from_str(LINE).unwrap();
        let mut files = Files::default();
        let expected = "\
            a?b[7]: access(0x1048): read after free: at offset 72 of a block of 80 bytes\n  \
            the block: 80 bytes at 0x1000, freed; offset 72\n  \
            found at\n    program+0x1000\n    ?+0x9000\n  \
            allocated at\n    x.so+0x10";
        assert_eq!(text(&report, &mut files), expected);
        assert_eq!(text(&report, &mut files), expected, "the modules have their numbers");
        assert_eq!(files.profile.modules.len(), 2);
        let object = object(LINE, &report, &mut files).unwrap();
        assert_eq!(object["found_at"], json!(["program+0x1000", "?+0x9000"]));
        assert_eq!(object["freed_at"], json!([]));
        assert_eq!(object["build"], "default");
    }
}
