//! The text that the library writes: see src/debug/profile.c.

use super::lifetimes::{Lifetimes, CLASSES};
use anyhow::{bail, ensure, Context, Result};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::ops::AddAssign;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

/// Where the file of a module is.
#[derive(Debug, Clone, Default)]
pub enum Place {
    /// At its path, if the build-id there is the same.
    #[default]
    AtPath,
    /// The path is gone, or leads to another file; this is the one that runs.
    Held(Arc<File>),
    /// The same, but the kernel does not let us open the one that runs.
    Lost,
}

impl PartialEq for Place {
    fn eq(&self, other: &Place) -> bool {
        match (self, other) {
            (Place::Held(one), Place::Held(other)) => Arc::ptr_eq(one, other),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

/// A piece of code that was loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    pub start: u64,
    pub end: u64,
    /// Of `start` in the file.
    pub offset: u64,
    /// In hexadecimal digits; empty if the file has none.
    pub build_id: String,
    pub path: PathBuf,
    pub place: Place,
}

/// Estimates: blocks, and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Weight {
    pub objects: f64,
    pub bytes: u64,
}

impl AddAssign for Weight {
    fn add_assign(&mut self, other: Weight) {
        self.objects += other.objects;
        self.bytes += other.bytes;
    }
}

/// What one stack allocated.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Site {
    pub allocated: Weight,
    pub live: Weight,
    pub peak: Weight,
    pub freed: Lifetimes,
    /// Return addresses, the innermost first.
    pub callers: Vec<u64>,
    /// Keys and values.
    pub labels: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Profile {
    pub process: u32,
    pub program: String,
    pub mean_bytes: u64,
    pub samples: u64,
    pub lost: u64,
    pub peak_bytes: u64,
    pub modules: Vec<Module>,
    pub sites: Vec<Site>,
    /// While a text is read: its labels by number, and what is known of the site in the next line.
    pub labels: HashMap<u64, (String, String)>,
    pub next_labels: Vec<(String, String)>,
    pub next_freed: Lifetimes,
}

/// A word of a text that the library writes.
pub fn decimal(word: Option<&str>) -> Result<u64> {
    let word = word.context("a number is missing")?;
    word.parse().with_context(|| format!("{word:?} is no number"))
}

/// An address, in hexadecimal digits.
pub fn hexadecimal(word: Option<&str>) -> Result<u64> {
    let word = word.context("an address is missing")?;
    u64::from_str_radix(word, 16).with_context(|| format!("{word:?} is no address"))
}

/// A path as this system has it: any bytes, and `\012` for a newline, unless there is a file of that very name. Of a
/// Windows program: Wine shows the whole file system as drive Z.
fn path_of(bytes: &[u8]) -> PathBuf {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    match text.split_once(":\\") {
        Some((drive, path)) if drive.len() == 1 => {
            let drive = if drive == "Z" { "".into() } else { format!("{drive}:") };
            format!("{drive}/{}", path.replace('\\', "/")).into()
        }
        _ => with_newlines(bytes),
    }
}

fn with_newlines(bytes: &[u8]) -> PathBuf {
    const NEWLINE: &[u8] = b"\\012";
    let as_it_is = PathBuf::from(OsStr::from_bytes(bytes));
    if !bytes.windows(NEWLINE.len()).any(|four| four == NEWLINE) || as_it_is.exists() {
        return as_it_is;
    }
    let (mut path, mut rest) = (Vec::new(), bytes);
    while let Some(&byte) = rest.first() {
        let behind = rest.strip_prefix(NEWLINE);
        path.push(if behind.is_some() { b'\n' } else { byte });
        rest = behind.unwrap_or(&rest[1..]);
    }
    OsString::from_vec(path).into()
}

/// A line without what ends it; a Windows program may have written it.
fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn weight<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<Weight> {
    let objects = decimal(words.next())? as f64 / 65536.0;
    Ok(Weight { objects, bytes: decimal(words.next())? })
}

impl Profile {
    #[cfg(test)]
    pub fn parse(text: &str) -> Result<Profile> {
        Profile::of_bytes(text.as_bytes())
    }

    /// From the bytes of a file. A path in it need not be UTF-8.
    pub fn of_bytes(bytes: &[u8]) -> Result<Profile> {
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let mut lines = lines.map(without_end).enumerate();
        if lines.next().map(|(_, line)| line) != Some(b"glebe-profile 1") {
            bail!("it does not begin with \"glebe-profile 1\"");
        }
        let mut profile = Profile::default();
        for (number, line) in lines {
            if line == b"end" {
                return Ok(profile);
            }
            profile.line(line).with_context(|| format!("line {}", number + 1))?;
        }
        bail!("it has no end: it was not written to the end");
    }

