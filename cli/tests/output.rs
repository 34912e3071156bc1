//! Where the command writes: on a full disk, and in a home that is not there.
#![cfg(target_os = "linux")]

mod common;

use common::{cc, command_of, home, with_environment};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const ALLOCATES: &str = "#include <stdlib.h>\n\
    int main(void) { for (int i = 0; i < 100000; i++) free(malloc(3000)); return 0; }";

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn comparison(home: &TempDir, words: &[&str]) -> Vec<String> {
    let mut all = vec!["compare", "--only", "system", "--runs", "1", "--quiet"];
    all.extend(words);
    all.extend(["--", "true"]);
    let command = command_of(home, &all);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_str().unwrap().to_owned()).collect()
}

/// No file may get a byte. A limit on sizes does what a full disk does, and takes no root.
#[test]
fn a_full_disk_leaves_no_file() {
    let home = home();
    let [picture, runs] = ["picture.svg", "runs.jsonl"].map(|name| home.path().join(name));
    let (svg, json) =
        (format!("--svg={}", picture.display()), format!("--json={}", runs.display()));
    for (option, file) in [(&svg, &picture), (&json, &runs)] {
        let words = comparison(&home, &[option]);
        let on_full = || {
            let mut shell = with_environment(&home, "sh");
            shell.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"]).args(&words);
            shell.output().unwrap()
        };
        let output = on_full();
        let line = format!("{}: File too large", file.display());
        assert_eq!(output.status.code(), Some(125), "{}", told(&output));
        assert!(told(&output).contains(&line), "{}", told(&output));
        assert!(!file.exists(), "{}", file.display());
        // Control: with room there is a file. It does not stay as half of another.
        let status = with_environment(&home, &words[0]).args(&words[1..]).output().unwrap().status;
        assert!(status.success() && fs::metadata(file).unwrap().len() > 100);
        assert_eq!(on_full().status.code(), Some(125));
        assert!(!file.exists());
    }
}

/// An empty trace would look like a result. The program runs on, whatever its recording does.
#[test]
fn a_recording_on_a_full_disk_leaves_no_trace() {
    let home = home();
    let program = cc(home.path(), "allocates", ALLOCATES, &[]).unwrap();
    let disk = home.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let lay = |size: &str, rest: &str| {
        format!("mount -t tmpfs -o size={size} none {} && {rest}", disk.display())
    };
    let inside = |script: &str| {
        let mut shell = with_environment(&home, "unshare");
        shell.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).output().unwrap()
    };
    if !inside(&lay("64k", "true")).status.success() {
        eprintln!("skipped: no mount namespaces here");
        return;
    }
    let record = command_of(&home, &[]).get_program().to_owned();
    let (record, disk) = (record.to_str().unwrap(), disk.to_str().unwrap());
    let try_in = |size| {
        let line = format!("{record} record -o {disk}/t -- {}", program.display());
        let script = lay(size, &format!("{line}; echo code $?; ls -A {disk}"));
        let output = inside(&script);
        (String::from_utf8_lossy(&output.stdout).into_owned(), told(&output))
    };
    let (said, why) = try_in("8k");
    assert_eq!(said, "code 125\n", "{why}");
    assert!(why.contains("No space left on device"), "{why}");
    let (said, why) = try_in("128k"); // for a part of the recording, and no trace of it
    assert_eq!(said, "code 125\nt.raw\n", "{why}");
    assert!(why.contains("stays, since it could not be made into a trace"), "{why}");
    let (said, why) = try_in("64m");
    assert_eq!(said, "code 0\nt\n", "{why}");
}

/// The command makes no home, and runs the program all the same.
#[test]
fn a_home_that_is_not_there_is_not_made() {
    let place = home();
    let run = |home: &Path| {
        let words = command_of(&place, &["run", "-v", "--", "true"]);
        let mut command = Command::new(words.get_program());
        command.args(words.get_args()).env("HOME", home).env_remove("XDG_CACHE_HOME");
        let output = command.env_remove("LD_PRELOAD").output().unwrap();
        assert!(
            output.status.success() && told(&output).contains("was active"),
            "{}",
            told(&output)
        );
    };
    let absent = place.path().join("no/home");
    run(&absent);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    fs::create_dir_all(&absent).unwrap(); // control
    run(&absent);
    assert!(absent.join(".cache/glebe").is_dir());
}

/// A program whose picture could not be drawn does not run.
#[test]
fn pictures_that_cannot_be_written_stop_the_command_first() {
    let home = home();
    for (command, option) in
        [("explain", "--svg"), ("profile", "--svg"), ("profile", "--folded"), ("compare", "--svg")]
    {
        let mark = home.path().join("ran");
        let words = [command, option, "/nonexistent/x", "--", "touch", mark.to_str().unwrap()];
        let output = command_of(&home, &words).current_dir(home.path()).output().unwrap();
        let line = "glebe: cannot write /nonexistent/x: No such file or directory\n";
        assert_eq!(
            (output.status.code(), told(&output)),
            (Some(125), line.to_string()),
            "{command}"
        );
        assert!(!mark.exists(), "{command} {option}");
        let words = [command, option, "x", "--", "touch", mark.to_str().unwrap()];
        command_of(&home, &words).current_dir(home.path()).output().unwrap();
        assert!(mark.exists(), "control: {command} {option}");
        fs::remove_file(mark).unwrap();
    }
}
