"""The crates as users get them from a registry: packed, unpacked outside any repository, built, run.

Cargo's output stays in build/crate/package, so that a second run compiles little."""

import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import zlib

import pytest

from printed import Document, shell

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build/crate/package"
GLEBE_VARIABLES = {"GLEBE_LIBRARY_DIR": ""}


def run(*command, cwd, env=None, fails=False):
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    environment.update({**GLEBE_VARIABLES, "CARGO_TARGET_DIR": str(BUILD), **(env or {})})
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, cwd=cwd,
                          env=environment)
    text = f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    assert (done.returncode != 0) == fails, text
    return text if fails else done.stdout


@pytest.fixture(scope="session")
def crates():
    """The two packages, unpacked: a folder with glebe/ and glebe-cli/. Its path is the same each time, so that cargo
    reuses its output, and outside the repository, since cargo would find its workspace."""
    own = f'patch.crates-io.glebe.path="{ROOT}"'  # cargo before 1.90 asks the registry for it
    run("cargo", "package", "--quiet", "--workspace", "--no-verify", "--allow-dirty", "--config", own, cwd=ROOT)
    folder = pathlib.Path(tempfile.gettempdir()) / f"glebe-crates-{os.getuid()}-{zlib.crc32(str(ROOT).encode()):08x}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    for name in ("glebe", "glebe-cli"):
        with tarfile.open(BUILD / "package" / f"{name}-{version}.crate") as archive:
            archive.extractall(folder)
        (folder / f"{name}-{version}").rename(folder / name)
    yield folder
    shutil.rmtree(folder)


def files(folder):
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def test_contents(crates):
    """The package contains the whole C core, once; no benches, tests of the C side, or peers."""
    packed = files(crates / "glebe")
    folders = ("src", "include", "override")
    core = {str(p.relative_to(ROOT)) for folder in folders for p in (ROOT / folder).rglob("*.[ch]")}
    assert core <= packed
    assert {"bindings/rust/lib.rs", "bindings/rust/build.rs", "LICENSE-MIT", "LICENSE-APACHE"} <= packed
    assert not [f for f in packed if f.split("/")[0] in {"test", "bench", "cli", "docs", "demo", "tools"}]
    assert not [p for p in crates.rglob("*") if p.is_symlink()]
    assert not [f for f in files(crates / "glebe-cli") if f.endswith((".c", ".h"))]


def consumer(folder, crates, main, features="", toolchain=()):
    """A program that depends on the unpacked crate."""
    (folder / "src").mkdir(parents=True)
    (folder / "Cargo.toml").write_text(
        '[package]\nname = "consumer"\nversion = "0.0.0"\nedition = "2021"\n'
        f'[dependencies]\nglebe = {{ path = "{crates / "glebe"}"{features} }}\n')
    (folder / "src/main.rs").write_text(main)
    return folder


HEAP = """
#[global_allocator]
static ALLOC: glebe::Heap = glebe::Heap::new();
fn main() {
    let words: Vec<String> = (0..100_000).map(|i| i.to_string()).collect();
    let heap = glebe::OwnedHeap::with_limit(1 << 20).unwrap();
    let copy = heap.alloc_str(&words[99_999]).unwrap();
    println!("{copy} {}", glebe::stats().used_bytes > 1_000_000);
}
"""
BUMP = """
#[global_allocator]
static ALLOC: glebe::Bump = glebe::Bump::INIT;
fn main() {
    let words: Vec<String> = (0..100_000).map(|i| i.to_string()).collect();
    println!("{}", words[99_999]);
}
"""


