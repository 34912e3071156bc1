//! Snapshots of programs that come near a limit of their address space, and end by it, or are killed at once.
#![cfg(target_os = "linux")]

mod common;

use assert_cmd::Command;
use common::{cc, glebe, home, with_environment};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Allocates until a request fails. With a file's name a second thread allocates too, and a third ends the process as
/// soon as the file is there: mostly before its second version is written. Threads wait for a snapshot for half a
/// second at most, so on a busy machine only a program of one thread has the exact sum.
const GROWS: &str = "#include <pthread.h>\n#include <signal.h>\n#include <stdlib.h>\n#include <string.h>\n\
    #include <unistd.h>\nstatic const char *file;\n\
    static void *watch(void *x) { while (access(file, F_OK) != 0) {} kill(getpid(), SIGKILL); return x; }\n\
    __attribute__((noinline)) static char *grows(size_t each) { return malloc(each); }\n\
    static void *grow(void *x) {\n\
        for (;;) { char *p = grows((size_t)x); if (!p) abort(); memset(p, 1, (size_t)x); }\n\
    }\n\
    int main(int n, char **words) {\n\
        pthread_t thread;\n\
        size_t each = strtoul(words[1], 0, 10);\n\
        if (n > 2) {\n\
            file = words[2];\n\
            pthread_create(&thread, 0, watch, 0);\n\
            pthread_create(&thread, 0, grow, (void *)each);\n\
        }\n\
        grow((void *)(each * 3));\n\
    }";

/// The command in a folder of its own, under a shell with a limit of 200 MB of address space.
fn limited(home: &TempDir, words: &[&str]) -> Command {
    let mut command = Command::from_std(with_environment(home, "sh"));
    let script = "ulimit -v 200000; ulimit -c 0; exec \"$@\"";
    command.args(["-c", script, "sh"]).arg(glebe(home).get_program());
    command.args(words).current_dir(home.path());
    command
}

