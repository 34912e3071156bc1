//! `glebe compare`: allocators on the user's own program, interleaved, with honest statistics.
//!
//! ```text
//!   peers ──▶ contenders ──▶ warm-up: one run each, proves that each library gets in
//!                               │
//!   round 1..N: each contender once, shuffled ──▶ measure (+ sampler) ──▶ Run
//!                               │
//!                 table, verdicts (noise), picture, JSON lines
//! ```

mod measure;
pub mod noise;
mod peers;
mod picture;
mod progress;
mod sampler;
mod table;

use crate::args::{CompareOptions, JSON_TO_STDOUT};
pub use measure::{Measured, Proof, Run, Setting, Streams};
pub use peers::{choose, Contender};
pub use sampler::{sample, Samples};

use crate::output;
use crate::program::Program;
use crate::run::{Checked, Way};
use crate::screen::Screen;
use crate::size::counted;
use crate::stop::Ending;
use crate::system::{self, check, interrupt};
use crate::words::{print, say};
use anyhow::{bail, Context, Result};
use noise::Random;
use progress::Progress;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use table::{Measure, Row};

/// Compares and prints. Returns how this command must end.
pub fn compare(options: &CompareOptions) -> Result<Ending> {
    let program = Program::find(&options.program)?;
    let mut contenders = choose(&options.with, &options.only)?;
    let Checked { way, mut notes } = check(&program, options.force, None)?;
    let title = program.display();
    match way {
        Way::Under => {}
        Way::StandIn(soname) => notes.push(stand_in(soname, &mut contenders)?),
        Way::Inside if options.force => {}
        Way::Inside => bail!(
            "{} has glebe linked in, and that comes before every preloaded library: all rows would show glebe. \
             Instead, build it without glebe. (--force starts it anyway.)",
            program.name.to_string_lossy()
        ),
    }
    let sampled = !options.no_samples;
    let setting = Setting {
        program,
        stdin: options.stdin.clone(),
        show_output: options.show_output,
        sample_every: sampled.then(|| Duration::from_millis(options.sample_ms)),
        correct: None,
    };
    compare_under(options, &setting, &contenders, &title, notes)
}

/// Runs all rounds and prints what they show. Of `options` it uses what says how often, and where the output goes.
pub fn compare_under(
    options: &CompareOptions,
    setting: &Setting,
    contenders: &[Contender],
    title: &str,
    mut notes: Vec<String>,
) -> Result<Ending> {
    output::probe_each(&options.svg)?; // now rather than after an hour of runs
    let mut json = Json::open(options)?;
    let seed = options.seed.unwrap_or_else(clock_seed);
    if !options.quiet {
        let names: Vec<&str> = contenders.iter().map(|c| c.name.as_str()).collect();
        say(title);
        let rounds = counted(options.runs as usize, "round");
        say(format!("{}; {rounds}, seed {seed}", names.join(", ")));
    }

    notes.extend(system::left_out(None));
    notes.extend(system::under_every_program());
    interrupt::listen();
    let rows = run_rounds(options, setting, contenders, seed, &mut json, &mut notes)?;
    let caught = interrupt::caught();
    if caught.is_some() {
        let whole = counted(rows.first().map_or(0, |row| row.runs.len()), "whole round");
        notes.push(format!("interrupted after {whole} of {}", options.runs));
    }
    if let Some(ending) = caught.filter(|_| rows.iter().all(|row| row.runs.is_empty())) {
        say("interrupted before the first round was complete");
        return Ok(ending);
    }
    notes.extend(remarks(&rows));
    if matches!(json.out, JsonOut::Stdout) {
        let failures = rows.iter().filter_map(|row| Some((&row.name, row.failure()?)));
        notes.extend(failures.map(|(name, failure)| format!("{name}: {failure}")));
    } else {
        print_table(&rows)?;
    }
    for note in &notes {
        say(format!("note: {note}"));
    }
    if let Some(path) = &options.svg {
        picture::draw(path, title, &rows)?;
    }
    if let Some(ending) = caught {
        return Ok(ending);
    }
    let failed = rows.iter().flat_map(|row| &row.runs).find(|run| run.exit != 0);
    Ok(Ending::Exit(failed.map_or(0, |run| run.exit)))
}

/// Our stand-in replaces mimalloc's library `soname`, which the program needs. Returns the note for the user.
fn stand_in(soname: &str, contenders: &mut [Contender]) -> Result<String> {
    for contender in contenders {
        match contender.name.as_str() {
            "glebe" => contender.library = Some(system::libraries::stand_in(soname)?),
            name @ ("glebe-secure" | "glebe-audit" | "glebe-safe") => {
                bail!("the program is linked with {soname}, for which {name} cannot stand in")
            }
            _ => {}
        }
    }
    Ok(format!(
        "the program is linked with {soname}, which is what the row `system` shows; glebe stands in for that library. \
         Under another allocator, a block that goes from mimalloc's functions to its free ends the program"
    ))
}