def test_heap(crates, tmp_path):
    """The default features, and a preloaded libglebe.so beside them: two allocators, each with its own blocks."""
    folder = consumer(tmp_path / "consumer", crates, HEAP)
    run("cargo", "build", "-q", cwd=folder)
    program = shutil.copy(BUILD / "debug/consumer", tmp_path / "heap")
    assert run(program, cwd=tmp_path) == "99999 true\n"
    names = subprocess.run(["nm", "-D", program], capture_output=True, text=True, check=True).stdout
    assert "glebe_malloc" not in names
    library = pathlib.Path(os.environ.get("GLEBE_LIBRARY_DIR") or ROOT / "build") / "libglebe.so"
    if not library.exists():
        pytest.skip(f"{library} is not built, so nothing can be preloaded: make lib")
    env = {**os.environ, "LD_PRELOAD": str(library), "GLEBE_VERBOSE": "1"}
    done = subprocess.run([program], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0 and done.stdout == "99999 true\n"
    assert len(re.findall(r"version [\d.]+ was active", done.stderr)) == 1, done.stderr
    assert done.stderr.count(" of the crate was active") == 1, done.stderr


def test_bump_needs_no_compiler(crates, tmp_path):
    """default-features = false builds without a C compiler and other crates; the heap is the control."""
    folder = consumer(tmp_path / "consumer", crates, BUMP, ", default-features = false")
    none = {"CC": "/nonexistent/cc", "PATH": os.environ["PATH"]}
    run("cargo", "build", "-q", cwd=folder, env=none)
    program = shutil.copy(BUILD / "debug/consumer", tmp_path / "bump")
    assert run(program, cwd=tmp_path) == "99999\n"
    assert "\n" not in run("cargo", "tree", "-e", "normal,build", "--prefix", "none", "-p", "glebe", cwd=folder).strip()
    folder = consumer(tmp_path / "control", crates, HEAP)
    none["CARGO_TARGET_DIR"] = str(tmp_path / "target")
    text = run("cargo", "build", "-q", cwd=folder, env=none, fails=True)
    lines = [line.strip() for line in text.splitlines() if "error: /nonexistent/cc for" in line]
    assert len(lines) == 1 and "set CC_" in lines[0] and "Debian: gcc" in lines[0], text


def test_hosts_without_a_port(crates, tmp_path):
    """For another system the heap fails with one line, which says that there is no port yet and names what works."""
    folder = consumer(tmp_path / "consumer", crates, BUMP)
    text = run("cargo", "build", "-q", "--target", "x86_64-unknown-freebsd", cwd=folder, fails=True)
    assert "error: glebe::Heap has no port for x86_64-unknown-freebsd yet" in text
    assert "glebe::FreeList work there: glebe = { default-features = false }" in text


@pytest.mark.more
@pytest.mark.parametrize("features", ["", ', features = ["allocator-api2"]', ", default-features = false"],
                         ids=["heap", "allocator", "bump"])
def test_minimum_rust(crates, tmp_path, features):
    """The stated MSRV builds the crate, if rustup has that toolchain; cargo itself refuses older ones."""
    minimum = re.search(r'^rust-version = "(.*)"', (crates / "glebe/Cargo.toml").read_text(), re.M)[1]
    if not shutil.which("rustup") or minimum not in run("rustup", "toolchain", "list", cwd=tmp_path):
        pytest.skip(f"no Rust {minimum}: tools/setup crate (it takes rustup)")
    folder = consumer(tmp_path / "consumer", crates, BUMP if "default" in features else HEAP, features)
    run("cargo", f"+{minimum}", "build", "-q", cwd=folder, env={"CARGO_TARGET_DIR": str(BUILD / f"msrv-{minimum}")})
    targets = run("rustup", "target", "list", "--installed", "--toolchain", minimum, cwd=tmp_path)
    if "default" in features and "wasm32-unknown-unknown" in targets:
        (folder / "src/main.rs").rename(folder / "src/lib.rs")
        (folder / "src/lib.rs").write_text("pub static ALLOC: glebe::Bump = glebe::Bump::INIT;\n")
        run("cargo", f"+{minimum}", "build", "-q", "--target", "wasm32-unknown-unknown", cwd=folder,
            env={"CARGO_TARGET_DIR": str(BUILD / f"msrv-{minimum}")})


@pytest.mark.more
def test_own_tests(crates):
    """The crate's tests run from the unpacked package, and clippy accepts it with all features."""
    run("cargo", "test", "-q", "--all-features", cwd=crates / "glebe")
    run("cargo", "clippy", "-q", "--all-features", "--all-targets", "--", "-D", "warnings", cwd=crates / "glebe")


@pytest.fixture
def reader(tmp_path):
    """A function that runs the README's lines in a reader's folder, and the README."""
    document = Document("bindings/rust/README.md", tmp_path)
    rust = {path: path.read_text() for path in tmp_path.rglob("*.rs")}
    shutil.rmtree(tmp_path / "example")
    shutil.rmtree(tmp_path / "contract")

    def read(part, cwd=""):
        said = document.run(part, cwd=tmp_path / cwd, env={"CARGO_TARGET_DIR": str(BUILD)})
        for path, text in rust.items():  # once `cargo new` has made its package
            if (tmp_path / path.relative_to(tmp_path).parts[0]).exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        return said

    read.document = document
    return read


def test_readme_of_heap(reader, tmp_path):
    """The README followed word for word: the global allocator, a heap as a value, containers in one."""
    reader("cargo new example")
    lines = reader.document.lines("target/release/example").replace("target/", f"{BUILD}/")
    said = shell(lines, tmp_path / "example", env={"CARGO_TARGET_DIR": str(BUILD)})
    assert re.search(r"^1000 words, \d+ KiB$", said, re.M)
    assert re.search(r"^glebe: example\[\d+\]: version [\d.]+ of the crate was active: .*, 0 errors$", said, re.M), said
    said = reader("--example heap", "example")
    assert re.search(r"^\[7, 2, 3\] IN A HEAP\n(9\d\d|10\d\d) more blocks in (9\d\d|10\d\d) KiB$", said, re.M), said
    said = reader("--example containers", "example")
    assert re.search(r"^100000 numbers in \d+ KiB\nmemory allocation failed because", said, re.M), said


@pytest.mark.parametrize("allocator", ["Bump", "FreeList"])
def test_readme_of_webassembly(reader, tmp_path, allocator):
    libraries = run("rustc", "--print", "sysroot", cwd=tmp_path).strip()
    if not pathlib.Path(libraries, "lib/rustlib/wasm32-unknown-unknown/lib").exists():
        pytest.skip("Rust has no wasm32-unknown-unknown here: tools/setup crate")
    reader("cargo new --lib contract")
    source = tmp_path / "contract/src/lib.rs"
    other = re.search(r"// or: (glebe::FreeList = \S+)", source.read_text())[1]
    if allocator == "FreeList":
        source.write_text(re.sub(r"glebe::Bump = .*?;", f"{other};", source.read_text()))
    reader.document.run("cargo rustc", cwd=tmp_path / "contract", env={"CARGO_TARGET_DIR": str(BUILD)})
    if not shutil.which("node"):
        pytest.skip("node is not here: tools/setup wasm")
    module = BUILD / "wasm32-unknown-unknown/release/contract.wasm"
    script = ("WebAssembly.instantiate(require('fs').readFileSync(process.argv[1]))"
              ".then(made => console.log(made.instance.exports.digits(1000)))")
    assert run("node", "-e", script, module, cwd=tmp_path) == "2890\n"


@pytest.mark.more
def test_command(crates, tmp_path):
    """glebe-cli builds from its package and that of the crate glebe, and runs a program under the embedded library.
    Third-party crates, which take a minute of processor time, come from target/, where test-cli built them."""
    patch = f'patch.crates-io.glebe.path="{crates / "glebe"}"'
    run("cargo", "build", "-q", "--config", patch, cwd=crates / "glebe-cli",
        env={"CARGO_TARGET_DIR": str(ROOT / "target")})
    program = shutil.copy(ROOT / "target/debug/glebe", tmp_path / "glebe")
    script = "grep -q libglebe /proc/self/maps && echo served"
    environment = {"HOME": str(tmp_path), "LD_LIBRARY_PATH": ""}
    assert run(program, "run", "--", "sh", "-c", script, cwd=tmp_path, env=environment) == "served\n"
    run("sh", "-c", script, cwd=tmp_path, fails=True)  # the control