    fn line(&mut self, bytes: &[u8]) -> Result<()> {
        let line = &*String::from_utf8_lossy(bytes);
        let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut words = rest.split(' ');
        match key {
            "process" => {
                let (process, program) = rest.split_once(' ').unwrap_or((rest, ""));
                self.process = decimal(Some(process))? as u32;
                self.program = program.into();
            }
            "mean" => self.mean_bytes = decimal(words.next())?,
            "samples" => {
                self.samples = decimal(words.next())?;
                self.lost = decimal(words.nth(1))?;
            }
            "peak" => self.peak_bytes = decimal(words.next())?,
            "module" => {
                let parts: Vec<&str> = rest.splitn(5, ' ').collect();
                let part = |i: usize| parts.get(i).copied();
                self.modules.push(Module {
                    start: hexadecimal(part(0))?,
                    end: hexadecimal(part(1))?,
                    offset: hexadecimal(part(2))?,
                    build_id: part(3).context("a build-id is missing")?.trim_matches('-').into(),
                    path: path_of(
                        bytes
                            .splitn(6, |byte| *byte == b' ')
                            .nth(5)
                            .context("a path is missing")?,
                    ),
                    place: Place::AtPath,
                });
            }
            "site" => {
                let (allocated, live, peak) =
                    (weight(&mut words)?, weight(&mut words)?, weight(&mut words)?);
                let callers = words.map(|w| hexadecimal(Some(w))).collect::<Result<Vec<_>>>()?;
                if callers.contains(&0) {
                    bail!("a caller is at address 0");
                }
                let labels = std::mem::take(&mut self.next_labels);
                let freed = std::mem::take(&mut self.next_freed);
                self.sites.push(Site { allocated, live, peak, freed, callers, labels });
            }
            "lived" => {
                let count = words.clone().count();
                ensure!(count == CLASSES, "it has {count} lifetimes, not {CLASSES}");
                for (bytes, word) in self.next_freed.iter_mut().zip(words) {
                    *bytes = decimal(Some(word))?;
                }
            }
            "label" => {
                let parts: Vec<&str> = rest.splitn(3, ' ').collect();
                let [number, key, value] = parts[..] else { bail!("a label has no value") };
                self.labels.insert(decimal(Some(number))?, (key.into(), value.into()));
            }
            "labels" => {
                for word in words {
                    let number = decimal(Some(word))?;
                    let label = self.labels.get(&number);
                    let label = label.with_context(|| format!("there is no label {number}"))?;
                    self.next_labels.push(label.clone());
                }
            }
            _ => bail!("{key:?} is unknown"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "glebe-profile 1\nprocess 12 pro gram\nmodule 1000 9000 800 ab0c /a b\n\
        module a000 b000 0 - \nmean 4096\nsamples 3 lost 1\npeak 700\n\
        site 98304 600 65536 400 0 0 1005 2000\nsite 65536 100 0 0 65536 100\nend\n";

    #[test]
    fn labels_are_of_the_next_site() {
        let site = "site 65536 1 0 0 0 0 10\n";
        let text = format!(
            "glebe-profile 1\nlabel 1 a some value\nlabel 2 b c\nlabels 2 1\n{site}{site}end\n"
        );
        let label = |key: &str, value: &str| (key.to_string(), value.to_string());
        let profile = Profile::parse(&text).unwrap();
        assert_eq!(profile.sites[0].labels, [label("b", "c"), label("a", "some value")]);
        assert_eq!(profile.sites[1].labels, []);
        for wrong in ["labels 3", "labels x", "label 1 a"] {
            let text = format!("glebe-profile 1\n{wrong}\nend\n");
            assert!(Profile::parse(&text).is_err(), "{wrong}");
        }
    }

    #[test]
    fn wine_shows_all_files_as_drive_z() {
        let shown = ["/a b", "Z:\\a\\b.exe", "C:\\windows\\x.dll", "odd:\\name"];
        let shown = shown.map(|text| path_of(text.as_bytes()));
        assert_eq!(
            shown,
            ["/a b", "/a/b.exe", "C:/windows/x.dll", "odd:\\name"].map(PathBuf::from)
        );
    }

    #[test]
    fn lifetimes_are_of_the_next_site() {
        let site = "site 65536 9 0 0 0 0 10\n";
        let lived = "lived 0 0 7 0 0 0 0 0 0 0 0 0 0 0 0 0 0 2\n";
        let text = format!("glebe-profile 1\n{lived}{site}{site}end\n");
        let profile = Profile::parse(&text).unwrap();
        let freed = profile.sites[0].freed;
        assert_eq!((freed[2], freed[17], profile.sites[1].freed), (7, 2, Lifetimes::default()));
        for wrong in ["lived", "lived 1 2", &lived.replace('7', "x"), &lived.replace('\n', " 1")] {
            let text = format!("glebe-profile 1\n{wrong}\nend\n");
            assert!(Profile::parse(&text).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_line_is_read() {
        let profile = Profile::parse(TEXT).unwrap();
        assert_eq!((profile.process, &*profile.program), (12, "pro gram"));
        assert_eq!((profile.mean_bytes, profile.samples, profile.lost), (4096, 3, 1));
        assert_eq!(profile.modules[0].path, PathBuf::from("/a b"));
        assert_eq!(profile.modules[0].build_id, "ab0c");
        assert_eq!(profile.modules[1].build_id, "");
        assert_eq!(profile.sites[0].allocated, Weight { objects: 1.5, bytes: 600 });
        assert_eq!(profile.sites[0].callers, [0x1005, 0x2000]);
        assert!(profile.sites[1].callers.is_empty());
    }

    #[test]
    fn what_is_damaged_is_refused_with_its_line() {
        let said = |text: &str| format!("{:#}", Profile::parse(text).unwrap_err());
        assert!(said("").contains("does not begin"));
        assert!(said(&TEXT.replace("end\n", "")).contains("no end"));
        assert!(said(&TEXT.replace("1005", "xyz")).contains("line 8"));
        assert!(said(&TEXT.replace("mean 4096", "mean")).contains("line 5"));
        assert!(said(&TEXT.replace("peak", "pique")).contains("\"pique\" is unknown"));
    }
}
