//! The `glebe` command: the allocator inside any program, and honest comparisons.
//!
//! ```text
//!   args        what can be said on the command line, and the help
//!   program     words -> the file that will run          run     options -> the library's own language
//!   compare/    glebe compare: peers, measure, sampler, noise, table, picture
//!   stop        how programs end, and exit codes of our own
//!   linux/      preloading, /proc and wait4; Windows programs go to Wine
//!   windows/    glebe.dll in a process that has not begun
//! ```
//!
//! All that differs between systems is `system`, which offers the same in each:
//!
//! ```text
//!   begin, pass_on      before all else; the program's ending becomes ours
//!   search              a name -> the file that the system would run
//!   check               refuses what cannot take the library; remarks on the rest
//!   run                 glebe run
//!   show_live           glebe stats of a running process
//!   libraries           names -> libraries that can be put under a program
//!   measure             one run of a program, and what the system saw; SAMPLED_OF: of whom
//!   NULL, scratch       what it reads, and where its output goes
//!   interrupt           Ctrl-C during a comparison
//! ```

#[cfg(not(any(target_os = "linux", all(windows, target_arch = "x86_64"))))]
compile_error!(
    "the glebe command works on Linux and 64-bit Windows only so far; the library itself builds without it"
);

mod args;
mod compare;
mod program;
mod run;
mod size;
mod stop;
#[cfg_attr(target_os = "linux", path = "linux/mod.rs")]
#[cfg_attr(windows, path = "windows/mod.rs")]
mod system;

use args::Command;
use clap::Parser;

fn main() {
    let command = args::Cli::parse().command;
    let result = system::begin(command.program()).and_then(|()| match &command {
        Command::Run(options) => run::run(options),
        Command::Compare(options) => compare::compare(options),
        Command::Stats(options) => match options.pid {
            Some(pid) => system::show_live(pid, options.json),
            None => run::run(&options.of_a_run()),
        },
    });
    match result {
        Ok(ending) => system::pass_on(ending),
        Err(error) => {
            eprintln!("glebe: {error:#}");
            std::process::exit(stop::code_of(&error));
        }
    }
}
