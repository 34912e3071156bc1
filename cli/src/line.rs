//! The command line as clap takes it: `-n8` and `-n=8` become `-n 8`.
//!
//! clap knows these forms, but not before a program and its arguments: there it takes `-n8` for the program.

use clap::{Arg, Command};
use std::ffi::OsString;

/// The words of a command line, in which the values of short options are words of their own. Words behind the first
/// that is no option stay as they are.
pub fn split(words: impl IntoIterator<Item = OsString>, cli: &Command) -> Vec<OsString> {
    let mut words = words.into_iter();
    let mut taken: Vec<OsString> = words.by_ref().take(2).collect();
    let command = taken.get(1).and_then(|name| cli.find_subcommand(name));
    while let (Some(command), Some(word)) = (command, words.next()) {
        let text = word.to_str().unwrap_or_default();
        if !text.starts_with('-') || text == "-" || text == "--" {
            taken.push(word);
            break;
        }
        let waits = match (text.strip_prefix("--"), value_at(text, command)) {
            (Some(long), _) => {
                let mut named = command.get_arguments().filter(|arg| arg.get_long() == Some(long));
                named.any(takes_a_word)
            }
            (None, Some(at)) if at < text.len() => {
                let (option, value) = text.split_at(at);
                taken
                    .extend([option, value.strip_prefix('=').unwrap_or(value)].map(OsString::from));
                continue;
            }
            (None, at) => at.is_some(),
        };
        taken.push(word);
        if waits {
            taken.extend(words.next());
        }
    }
    taken.extend(words);
    taken
}

/// Where the value begins in a word of short options: at its end if the next word is the value. None if no option in it
/// takes a value.
fn value_at(word: &str, command: &Command) -> Option<usize> {
    let letters = word.strip_prefix('-')?;
    for (at, letter) in letters.char_indices() {
        let mut named = command.get_arguments().filter(|arg| arg.get_short() == Some(letter));
        if takes_a_word(named.next()?) {
            return Some(1 + at + letter.len_utf8());
        }
    }
    None
}

fn takes_a_word(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    fn says(line: &str) -> String {
        let mut cli = Cli::command();
        cli.build();
        let words = split(line.split(' ').map(OsString::from), &cli);
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn values_of_short_options_become_words() {
        assert_eq!(says("glebe compare -n8 ls"), "glebe compare -n 8 ls");
        assert_eq!(says("glebe compare -q -n=8 -- ls -n9"), "glebe compare -q -n 8 -- ls -n9");
        assert_eq!(says("glebe compare -qn8 ls"), "glebe compare -qn 8 ls");
    }

    #[test]
    fn other_words_stay() {
        for line in [
            "glebe compare -n 8 ls -n9",
            "glebe compare --with a -n 8 ls -n9",
            "glebe compare --json -q ls -n9",
            "glebe compare --seed -n9 ls",
            "glebe compare -x8 -q8 --runs=3 ls",
            "glebe run -v ls -n9",
            "glebe -n8",
            "glebe",
        ] {
            assert_eq!(says(line), line);
        }
    }
}
