//! `glebe run --guard --report` and `glebe report` from outside.
#![cfg(target_os = "linux")]

mod common;

use common::{cc, glebe, home};
use predicates::str::{contains, starts_with};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

const FREED: &str = "#include <stdlib.h>\n\
    __attribute__((noinline)) static char *makes(void) { return malloc(3000); }\n\
    __attribute__((noinline)) static void drops(char *p) { free(p); }\n\
    __attribute__((noinline)) static int uses(volatile char *p) { return p[8]; }\n\
    int main(void) { char *p = makes(); drops(p); return uses(p) + 1; }";

#[test]
fn a_use_after_free_has_its_functions() {
    let home = home();
    let flags = ["-g", "-O1", "-fno-builtin", "-Wno-use-after-free"];
    let Some(program) = cc(home.path(), "freed", FREED, &flags) else { return };
    let file = home.path().join("found.json");
    let mut run = glebe(&home);
    run.current_dir(home.path()).args(["run", "--guard", "1", "--report", "found.json", "--"]);
    run.arg(&program).assert().failure().stderr(contains("after free: at offset 8"));
    let text = glebe(&home).arg("report").arg(&file).assert().success();
    let text = String::from_utf8(text.get_output().stdout.clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let after = |title: &str| {
        let at = lines.iter().position(|line| *line == format!("  {title} at")).expect(title);
        lines[at + 1].trim().split(' ').next().unwrap().to_owned()
    };
    assert!(lines[0].starts_with("freed[") && lines[0].contains("]: access(0x"), "{text}");
    assert!(
        lines[1].contains(" 3008 bytes at 0x") && lines[1].ends_with(", freed; offset 8"),
        "{text}"
    );
    assert_eq!(["found", "allocated", "freed"].map(after), ["uses", "makes", "drops"], "{text}");
}

#[test]
fn functions_below_a_folder_of_any_bytes_have_names() {
    let home = home();
    let flags = ["-g", "-O1", "-fno-builtin", "-Wno-use-after-free"];
    let Some(program) = cc(home.path(), "freed", FREED, &flags) else { return };
    for name in [&b"odd \xff\xe6\x97"[..], b"two\nlines \"\\\x01", b"none \\012", b"all \xff\n"] {
        let folder = home.path().join(OsStr::from_bytes(name));
        fs::create_dir(&folder).unwrap();
        let (there, file) = (folder.join("freed"), folder.join("found.json"));
        fs::copy(&program, &there).unwrap();
        let mut run = glebe(&home);
        run.args(["run", "--guard", "1", "--report"]).arg(&file).arg("--").arg(&there);
        run.assert().failure().stderr(contains("after free: at offset 8"));
        let shown = glebe(&home).arg("report").arg(&file).assert().success().stderr("");
        shown.stdout(contains("\n  freed at\n    drops (freed.c:3)\n"));
        let object = glebe(&home).args(["report", "--json"]).arg(&file).assert().success();
        let object: Value = serde_json::from_slice(&object.get_output().stdout).unwrap();
        let modules = object["modules"].as_array().unwrap();
        let of = |path: &OsStr| modules.iter().any(|m| m["path"] == *path.to_string_lossy());
        assert!(of(there.as_os_str()), "{object}");
        let exact = std::str::from_utf8(name).is_ok();
        assert_eq!(modules.iter().all(|m| m.get("path_hex").is_none()), exact, "{object}");
    }
}

const WHOLE: &str = "{\"program\": \"p\", \"pid\": 7, \"call\": \"free\", \"address\": \"0x10\", \
    \"finding\": \"wrong\", \"found\": [], \"allocated\": [], \"freed\": [], \"modules\": []}\n";

#[test]
fn damaged_lines_are_named_and_hide_no_report() {
    let home = home();
    let file = home.path().join("torn.json");
    let (cut, long) = (&WHOLE[..40], "x".repeat(3 << 20));
    fs::write(&file, format!("{WHOLE}{cut}\n\n{WHOLE}{long}\n{WHOLE}{cut}")).unwrap();
    let mut report = glebe(&home);
    let torn = report.arg("report").arg(&file).assert().code(125);
    let torn = torn.stdout("p[7]: free(0x10): wrong\n".repeat(3));
    let told = String::from_utf8(torn.get_output().stderr.clone()).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 3, "{told}");
    for (line, number) in lines.iter().zip([2, 5, 7]) {
        assert!(line.contains(&format!("torn.json: line {number} is no report: ")), "{told}");
    }
    fs::write(&file, "x\n".repeat(5000) + WHOLE).unwrap();
    let torn = glebe(&home).arg("report").arg(&file).assert().code(125);
    let torn = torn.stderr(contains("torn.json: 4990 more lines are no reports\n"));
    assert_eq!(torn.get_output().stderr.iter().filter(|byte| **byte == b'\n').count(), 11);
    fs::write(&file, "x\n".repeat(5000)).unwrap();
    let said = "torn.json has no report, but 5000 lines of something else; line 1: expected value";
    let other = glebe(&home).arg("report").arg(&file).assert().code(125).stderr(contains(said));
    assert_eq!(other.get_output().stderr.iter().filter(|byte| **byte == b'\n').count(), 1);
    fs::write(&file, "").unwrap();
    glebe(&home).arg("report").arg(&file).assert().success().stderr(contains("has no report"));
    let none = home.path().join("none.json");
    let said = format!("glebe: {}: No such file", none.display());
    glebe(&home).arg("report").arg(&none).assert().code(125).stderr(starts_with(said));
}

#[test]
fn what_has_no_end_is_not_read() {
    let home = home();
    for device in ["/dev/zero", "/dev/urandom"] {
        let said = format!("glebe: {device} is neither a file nor a pipe\n");
        glebe(&home).args(["report", device]).assert().code(125).stderr(said);
    }
    let mut piped = glebe(&home);
    piped.args(["report", "/dev/stdin"]).write_stdin(WHOLE).assert().success();
    let fifo = home.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let file = home.path().join("hostile.json");
    let said = ["fifo+0x10", "zero+0x10", "random+0x10"];
    for (module, name) in [fifo.to_str().unwrap(), "/dev/zero", "/dev/random"].iter().zip(said) {
        let found = "\"found\": [{\"address\": \"0x20\", \"module\": 0, \"offset\": 16}]";
        let modules = format!("\"modules\": [{{\"path\": \"{module}\", \"build_id\": \"\"}}]");
        let line = WHOLE.replace("\"found\": []", found).replace("\"modules\": []", &modules);
        fs::write(&file, line).unwrap();
        let mut report = glebe(&home);
        report.timeout(std::time::Duration::from_secs(60)).arg("report").arg(&file);
        report.assert().success().stdout(contains(format!("    {name}\n"))).stderr("");
    }
}

#[test]
fn a_build_without_guards_is_refused() {
    let home = home();
    for build in ["--secure", "--safe", "--audit", "--libgc"] {
        let line = ["run", "--guard", "8M", build, "--", "true"];
        glebe(&home).args(line).assert().code(2).stderr(contains("cannot be used with"));
    }
}
