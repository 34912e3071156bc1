//! Programs whose file is not where its name says, or has a name that is no text: what can be read still names
//! functions, and one line says what cannot.
#![cfg(target_os = "linux")]

mod common;

use common::{cc, command_of, home, with_environment, Running};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Says "ready", and then keeps blocks from a function of its library, with pauses, until it executes sleep or ends.
/// The first word is how often it allocates, the second for how long sleep sleeps.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void *keeps(void);
static void *lost;
__attribute__((noinline)) void loses(void) { lost = malloc(5000); lost = NULL; }
int main(int argc, char **argv)
{
    puts("ready");
    fflush(stdout);
    loses();
    for (int i = 0; i < atoi(argv[1]); i++) {
        keeps();
        if (i % 64 == 0)
            usleep(1000);
    }
    if (argc > 2)
        execlp("sleep", "sleep", argv[2], (char *)NULL);
    return 3;
}
"#;
const LIBRARY: &str =
    "#include <stdlib.h>\nvoid *last; void *keeps(void) { return last = malloc(4000); }";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The program and its library in this folder.
fn made(folder: &Path) -> Option<PathBuf> {
    // Neither the compiler nor the loader cares about the bytes of a path.
    let library = cc(folder, "libkeeps.so", LIBRARY, &["-O1", "-g", "-fPIC", "-shared"])?;
    let (input, output) = (folder.join("program.c"), folder.join("program"));
    fs::write(&input, PROGRAM).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-fno-builtin", "-Wl,-rpath,$ORIGIN", "-o"]);
    cc.arg(&output).arg(&input).arg(library);
    cc.output().ok()?.status.success().then_some(output)
}

/// The command with words that may be any bytes behind `words`.
fn glebe(home: &TempDir, words: &[&str], others: &[&OsStr]) -> Output {
    let mut command = command_of(home, words);
    command.args(others).current_dir(home.path()).output().unwrap()
}

/// Starts the program on glebe, and waits until it is ready.
fn started(home: &TempDir, program: &Path, words: &[&str]) -> Running {
    let file = home.path().join("program.path");
    fs::write(&file, program.as_os_str().as_bytes()).unwrap();
    let script = format!("exec \"$(cat '{}')\" \"$@\"", file.display());
    Running::start(home, &[&["sh", "-c", &script, "sh"], words].concat())
}

#[test]
fn functions_below_a_folder_of_any_bytes_have_names() {
    for name in [&b"odd \xff\xe6\x97"[..], b"two\nlines", b"none \\012"] {
        below_a_folder(OsStr::from_bytes(name));
    }
}

fn below_a_folder(name: &OsStr) {
    let home = home();
    let folder = home.path().join(name);
    fs::create_dir(&folder).unwrap();
    let Some(program) = made(&folder) else { return };
    let named = |what: &str, found: &str| {
        assert!(found.contains("keeps") && !found.contains("libkeeps.so+"), "{what}: {found}");
    };
    let (path, often) = (program.as_os_str(), OsStr::new("3000"));
    let file = ["-q", "-o", "o.pb.gz"];
    for words in [&["profile", "--json", "--alloc"][..], &["profile", "--json", "--live"]] {
        let output = glebe(&home, &[words, &file, &["--"]].concat(), &[path, often]);
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
        named("profile", &text(&output.stdout));
    }
    let output = glebe(&home, &["leaks", "--json", "--mean", "1", "--"], &[path, often]);
    named("leaks", &text(&output.stdout));
    let output = glebe(&home, &["run", "--mean", "4K", "--snapshot", "s@8M", "--"], &[path, often]);
    assert!(home.path().join("s").is_file(), "{}", text(&output.stderr));
    let words = [&["profile", "--json", "--alloc"][..], &file, &["--from", "s"]].concat();
    named("snapshot", &text(&glebe(&home, &words, &[]).stdout));
    let running = started(&home, &program, &["1000000000"]);
    let pid = running.pid();
    let words = [&["profile", "--json", "--alloc"][..], &file, &["--seconds", "1", &pid]].concat();
    named("profile PID", &text(&glebe(&home, &words, &[]).stdout));
}

/// As an upgrade does while a program runs. Its own file may always be read; those of libraries take a capability.
#[test]
fn a_program_whose_file_was_replaced_is_read_all_the_same() {
    for replaced in [false, true] {
        let home = home();
        let Some(program) = made(home.path()) else { return };
        let running = started(&home, &program, &["1000000000"]);
        let pid = running.pid();
        for name in ["program", "libkeeps.so"] {
            let file = home.path().join(name);
            if replaced {
                fs::copy("/bin/true", home.path().join("new")).unwrap();
                fs::rename(home.path().join("new"), file).unwrap();
            } else {
                fs::remove_file(file).unwrap();
            }
        }
        let words =
            ["profile", "-q", "--alloc", "--folded", "f", "-o", "o.pb.gz", "--seconds", "1", &pid];
        let output = glebe(&home, &words, &[]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let found = fs::read_to_string(home.path().join("f")).unwrap();
        assert!(found.contains("main;"), "{found}");
        let maps = format!("/proc/{pid}/map_files");
        let of_library = fs::read_dir(maps).unwrap().flatten().find(|entry| {
            let path = fs::read_link(entry.path()).unwrap_or_default();
            path.to_string_lossy().contains("libkeeps.so")
        });
        match fs::File::open(of_library.unwrap().path()) {
            Ok(_) => {
                assert!(found.contains(";keeps") && said.lines().count() == 1, "{found}{said}")
            }
            Err(_) if replaced => assert!(said.contains("libkeeps.so has changed"), "{said}"),
            Err(_) => assert!(said.contains("libkeeps.so cannot be read any more"), "{said}"),
        }
    }
}

/// The profile is that of the program before, as far as it was read.
#[test]
fn a_program_that_executes_another_meanwhile_is_told() {
    let home = home();
    let Some(program) = made(home.path()) else { return };
    let running = started(&home, &program, &["150000", "600"]);
    let pid = running.pid();
    let words =
        ["profile", "--json", "--alloc", "-o", "o.pb.gz", "--mean", "8K", "--seconds", "60", &pid];
    let output = glebe(&home, &words, &[]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let told = format!("process {pid} (program) executed another program; this is its profile of ");
    assert!(said.contains(&told), "{said}");
    assert!(text(&output.stdout).contains("keeps"), "{output:?}");
    // As a control, nothing is amiss with the new one.
    let alive = with_environment(&home, "kill").args(["-0", &pid]).status().unwrap();
    assert!(alive.success());
}
