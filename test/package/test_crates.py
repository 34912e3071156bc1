"""The crates as users get them from a registry: packed, unpacked outside any repository, built, run."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from crates import BUILD, BUMP, HEAP, ROOT, consumer, crates, run


def files(folder):
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def test_contents(crates):
    """The package contains the whole C core, once; no benches, tests of the C side, or peers."""
    packed = files(crates / "glebe")
    folders = ("src", "include", "override", "record")
    core = {str(p.relative_to(ROOT)) for folder in folders for p in (ROOT / folder).rglob("*.[ch]")}
    assert core <= packed
    assert {"bindings/rust/lib.rs", "bindings/rust/build.rs", "LICENSE-MIT", "LICENSE-APACHE"} <= packed
    assert {"LICENSE-MIT", "LICENSE-APACHE"} <= files(crates / "glebe-cli")
    assert not [f for f in packed if f.split("/")[0] in {"test", "bench", "cli", "docs", "demo", "tools"}]
    assert not [p for p in crates.rglob("*") if p.is_symlink()]
    assert not [f for f in files(crates / "glebe-cli") if f.endswith((".c", ".h"))]


@pytest.mark.long # test_crates_readme.py: test_readme_of_heap
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


@pytest.mark.more
def test_hosts_without_a_port(crates, tmp_path):
    """For another system the heap fails with one line, which says that there is no port yet and names what works."""
    folder = consumer(tmp_path / "consumer", crates, BUMP)
    text = run("cargo", "build", "-q", "--target", "x86_64-unknown-freebsd", cwd=folder, fails=True)
    assert "error: glebe::Heap has no port for x86_64-unknown-freebsd yet" in text
    assert "glebe::FreeList work there: glebe = { default-features = false }" in text


@pytest.mark.long
def test_own_tests(crates):
    """The crate's tests run from the unpacked package, and clippy accepts it with all features."""
    run("cargo", "test", "-q", "--all-features", cwd=crates / "glebe")
    run("cargo", "clippy", "-q", "--all-features", "--all-targets", "--", "-D", "warnings", cwd=crates / "glebe")
