//! What the tests share: the command in a place of its own, and programs in C.
#![allow(dead_code)] // each test uses a part

use assert_cmd::Command;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The command with a cache of its own, and without our variables in its environment.
pub fn glebe(home: &TempDir) -> Command {
    let mut command = Command::cargo_bin("glebe").unwrap();
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GLEBE_") {
            command.env_remove(name);
        }
    }
    command.env("XDG_CACHE_HOME", home.path()).env_remove("LD_PRELOAD");
    command
}

/// The same with words, as the standard library's own `Command`.
pub fn command_of(home: &TempDir, words: &[&str]) -> std::process::Command {
    let ours = glebe(home);
    let mut command = std::process::Command::new(ours.get_program());
    for (name, value) in ours.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.args(words);
    command
}

pub fn home() -> TempDir {
    tempfile::tempdir().unwrap()
}

pub fn cc(dir: &Path, name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let input = dir.join(format!("{name}.c"));
    fs::write(&input, source).unwrap();
    let output = dir.join(name);
    let run =
        std::process::Command::new("cc").args(flags).arg("-o").arg(&output).arg(&input).output();
    run.ok()?.status.success().then_some(output)
}
