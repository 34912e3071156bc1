"""Threads in one shared memory, with build/wasm32-threads/libglebe.a: in node's workers and in wasmtime's instances,
one for each thread."""

import functools
import pathlib
import shutil
import subprocess
import sys

import pytest

import test_programs
from test_programs import CLANG, HERE, MEMORY, OUT, ROOT

ARCHIVE = ROOT / "build/wasm32-threads/libglebe.a"
WORKERS, STEPS = 4, 60000
EXPORTED = ("__stack_pointer", "__wasm_init_tls", "__tls_align")


def run_node(module, *flags, timeout=600):
    if not shutil.which("node"):
        pytest.skip("node is not here: tools/setup wasm")
    return run(["node", str(HERE / "threads.js"), str(module), str(WORKERS), str(STEPS), *flags], timeout)


def run_wasmtime(module, timeout=600):
    pytest.importorskip("wasmtime", reason="wasmtime is not here: tools/setup wasm")
    return run([sys.executable, str(HERE / "threads_wasmtime.py"), str(module), str(WORKERS), str(STEPS)], timeout)


def run(command, timeout=600):
    """Status and output; None if it did not end, as with a heap whose lists are circular."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout + done.stderr


ENGINES = {"node": run_node, "wasmtime": run_wasmtime}


@functools.cache
def build(name, *sources):
    OUT.mkdir(parents=True, exist_ok=True)
    module = OUT / f"{name}.wasm"
    command = [CLANG, "--target=wasm32-wasi", "-O2", "-mbulk-memory", "-matomics", "-nostdlib", "-Wall", "-Wextra",
               f"-I{ROOT / 'include'}",
               str(HERE / "threads.c"), *map(str, sources),
               "-Wl,--no-entry,--shared-memory,--import-memory,--max-memory=134217728",
               *(f"-Wl,--export={symbol}" for symbol in EXPORTED), "-o", str(module)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    return module


@pytest.mark.parametrize("engine", ENGINES)
def test_blocks_wander(engine):
    assert ENGINES[engine](build("threads", ARCHIVE)) == (0, "ok\n")


def test_threads_that_never_sleep():
    assert run_node(build("threads", ARCHIVE), "spin") == (0, "ok\n")


def test_a_worker_that_hears_late_of_longer_memory():
    """A regression: V8's length was stale, and the heap trapped in memory that another thread had grown."""
    if not shutil.which("node"):
        pytest.skip("node is not here: tools/setup wasm")
    status, text = run(["node", str(HERE / "late.js"), str(build("threads", ARCHIVE)), "1000"])
    assert status == 0 and text in ("stale ok\n", "in time ok\n"), text


def test_family_with_a_c_library_for_threads():
    """The C library that comes with Rust: each thread has its own errno."""
    sysroot = ""
    if shutil.which("rustc"):
        sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=False).stdout
    library = pathlib.Path(sysroot.strip()) / "lib/rustlib/wasm32-wasip1-threads/lib/self-contained"
    if not (library / "libc.a").exists():
        pytest.skip("no C library for threads: rustup target add wasm32-wasip1-threads")
    OUT.mkdir(parents=True, exist_ok=True)
    module = OUT / "family-threads.wasm"
    command = [CLANG, "--target=wasm32-wasi", "-O1", "-mbulk-memory", "-matomics", "-fno-builtin",
               f"-I{ROOT / 'include'}", "-nostdlib", str(library / "crt1-command.o"), str(HERE / "family.c"),
               str(ARCHIVE.with_name("libglebe-override.a")), str(library / "libc.a"), "-lclang_rt.builtins-wasm32",
               f"-L{builtins()}", f"-Wl,--shared-memory,--export-memory,--max-memory={MEMORY}", "-o", str(module)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    assert test_programs.run_node(module) == (0, "ok\n")


def builtins():
    found = subprocess.run([CLANG, "--target=wasm32-wasi", "--print-libgcc-file-name"], capture_output=True, text=True,
                           check=True)
    return pathlib.Path(found.stdout.strip()).parent


@pytest.mark.parametrize("engine", ENGINES)
def test_the_lock_is_what_does_it(engine):
    """Control: without the lock the same test fails, in various ways, but not in every run."""
    module = build("threads-without-lock", "-DGB_SHARED=0", ROOT / "src/glebe.c")
    assert any(ENGINES[engine](module, timeout=60) != (0, "ok\n") for _ in range(5))