/// Runs the warm-up and all rounds, or the complete ones until a signal comes. Prints each run as JSON as it ends.
fn run_rounds(
    options: &CompareOptions,
    setting: &Setting,
    contenders: &[Contender],
    seed: u64,
    json: &mut Json,
    notes: &mut Vec<String>,
) -> Result<Vec<Row>> {
    let progress = Progress::new(options, contenders.len());
    let row = |c: &Contender| Row { name: c.name.clone(), runs: Vec::new() };
    let mut rows: Vec<Row> = contenders.iter().map(row).collect();
    for contender in contenders {
        progress.step(&format!("warm-up: {}", contender.name));
        let run = setting.run(contender, 0)?;
        if interrupt::caught().is_some() {
            progress.finish();
            return Ok(rows);
        }
        progress.done();
        if run.proof == Some(Proof::Absent) {
            notes.push(format!(
                "{} was never loaded, so its row shows another malloc (is the library whole? does the \
                 program drop LD_PRELOAD?)",
                contender.name
            ));
        }
        if let Some(failure) = run.failure() {
            progress.say(&format!("{}: the warm-up ended: {failure}", contender.name));
        }
    }
    progress.line("warm-up done");

    let mut random = Random(seed);
    let mut order: Vec<usize> = (0..contenders.len()).collect();
    for round in 1..=options.runs {
        random.shuffle(&mut order);
        for index in &order {
            progress.step(&format!("round {round}: {}", contenders[*index].name));
            let run = setting.run(&contenders[*index], round)?;
            if interrupt::caught().is_some() {
                progress.finish();
                rows.iter_mut().for_each(|row| row.runs.truncate(round as usize - 1));
                return Ok(rows);
            }
            progress.done();
            json.print(&run)?;
            rows[*index].runs.push(run);
        }
        progress.line(&format!("round {round} of {}", options.runs));
    }
    progress.finish();
    Ok(rows)
}

/// The output of `--json`: an object for each run, as it ends.
struct Json {
    out: JsonOut,
    samples: bool,
}

enum JsonOut {
    Nowhere,
    /// Instead of the table.
    Stdout,
    /// As well as the table.
    File(File, PathBuf),
}

impl Json {
    fn open(options: &CompareOptions) -> Result<Json> {
        let out = match &options.json {
            None => JsonOut::Nowhere,
            Some(path) if path.as_os_str() == JSON_TO_STDOUT => JsonOut::Stdout,
            Some(path) => {
                output::probe_each([path])?;
                let file = File::create(path).with_context(|| path.display().to_string())?;
                JsonOut::File(file, path.clone())
            }
        };
        Ok(Json { out, samples: options.samples_json })
    }

    fn print(&mut self, run: &Run) -> Result<()> {
        let line = || {
            let mut run = run.clone();
            run.samples = run.samples.filter(|_| self.samples);
            serde_json::to_string(&run)
        };
        match &self.out {
            JsonOut::Nowhere => Ok(()),
            JsonOut::Stdout => print(line()?),
            JsonOut::File(file, path) => {
                let text = line()?;
                let before = file.metadata().map_or(0, |meta| meta.len());
                let written = writeln!(&mut &*file, "{text}").inspect_err(|_| match before {
                    0 => output::remove(path),
                    whole => file.set_len(whole).unwrap_or(()),
                });
                written.with_context(|| path.display().to_string())
            }
        }
    }
}

fn print_table(rows: &[Row]) -> Result<()> {
    let screen = Screen::stdout();
    table::tables(rows, screen).iter().try_for_each(print)?;
    let print = |text: String| print(screen.wrapped(&text));
    let base = rows.first().map_or("", |row| &row.name);
    let sampled = rows.iter().any(|row| row.median(Measure::Mean).is_some());
    let of = system::SAMPLED_OF;
    let sign = screen.plus_minus();
    print(format!("Each cell: median {sign}median absolute deviation, ratio to {base}."))?;
    if sampled {
        print(format!("Mean RSS is over time, of {of}."))?;
    }
    table::verdicts(rows).into_iter().try_for_each(print)
}

/// Notes on the figures.
fn remarks(rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    for (which, stream) in ["standard output", "standard error"].iter().enumerate() {
        notes.extend(output_remark(rows, stream, which));
    }
    if rows.iter().flat_map(|row| &row.runs).any(|run| run.peak_is_guess) {
        notes.push(
            "the program is too short, or about as small as this command, so its peak RSS is unknown \
             (the JSON has a guess)"
                .into(),
        );
    }
    notes
}

/// Compares outputs between allocators, unless they already differ between runs of the first.
fn output_remark(rows: &[Row], stream: &str, which: usize) -> Option<String> {
    let outputs = |row: &Row| -> Vec<_> {
        row.runs.iter().filter_map(|run| Some(run.output?[which])).collect()
    };
    let (base, others) = rows.split_first()?;
    let of_base = outputs(base);
    let first = of_base.first().copied()?;
    if of_base.iter().any(|output| *output != first) {
        return Some(format!(
            "{stream} differs from run to run under one allocator, so glebe did not compare it"
        ));
    }
    let different = others.iter().filter(|row| outputs(row).iter().any(|o| *o != first));
    let names: Vec<&str> = different.map(|row| row.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!("{stream} under {} differs from that under {}", names.join(", "), base.name)
    })
}

fn clock_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Short enough to type.
    now.as_nanos() as u64 % 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::measure::Output;
    use super::table::tests::row;
    use super::*;

    fn with_output(name: &str, sums: &[u64]) -> Row {
        let mut row = row(name, &vec![1.0; sums.len()]);
        for (run, checksum) in row.runs.iter_mut().zip(sums) {
            run.output = Some([Output { bytes: 3, checksum: *checksum }; 2]);
        }
        row
    }

    #[test]
    fn outputs_are_compared_only_if_they_are_steady() {
        let remark = |rows: &[Row]| output_remark(rows, "standard output", 0);
        let system = || with_output("system", &[7, 7]);
        assert_eq!(remark(&[system(), with_output("glebe", &[7, 7])]), None);
        let other = remark(&[system(), with_output("glebe", &[7, 8])]).unwrap();
        assert!(other.contains("under glebe differs from that under system"), "{other}");
        let unsteady = remark(&[with_output("system", &[1, 2]), with_output("glebe", &[3, 4])]);
        assert!(unsteady.unwrap().contains("from run to run"));
        assert_eq!(remark(&[row("system", &[1.0]), row("glebe", &[1.0])]), None, "not kept");
    }
}
