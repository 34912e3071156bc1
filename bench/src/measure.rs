//! One process: starts it, waits for it, and reports its cost.
//!
//! The helper in measure.c does the work; its head comment says why a helper
//! is needed.

use crate::peers::build_dir;
use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The cost of one run of one program.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// User and system time of the process and the children it waited for.
    pub cpu_s: f64,
    pub system_s: f64,
    pub wall_s: f64,
    pub peak_rss_kb: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// The figures that the program printed on lines `metric NAME VALUE`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// A fingerprint of its other output.
    #[serde(skip)]
    pub output: u64,
}

/// A program to run.
#[derive(Clone, Debug, Default)]
pub struct Job {
    pub command: Vec<String>,
    /// The libraries to preload, in that order.
    pub preload: Vec<PathBuf>,
    pub environment: Vec<(String, String)>,
    /// Runs to its end before the program. It is not measured and has no preload.
    pub prepare: Option<Vec<String>>,
    /// True if the program begins with an old heap; see real/aged.c.
    pub aged: bool,
    /// A program that talks to this one while it runs; not measured either. Its
    /// output counts as the program's.
    pub client: Option<Vec<String>>,
    /// SIGTERM ends the program when its client has ended; otherwise the client
    /// itself ends it.
    pub stop: bool,
    /// A file that the program writes, and that counts as output.
    pub output: Option<PathBuf>,
}

/// Runs the job. The error is a signal, a status or a failure of the client.
pub fn run(job: &Job) -> Result<Sample> {
    let scratch = build_dir().join("scratch");
    fs::create_dir_all(&scratch)?;
    let stdout_path = scratch.join("stdout");
    let stderr_path = scratch.join("stderr");
    let report_path = scratch.join("report");

    if let Some(path) = &job.output {
        // An earlier run's file must not count as this one's.
        let _ = fs::remove_file(path);
    }
    if let Some(prepare) = &job.prepare {
        let done = unmeasured(prepare)?;
        if !done.status.success() {
            bail!("preparing failed: {}\n{}", done.status, text(&done.stderr));
        }
    }

    // The shell opens descriptor 9 and is replaced by the helper, which sets the
    // environment for the program alone.
    let mut command = Command::new("sh");
    command.arg("-c").arg("exec \"$0\" 9 \"$@\" 9>\"$MEASURE_REPORT\"");
    command.arg(build_dir().join("bin/measure"));
    for (name, value) in &job.environment {
        command.arg(format!("{name}={value}"));
    }
    let mut preload = job.preload.clone();
    let aged_path = scratch.join("aged");
    if job.aged {
        // A server that drops root's rights writes there too.
        fs::write(&aged_path, "")?;
        fs::set_permissions(&aged_path, fs::Permissions::from_mode(0o666))?;
        preload.push(build_dir().join("bin/aged.so"));
        command.arg(format!("AGED_REPORT={}", aged_path.display()));
    }
    if !preload.is_empty() {
        let libraries: Vec<_> = preload.iter().map(|p| p.to_string_lossy()).collect();
        command.arg(format!("LD_PRELOAD={}", libraries.join(":")));
    }
    command.args(&job.command);
    command.env("MEASURE_REPORT", &report_path).env_remove("LD_PRELOAD");
    command.stdin(Stdio::null());
    command.stdout(fs::File::create(&stdout_path)?).stderr(fs::File::create(&stderr_path)?);
    let mut child = command.spawn().context("cannot start the measuring helper")?;

    let mut said = Vec::new();
    if let Some(client) = &job.client {
        let done = unmeasured(client);
        let failed = !done.as_ref().is_ok_and(|d| d.status.success());
        if job.stop || failed {
            let helper = child.id().to_string();
            Command::new("kill").args(["-TERM", &helper]).status()?;
        }
        if failed {
            let _ = child.wait();
        }
        let done = done?;
        if failed {
            let why = text(&done.stderr);
            bail!("the client failed: {}\n{why}{}", done.status, tail(&stderr_path));
        }
        said = done.stdout;
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("the measuring helper failed: {status}\n{}", tail(&stderr_path));
    }
    let mut sample = parse(&fs::read_to_string(&report_path)?)
        .with_context(|| tail(&stderr_path).to_string())?;
    if job.aged {
        without_ageing(&mut sample, &fs::read_to_string(&aged_path)?)?;
    }
    said.extend(fs::read(&stdout_path)?);
    if let Some(path) = &job.output {
        said.extend(fs::read(path).with_context(|| format!("no output {}", path.display()))?);
    }
    read_output(&said, &mut sample);
    Ok(sample)
}

