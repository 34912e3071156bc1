//! The cases, which are all in cases.toml.

use crate::peers::{bench_dir, build_dir};
use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Cases of all groups but `Memory` count in the means. `Memory` cases measure one
/// figure each, and their time means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    Micro,
    Large,
    Threads,
    Real,
    Memory,
}

impl Group {
    pub const COUNTED: [Group; 4] = [Group::Micro, Group::Large, Group::Threads, Group::Real];
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Group::Micro => "micro",
            Group::Large => "large",
            Group::Threads => "threads",
            Group::Real => "real",
            Group::Memory => "memory",
        })
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    pub group: Group,
    pub about: String,
    /// Program and arguments; see `expand` for what {words} stand for.
    run: Vec<String>,
    /// {n} in a quick and in a full run.
    quick: u64,
    full: u64,
    /// Runs before the program, without an allocator, and is not measured.
    #[serde(default)]
    prepare: Option<Vec<String>>,
    /// The client of a server; see `measure::Job`.
    #[serde(default)]
    client: Option<Vec<String>>,
    /// True if the server runs until it gets SIGTERM.
    #[serde(default)]
    pub stop: bool,
    /// A file that the program writes, which is compared like its output.
    #[serde(default)]
    output: Option<String>,
    /// Programs and files that must be there, besides the first words of the
    /// commands; a case that misses one is skipped.
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// Environment variables for the allocator of that name.
    #[serde(default)]
    environment_for: BTreeMap<String, BTreeMap<String, String>>,
    /// Run in the first round only.
    #[serde(default)]
    pub once: bool,
    /// True if the program must print the same under every allocator.
    #[serde(default = "yes")]
    pub same_output: bool,
}

/// The port of servers without a socket file: it was free when this run began.
/// Only one server runs at a time.
fn port() -> u16 {
    static PORT: OnceLock<u16> = OnceLock::new();
    let free = || TcpListener::bind(("127.0.0.1", 0)).and_then(|l| l.local_addr());
    *PORT.get_or_init(|| free().map_or(0, |address| address.port()))
}

/// True if there is such a file, or (for a word without a slash) such a program.
fn is_there(word: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if word.contains('/') {
        Path::new(word).exists()
    } else {
        std::env::split_paths(&path).any(|folder| folder.join(word).exists())
    }
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct Cases {
    case: Vec<Case>,
}

pub fn load() -> Result<Vec<Case>> {
    let path = bench_dir().join("cases.toml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let cases: Cases = toml::from_str(&text).with_context(|| path.display().to_string())?;
    Ok(cases.case)
}

/// The cases whose name or group contains one of the words; all if no words.
pub fn select(words: &[String]) -> Result<Vec<Case>> {
    let mut cases = load()?;
    for word in words {
        if !cases.iter().any(|c| c.matches(word)) {
            bail!("no case matches {word}; see `bench cases`");
        }
    }
    if !words.is_empty() {
        cases.retain(|c| words.iter().any(|w| c.matches(w)));
    }
    Ok(cases)
}

impl Case {
    fn matches(&self, word: &str) -> bool {
        self.name.contains(word) || self.group.to_string() == word
    }

    pub fn command(&self, quick: bool) -> Vec<String> {
        self.run.iter().map(|word| self.expand(word, quick)).collect()
    }

    pub fn client(&self, quick: bool) -> Option<Vec<String>> {
        self.words(self.client.as_ref()?, quick)
    }

    pub fn prepare(&self, quick: bool) -> Option<Vec<String>> {
        self.words(self.prepare.as_ref()?, quick)
    }

    pub fn output(&self) -> Option<PathBuf> {
        self.output.as_ref().map(|path| self.expand(path, false).into())
    }

    fn words(&self, words: &[String], quick: bool) -> Option<Vec<String>> {
        Some(words.iter().map(|word| self.expand(word, quick)).collect())
    }

    /// The first program or file that the case needs and this machine lacks.
    pub fn missing(&self) -> Option<String> {
        let commands = [Some(&self.run), self.prepare.as_ref(), self.client.as_ref()];
        let programs = commands.into_iter().flatten().filter_map(|c| c.first());
        programs
            .chain(&self.needs)
            .map(|word| self.expand(word, false))
            .find(|word| !is_there(word))
    }

    pub fn environment(&self, allocator: &str) -> Vec<(String, String)> {
        let own = self.environment_for.get(allocator);
        let all = self.environment.iter().chain(own.into_iter().flatten());
        all.map(|(name, value)| (name.clone(), self.expand(value, false))).collect()
    }

    /// {bin}: compiled programs. {data}: generated inputs. {real}: scripts of
    /// the real programs. {tmp}: a place for scratch. {venv}: Python with its
    /// packages. {port}: where a server listens. {n}: the size of the work.
    fn expand(&self, word: &str, quick: bool) -> String {
        let n = if quick { self.quick } else { self.full };
        let build = build_dir();
        let at = |name: &str| build.join(name).to_string_lossy().into_owned();
        word.replace("{bin}", &at("bin"))
            .replace("{data}", &at("data"))
            .replace("{tmp}", &at("scratch"))
            .replace("{venv}", &at("venv"))
            .replace("{port}", &port().to_string())
            .replace("{real}", &bench_dir().join("real").to_string_lossy())
            .replace("{n}", &n.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(fields: &str) -> Case {
        let text = format!("name = 'x'\ngroup = 'real'\nabout = ''\nquick = 1\nfull = 2\n{fields}");
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn what_a_case_lacks_is_named() {
        assert_eq!(case("run = ['sh']\nneeds = ['/dev/null']").missing(), None);
        for fields in [
            "run = ['no-such-program']",
            "run = ['sh']\nclient = ['no-such-program']",
            "run = ['sh']\nprepare = ['no-such-program']",
            "run = ['sh']\nneeds = ['/dev/null', 'no-such-program']",
        ] {
            let missing = case(fields).missing();
            assert_eq!(missing.as_deref(), Some("no-such-program"), "{fields}");
        }
        let missing = case("run = ['sh']\nneeds = ['{data}/no-such-file']").missing();
        assert!(missing.unwrap().ends_with("data/no-such-file"));
    }
}
