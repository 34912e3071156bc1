//! Compiles the C core for the feature `heap`, and passes the path of its source to build scripts of dependents
//! (`DEP_GLEBE_SOURCE`: the directory that contains `src/`, `include/` and `override/`).

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=bindings/rust/build.rs");
    println!("cargo:rustc-check-cfg=cfg(glebe_fast, glebe_threads, glebe_mmap, glebe_error)");
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo:source={root}");
    // `Bump` is inlined when optimizing for speed, but not for size.
    if matches!(env::var("OPT_LEVEL").as_deref(), Ok("1" | "2" | "3")) {
        println!("cargo:rustc-cfg=glebe_fast");
    }
    if threads() {
        println!("cargo:rustc-cfg=glebe_threads");
    }
    if mmap_known() {
        println!("cargo:rustc-cfg=glebe_mmap");
    }
    if rust_minor() >= 81 {
        println!("cargo:rustc-cfg=glebe_error"); // core has the trait Error
    }
    #[cfg(feature = "heap")]
    heap::build();
}

/// The compiler's minor version: 81 of "rustc 1.81.0 (...)"; 0 if unknown.
fn rust_minor() -> u32 {
    let rustc = env::var_os("RUSTC").expect("cargo sets it");
    let said = Command::new(rustc).arg("--version").output().map(|output| output.stdout);
    let text = String::from_utf8(said.unwrap_or_default()).unwrap_or_default();
    text.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0)
}

fn has(variable: &str, text: &str) -> bool {
    env::var(variable).is_ok_and(|value| value.contains(text))
}

/// True for WebAssembly with threads. The flags are read too, since a stable compiler does not show crates the target
/// feature.
fn threads() -> bool {
    has("TARGET", "wasm32")
        && (has("TARGET", "-threads")
            || has("CARGO_CFG_TARGET_FEATURE", "atomics")
            || has("CARGO_ENCODED_RUSTFLAGS", "+atomics"))
}

/// True if `Bump` knows the constants of `mmap`. They differ between systems and, on Linux, between processors.
fn mmap_known() -> bool {
    let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    let (os, arch) = (target("OS"), target("ARCH"));
    match target("POINTER_WIDTH").as_str() {
        "64" if target("VENDOR") == "apple" => true,
        "64" if os == "linux" || os == "android" => {
            matches!(arch.as_str(), "x86_64" | "aarch64" | "riscv64" | "loongarch64" | "s390x")
        }
        _ => os == "linux" && target("ENV") == "gnu" && arch == "x86",
    }
}

#[cfg(feature = "heap")]
mod heap {
    use super::{has, threads};
    use std::fmt::Write as _;
    use std::path::Path;
    use std::process::{exit, Command};
    use std::{env, fs};

