//! The allocators: where their libraries are, and the proof that they are used.

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The names in the order of the tables. `glibc` means no preloaded library; the
/// others are libraries.
pub const NAMES: [&str; 8] = [
    "glebe",
    "mimalloc-v3",
    "mimalloc-v2",
    "snmalloc",
    "rpmalloc",
    "tcmalloc",
    "jemalloc",
    "glibc",
];

/// Further ones, which a run has only if they are named: builds and allocators that look for mistakes and attacks.
pub const HARDENED: [&str; 7] = [
    "glebe-secure",
    "glebe-safe",
    "scudo",
    "hardened_malloc",
    "mimalloc-secure",
    "mimalloc-full",
    "snmalloc-checked",
];

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Allocator {
    pub name: String,
    pub version: String,
    /// The value of LD_PRELOAD.
    pub library: PathBuf,
}

/// The bench directory: where cases.toml and build/ are.
pub fn bench_dir() -> PathBuf {
    std::env::var_os("BENCH_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

pub fn build_dir() -> PathBuf {
    std::env::var_os("BENCH_BUILD").map_or_else(|| bench_dir().join("build"), PathBuf::from)
}

/// The allocators of the given names (all if there are none), each verified.
///
/// An allocator that was named and cannot be used is an error. If none is named,
/// an unusable one is left out, with a message.
pub fn find(names: &[String], glebe: Option<&Path>) -> Result<Vec<Allocator>> {
    let mut found = Vec::new();
    let all = [&NAMES[..], &HARDENED[..]].concat();
    for name in names {
        if !all.contains(&name.as_str()) {
            bail!("no allocator is called {name}; there are: {}", all.join(", "));
        }
    }
    for name in all {
        let asked_for = names.iter().any(|n| n == name);
        if !asked_for && !(names.is_empty() && NAMES.contains(&name)) {
            continue;
        }
        match locate(name, glebe).and_then(|a| verify(&a).map(|()| a)) {
            Ok(allocator) => found.push(allocator),
            Err(error) if asked_for => return Err(error),
            Err(error) => eprintln!("bench: WITHOUT {name}: {error:#}"),
        }
    }
    Ok(found)
}

fn locate(name: &str, glebe: Option<&Path>) -> Result<Allocator> {
    let (library, version) = match name {
        "glebe" => {
            let default = bench_dir().join("../build/libglebe.so");
            let path = glebe.map_or(default, Path::to_path_buf);
            (path, glebe_version(glebe))
        }
        "glebe-secure" | "glebe-safe" => {
            (bench_dir().join(format!("../build/lib{name}.so")), glebe_version(None))
        }
        "scudo" => (scudo()?, "LLVM 19".to_string()),
        // Preloading the C library itself changes nothing for most programs.
        // One that is linked with another allocator (Debian's redis-server,
        // with jemalloc) gets the C library's malloc that way.
        "glibc" => (PathBuf::from("libc.so.6"), glibc_version()?),
        _ => {
            let peers = build_dir().join("peers");
            let version = std::fs::read_to_string(peers.join(format!("{name}.version")))
                .with_context(|| format!("{name} is not built; run bench/setup"))?;
            (peers.join(format!("{name}.so")), version.trim().to_string())
        }
    };
    let library = if library.components().count() > 1 {
        library.canonicalize().with_context(|| format!("no {}", library.display()))?
    } else {
        library
    };
    Ok(Allocator { name: name.to_string(), version, library })
}

/// The library among those of Debian's clang-19.
fn scudo() -> Result<PathBuf> {
    let file = "libclang_rt.scudo_standalone-x86_64.so";
    let path = first_line("clang-19", &[&format!("--print-file-name={file}")]).map(PathBuf::from);
    path.filter(|p| p.is_absolute()).with_context(|| format!("clang-19 has no {file}"))
}

/// The positive control: a program with this library preloaded must get the
/// malloc family from it; otherwise we would measure another allocator.
fn verify(allocator: &Allocator) -> Result<()> {
    let whose = build_dir().join("bin/whose");
    let output = Command::new(&whose)
        .arg(&allocator.library)
        .env("LD_PRELOAD", &allocator.library)
        .output()
        .with_context(|| format!("cannot run {}; run bench/setup", whose.display()))?;
    if !output.status.success() {
        bail!(
            "{} does not take over malloc when preloaded:\n{}{}",
            allocator.library.display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.lines().next().unwrap_or("").trim().to_string())
}

fn glibc_version() -> Result<String> {
    first_line("getconf", &["GNU_LIBC_VERSION"]).context("getconf GNU_LIBC_VERSION failed")
}

/// The commit of this tree; for a library from elsewhere its path.
fn glebe_version(elsewhere: Option<&Path>) -> String {
    if let Some(path) = elsewhere {
        return format!("glebe from {}", path.display());
    }
    let root = bench_dir().join("..");
    let root = root.to_string_lossy();
    let git = first_line("git", &["-C", &root, "describe", "--always", "--dirty"]);
    git.map_or("glebe".to_string(), |commit| format!("glebe {commit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_that_the_driver_knows_is_built_and_no_other() {
        let script = std::fs::read_to_string(bench_dir().join("peers/build.sh")).unwrap();
        let calls = script.lines().filter_map(|line| line.strip_prefix("peer "));
        let mut built: Vec<_> = calls.filter_map(|call| call.split(' ').next()).collect();
        let others = ["glebe", "glebe-secure", "glebe-safe", "scudo", "glibc"];
        let mut known = [&NAMES[..], &HARDENED[..]].concat();
        known.retain(|name| !others.contains(name));
        built.sort_unstable();
        known.sort_unstable();
        assert_eq!(built, known);
    }
}
