//! Instructions per malloc and free.
//!
//! Time on a shared machine is noisy; a count of instructions is the same
//! every time. It is not time (a cache miss is one instruction too), but a good
//! figure for tuning a fast path.
//!
//! The counter is valgrind's cachegrind with its cache simulation off, which is
//! several times as fast as callgrind and counts the same. It counts a whole
//! process; the price of one operation is a difference of differences,
//!
//! ```text
//!     (full(2R) - full(R)) - (empty(2R) - empty(R))
//!     ---------------------------------------------
//!            R rounds x operations in a round
//! ```
//!
//! so start-up and warm-up cancel, and so does the loop; see micro/count.c.
//! valgrind starts the program through `env`, so that the library is not
//! preloaded into valgrind itself.
//!
//! `rep stosb` fills a block and is one instruction, of which valgrind counts each
//! byte. Which processor takes it, and from which size on, glibc decides: so
//! counted programs get a glibc that never does.

use crate::peers::{self, build_dir, Allocator};
use anyhow::{bail, Context, Result};
use comfy_table::{presets, CellAlignment, Table};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// One line of the table.
struct Shape {
    name: &'static str,
    /// Its name in count.c.
    shape: &'static str,
    rounds: u64,
    /// Operations in a round: pairs, or calls of realloc for `append`.
    operations: u64,
    /// The most that glebe may take.
    limit: Option<f64>,
}

#[rustfmt::skip]
const SHAPES: [Shape; 16] = [
    Shape { name: "64 B pair",            shape: "pair:64",      rounds: 20_000, operations: 1, limit: Some(40.0) },
    Shape { name: "1024 x 16-512 B, random order",
                                          shape: "batch:1024",   rounds: 20, operations: 1024, limit: Some(46.0) },
    Shape { name: "2 KB pair",            shape: "pair:2048",    rounds: 20_000, operations: 1, limit: Some(56.0) },
    Shape { name: "20 KB pair",           shape: "pair:20480",   rounds: 20_000, operations: 1, limit: Some(75.0) },
    Shape { name: "100 KB pair",          shape: "pair:102400",  rounds: 20_000, operations: 1, limit: Some(150.0) },
    Shape { name: "300 KB pair",          shape: "pair:307200",  rounds: 20_000, operations: 1, limit: Some(180.0) },
    Shape { name: "2 MB pair",            shape: "pair:2097152", rounds: 20_000, operations: 1, limit: Some(300.0) },
    Shape { name: "64 B, 64 live",        shape: "window:64",    rounds: 20_000, operations: 1, limit: None },
    Shape { name: "2 KB, 64 live",        shape: "window:2048",  rounds: 20_000, operations: 1, limit: None },
    Shape { name: "20 KB, 64 live",       shape: "window:20480", rounds: 20_000, operations: 1, limit: None },
    Shape { name: "200 KB, 64 live",      shape: "window:204800", rounds: 10_000, operations: 1, limit: None },
    Shape { name: "32 K x 16-512 B, random order", shape: "batch:32768", rounds: 1, operations: 32768, limit: None },
    Shape { name: "churn, 32 K live",     shape: "churn",        rounds: 60_000, operations: 1, limit: None },
    Shape { name: "calloc 64 B pair",     shape: "calloc:64",    rounds: 20_000, operations: 1, limit: None },
    Shape { name: "calloc 2 KB pair",     shape: "calloc:2048",  rounds: 10_000, operations: 1, limit: None },
    Shape { name: "append, per realloc",  shape: "grow",         rounds: 100, operations: 256, limit: None },
];

