//! Tests of the command from outside, as a shell sees it. None depends on timing, and none needs more of the embedded
//! library than that it can be preloaded. The tests of glebe.exe are in test/windows.
#![cfg(target_os = "linux")]

mod common;

use common::{cc, command_of, glebe, home};
use predicates::prelude::*;
use predicates::str::contains;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const TRIVIAL: &str = "int main(void) { return 0; }";
const OWN_MALLOC: &str = "#include <stddef.h>\nchar room[1 << 20]; size_t used;\n\
    void *malloc(size_t n) { void *p = room + used; used += n + 15 & -16ul; return p; }\n\
    void free(void *p) { (void)p; }\nint main(void) { return 5; }";

/// A command without a program shows where options and the program go.
#[test]
fn usage_has_options_and_dashes() {
    for command in ["run", "compare"] {
        let usage = format!("Usage: glebe {command} [OPTIONS] [--] <PROGRAM> [ARGUMENT]...");
        glebe(&home()).arg(command).assert().failure().stderr(contains(usage));
    }
}

#[test]
fn help_has_exit_codes() {
    let home = home();
    glebe(&home).arg("--help").assert().success().stdout(contains("125"));
    glebe(&home).arg("--version").assert().success().stdout(contains("glebe 0."));
    glebe(&home).args(["run"]).assert().code(2);
}

/// What is wrong is said with the form that is right.
#[test]
fn a_program_in_place_of_a_pid_is_told_where_it_goes() {
    let home = home();
    for command in ["leaks", "explain", "stats"] {
        let told = format!("a program goes behind --: glebe {command} -- ./p");
        glebe(&home).args([command, "./p"]).assert().code(2).stderr(contains(told));
    }
    for command in ["top", "map"] {
        let told = contains("is no whole number").and(contains("behind --").not());
        glebe(&home).args([command, "./p"]).assert().code(2).stderr(told);
    }
    let frames = glebe(&home).args(["top", "--frames", "0", "1"]).assert().code(2);
    frames.stderr(contains("0 is out of range: write a whole number from 1, below 2^64"));
}

#[test]
fn a_program_without_libgc_gets_a_note() {
    let home = home();
    let note = "glebe: note: /bin/true does not use libgc.so.1; libraries and programs that it starts may\n";
    glebe(&home).args(["run", "--libgc", "--", "/bin/true"]).assert().success().stderr(note);
    glebe(&home).args(["run", "-q", "--libgc", "--", "/bin/true"]).assert().success().stderr("");
    let script = home.path().join("script");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    glebe(&home).args(["run", "--libgc", "--"]).arg(script).assert().success().stderr("");
}

#[test]
fn exit_codes_and_output_pass_through() {
    let home = home();
    let script = "cat; echo err >&2; exit 42";
    let assert = glebe(&home).args(["run", "--", "sh", "-c", script]).write_stdin("in").assert();
    assert.code(42).stdout("in").stderr(contains("err"));
    glebe(&home).args(["run", "true"]).assert().success();
}

#[test]
fn a_death_by_signal_is_passed_on() {
    use std::os::unix::process::ExitStatusExt;
    let home = home();
    for options in [&["run"][..], &["run", "--verbose"]] {
        let output =
            glebe(&home).args(options).args(["--", "sh", "-c", "kill -TERM $$"]).output().unwrap();
        assert_eq!(output.status.signal(), Some(15), "{options:?}");
    }
}

#[test]
fn programs_that_are_not_there_end_as_in_a_shell() {
    let home = home();
    let lost = glebe(&home).args(["run", "--", "no-such-program"]).assert().code(127);
    lost.stderr(contains("command not found"));
    glebe(&home)
        .args(["run", "--", "/etc/passwd"])
        .assert()
        .code(126)
        .stderr(contains("permission"));
    glebe(&home).args(["run", "--", "/etc"]).assert().code(126).stderr(contains("is a directory"));
    glebe(&home).args(["compare", "--", "no-such-program"]).assert().code(127);
}

