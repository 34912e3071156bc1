//! Embeds the four builds of the C library, its stand-ins for mimalloc's and bdwgc's, the recorder and the replayer in
//! the command, so that one file works anywhere.
//!
//! The shared objects come from the first of these sources:
//!
//!   1. `GLEBE_LIBRARY_DIR` names a directory with `libglebe.so`, `libglebe-secure.so`, `libglebe-audit.so`,
//!      `libglebe-safe.so`, `mimalloc/`, `libgc/` and `record/` (the Makefile sets it to `build/`). They are used as
//!      they are.
//!   2. The crate `glebe` contains the C source and passes its path on (`DEP_GLEBE_SOURCE`, from its `links` key). This
//!      script compiles `src/glebe.c`, `override/*.c` and, for the stand-ins, `bindings/mimalloc/*.c` or
//!      `bindings/libgc/*.c`, once for each library, and `record/*.c`.
//!
//! The result is `embedded.rs` in `OUT_DIR`: one row for each library, with its bytes and their
//! SHA-256, which becomes part of the file's name at run time (see `src/linux/library.rs`).
//!
//! On Windows the library is a file beside the command. This script then compiles only `override/windows/inject.c`,
//! which loads the library into a process (the library contains it too).

use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Name on the command line, name of the file, flags for the C compiler.
const BUILDS: [(&str, &str, &[&str]); 4] = [
    ("glebe", "libglebe.so", &[]),
    ("glebe-secure", "libglebe-secure.so", &["-DGB_SECURE=1"]),
    ("glebe-audit", "libglebe-audit.so", &["-DGB_AUDIT=1"]),
    ("glebe-safe", "libglebe-safe.so", &["-DGB_SAFE=1"]),
];

/// The same; the name is the soname, which CMake gives them too.
const STAND_INS: [(&str, &str, &[&str]); 3] = [
    ("libgc.so.1", "libgc/libgc.so.1", &["-DGLEBE_API=__attribute__((visibility(\"hidden\")))"]),
    ("libmimalloc.so.2", "mimalloc/libmimalloc.so.2", &["-DMIMALLOC_LINE=2"]),
    ("libmimalloc.so.3", "mimalloc/libmimalloc.so.3", &["-DMIMALLOC_LINE=3"]),
];

/// The recorder and the replayer; the name is the file's.
const TOOLS: [(&str, &str, &[&str]); 2] = [
    (
        "libglebe-record.so",
        "record/libglebe-record.so",
        &["-shared", "-fvisibility=hidden", "-funwind-tables"],
    ),
    ("glebe-replayer", "record/glebe-replayer", &[]),
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=GLEBE_VERSION_TEXT={}", version_text());
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "windows") {
        return inject();
    }
    println!("cargo:rerun-if-env-changed=GLEBE_LIBRARY_DIR");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let given = env::var_os("GLEBE_LIBRARY_DIR").filter(|dir| !dir.is_empty());

    let mut text = String::new();
    for (table, libraries) in
        [("EMBEDDED", &BUILDS[..]), ("STAND_INS", &STAND_INS[..]), ("TOOLS", &TOOLS[..])]
    {
        let wide = env::var("CARGO_CFG_TARGET_POINTER_WIDTH").is_ok_and(|bits| bits == "64");
        let libraries: Vec<_> =
            libraries.iter().filter(|(name, ..)| wide || *name != "glebe-safe").collect();
        writeln!(text, "pub static {table}: [Embedded; {}] = [", libraries.len()).expect(STRING);
        let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
        for some in libraries.chunks(jobs) {
            let (given, out) = (given.as_deref().map(Path::new), &out);
            text.extend(std::thread::scope(|scope| {
                let rows: Vec<_> = some
                    .iter()
                    .map(|(name, file, flags)| {
                        scope.spawn(move || row(name, file, flags, given, out))
                    })
                    .collect();
                rows.into_iter().map(|row| row.join().expect("it says why")).collect::<Vec<_>>()
            }));
        }
        text += "];\n";
    }
    fs::write(out.join("embedded.rs"), text).expect("OUT_DIR is writable");
}

const STRING: &str = "writing to a string";

/// What `glebe --version` prints: the version, the commit in a package (see `src/base/config.h`), and what the command
/// was built for.
fn version_text() -> String {
    let folder = sources().join("src/base");
    println!("cargo:rerun-if-changed={}", folder.display());
    let variable = |name| env::var(name).unwrap_or_default();
    let line = fs::read_to_string(folder.join("glebe_commit.h")).unwrap_or_default();
    let commit = line.split('"').nth(1).map_or(String::new(), |name| format!("commit {name}, "));
    format!("{} ({commit}{})", variable("CARGO_PKG_VERSION"), variable("TARGET"))
}