#[derive(clap::Args)]
pub struct InstructionArgs {
    /// Count only these allocators (comma separated)
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Count only the shapes whose name contains one of these words
    #[arg(long, value_delimiter = ',')]
    shape: Vec<String>,
    /// The library of glebe [default: build/libglebe.so of the repository]
    #[arg(long)]
    glebe: Option<PathBuf>,
    /// Fail if glebe takes more than its limits
    #[arg(long)]
    gate: bool,
    /// The allocator that the gate judges
    #[arg(long, default_value = "glebe")]
    subject: String,
    /// Check the gate itself: the C library's malloc must fail it
    #[arg(long)]
    self_test: bool,
    /// Write the figures to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Counters to run at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

/// Allocator -> shape -> instructions per operation, or why there is none.
type Figures = BTreeMap<String, BTreeMap<&'static str, Result<f64, String>>>;

#[derive(Serialize)]
struct Json<'a> {
    counter: &'static str,
    allocators: &'a [Allocator],
    limits: BTreeMap<&'static str, f64>,
    instructions: BTreeMap<&'a str, BTreeMap<&'static str, Option<f64>>>,
}

pub fn run(args: &InstructionArgs) -> Result<bool> {
    let mut only = args.only.clone();
    let mut subject = args.subject.as_str();
    if args.self_test {
        only = vec!["glibc".into()];
        subject = "glibc";
    }
    let allocators = peers::find(&only, args.glebe.as_deref())?;
    let shapes: Vec<&Shape> = SHAPES
        .iter()
        .filter(|s| args.shape.is_empty() || args.shape.iter().any(|w| s.name.contains(w.as_str())))
        .filter(|s| !args.self_test || s.limit.is_some())
        .collect();
    if shapes.is_empty() {
        bail!("no shape matches; there are: {}", SHAPES.map(|s| s.name).join(", "));
    }
    let figures = count_all(&allocators, &shapes, args.jobs.max(1))?;
    println!("{}", table(&allocators, &shapes, &figures));
    println!("Instructions per malloc+free through the PLT, without the loop. Lower is better.");
    report_failures(&figures);
    if let Some(path) = &args.json {
        write_json(path, &allocators, &shapes, &figures)?;
    }
    if args.self_test {
        let passed = gate(subject, &shapes, &figures)?;
        println!("self-test: glibc {} the gate", if passed { "PASSES" } else { "fails" });
        return Ok(!passed);
    }
    if args.gate {
        return gate(subject, &shapes, &figures);
    }
    Ok(true)
}

/// Prints one line per limit; false if one is exceeded or could not be counted.
fn gate(subject: &str, shapes: &[&Shape], figures: &Figures) -> Result<bool> {
    let own = figures.get(subject).with_context(|| format!("{subject} was not counted"))?;
    let mut passed = true;
    for shape in shapes {
        let Some(limit) = shape.limit else { continue };
        let (ok, figure) = match &own[shape.name] {
            // Judge the figure as the table shows it, with one decimal.
            Ok(n) => ((n * 10.0).round() <= limit * 10.0, format!("{n:.1}")),
            Err(_) => (false, "not counted".to_string()),
        };
        let word = if ok { "pass" } else { "FAIL" };
        println!("{word}  {subject}: {}: {figure}, limit {limit}", shape.name);
        passed &= ok;
    }
    Ok(passed)
}

/// Counts everything, a few processes at a time. The empty loop is the same
/// for all allocators and is counted once.
fn count_all(allocators: &[Allocator], shapes: &[&Shape], jobs: usize) -> Result<Figures> {
    let work: Vec<(Option<&Allocator>, &Shape)> = shapes
        .iter()
        .flat_map(|s| {
            std::iter::once(None).chain(allocators.iter().map(Some)).map(move |a| (a, *s))
        })
        .collect();
    let bar = indicatif::ProgressBar::new(work.len() as u64);
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some((allocator, shape)) = work.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let name = allocator.map_or("", |a| a.name.as_str());
                    let steady = steady_state(*allocator, shape).map_err(|e| format!("{e:#}"));
                    done.lock().unwrap().insert((name.to_string(), shape.name), steady);
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();

    let done = done.into_inner().unwrap();
    let mut figures = Figures::new();
    for shape in shapes {
        let empty = done[&(String::new(), shape.name)].clone();
        let empty = empty.map_err(anyhow::Error::msg).context("cannot count the empty loop")?;
        for allocator in allocators {
            let full = done[&(allocator.name.clone(), shape.name)].clone();
            let each = (shape.rounds * shape.operations) as f64;
            let figure = full.map(|full| (full as f64 - empty as f64) / each);
            figures.entry(allocator.name.clone()).or_default().insert(shape.name, figure);
        }
    }
    Ok(figures)
}