#[test]
fn words_that_were_meant_for_glebe_are_not_called_programs() {
    let home = home();
    for (command, words, says) in [
        ("run", &["--limt", "3", "--", "true"][..], "--limt: no such option (maybe --limit)"),
        ("run", &["--limt=3", "true"], "--limt=3: no such option (maybe --limit)"),
        ("run", &["--zzz", "true"], "--zzz: no such option (--help has the list)"),
        ("compare", &["--run", "3", "true"], "--run: no such option (maybe --runs)"),
        ("run", &["--stats", "json", "--", "true"], "--stats=json"),
        ("run", &["--stats", "json", "true"], "--stats=json"),
        ("compare", &["--json", "runs.jsonl", "true"], "--json=runs.jsonl"),
        (
            "compare",
            &["--svg", "/dev/null", "--json", "/etc/passwd", "--", "true"],
            "--json=/etc/passwd",
        ),
    ] {
        let assert = glebe(&home).arg(command).args(words).assert().code(2);
        assert.stderr(contains(says)).stdout("");
    }
}

#[test]
fn the_library_is_preloaded_from_a_private_place() {
    let home = home();
    let print = ["run", "--", "sh", "-c", "printf %s \"$LD_PRELOAD\""];
    let output = glebe(&home).args(print).output().unwrap();
    let path = PathBuf::from(String::from_utf8(output.stdout).unwrap());
    assert_eq!(path.parent().unwrap(), home.path().join("glebe"));
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(path.file_name().unwrap().to_string_lossy().starts_with("libglebe-"));

    // It is in memory, and children get it too.
    let maps = ["run", "--", "sh", "-c", "cat /proc/self/maps; true"];
    glebe(&home).args(maps).assert().success().stdout(contains(path.to_str().unwrap()));

    // An earlier preload stays in front.
    let both = glebe(&home).args(print).env("LD_PRELOAD", "libdl.so.2").output().unwrap();
    let both = String::from_utf8(both.stdout).unwrap();
    assert_eq!(both, format!("libdl.so.2:{}", path.display()));

    // Other builds are other files.
    let output = glebe(&home).args(["run", "--secure"]).args(&print[1..]).output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("libglebe-secure-"));
}

/// The first malloc in LD_PRELOAD serves the program, so an allocator that is there already must not stay.
#[test]
fn a_preloaded_allocator_gives_way() {
    let home = home();
    let print = ["--", "sh", "-c", "printf %s \"$LD_PRELOAD\""];
    let output = glebe(&home).arg("run").args(print).output().unwrap();
    let plain = String::from_utf8(output.stdout).unwrap();
    let before = format!("libdl.so.2:{plain}");
    let left_out = format!("note: left {plain} out of the program's LD_PRELOAD");
    let run = |options: &[&str], words: &[&str]| {
        let mut command = glebe(&home);
        let output = command.args(options).args(words).env("LD_PRELOAD", &before).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{options:?}: {said}");
        (String::from_utf8(output.stdout).unwrap(), said)
    };
    let (value, said) = run(&["run", "--secure"], &print);
    let secure = value.strip_prefix("libdl.so.2:").expect(&value);
    assert!(secure.contains("/libglebe-secure-") && !secure.contains(':'), "{value}");
    assert!(said.contains(&left_out), "{said}");
    // The same build again needs no note, and libgc leaves malloc to the allocator in LD_PRELOAD.
    assert_eq!(run(&["run"], &print), (before.clone(), String::new()));
    let (value, said) = run(&["run", "--libgc"], &print);
    assert!(value.starts_with(&format!("{before}:")) && !said.contains("left"), "{value} {said}");

    let test = ["--", "sh", "-c", "test \"$LD_PRELOAD\" = libdl.so.2"];
    let (_, said) = run(&["compare", "--runs", "1", "--only", "system"], &test);
    assert_eq!(said.matches(&left_out).count(), 1, "{said}");
}

