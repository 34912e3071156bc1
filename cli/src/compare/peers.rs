//! The allocators of a comparison: names and paths become libraries that can be put under a program.

use crate::stop::{Stop, WRONG_LINE};
use crate::system::libraries::{build, builds, find, name_of, usable, PEERS};
use anyhow::{anyhow, Result};
use std::path::{Path, PathBuf};

/// One side of the comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Contender {
    pub name: String,
    /// The library to put under the program; None for the system's malloc.
    pub library: Option<PathBuf>,
}

/// The name of the system's malloc.
pub const SYSTEM: &str = "system";

/// The contenders of `--with` and `--only`, in the order of the table.
pub fn choose(with: &[String], only: &[String]) -> Result<Vec<Contender>> {
    let default = ["found".to_string()];
    let (fixed, wanted) = match (with, only) {
        ([], []) => (&[SYSTEM, "glebe"][..], &default[..]),
        (with, []) => (&[SYSTEM, "glebe"][..], with),
        (_, only) => (&[][..], only),
    };
    let mut chosen: Vec<Contender> = Vec::new();
    let words = fixed.iter().copied().chain(wanted.iter().map(|word| word.trim()));
    for word in words.filter(|word| !word.is_empty()) {
        for contender in contenders_of(word)? {
            match chosen.iter().find(|other| other.name == contender.name) {
                None => chosen.push(contender),
                Some(other) if *other == contender => {}
                Some(_) => {
                    return Err(wrong(format!(
                        "two allocators are called {}; name one of them with NAME=PATH",
                        contender.name
                    )))
                }
            }
        }
    }
    if chosen.is_empty() {
        return Err(wrong("nothing to compare: --only names no allocator".into()));
    }
    Ok(chosen)
}

/// The contenders of one word of `--with`: one, or any number for `found`.
fn contenders_of(word: &str) -> Result<Vec<Contender>> {
    let one = |name: &str, library: Option<PathBuf>| vec![Contender { name: name.into(), library }];
    if word == SYSTEM {
        return Ok(one(SYSTEM, None));
    }
    if let Some(build) = build(word) {
        return Ok(one(word, Some(build.place()?)));
    }
    if word == "found" {
        let found = PEERS.iter().filter_map(|(name, files)| Some((*name, find(files)?)));
        return Ok(found.flat_map(|(name, path)| one(name, Some(path))).collect());
    }
    if let Some((name, path)) = word.split_once('=') {
        if name.is_empty() || name == SYSTEM || build(name).is_some() {
            return Err(wrong(format!("{word}: choose a name of its own for {path}")));
        }
        return Ok(one(name, Some(usable(Path::new(path))?)));
    }
    if word.contains(std::path::is_separator) {
        let path = usable(Path::new(word))?;
        return Ok(one(&name_of(Path::new(word)), Some(path)));
    }
    let files = PEERS.iter().find(|(name, _)| *name == word).map(|(_, files)| *files);
    let known = || {
        let peers = PEERS.iter().map(|(name, _)| *name);
        [SYSTEM].into_iter().chain(builds()).chain(peers).collect::<Vec<_>>().join(", ")
    };
    match files {
        Some(files) => find(files).map(|path| one(word, Some(path))).ok_or_else(|| {
            anyhow!("{word} was not found on this machine ({}); give it as {word}=PATH", files[0])
        }),
        None => Err(wrong(format!(
            "{word}: no allocator of that name; known are {}; others as NAME=PATH",
            known()
        ))),
    }
}

/// Words of the command line that make no sense. A library that is not there, or cannot be used, is another error.
fn wrong(message: String) -> anyhow::Error {
    Stop { code: WRONG_LINE, message }.into()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn names(with: &[&str], only: &[&str]) -> Result<Vec<String>> {
        let owned = |words: &[&str]| words.iter().map(|w| w.to_string()).collect::<Vec<_>>();
        let chosen = choose(&owned(with), &owned(only))?;
        Ok(chosen.into_iter().map(|contender| contender.name).collect())
    }

    #[test]
    fn system_and_glebe_always_take_part_unless_only_says_otherwise() {
        assert_eq!(names(&[], &[]).unwrap()[..2], [SYSTEM, "glebe"]);
        assert_eq!(names(&["glebe-audit"], &[]).unwrap(), [SYSTEM, "glebe", "glebe-audit"]);
        assert_eq!(names(&[], &["glebe", "system"]).unwrap(), ["glebe", SYSTEM]);
        assert_eq!(names(&["glebe", ""], &[]).unwrap(), [SYSTEM, "glebe"]);
    }

    #[test]
    fn names_that_lead_nowhere_say_what_to_do() {
        let says = |word| names(&[word], &[]).unwrap_err().to_string();
        assert!(says("nomalloc").contains("NAME=PATH"));
        assert!(says("/no/such.so").contains("No such file"));
        assert!(says("x=/etc/passwd").contains("not a shared library"));
        assert!(says("system=/no/such.so").contains("a name of its own"));
        assert!(names(&[], &[""]).is_err());
    }
}
