//! The `glebe` command: the allocator inside any program, and honest comparisons.
//!
//! ```text
//!   args        the command line, and the help          line    its words     pid   one of them
//!   program     words -> the file that will run          run     options -> the library's variables
//!   compare/    glebe compare: peers, measure, sampler, noise, table, picture
//!   trace/      glebe record, replay and trace: on Linux
//!   explain/    glebe explain: the resident set in parts     leaks/   map/   all three on Linux only
//!   profile/    glebe profile (Linux)                    top/      glebe top (Linux)
//!   report/     glebe report: reports of misuse with functions and lines (Linux)
//!   stop        how programs end, and our exit codes     words   what we write     screen   and where
//!   picture     what the pictures share             table     tables that fit the screen
//!   output      files that are whole or not there    shares    manual pages, completions
//!   linux/      preloading, /proc and wait4; Wine runs Windows programs
//!   windows/    glebe.dll in a process that has not begun
//! ```
//!
//! The module `system` holds all that differs between systems, and offers the same in each:
//!
//! ```text
//!   begin, pass_on      comes before all else; ends this process as the program ended
//!   search              a name -> the file that the system would run
//!   check               how glebe gets into a program; refuses a program that cannot take it
//!   run                 glebe run
//!   show_live           glebe stats of a running process
//!   libraries           names -> libraries that can be put under a program
//!   measure             one run of a program, and its figures; SAMPLED_OF: the processes that are sampled
//!   NULL, scratch       what a measured program reads, and where its output goes
//!   interrupt           Ctrl-C during a comparison
//! ```

#[cfg(not(any(target_os = "linux", all(windows, target_arch = "x86_64"))))]
compile_error!(
    "the glebe command works on Linux and 64-bit Windows only so far; the library itself builds without it"
);

mod args;
mod compare;
#[cfg(target_os = "linux")]
mod explain;
#[cfg(target_os = "linux")]
mod leaks;
mod line;
#[cfg(target_os = "linux")]
mod map;
mod output;
mod picture;
mod pid;
#[cfg(target_os = "linux")]
mod profile;
mod program;
#[cfg(target_os = "linux")]
mod report;
mod run;
mod screen;
mod shares;
mod size;
mod stop;
#[cfg_attr(target_os = "linux", path = "linux/mod.rs")]
#[cfg_attr(windows, path = "windows/mod.rs")]
mod system;
#[cfg_attr(windows, allow(dead_code, reason = "the tables of texts are of commands on Linux"))]
mod table;
#[cfg(target_os = "linux")]
mod top;
#[cfg(target_os = "linux")]
mod trace;
mod words;

use args::Command;
use clap::{CommandFactory, Parser};
use std::io::{self, Write};

/// Parses the command line. If there is no command to run, prints the help or the error, and ends the process.
fn command() -> Command {
    let mut cli = args::Cli::command();
    cli.build();
    args::Cli::try_parse_from(line::split(std::env::args_os(), &cli)).map_or_else(
        |told| {
            if let Err(error) = words::can_print().map_err(|error| error.to_string()) {
                if !told.use_stderr() {
                    words::say(error);
                    std::process::exit(stop::OWN_FAILURE);
                }
            }
            let printed = told.print().and_then(|()| io::stdout().flush());
            match printed.err().filter(|e| e.kind() != io::ErrorKind::BrokenPipe) {
                Some(error) if !told.use_stderr() => {
                    words::say(format!("standard output: {error}"));
                    std::process::exit(stop::OWN_FAILURE);
                }
                _ => std::process::exit(told.exit_code()),
            }
        },
        |cli| cli.command,
    )
}

fn main() {
    let command = command();
    let result = system::begin(command.program()).and_then(|()| match &command {
        Command::Run(options) => run::run(options),
        Command::Compare(options) => compare::compare(options),
        Command::Stats(options) => match options.target.pid {
            Some(pid) => system::show_live(pid, options.json),
            None => run::run(&options.of_a_run()),
        },
        Command::Man(options) => shares::man(options),
        Command::Completions(options) => shares::completions(options),
        #[cfg(target_os = "linux")]
        Command::Record(options) => trace::record(options),
        #[cfg(target_os = "linux")]
        Command::Replay(options) => trace::replay(options),
        #[cfg(target_os = "linux")]
        Command::Trace(options) => trace::show(options),
        #[cfg(target_os = "linux")]
        Command::Explain(options) => explain::explain(options),
        #[cfg(target_os = "linux")]
        Command::Leaks(options) => leaks::leaks(options),
        #[cfg(target_os = "linux")]
        Command::Map(options) => map::map(options),
        #[cfg(target_os = "linux")]
        Command::Top(options) => top::top(options),
        #[cfg(target_os = "linux")]
        Command::Profile(options) => profile::profile(options),
        #[cfg(target_os = "linux")]
        Command::Report(options) => report::report(options),
    });
    match result {
        Ok(ending) => system::pass_on(ending),
        Err(error) => {
            words::say(format!("{error:#}"));
            std::process::exit(stop::code_of(&error));
        }
    }
}
