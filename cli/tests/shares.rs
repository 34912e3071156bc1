//! Manual pages and completions: the programs that read them can.
#![cfg(target_os = "linux")]

mod common;

use common::{command_of, glebe, home};
use predicates::str::contains;
use std::fs;
use std::process::{Command, Stdio};

/// What a program prints, if there is such a program.
fn run(program: &str, words: &[&str], input: &std::path::Path) -> Option<(String, String)> {
    let stdin = fs::File::open(input).unwrap();
    let mut command = Command::new(program);
    command.args(words).env("LC_ALL", "C.UTF-8").env("MANWIDTH", "100").stdin(Stdio::from(stdin));
    let output = command.output().ok()?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{output:?}");
    Some((text(&output.stdout), text(&output.stderr)))
}

#[test]
fn pages_of_all_commands_are_typeset() {
    let home = home();
    let directory = home.path().join("man1");
    glebe(&home).args(["man", "--all", directory.to_str().unwrap()]).assert().success();
    let mut names: Vec<String> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.contains(&"glebe.1".into()) && names.contains(&"glebe-profile.1".into()));
    assert!(names.len() > 10 && !names.iter().any(|name| name.contains("help")), "{names:?}");
    for name in &names {
        let page = directory.join(name);
        let source = fs::read_to_string(&page).unwrap();
        let of_this_page = |title: &str| source.contains(&format!("\n.SH {title}\n"));
        assert!(of_this_page("EXAMPLES") || name == "glebe.1", "{source}");
        assert!(!of_this_page("EXTRA"), "{source}");
        let Some((text, said)) = run("groff", &["-man", "-ww", "-Tutf8", "-P-cbou"], &page) else {
            return;
        };
        assert!(text.contains("NAME") && text.contains("SYNOPSIS"), "{name}: {text}");
        assert_eq!(said, "", "{name}");
    }
    let (text, _) =
        run("groff", &["-man", "-Tascii", "-P-cbou"], &directory.join("glebe-profile.1")).unwrap();
    assert!(text.contains("--svg") && text.contains("a heap profile"), "{text}");
}

#[test]
fn a_page_of_one_command_is_printed() {
    let home = home();
    glebe(&home).args(["man", "top"]).assert().success().stdout(contains(".TH glebe-top 1"));
    let page = glebe(&home).arg("man").assert().success().stdout(contains(".TH glebe 1"));
    let page = page.stdout(contains("\n.SH EXIT STATUS\nthe program"));
    page.stdout(contains("\n.SH DOCUMENTATION\nhttps:")).stdout(contains("\n.SH VERSION\n"));
    glebe(&home).args(["man", "nix"]).assert().code(2).stderr(contains("there is no command"));
    glebe(&home)
        .args(["man", "--all", "/dev/null/x"])
        .assert()
        .code(125)
        .stderr(contains("cannot write /dev/null/x"));
}

/// bash loads the script, and completes commands and options.
#[test]
fn bash_completes() {
    let home = home();
    let script = home.path().join("glebe.bash");
    let output = command_of(&home, &["completions", "bash"]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    fs::write(&script, output.stdout).unwrap();
    let completes = |words: &str, at: usize| {
        let line = format!(
            "set -eu; source {}; complete -p glebe; COMP_WORDS=({words}); COMP_CWORD={at}; \
             _glebe_or_program glebe \"${{COMP_WORDS[{at}]}}\" \"${{COMP_WORDS[{}]}}\"; echo \"${{COMPREPLY[*]}}\"",
            script.display(),
            at - 1
        );
        let output = Command::new("bash").args(["--norc", "-c", &line]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().last().unwrap().to_string()
    };
    assert_eq!(completes("glebe pro", 1), "profile");
    assert_eq!(completes("glebe profile --fol", 2), "--folded");
    assert_eq!(completes("glebe completions z", 2), "zsh");
    // The program, and its options, are not glebe's.
    assert!(completes("glebe run --stats -- mkfif", 4).split(' ').any(|word| word == "mkfifo"));
    assert_eq!(completes("glebe run -- ls -", 4), "");
    assert_eq!(completes("glebe run -- ls /proc/self/stat", 4).split(' ').count(), 3);
}

#[test]
fn other_shells_have_theirs() {
    let home = home();
    for (shell, begins) in [("zsh", "#compdef glebe"), ("fish", "complete -c glebe")] {
        let output = command_of(&home, &["completions", shell]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(begins) && text.contains("profile"), "{shell}: {text}");
        assert!(shell != "zsh" || text.contains("_cmdambivalent"), "a program's own words: {text}");
        let script = home.path().join(shell);
        fs::write(&script, text).unwrap();
        // `-n` reads the script and runs nothing.
        run(shell, &["-n", script.to_str().unwrap()], &script);
    }
}
