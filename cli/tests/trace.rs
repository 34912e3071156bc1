//! `glebe record`, `glebe replay` and `glebe trace` from outside: what is recorded, what is kept when things go wrong,
//! and what a replay does. None depends on timing.
#![cfg(target_os = "linux")]

mod common;

use assert_cmd::Command;
use common::wait_until;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A directory with the command's cache, and the command in it.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn glebe(&self, words: &[&str]) -> Command {
        let mut command = Command::cargo_bin("glebe").unwrap();
        command.env("XDG_CACHE_HOME", self.path("cache")).env_remove("LD_PRELOAD");
        command.current_dir(self.dir.path()).args(words);
        command
    }

    /// Compiles a C program; calls of malloc stay calls.
    fn cc(&self, name: &str, source: &str) -> PathBuf {
        let (input, output) = (self.path(&format!("{name}.c")), self.path(name));
        fs::write(&input, format!("{HEADERS}\n{source}")).unwrap();
        let cc = std::process::Command::new("cc");
        compile(cc, &["-O1", "-fno-builtin", "-pthread"], &input, &output);
        output
    }

    /// What `glebe trace --json` says of a file.
    fn trace(&self, file: &str) -> Value {
        let output = self.glebe(&["trace", "--json", file]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

const HEADERS: &str = "#define _GNU_SOURCE\n#include <errno.h>\n#include <malloc.h>\n#include <pthread.h>\n\
    #include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <sys/wait.h>\n\
    #include <unistd.h>";

fn compile(mut compiler: std::process::Command, flags: &[&str], input: &Path, output: &Path) {
    let run = compiler.args(flags).arg("-o").arg(output).arg(input).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} in {value}"))
}

/// Allocations of a size class in a trace.
fn of_size(trace: &Value, from: u64) -> u64 {
    let rows = trace["sizes"].as_array().unwrap();
    rows.iter().find(|row| row["from_bytes"] == from).map_or(0, |row| number(row, "allocations"))
}

/// Each function once, on sizes that nothing else has.
const FAMILY: &str = "int main(void) {
    free(malloc(3 << 20));
    free(calloc(3, 1 << 21));
    void *p = realloc(realloc(NULL, 3 << 22), 3 << 23);
    p = reallocarray(p, 3, 1 << 24);
    free(p);
    free(aligned_alloc(4096, 3 << 20));
    free(memalign(1 << 16, 3 << 20));
    free(valloc(3 << 20));
    if (posix_memalign(&p, 64, 3 << 20)) return 1;
    free(p);
    errno = 0;
    if (malloc((size_t)1 << 62) || errno != ENOMEM) return 2;
    if (realloc(malloc(100), 0)) return 3;
    free(NULL);
    return 0; }";

#[test]
fn every_function_is_recorded() {
    let place = Place::new();
    place.cc("family", FAMILY);
    for with in [&[][..], &["--with", "glebe"]] {
        let words = [&["record", "-o", "t"][..], with, &["--", "./family"]].concat();
        place.glebe(&words).assert().success().stderr(contains("bytes a call"));
        let trace = place.trace("t");
        let kinds = ["malloc", "calloc", "aligned", "realloc", "free", "failed"];
        let counts = kinds.map(|kind| number(&trace, kind));
        assert!(counts[0] >= 2 && counts[1] >= 1, "{counts:?}");
        assert_eq!((counts[2], counts[3], counts[5]), (4, 2, 1), "{counts:?}");
        assert_eq!(of_size(&trace, 3 << 20), 5);
        assert_eq!(number(&trace["peak"], "bytes") >> 20, 48);
        assert_eq!(trace["alignments"], serde_json::json!([[6, 1], [12, 2], [16, 1]]));
        assert!(!place.path("t.raw").exists() && !place.path("t.d").exists());
    }
}

