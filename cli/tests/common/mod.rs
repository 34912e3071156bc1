//! What the tests share: the command in a place of its own, and programs in C.
#![allow(dead_code)] // each test uses a part

use assert_cmd::Command;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
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
    let mut command = with_environment(home, glebe(home).get_program());
    command.args(words);
    command
}

/// Waits a minute at most; then the test fails, and says what was wrong.
pub fn wait_until(wrong: &str, is_done: impl Fn() -> bool) {
    for _ in 0..3000 {
        if is_done() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("{wrong}");
}

/// Another program, in the environment of the command.
pub fn with_environment(home: &TempDir, program: impl AsRef<OsStr>) -> std::process::Command {
    let mut command = std::process::Command::new(program);
    for (name, value) in glebe(home).get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// A program that runs on glebe and has said "ready"; it is ended when this is dropped.
pub struct Running(pub Child);

impl Running {
    pub fn start(home: &TempDir, program: &[&str]) -> Running {
        Running::on(home, &[], program)
    }
    /// `options` of `glebe run` choose the build.
    pub fn on(home: &TempDir, options: &[&str], program: &[&str]) -> Running {
        let words = [&["run", "--quiet"], options, &["--"], program].concat();
        let mut child = command_of(home, &words).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{program:?}");
        Running(child)
    }
    /// `glebe run` becomes the program.
    pub fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
