//! `glebe profile` from outside: programs with known callers, and hosts that give no room for the profile.
#![cfg(target_os = "linux")]

mod common;

use assert_cmd::Command;
use common::{cc, glebe, home};
use predicates::prelude::*;
use predicates::str::contains;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The command in a folder of its own.
fn profile(home: &TempDir, words: &[&str]) -> Command {
    let mut command = glebe(home);
    command.env("TMPDIR", home.path()).current_dir(home.path()).arg("profile").args(words);
    command
}

/// 40 MiB stay in use by `keeps`, 20 MiB come and go by `drops`.
const KNOWN: &str = "#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\n#include <string.h>\n\
    enum { N = 40 * 1024 * 1024 / 4096 };\nvoid *kept[N];\n\
    __attribute__((noinline)) void *keeps(void) { void *p = malloc(4000); memset(p, 1, 4000); return p; }\n\
    __attribute__((noinline)) void *drops(void) { void *p = malloc(4000); memset(p, 1, 4000); return p; }\n\
    int main(int n, char **words) {\n\
        for (int i = 0; i < N; i++) kept[i] = keeps();\n\
        for (int i = 0; i < N / 2; i++) free(drops());\n\
        if (n > 1 && strcmp(words[1], \"closes\") == 0) for (int i = 0; i < 64; i++) close(i);\n\
        if (n > 1 && strcmp(words[1], \"killed\") == 0) {\n\
            sleep(1); usleep(300000);\n\
            for (int i = 0; i < N / 2; i++) free(drops());\n\
            raise(SIGKILL);\n\
        }\n\
        if (n > 1 && strcmp(words[1], \"execs\") == 0) execl(words[0], words[0], (char *)0);\n\
        return 3;\n\
    }";

/// The bytes of all stacks in which `function` is the innermost.
fn folded(path: &Path, function: &str) -> f64 {
    let text = fs::read_to_string(path).unwrap();
    let of = |line: &str| {
        let (stack, bytes) = line.rsplit_once(' ').unwrap();
        let ours = stack.rsplit(';').next() == Some(function);
        assert!(!ours || stack.contains("main;"), "{stack}");
        if ours {
            bytes.parse().unwrap()
        } else {
            0.0
        }
    };
    text.lines().map(of).sum()
}

const MIB: f64 = 1024.0 * 1024.0;

#[test]
fn known_callers_have_their_bytes() {
    let pointers = ["-fno-omit-frame-pointer", "-fomit-frame-pointer"];
    for flags in pointers {
        let home = home();
        let Some(program) = cc(home.path(), "known", KNOWN, &["-O1", "-g", flags]) else { return };
        let words = ["--mean", "64K", "--folded", "f", "--", program.to_str().unwrap()];
        profile(&home, &words)
            .assert()
            .code(3)
            .stderr(contains("profile in known.pb.gz").and(contains("keeps")));
        let kept = folded(&home.path().join("f"), "keeps");
        // the standard error is 1.6 MiB
        assert!((kept - 40.0 * MIB).abs() < 8.0 * MIB, "{flags}: {kept}");
        let words = ["--alloc", "--mean", "64K", "--folded", "f", "--", program.to_str().unwrap()];
        profile(&home, &words).assert().code(3);
        let dropped = folded(&home.path().join("f"), "drops");
        assert!((dropped - 20.0 * MIB).abs() < 8.0 * MIB, "{flags}: {dropped}");
    }
}

/// Go's viewer opens the file, where there is Go.
#[test]
fn go_opens_it() {
    let home = home();
    let Some(program) = cc(home.path(), "known", KNOWN, &["-O1", "-g"]) else { return };
    profile(&home, &["-q", "--live", "-o", "out.gz", "--", program.to_str().unwrap()])
        .assert()
        .code(3);
    let words = ["tool", "pprof", "-top", "-sample_index=alloc_space", "out.gz"];
    let mut go = std::process::Command::new("go");
    let Ok(shown) = go.args(words).current_dir(home.path()).output() else {
        return;
    };
    if !shown.status.success() && String::from_utf8_lossy(&shown.stderr).contains("no such tool") {
        return;
    }
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success() && text.contains("Type: alloc_space"), "{shown:?}");
    assert!(text.contains("keeps") && text.contains("drops"), "{text}");
}

#[test]
fn what_was_written_before_a_signal_stays() {
    let home = home();
    let Some(program) = cc(home.path(), "known", KNOWN, &["-O1", "-g"]) else { return };
    let words = ["--live", "--folded", "f", "--", program.to_str().unwrap(), "killed"];
    let mut run = profile(&home, &words);
    assert!(!run.output().unwrap().status.success());
    let kept = folded(&home.path().join("f"), "keeps");
    assert!((kept - 40.0 * MIB).abs() < 20.0 * MIB, "{kept}");
}

#[test]
fn a_program_may_close_its_files_or_exec() {
    let home = home();
    let Some(program) = cc(home.path(), "known", KNOWN, &["-O1", "-g"]) else { return };
    for word in ["closes", "execs"] {
        profile(&home, &["-q", "--folded", "f", "--", program.to_str().unwrap(), word])
            .assert()
            .code(3);
        assert!(folded(&home.path().join("f"), "keeps") > 10.0 * MIB, "{word}");
    }
}

#[test]
fn no_room_is_one_clear_line() {
    let home = home();
    profile(&home, &["-o", "/nowhere/x", "--", "true"])
        .assert()
        .code(125)
        .stderr(contains("cannot write /nowhere/x").and(predicate::str::contains("\n").count(1)));
    let script = "ulimit -f 0; trap '' XFSZ; exec true";
    profile(&home, &["--", "sh", "-c", script]).assert().code(125).stderr(contains("no room"));
    fs::write(home.path().join("damaged"), "glebe-profile 1\nmean 5\n").unwrap();
    profile(&home, &["--from", "damaged"])
        .assert()
        .code(125)
        .stderr(contains("damaged is no profile: it has no end"));
    assert!(fs::read_dir(home.path())
        .unwrap()
        .flatten()
        .all(|e| !e.file_name().to_string_lossy().starts_with("glebe-profile")));
}
