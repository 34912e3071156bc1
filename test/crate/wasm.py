"""Builds WebAssembly modules around Bump and runs them in wasmtime.

    build/crate/           modules, mutants and cargo's output
    build/python/          the Python packages wasmtime and hypothesis, from tools/setup crate

A `Probe` is one instance of probe.rs. A mutant is the crate with one line changed, which the tests must notice.
"""

import functools
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
BUILD = ROOT / "build/crate"
PAGE = 1 << 16

sys.path.insert(0, str(ROOT / "build/python"))
try:
    import wasmtime
except ImportError:
    wasmtime = None


def run(*command, cwd=None, env=None):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, cwd=cwd,
                          env={**os.environ, **(env or {})})
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@functools.cache
def need(target=None):
    if wasmtime is None:
        pytest.skip("wasmtime is not in build/python: tools/setup crate")
    if target:
        sysroot = pathlib.Path(subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True,
                                              check=True).stdout.strip())
        if not (sysroot / "lib/rustlib" / target / "lib").is_dir():
            pytest.skip(f"rustc has no {target}: tools/setup crate (it takes rustup)")


def mutate(name, changes):
    """A directory with the crate's pure Rust part, with `changes` made to its text."""
    source = BUILD / "source" / name
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "bindings/rust", source)
    for file, old, new in changes:
        text = (source / file).read_text()
        assert text.count(old) == 1, f"{file} has {text.count(old)} of: {old}"
        (source / file).write_text(text.replace(old, new))
    return source


def compile_probe(name="plain", changes=(), target="wasm32-unknown-unknown", program="probe.rs", features=("all",),
                  level="3", resize=True, flags=()):
    """A module, by rustc alone: two small compilations."""
    need(target)
    source = mutate(name, changes)
    out = BUILD / "modules" / name
    out.mkdir(parents=True, exist_ok=True)
    common = ["rustc", "--edition", "2021", "--target", target, "-C", f"opt-level={level}", "-C", "panic=abort"]
    run(*common, *(("--cfg", 'feature="resize"') if resize else ()), *(("--cfg", "glebe_fast") if level == "3" else ()),
        "--crate-type", "rlib", "--crate-name", "glebe", "-A", "warnings", source / "lib.rs", "--out-dir", out)
    kind = "bin" if program == "wasi.rs" else "cdylib"
    module = out / f"{pathlib.Path(program).stem}.wasm"
    run(*common, "--crate-type", kind, *(a for f in features for a in ("--cfg", f'feature="{f}"')), "--crate-name",
        "probe", *flags, "-A", "warnings", "--extern", f"glebe={out / 'libglebe.rlib'}", FOLDER / program, "-o", module)
    return module


def mutant(of, name, changes, **options):
    """A module of the crate with one mistake."""
    return compile_probe(f"{of}-mutant-{name.replace(' ', '-').replace(',', '')}", changes, **options)


def must_break(module, promises):
    """Fails unless one of the promises fails; tries them in order."""
    for promise in promises:
        try:
            promise(module)
        except (AssertionError, IndexError, wasmtime.WasmtimeError, wasmtime.Trap):
            return
    pytest.fail("no promise failed")


def sections(module):
    """Bytes of each section of a module by its number, and of all but the custom ones under "all"."""
    data, at, found = pathlib.Path(module).read_bytes(), 8, {}

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        start, kind = at, data[at]
        at += 1
        length = number()
        at += length
        found[kind] = found.get(kind, 0) + at - start
    found["all"] = 8 + sum(size for kind, size in found.items() if kind != 0)
    return found


@functools.lru_cache(maxsize=4)
def load(module, _changed):
    """Compiles once for all instances of a build, since that takes longer than most of their work."""
    config = wasmtime.Config()
    config.consume_fuel = True
    engine = wasmtime.Engine(config)
    return engine, wasmtime.Module.from_file(engine, module)


class Probe:
    """An instance: its exports as methods, addresses as unsigned numbers."""

    def __init__(self, module, pages_max=None, fuel=10**10):  # the fuel stops mutants that never end
        engine, code = load(str(module), os.stat(module).st_mtime_ns)
        self.store = wasmtime.Store(engine)
        self.store.set_fuel(fuel)
        if pages_max:
            self.store.set_limits(memory_size=pages_max * PAGE)
        self.exports = wasmtime.Instance(self.store, code, []).exports(self.store)
        self.memory = self.exports["memory"]

    def call(self, name, *arguments):
        signed = [a - (1 << 32) if a >= 1 << 31 else a for a in arguments]
        result = self.exports[name](self.store, *signed)
        return result & 0xFFFFFFFF if result is not None else None

    def __getattr__(self, name):
        return lambda *arguments: self.call(name, *arguments)

    @property
    def pages(self):
        return self.memory.size(self.store)

    def foreign(self, pages):
        """A memory.grow by other code; returns the address of its pages."""
        return self.memory.grow(self.store, pages) * PAGE

    def read(self, at, size):
        return bytes(self.memory.read(self.store, at, at + size))

    def write(self, at, data):
        self.memory.write(self.store, data, at)

    def fuel(self, name, *arguments):
        before = self.store.get_fuel()
        self.call(name, *arguments)
        return before - self.store.get_fuel()