/// Runs a command to its end, without an allocator.
fn unmeasured(command: &[String]) -> Result<Output> {
    Command::new(&command[0])
        .args(&command[1..])
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", command[0]))
}

/// Reads the helper's line; see measure.c.
fn parse(line: &str) -> Result<Sample> {
    let n: Vec<i64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let &[user_us, system_us, wall_ns, peak_rss_kb, minor, major, exit, signal] = n.as_slice()
    else {
        bail!("the measuring helper said: {line:?}");
    };
    if signal != 0 {
        bail!(
            "{}",
            if signal == 14 { "hung".into() } else { format!("killed by signal {signal}") }
        );
    }
    if exit != 0 {
        bail!("ended with status {exit}");
    }
    Ok(Sample {
        cpu_s: (user_us + system_us) as f64 / 1e6,
        system_s: system_us as f64 / 1e6,
        wall_s: wall_ns as f64 / 1e9,
        peak_rss_kb: peak_rss_kb as u64,
        minor_faults: minor as u64,
        major_faults: major as u64,
        ..Sample::default()
    })
}

/// Subtracts the cost of ageing the heaps: a line for each process, with user
/// and system microseconds, wall nanoseconds and faults; see real/aged.c.
fn without_ageing(sample: &mut Sample, report: &str) -> Result<()> {
    if report.is_empty() {
        bail!("the heap was not made old");
    }
    for line in report.lines() {
        let n: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let &[user_us, system_us, wall_ns, faults] = n.as_slice() else {
            bail!("real/aged.c said: {line:?}");
        };
        sample.cpu_s -= (user_us + system_us) as f64 / 1e6;
        sample.system_s -= system_us as f64 / 1e6;
        sample.wall_s -= wall_ns as f64 / 1e9;
        sample.minor_faults = sample.minor_faults.saturating_sub(faults);
    }
    Ok(())
}

fn read_output(bytes: &[u8], sample: &mut Sample) {
    let mut hasher = DefaultHasher::new();
    for line in String::from_utf8_lossy(bytes).lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next().and_then(|v| v.parse().ok())) {
            (Some("metric"), Some(name), Some(value)) => {
                sample.metrics.insert(name.to_string(), value);
            }
            _ => line.hash(&mut hasher),
        }
    }
    sample.output = hasher.finish();
}

fn tail(path: &std::path::Path) -> String {
    text(&fs::read(path).unwrap_or_default())
}

/// The last lines of a program's output, without progress that was written over.
fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(|line| line.rsplit('\r').next().unwrap_or(line)).collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

