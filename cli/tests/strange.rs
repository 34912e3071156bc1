//! Processes, programs and places that give a command little or nothing: those of other users, those that end or have
//! ended, those that close what is not theirs, full disks, damaged files. Each time a command says one clear line,
//! keeps what can be kept, and leaves the program's output and exit status alone. With `--json` there is an object, or
//! an exit status that is not 0.
#![cfg(target_os = "linux")]

mod common;

use common::{cc, command_of, home, wait_until, with_environment, Running};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Allocates, and then does what the first word says. Without a word it returns 5.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void *kept[3000];
__attribute__((noinline)) static void *keeps(void) { void *p = malloc(4000); memset(p, 1, 4000); return p; }
__attribute__((noinline)) static void *childs(void) { void *p = malloc(4000); memset(p, 1, 4000); return p; }
static void *waits(void *first)
{
    pthread_join(*(pthread_t *)first, NULL);
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    if (!strcmp(word, "closes")) {
        if (syscall(SYS_close_range, 3, ~0u, 0))
            for (int i = 3; i < 4096; i++)
                close(i);
        int own = open("own", O_RDWR | O_CREAT | O_TRUNC, 0600);
        for (int i = own + 1; i < 1024; i++)
            dup2(own, i);
        if (write(own, "mine", 4) != 4)
            return 1;
    }
    for (int i = 0; i < 3000; i++)
        kept[i] = keeps();
    if (!strcmp(word, "forks") && fork() == 0) {
        for (int i = 0; i < 3000; i++)
            kept[i] = childs();
        exit(0);
    }
    if (!strcmp(word, "forks"))
        wait(NULL);
    if (!strcmp(word, "execs")) {
        puts("first");
        fflush(stdout);
        execl(argv[0], argv[0], "forks", (char *)NULL);
    }
    static pthread_t first, second;
    first = pthread_self();
    if (!strcmp(word, "leaves") && pthread_create(&second, NULL, waits, &first) == 0)
        pthread_exit(NULL);
    if (!strcmp(word, "hides"))
        prctl(PR_SET_DUMPABLE, 0);
    if (!strcmp(word, "fills"))
        while (dup(1) >= 0)
            continue;
    if (!strcmp(word, "killed"))
        raise(SIGKILL);
    if (!strcmp(word, "at once"))
        _exit(argc - 2);
    int odd = strcmp(word, "odd") ? -1 : open("\xff\xfe", O_RDWR | O_CREAT, 0600);
    if (odd >= 0 && (ftruncate(odd, 4096) || prctl(PR_SET_NAME, "cut off: \xe6\x97")
            || mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, odd, 0) == MAP_FAILED))
        return 1;
    if (!strcmp(word, "zeros")) {
        volatile char *at = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise((void *)at, 64 << 20, MADV_HUGEPAGE);
        for (int i = 0; i < 64 << 20; i += 4096)
            argc += at[i];
    }
    if (odd >= 0 || !strcmp(word, "waits") || !strcmp(word, "zeros")) {
        puts("ready");
        fflush(stdout);
        for (;;)
            pause();
    }
    puts("done");
    return 5;
}
"#;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The one line on standard error; nothing is on standard output.
fn line(output: &Output, code: i32, about: &str) -> String {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{about}: {said}");
    assert_eq!(text(&output.stdout), "", "{about}");
    assert_eq!(said.lines().count(), 1, "{about}: {said}");
    assert!(said.starts_with("glebe: "), "{about}: {said}");
    said
}

/// The JSON object that is the last line of standard output.
fn object(output: &Output, about: &str) -> Value {
    let out = text(&output.stdout);
    let last = out.lines().last().unwrap_or_else(|| panic!("{about}: {}", text(&output.stderr)));
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{about}: {error}: {out}"))
}

fn program(home: &TempDir) -> Option<String> {
    let path = cc(home.path(), "program", PROGRAM, &["-O1", "-g", "-fno-builtin", "-pthread"])?;
    Some(path.to_str().unwrap().into())
}