/// The instructions of R rounds, start-up and warm-up taken off.
fn steady_state(allocator: Option<&Allocator>, shape: &Shape) -> Result<i64> {
    let once = count(allocator, shape.shape, shape.rounds)?;
    let twice = count(allocator, shape.shape, 2 * shape.rounds)?;
    Ok(twice - once)
}

/// valgrind, for programs that fill and copy memory without `rep`.
pub fn valgrind() -> Command {
    const NEVER: u32 = 1 << 30;
    let mut command = Command::new("valgrind");
    let tunables = ["stosb", "movsb"].map(|which| format!("glibc.cpu.x86_rep_{which}_threshold={NEVER}"));
    command.env("GLIBC_TUNABLES", tunables.join(":"));
    command
}

/// The instructions of one whole process. No allocator means the empty loop.
fn count(allocator: Option<&Allocator>, shape: &str, rounds: u64) -> Result<i64> {
    let mut command = valgrind();
    command.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]);
    command.args(["--trace-children=yes", "env"]);
    if let Some(allocator) = allocator {
        command.arg(format!("LD_PRELOAD={}", allocator.library.display()));
    }
    command.arg(build_dir().join("bin/count")).arg(shape).arg(rounds.to_string());
    if allocator.is_none() {
        command.arg("empty");
    }
    let output = command.output().context("cannot run valgrind; run bench/setup")?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let reason = text
            .lines()
            .find(|l| !l.trim().is_empty() && !l.starts_with("==") && !l.starts_with("--"));
        bail!("does not run under valgrind: {}", reason.unwrap_or("no reason given").trim());
    }
    // `env` leaves no total of its own: it is replaced before it could end.
    let total = text
        .lines()
        .rev()
        .find_map(|l| l.split_once("refs:"))
        .context("valgrind printed no total")?;
    Ok(total.1.trim().replace(',', "").parse()?)
}

fn table(allocators: &[Allocator], shapes: &[&Shape], figures: &Figures) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    let heads = allocators.iter().map(|a| a.name.as_str());
    table.set_header(["instructions"].into_iter().chain(heads).chain(["limit"]));
    for shape in shapes {
        let mut row = vec![shape.name.to_string()];
        for allocator in allocators {
            let figure = &figures[&allocator.name][shape.name];
            row.push(figure.as_ref().map_or("-".into(), |n| format!("{n:.1}")));
        }
        row.push(shape.limit.map_or(String::new(), |l| format!("{l}")));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn report_failures(figures: &Figures) {
    for (allocator, by_shape) in figures {
        let failed: Vec<_> =
            by_shape.iter().filter_map(|(s, f)| Some((s, f.as_ref().err()?))).collect();
        if let Some((_, why)) = failed.first() {
            println!("WITHOUT {allocator} in {} of {} shapes: {why}", failed.len(), by_shape.len());
        }
    }
}

fn write_json(
    path: &PathBuf,
    allocators: &[Allocator],
    shapes: &[&Shape],
    figures: &Figures,
) -> Result<()> {
    let instructions = figures.iter().map(|(allocator, by_shape)| {
        let by_shape = by_shape.iter().map(|(s, f)| (*s, f.as_ref().ok().copied())).collect();
        (allocator.as_str(), by_shape)
    });
    let json = Json {
        counter: "cachegrind",
        allocators,
        limits: shapes.iter().filter_map(|s| Some((s.name, s.limit?))).collect(),
        instructions: instructions.collect(),
    };
    std::fs::write(path, serde_json::to_string_pretty(&json)? + "\n")
        .with_context(|| path.display().to_string())
}
