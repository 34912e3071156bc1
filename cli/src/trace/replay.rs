//! `glebe replay`: a trace's calls under each allocator, and the table of `glebe compare`.
//!
//! glebe-replayer (record/replay.c) carries out a plan. It maps its own tables outside malloc, keeps them resident from
//! the start and reports their size, so that a peak without them is the allocator's and that of a small process.

use super::{memory_bytes, plan};
use crate::args::ReplayOptions;
use crate::compare::{self, Run, Setting};
use crate::program::Program;
use crate::size::{counted, mib};
use crate::stop::Ending;
use crate::system::{self, libraries};
use anyhow::{bail, Context, Result};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub fn replay(options: &ReplayOptions) -> Result<Ending> {
    let survey = plan::survey(&options.trace)?;
    if survey.calls == 0 {
        bail!("{}: has no calls to replay", options.trace.display());
    }
    let memory = memory_bytes();
    if survey.peak_bytes > memory && !options.force {
        bail!(
            "{}: its blocks need {:.0} MiB at once, and this machine has {:.0} (--force replays it anyway)",
            options.trace.display(),
            mib(survey.peak_bytes as f64),
            mib(memory as f64)
        );
    }
    let contenders = compare::choose(&options.with, &options.only)?;
    let mut notes = Vec::new();
    if survey.failed > 0 {
        notes.push(format!(
            "{} that failed are left out",
            counted(survey.failed as usize, "allocation")
        ));
    }
    let folder = tempfile::Builder::new().prefix("glebe-replay-").tempdir();
    let folder = folder.context("a temporary folder for the plan")?;
    system::remove_at_end(folder.path());
    let [plan, report] = ["plan", "report"].map(|name| folder.path().join(name));
    let file = File::create_new(&plan).context("the plan, a temporary file")?;
    plan::write(&options.trace, &survey, options.pace, &file)?;
    File::create_new(&report).context("the report, a temporary file")?;
    let helper = libraries::tool("glebe-replayer")?;
    let title = format!("replay of {}", options.trace.display());
    let setting = Setting {
        program: Program {
            name: helper.clone().into_os_string(),
            args: [&plan, &report].map(OsString::from).to_vec(),
            path: helper,
        },
        stdin: None,
        show_output: true,
        sample_every: (!options.no_samples).then(|| Duration::from_millis(options.sample_ms)),
        correct: Some(Box::new(corrector(report.clone()))),
    };
    compare::compare_under(&options.as_compare(), &setting, &contenders, &title, notes)
}

/// Takes the replayer's own memory out of a run's figures.
fn corrector(report: PathBuf) -> impl Fn(&mut Run) -> Result<()> {
    move |run| {
        if run.exit != 0 {
            return Ok(());
        }
        let (peak, own) = read(&report)?;
        run.peak_rss_bytes = peak.saturating_sub(own);
        run.peak_is_guess = false;
        run.mean_rss_bytes = run.mean_rss_bytes.map(|mean| (mean - own as f64).max(0.0));
        if let Some(samples) = &mut run.samples {
            samples.lower(own);
        }
        // A run that ends early must not find the figures of the one before.
        std::fs::write(&report, "").with_context(|| report.display().to_string())
    }
}

fn read(report: &Path) -> Result<(u64, u64)> {
    let text = std::fs::read_to_string(report).unwrap_or_default();
    let mut numbers = text.split_whitespace().map_while(|word| word.parse::<u64>().ok());
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(peak), Some(own), Some(_)) => Ok((peak, own)),
        _ => bail!("the replayer ended without its report"),
    }
}