/// The command in the folder, with that folder for temporary files.
fn run(home: &TempDir, words: &[&str]) -> Output {
    let mut command = command_of(home, words);
    command.current_dir(home.path()).env("TMPDIR", home.path()).output().unwrap()
}

/// The number of a user without rights.
const NOBODY: u32 = 65534;

/// The command as that user, in `folder`, if we can become one. It has a cache of its own.
fn as_nobody(home: &TempDir, folder: &Path, words: &[&str]) -> Option<Output> {
    let cache = home.path().join("nobody");
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    if fs::create_dir(&cache).is_ok() {
        std::os::unix::fs::chown(&cache, Some(NOBODY), Some(NOBODY)).ok()?;
    }
    let (command, mut other) = (command_of(home, words), with_environment(home, "setpriv"));
    let ids = ["--reuid", "--regid"].map(|option| format!("{option}={NOBODY}"));
    other.args(ids).arg("--clear-groups").arg(command.get_program()).args(command.get_args());
    let output = other.current_dir(folder).env("XDG_CACHE_HOME", cache).output().ok()?;
    // The command itself may lie where only root comes.
    let cannot = output.status.code() == Some(126) && text(&output.stderr).starts_with("setpriv");
    (!cannot).then_some(output)
}

/// Each command that looks at a process, with what it needs of a place for its file.
fn lookers<'a>(pid: &'a str, file: &'a str) -> Vec<Vec<&'a str>> {
    let json = |command| vec![command, "--json", pid];
    let profile = vec!["profile", "--json", "-o", file, "--seconds", "1", pid];
    [profile, vec!["top", pid]]
        .into_iter()
        .chain(["explain", "leaks", "map", "stats"].map(json))
        .collect()
}

#[test]
fn a_process_of_another_user_is_told() {
    let home = home();
    let Some(program) = program(&home) else { return };
    let running = Running::start(&home, &[&program, "waits"]);
    let place = home.path().join("place");
    fs::create_dir(&place).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
    for pid in ["1", &running.pid()] {
        for words in lookers(pid, "p.pb.gz") {
            let Some(output) = as_nobody(&home, &place, &words) else { return };
            let said = line(&output, 125, &words.join(" "));
            assert!(said.contains(&format!("no permission to read process {pid}")), "{said}");
            assert!(said.contains("the rights of a debugger"), "{said}");
        }
    }
    assert_eq!(fs::read_dir(place).unwrap().count(), 0);
}

