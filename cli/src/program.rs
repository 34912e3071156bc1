//! From the words after `--` to a program that can be started.
//!
//! We search as the system's shell does.

use crate::args::Cli;
use crate::stop::{Stop, NOT_FOUND, WRONG_LINE};
use crate::system;
use clap::CommandFactory;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// A program as found, with its arguments.
pub struct Program {
    /// What the user typed; `argv[0]`.
    pub name: OsString,
    pub args: Vec<OsString>,
    /// The file that is started.
    pub path: PathBuf,
}

impl Program {
    /// Finds the program that `words` start. The error carries exit code 126 or 127.
    pub fn find(words: &[OsString]) -> Result<Program, Stop> {
        let (name, args) = words.split_first().ok_or_else(|| Stop {
            code: NOT_FOUND,
            message: "no program was given: write it after --".into(),
        })?;
        let path = system::search(name).map_err(|stop| {
            let own: Vec<OsString> = env::args_os().collect();
            let before = own.len().checked_sub(words.len() + 1).map(|last| &*own[last]);
            let lost = stop.code == NOT_FOUND;
            let meant = joined(name, before).or_else(|| mistaken(name, args).filter(|_| lost));
            meant.unwrap_or(stop)
        })?;
        Ok(Program { name: name.clone(), args: args.to_vec(), path })
    }

    /// Name and arguments, as a person would read them.
    pub fn display(&self) -> String {
        let words = std::iter::once(&self.name).chain(&self.args);
        words.map(|word| quote(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
    }
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// The error for a word that was meant as the value of the option before it, which takes a value only after `=`.
fn joined(name: &OsStr, before: Option<&OsStr>) -> Option<Stop> {
    let before = before?.to_str()?;
    let option = before.strip_prefix("--")?;
    let cli = Cli::command();
    let command = cli.find_subcommand(env::args_os().nth(1)?)?;
    let mut named = command.get_arguments().filter(|arg| arg.get_long() == Some(option));
    named.next().filter(|arg| arg.is_require_equals_set())?;
    let shown = name.to_string_lossy();
    let message = format!(
        "{shown} is no program; if it is the value of {before}, join the two: {before}={shown}"
    );
    Some(Stop { code: WRONG_LINE, message })
}

/// The error for a word that was meant for glebe: an unknown option, or an option's value. The program begins at the
/// first word that is neither, so we searched for that word as a program.
fn mistaken(name: &OsStr, args: &[OsString]) -> Option<Stop> {
    let shown = name.to_string_lossy();
    let message = if shown.starts_with('-') {
        let list =
            similar(&shown).map_or("--help has the list".into(), |like| format!("maybe {like}"));
        format!("{shown}: no such option ({list}), and no such program")
    } else if args.iter().any(|arg| arg == "--") {
        format!(
            "{shown}: no such program, and -- follows options only (join an optional value to its \
             option by =, as in --stats=json)"
        )
    } else {
        return None;
    };
    Some(Stop { code: WRONG_LINE, message })
}

/// The option of this command that is most like the word, as clap would find it, if any is like it.
fn similar(word: &str) -> Option<String> {
    let cli = Cli::command();
    let command = cli.find_subcommand(env::args_os().nth(1)?)?;
    let typed = word.strip_prefix("--")?.split('=').next()?;
    let options = command.get_arguments().filter_map(|arg| arg.get_long());
    let rated = options.map(|option| (strsim::jaro(typed, option), option));
    let (like, option) = rated.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (like > 0.7).then(|| format!("--{option}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_shown_as_a_shell_takes_it() {
        assert_eq!(quote("-O2"), "-O2");
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("it's"), "'it'\\''s'");
        assert_eq!(quote(""), "''");
    }
}