/// Rust opens /dev/null for streams that were closed; the program must not see it.
#[test]
fn closed_streams_stay_closed() {
    let home = home();
    let program = assert_cmd::cargo::cargo_bin("glebe");
    let says = |line: &str| {
        let words = ["-c", &line.replace("glebe", program.to_str().unwrap())].map(String::from);
        let mut shell = std::process::Command::new("sh");
        shell.args(words).env("XDG_CACHE_HOME", home.path()).env_remove("LD_PRELOAD");
        let output = shell.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(says("ls / >&-").0, Some(2), "control");
    for options in ["", "--quiet", "--verbose", "--stats"] {
        let (code, said) = says(&format!("glebe run {options} -- ls / >&-"));
        assert_eq!(code, Some(2), "{options}: {said}");
    }
    assert_eq!(says("glebe run -- sh -c 'test -e /proc/self/fd/0' <&-").0, Some(1));
    assert_eq!(says("glebe run -- sh -c 'test -e /proc/self/fd/0' </dev/null").0, Some(0));
    for words in ["--help", "--version", "run --help", "compare --quiet -n1 --only system -- true"]
    {
        let (code, said) = says(&format!("glebe {words} >&-"));
        assert_eq!(code, Some(125), "{words}: {said}");
        assert!(said.contains("standard output: Bad file descriptor"), "{words}: {said}");
    }
    assert_eq!(says("glebe run -- no-such-program 2>&-"), (Some(127), String::new()));
}

#[test]
fn what_is_no_program_is_not_opened() {
    let home = home();
    let fifo = home.path().join("fifo");
    let made = std::process::Command::new("mkfifo").args(["-m", "755"]).arg(&fifo).status();
    assert!(made.unwrap().success());
    let mut command = glebe(&home);
    command.timeout(std::time::Duration::from_secs(60)).arg("run").arg(&fifo);
    let said = format!("glebe: {}: is not a regular file\n", fifo.display());
    command.assert().code(126).stderr(said);
    let script = home.path().join("script");
    fs::write(&script, format!("#!{}\n", fifo.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = glebe(&home);
    command.timeout(std::time::Duration::from_secs(60)).arg("run").arg(&script);
    command.assert().code(126).stderr(contains("ermission denied"));
    let assert = glebe(&home).args(["run", "--", ""]).assert().code(127);
    assert.stderr("glebe: an empty word was given where the program goes\n");
    let below = glebe(&home).args(["run", "--", "/etc/passwd/x"]).assert().code(126);
    below.stderr("glebe: /etc/passwd/x: Not a directory\n");
}

#[test]
fn short_options_and_help_are_taken_as_elsewhere() {
    let home = home();
    for words in [&["-n1"][..], &["-n=1"], &["-qn1"], &["-n9", "-n", "1"]] {
        let mut command = glebe(&home);
        let only = ["--only", "system", "--", "true"];
        let assert = command.arg("compare").args(words).args(only).assert().success();
        assert.stdout(contains("1 run cannot tell").or(contains("system")));
    }
    glebe(&home).arg("help").assert().success().stdout(contains("Usage: glebe <COMMAND>"));
    let help = String::from_utf8(glebe(&home).args(["help", "compare"]).output().unwrap().stdout);
    let help = help.unwrap();
    assert!(help.contains("at most 10000") && help.contains("at most 60000"), "{help}");
    assert!(help.contains("2 for a wrong command line"), "{help}");
    for (option, value) in [("--runs", "x"), ("--sample-ms", "60001"), ("--seed", "-1")] {
        let option = format!("{option}={value}");
        let assert = glebe(&home).args(["compare", &option, "--", "true"]).assert().code(2);
        assert.stderr(contains("whole number").and(contains("found in string").not()));
    }
}

#[test]
fn options_reach_the_library() {
    let home = home();
    let script = "echo $GLEBE_LIMIT $GLEBE_PURGE_MS $GLEBE_BACKGROUND $GLEBE_ON_ERROR";
    let options = ["--limit", "512M", "--purge-ms", "250", "--background", "--on-error", "count"];
    let assert = glebe(&home).arg("run").args(options).args(["--", "sh", "-c", script]).assert();
    assert.success().stdout("536870912 250 1 count\n");
    let none =
        glebe(&home).args(["run", "--", "sh", "-c", "env | grep -c GLEBE_ || true"]).assert();
    none.stdout("0\n");
}

#[test]
fn verbose_tells_whether_it_got_in() {
    let home = home();
    let assert = glebe(&home).args(["run", "-v", "--", "sleep", "0.2"]).assert().success();
    assert.stderr(contains("sleep ran with glebe in its memory"));
}

#[test]
fn static_programs_are_refused_clearly() {
    let home = home();
    let Some(program) = cc(home.path(), "static", TRIVIAL, &["-static"]) else { return };
    for command in ["run", "compare"] {
        let assert = glebe(&home).arg(command).arg("--").arg(&program).assert().code(125);
        assert.stderr(contains("statically linked").and(contains("Instead, "))).stdout("");
    }
}

#[test]
fn a_malloc_in_the_program_is_refused_unless_forced() {
    let home = home();
    let Some(program) = cc(home.path(), "own", OWN_MALLOC, &["-rdynamic"]) else { return };
    let refused = glebe(&home).arg("run").arg(&program).assert().code(125);
    refused.stderr(contains("defines malloc itself").and(contains("--force")));
    glebe(&home).args(["run", "--force"]).arg(&program).assert().code(5).stderr(contains("note:"));
}

#[test]
fn compare_prints_one_json_object_a_run() {
    let home = home();
    let words = ["compare", "--json", "--runs", "3", "--seed", "1", "--only", "system,glebe"];
    let output = glebe(&home).args(words).args(["--", "/bin/true"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let runs: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(runs.len(), 6);
    for run in &runs {
        for key in ["cpu_s", "wall_s"] {
            assert!(run[key].is_f64(), "{run}");
        }
        for key in ["run", "peak_rss_bytes", "faults", "exit"] {
            assert!(run[key].is_u64(), "{run}");
        }
        assert!(run["samples"].is_null());
    }
    for name in ["system", "glebe"] {
        let rounds: Vec<_> = runs.iter().filter(|run| run["allocator"] == name).collect();
        let numbers: Vec<_> = rounds.iter().map(|run| run["run"].as_u64().unwrap()).collect();
        assert_eq!(numbers, [1, 2, 3], "{name}");
    }
}

/// The peak of a program as small as `true` is hidden by the command's own; no table says otherwise.
#[test]
fn a_peak_below_the_commands_own_is_unknown() {
    let home = home();
    let words = ["compare", "--runs", "2", "--only", "system,glebe", "--", "/bin/true"];
    let output = glebe(&home).args(words).output().unwrap();
    assert!(output.status.success());
    let all = [output.stdout, output.stderr].concat();
    assert!(String::from_utf8(all).unwrap().contains("its peak RSS is unknown"));
}

/// A picture, a file of JSON and the table from one comparison.
#[test]
fn compare_writes_json_into_a_file() {
    let home = home();
    let (picture, runs) = (home.path().join("picture.svg"), home.path().join("runs.jsonl"));
    fs::write(&runs, "of the last comparison").unwrap();
    let mut command = glebe(&home);
    command.args(["compare", "--runs", "2", "--only", "system,glebe", "--svg"]).arg(&picture);
    command.arg(format!("--json={}", runs.display())).args(["--", "/bin/true"]);
    command.assert().success().stdout(contains("allocator"));
    let text = fs::read_to_string(runs).unwrap();
    let runs = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    assert_eq!(runs.filter(|run| run["exit"] == 0).count(), 4);
    assert!(fs::read_to_string(picture).unwrap().starts_with("<svg"));

    let mut command = glebe(&home);
    let assert = command.args(["compare", "--json=/no/such/file", "--", "/bin/true"]).assert();
    assert.code(125).stderr("glebe: cannot write /no/such/file: No such file or directory\n");
}

#[test]
fn compare_prints_a_table_and_draws() {
    let home = home();
    let picture = home.path().join("picture.svg");
    let assert = glebe(&home)
        .args(["compare", "--runs", "2", "--only", "system,glebe", "--svg"])
        .arg(&picture)
        // Far more memory than this command's own: a smaller peak is unknown.
        .args(["--", "sh", "-c", "dd bs=64M count=1 if=/dev/zero of=/dev/null; sleep 0.05"])
        .assert()
        .success();
    assert
        .stdout(contains("peak RSS MiB").and(contains("1.00x")).and(contains("2 runs cannot tell")))
        .stderr(contains("seed").and(contains("round 2 of 2")).and(contains("never loaded").not()));
    assert!(fs::read_to_string(picture).unwrap().contains("resident memory over time"));
}

/// A pipe counts as 80 columns wide unless COLUMNS is set, and gets the characters of the locale.
#[test]
fn compare_tables_fit_their_screen() {
    let home = home();
    let table = |variables: &[(&str, &str)]| {
        let mut command = glebe(&home);
        for name in ["LC_ALL", "LC_CTYPE", "LANG", "COLUMNS"] {
            command.env_remove(name);
        }
        // With a child that fails the table has all its columns.
        let words =
            ["compare", "--quiet", "--runs", "1", "--only", "system,glebe", "--sample-ms", "1"];
        command.args(words).args(["--", "sh", "-c", "sleep 0.1; kill -SEGV $$"]);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let table = text.lines().take_while(|line| !line.starts_with("Each cell"));
        let width = table.map(|line| line.chars().count()).max().unwrap();
        (text, width)
    };
    let (ascii, width) = table(&[("LC_ALL", "C")]);
    assert!(width <= 80 && ascii.is_ascii() && ascii.contains("+-"), "{ascii}");
    let (unicode, width) = table(&[("LANG", "C.UTF-8")]);
    assert!(width <= 80 && unicode.contains('│') && unicode.contains('±'), "{unicode}");
    let (wide, width) = table(&[("COLUMNS", "200")]);
    assert!(width > 80 && wide.lines().count() < ascii.lines().count(), "{wide}");
    assert!(![ascii, unicode, wide].concat().contains('\x1b'));
}

/// The command's output on a terminal of 80 columns.
fn on_terminal(mut command: std::process::Command) -> String {
    use std::io::Read;
    use std::os::fd::{FromRawFd, OwnedFd};
    let (mut ours, mut theirs) = (0, 0);
    let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: openpty writes two descriptors, which are owned from here on, and reads `size`.
    let (mut ours, theirs) = unsafe {
        let none = std::ptr::null_mut();
        assert_eq!(libc::openpty(&mut ours, &mut theirs, none, none.cast(), &size), 0);
        (fs::File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    };
    command.stdin(std::process::Stdio::null()).stdout(theirs.try_clone().unwrap()).stderr(theirs);
    let mut child = command.spawn().unwrap();
    drop(command);
    let (mut text, mut piece) = (Vec::new(), [0; 4096]);
    // The end of a terminal is EIO.
    while let Ok(length @ 1..) = ours.read(&mut piece) {
        text.extend_from_slice(&piece[..length]);
    }
    child.wait().unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn escape_sequences_are_for_terminals_that_want_them() {
    let home = home();
    let says = |variables: &[(&str, &str)]| {
        let words =
            ["compare", "--runs", "1", "--only", "system,glebe", "--", "sh", "-c", "exit 3"];
        let mut command = command_of(&home, &words);
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "LC_ALL", "LC_CTYPE", "LANG"] {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied());
        on_terminal(command)
    };
    let colour = says(&[("TERM", "xterm"), ("LANG", "C.UTF-8")]);
    assert!(colour.contains("\x1b[1m") && colour.contains('│'), "control: {colour:?}");
    let plain = says(&[("TERM", "xterm"), ("NO_COLOR", "1"), ("LC_ALL", "C")]);
    assert!(!plain.contains("\x1b[1m") && !plain.contains("\x1b[3"), "{plain:?}");
    assert!(plain.is_ascii(), "{plain:?}");
    let dumb = says(&[("TERM", "dumb"), ("LC_ALL", "C")]);
    assert!(!dumb.contains('\x1b') && dumb.contains("round 1 of 1"), "{dumb:?}");
}

#[test]
fn compare_ends_with_the_code_of_a_failing_program() {
    let home = home();
    let words = ["compare", "--runs", "1", "--only", "system,glebe", "--", "sh", "-c"];
    let assert = glebe(&home).args(words).arg("exit 9").assert().code(9);
    assert.stdout(contains("exit 9 in 1 of 1"));
    let assert = glebe(&home).args(words).arg("test -z \"$LD_PRELOAD\"").assert().code(1);
    assert.stdout(contains("exit 1 in 1 of 1"));
    let assert = glebe(&home).args(words).arg("kill -SEGV $$").assert().code(139);
    let stderr = contains("warm-up ended: killed by signal 11").and(contains("; 1 round, seed"));
    assert.stdout(contains("killed by signal 11 in 1 of 1")).stderr(stderr);
}

#[test]
fn compare_notices_different_output_and_a_library_that_is_not_loaded() {
    let home = home();
    let words = ["compare", "--runs", "2", "--only", "system,glebe", "--", "sh", "-c"];
    let assert = glebe(&home).args(words).arg("echo $LD_PRELOAD").assert().success();
    assert.stderr(contains("standard output under glebe differs"));
    let assert = glebe(&home).args(words).arg("echo the same").assert().success();
    assert.stderr(contains("differs").not());

    // Positive control: the loader refuses to preload an executable, and the program runs without.
    let Some(peer) = cc(home.path(), "libpie.so", OWN_MALLOC, &["-pie", "-fPIE", "-rdynamic"])
    else {
        return;
    };
    let only = format!("system,pie={}", peer.display());
    let assert = glebe(&home).args(["compare", "--runs", "1", "--only", &only, "true"]).assert();
    assert.success().stderr(contains("pie was never loaded"));
}

/// Starts a comparison whose fifth run follows `last`, a shell command, and signals it once that run has begun. Returns
/// how it ended, and the process id of the fifth run.
fn interrupted(last: &str, signals: impl Fn(i32)) -> (std::process::Output, i32) {
    let home = home();
    let ready = home.path().join("ready");
    // Two warm-ups and two runs are short; the next run writes down its process id.
    let script = format!("echo >>$1; test $(wc -l <$1) -le 4 || {{ {last}; }}");
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("glebe"));
    command.args(["compare", "--runs", "9", "--only", "system,glebe", "--", "sh", "-c", &script]);
    command.arg("sh").arg(&ready).env("XDG_CACHE_HOME", home.path()).env_remove("LD_PRELOAD");
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    let number = std::iter::repeat_with(|| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::read_to_string(ready.with_extension("pid")).unwrap_or_default()
    });
    let sleeper: i32 = number.take(30_000).find_map(|text| text.trim().parse().ok()).unwrap();
    signals(child.id() as i32);
    (child.wait_with_output().unwrap(), sleeper)
}

fn terminate(pid: i32) {
    // SAFETY: only sends a signal.
    unsafe { libc::kill(pid, libc::SIGTERM) };
}

#[test]
fn an_interrupted_comparison_ends_its_program_and_shows_whole_rounds() {
    use std::os::unix::process::ExitStatusExt;
    // As timeout(1) does: more than one, at once.
    let (output, sleeper) = interrupted("echo $$ >$1.pid; exec sleep 600", |pid| {
        for _ in 0..20 {
            terminate(pid);
            std::thread::yield_now();
        }
    });
    assert_eq!(output.status.signal(), Some(libc::SIGTERM));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 run cannot tell"), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("interrupted after 1 whole round of 9"), "{stderr}");
    assert!(!Path::new(&format!("/proc/{sleeper}")).exists(), "the program runs on");
}

#[test]
fn a_second_signal_ends_a_comparison_whose_program_stays() {
    use std::os::unix::process::ExitStatusExt;
    let (output, stays) =
        interrupted("trap '' TERM; echo $$ >$1.pid; exec sleep 600 >&- 2>&-", |pid| {
            terminate(pid);
            std::thread::sleep(std::time::Duration::from_secs(1));
            terminate(pid);
        });
    assert_eq!(output.status.signal(), Some(libc::SIGTERM));
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(Path::new(&format!("/proc/{stays}")).exists());
    // SAFETY: only sends a signal.
    unsafe { libc::kill(stays, libc::SIGKILL) };
}

#[test]
fn unknown_allocators_are_explained() {
    let home = home();
    let assert = glebe(&home).args(["compare", "--with", "nomalloc", "--", "true"]).assert();
    assert.code(2).stderr(contains("nomalloc").and(contains("NAME=PATH")));
    let assert = glebe(&home).args(["compare", "--with", "x=/no/such.so", "--", "true"]).assert();
    assert.code(125).stderr("glebe: /no/such.so: No such file or directory\n");

    let Some(library) = cc(home.path(), "libnone.so", TRIVIAL, &["-shared", "-fPIC"]) else {
        return;
    };
    let assert = glebe(&home).args(["compare", "--with"]).arg(&library).arg("true").assert();
    assert.code(125).stderr(contains("defines no malloc"));
}

#[test]
fn stats_explain_processes_that_cannot_be_read() {
    let home = home();
    let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = sleeper.id().to_string();
    let assert = glebe(&home).args(["stats", &pid]).assert().code(125);
    assert.stderr(contains("no glebe was found in process").and(contains("glebe run -- sleep")));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    glebe(&home).args(["stats", "2147483647"]).assert().code(125).stderr(contains("no process"));
    glebe(&home).args(["stats", "--", "sh", "-c", "exit 6"]).assert().code(6);
}

/// Writes a file that begins like a Windows program.
fn windows_program(path: &Path) {
    let mut image = vec![0; 256];
    image[..2].copy_from_slice(b"MZ");
    image[0x3c] = 128;
    image[128..130].copy_from_slice(b"PE");
    fs::write(path, image).unwrap();
}

#[test]
fn windows_programs_are_handed_to_wine_with_their_options() {
    let home = home();
    let place = |name: &str| home.path().join(name);
    let (program, exe, wine) = (place("game.exe"), place("glebe.exe"), place("wine"));
    windows_program(&program);
    fs::write(&exe, "").unwrap();
    fs::write(&wine, "#!/bin/sh\nfor word; do echo \"[$word]\"; done\nexit 7\n").unwrap();
    fs::set_permissions(&wine, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", home.path().display());
    let says = |words: &[&str]| {
        let mut command = glebe(&home);
        command.env("GLEBE_TOOL_EXE", &exe).env("PATH", &path).current_dir(home.path());
        let output = command.args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let words: Vec<&str> = text.lines().map(|line| &line[1..line.len() - 1]).collect();
        assert_eq!(words[0], exe.to_str().unwrap());
        words[1..].join("|")
    };
    let options = ["run", "--limit", "2G", "--children", "--", "./game.exe", "a b", "--", "-v"];
    assert_eq!(says(&options), "run|--limit|2G|--children|--|./game.exe|a b|--|-v");
    assert_eq!(says(&["compare", "-n", "3", "game.exe"]), "compare|-n|3|--|game.exe");
    assert_eq!(says(&["stats", "--json", "--", "game.exe"]), "stats|--json|--|game.exe");
    let whole = format!("run|--|Z:{}|", program.display());
    assert_eq!(says(&["run", program.to_str().unwrap(), ""]), whole);
}

#[test]
fn what_windows_programs_need_is_said() {
    let home = home();
    let program = home.path().join("game.exe");
    windows_program(&program);
    let mut command = glebe(&home);
    let assert = command.arg("run").arg(&program).env("GLEBE_TOOL_EXE", "/no/glebe.exe").assert();
    assert
        .code(125)
        .stderr(contains("game.exe is a Windows program").and(contains("make windows")));
    let mut command = glebe(&home);
    command
        .arg("compare")
        .arg(&program)
        .env("GLEBE_TOOL_EXE", &program)
        .env("WINE", "no-such-wine");
    command.assert().code(125).stderr(contains("set WINE"));
}

/// Under a limit that leaves no room for a thread's stack. A panic would end it, and with RUST_BACKTRACE=1 hang there.
#[test]
fn without_threads_programs_run_and_are_compared() {
    use std::os::unix::process::CommandExt;
    let home = home();
    for words in [
        &["run", "-v", "--"][..],
        &["run", "--stats", "--"],
        &["compare", "-n", "1", "--only", "system,glebe", "--"],
    ] {
        let mut command = command_of(&home, words);
        command.arg("true").env("RUST_BACKTRACE", "1");
        // SAFETY: only a system call between fork and execve.
        unsafe {
            command.pre_exec(|| {
                let limit = libc::rlimit { rlim_cur: 2 << 20, rlim_max: 2 << 20 };
                match libc::setrlimit(libc::RLIMIT_DATA, &limit) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
    }
}

/// A file that is full.
fn full() -> fs::File {
    fs::OpenOptions::new().write(true).open("/dev/full").unwrap()
}

#[test]
fn a_full_standard_output_is_an_error() {
    let home = home();
    let mut sleeper = command_of(&home, &["run", "--", "sleep", "1000"]).spawn().unwrap();
    let pid = sleeper.id().to_string();
    while glebe(&home).args(["stats", &pid]).output().unwrap().status.code() != Some(0) {
        assert!(sleeper.try_wait().unwrap().is_none(), "it ended before it could be read");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let compare = ["compare", "--only", "system", "--runs", "1", "--quiet"];
    for words in [
        &["--help"][..],
        &["--version"],
        &["run", "--help"],
        &["stats", &pid],
        &["stats", "--json", &pid],
        &[&compare[..], &["--", "true"]].concat(),
        &[&compare[..], &["--json", "--", "true"]].concat(),
    ] {
        let output = command_of(&home, words).stdout(full()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{words:?}: {text}");
        assert!(text.contains("standard output: No space left on device"), "{words:?}: {text}");
    }
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn a_full_standard_error_changes_no_exit_code() {
    let home = home();
    let profile = home.path().join("p.pb.gz");
    for (words, code) in [
        (&["run", "--verbose", "--", "sh", "-c", "exit 3"][..], 3),
        (&["profile", "-o", profile.to_str().unwrap(), "--", "true"], 0),
        (&["compare", "--only", "system", "--runs", "1", "--", "true"], 0),
        (&["run", "--", "no-such-program"], 127),
        (&["stats", "999999999"], 125),
        (&["compare", "--runs", "0", "true"], 2),
    ] {
        let status =
            command_of(&home, words).stdout(std::process::Stdio::null()).stderr(full()).status();
        let status = status.unwrap();
        assert_eq!(status.code(), Some(code), "{words:?}");
    }
    assert!(profile.exists());
}

/// Without a reader the command ends by SIGPIPE, like other programs, or as if all was read, and prints no error.
#[test]
fn a_pipe_without_a_reader_is_no_error_of_ours() {
    use std::os::unix::process::ExitStatusExt;
    let home = home();
    for words in
        [&["--help"][..], &["compare", "--only", "system", "--runs", "1", "--quiet", "--", "true"]]
    {
        let mut child = command_of(&home, words);
        let mut reader = std::process::Command::new("true");
        let mut reader = reader.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let writer = reader.stdin.take().unwrap();
        reader.wait().unwrap();
        let output = child.stdout(writer).output().unwrap();
        assert_eq!(output.stderr, b"", "{words:?}");
        assert!(
            output.status.success() || output.status.signal() == Some(13),
            "{words:?}: {}",
            output.status
        );
    }
}

#[test]
fn a_value_out_of_range_is_refused_and_runs_nothing() {
    let home = home();
    for (option, value, says) in [
        ("--limit", "18446744073709551615", "more than any memory"),
        ("--limit", "8388608T", "more than any memory"),
        ("--limit", "99999999999999999999999", "more than any memory"),
        ("--limit", "-1", "not a size"),
        ("--limit", "1.5", "part of a byte"),
        ("--limit", "1X", "unknown unit"),
        ("--purge-ms", "99999999999", "1073741823"),
        ("--purge-ms", "1073741824", "1073741823"),
        ("--purge-ms", "soon", "invalid"),
        ("--on-error", "ignore", "abort"),
    ] {
        let assert =
            glebe(&home).args(["run", &format!("{option}={value}"), "--", "echo", "ran"]).assert();
        assert.code(2).stdout("").stderr(contains(option).and(contains(value)).and(contains(says)));
    }
}

/// The library accepts the largest values that the command accepts.
#[test]
fn a_value_at_its_bound_is_taken_by_the_library() {
    let home = home();
    for option in [
        "--limit=9223372036854775807",
        "--limit=0",
        "--limit=1.5GiB",
        "--purge-ms=1073741823",
        "--purge-ms=0",
    ] {
        glebe(&home)
            .args(["run", option, "--", "echo", "ran"])
            .assert()
            .success()
            .stdout("ran\n")
            .stderr("");
    }
}
