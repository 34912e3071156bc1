//! Who takes part in a comparison: names and paths become preloadable libraries.
//!
//! Peers are looked for where the dynamic loader looks: LD_LIBRARY_PATH, the usual directories,
//! and the cache that ldconfig keeps. Only libraries of this machine's kind count.

use crate::inspect::{self, known_allocator, Facts};
use crate::library::{Embedded, EMBEDDED};
use anyhow::{anyhow, bail, Result};
use std::env;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One side of the comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Contender {
    pub name: String,
    /// What is preloaded; None for the system's malloc.
    pub library: Option<PathBuf>,
}

/// The name of the system's malloc.
pub const SYSTEM: &str = "system";

/// Peers by name, with the files that they install, the better one first.
const PEERS: [(&str, &[&str]); 6] = [
    ("mimalloc", &["libmimalloc.so"]),
    ("jemalloc", &["libjemalloc.so"]),
    ("tcmalloc", &["libtcmalloc_minimal.so", "libtcmalloc.so"]),
    ("snmalloc", &["libsnmallocshim.so"]),
    ("rpmalloc", &["librpmallocwrap.so", "librpmalloc.so"]),
    ("hardened_malloc", &["libhardened_malloc.so"]),
];

/// The contenders that `--with` and `--only` ask for, in the order of the table.
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
                Some(_) => bail!(
                    "two allocators are called {}; name one of them with NAME=PATH",
                    contender.name
                ),
            }
        }
    }
    if chosen.is_empty() {
        bail!("nothing to compare: --only names no allocator");
    }
    Ok(chosen)
}

/// One word of `--with`: mostly one contender, for `found` any number.
fn contenders_of(word: &str) -> Result<Vec<Contender>> {
    let one = |name: &str, library: Option<PathBuf>| vec![Contender { name: name.into(), library }];
    if word == SYSTEM {
        return Ok(one(SYSTEM, None));
    }
    if let Some(build) = Embedded::named(word) {
        return Ok(one(word, Some(build.place()?)));
    }
    if word == "found" {
        let found = PEERS.iter().filter_map(|(name, files)| Some((*name, find(files)?)));
        return Ok(found.flat_map(|(name, path)| one(name, Some(path))).collect());
    }
    if let Some((name, path)) = word.split_once('=') {
        if name.is_empty() || name == SYSTEM || Embedded::named(name).is_some() {
            bail!("{word}: choose a name of its own for {path}");
        }
        return Ok(one(name, Some(usable(Path::new(path))?)));
    }
    if word.contains('/') {
        let path = usable(Path::new(word))?;
        return Ok(one(&name_of(Path::new(word)), Some(path)));
    }
    let files = PEERS.iter().find(|(name, _)| *name == word).map(|(_, files)| *files);
    let names = || PEERS.map(|(name, _)| name).join(", ");
    match files {
        Some(files) => find(files).map(|path| one(word, Some(path))).ok_or_else(|| {
            anyhow!("{word} was not found on this machine ({}); give it as {word}=PATH", files[0])
        }),
        None => Err(anyhow!(
            "{word}: no allocator of that name; known are {SYSTEM}, {}, {}; others as NAME=PATH",
            EMBEDDED.each_ref().map(|build| build.name).join(", "),
            names()
        )),
    }
}

/// A library that can be preloaded here, as an absolute path.
fn usable(path: &Path) -> Result<PathBuf> {
    let shown = path.display();
    let path = fs::canonicalize(path).map_err(|e| anyhow!("{shown}: {e}"))?;
    if path.as_os_str().as_bytes().iter().any(|b| b": \t".contains(b)) {
        bail!("{shown}: the dynamic loader splits a preload path at colons and spaces; link to it");
    }
    match inspect::facts_of(&path) {
        Some(facts) if same_kind(&facts) && facts.exports_malloc => Ok(path),
        Some(facts) if same_kind(&facts) => {
            bail!("{shown} defines no malloc, so its row would show the system's")
        }
        Some(_) => bail!("{shown} is a library for another kind of machine"),
        None => bail!("{shown} is not a shared library (a linker script, perhaps?)"),
    }
}

fn same_kind(facts: &Facts) -> bool {
    let ours = inspect::parse(EMBEDDED[0].bytes);
    ours.is_none_or(|ours| (ours.machine, ours.bits) == (facts.machine, facts.bits))
}

/// `libmimalloc.so.2` is mimalloc; a stranger keeps its file's name.
fn name_of(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    if let Some(name) = known_allocator(&file) {
        return name.into();
    }
    let stem = file.split(".so").next().unwrap_or(&file);
    stem.strip_prefix("lib").unwrap_or(stem).to_string()
}

/// The first of these files that is installed.
fn find(files: &[&str]) -> Option<PathBuf> {
    let directories = directories();
    let cached = cached();
    files.iter().find_map(|file| {
        let scanned = directories.iter().filter_map(|dir| newest(dir, file));
        let known = cached.iter().filter(|path| is_version_of(path, file)).cloned();
        scanned.chain(known).find_map(|path| usable(&path).ok())
    })
}

fn directories() -> Vec<PathBuf> {
    let path = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let own = env::split_paths(&path).filter(|dir| dir.is_absolute()).collect::<Vec<_>>();
    let triplet = format!("{}-linux-gnu", env::consts::ARCH);
    let usual = ["/usr/local/lib", "/usr/local/lib64", "/usr/lib", "/usr/lib64", "/lib", "/lib64"];
    let usual = usual.iter().flat_map(|dir| [Path::new(dir).join(&triplet), PathBuf::from(dir)]);
    own.into_iter().chain(usual).collect()
}

/// What ldconfig knows, in directories that no list here has.
fn cached() -> Vec<PathBuf> {
    let output = ["/sbin/ldconfig", "/usr/sbin/ldconfig"]
        .iter()
        .find_map(|program| Command::new(program).arg("-p").output().ok());
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines().filter_map(|line| Some(PathBuf::from(line.split_once("=> ")?.1))).collect()
}

fn newest(directory: &Path, file: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?;
    let paths = entries.filter_map(|entry| entry.ok().map(|e| e.path()));
    paths.filter(|path| is_version_of(path, file)).max()
}

/// `libx.so`, `libx.so.2`, `libx.so.2.0.9`; not `libx-debug.so`, not `libx.so.py`.
fn is_version_of(path: &Path, file: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let version = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || c == '.');
    name.strip_prefix(file).is_some_and(version)
}

#[cfg(test)]
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

    #[test]
    fn files_are_matched_by_version_only() {
        let matches = |name: &str| is_version_of(Path::new(name), "libx.so");
        assert!(matches("/a/libx.so") && matches("/a/libx.so.2") && matches("libx.so.2.0.9"));
        assert!(!matches("libx-debug.so") && !matches("libx.so.py") && !matches("liby.so"));
        assert_eq!(name_of(Path::new("/a/libmimalloc-secure.so.2")), "mimalloc");
        assert_eq!(name_of(Path::new("/a/libfoo.so.1")), "foo");
    }
}
