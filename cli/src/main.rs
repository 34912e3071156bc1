//! The `glebe` command: the allocator inside any program, and honest comparisons.
//!
//! ```text
//!   args        what can be said on the command line, and the help
//!   program     words -> the file that will run          inspect   can it take a preload?
//!   library     the embedded library -> a path           witness   did it get in?
//!   launch      exec, fork, wait                         stop      exit codes of our own
//!   run         glebe run                                live      glebe stats
//!   compare/    glebe compare: peers, measure, interrupt, sampler, noise, table, picture
//! ```
//!
//! Linux only for now: preloading, /proc and wait4 are what it is made of.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "the glebe command works on Linux only so far; the library itself builds without it"
);

mod args;
mod compare;
mod inspect;
mod launch;
mod library;
mod live;
mod program;
mod run;
mod size;
mod stop;
mod witness;

use clap::Parser;

fn main() {
    launch::restore_sigpipe();
    let result = match args::Cli::parse().command {
        args::Command::Run(options) => run::run(&options),
        args::Command::Compare(options) => compare::compare(&options),
        args::Command::Stats(options) => live::stats(&options),
    };
    match result {
        Ok(ending) => ending.pass_on(),
        Err(error) => {
            eprintln!("glebe: {error:#}");
            std::process::exit(stop::code_of(&error));
        }
    }
}