/// As gpg-agent and ssh-agent do. Root may read it all the same.
#[test]
fn a_process_that_lets_nobody_read_it_is_told() {
    let home = home();
    let Some(program) = program(&home) else { return };
    for words in [&["explain", "--json", "--at-exit"][..], &["leaks", "--json"]] {
        let words = [words, &["--", &program, "hides"]].concat();
        let Some(output) = as_nobody(&home, home.path(), &words) else { return };
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(5), "done\n"), "{said}");
        assert!(said.contains("no permission to read process"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// The kernel cuts a long name of a thread, which leaves a part of a character; names of files are any bytes.
#[test]
fn names_need_not_be_utf_8() {
    let home = home();
    let Some(program) = program(&home) else { return };
    let script = format!("cd '{}' && exec '{program}' odd", home.path().display());
    let running = Running::start(&home, &["sh", "-c", &script]);
    let pid = running.pid();
    for words in lookers(&pid, "p.pb.gz").iter().filter(|words| words[0] != "top") {
        let output = run(&home, words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", text(&output.stderr));
        object(&output, words[0]);
    }
}

/// The main thread called pthread_exit. The kernel then shows nothing of the process's memory.
#[test]
fn a_process_without_its_main_thread_is_told() {
    let home = home();
    let Some(program) = program(&home) else { return };
    let running = Running::start(&home, &[&program, "leaves"]);
    let pid = running.pid();
    for words in lookers(&pid, "p.pb.gz") {
        let said = line(&run(&home, &words), 125, &words.join(" "));
        assert!(said.contains(&format!("the main thread of process {pid} has ended")), "{said}");
    }
}

/// Memory that was only read is the kernel's page of zeros, small or huge, and is not resident.
#[test]
fn pages_of_zeros_are_not_resident() {
    let home = home();
    let Some(program) = program(&home) else { return };
    let running = Running::start(&home, &[&program, "zeros"]);
    let explained = object(&run(&home, &["explain", "--json", &running.pid()]), "explain");
    let [sum, kernel] =
        ["rss_bytes", "kernel_rss_bytes"].map(|name| explained[name].as_u64().unwrap());
    assert!(kernel < 60 << 20 && sum.abs_diff(kernel) <= kernel / 100, "{explained}");
}

#[test]
fn what_has_no_memory_is_told() {
    let home = home();
    let mut ended = Command::new("true").spawn().unwrap();
    let stat = format!("/proc/{}/stat", ended.id());
    wait_until("it does not end", || fs::read_to_string(&stat).unwrap().contains(") Z "));
    let of_kernel = |pid: &u32| {
        let words = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        words.contains("(kthreadd)") // no container shows one
    };
    let kernel = (2..10).find(of_kernel).map(|pid| pid.to_string());
    let zombie = ended.id().to_string();
    let gone = "2147483647".to_string();
    for (pid, says) in [
        (Some(gone), "there is no process"),
        (Some(zombie), "has ended"),
        (kernel, "kernel thread"),
    ] {
        for words in lookers(pid.iter().next().map_or("", |pid| pid), "p.pb.gz")
            .iter()
            .filter(|_| pid.is_some())
        {
            let said = line(&run(&home, words), 125, &words.join(" "));
            assert!(said.contains(says), "{words:?}: {said}");
        }
    }
    ended.wait().unwrap();
}

/// A process may end at any time while it is read: there is an object, or a line.
#[test]
fn a_process_that_ends_meanwhile_is_told_or_shown() {
    let home = home();
    let Some(program) = program(&home) else { return };
    let (mut shown, mut told) = (0, 0);
    for round in 0..30 {
        for command in ["explain", "leaks", "map", "stats"] {
            let mut running = Running::start(&home, &[&program, "waits"]);
            let pid = running.pid();
            let mut looks = command_of(&home, &[command, "--json", &pid]);
            let looks = looks.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            std::thread::sleep(std::time::Duration::from_micros(500 * round));
            running.0.kill().unwrap();
            running.0.wait().unwrap();
            let output = looks.wait_with_output().unwrap();
            if output.status.success() {
                object(&output, command);
                shown += 1;
            } else {
                let said = line(&output, 125, command);
                let one =
                    ["there is no process", "has ended"].iter().any(|words| said.contains(words));
                assert!(one, "{command}: {said}");
                told += 1;
            }
        }
    }
    assert!(told > 0, "no process ended too early: {shown} were shown");
}

/// Each command says what the file is not, and names it; a shell is not asked to run what is no text.
#[test]
fn a_file_that_is_neither_program_nor_profile_is_told() {
    let home = home();
    let binary = b"\x7fELF\x02\x01\0 and no more".as_slice();
    for (name, bytes, mode) in [
        ("notes.txt", b"words\n".as_slice(), 0o644),
        ("cut", binary, 0o755),
        ("picture", b"GIF89a\0\x01", 0o755),
        ("empty", b"", 0o755),
        ("odd.pb.gz", b"GIF89a\0\x01", 0o644),
    ] {
        fs::write(home.path().join(name), bytes).unwrap();
        fs::set_permissions(home.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let cannot = "permission denied (is it executable?)";
    let format = "is in a format that this system does not execute";
    let silent = "printed no statistics";
    for (words, code, says) in [
        ("profile --json ./notes.txt", 126, "./notes.txt is no profile, and no program either: "),
        ("profile --json -- ./notes.txt", 126, cannot),
        ("profile --json notes.txt", 127, "notes.txt is no profile, and no program either: "),
        ("profile --json ./", 126, "./ is no profile, and no program either: is a directory"),
        ("profile --json ./none", 127, "./none: no such file"),
        ("profile --json odd.pb.gz", 125, "odd.pb.gz is no profile: it is not in pprof's format"),
        ("profile --json ./cut", 126, format),
        ("profile --json ./picture", 126, "./picture: is in a format"),
        ("profile --json ./empty", 125, "./empty wrote no profile: "),
        ("explain --json -- ./notes.txt", 126, cannot),
        ("explain --json -- ./cut", 126, format),
        ("explain --json -- ./empty", 125, "./empty did not stop at its exit"),
        ("explain --json --from notes.txt", 125, "notes.txt is no snapshot"),
        ("leaks --json -- ./picture", 126, format),
        ("leaks --json -- ./empty", 125, "./empty did not stop at its exit"),
        ("stats --json -- ./picture", 126, format),
        ("stats --json -- ./empty", 125, silent),
        ("trace --json notes.txt", 125, "notes.txt is no trace of glebe"),
        ("record -o t -- ./picture", 126, format),
        ("run ./cut", 126, format),
    ] {
        let said = line(&run(&home, &words.split(' ').collect::<Vec<_>>()), code, words);
        assert!(said.contains(says), "{words}: {said}");
    }
    // These take a PID; the command line is wrong.
    fs::write(home.path().join("snap"), "glebe-snapshot 1\nend\n").unwrap();
    for (words, says) in [
        (
            "explain --json ./notes.txt",
            "./notes.txt is a file, and no PID; a program goes behind --",
        ),
        ("explain --json snap", "snap is a file, and no PID; a snapshot goes behind --from"),
        ("leaks --json notes.txt", "notes.txt is a file, and no PID; a program goes behind --"),
        ("map --json notes.txt", "notes.txt is a file, and no PID\n"),
    ] {
        let output = run(&home, &words.split(' ').collect::<Vec<_>>());
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(2), ""), "{words}");
        assert!(said.contains(says), "{words}: {said}");
    }
    // As a control, a script without #! is still a shell's.
    fs::write(home.path().join("script"), "exit 3\n").unwrap();
    fs::set_permissions(home.path().join("script"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(run(&home, &["run", "./script"]).status.code(), Some(3));
}

/// A program may end sooner than a look takes. Then its exit is shown; if it has none, the command fails.
#[test]
fn a_program_that_ends_at_once_has_an_object_or_a_line() {
    let home = home();
    let Some(program) = program(&home) else { return };
    for command in ["explain", "leaks", "profile"] {
        for _ in 0..10 {
            let output = run(&home, &[command, "--json", "--", "true"]);
            assert_eq!(output.status.code(), Some(0), "{command}: {}", text(&output.stderr));
            object(&output, command);
        }
    }
    let moments = ["at its exit", "at its peak"].map(Value::from);
    let found = object(&run(&home, &["explain", "--json", "--", "true"]), "explain");
    assert!(moments.contains(&found["moment"]), "{found}");

    let at_exit = ["explain", "--at-exit"];
    for words in [&at_exit[..], &["leaks"], &["profile", "-q"]] {
        for (how, code) in [(&["at once"][..], 125), (&["at once", "x"], 1)] {
            let words = [words, &["--json", "--", &program], how].concat();
            let said = line(&run(&home, &words), code, &words.join(" "));
            assert!(said.contains("by a signal or") && said.contains("_exit"), "{said}");
        }
        let words = [words, &["--json", "--", &program, "killed"]].concat();
        let output = run(&home, &words);
        assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{words:?}");
        assert_eq!(text(&output.stderr).lines().count(), 1, "{words:?}: {}", text(&output.stderr));
    }
    // It may be seen before it ends, and has an object then.
    for how in [&["at once"][..], &["at once", "x"]] {
        let output = run(&home, &[&["explain", "--json", "--", &program], how].concat());
        match output.stdout.is_empty() {
            true => _ = line(&output, if how.len() == 1 { 125 } else { 1 }, "explain"),
            false => {
                object(&output, "explain");
                assert_eq!(output.status.code(), Some(how.len() as i32 - 1));
            }
        }
    }
}

/// Only root can make a program that is another user's.
#[test]
fn a_set_user_id_program_is_told() {
    let home = home();
    let Some(program) = program(&home) else { return };
    let set = home.path().join("set");
    fs::copy(&program, &set).unwrap();
    if std::os::unix::fs::chown(&set, Some(NOBODY), Some(NOBODY)).is_err() {
        return;
    }
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&set, fs::Permissions::from_mode(0o4755)).unwrap();
    let set = set.to_str().unwrap();
    // A file system may ignore the bit, and then nothing is refused.
    let preloads = Command::new(set).env("LD_PRELOAD", "/nowhere/none.so").output().unwrap();
    if !preloads.stderr.is_empty() {
        return;
    }
    for words in [
        &["run"][..],
        &["explain", "--json"],
        &["leaks", "--json"],
        &["profile", "--json"],
        &["record", "-o", "t"],
    ] {
        let said = line(&run(&home, &[words, &["--", set]].concat()), 125, &words.join(" "));
        assert!(
            said.contains("(it is setuid), so the dynamic loader ignores LD_PRELOAD"),
            "{said}"
        );
        let control = run(&home, &[words, &["--", &program]].concat());
        assert_eq!(control.status.code(), Some(5), "{words:?}: {}", text(&control.stderr));
    }
    // As a child it runs without the library, and says nothing.
    let script = format!("{set}; echo $?; exit 3");
    let output = run(&home, &["record", "-q", "-o", "u", "--", "sh", "-c", &script]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(3), "done\n5\n".into()));
    assert!(home.path().join("u").is_file() && !home.path().join("u.d").exists());
}

/// As a daemon does with what it has inherited; and then the numbers are its own.
#[test]
fn a_program_that_closes_all_descriptors_loses_nothing() {
    let home = home();
    let Some(program) = program(&home) else { return };
    let snapshot = format!("snap@{}M", 8);
    for words in [
        &["explain", "--json"][..],
        &["explain", "--json", "--at-exit"],
        &["leaks", "--json"],
        &["profile", "--json", "--live"],
        &["record", "-o", "t"],
        &["run", "--mean", "4K", "--snapshot", &snapshot],
        &["run", "--stats=json"],
    ] {
        let output = run(&home, &[words, &["--", &program, "closes"]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{words:?}: {said}");
        assert!(text(&output.stdout).starts_with("done\n"), "{words:?}: {output:?}");
        assert_eq!(fs::read(home.path().join("own")).unwrap(), b"mine", "{words:?}");
        if words.contains(&"--stats=json") {
            let used = said.lines().find(|line| line.starts_with('{')).expect(&said);
            let used: Value = serde_json::from_str(used).unwrap();
            assert!(used["peak_used_bytes"].as_u64() > Some(3000 * 4000), "{used}");
        } else if words.contains(&"--json") {
            let found = object(&output, words[0]);
            let bytes = ["rss_bytes", "live_bytes", "total_bytes"].map(|name| found[name].as_u64());
            let bytes = bytes.into_iter().flatten().next().unwrap();
            assert!(bytes > 8 << 20, "{words:?}: {found}");
        }
    }
    let found = object(&run(&home, &["trace", "--json", "t"]), "trace");
    assert!(found["malloc"].as_u64() >= Some(3000), "{}", found["malloc"]);
    let found = object(&run(&home, &["explain", "--json", "--from", "snap"]), "snapshot");
    assert!(found["rss_bytes"].as_u64() > Some(8 << 20), "{found}");
    let words = ["profile", "--json", "--live", "-o", "s.pb.gz", "--from", "snap"];
    let found = object(&run(&home, &words), "profile of the snapshot");
    assert!(found["functions"].to_string().contains("keeps"), "{found}");
}

/// The program executes itself, and that one forks.
#[test]
fn exec_and_fork_have_profiles_of_their_own() {
    let home = home();
    let Some(program) = program(&home) else { return };
    let words =
        ["profile", "--json", "--children", "--live", "-o", "p.pb.gz", "--", &program, "execs"];
    let output = run(&home, &words);
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("first\ndone\n"), "{}", text(&output.stdout));
    let of = |functions: &Value, name: &str| -> u64 {
        let all = functions.as_array().unwrap().iter();
        let all = all.filter(|row| row["function"].as_str().unwrap().starts_with(name));
        all.map(|row| row["bytes"].as_u64().unwrap()).sum()
    };
    let own = object(&output, "profile");
    assert!(of(&own["functions"], "keeps") > 4 << 20, "{own}");
    assert_eq!(of(&own["functions"], "childs"), 0, "{own}");
    let files = fs::read_dir(home.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().into_string().unwrap());
    let others: Vec<_> = files.filter(|name| name.starts_with("p.") && name != "p.pb.gz").collect();
    let childs = others.iter().filter(|name| {
        let shown = run(&home, &["profile", "--json", name]);
        of(&object(&shown, name)["functions"], "childs") > 4 << 20
    });
    assert_eq!(childs.count(), 1, "{others:?}");
}

/// A program that leaves no descriptor for the file at its exit.
#[test]
fn the_error_of_a_file_has_a_name() {
    let home = home();
    let Some(program) = program(&home) else { return };
    let output = run(&home, &["profile", "--", &program, "fills"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(
        said.contains("glebe: profile: cannot write ")
            && said.contains(": error 24 (Too many open files)\n"),
        "{said}"
    );
}

/// A folder in which a user without rights can write nothing. The program runs only if nothing is lost by that.
#[test]
fn a_read_only_folder_is_told() {
    let home = home();
    let Some(program) = program(&home) else { return };
    let folder = home.path().join("folder");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("old.svg"), "precious").unwrap();
    for words in [
        &["profile", "--json"][..],
        &["profile", "-o", "/dev/null", "--svg", "f.svg"],
        &["record", "-o", "t"],
        &["explain", "--json", "--svg", "e.svg"],
        &["compare", "--only", "system", "--runs=1", "--svg", "c.svg"],
    ] {
        let words = [words, &["--", &program]].concat();
        let Some(output) = as_nobody(&home, &folder, &words) else { return };
        let said = line(&output, 125, &words.join(" "));
        assert!(said.contains("Permission denied"), "{said}");
    }
    // A snapshot is for an emergency, and a report too: the program goes on.
    for option in ["--snapshot=snap@1M", "--report=reports"] {
        let words = ["run", "-q", option, "--", &program];
        let output = as_nobody(&home, &folder, &words).unwrap();
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(5), "done\n"), "{said}");
        assert!(
            option.contains("report") || said.lines().count() == 1 && said.contains("cannot write"),
            "{said}"
        );
    }
    // A file that is read-only stays, in a folder that is not.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(folder.join("old.svg"), fs::Permissions::from_mode(0o444)).unwrap();
    run(&home, &["record", "-q", "-o", "t", "--", &program]);
    fs::set_permissions(home.path().join("t"), fs::Permissions::from_mode(0o644)).unwrap();
    let words = ["trace", "--svg", "old.svg", "../t"];
    let output = as_nobody(&home, &folder, &words).unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("old.svg: Permission denied"), "{output:?}");
    assert_eq!(fs::read(folder.join("old.svg")).unwrap(), b"precious");
}

/// The command on a disk without room, with another one for temporary files. Standard error ends with the files on it.
fn on_full_disk(home: &TempDir, words: &[&str]) -> Option<Output> {
    let disk = home.path().join("disk");
    let _ = fs::create_dir(&disk);
    let command = command_of(home, words);
    let script =
        "mount -t tmpfs -o size=4k none disk && cd disk && head -c 4096 /dev/zero >full || exit 99
        \"$0\" \"$@\"; code=$?; rm full; ls -A >&2; exit $code";
    let mut shell = with_environment(home, "unshare");
    shell.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    shell.arg(command.get_program()).args(command.get_args());
    let output = shell.current_dir(home.path()).env("TMPDIR", home.path()).output().ok()?;
    let none = text(&output.stderr).starts_with("unshare") || output.status.code() == Some(99);
    (!none).then_some(output)
}

#[test]
fn a_full_disk_loses_nothing_that_could_be_kept() {
    let home = home();
    let Some(program) = program(&home) else { return };
    let full = |words: &[&str]| on_full_disk(&home, &[words, &["--", &program]].concat());
    let words = ["profile", "--json", "--live"];
    let Some(output) = full(&words) else {
        eprintln!("skipped: no mount namespaces here");
        return;
    };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("cannot write program.pb.gz: No space left on device"), "{said}");
    assert!(object(&output, "profile")["total_bytes"].as_u64() > Some(4 << 20), "{said}");
    let kept =
        said.split("; ").nth(1).and_then(|rest| rest.split(" has all of it").next()).expect(&said);
    let again = run(&home, &["profile", "--json", "--live", "-o", "again.pb.gz", "--from", kept]);
    assert_eq!(object(&again, "again")["total_bytes"], object(&output, "profile")["total_bytes"]);

    let output = full(&["explain", "--json", "--svg", "e.svg"]).unwrap();
    assert!(object(&output, "explain")["rss_bytes"].as_u64() > Some(8 << 20));
    assert!(text(&output.stderr).ends_with("cannot write e.svg: No space left on device\n"));
    assert_eq!(output.status.code(), Some(5), "{output:?}");

    let output = full(&["record", "-o", "t"]).unwrap();
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(5), "done\n"), "{said}");
    assert!(
        said.contains("/t.raw/") && said.contains(": error 28 (No space left on device)\n"),
        "{said}"
    );

    let output = full(&["run", "-q", "--snapshot", "snap@8M"]).unwrap();
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(5), "done\n"), "{said}");
    assert!(
        said.lines().count() == 1 && said.contains("snapshot"),
        "one line, and no file: {said}"
    );

    run(&home, &["record", "-q", "-o", "t", "--", &program]);
    let trace = home.path().join("t");
    let words = ["trace", "-o", "u", trace.to_str().unwrap()];
    let output = on_full_disk(&home, &words).unwrap();
    assert_eq!(text(&output.stderr), "glebe: u: No space left on device\n", "and no file");
}

