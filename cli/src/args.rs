//! The command line: each option with its unit and its default, from which `--help` is made. The options of `explain`,
//! `leaks`, `map` and `top` are with their code.

use crate::pid::PidParser;
use crate::size;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Exit status: the program's own. Of glebe itself: 125 if it failed or refused, 126 if the program \
cannot be executed, 127 if there is no such program, 2 for a wrong command line.

Documentation: https://glebe-alloc.github.io/glebe";

/// The largest purge_ms that the library takes.
const PURGE_MS_MOST: u32 = u32::MAX / 4;

fn purge_ms(text: &str) -> Result<u32, String> {
    size::whole(text, 0..=PURGE_MS_MOST.into()).map(|ms| ms as u32)
}

fn runs(text: &str) -> Result<u32, String> {
    size::whole(text, 1..=10_000).map(|runs| runs as u32)
}

fn sample_ms(text: &str) -> Result<u64, String> {
    size::whole(text, 1..=60_000)
}

#[cfg(target_os = "linux")]
fn seconds(text: &str) -> Result<u64, String> {
    size::whole(text, 1..=1_000_000)
}

fn seed(text: &str) -> Result<u64, String> {
    size::whole(text, 0..=u64::MAX)
}

/// A file and a threshold, as the library takes them (src/debug/snapshot.c). The path is made absolute here,
/// since programs start others in other directories.
fn snapshot(text: OsString) -> Result<OsString, String> {
    let wants = || "it takes FILE@N%, N from 1 to 100, or FILE@SIZE".to_string();
    let bytes = text.as_encoded_bytes();
    let at = bytes.iter().rposition(|byte| *byte == b'@').filter(|at| *at > 0).ok_or_else(wants)?;
    let threshold = std::str::from_utf8(&bytes[at + 1..]).map_err(|_| wants())?;
    match threshold.strip_suffix('%') {
        Some(percent) => size::whole(percent, 1..=100).map(|_| ()).map_err(|_| wants())?,
        None => {
            size::parse(threshold).ok().filter(|bytes| *bytes > 0).ok_or_else(wants)?;
        }
    }
    absolute(text) // the threshold stays: what changes is before the file's name
}

/// A path, made absolute, since programs start others in other directories.
fn absolute(path: OsString) -> Result<OsString, String> {
    let wrong = |error| format!("{}: {error}", Path::new(&path).display());
    std::path::absolute(&path).map(OsString::from).map_err(wrong)
}

/// The value of `--json` without one.
pub const JSON_TO_STDOUT: &str = "-";

#[derive(Parser)]
#[command(name = "glebe", version = env!("GLEBE_VERSION_TEXT"), about)]
#[command(after_help = AFTER_HELP, args_override_self = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Run(RunOptions),
    Compare(CompareOptions),
    Stats(StatsOptions),
    #[cfg(target_os = "linux")]
    Record(RecordOptions),
    #[cfg(target_os = "linux")]
    Replay(ReplayOptions),
    #[cfg(target_os = "linux")]
    Trace(TraceOptions),
    #[cfg(target_os = "linux")]
    Explain(crate::explain::Options),
    #[cfg(target_os = "linux")]
    Leaks(crate::leaks::Options),
    #[cfg(target_os = "linux")]
    Map(crate::map::Options),
    #[cfg(target_os = "linux")]
    Top(crate::top::Options),
    #[cfg(target_os = "linux")]
    Profile(ProfileOptions),
    #[cfg(target_os = "linux")]
    Report(crate::report::Options),
    Man(crate::shares::ManOptions),
    Completions(crate::shares::CompletionsOptions),
}

impl Command {
    /// The program and its arguments, if one is given.
    pub fn program(&self) -> &[OsString] {
        match self {
            Command::Run(options) => &options.program,
            Command::Compare(options) => &options.program,
            Command::Stats(options) => &options.target.program,
            Command::Man(_) | Command::Completions(_) => &[],
            #[cfg(target_os = "linux")]
            Command::Record(options) => &options.program,
            #[cfg(target_os = "linux")]
            Command::Replay(_) | Command::Trace(_) => &[],
            #[cfg(target_os = "linux")]
            Command::Explain(options) => &options.program,
            #[cfg(target_os = "linux")]
            Command::Leaks(options) => &options.target.program,
            #[cfg(target_os = "linux")]
            Command::Map(_) | Command::Top(_) | Command::Report(_) => &[],
            #[cfg(target_os = "linux")]
            Command::Profile(options) => &options.program,
        }
    }
}

