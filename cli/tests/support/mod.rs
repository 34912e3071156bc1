//! What the tests share, here and in src: a folder that goes when its test ends, and a command whose outcome is
//! checked in a chain. Crates that do this bring twelve others, and features that compile clap a second time.

#![allow(dead_code)] // each test uses a part

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io, process, thread};

/// A new folder. It is removed with all that is in it when this value goes.
pub struct TempDir(PathBuf);

pub fn tempdir() -> io::Result<TempDir> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("glebe-test-{}-{number}", process::id()));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => return made.map(|()| TempDir(path)),
        }
    }
}

impl TempDir {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a text has to be: a plain string is the whole text.
pub struct Says {
    what: String,
    holds: Box<dyn Fn(&str) -> bool>,
}

pub fn contains(part: impl Into<String>) -> Says {
    let part = part.into();
    Says { what: format!("{part:?} in it"), holds: Box::new(move |text| text.contains(&part)) }
}

impl Says {
    pub fn and(self, other: Says) -> Says {
        let what = format!("{} and {}", self.what, other.what);
        Says { what, holds: Box::new(move |text| (self.holds)(text) && (other.holds)(text)) }
    }

    pub fn not(self) -> Says {
        Says {
            what: format!("not {}", self.what),
            holds: Box::new(move |text| !(self.holds)(text)),
        }
    }
}

impl From<&str> for Says {
    fn from(whole: &str) -> Says {
        let whole = whole.to_owned();
        Says { what: format!("{whole:?}"), holds: Box::new(move |text| text == whole) }
    }
}

/// The outcome of a command that has ended.
pub struct Outcome(Output);

pub trait Check {
    /// Runs the command without input.
    fn assert(&mut self) -> Outcome;

    /// Runs the command; `input` is all that its standard input has.
    fn assert_with(&mut self, input: &'static str) -> Outcome;
}

impl Check for Command {
    fn assert(&mut self) -> Outcome {
        Outcome(self.output().unwrap())
    }

    fn assert_with(&mut self, input: &'static str) -> Outcome {
        self.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let writer = thread::spawn(move || io::Write::write_all(&mut stdin, input.as_bytes()));
        let outcome = Outcome(child.wait_with_output().unwrap());
        writer.join().unwrap().unwrap();
        outcome
    }
}

impl Outcome {
    pub fn success(self) -> Outcome {
        self.code(0)
    }

    pub fn code(self, wanted: i32) -> Outcome {
        assert_eq!(self.0.status.code(), Some(wanted), "{:#?}", self.0);
        self
    }

    pub fn stdout(self, wanted: impl Into<Says>) -> Outcome {
        let (wanted, text) = (wanted.into(), String::from_utf8_lossy(&self.0.stdout).into_owned());
        assert!((wanted.holds)(&text), "stdout has to be {}:\n{text}\n{:#?}", wanted.what, self.0);
        self
    }

    pub fn stderr(self, wanted: impl Into<Says>) -> Outcome {
        let (wanted, text) = (wanted.into(), String::from_utf8_lossy(&self.0.stderr).into_owned());
        assert!((wanted.holds)(&text), "stderr has to be {}:\n{text}\n{:#?}", wanted.what, self.0);
        self
    }
}
