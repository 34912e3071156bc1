//! `glebe run --guard --report` and `glebe report` from outside.
#![cfg(target_os = "linux")]

mod common;

use common::{cc, glebe, home};
use predicates::str::{contains, starts_with};
use std::fs;

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
fn a_damaged_line_is_named_behind_the_reports_before_it() {
    let home = home();
    let file = home.path().join("torn.json");
    let whole = "{\"program\": \"p\", \"pid\": 7, \"call\": \"free\", \"address\": \"0x10\", \"finding\": \"wrong\", \
        \"found\": [], \"allocated\": [], \"freed\": [], \"modules\": []}";
    fs::write(&file, format!("{whole}\n{}", &whole[..40])).unwrap();
    let mut report = glebe(&home);
    let torn = report.arg("report").arg(&file).assert().code(125);
    torn.stdout("p[7]: free(0x10): wrong\n").stderr(contains("torn.json: line 2 is no report"));
    fs::write(&file, "").unwrap();
    glebe(&home).arg("report").arg(&file).assert().success().stderr(contains("has no report"));
    let none = home.path().join("none.json");
    let said = format!("glebe: {}: No such file", none.display());
    glebe(&home).arg("report").arg(&none).assert().code(125).stderr(starts_with(said));
}

#[test]
fn a_build_without_guards_is_refused() {
    let home = home();
    for build in ["--secure", "--safe", "--audit", "--libgc"] {
        let line = ["run", "--guard", "8M", build, "--", "true"];
        glebe(&home).args(line).assert().code(2).stderr(contains("cannot be used with"));
    }
}