/// Run a program with glebe as its malloc.
///
/// This command carries the library, writes it to your cache directory and preloads it, so children of
/// the program get it too. A program with glebe linked in runs as it is, with the options given. A
/// program linked with libmimalloc gets glebe's library of that name. The command refuses a program
/// that cannot take the library, and says why: static, setuid, another architecture, or a malloc of
/// its own.
///
/// A 64-bit Windows program gets glebe.dll before it begins; the file is beside glebe.exe, or where
/// GLEBE_TOOL_DLL says. On Linux, Wine ($WINE) runs such a program with glebe.exe ($GLEBE_TOOL_EXE).
#[derive(Args, Default)]
#[command(
    override_usage = "glebe run [OPTIONS] [--] <PROGRAM> [ARGUMENT]...",
    after_help = "\
Examples:
  glebe run -- python3 script.py
  glebe run --stats -- sqlite3 data.db 'select count(*) from t'
  glebe run --limit 512M --background -- ./server --port 8080
  glebe run --secure --on-error=abort -- ./suspect
  glebe run --guard 8M --report found.json -- ./server

Exit status: the program's own; a signal that ends the program ends glebe too. Of glebe itself: \
125 if it failed or refused, 126 if the program cannot be executed, 127 if there is no such program, \
2 for a wrong command line."
)]
pub struct RunOptions {
    /// Report at exit that glebe was active, what it did, and whether the program really loaded it
    #[arg(short, long)]
    pub verbose: bool,
    /// Print the program's statistics to stderr at its exit, and sum up its children (json: one object a process)
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true,
          default_missing_value = "text")]
    pub stats: Option<StatsFormat>,
    /// That is all the command is for: without statistics it failed
    #[arg(skip)]
    pub must_show: bool,
    /// Start a thread that returns freed memory to the system, also while the program idles
    #[arg(long)]
    pub background: bool,
    /// Make malloc fail beyond this size (bytes, or with K, M, G, T, as in 1.5G; powers of 1024; 0: no limit)
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub limit: Option<u64>,
    /// Milliseconds that freed memory is retained before the system gets it back, at most 1073741823
    #[arg(long, value_name = "MS", value_parser = purge_ms)]
    pub purge_ms: Option<u32>,
    /// Before the end: write a snapshot when memory use reaches N % of the container's or the process's limit, or SIZE
    #[arg(long, value_name = "FILE@N%", value_parser = OsStringValueParser::new().try_map(snapshot))]
    pub snapshot: Option<OsString>,
    /// With --snapshot: sample allocations, one byte in SIZE on average, so that the snapshot says which callers hold
    /// memory (as in 512K)
    #[arg(long, value_name = "SIZE", value_parser = size::parse, requires = "snapshot")]
    pub mean: Option<u64>,
    /// On Linux: guard a block at each SIZE of allocations; its overflow and use after free are reported (8M costs
    /// little)
    #[arg(long, value_name = "SIZE", value_parser = size::parse,
          conflicts_with_all = ["secure", "safe", "audit", "libgc"])]
    pub guard: Option<u64>,
    /// On Linux: also append each report of a misuse to this file, for `glebe report`
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(absolute))]
    pub report: Option<OsString>,
    /// What follows the report of a misuse, such as a double free
    #[arg(long, value_name = "WHAT")]
    pub on_error: Option<OnError>,
    /// Use the secure build: it finds double frees, hands out blocks in random order, has guards; a little slower
    #[arg(long, conflicts_with_all = ["audit", "safe"])]
    pub secure: bool,
    /// Use the safe build, on Linux: freed memory is used again only when no pointer to it is left
    #[arg(long, conflicts_with = "audit")]
    pub safe: bool,
    /// Use the audit build: it checks the whole heap as it goes; much slower
    #[arg(long)]
    pub audit: bool,
    /// Instead of malloc, replace the collector of a program that uses libgc (bdwgc), on Linux
    #[arg(long, conflicts_with_all = ["secure", "safe", "audit"])]
    pub libgc: bool,
    /// For a Windows program: put the library into the programs that it starts, too (on Linux children always get it)
    #[arg(long)]
    pub children: bool,
    /// Start the program even if it defines its own malloc or has a sanitizer inside
    #[arg(long)]
    pub force: bool,
    /// Print no notes about the program (errors and refusals stay)
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub program: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatsFormat {
    Text,
    Json,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnError {
    /// Abort
    Abort,
    /// Count it and go on
    Count,
}

/// Compare allocators on your own program.
///
/// The command runs the program under the system's malloc, under glebe and under every peer that it
/// finds on this machine (mimalloc, jemalloc, tcmalloc, snmalloc, rpmalloc). Each round runs each
/// allocator once, in shuffled order. One run of each beforehand warms the caches and does not count.
///
/// The table has medians, their median absolute deviations, and ratios to the system's malloc. The
/// command speaks of a difference only if it is beyond the noise: the 99 % interval of the paired
/// differences over the rounds (Wilcoxon signed-rank) leaves out zero. That takes 8 runs or more.
///
/// CPU time and page faults are those of the program and of the children it waited for. Peak RSS is
/// that of the largest process. RSS over time is a sum over the process tree, by samples. The command
/// keeps the program's output back and compares it between allocators.
///
/// For a Windows program all figures are those of its one process, minor and major faults count
/// together, and only system, glebe and NAME=PATH.dll can be compared. Wine reports no CPU time and faults.
#[derive(Args)]
#[command(
    override_usage = "glebe compare [OPTIONS] [--] <PROGRAM> [ARGUMENT]...",
    after_help = "\
Examples:
  glebe compare -- python3 script.py
  glebe compare --with mimalloc,jemalloc --runs 20 -- ./server --selftest
  glebe compare --with v3=/opt/v3/libmimalloc.so --svg ram.svg -- ./build.sh
  glebe compare --only glebe,glebe-secure --json -- ./program > runs.jsonl
  glebe compare --svg=picture.svg --json=runs.jsonl -- ./program

JSON: one object a line, one line a run: allocator, run, cpu_s, cpu_user_s, cpu_sys_s, wall_s, \
peak_rss_bytes, mean_rss_bytes (null if too short to sample), faults, major_faults, exit, signal. \
Null: the system does not report it.

Interrupt: Ctrl-C ends the running program and prints the table of the complete rounds.

Exit status: 0, or the program's own if it failed under any allocator (128 + n for signal n). Of \
glebe itself: 125 if it failed or refused, 126 and 127 as a shell's, 2 for a wrong command line."
)]
pub struct CompareOptions {
    /// The peers: names (mimalloc, glebe-secure), paths, NAME=PATH, or `found` for all on this machine;
    /// system and glebe are always compared [default: found]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub with: Vec<String>,
    /// Compare only these, named as for --with; ratios are to the first
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "with")]
    pub only: Vec<String>,
    /// Rounds: runs of each allocator that count, at most 10000
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10,
          value_parser = runs)]
    pub runs: u32,
    /// Seed of the shuffled order, to repeat it [default: from the clock, and printed]
    #[arg(long, value_name = "NUMBER", value_parser = seed)]
    pub seed: Option<u64>,
    /// The program's standard input [default: empty]
    #[arg(long, value_name = "FILE")]
    pub stdin: Option<PathBuf>,
    /// Show the program's output, and do not compare it
    #[arg(long)]
    pub show_output: bool,
    /// Do not sample RSS over time
    #[arg(long)]
    pub no_samples: bool,
    /// Milliseconds between two samples of RSS, at most 60000
    #[arg(long, value_name = "MS", default_value_t = 10,
          value_parser = sample_ms)]
    pub sample_ms: u64,
    /// Print one JSON object a run instead of the table; with =FILE, write them there, and print the table too
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = JSON_TO_STDOUT)]
    pub json: Option<PathBuf>,
    /// With --json: add the samples, as [[seconds, bytes], ...]
    #[arg(long, requires = "json", conflicts_with = "no_samples")]
    pub samples_json: bool,
    /// Draw RSS over time, CPU time and peak RSS into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Start the program even if it defines its own malloc or has a sanitizer inside
    #[arg(long)]
    pub force: bool,
    /// Print no progress
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub program: Vec<OsString>,
}