#[test]
fn c_plus_plus_is_recorded_once_on_any_allocator() {
    let place = Place::new();
    let source = "#include <new>\n#include <vector>\nstruct alignas(128) A { char c[3 << 20]; };\n\
        A *volatile a; char *volatile b;\n\
        int main() { for (int i = 0; i < 7; i++) { a = new A; delete a; b = new char[5 << 20]; delete[] b; }\n\
        try { std::vector<char> v(1ul << 62); } catch (const std::exception &) { return 6; } }";
    fs::write(place.path("p.cc"), source).unwrap();
    let flags = ["-std=c++17", "-O1", "-fno-builtin"];
    compile(std::process::Command::new("c++"), &flags, &place.path("p.cc"), &place.path("p"));
    for with in ["system", "glebe"] {
        place.glebe(&["record", "-o", "t", "--with", with, "--", "./p"]).assert().code(6);
        let trace = place.trace("t");
        assert_eq!((of_size(&trace, 3 << 20), of_size(&trace, 4 << 20)), (7, 7), "{with}");
        assert!(number(&trace["end"], "bytes") < 1 << 20, "{with}: the deletes are there");
    }
}

/// 1000 blocks, and then the end of the process in the given way.
fn thousand(end: &str) -> String {
    format!(
        "int main(void) {{ for (int i = 0; i < 1000; i++) if (!malloc(3000)) return 1; {end} }}"
    )
}

#[test]
fn nothing_is_lost_when_a_signal_kills_the_program() {
    use std::os::unix::process::ExitStatusExt;
    let place = Place::new();
    place.cc("dies", &thousand("raise(SIGKILL);"));
    let output = place.glebe(&["record", "-o", "t", "--", "./dies"]).output().unwrap();
    assert_eq!(output.status.signal(), Some(9));
    assert_eq!(of_size(&place.trace("t"), 2048), 1000);
}

#[test]
fn a_program_may_close_and_reuse_every_descriptor() {
    let place = Place::new();
    let source = "int main(void) {
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < 8000; i++) free(malloc(3000));
            for (int fd = 0; fd < 1024; fd++) close(fd);
            char *name = round ? \"own2\" : \"own1\";
            FILE *file = fopen(name, \"w\");
            if (!file) return 1;
            for (int fd = fileno(file) + 1; fd < 1024; fd++) dup2(fileno(file), fd);
            fputs(\"mine\", file);
            fflush(file);
        }
        return 0; }";
    place.cc("closes", source);
    place.glebe(&["record", "-o", "t", "--", "./closes"]).assert().success();
    assert_eq!(of_size(&place.trace("t"), 2048), 24_000);
    assert_eq!(fs::read(place.path("own1")).unwrap(), b"mine");
    assert_eq!(fs::read(place.path("own2")).unwrap(), b"mine");
}

#[test]
fn a_full_disk_ends_the_recording_only() {
    let place = Place::new();
    place.cc(
        "much",
        "int main(void) { for (int i = 0; i < 100000; i++) free(malloc(3000)); puts(\"done\"); }",
    );
    // A limit on file sizes, in KiB or halves: room for a few blocks of the recording.
    let script = "ulimit -f 512; exec ./much";
    let assert = place.glebe(&["record", "-o", "t", "--", "sh", "-c", script]).assert();
    assert.success().stdout("done\n").stderr(contains("ended early: File too large"));
    let some = of_size(&place.trace("t"), 2048);
    assert!(some > 1000 && some < 100_000, "{some}");
}

#[test]
fn a_place_that_cannot_be_written_is_refused_before_the_program_starts() {
    let place = Place::new();
    fs::write(place.path("file"), "").unwrap();
    for output in ["no/such/t", "file/t", "."] {
        let assert = place.glebe(&["record", "-o", output, "--", "touch", "started"]).assert();
        assert.code(125).stderr(contains(output));
    }
    fs::create_dir(place.path("t.raw")).unwrap();
    let assert = place.glebe(&["record", "-o", "t", "--", "touch", "started"]).assert();
    assert.code(125).stderr(contains("t.raw").and(contains("another recording")));
    assert!(!place.path("started").exists());
}

