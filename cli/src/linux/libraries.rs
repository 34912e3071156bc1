//! Libraries that can be preloaded: our own builds, peers on this machine, and the user's paths.
//!
//! We search for peers where the dynamic loader does: LD_LIBRARY_PATH, the usual directories,
//! and the cache that ldconfig keeps. Only libraries of this machine's kind count.

use super::inspect::{self, known_allocator, Facts};
use super::library::{Embedded, EMBEDDED, STAND_INS, TOOLS};
use anyhow::{anyhow, bail, Result};
use std::env;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Peers by name, with the files that they install, best first.
pub const PEERS: [(&str, &[&str]); 6] = [
    ("mimalloc", &["libmimalloc.so"]),
    ("jemalloc", &["libjemalloc.so"]),
    ("tcmalloc", &["libtcmalloc_minimal.so", "libtcmalloc.so"]),
    ("snmalloc", &["libsnmallocshim.so"]),
    ("rpmalloc", &["librpmallocwrap.so", "librpmalloc.so"]),
    ("hardened_malloc", &["libhardened_malloc.so"]),
];

/// The names of our own builds.
pub fn builds() -> impl Iterator<Item = &'static str> {
    EMBEDDED.iter().map(|build| build.name)
}

/// Our own build of that name, if there is one.
pub fn build(name: &str) -> Option<&'static Embedded> {
    EMBEDDED.iter().find(|build| build.name == name)
}

/// The path of glebe's library with this soname of mimalloc's.
pub fn stand_in(soname: &str) -> Result<PathBuf> {
    let library = STAND_INS.iter().find(|library| library.name == soname);
    library.ok_or_else(|| anyhow!("there is no stand-in for {soname}"))?.place()
}

/// The path of the recorder or the replayer.
pub fn tool(name: &str) -> Result<PathBuf> {
    let tool = TOOLS.iter().find(|tool| tool.name == name);
    tool.ok_or_else(|| anyhow!("there is no {name}"))?.place()
}

/// A library that can be preloaded here, as an absolute path.
pub fn usable(path: &Path) -> Result<PathBuf> {
    let shown = path.display();
    let path = fs::canonicalize(path).map_err(|e| anyhow!("{shown}: {e}"))?;
    if path.as_os_str().as_bytes().iter().any(|b| b": \t".contains(b)) {
        bail!("{shown}: the dynamic loader splits a preload path at colons and spaces; link to it");
    }
    match inspect::facts_of(&path) {
        Some(facts) if same_kind(&facts) && facts.exports_malloc => Ok(path),
        Some(facts) if same_kind(&facts) => {
            bail!("{shown} defines no malloc, so its row would show the system's malloc")
        }
        Some(_) => bail!("{shown} is a library for another kind of machine"),
        None => bail!("{shown} is not a shared library (a linker script, perhaps?)"),
    }
}

fn same_kind(facts: &Facts) -> bool {
    let ours = inspect::parse(EMBEDDED[0].bytes);
    ours.is_none_or(|ours| (ours.machine, ours.bits) == (facts.machine, facts.bits))
}

/// `libmimalloc.so.2` is mimalloc; a library that we do not know keeps its file's name.
pub fn name_of(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    if let Some(name) = known_allocator(&file) {
        return name.into();
    }
    let stem = file.split(".so").next().unwrap_or(&file);
    stem.strip_prefix("lib").unwrap_or(stem).to_string()
}

/// The first of these files that is installed.
pub fn find(files: &[&str]) -> Option<PathBuf> {
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

/// The libraries that ldconfig knows, in directories that are not listed here.
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

    #[test]
    fn files_are_matched_by_version_only() {
        let matches = |name: &str| is_version_of(Path::new(name), "libx.so");
        assert!(matches("/a/libx.so") && matches("/a/libx.so.2") && matches("libx.so.2.0.9"));
        assert!(!matches("libx-debug.so") && !matches("libx.so.py") && !matches("liby.so"));
        assert_eq!(name_of(Path::new("/a/libmimalloc-secure.so.2")), "mimalloc");
        assert_eq!(name_of(Path::new("/a/libfoo.so.1")), "foo");
    }
}