/// Show glebe's statistics: of a running process, or of a program at its exit.
///
/// The command only reads the memory of a running process (on Linux, by process_vm_readv) and does not
/// stop it; that takes the rights of a debugger. It finds glebe preloaded, linked in or in a module,
/// and needs no symbols. For a process without glebe it shows the first child that has it.
///
/// A program prints its statistics when it exits, and its children are summed up in one line. A
/// process that a signal or _exit ends prints nothing.
#[derive(Args)]
#[command(
    override_usage = "\
glebe stats [--json] <PID>
       glebe stats [--json] -- <PROGRAM>...",
    after_help = "\
Examples:
  glebe stats 4711
  glebe stats --json 4711
  glebe stats -- ./program input"
)]
pub struct StatsOptions {
    /// Print one JSON object on a line, with exact bytes
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub target: Target,
}

/// A process that runs, or a program to start.
#[derive(Args)]
pub struct Target {
    /// A process that runs, with glebe inside
    #[arg(value_name = "PID", required_unless_present = "program", conflicts_with = "program",
          value_parser = PidParser)]
    pub pid: Option<i32>,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub program: Vec<OsString>,
}

/// Show which callers allocate a program's memory, and which hold it: a heap profile.
///
/// glebe samples the program's allocations, one byte in 512 KiB on average, and writes estimates without bias, for
/// `go tool pprof` and other viewers of its format. It prints the functions with the most memory, too.
///
/// The profile is written when the program exits, and once a second before: so that much is kept if a signal or
/// _exit ends it. After exec the new program has a profile of its own, and that one is shown.
///
/// A process that runs on glebe, given by its PID, is sampled for --seconds, or until Ctrl-C; it is not stopped. Its
/// profile has what it allocated meanwhile. The peak is the largest of many estimates, so it is too high for a process
/// that runs long; --live has no bias. To sample a process takes the rights of a debugger.
///
/// Of a file the command shows the functions with the most memory, and with --diff those of two files whose memory
/// changed most. The files are in pprof's format, also those of other programs, or texts of GLEBE_PROFILE.
#[cfg(target_os = "linux")]
#[derive(Args)]
#[command(
    override_usage = "\
glebe profile [OPTIONS] [--] <PROGRAM> [ARGUMENT]...
       glebe profile [OPTIONS] <PID>
       glebe profile [OPTIONS] <FILE>
       glebe profile [OPTIONS] --diff <BEFORE> <AFTER>
       glebe profile [OPTIONS] --from <FILE>",
    after_help = "\
Examples:
  glebe profile -- python3 script.py
  glebe profile --peak -o peak.pb.gz -- ./server --selftest
  go tool pprof -top peak.pb.gz
  glebe profile --folded stacks.txt -- ./program
  glebe profile --live --seconds 30 4711
  glebe profile --svg flames.svg peak.pb.gz
  glebe profile --svg growth.svg --diff monday.pb.gz friday.pb.gz