/// The part of every peak resident size that measuring adds, in KB: the peak of
/// an empty program. Also checks that a hello world's peak is higher.
pub fn floor_kb() -> Result<u64> {
    let peak = |program: &str| -> Result<u64> {
        let path = build_dir().join("bin").join(program);
        let job = Job { command: vec![path.to_string_lossy().into()], ..Job::default() };
        Ok(run(&job)?.peak_rss_kb)
    };
    let (floor, hello) = (peak("tiny")?, peak("hello")?);
    if floor * 4 > hello * 3 {
        bail!("peak memory cannot be measured: {floor} KB for nothing, {hello} KB for hello world");
    }
    Ok(floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helpers_line_is_read() {
        let sample = parse("1500000 250000 2000000000 4096 10 1 0 0\n").unwrap();
        assert_eq!((sample.cpu_s, sample.system_s, sample.wall_s), (1.75, 0.25, 2.0));
        assert_eq!((sample.peak_rss_kb, sample.minor_faults, sample.major_faults), (4096, 10, 1));
    }

    #[test]
    fn progress_that_was_written_over_is_no_message() {
        assert_eq!(text(b"first\n10 %\r20 %\rit broke\n"), "first\nit broke");
    }

    fn shell(script: String) -> Vec<String> {
        ["sh", "-c", &script].map(String::from).to_vec()
    }

    /// A single test, since all of its parts run the helper in one build directory.
    #[test]
    fn a_job_is_prepared_and_ended_and_its_files_count() {
        let build = std::env::temp_dir().join(format!("glebe-bench-{}", std::process::id()));
        let _ = fs::remove_dir_all(&build);
        fs::create_dir_all(build.join("bin")).unwrap();
        std::env::set_var("BENCH_BUILD", &build);
        let source = crate::peers::bench_dir().join("src/measure.c");
        let mut compiler = Command::new("cc");
        compiler.arg("-o").arg(build.join("bin/measure"));
        assert!(compiler.arg(source).status().unwrap().success());
        let at = |name: &str| build.join(name).display().to_string();

        let copies = |text: &str| Job {
            prepare: Some(shell(format!("echo {text} >{}", at("in")))),
            command: shell(format!("cat {} >{}", at("in"), at("out"))),
            output: Some(at("out").into()),
            ..Job::default()
        };
        let output = |job: &Job| run(job).unwrap().output;
        assert_eq!(output(&copies("one")), output(&copies("one")));
        assert_ne!(output(&copies("one")), output(&copies("two")));

        let server = format!("trap 'exit 0' TERM; : >{}; while :; do sleep 0.01; done", at("up"));
        let client = format!("until [ -e {} ]; do sleep 0.01; done; echo", at("up"));
        let serves = |said: &str| Job {
            prepare: Some(shell(format!("rm -f {}", at("up")))),
            command: shell(server.clone()),
            client: Some(shell(format!("{client} {said}"))),
            stop: true,
            ..Job::default()
        };
        assert_eq!(output(&serves("one")), output(&serves("one")));
        assert_ne!(output(&serves("one")), output(&serves("two")));

        let mut writes_nothing = copies("one");
        writes_nothing.command = shell("true".into());
        let mut cannot_prepare = copies("one");
        cannot_prepare.prepare = Some(shell("false".into()));
        for (job, why) in [
            (writes_nothing, "no output"),
            (cannot_prepare, "preparing failed"),
            (serves("one; false"), "the client failed"),
        ] {
            let error = run(&job).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        fs::remove_dir_all(&build).unwrap();
    }

    #[test]
    fn ageing_is_taken_off() {
        let line = "1500000 250000 2000000000 4096 10 1 0 0";
        let mut sample = parse(line).unwrap();
        without_ageing(&mut sample, "250000 50000 500000000 3\n200000 0 500000000 2\n").unwrap();
        let left = (sample.cpu_s, sample.system_s, sample.wall_s, sample.minor_faults);
        assert_eq!(left, (1.25, 0.2, 1.0, 5));
        for report in ["", "1 2 3\n", "1 2 3 x\n"] {
            assert!(without_ageing(&mut sample, report).is_err(), "{report:?}");
        }
    }

    #[test]
    fn a_crash_a_status_and_nonsense_are_errors() {
        for line in ["1 1 1 1 1 1 0 11", "1 1 1 1 1 1 3 0", "1 2 3", ""] {
            assert!(parse(line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn metrics_are_not_part_of_the_output() {
        let (mut a, mut b) = (Sample::default(), Sample::default());
        read_output(b"hello\nmetric idle_ratio 1.25\n", &mut a);
        read_output(b"hello\n", &mut b);
        assert_eq!(a.output, b.output);
        assert_eq!(a.metrics["idle_ratio"], 1.25);
        read_output(b"other\n", &mut b);
        assert_ne!(a.output, b.output);
    }
}
