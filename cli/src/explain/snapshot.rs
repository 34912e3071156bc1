//! The file that a process wrote near its limit (src/debug/snapshot.c): glebe's tables and what the kernel said of the
//! process's memory, read as if from the process itself.
//!
//! ```text
//!   glebe-snapshot 1 | process | crossed | limit... | statistic...       always
//!   a profile, or class...                                               always
//!   status... | map, pages... | memory: bytes at an address ...          if the process came so far
//!   end                                                                  else the file is damaged
//! ```

use super::heap::{self, Located};
use super::parts::Seen;
use super::process::{leave_out_zeros, mappings, Limit, Pages, Stretch, Use, OWN_LIMIT};
use super::shape;
use crate::profile::raw::{decimal, hexadecimal};
use crate::profile::reader;
use crate::size::amount;
use crate::system::live::Reader;
use anyhow::{anyhow, bail, Context, Result};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::io;
use std::path::Path;

const FIRST_LINE: &[u8] = b"glebe-snapshot 1\n";

/// A class: the size of its blocks (0: many sizes), bytes of blocks in use, bytes of its pages.
type Class = (u64, u64, u64);

/// The error about a file that ends too early.
#[derive(Debug)]
struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("it was not written to its end")
    }
}

#[derive(Debug, Default)]
pub struct Snapshot {
    pub program: String,
    pub pid: i32,
    crossed: Option<(u64, String)>,
    failed_bytes: Option<u64>,
    limits: Vec<Limit>,
    statistics: Vec<(String, u64)>,
    classes: Vec<Class>,
    /// The text of the profile, if allocations were sampled.
    pub profile: Option<Vec<u8>>,
    status: BTreeMap<String, u64>,
    maps: String,
    stretches: Vec<(usize, Vec<Stretch>)>,
    shape: Option<u64>,
    live: Option<u64>,
    memory: Copies,
}

/// Pieces of memory, by address.
#[derive(Debug, Default)]
struct Copies(BTreeMap<u64, Vec<u8>>);