Exit status: the program's own. Of glebe itself: 125 if it failed or refused, 126 and 127 as a shell's."
)]
pub struct ProfileOptions {
    /// Where the profile is written [default: PROGRAM.pb.gz]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show what was in use at the end
    #[arg(long, conflicts_with_all = ["alloc", "peak"])]
    pub live: bool,
    /// Show all that was ever allocated
    #[arg(long, conflicts_with = "peak")]
    pub alloc: bool,
    /// Show what was in use when most was (the default)
    #[arg(long)]
    pub peak: bool,
    /// Bytes between two samples, on average (as in 64K) [default: 512K]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub mean: Option<u64>,
    /// Of a PID: how long to sample [default: until Ctrl-C]
    #[arg(long, value_name = "N", value_parser = seconds)]
    pub seconds: Option<u64>,
    /// Write the stacks as lines, for flame graph tools; with --diff, with the bytes before and after
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// Draw the stacks as a flame graph into this file; with --diff, what grew is red, and what shrank blue
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print one JSON object with all functions, instead of the table
    #[arg(long)]
    pub json: bool,
    /// Sum by the values of a label that the program gives its threads (glebe_profile_label)
    #[arg(long, value_name = "LABEL", conflicts_with_all = ["json", "diff"])]
    pub by: Option<String>,
    /// Show how long blocks lived that were freed, of all that was ever allocated
    #[arg(long, conflicts_with_all = ["live", "peak", "by", "diff"])]
    pub lifetimes: bool,
    /// Compare two profiles: the functions whose memory changed most, from BEFORE to AFTER
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"],
          conflicts_with_all = ["program", "from", "output", "mean", "children", "force"])]
    pub diff: Vec<PathBuf>,
    /// Write profiles of the program's children too, beside its own
    #[arg(long)]
    pub children: bool,
    /// Read a profile that a process with GLEBE_PROFILE wrote, or glebe_profile_write
    #[arg(long, value_name = "FILE", conflicts_with = "program")]
    pub from: Option<PathBuf>,
    /// Start the program even if it defines its own malloc or has a sanitizer inside
    #[arg(long)]
    pub force: bool,
    /// Print no table and no notes
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(
        required_unless_present_any = ["from", "diff"],
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub program: Vec<OsString>,
}

