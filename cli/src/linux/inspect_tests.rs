//! Every decision of `inspect`, on made-up facts; and the reader, on programs that cc makes here.

use super::*;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

fn library() -> Facts {
    Facts { machine: elf::EM_X86_64, bits: 64, ..Facts::default() }
}

fn dynamic() -> Facts {
    Facts { loader: Some("/lib64/ld-linux-x86-64.so.2".into()), ..library() }
}

fn refusal(facts: Facts) -> Refusal {
    judge("prog", &facts, &library()).refusal.expect("a refusal")
}

fn notes(facts: Facts) -> String {
    let verdict = judge("prog", &facts, &library());
    assert_eq!(verdict.refusal, None);
    verdict.notes.join("\n")
}

#[test]
fn the_embedded_libraries_are_read() {
    use crate::system::library::{EMBEDDED, STAND_INS};
    for library in EMBEDDED.iter().chain(&STAND_INS) {
        let facts = parse(library.bytes).expect(library.name);
        assert_eq!(u32::from(facts.bits), usize::BITS, "{}", library.name);
        // A collector's library leaves malloc alone.
        assert_eq!(facts.exports_malloc, library.name != "libgc.so.1", "{}", library.name);
        assert!(facts.glebe, "{}", library.name);
    }
}

#[test]
fn an_ordinary_program_just_runs() {
    assert_eq!(judge("prog", &dynamic(), &library()), Verdict::default());
}

#[test]
fn static_programs_are_refused() {
    let refused = refusal(library());
    assert!(refused.text.contains("statically linked") && !refused.forceable, "{}", refused.text);
    assert!(refused.text.contains("Instead, "));
    let go = refusal(Facts { go: true, ..library() });
    assert!(go.text.contains("Go's runtime"), "{}", go.text);
}

#[test]
fn the_loader_itself_counts_as_dynamic() {
    assert_eq!(notes(Facts { is_loader: true, ..library() }), "");
}

#[test]
fn other_machines_are_refused_and_named() {
    let refused = refusal(Facts { machine: elf::EM_AARCH64, ..dynamic() });
    assert!(refused.text.contains("AArch64") && refused.text.contains("x86-64"));
    let refused = refusal(Facts { machine: elf::EM_386, bits: 32, ..dynamic() });
    assert!(refused.text.contains("32-bit x86") && !refused.forceable, "{}", refused.text);
    assert!(refusal(Facts { bits: 32, ..dynamic() }).text.contains("x32"));
}

#[test]
fn privileged_programs_are_refused() {
    let refused = refusal(Facts { privileged: Some("it is setuid"), ..dynamic() });
    assert!(refused.text.contains("it is setuid") && !refused.forceable);
}

#[test]
fn a_malloc_of_its_own_is_refused_unless_forced() {
    let own = Facts { exports_malloc: true, inner: Some("jemalloc"), ..dynamic() };
    let refused = refusal(own);
    assert!(refused.text.contains("(jemalloc)") && refused.forceable, "{}", refused.text);
    let asan = refusal(Facts { needed: vec!["libasan.so.8".into()], ..dynamic() });
    assert!(asan.text.contains("sanitizer") && asan.forceable);
}

#[test]
fn a_glebe_inside_is_used_as_it_is() {
    for facts in [Facts { exports_malloc: true, ..dynamic() }, library()] {
        let verdict = judge("prog", &Facts { glebe: true, ..facts }, &library());
        assert_eq!((verdict.way, verdict.refusal), (Way::Inside, None));
        assert!(verdict.notes[0].contains("has glebe linked in"), "{:?}", verdict.notes);
    }
    let beside = judge("prog", &Facts { glebe: true, ..dynamic() }, &library());
    assert_eq!((beside.way, beside.refusal), (Way::Under, None));
    assert!(beside.notes[0].contains("beside its malloc"), "{:?}", beside.notes);
}

#[test]
fn a_program_on_mimalloc_gets_glebe_under_that_name() {
    for (needed, way) in [
        ("libmimalloc.so.2", Way::StandIn("libmimalloc.so.2")),
        ("libmimalloc.so.2.0", Way::StandIn("libmimalloc.so.2")),
        ("libmimalloc-secure.so.3", Way::StandIn("libmimalloc.so.3")),
        ("libmimalloc.so.1", Way::Under),
        ("libmimalloc.so.20", Way::Under),
        ("libmimallocator.so.2", Way::Under),
    ] {
        let facts = Facts { needed: vec!["libc.so.6".into(), needed.into()], ..dynamic() };
        let verdict = judge("prog", &facts, &library());
        assert_eq!((verdict.way, verdict.refusal), (way, None), "{needed}");
        assert_eq!(verdict.notes.is_empty(), way != Way::Under, "{needed}");
    }
}