impl Reader for Copies {
    fn fill(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        let before = self.0.range(..=address).next_back();
        let (start, copy) = before.ok_or(io::ErrorKind::UnexpectedEof)?;
        let from = (address - start) as usize;
        let part = copy.get(from..from.saturating_add(bytes.len()));
        bytes.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Whether these bytes begin like a snapshot.
pub fn is_one(bytes: &[u8]) -> bool {
    bytes.starts_with(FIRST_LINE)
}

impl Snapshot {
    pub fn read(file: &Path) -> Result<Snapshot> {
        Snapshot::of_file(&reader::bytes_if(file, is_one)?, file)
    }

    /// The snapshot in the bytes of a file.
    pub fn of_file(bytes: &[u8], file: &Path) -> Result<Snapshot> {
        let shown = file.display();
        Snapshot::parse(bytes).map_err(|error| match error.downcast_ref::<Cut>() {
            Some(cut) => anyhow!("{shown} is incomplete: {cut}"),
            None => error.context(format!("{shown} is no snapshot")),
        })
    }

    fn parse(bytes: &[u8]) -> Result<Snapshot> {
        if !is_one(bytes) {
            bail!("it does not begin with \"glebe-snapshot 1\"");
        }
        let mut snapshot = Snapshot::default();
        let mut rest = &bytes[FIRST_LINE.len()..];
        loop {
            let end = rest.iter().position(|byte| *byte == b'\n');
            let end = end.context(Cut)?;
            let line = String::from_utf8_lossy(&rest[..end]).into_owned();
            let offset = bytes.len() - rest.len();
            rest = &rest[end + 1..];
            if line == "end" {
                return Ok(snapshot);
            }
            snapshot.line(&line, &mut rest).with_context(|| format!("at byte {offset}"))?;
        }
    }

    /// Reads a line, and from `rest` what follows and belongs to it.
    fn line(&mut self, line: &str, rest: &mut &[u8]) -> Result<()> {
        let (key, behind) = line.split_once(' ').unwrap_or((line, ""));
        let mut words = behind.split(' ');
        match key {
            "process" => {
                self.pid = decimal(words.next())? as i32;
                self.program = words.collect::<Vec<_>>().join(" ");
            }
            "crossed" => {
                let bytes = decimal(words.next())?;
                self.crossed = Some((bytes, words.collect::<Vec<_>>().join(" ")));
            }
            "failed" => self.failed_bytes = Some(decimal(words.next())?),
            "limit" => {
                let limit_bytes = decimal(words.next())?;
                let used_bytes = decimal(words.next())?;
                let name = words.collect::<Vec<_>>().join(" ");
                self.limits.push(Limit { name, limit_bytes, used_bytes });
            }
            "statistic" => {
                let name = words.next().unwrap_or_default().to_string();
                self.statistics.push((name, decimal(words.next())?));
            }
            "class" => {
                let mut next = || decimal(words.next());
                self.classes.push((next()?, next()?, next()?));
            }
            "glebe-profile" => {
                // It stays bytes: a path need not be UTF-8.
                const END: &[u8] = b"\nend\n";
                let end = rest.windows(END.len()).position(|bytes| bytes == END);
                let end = end.context(Cut)? + END.len();
                self.profile = Some([line.as_bytes(), b"\n", &rest[..end]].concat());
                *rest = &rest[end..];
            }
            "status" => {
                let (name, value) = behind.split_once(':').unwrap_or((behind, ""));
                let value = value.split_whitespace().next();
                self.status.insert(name.into(), decimal(value)?.saturating_mul(1024));
            }
            "map" => {
                self.stretches.push((self.stretches.len(), Vec::new()));
                self.maps += behind;
                self.maps.push('\n');
            }
            "pages" => {
                let start = hexadecimal(words.next())?;
                let end = hexadecimal(words.next())?;
                let pages = match words.next() {
                    Some("r") => Pages::Resident,
                    Some("f") => Pages::File,
                    Some("d") => Pages::Doubtful,
                    Some("s") => Pages::Swapped,
                    _ => bail!("pages of an unknown state"),
                };
                if start > end {
                    bail!("pages that end before they begin");
                }
                let (_, of) = self.stretches.last_mut().context("pages without a mapping")?;
                of.push(Stretch { start, end, pages });
            }
            "shape" => self.shape = Some(hexadecimal(words.next())?),
            "live" => self.live = Some(hexadecimal(words.next())?),
            "memory" => {
                let at = hexadecimal(words.next())?;
                let count = decimal(words.next())? as usize;
                let copy = rest.get(..count).context(Cut)?;
                self.memory.0.insert(at, copy.to_vec());
                *rest = rest.get(count + 1..).unwrap_or_default();
            }
            _ => bail!("{key:?} is unknown"),
        }
        Ok(())
    }

    /// When it was taken, as the end of "resident set ...".
    pub fn moment(&self) -> String {
        match (&self.crossed, self.failed_bytes) {
            (Some((bytes, name)), _) => format!("when it reached {} of {name}", amount(*bytes)),
            (None, Some(bytes)) => format!("when a request of {} failed", amount(bytes)),
            (None, None) => "at its snapshot".into(),
        }
    }

    /// What a look at the process would have seen; None if it ended before it wrote its tables.
    pub fn seen(&self) -> Result<Option<Seen>> {
        let (Some(shape), Some(live)) = (self.shape, self.live) else { return Ok(None) };
        let located = Located::at(self.pid, live, shape::read(&self.memory, shape)?);
        let glebes = heap::read(&self.memory, &[located])?;
        let mappings = mappings(&self.maps, &[]);
        let is_there = |i: &usize| mappings.get(*i).is_some_and(|m| m.usage != Use::Apart);
        let mut stretches = self.stretches.clone();
        stretches.retain(|(i, _)| is_there(i));
        for (i, here) in &mut stretches {
            leave_out_zeros(&mappings[*i], here);
        }
        let status = |name| self.status.get(name).copied().unwrap_or(0);
        // explain adds glebe's own by itself.
        let limits = self.limits.iter().filter(|l| l.name != OWN_LIMIT).cloned().collect();
        Ok(Some(Seen {
            pid: self.pid,
            mappings,
            glebes,
            stretches,
            program: self.program.clone(),
            kernel_bytes: status("VmRSS"),
            peak_bytes: status("VmHWM"),
            limits,
            sampled: self.profile.is_some(),
            sites: None,
        }))
    }

    /// What is known without tables, as a text or as JSON.
    pub fn sums(&self, as_json: bool) -> String {
        if as_json {
            let mut object = Map::new();
            object.insert("program".into(), json!(self.program));
            object.insert("pid".into(), json!(self.pid));
            object.insert("moment".into(), json!(self.moment()));
            let limits = self.limits.iter().map(Limit::json);
            object.insert("limits".into(), limits.collect());
            let classes = self.classes.iter().map(|(block, live, held)| {
                json!({"block_bytes": block, "live_bytes": live, "held_bytes": held})
            });
            object.insert("classes".into(), classes.collect());
            for (name, value) in &self.statistics {
                object.insert(name.clone(), json!(value));
            }
            return Value::Object(object).to_string();
        }
        let (program, pid) = (&self.program, self.pid);
        let mut out = format!("glebe: {program}[{pid}]: sums {}", self.moment());
        for (name, value) in self.statistics.iter().filter(|(_, value)| *value > 0) {
            let shown = if name.ends_with("_bytes") { amount(*value) } else { value.to_string() };
            let _ = write!(out, "\n  {name:<28}{shown:>14}");
        }
        for (block, live, held) in &self.classes {
            let block = if *block == 0 { "many".into() } else { block.to_string() };
            let (live, held) = (amount(*live), amount(*held));
            let _ = write!(out, "\n  blocks of {block:>9} bytes: {live:>12} in use of {held:>12}");
        }
        for limit in &self.limits {
            let _ = write!(out, "\nLimit: {}", limit.text());
        }
        out + "\nThe process ended before it had written which pages are resident, so there are no parts."
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "glebe-snapshot 1\nprocess 7 a b\ncrossed 900 container\nlimit 1000 901 container\n\
        statistic used_bytes 800\nclass 64 300 500\nglebe-profile 1\nmean 5\nend\nend\n";

    #[test]
    fn the_first_part_is_enough() {
        let snapshot = Snapshot::parse(TEXT.as_bytes()).unwrap();
        assert_eq!((snapshot.pid, &*snapshot.program), (7, "a b"));
        assert_eq!(snapshot.profile.as_deref(), Some(&b"glebe-profile 1\nmean 5\nend\n"[..]));
        assert!(snapshot.seen().unwrap().is_none());
        let text = snapshot.sums(false);
        assert!(text.contains("container") && text.contains("64 bytes"), "{text}");
        let object: Value = serde_json::from_str(&snapshot.sums(true)).unwrap();
        assert_eq!(object["used_bytes"], 800);
        assert_eq!(object["classes"][0]["live_bytes"], 300);
    }

    #[test]
    fn a_profile_need_not_be_utf_8() {
        let bytes = TEXT.replace("mean 5", "mean 5 ????????").into_bytes();
        let bytes = bytes.iter().map(|byte| if *byte == b'?' { 0xff } else { *byte });
        let snapshot = Snapshot::parse(&bytes.collect::<Vec<_>>()).unwrap();
        let bytes: &[u8] = b"glebe-profile 1\nmean 5 \xff\xff\xff\xff\xff\xff\xff\xff\nend\n";
        assert_eq!(snapshot.profile.as_deref(), Some(bytes));
        let mut bytes = TEXT.strip_suffix("\nend\nend\n").unwrap().as_bytes().to_vec();
        bytes.extend_from_slice(b"\xff\xff\n");
        let error = Snapshot::of_file(&bytes, Path::new("f")).unwrap_err();
        assert_eq!(format!("{error:#}"), "f is incomplete: it was not written to its end");
    }

    #[test]
    fn memory_is_read_by_address() {
        let mut bytes = TEXT.strip_suffix("end\n").unwrap().as_bytes().to_vec();
        bytes.extend_from_slice(b"memory 1000 4\na\nb\n\nend\n");
        let snapshot = Snapshot::parse(&bytes).unwrap();
        assert_eq!(snapshot.memory.read::<2>(0x1001).unwrap(), *b"\nb");
        assert!(snapshot.memory.read::<2>(0x1003).is_err());
        assert!(snapshot.memory.read::<1>(0xfff).is_err());
    }

    #[test]
    fn what_is_damaged_is_refused() {
        let said = |text: &str| format!("{:#}", Snapshot::parse(text.as_bytes()).unwrap_err());
        assert!(said("").contains("does not begin"));
        assert!(said(TEXT.strip_suffix("end\n").unwrap()).contains("its end"));
        assert!(said(&TEXT.replace("class 64", "class x")).contains("\"x\" is no number"));
        assert!(said(&TEXT.replace("class", "klass")).contains("\"klass\" is unknown"));
        assert!(said("glebe-snapshot 1\nmemory 0 9\nend\n").contains("its end"));
        let pages = "glebe-snapshot 1\nmap 1000-3000 rw-p 0 0 0\npages 2000 1000 r\nend\n";
        assert!(said(pages).contains("end before they begin"));
        // The most that a number can be is no overflow.
        let most = format!("glebe-snapshot 1\nstatus VmRSS: {} kB\nend\n", u64::MAX);
        assert_eq!(Snapshot::parse(most.as_bytes()).unwrap().status["VmRSS"], u64::MAX);
    }
}