#[test]
fn a_full_standard_output_is_an_error_of_each() {
    let home = home();
    let Some(program) = program(&home) else { return };
    run(&home, &["record", "-q", "-o", "t", "--", &program]);
    let running = Running::start(&home, &[&program, "waits"]);
    let pid = running.pid();
    let mut all = lookers(&pid, "p.pb.gz");
    all.extend([
        vec!["trace", "--json", "t"],
        vec!["explain", &pid],
        vec!["leaks", &pid],
        vec!["map", &pid],
    ]);
    for words in all {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = command_of(&home, &words);
        let output = command.current_dir(home.path()).stdout(full).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{words:?}: {said}");
        assert!(
            said.ends_with("glebe: standard output: No space left on device\n"),
            "{words:?}: {said}"
        );
    }
    assert!(home.path().join("p.pb.gz").is_file(), "the profile is kept");
}

/// What the command cannot write is its own failure. So its status is 125 only where the program's was 0.
#[test]
fn a_program_keeps_its_status_where_the_command_cannot_write() {
    let home = home();
    let Some(program) = program(&home) else { return };
    for (words, full) in [
        (&["explain", "--json", "--svg", "/dev/full"][..], "cannot write /dev/full"),
        (&["profile", "-o", "/dev/full"], "cannot write /dev/full"),
        (&["profile", "-o", "/dev/null", "--svg", "/dev/full"], "cannot write /dev/full"),
        (&["explain", "--json", "--at-exit"], "standard output"),
        (&["leaks"], "standard output"),
        (&["profile", "-q", "--json", "-o", "/dev/null"], "standard output"),
    ] {
        for (program, code) in [(&*program, 5), ("true", 125)] {
            let words = [words, &["--", program]].concat();
            let mut command = command_of(&home, &words);
            command.current_dir(home.path());
            if full == "standard output" {
                command.stdout(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
            }
            let output = command.output().unwrap();
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
            let line = format!("glebe: {full}: No space left on device");
            assert_eq!(said.matches(&line).count(), 1, "{words:?}: {said}");
        }
    }
    // The folder of the trace is gone when the program has ended.
    for (end, code) in [("exit 5", 5), ("exit 0", 125)] {
        fs::create_dir(home.path().join("place")).unwrap();
        let script = format!("rm -r place; {end}");
        let output = run(&home, &["record", "-o", "place/t", "--", "sh", "-c", &script]);
        let said = line(&output, code, end);
        assert!(said.contains("place/t.raw: No such file or directory"), "{said}");
    }
}

/// Real files, cut off or with other bytes in them: a command answers in seconds, with an object or one line.
#[test]
fn damaged_files_are_told() {
    let home = home();
    let Some(program) = program(&home) else { return };
    let words = ["run", "-q", "--mean", "4K", "--snapshot", "snap@8M", "--", &program];
    assert!(run(&home, &words).status.code() == Some(5) && home.path().join("snap").is_file());
    run(&home, &["profile", "-q", "--mean", "4K", "-o", "p.pb.gz", "--", &program]);
    run(&home, &["record", "-q", "-o", "t", "--", &program]);
    let mut random = 1u64;
    let mut below = |most: usize| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as usize % most
    };
    for (file, words) in [
        ("snap", &["explain", "--json", "--from"][..]),
        ("snap", &["profile", "--json", "-o", "o.pb.gz", "--from"]),
        ("p.pb.gz", &["profile", "--json"]),
        ("t", &["trace", "--json"]),
    ] {
        let whole = fs::read(home.path().join(file)).unwrap();
        let name = format!("bad-{file}");
        for round in 0..25 {
            let mut bytes = whole.clone();
            match round % 3 {
                0 => bytes.truncate(below(whole.len())),
                1 => (0..8)
                    .for_each(|_| bytes[below(whole.len())] = [0, 0xff, b'9', b'\n'][below(4)]),
                _ => (0..200).for_each(|_| bytes[below(whole.len())] ^= 1 << below(8)),
            }
            fs::write(home.path().join(&name), bytes).unwrap();
            let words = [words, &[&name]].concat();
            let mut command = with_environment(&home, "timeout");
            let glebe = command_of(&home, &words);
            command.arg("60").arg(glebe.get_program()).args(glebe.get_args());
            let output = command.current_dir(home.path()).output().unwrap();
            match output.status.code() {
                Some(0) => _ = object(&output, &words.join(" ")),
                _ => _ = line(&output, 125, &format!("{words:?} {round}")),
            }
        }
    }
}

/// A shell ends by _exit and so writes no profile: that of the program behind it is shown.
#[test]
fn a_program_behind_a_shell_is_profiled() {
    let home = home();
    let Some(program) = program(&home) else { return };
    let script = format!("'{program}' forks; exit 3");
    let output =
        run(&home, &["profile", "--mean", "4K", "-o", "p.pb.gz", "--", "sh", "-c", &script]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("this is the profile of its child") && said.contains("keeps"), "{said}");
    assert!(home.path().join("p.pb.gz").exists(), "{said}");
}
