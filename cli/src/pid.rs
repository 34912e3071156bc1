//! The PID on a command line, and what is said of a word that is none.

use crate::size;
use clap::builder::TypedValueParser;
use std::ffi::OsStr;
use std::path::Path;

/// The id of a process.
pub fn pid(text: &str) -> Result<i32, String> {
    size::whole(text, 1..=i32::MAX as u64).map(|pid| pid as i32)
}

/// The PID of a command. A word that is no number may be meant as a program or as a file, if the command takes one.
#[derive(Clone)]
pub struct PidParser;

impl TypedValueParser for PidParser {
    type Value = i32;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<i32, clap::Error> {
        let takes_one = command.get_arguments().any(|arg| arg.get_id() == "program");
        let name = command.get_name().to_string();
        let parse = move |text: &str| {
            let is_word = !text.bytes().all(|byte| byte.is_ascii_digit());
            pid(text).map_err(|error| {
                let file = Path::new(text);
                let error = match is_word && file.exists() {
                    true => format!("{text} is a file, and no PID"),
                    false => error,
                };
                match is_word {
                    true if name == "explain" && is_snapshot(file) => {
                        format!(
                            "{error}; a snapshot goes behind --from: glebe explain --from {text}"
                        )
                    }
                    true if takes_one => {
                        format!("{error}; a program goes behind --: glebe {name} -- {text}")
                    }
                    _ => error,
                }
            })
        };
        parse.parse_ref(command, arg, value)
    }
}

#[cfg(target_os = "linux")]
fn is_snapshot(file: &Path) -> bool {
    crate::explain::snapshot::is_one(&crate::profile::reader::head_of(file))
}

#[cfg(not(target_os = "linux"))]
fn is_snapshot(_file: &Path) -> bool {
    false
}