#[test]
fn a_program_that_cannot_start_leaves_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    fs::write(place.path("lost"), "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(place.path("lost"), fs::Permissions::from_mode(0o755)).unwrap();
    place.glebe(&["record", "-o", "t", "--", "./lost"]).assert().code(127);
    place.glebe(&["record", "-o", "t", "--", "true"]).assert().success();
}

/// What is at the output is replaced by a whole trace, and by nothing else.
#[test]
fn only_a_file_is_replaced() {
    let place = Place::new();
    let allocates = place.cc("allocates", "int main(void) { return malloc(1000) == NULL; }");
    let silent = place.cc("silent", "int main(void) { return 7; }");
    let (allocates, silent) = (allocates.to_str().unwrap(), silent.to_str().unwrap());

    let pipe = place.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for output in ["pipe", "/dev/null"] {
        let mut record = place.glebe(&["record", "-o", output, "--", allocates]);
        record.assert().code(125).stderr(contains("is a device or a pipe"));
    }
    assert!(!fs::metadata(&pipe).unwrap().is_file());

    std::os::unix::fs::symlink("real", place.path("link")).unwrap();
    for _ in 0..2 {
        place.glebe(&["record", "-o", "link", "--", allocates]).assert().success();
        assert!(place.path("link").is_symlink());
        assert!(number(&place.trace("real"), "malloc") > 0);
    }

    fs::write(place.path("notes"), "precious").unwrap();
    for output in ["notes", "new"] {
        let mut record = place.glebe(&["record", "-o", output, "--", silent]);
        record.assert().code(7).stderr(contains("note: nothing was recorded"));
    }
    assert_eq!(fs::read_to_string(place.path("notes")).unwrap(), "precious");
    assert!(!place.path("new").exists());

    fs::write(place.path("new.d"), "").unwrap();
    let mut record = place.glebe(&["record", "-o", "new", "--", allocates]);
    record.assert().code(125).stderr(contains("new.d: is no directory"));
}

#[test]
fn children_have_traces_of_their_own() {
    let place = Place::new();
    let source = "int main(int count, char **words) {
        void *block = malloc(3000);
        if (count > 1) { for (int i = 0; i < 500; i++) malloc(9 << 10); return 0; }
        if (fork() == 0) { free(block); for (int i = 0; i < 100; i++) malloc(5 << 10); _exit(0); }
        wait(NULL);
        if (fork() == 0) { execl(words[0], words[0], \"again\", NULL); _exit(1); }
        wait(NULL);
        return 0; }";
    place.cc("forks", source);
    let assert = place.glebe(&["record", "-o", "t", "--", "./forks"]).assert();
    assert.success().stderr(contains("./forks again").and(contains("2 other processes")));
    assert_eq!(of_size(&place.trace("t"), 8192), 500, "the one with the most calls");
    let mut others: Vec<_> =
        fs::read_dir(place.path("t.d")).unwrap().map(|e| e.unwrap().path()).collect();
    others.sort_by_key(|path| of_size(&place.trace(path.to_str().unwrap()), 4096));
    let [parent, child] = &others[..] else { panic!("{others:?}") };
    let child = place.trace(child.to_str().unwrap());
    assert_eq!((of_size(&child, 4096), number(&child["totals"], "unknown_frees")), (100, 1));
    assert_eq!(of_size(&place.trace(parent.to_str().unwrap()), 4096), 0);
}

/// Two threads that allocate, and two that free what the others allocated.
const THREADS: &str = "#define N 5000
    static void *_Atomic box[2][64];
    static void *gives(void *row) { void *_Atomic *mine = row;
        for (int i = 0; i < N; i++) { void *block = malloc(100 + i % 1000);
            while (mine[i % 64]) ; mine[i % 64] = block; }
        return NULL; }
    static void *takes(void *row) { void *_Atomic *mine = row;
        for (int i = 0; i < N; i++) { void *block; while (!(block = mine[i % 64])) ;
            mine[i % 64] = NULL; free(block); }
        return NULL; }
    int main(void) { pthread_t t[4];
        for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, i < 2 ? gives : takes, box[i % 2]);
        for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
        return 0; }";