impl StatsOptions {
    /// The run whose statistics the user wants.
    pub fn of_a_run(&self) -> RunOptions {
        RunOptions {
            stats: Some(if self.json { StatsFormat::Json } else { StatsFormat::Text }),
            must_show: true,
            program: self.target.program.clone(),
            ..RunOptions::default()
        }
    }
}

/// Record a program's allocations into a file.
///
/// Every malloc, calloc, realloc, free, their aligned forms and C++'s new and delete are recorded, with thread, order
/// and time, whatever allocator the program runs on. What was recorded is on disk even if a signal kills the program.
/// Processes that the program starts have recordings of their own: TRACE is that of the process with the most calls,
/// and TRACE.d/ has the others.
///
/// A trace contains sizes and times, and of the program only its command line, but no contents. `glebe trace` shows it,
/// and `glebe replay` makes the same calls under other allocators.
#[cfg(target_os = "linux")]
#[derive(Args)]
#[command(
    override_usage = "glebe record --output <TRACE> [OPTIONS] [--] <PROGRAM> [ARGUMENT]...",
    after_help = "\
Examples:
  glebe record -o python.trace -- python3 script.py
  glebe record --anonymous -o server.trace -- ./server --port 8080
  glebe record --with glebe -o t.trace -- ./program

Exit status: the program's own; a signal that ends the program ends glebe too. Of glebe itself: 125 \
if it failed or refused, 126 if the program cannot be executed, 127 if there is no such program, 2 \
for a wrong command line."
)]
pub struct RecordOptions {
    /// The trace to write; while the program runs, the recording is in TRACE.raw/
    #[arg(short, long, value_name = "TRACE")]
    pub output: PathBuf,
    /// The allocator to run on, named as for compare's --with [default: the program's own]
    #[arg(long, value_name = "NAME")]
    pub with: Option<String>,
    /// Keep only numbers: no command line, process ids and dates
    #[arg(long)]
    pub anonymous: bool,
    /// Start the program even if it defines its own malloc or has a sanitizer inside
    #[arg(long)]
    pub force: bool,
    /// Print no notes about the recording (errors and refusals stay)
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub program: Vec<OsString>,
}

/// Make a trace's calls under each allocator, and compare.
///
/// A small program makes the calls of the trace, in as many threads: a block is freed by the thread that freed it,
/// after its allocation. The threads stay within about 4,096 calls of each other, in recorded order. Each page of a
/// block is written once, when it is allocated or grown. Time between calls, reads, and memory that is not malloc's are
/// not replayed.
///
/// The table is that of `glebe compare`. Peak and mean RSS are without the replayer's own tables; CPU time
/// includes its loop, which is the same for all.
#[cfg(target_os = "linux")]
#[derive(Args)]
#[command(
    override_usage = "glebe replay [OPTIONS] <TRACE>",
    after_help = "\
Examples:
  glebe replay python.trace
  glebe replay --with mimalloc,jemalloc --runs 20 python.trace
  glebe replay --only glebe,glebe-secure --json python.trace > runs.jsonl

JSON: as of glebe compare.

