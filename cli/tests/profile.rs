//! `glebe profile` from outside: programs with known callers, and hosts that give no room for the profile.
#![cfg(target_os = "linux")]

mod common;

use assert_cmd::Command;
use common::{cc, command_of, glebe, home, wait_until, Running};
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
        if (n > 1 && strcmp(words[1], \"more\") == 0) for (int i = 0; i < N; i++) keeps();\n\
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

/// What has no room is said with the profile, with its file, and with leaks and explanations.
#[test]
fn samples_without_a_record_are_told() {
    let home = home();
    let many = "#include <stdlib.h>\nint main(void) {\n\
        for (int i = 0; i < 400000; i++) { void **p = malloc(32); if (p) *p = &i; }\n\
        return 3; }";
    let Some(program) = cc(home.path(), "many", many, &["-O0", "-g"]) else { return };
    let program = program.to_str().unwrap();
    let missing = contains(" samples are missing, so figures are too low: take a larger --mean");
    let words = ["--mean", "1", "-o", "many.pb.gz", "--", program];
    profile(&home, &words).assert().code(3).stderr(missing.clone());
    profile(&home, &["many.pb.gz"]).assert().success().stderr(missing.clone());
    for command in ["leaks", "explain"] {
        let mut found =
            Command::from_std(command_of(&home, &[command, "--mean", "1", "--", program]));
        found.assert().code(3).stderr(missing.clone());
    }
    let words = ["--mean", "64K", "-o", "few.pb.gz", "--", program];
    profile(&home, &words).assert().code(3).stderr(missing.clone().not());
    profile(&home, &["few.pb.gz"]).assert().success().stderr(missing.not());
}

/// A program that has glebe linked in: stacks begin with the program's functions, not glebe's.
#[test]
fn a_static_glebe_is_left_out() {
    let Some(libraries) = std::env::var_os("GLEBE_LIBRARY_DIR") else { return };
    let archive = Path::new(&libraries).join("libglebe-override.a");
    let home = home();
    let flags = ["-O1", "-g", "-pthread", "-Wl,-u,malloc", archive.to_str().unwrap()];
    let Some(program) = cc(home.path(), "linked", KNOWN, &flags) else { return };
    let words = ["--mean", "64K", "--alloc", "--folded", "f", "--", program.to_str().unwrap()];
    profile(&home, &words).assert().code(3);
    assert!(folded(&home.path().join("f"), "keeps") > 0.0);
    let text = fs::read_to_string(home.path().join("f")).unwrap();
    let of_keeps = text.lines().filter(|line| line.contains("keeps"));
    let inner = |line: &str| line.rsplit(';').next().unwrap().starts_with("keeps");
    assert!(of_keeps.clone().count() > 0 && of_keeps.clone().all(inner), "{text}");
}

/// 20 MiB of one tenant, 10 of another, 5 of none.
const LABELS: &str = "#include <glebe.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
    void *kept[35 * 16];\n#pragma weak glebe_profile_label\n\
    static void keeps(const char *tenant, int from, int to) {\n\
        if (glebe_profile_label(\"tenant\", tenant)) exit(9);\n\
        while (from < to) kept[from++] = memset(malloc(64 << 10), 1, 64 << 10);\n\
    }\n\
    int main(int n, char **words) {\n\
        keeps(\"a\", 0, 20 * 16), keeps(\"b c\", 20 * 16, 30 * 16), keeps(NULL, 30 * 16, 35 * 16);\n\
        return 3;\n\
    }";

#[test]
fn samples_carry_labels() {
    let home = home();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../include");
    let Some(program) = cc(home.path(), "labels", LABELS, &["-O1", include]) else { return };
    let program = program.to_str().unwrap();
    let has_rows = |text: &[u8]| {
        let text = String::from_utf8_lossy(text).into_owned();
        for (bytes, label) in [("20.0 MiB", "a"), ("10.0 MiB", "b c"), ("5.0 MiB", "(no label)")] {
            let is_row = |line: &str| line.contains(bytes) && line.contains(&format!(" {label} "));
            assert!(text.lines().any(is_row), "{label}: {text}");
        }
    };
    let words = ["--mean", "1", "--by", "tenant", "-o", "l.pb.gz", "--", program];
    let run = profile(&home, &words).output().unwrap();
    assert_eq!(run.status.code(), Some(3));
    has_rows(&run.stderr);
    has_rows(&profile(&home, &["--by", "tenant", "l.pb.gz"]).output().unwrap().stdout);
    let output = profile(&home, &["--json", "l.pb.gz"]).output().unwrap();
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let labels: Vec<_> = found["labels"].as_array().unwrap().iter().collect();
    let bytes = |label: &serde_json::Value| label["bytes"].as_u64().unwrap() >> 20;
    assert_eq!(
        labels.iter().map(|l| (&l["value"], bytes(l))).collect::<Vec<_>>(),
        [(&"a".into(), 20), (&"b c".into(), 10)]
    );
}

/// 10 MiB are freed at once, 20 MiB after 40 ms, and 5 MiB stay.
const LIVES: &str = "#include <stdlib.h>\n#include <unistd.h>\n\
    void *kept[25 * 256];\n\
    __attribute__((noinline)) void *dies(void) { return malloc(4 << 10); }\n\
    __attribute__((noinline)) void *waits(void) { return malloc(4 << 10); }\n\
    __attribute__((noinline)) void *stays(void) { return malloc(4 << 10); }\n\
    int main(void) {\n\
        for (int i = 0; i < 10 * 256; i++) free(dies());\n\
        for (int i = 0; i < 20 * 256; i++) kept[i] = waits();\n\
        for (int i = 0; i < 5 * 256; i++) kept[20 * 256 + i] = stays();\n\
        usleep(40000);\n\
        for (int i = 0; i < 20 * 256; i++) free(kept[i]);\n\
        return 3;\n\
    }";

#[test]
fn freed_blocks_have_lifetimes() {
    let home = home();
    let Some(program) = cc(home.path(), "lives", LIVES, &["-O1", "-fno-builtin"]) else { return };
    let program = program.to_str().unwrap();
    let words = ["--lifetimes", "--mean", "1", "--json", "-o", "l.pb.gz", "--", program];
    let run = profile(&home, &words).output().unwrap();
    assert_eq!(run.status.code(), Some(3));
    let read = profile(&home, &["--lifetimes", "--json", "l.pb.gz"]).output().unwrap();
    for output in [run.stdout, read.stdout] {
        let found: serde_json::Value = serde_json::from_slice(&output).unwrap();
        // (bytes that are in use, freed ones that lived less than 30 ms, others), in MiB
        let of = |function: &str| {
            let rows = found["lifetimes"].as_array().unwrap();
            let row = rows.iter().find(|row| row["function"] == function).unwrap();
            let (mut early, mut late) = (0, 0);
            for class in row["freed"].as_array().unwrap() {
                let is_early = class["below_ns"].as_u64().is_some_and(|ns| ns <= 30_000_000);
                *(if is_early { &mut early } else { &mut late }) +=
                    class["bytes"].as_u64().unwrap();
            }
            (row["live_bytes"].as_u64().unwrap() >> 20, early >> 20, late >> 20)
        };
        assert_eq!((of("waits"), of("stays")), ((0, 0, 20), (5, 0, 0)));
        let (live, early, late) = of("dies"); // a block may be late if the machine is busy
        assert!(live == 0 && early + late >= 9 && early >= 5, "{early} {late}");
    }
    profile(&home, &["--lifetimes", "l.pb.gz"]).assert().stdout(contains("90 % below"));
    profile(&home, &["-q", "-o", "plain.pb.gz", "--", program]).assert().code(3);
    let refused = "plain.pb.gz has no lifetimes: it was written without --lifetimes";
    profile(&home, &["--lifetimes", "plain.pb.gz"]).assert().code(125).stderr(contains(refused));
}

/// Says "ready". Each millisecond 8 blocks die at once, 8 live for 64 rounds, and 1 stays; SIGUSR1 ends what stays, and
/// the second one frees it.
const LIVES_ON: &str = "#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
    static void *ring[512], *kept[1 << 20];\n\
    static volatile sig_atomic_t phase;\n\
    static void next(int number) { (void)number; phase++; }\n\
    __attribute__((noinline)) void *dies(void) { return malloc(4 << 10); }\n\
    __attribute__((noinline)) void *waits(void) { return malloc(4 << 10); }\n\
    __attribute__((noinline)) void *stays(void) { return malloc(4 << 10); }\n\
    int main(void) {\n\
        signal(SIGUSR1, next);\n\
        puts(\"ready\"); fflush(stdout);\n\
        for (unsigned round = 0, count = 0;; round++) {\n\
            for (int i = 0; i < 8; i++) free(dies());\n\
            for (int i = 0; i < 8; i++) { void **p = &ring[(round * 8 + i) % 512]; free(*p); *p = waits(); }\n\
            if (phase == 0 && count < 1 << 20) kept[count++] = stays();\n\
            if (phase >= 2) while (count > 0) free(kept[--count]);\n\
            usleep(1000);\n\
        }\n\
    }";

/// What `--lifetimes --json` says of a function: bytes that live, freed ones that lived less than 30 ms, and others.
fn lives_of(output: &[u8], function: &str) -> (u64, u64, u64) {
    let found: serde_json::Value = serde_json::from_slice(output).unwrap();
    let rows = found["lifetimes"].as_array().unwrap();
    let Some(row) = rows.iter().find(|row| row["function"] == function) else { return (0, 0, 0) };
    let freed = row["freed"].as_array().unwrap();
    let sum = |early: bool| {
        let is_early = |class: &&serde_json::Value| {
            class["below_ns"].as_u64().is_some_and(|ns| ns <= 30_000_000) == early
        };
        freed.iter().filter(is_early).map(|class| class["bytes"].as_u64().unwrap()).sum()
    };
    (row["live_bytes"].as_u64().unwrap(), sum(true), sum(false))
}

/// Starts LIVES_ON, behind the words of another command or none. None: there is no compiler.
fn lives_on(home: &TempDir, before: &[&str]) -> Option<Running> {
    let program = cc(home.path(), "lives", LIVES_ON, &["-O1", "-fno-builtin"])?;
    Some(Running::start(home, &[before, &[program.to_str().unwrap()]].concat()))
}

/// Twice: the second profile has nothing of blocks of the first, neither as live nor as freed.
#[test]
fn blocks_of_a_process_that_runs_have_lifetimes() {
    let home = home();
    let Some(running) = lives_on(&home, &[]) else { return };
    let pid = running.pid();
    let words = ["--lifetimes", "--mean", "1", "--seconds", "2", "--json", "-o", "l.pb.gz", &pid];
    let next_phase = || {
        // SAFETY: only sends a signal, to our child.
        assert_eq!(unsafe { libc::kill(running.0.id() as i32, libc::SIGUSR1) }, 0);
    };
    let checks = |output: &[u8]| {
        let (live, early, late) = lives_of(output, "dies"); // one may be late if the machine is busy
        assert!(live < 64 << 10 && early > 2 * late, "{live} {early} {late}");
        let (live, early, late) = lives_of(output, "waits");
        // A machine that is busy with others runs few of the rounds.
        assert!(live <= 520 << 12 && early == 0 && live + late > 64 << 10, "{live} {early} {late}");
    };
    let first = profile(&home, &words).output().unwrap();
    assert!(first.status.success(), "{first:?}");
    checks(&first.stdout);
    let (live, early, late) = lives_of(&first.stdout, "stays");
    assert!(live >= 32 << 10 && early + late == 0, "{live} {early} {late}");
    let read = profile(&home, &["--lifetimes", "--json", "l.pb.gz"]).output().unwrap();
    assert_eq!(lives_of(&read.stdout, "stays"), (live, 0, 0));

    next_phase();
    let second = std::thread::scope(|scope| {
        let second = scope.spawn(|| profile(&home, &words).output().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(1200));
        next_phase();
        second.join().unwrap()
    });
    assert!(second.status.success(), "{second:?}");
    checks(&second.stdout);
    assert_eq!(lives_of(&second.stdout, "stays"), (0, 0, 0));
}

/// A third profile of a process has no peak and no live blocks of the first two.
#[test]
fn a_profile_has_nothing_of_the_one_before() {
    let home = home();
    let Some(running) = lives_on(&home, &[]) else { return };
    let pid = running.pid();
    let bytes = |kind: &str| {
        let words = [kind, "-q", "--mean", "1", "--seconds", "1", "--folded", "f", &pid];
        profile(&home, &words).assert().success();
        folded(&home.path().join("f"), "stays")
    };
    assert!(bytes("--peak") >= 16.0 * 4096.0, "control");
    // SAFETY: only sends a signal, to our child.
    assert_eq!(unsafe { libc::kill(running.0.id() as i32, libc::SIGUSR1) }, 0);
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!((bytes("--live"), bytes("--peak")), (0.0, 0.0));
}

/// The process samples since its start, so the lifetimes are those since then.
#[test]
fn a_process_with_a_profile_of_its_own_tells_all_lifetimes() {
    let home = home();
    let variable = format!("GLEBE_PROFILE={}", home.path().join("own").display());
    let Some(running) = lives_on(&home, &["env", &variable, "GLEBE_PROFILE_BYTES=1"]) else {
        return;
    };
    let pid = running.pid();
    let stays = |words: &[&str]| {
        let words = [&["--lifetimes", "--seconds", "1", "--json"], words, &[&pid[..]]].concat();
        let output = profile(&home, &words).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains("samples already: its own profile, from its start on"), "{told}");
        assert_eq!(told.contains("--mean changes nothing"), words.contains(&"--mean"), "{told}");
        lives_of(&output.stdout, "stays").0
    };
    let first = stays(&[]);
    assert!(first > 0 && stays(&["--mean", "1M"]) > first);
}

/// A library whose tables have no lifetimes is one that is older than these.
#[test]
fn an_older_library_is_told_that_it_counts_no_lifetimes() {
    let home = home();
    let Some(program) = cc(home.path(), "serves", SERVES, &["-O1", "-g"]) else { return };
    drop(Running::start(&home, &[program.to_str().unwrap()]));
    let mut files =
        fs::read_dir(home.path().join("glebe")).unwrap().flatten().map(|file| file.path());
    let library = files.find(|path| path.extension().is_some_and(|e| e == "so")).unwrap();
    let mut bytes = fs::read(library).unwrap();
    let name = b"\0site.freed\0";
    let places: Vec<_> =
        (0..bytes.len() - name.len()).filter(|at| bytes[*at..].starts_with(name)).collect();
    assert_eq!(places.len(), 1);
    bytes[places[0] + 1] = b'S';
    let old = home.path().join("libglebe-old.so");
    fs::write(&old, bytes).unwrap();
    let mut command = common::with_environment(&home, &program);
    let mut child =
        command.env("LD_PRELOAD", old).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
    let running = Running(child);
    let pid = running.pid();
    let told = "is too old to count lifetimes; it has the other profiles";
    let one = predicate::str::contains("\n").count(1);
    profile(&home, &["--lifetimes", "--seconds", "1", &pid])
        .assert()
        .code(125)
        .stderr(contains(told).and(one));
    let words = ["--alloc", "--mean", "8K", "--seconds", "1", "--folded", "f", &pid];
    profile(&home, &words).assert().success();
    assert!(folded(&home.path().join("f"), "drops") > 0.0);
}

/// The program goes on after that, and says that there is no place for its profile any more.
#[test]
fn a_command_that_is_killed_leaves_no_folder() {
    let home = home();
    let Some(program) = cc(home.path(), "serves", SERVES, &["-O1", "-g"]) else { return };
    let temporary = home.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let words = ["profile", "-o", "/dev/null", "--mean", "8K", "--", program.to_str().unwrap()];
    let mut command = command_of(&home, &words);
    command.env("TMPDIR", &temporary).stdout(std::process::Stdio::null());
    let errors = home.path().join("errors");
    command.stderr(fs::File::create(&errors).unwrap());
    let mut command = command.spawn().unwrap();
    let folders = || fs::read_dir(&temporary).unwrap().flatten().map(|entry| entry.path());
    let files =
        || folders().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    wait_until("no profile was written", || files().next().is_some());
    let name = files().next().unwrap().file_name().into_string().unwrap();
    let serves = Ends(name.split('.').nth(1).unwrap().parse().unwrap());
    command.kill().unwrap();
    command.wait().unwrap();
    wait_until("the folder stays", || folders().next().is_none());
    let says = || fs::read_to_string(&errors).unwrap();
    wait_until("the program does not go on", || says().contains("profile: cannot write"));
    assert_eq!(says().matches('\n').count(), 1, "{}", says());
    drop(serves);
}

/// A process that is no child of ours.
struct Ends(i32);

impl Drop for Ends {
    fn drop(&mut self) {
        // SAFETY: only sends a signal.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
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
    profile(&home, &["--", "sh", "-c", script])
        .assert()
        .code(125)
        .stderr(contains("File too large"));
    fs::write(home.path().join("damaged"), "glebe-profile 1\nmean 5\n").unwrap();
    profile(&home, &["--from", "damaged"])
        .assert()
        .code(125)
        .stderr(contains("damaged is no profile: it has no end"));
    // Nothing is wrong with the profile.
    fs::write(home.path().join("text"), "glebe-profile 1\nprocess 1 x\nmean 4096\nend\n").unwrap();
    let said = predicate::str::starts_with("glebe: cannot write /nowhere/x: ");
    profile(&home, &["-o", "/nowhere/x", "text"]).assert().code(125).stderr(said);
    assert!(fs::read_dir(home.path())
        .unwrap()
        .flatten()
        .all(|e| !e.file_name().to_string_lossy().starts_with("glebe-profile")));
}

/// Says "ready", and then replaces blocks and keeps some, with a pause after each 64.
const SERVES: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
    static void *ring[4096], *kept[1 << 20];\n\
    __attribute__((noinline)) void *keeps(void) { void *p = malloc(4000); memset(p, 1, 4000); return p; }\n\
    __attribute__((noinline)) void *drops(void) { void *p = malloc(4000); memset(p, 1, 4000); return p; }\n\
    int main(void) {\n\
        puts(\"ready\"); fflush(stdout);\n\
        for (unsigned i = 0;; i++) {\n\
            free(ring[i % 4096]); ring[i % 4096] = drops();\n\
            if (i % 8 == 0 && i / 8 < 1 << 15) kept[i / 8] = keeps();\n\
            if (i % 64 == 0) usleep(1000);\n\
        }\n\
    }";

/// Twice: the second profile leaves out what was allocated in the first.
#[test]
fn a_process_that_runs_is_profiled() {
    let home = home();
    let Some(program) = cc(home.path(), "serves", SERVES, &["-O1", "-g"]) else { return };
    let running = Running::start(&home, &[program.to_str().unwrap()]);
    let pid = running.pid();
    for _ in 0..2 {
        let words = ["--mean", "8K", "--seconds", "1", "--alloc", "--folded", "f", &pid];
        profile(&home, &words).assert().success().stderr(contains("profile in serves.pb.gz"));
        let (kept, dropped) =
            (folded(&home.path().join("f"), "keeps"), folded(&home.path().join("f"), "drops"));
        assert!(kept > 0.0 && dropped > 4.0 * kept && dropped < 16.0 * kept, "{kept} {dropped}");
    }
}

/// The second is refused while the first runs, and for some seconds after the first was killed.
#[test]
fn a_process_is_profiled_by_one_command() {
    let home = home();
    let Some(program) = cc(home.path(), "serves", SERVES, &["-O1", "-g"]) else { return };
    let running = Running::start(&home, &[program.to_str().unwrap()]);
    let pid = running.pid();
    let words = ["profile", "-q", "-o", "first.pb.gz", "--seconds", "60", &pid];
    let mut command = command_of(&home, &words);
    let mut first = Running(command.current_dir(home.path()).spawn().unwrap());
    std::thread::sleep(std::time::Duration::from_secs(1));
    let refused = || {
        let one = predicate::str::contains("\n").count(1);
        let told = contains("by another glebe profile; one that was killed counts for 10 s more");
        profile(&home, &["--seconds", "1", &pid]).assert().code(125).stderr(told.and(one));
    };
    refused();
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    refused();
}

#[test]
fn a_process_that_cannot_be_profiled_is_told_in_one_line() {
    let home = home();
    let one_line = |words: &[&str], code: i32, text: &str| {
        let one = predicate::str::contains("\n").count(1);
        profile(&home, words).assert().code(code).stderr(contains(text).and(one));
    };
    one_line(&["2147483647"], 125, "there is no process 2147483647");
    one_line(&["0"], 2, "0 is no PID");
    one_line(&["12", "--seconds", "1"], 2, "options come before the PID");
    one_line(&["--seconds", "1", "--", "true"], 2, "--seconds is for a process");
    let mut sleeps = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    one_line(&[&sleeps.id().to_string()], 125, "no glebe was found in process");
    sleeps.kill().unwrap();
    sleeps.wait().unwrap();
}

/// It never allocates again, so it never looks; the file is valid, and empty.
#[test]
fn a_process_that_only_waits_has_an_empty_profile() {
    let home = home();
    let waits = "#include <stdio.h>\n#include <unistd.h>\n\
        int main(void) { puts(\"ready\"); fflush(stdout); for (;;) pause(); }";
    let Some(program) = cc(home.path(), "waits", waits, &[]) else { return };
    let running = Running::start(&home, &[program.to_str().unwrap()]);
    let pid = running.pid();
    let told = "allocated nothing in this time: the profile is empty";
    for _ in 0..2 {
        profile(&home, &["--seconds", "1", &pid]).assert().success().stderr(contains(told));
    }
    profile(&home, &["--alloc", "--json", "waits.pb.gz"])
        .assert()
        .success()
        .stdout(contains(r#""functions":[]"#));
    let words = ["profile", "-q", "-o", "killed.pb.gz", "--seconds", "60", &pid];
    let mut command = command_of(&home, &words);
    let mut killed = Running(command.current_dir(home.path()).spawn().unwrap());
    std::thread::sleep(std::time::Duration::from_secs(1));
    let other = contains("is being profiled by another glebe profile");
    profile(&home, &["--seconds", "1", &pid]).assert().code(125).stderr(other);
    killed.0.kill().unwrap();
    killed.0.wait().unwrap();
    for _ in 0..2 {
        profile(&home, &["--seconds", "1", &pid]).assert().success().stderr(contains(told));
    }
}

/// The samples that were read until then are there.
#[test]
fn a_process_that_ends_while_it_is_profiled_has_a_profile() {
    let home = home();
    let ends =
        SERVES.replace("for (unsigned i = 0;; i++)", "for (unsigned i = 0; i < 160000; i++)");
    let Some(program) = cc(home.path(), "ends", &ends, &["-O1", "-g"]) else { return };
    let running = Running::start(&home, &[program.to_str().unwrap()]);
    let words = ["--mean", "8K", "--seconds", "60", "--alloc", "--folded", "f", &running.pid()];
    let said =
        contains("has ended; this is its profile of ").and(contains("profile in ends.pb.gz"));
    profile(&home, &words).assert().success().stderr(said);
    assert!(folded(&home.path().join("f"), "drops") > 0.0);
}

/// malloc returns the block that was freed last, each time. Only the fast paths serve it, before the command's request
/// for a profile and after the answer.
#[test]
fn a_process_that_reuses_one_block_answers() {
    let home = home();
    let reuses = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
        int main(int argc, char **argv) { size_t bytes = atoi(argv[1]); puts(\"ready\"); fflush(stdout);\n\
        for (int i = 0;; i++) {\n\
            char *p = malloc(bytes); memset(p, argc, 16); free(p); if (i % 64 == 0) usleep(100); } }";
    let Some(program) = cc(home.path(), "reuses", reuses, &["-O0", "-g"]) else { return };
    for bytes in ["64", "4000", "30000", "200000", "3000000"] {
        let running = Running::start(&home, &[program.to_str().unwrap(), bytes]);
        let pid = running.pid();
        let words = ["--mean", "4K", "--seconds", "1", "--alloc", "--folded", "f", &pid];
        profile(&home, &words).assert().success().stderr(contains("profile in reuses.pb.gz"));
        assert!(folded(&home.path().join("f"), "main") > 0.0, "{bytes}");
    }
}

/// The pictures and tables of files, and what changed between two.
#[test]
fn files_are_shown_drawn_and_compared() {
    let home = home();
    let Some(program) = cc(home.path(), "known", KNOWN, &["-O1", "-g"]) else { return };
    for (file, kind, mode) in
        [("peak.pb.gz", "--peak", "as it is"), ("alloc.pb.gz", "--alloc", "more")]
    {
        let words =
            ["-q", "--mean", "64K", kind, "-o", file, "--", program.to_str().unwrap(), mode];
        profile(&home, &words).assert().code(3);
    }
    let shown = |words: &[&str]| {
        let output = profile(&home, words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let read = |name: &str| fs::read_to_string(home.path().join(name)).unwrap();
    let text = shown(&["--svg", "one.svg", "--folded", "f", "peak.pb.gz"]);
    assert!(text.contains("in use at the peak") && text.contains("keeps"), "{text}");
    let kept = folded(&home.path().join("f"), "keeps");
    assert!((kept - 40.0 * MIB).abs() < 8.0 * MIB, "{kept}");
    let svg = read("one.svg");
    assert!(svg.contains("\nkeeps\n</text>") && svg.contains("<title>keeps\n"), "{svg}");
    assert!(!svg.contains("<script") && svg.matches("http").count() == 1, "nothing from outside");
    let gunzip =
        std::process::Command::new("gzip").args(["-dc", "peak.pb.gz"]).current_dir(&home).output();
    fs::write(home.path().join("plain"), gunzip.unwrap().stdout).unwrap();
    assert_eq!(shown(&["plain"]), shown(&["peak.pb.gz"]).replace("peak.pb.gz", "plain"));
    let text = shown(&["--alloc", "--json", "peak.pb.gz"]);
    assert!(text.contains(r#""kind":"alloc""#) && text.contains("drops"), "{text}");
    let words = ["--alloc", "--svg", "two.svg", "--diff", "peak.pb.gz", "alloc.pb.gz"];
    let text = shown(&words);
    // The second run kept 40 MiB more. Runs that keep the same have equal estimates, and no row, once in a hundred.
    assert!(text.contains("growth") && text.contains("keeps"), "{text}");
    assert!(read("two.svg").contains("red: grew"));
    profile(&home, &["--diff", "peak.pb.gz", "alloc.pb.gz"])
        .assert()
        .code(125)
        .stderr(contains("--alloc compares what both have"));
}

/// The text of a process whose program's path is not UTF-8.
#[test]
fn a_path_may_be_any_bytes() {
    let home = home();
    let text = b"glebe-profile 1\nprocess 1 x\nmodule 1000 9000 0 - /b\xff\nmean 4096\n\
        samples 1 lost 0\npeak 600\nsite 65536 600 65536 600 65536 600 1005\nend\n";
    fs::write(home.path().join("x.1.0"), text).unwrap();
    for words in [&["x.1.0"][..], &["--diff", "x.1.0", "x.1.0"], &["--from", "x.1.0"]] {
        profile(&home, words).assert().success();
    }
    profile(&home, &["--json", "x.1.0"]).assert().success().stdout(contains("b\u{fffd}+0x4"));
}

#[test]
fn a_file_that_is_no_profile_is_one_clear_line() {
    let home = home();
    fs::write(home.path().join("x.pb.gz"), "no profile").unwrap();
    let one_line = || predicate::str::contains("\n").count(1);
    for (words, said) in [
        (&["nowhere.pb.gz"][..], "cannot read nowhere.pb.gz: No such file"),
        (&["x.pb.gz"], "x.pb.gz is no profile: it is not in pprof's format"),
        (&["--diff", "/dev/zero", "x.pb.gz"], "/dev/zero is no file"),
    ] {
        profile(&home, words).assert().code(125).stderr(contains(said).and(one_line()));
    }
    let words = ["--mean", "4K", "x.pb.gz"];
    profile(&home, &words).assert().code(2).stderr(contains("is a profile").and(one_line()));
    // By its name or by its first bytes; it is never run as a program.
    fs::write(home.path().join("packed"), b"\x1f\x8b\x08").unwrap();
    for words in [&["x.pb.gz", "--svg", "x"][..], &["packed", "--json"], &["x.pb.gz", "y.pb.gz"]] {
        let said = format!("{} is a profile: options come before the file", words[0]);
        profile(&home, words).assert().code(2).stderr(contains(said).and(one_line()));
        assert!(!home.path().join("x").exists());
    }
}