fn explained(home: &TempDir, file: &str) -> Value {
    let words = ["explain", "--json", "--from", file];
    let output = glebe(home).current_dir(home.path()).args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn only(folder: &Path, name: &str) -> bool {
    let names = fs::read_dir(folder).unwrap().flatten().map(|e| e.file_name());
    let names = names.filter(|n| n.to_string_lossy().contains("snap"));
    names.collect::<Vec<_>>() == [name]
}

#[test]
fn a_program_at_its_limit_leaves_parts_and_a_profile() {
    let home = home();
    let Some(program) = cc(home.path(), "grows", GROWS, &["-O1", "-g", "-pthread"]) else { return };
    let words =
        ["run", "--snapshot", "snap@90%", "--mean", "64K", "--", program.to_str().unwrap(), "900"];
    limited(&home, &words).assert().failure();
    assert!(only(home.path(), "snap"));
    let object = explained(&home, "snap");
    let parts = object["parts"].as_array().unwrap().iter();
    let sum: u64 = parts.map(|part| part["bytes"].as_u64().unwrap()).sum();
    assert_eq!(Some(sum), object["rss_bytes"].as_u64());
    let kernel = object["kernel_rss_bytes"].as_u64().unwrap();
    assert!(sum.abs_diff(kernel) < kernel / 50, "{sum} {kernel}");
    assert!(object["live_bytes"].as_u64().unwrap() > 120 << 20, "{object}");
    assert!(object["moment"].as_str().unwrap().contains("RLIMIT_AS"), "{object}");
    assert_eq!(object["sites_recorded"], true);
    let limit = &object["limits"][0];
    assert!(limit["used_bytes"].as_u64() >= Some(200_000 * 1024 / 10 * 9), "{limit}");
    let mut profile = glebe(&home);
    profile.current_dir(home.path()).args(["profile", "--from", "snap", "-o", "out.pb.gz"]);
    profile.assert().success().stderr(contains("grows"));
    let mut shown = glebe(&home);
    shown
        .current_dir(home.path())
        .args(["profile", "snap"])
        .assert()
        .success()
        .stdout(contains("grows"));
    fs::write(home.path().join("cut"), &fs::read(home.path().join("snap")).unwrap()[..400])
        .unwrap();
    let mut cut = glebe(&home);
    let told = "glebe: cut is incomplete: it was not written to its end\n";
    cut.current_dir(home.path()).args(["profile", "cut"]).assert().code(125).stderr(told);
}

#[test]
fn a_file_of_that_name_is_whole_whenever_the_process_is_killed() {
    let home = home();
    let Some(program) = cc(home.path(), "grows", GROWS, &["-O1", "-pthread"]) else { return };
    for each in ["40", "3000", "70000"] {
        let words =
            ["run", "--snapshot", "snap@90%", "--", program.to_str().unwrap(), each, "snap"];
        limited(&home, &words).assert().failure();
        let object = explained(&home, "snap");
        assert!(object["moment"].as_str().unwrap().contains("RLIMIT_AS"), "{object}");
        assert!(!object["classes"].as_array().unwrap().is_empty(), "{object}");
        assert_ne!(object["sites_recorded"], true);
        for entry in fs::read_dir(home.path()).unwrap().flatten() {
            if entry.file_name().to_string_lossy().contains("snap") {
                fs::remove_file(entry.path()).unwrap();
            }
        }
    }
}

#[test]
fn a_size_and_the_number_of_the_process() {
    let home = home();
    let script = "import os\nx = bytearray(60 << 20)\nprint(os.getpid())";
    let words = ["run", "--snapshot", "snap.%p@50M", "--", "python3", "-c", script];
    let output = glebe(&home).current_dir(home.path()).args(words).output().unwrap();
    if !output.status.success() {
        return; // no Python
    }
    let pid = String::from_utf8(output.stdout).unwrap();
    let name = format!("snap.{}", pid.trim());
    assert!(only(home.path(), &name));
    let moment = explained(&home, &name)["moment"].as_str().unwrap().to_string();
    assert_eq!(moment, "when it reached 50.0 MiB of bytes in use");
    let mut profile = glebe(&home);
    profile.current_dir(home.path()).args(["profile", "--from", &name]);
    profile.assert().code(125).stderr(contains("has no profile").and(contains("\n").count(1)));
}

#[test]
fn what_cannot_be_is_told_in_one_line() {
    let home = home();
    for value in ["x", "x@", "@5%", "x@0%", "x@101%", "x@1.5%", "x@0", "x@5Q"] {
        let mut run = glebe(&home);
        run.args(["run", "--snapshot", value, "--", "true"]);
        run.assert().code(2).stderr(contains("it takes FILE@N%, N from 1 to 100, or FILE@SIZE"));
    }
    let mut run = glebe(&home);
    run.args(["run", "-q", "--snapshot", "/nowhere/x@5%", "--", "/bin/true"]);
    let told = "glebe: snapshot: cannot write /nowhere/x: error 2 (no such folder)\n";
    run.assert().success().stderr(told);
    fs::write(home.path().join("damaged"), "glebe-snapshot 1\nprocess 5 x\n").unwrap();
    let mut explain = glebe(&home);
    explain.current_dir(home.path()).args(["explain", "--from", "damaged"]);
    let told = "glebe: damaged is incomplete: it was not written to its end\n";
    explain.assert().code(125).stderr(told);
}

#[test]
fn what_begins_otherwise_is_not_read_to_its_end() {
    let home = home();
    for (command, said) in [("explain", "is no snapshot"), ("profile", "is no profile")] {
        let mut from = glebe(&home);
        from.timeout(Duration::from_secs(60)).args([command, "--from", "/dev/zero"]);
        from.args((command == "profile").then_some(["-o", "out"]).into_iter().flatten());
        from.current_dir(home.path())
            .assert()
            .code(125)
            .stderr(contains(format!("/dev/zero {said}")));
    }
}