Exit status: 0, or 3 if an allocation failed under any allocator. Of glebe itself: 125 if it failed \
or refused, 2 for a wrong command line."
)]
pub struct ReplayOptions {
    /// A trace of glebe record, or a file of TRACE.raw/
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// The peers: names (mimalloc, glebe-secure), paths, NAME=PATH, or `found` for all on this machine;
    /// system and glebe are always compared [default: found]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub with: Vec<String>,
    /// Compare only these, named as for --with; ratios are to the first
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "with")]
    pub only: Vec<String>,
    /// Rounds: replays under each allocator that count, at most 10000
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10,
          value_parser = runs)]
    pub runs: u32,
    /// Seed of the shuffled order, to repeat it [default: from the clock, and printed]
    #[arg(long, value_name = "NUMBER", value_parser = seed)]
    pub seed: Option<u64>,
    /// Make the calls at the recorded times: allocators that return memory after some time do so too
    #[arg(long)]
    pub pace: bool,
    /// Do not sample RSS over time
    #[arg(long)]
    pub no_samples: bool,
    /// Milliseconds between two samples of RSS, at most 60000
    #[arg(long, value_name = "MS", default_value_t = 10,
          value_parser = sample_ms)]
    pub sample_ms: u64,
    /// Print one JSON object a replay instead of the table; with =FILE, write them there, and print the table too
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = JSON_TO_STDOUT)]
    pub json: Option<PathBuf>,
    /// Draw RSS over time, CPU time and peak RSS into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Replay even if the blocks need more memory than the machine has
    #[arg(long)]
    pub force: bool,
    /// Print no progress
    #[arg(short, long)]
    pub quiet: bool,
}

#[cfg(target_os = "linux")]
impl ReplayOptions {
    /// How the replays are compared.
    pub fn as_compare(&self) -> CompareOptions {
        CompareOptions {
            with: Vec::new(),
            only: Vec::new(),
            runs: self.runs,
            seed: self.seed,
            stdin: None,
            show_output: true,
            no_samples: self.no_samples,
            sample_ms: self.sample_ms,
            json: self.json.clone(),
            samples_json: false,
            svg: self.svg.clone(),
            force: false,
            quiet: self.quiet,
            program: Vec::new(),
        }
    }
}

/// Show what is in a trace: sizes, lifetimes, live memory over time, threads, growth.
#[cfg(target_os = "linux")]
#[derive(Args)]
#[command(
    override_usage = "glebe trace [OPTIONS] <TRACE>",
    after_help = "\
Examples:
  glebe trace python.trace
  glebe trace --json python.trace | jq .peak
  glebe trace --svg picture.svg python.trace
  glebe trace --anonymous --output send.trace python.trace
  glebe trace python.trace.raw/4711-1