#[test]
fn frees_of_other_threads_are_recorded_and_replayed() {
    let place = Place::new();
    place.cc("threads", THREADS);
    place.glebe(&["record", "-o", "t", "--", "./threads"]).assert().success();
    let trace = place.trace("t");
    let threads = trace["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 5);
    let of_others: u64 = threads.iter().map(|thread| number(thread, "frees_of_others")).sum();
    assert!((10_000..10_010).contains(&of_others), "{of_others}");
    assert_eq!(number(&trace["totals"], "unknown_frees"), 0, "the threads' order is right");

    let output = place
        .glebe(&["replay", "-n", "1", "--json", "--only", "system,glebe", "t"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let runs: Vec<Value> = output
        .stdout
        .split(|b| *b == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    assert_eq!(runs.len(), 2);
    assert!(runs.iter().all(|run| number(run, "peak_rss_bytes") > 500 << 10), "{runs:?}");
}

#[test]
fn a_replays_peak_is_that_of_the_blocks() {
    let place = Place::new();
    // 64 MB in 400,000 blocks: the replayer's own table would add 3.2 MB.
    place
        .cc("blocks", "int main(void) { for (int i = 0; i < 400000; i++) malloc(160); return 0; }");
    place.glebe(&["record", "-q", "-o", "t", "--", "./blocks"]).assert().success().stderr("");
    let json = ["replay", "-n", "1", "--only", "glebe", "--json", "t"];
    let output = place.glebe(&json).output().unwrap();
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    let peak = number(&run, "peak_rss_bytes");
    assert!((64_000_000..67_000_000).contains(&peak), "{peak}");
}

#[test]
fn a_daemon_keeps_its_recording() {
    let place = Place::new();
    let source = "int main(void) { int end[2]; if (pipe(end)) return 1;
        if (fork() == 0) { close(end[0]); malloc(3000); write(end[1], \"x\", 1); close(1); close(2); pause(); }
        char c; close(end[1]); return read(end[0], &c, 1) == 1 ? 0 : 2; }";
    place.cc("daemon", source);
    let assert = place.glebe(&["record", "-o", "t", "--", "./daemon"]).assert().success();
    assert.stderr(contains("still runs; its recording stays in t.raw"));
    let left = fs::read_dir(place.path("t.raw")).unwrap().next().unwrap().unwrap();
    let name = left.file_name().into_string().unwrap();
    let process = name.split('-').next().unwrap();
    std::process::Command::new("kill").args(["-KILL", process]).status().unwrap();
    assert_eq!(of_size(&place.trace(left.path().to_str().unwrap()), 2048), 1);
}

#[test]
fn an_anonymous_trace_has_no_words() {
    let place = Place::new();
    let secret = ["--", "sh", "-c", "true secret-word"];
    place.glebe(&[&["record", "-o", "t"][..], &secret].concat()).assert().success();
    assert!(place.trace("t").to_string().contains("secret-word"), "positive control");
    place.glebe(&["trace", "--anonymous", "-o", "u", "t"]).assert().success();
    fs::remove_file(place.path("t")).unwrap();
    place.glebe(&[&["record", "--anonymous", "-o", "t"][..], &secret].concat()).assert().success();
    for file in ["t", "u"] {
        let about = &place.trace(file)["about"];
        assert_eq!(*about, serde_json::json!({"anonymous": true}), "{file}");
    }
}

#[test]
fn what_is_no_trace_is_refused_in_a_line() {
    let place = Place::new();
    fs::write(place.path("empty"), "").unwrap();
    fs::write(place.path("text"), "no trace of anything").unwrap();
    fs::write(place.path("cut"), b"GLBTRACE\x01\0\0\0").unwrap();
    for command in ["trace", "replay"] {
        for (file, says) in [
            ("none", "none: No such file"),
            ("empty", "empty is no trace"),
            ("text", "text is no trace"),
            ("cut", "cut: truncated"),
            (".", "directory"),
        ] {
            let assert = place.glebe(&[command, file]).assert().code(125).stdout("");
            assert.stderr(
                contains(says).and(predicate::function(|text: &str| text.lines().count() == 1)),
            );
        }
    }
}

#[test]
fn a_recording_without_its_end_can_be_read() {
    let place = Place::new();
    // The program ends glebe, its parent, so nothing makes the trace.
    place.cc("orphan", &thousand("kill(getppid(), SIGKILL); puts(\"on\"); return 0;"));
    let _ = place.glebe(&["record", "-o", "t", "--", "./orphan"]).output();
    let raw = fs::read_dir(place.path("t.raw")).unwrap().next().unwrap().unwrap().path();
    let raw = raw.to_str().unwrap();
    assert_eq!(of_size(&place.trace(raw), 2048), 1000);
    place.glebe(&["trace", "-o", "made", "--svg", "p.svg", raw]).assert().success();
    assert_eq!(of_size(&place.trace("made"), 2048), 1000);
    assert!(fs::read_to_string(place.path("p.svg")).unwrap().starts_with("<svg"));
}

/// Of two threads, each sleeps half a second between its calls. Replays take no time for it, unless they are to.
#[test]
fn a_paced_replay_takes_the_recorded_time() {
    let place = Place::new();
    // A thread's clock is read every 16 calls.
    let source = "static void calls(void) { for (int i = 0; i < 40; i++) free(malloc(3000)); }
        static void *sleeps(void *x) { calls(); usleep(500000); calls(); return x; }
        int main(void) { pthread_t other; pthread_create(&other, NULL, sleeps, NULL); sleeps(NULL);
        return pthread_join(other, NULL); }";
    place.cc("sleeps", source);
    place.glebe(&["record", "-q", "-o", "t", "--", "./sleeps"]).assert().success();
    let wall_s = |option: &[&str]| {
        let words = ["replay", "-q", "-n", "1", "--only", "system", "--json"];
        let output = place.glebe(&[&words, option, &["t"]].concat()).output().unwrap();
        let run: Value = serde_json::from_slice(&output.stdout).unwrap();
        run["wall_s"].as_f64().unwrap()
    };
    let (plain, paced) = (wall_s(&[]), wall_s(&["--pace"]));
    assert!(paced > 0.45 && plain < paced, "{plain} {paced}");
}

/// Its plan is as large as the trace, and in a folder for temporary files.
#[test]
fn a_replay_that_is_killed_leaves_no_plan() {
    let place = Place::new();
    let program = place.cc("thousand", &thousand(""));
    place.glebe(&["record", "-q", "-o", "t", "--", program.to_str().unwrap()]).assert().success();
    let temporary = place.path("tmp");
    fs::create_dir(&temporary).unwrap();
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("glebe"));
    command.env("XDG_CACHE_HOME", place.path("cache")).env("TMPDIR", &temporary);
    command.args(["replay", "-n", "10000", "--only", "system", "t"]).current_dir(place.dir.path());
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut command = command.spawn().unwrap();
    let files = || fs::read_dir(&temporary).unwrap().flatten().map(|entry| entry.path());
    let has_begun = || files().any(|folder| folder.join("report").exists()); // made after the plan
    wait_until("no replay began", has_begun);
    command.kill().unwrap();
    command.wait().unwrap();
    wait_until("the plan stays", || files().next().is_none());
}
