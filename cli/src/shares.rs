//! `glebe man` and `glebe completions`: manual pages and completions, made from the definitions of the command line.
//!
//! `make share` writes them into build/share, in the folders that `make install` and packages use.

use crate::args::Cli;
use crate::output;
use crate::stop::{Ending, Stop, OWN_FAILURE, WRONG_LINE};
use crate::words::can_print;
use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Print a manual page, or write all of them.
///
/// The pages are made from the same definitions as --help.
#[derive(Args)]
#[command(
    override_usage = "\
glebe man [COMMAND]
       glebe man --all <DIRECTORY>",
    after_help = "\
Examples:
  glebe man profile | man -l -
  glebe man --all /usr/local/share/man/man1"
)]
pub struct ManOptions {
    /// The command of glebe that the page is about [default: glebe itself]
    #[arg(value_name = "COMMAND", conflicts_with = "all")]
    pub command: Option<String>,
    /// Write the pages of all commands into this directory
    #[arg(long, value_name = "DIRECTORY")]
    pub all: Option<PathBuf>,
}

/// Print the completions of a shell.
///
/// The shell loads them from a file of its completion directory, or at once by `source`.
#[derive(Args)]
#[command(
    override_usage = "glebe completions <SHELL>",
    after_help = "\
Examples:
  source <(glebe completions bash)
  glebe completions bash > ~/.local/share/bash-completion/completions/glebe
  glebe completions fish > ~/.config/fish/completions/glebe.fish"
)]
pub struct CompletionsOptions {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

/// `glebe man`
pub fn man(options: &ManOptions) -> Result<Ending> {
    let mut cli = Cli::command();
    cli.build();
    if let Some(directory) = &options.all {
        write_all(&cli, directory)?;
        return Ok(Ending::Exit(0));
    }
    let of = match &options.command {
        None => cli,
        Some(name) => cli.find_subcommand(name).cloned().ok_or_else(|| {
            let names: Vec<&str> = cli.get_subcommands().map(|c| c.get_name()).collect();
            let message = format!("there is no command {name:?}, only {}", names.join(", "));
            Stop { code: WRONG_LINE, message }
        })?,
    };
    print(&page(&of)?)
}

/// clap's script for bash knows nothing of a program's own words. _command_offset is a function of bash-completion.
const BASH_PROGRAM: &str = r#"
# The words after -- are the program's.
_glebe_or_program() {
    local i
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == -- ]]; then
            if declare -F _command_offset >/dev/null; then
                _command_offset $((i + 1))
            elif ((i + 1 == COMP_CWORD)); then
                mapfile -t COMPREPLY < <(compgen -c -- "$2")
            else
                mapfile -t COMPREPLY < <(compgen -f -- "$2")
            fi
            return
        fi
    done
    _glebe "$@"
}
complete -F _glebe_or_program -o bashdefault -o default glebe
"#;

/// `glebe completions`
pub fn completions(options: &CompletionsOptions) -> Result<Ending> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "glebe", &mut script);
    if options.shell == Shell::Bash {
        script.extend_from_slice(BASH_PROGRAM.as_bytes());
    }
    print(&script)
}

fn print(bytes: &[u8]) -> Result<Ending> {
    can_print()?;
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).context("standard output")?;
    Ok(Ending::Exit(0))
}

/// The page of a command, whose definition is built.
fn page(command: &clap::Command) -> Result<Vec<u8>> {
    let version = concat!("glebe ", env!("CARGO_PKG_VERSION"));
    let mut page = Vec::new();
    let man = Man::new(command.clone().disable_help_subcommand(true));
    man.manual("glebe").source(version).render(&mut page)?;
    Ok(sections(&String::from_utf8(page)?).into_bytes())
}

/// The page in the sections that manual pages have. clap_mangen has one section, EXTRA, for what --help
/// says at its end. Its paragraphs begin with what they are: "Examples:", "Exit status: the program's".
fn sections(page: &str) -> String {
    let Some((before, extra)) = page.split_once(".SH EXTRA\n") else { return page.to_string() };
    let mut text = before.to_string();
    let mut begins = true; // a paragraph
    let mut lines = extra.lines();
    for line in lines.by_ref() {
        if line.starts_with(".SH ") {
            text += &format!("{line}\n");
            break;
        }
        let of_words = |title: &&str| title.chars().all(|c| c.is_alphabetic() || c == ' ');
        let title = line.split_once(':').filter(|(title, _)| begins && of_words(title));
        begins = line.is_empty();
        match title {
            Some((title, rest)) => {
                text += &format!(".SH {}\n", title.to_uppercase());
                text += &if rest.is_empty() { String::new() } else { format!("{}\n", rest.trim()) };
            }
            None => text += &format!("{line}\n"),
        }
    }
    lines.for_each(|line| text += &format!("{line}\n"));
    text
}

fn write_all(cli: &clap::Command, directory: &Path) -> Result<()> {
    let failed = |path: &Path, error: io::Error| Stop {
        code: OWN_FAILURE,
        message: format!("cannot write {}: {error}", path.display()),
    };
    fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
    for command in std::iter::once(cli).chain(cli.get_subcommands()) {
        if command.get_name() == "help" {
            continue;
        }
        let name = command.get_display_name().unwrap_or_else(|| command.get_name());
        let path = directory.join(format!("{name}.1"));
        output::write(&path, page(command)?).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}