/// One library as Rust source.
fn row(name: &str, file: &str, flags: &[&str], given: Option<&Path>, out: &Path) -> String {
    let library = match given {
        Some(dir) => {
            let path = dir.join(file);
            println!("cargo:rerun-if-changed={}", path.display());
            path
        }
        None if file.starts_with("record/") => {
            tool(&sources(), &out.join(Path::new(file).file_name().expect(file)), flags)
        }
        None => {
            compile(&sources(), name, &out.join(Path::new(file).file_name().expect(file)), flags)
        }
    };
    let library = fs::canonicalize(&library)
        .unwrap_or_else(|e| panic!("{} (GLEBE_LIBRARY_DIR?): {e}", library.display()));
    let bytes =
        fs::read(&library).unwrap_or_else(|e| panic!("cannot read {}: {e}", library.display()));
    let mut hash = String::new();
    for byte in Sha256::digest(&bytes) {
        write!(hash, "{byte:02x}").expect(STRING);
    }
    format!(
        "    Embedded {{ name: {name:?}, sha256: {hash:?}, bytes: include_bytes!({library:?}) }},\n"
    )
}

/// Compiles the code that loads the library into a process, for Windows.
fn inject() {
    let source = sources().join("override/windows");
    println!("cargo:rerun-if-changed={}", source.display());
    cc::Build::new().file(source.join("inject.c")).std("c11").compile("glebe_inject");
}

/// The directory that holds `src/glebe.c`.
fn sources() -> PathBuf {
    PathBuf::from(env::var_os("DEP_GLEBE_SOURCE").expect("the crate glebe passes its path on"))
}

/// One shared object from the unity file and the override.
fn compile(root: &Path, name: &str, output: &Path, flags: &[&str]) -> PathBuf {
    for dir in ["src", "include", "override", "bindings/mimalloc", "bindings/libgc"] {
        println!("cargo:rerun-if-changed={}", root.join(dir).display());
    }
    let dirs: &[&str] = match name {
        "libgc.so.1" => &["bindings/libgc"],
        _ if name.starts_with("libmimalloc") => &["override", "bindings/mimalloc"],
        _ => &["override"],
    };
    let mut files = vec![root.join("src/glebe.c")];
    for dir in dirs {
        let dir = fs::read_dir(root.join(dir)).into_iter().flatten();
        let paths = dir.filter_map(|entry| entry.ok().map(|e| e.path()));
        files.extend(paths.filter(|path| path.extension().is_some_and(|ext| ext == "c")));
    }
    files[1..].sort();

    let mut command = compiler();
    command.args(["-DNDEBUG", "-shared", "-DGB_STAYS_LOADED=1", "-Wl,-z,nodelete"]);
    command.args(["-Wl,-z,relro,-z,now,-z,noseparate-code", "-Wl,--hash-style=gnu"]);
    if dirs != ["override"] {
        command.args(["-funwind-tables", "-fexceptions", &format!("-Wl,-soname,{name}")]);
    }
    command.args(flags).arg("-I").arg(root.join("include")).arg("-I").arg(root);
    command.arg("-o").arg(output).args(&files);
    run(command);
    output.to_path_buf()
}

/// The recorder, a shared object, or the replayer, a program, from record/.
fn tool(root: &Path, output: &Path, flags: &[&str]) -> PathBuf {
    let source = root.join("record");
    println!("cargo:rerun-if-changed={}", source.display());
    let files: &[&str] = match flags {
        [] => &["replay.c"],
        _ => &["record.c", "stream.c", "operators.c"],
    };
    let mut command = compiler();
    command.args(flags).arg("-o").arg(output);
    command.args(files.iter().map(|file| source.join(file))).arg("-ldl");
    run(command);
    output.to_path_buf()
}

/// The C compiler with what all of them take. Where the command itself is not optimized, neither is much of C.
fn compiler() -> std::process::Command {
    let level = if env::var("OPT_LEVEL").is_ok_and(|level| level == "0") { 1 } else { 2 };
    let mut command = cc::Build::new().opt_level(level).debug(false).get_compiler().to_command();
    command.args(["-std=c11", &format!("-O{level}"), "-fPIC", "-pthread"]);
    command
}

fn run(mut command: std::process::Command) {
    let status = command.status().unwrap_or_else(|e| {
        eprintln!(
            "error: {:?} cannot be started ({e}): install a C compiler (Debian: gcc), set CC to one, or set \
             GLEBE_LIBRARY_DIR to a directory that holds libglebe.so, libglebe-secure.so, libglebe-audit.so, \
             libglebe-safe.so, mimalloc/, libgc/ and record/",
            command.get_program()
        );
        std::process::exit(1)
    });
    assert!(status.success(), "{command:?} failed: {status}");
}