The last is a recording that was never made into a trace."
)]
pub struct TraceOptions {
    /// A trace of glebe record, or a file of TRACE.raw/
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Print one JSON object instead of the tables
    #[arg(long)]
    pub json: bool,
    /// Draw live memory over time, sizes and lifetimes into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write the trace into this file too: a raw file as a trace, or with --anonymous without the words
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Keep only numbers: no command line, process ids and dates
    #[arg(long)]
    pub anonymous: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn run(words: &[&str]) -> RunOptions {
        match Cli::try_parse_from([&["glebe", "run"], words].concat()).unwrap().command {
            Command::Run(options) => options,
            _ => unreachable!(),
        }
    }

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        for command in Cli::command().get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            assert!(help.contains("\nExamples:\n"), "{}", command.get_name());
        }
    }

    /// A line may be broken by clap, but not an example, which is copied.
    #[test]
    fn examples_fit_80_columns() {
        let mut cli = Cli::command().term_width(80);
        cli.build();
        for command in cli.get_subcommands_mut() {
            let name = command.get_name().to_string();
            let help = command.render_long_help().to_string();
            let examples = help.lines().skip_while(|line| *line != "Examples:").skip(1);
            for line in examples.take_while(|line| !line.is_empty()) {
                let begins = ["  glebe ", "  go tool ", "  source <("]
                    .iter()
                    .any(|begin| line.starts_with(begin));
                assert!(begins && line.len() <= 80, "{name}: {line}");
            }
            assert!(help.lines().all(|line| line.len() <= 80), "{name}: {help}");
        }
    }

    #[test]
    fn the_last_of_two_values_counts() {
        assert_eq!(run(&["--limit", "1G", "--limit=2G", "ls"]).limit, Some(2 << 30));
        assert!(run(&["-v", "-v", "ls"]).verbose);
        let words = ["glebe", "compare", "--with", "a", "--with", "b", "ls"];
        match Cli::try_parse_from(words).unwrap().command {
            Command::Compare(options) => assert_eq!(options.with, ["a", "b"], "a list grows"),
            _ => unreachable!(),
        }
    }

    #[test]
    fn options_end_where_the_program_begins() {
        let options = run(&["--limit", "2G", "--stats", "--", "ls", "-l", "--stats=json"]);
        assert_eq!(options.limit, Some(2 << 30));
        assert!(options.stats == Some(StatsFormat::Text));
        assert_eq!(options.program, ["ls", "-l", "--stats=json"]);
        let options = run(&["--stats=json", "--on-error=count", "ls", "--", "-v"]);
        assert!(options.stats == Some(StatsFormat::Json) && !options.verbose);
        assert!(options.on_error == Some(OnError::Count));
        assert_eq!(options.program, ["ls", "--", "-v"]);
    }

    #[test]
    fn a_file_for_json_is_joined_to_its_option() {
        let json =
            |words: &[&str]| match Cli::try_parse_from([&["glebe", "compare"], words].concat())
                .unwrap()
                .command
            {
                Command::Compare(options) => (options.json, options.program),
                _ => unreachable!(),
            };
        let ls = vec![OsString::from("ls")];
        assert_eq!(json(&["ls"]), (None, ls.clone()));
        assert_eq!(json(&["--json", "ls"]), (Some(JSON_TO_STDOUT.into()), ls.clone()));
        assert_eq!(json(&["--svg", "f", "--json=g", "--", "ls"]), (Some("g".into()), ls));
    }

    #[test]
    fn what_the_library_takes_is_taken() {
        assert_eq!(run(&["--limit", "0", "ls"]).limit, Some(0));
        assert_eq!(run(&["--limit=1.5G", "ls"]).limit, Some(3 << 29));
        assert_eq!(run(&["--purge-ms", "1073741823", "ls"]).purge_ms, Some(PURGE_MS_MOST));
        assert_eq!(run(&["--purge-ms", "0", "ls"]).purge_ms, Some(0));
        assert_eq!(run(&["--limit", "9223372036854775807", "ls"]).limit, Some(i64::MAX as u64));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [
            &["glebe", "run"][..],
            &["glebe", "run", "--secure", "--audit", "ls"],
            &["glebe", "run", "--secure", "--safe", "ls"],
            &["glebe", "run", "--safe", "--audit", "ls"],
            &["glebe", "run", "--limit", "lots", "ls"],
            &["glebe", "run", "--limit", "18446744073709551615", "ls"],
            &["glebe", "run", "--limit", "-1", "ls"],
            &["glebe", "run", "--limit=", "ls"],
            &["glebe", "run", "--limit", "1.5", "ls"],
            &["glebe", "run", "--purge-ms", "1073741824", "ls"],
            &["glebe", "run", "--purge-ms", "99999999999", "ls"],
            &["glebe", "run", "--purge-ms=-1", "ls"],
            &["glebe", "run", "--purge-ms", "1s", "ls"],
            &["glebe", "run", "--on-error", "panic", "ls"],
            &["glebe", "run", "--stats=xml", "ls"],
            &["glebe", "compare", "--runs", "10001", "ls"],
            &["glebe", "compare", "--sample-ms", "0", "ls"],
            &["glebe", "compare", "--seed=-1", "ls"],
            &["glebe", "stats", "0"],
            &["glebe", "stats", "2147483648"],
            &["glebe", "compare", "--runs", "0", "ls"],
            &["glebe", "compare", "--samples-json", "ls"],
            &["glebe", "compare", "--with", "a", "--only", "b", "ls"],
            &["glebe", "stats"],
            &["glebe", "stats", "12", "--", "ls"],
        ] {
            assert!(Cli::try_parse_from(words).is_err(), "{words:?}");
        }
    }
}