#[test]
fn the_rest_gets_a_note() {
    let needed = vec!["libc.so.6".into(), "libjemalloc.so.2".into()];
    assert!(notes(Facts { needed, ..dynamic() }).contains("linked with jemalloc"));
    assert!(notes(Facts { inner: Some("mimalloc"), ..dynamic() }).contains("carries mimalloc"));
    assert!(notes(Facts { go: true, ..dynamic() }).contains("cgo"));
}

#[test]
fn programs_of_another_c_library_are_refused() {
    let musl = || Facts { loader: Some("/lib/ld-musl-x86_64.so.1".into()), ..library() };
    let refused = refusal(musl());
    assert!(refused.text.contains("uses musl") && refused.forceable, "{}", refused.text);
    for needed in ["libc.musl-x86_64.so.1", "libc.so"] {
        let library = Facts { needed: vec![needed.into()], ..library() };
        assert_eq!(judge("prog", &musl(), &library).refusal, None);
        let refused = judge("prog", &dynamic(), &library).refusal.expect("a refusal");
        assert!(refused.text.contains("uses glibc"), "{}", refused.text);
    }
}

/// Compiles a program; None where there is no compiler (the facts above still are tested).
fn compiled(dir: &TempDir, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let (input, output) = (dir.path().join("a.c"), dir.path().join("a.out"));
    fs::write(&input, source).unwrap();
    let status = Command::new("cc").args(flags).arg("-o").arg(&output).arg(&input).output();
    status.ok()?.status.success().then_some(output)
}

#[test]
fn programs_of_this_machine_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let plain = "int main(void) { return 0; }";
    let Some(path) = compiled(&dir, plain, &[]) else { return };
    let facts = facts_of(&path).unwrap();
    assert!(facts.loader.as_deref().is_some_and(|loader| loader.contains("ld-")), "{facts:?}");
    assert!(facts.needed.iter().any(|name| name.starts_with("libc.so")), "{facts:?}");
    assert!(!facts.exports_malloc && !facts.go && facts.inner.is_none() && !facts.is_loader);
    // This command carries glebe, but as a constant.
    assert!(!facts.glebe && !facts_of(&std::env::current_exe().unwrap()).unwrap().glebe);

    // The loader of that very program is a loader.
    let loader = facts_of(Path::new(&facts.loader.unwrap())).unwrap();
    assert!(loader.loader.is_none() && loader.is_loader);

    for flag in ["-static", "-static-pie"] {
        if let Some(path) = compiled(&dir, plain, &[flag]) {
            let facts = facts_of(&path).unwrap();
            assert!(facts.loader.is_none() && !facts.is_loader, "{flag}");
        }
    }
}

#[test]
fn own_mallocs_are_seen() {
    let dir = tempfile::tempdir().unwrap();
    let own = "#include <stddef.h>\nvoid *malloc(size_t n) { (void)n; return 0; }\n\
               int main(void) { return 0; }";
    let Some(path) = compiled(&dir, own, &["-rdynamic"]) else { return };
    assert!(facts_of(&path).unwrap().exports_malloc);

    let uses = "#include <stdlib.h>\nvoid *(*p)(size_t) = malloc; int main(void) { return !p(1); }";
    let path = compiled(&dir, uses, &["-no-pie"]).unwrap();
    assert!(
        !facts_of(&path).unwrap().exports_malloc,
        "an undefined malloc is the loader's to find"
    );

    let inner = "int mi_malloc(int n) { return n; } int main(void) { return mi_malloc(0); }";
    let path = compiled(&dir, inner, &[]).unwrap();
    assert_eq!(facts_of(&path).unwrap().inner, Some("mimalloc"));
}

#[test]
fn what_cannot_be_read_is_not_held_against_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF\x02\x01\x01 and then nonsense"] {
        fs::write(&path, bytes).unwrap();
        assert_eq!(facts_of(&path), None, "{bytes:?}");
    }
    assert_eq!(facts_of(Path::new("/no/such/file")), None);
}

#[test]
fn setuid_is_about_changing_the_user() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "x").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
    assert_eq!(privilege_of(&path), None, "our own setuid file changes nothing");
    // As root, give it to another user: then it does.
    if std::os::unix::fs::chown(&path, Some(65534), None).is_ok() {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
        if mount_flags(&path) & libc::ST_NOSUID == 0 {
            assert_eq!(privilege_of(&path), Some("it is setuid"));
        }
    }
}
