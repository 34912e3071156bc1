//! The bench driver: compares the costs of allocators.
//!
//! ```text
//!   cases.toml ---- cases.rs ----+
//!                                +--> run.rs --> results.rs --> report.rs  tables, Markdown
//!   build/peers --- peers.rs ----+       |       (JSON)     --> plot.rs    SVG
//!                                        |                  --> gates.rs   pass or fail
//!                                  measure.rs (one process)
//!   micro/count.c --------------- instructions.rs: counts, not time
//!   cases.toml ------------------ counters.rs: the same for whole programs
//! ```
//!
//! Everything after `results.rs` is a function of the results file, so `show`
//! makes the tables, plots and verdicts of an old run again.

mod cases;
mod counters;
mod gates;
mod instructions;
mod measure;
mod peers;
mod plot;
mod report;
mod results;
mod run;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "bench", about = "Compares glebe with other allocators", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the cases under the allocators and compare time and memory
    Run(run::RunArgs),
    /// Count the instructions of malloc and free
    Instructions(instructions::InstructionArgs),
    /// Count instructions and simulated cache misses of whole programs
    Counters(counters::CounterArgs),
    /// Print tables, plot and verdicts of an earlier run again
    Show(ShowArgs),
    /// Draw a picture that another bench wrote as JSON
    Plot(plot::PlotArgs),
    /// List the cases
    Cases,
}

#[derive(clap::Args)]
struct ShowArgs {
    /// The results file of that run
    results: PathBuf,
    #[command(flatten)]
    output: report::OutputArgs,
}

fn main() -> ExitCode {
    match dispatch(Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Carries out the command; false means that a gate failed or a case broke.
fn dispatch(cli: Cli) -> Result<bool> {
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Instructions(args) => instructions::run(&args),
        Command::Counters(args) => counters::run(&args),
        Command::Show(args) => report::show(&results::Results::load(&args.results)?, &args.output),
        Command::Plot(args) => plot::run(&args),
        Command::Cases => {
            for case in cases::load()? {
                println!("{:<8} {:<18} {}", case.group.to_string(), case.name, case.about);
            }
            Ok(true)
        }
    }
}