    pub fn build() {
        let target = env::var("TARGET").expect("cargo sets it");
        let os = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
        let wasm = target.starts_with("wasm32-") && matches!(os.as_str(), "unknown" | "wasi");
        let windows = os == "windows" && target.ends_with("-gnu");
        if !wasm && !windows && !matches!(os.as_str(), "linux" | "macos") {
            fail(&format!(
                "glebe::Heap has no port for {target} yet (Linux, macOS, Windows-gnu and WebAssembly have); \
                 glebe::Bump and glebe::FreeList work there: glebe = {{ default-features = false }}"
            ));
        }
        for folder in ["src", "include"] {
            println!("cargo:rerun-if-changed={folder}");
        }
        statistics(Path::new("include/glebe.h"));

        let mut build = cc::Build::new();
        build
            .file("src/glebe.c")
            .include("include")
            .std("c11")
            .define("NDEBUG", None)
            .define("GB_COPY", Some("\" of the crate\""))
            // This copy is invisible outside the program that it is linked into. A libglebe.so in the same process,
            // preloaded or not, is a separate allocator, and neither takes the other's calls.
            .define("GLEBE_API", Some("__attribute__((visibility(\"hidden\")))"))
            .pic(!wasm && !windows)
            .warnings(false);
        if wasm {
            build.flag("-nostdlibinc"); // no C library, and not the host's
        }
        if wasm && os == "unknown" {
            build.define("GB_IS_MALLOC", "1"); // no C library's malloc shares the memory
        }
        if wasm && threads() {
            build.flag("-matomics").flag("-mbulk-memory");
        } else if wasm && has("CARGO_CFG_TARGET_FEATURE", "bulk-memory") {
            build.flag("-mbulk-memory");
        }
        // Without optimization the core would be ten times slower, too slow even for debug builds. -O1 compiles in two
        // thirds of the time that -O2 takes.
        if env::var("OPT_LEVEL").as_deref() == Ok("0") {
            build.opt_level(1);
        }
        let variable = format!("CC_{}", target.replace('-', "_"));
        let chosen = [variable.as_str(), &format!("CC_{target}"), "TARGET_CC", "CC"];
        if windows && !chosen.iter().any(|name| env::var_os(name).is_some()) {
            match clang() {
                Some(clang) => build.compiler(clang),
                None => missing(&target, "clang", &variable),
            };
        }
        let compiler = match build.try_get_compiler() {
            Ok(compiler) => compiler,
            Err(_) => missing(&target, "a C compiler", &variable),
        };
        if Command::new(compiler.path()).arg("--version").output().is_err() {
            missing(&target, &compiler.path().display().to_string(), &variable);
        }
        if let Err(error) = build.try_compile("glebe_core") {
            fail(&format!("the C core does not compile for {target}: {error}"));
        }
    }

    /// The clang to use for Windows: the core needs native thread locals, which mingw's gcc lacks.
    fn clang() -> Option<String> {
        let newest = (14..=24).rev().map(|version| format!("clang-{version}"));
        std::iter::once("clang".to_string())
            .chain(newest)
            .find(|name| Command::new(name).arg("--version").output().is_ok())
    }

    fn missing(target: &str, what: &str, variable: &str) -> ! {
        let package = match target {
            t if t.starts_with("wasm32-") => "clang".to_string(),
            t if t.ends_with("-windows-gnu") => "clang, g++-mingw-w64-x86-64-posix".to_string(),
            t if t.contains("musl") => "musl-tools".to_string(),
            t if t == env::var("HOST").unwrap_or_default() => "gcc".to_string(),
            t => format!(
                "gcc-{}",
                t.replace("-unknown", "").replace("x86_64", "x86-64").replace('_', "-")
            ),
        };
        fail(&format!(
            "{what} for {target} is not here: install one (Debian: {package}), or set {variable} to it, \
             or use glebe = {{ default-features = false }}, which has glebe::Bump and glebe::FreeList"
        ))
    }

    /// Ends the build with this line alone; a panic would print more.
    fn fail(line: &str) -> ! {
        eprintln!("error: {line}");
        exit(1)
    }

    /// Writes the struct `glebe::Stats` from the list in the header.
    fn statistics(header: &Path) {
        let text = fs::read_to_string(header).expect("include/glebe.h is in the package");
        let list = text.split("#define GLEBE_STATS(X)").nth(1).expect("the header has the list");
        let mut fields = String::new();
        for line in list.lines().skip(1) {
            let Some(inner) = line.trim().trim_end_matches('\\').trim().strip_prefix("X(") else {
                break;
            };
            let (name, rest) = inner.split_once(", ").expect("X(name, unit, meaning)");
            let parts: Vec<&str> = rest.split('"').collect();
            let (unit, meaning) = (parts[1], parts[3]);
            writeln!(fields, "    /// {} ({unit}).", capital(meaning))
                .expect("writing to a string");
            writeln!(fields, "    pub {name}: u64,").expect("writing to a string");
        }
        let text = format!(
            "/// The statistics of the whole process, from [`stats`](crate::stats).\n\
             #[repr(C)]\n#[non_exhaustive]\n#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]\n\
             pub struct Stats {{\n{fields}}}\n"
        );
        let out = env::var("OUT_DIR").expect("cargo sets it");
        fs::write(Path::new(&out).join("stats.rs"), text).expect("OUT_DIR is writable");
    }

    fn capital(text: &str) -> String {
        text[..1].to_uppercase() + &text[1..]
    }
}
