"""C and C++ programs in WebAssembly, linked with build/wasm32/libglebe-override.a, run by each installed engine."""

import functools
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = pathlib.Path(__file__).parent
OUT = ROOT / "build/test-wasm"
ARCHIVES = ROOT / "build/wasm32"
CLANG = os.environ.get("CC_wasm32", "clang-19")
MEMORY = 24 << 20

sys.path.insert(0, str(ROOT / "build/python"))


def run_wasmtime(module, *arguments, **environment):
    wasmtime = pytest.importorskip("wasmtime", reason="wasmtime is not here: tools/setup wasm")
    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    wasi, out = wasmtime.WasiConfig(), module.with_suffix(".out")
    wasi.stdout_file = wasi.stderr_file = str(out)
    wasi.argv, wasi.env = [module.name, *arguments], list(environment.items())
    store.set_wasi(wasi)
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    instance = linker.instantiate(store, wasmtime.Module.from_file(engine, str(module)))
    status = 0
    try:
        instance.exports(store)["_start"](store)
    except wasmtime.ExitTrap as exit_trap:
        status = exit_trap.code
    except wasmtime.Trap as trap:
        status = str(trap)
    del store  # closes the file
    return status, out.read_text()


NODE = """
const { WASI } = require('node:wasi');
const wasi = new WASI({ version: 'preview1', args: process.argv.slice(1), env: process.env, returnOnExit: true });
WebAssembly.instantiate(require('node:fs').readFileSync(process.argv[1]), { wasi_snapshot_preview1: wasi.wasiImport })
    .then(({ instance }) => { process.exitCode = wasi.start(instance); });
"""


def run_node(module, *arguments, **environment):
    if not shutil.which("node"):
        pytest.skip("node is not here: tools/setup wasm")
    # node 20's own collector, marking concurrently, crashes at the end of a module whose memory has grown much.
    done = subprocess.run(["node", "--no-warnings", "--no-concurrent-marking", "-e", NODE, str(module), *arguments],
                          capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **environment})
    return done.returncode, done.stdout + done.stderr


def which(tool):
    """The tool that tools/setup finds; empty if there is none."""
    return subprocess.run([ROOT / "tools/setup", "which", tool], capture_output=True, text=True,
                          check=False).stdout.strip()


WAZERO = which("wazero")


def run_wazero(module, *arguments, **environment):
    if not WAZERO:
        pytest.skip("wazero's command is not here: tools/setup wazero")
    given = [f"-env={name}={value}" for name, value in environment.items()]
    done = subprocess.run([WAZERO, "run", *given, str(module), *arguments], capture_output=True, text=True, timeout=300,
                          check=False)
    return done.returncode, done.stdout + done.stderr


ENGINES = {"wasmtime": run_wasmtime, "node": run_node, "wazero": run_wazero}


@functools.cache
def build(source, name, *flags, archive="libglebe-override.a"):
    OUT.mkdir(parents=True, exist_ok=True)
    module = OUT / f"{name}.wasm"
    driver = CLANG.replace("clang", "clang++") if source.suffix == ".cc" else CLANG
    command = [driver, "--target=wasm32-wasi", "-O1", "-mbulk-memory", "-fno-builtin", "-Wall", "-Wextra",
               f"-I{ROOT / 'include'}",
               *flags, str(source), str(ARCHIVES / archive), f"-Wl,--max-memory={MEMORY}", "-o", str(module)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    return module


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("optimize", ["-O0", "-O2"])
def test_family(engine, optimize):
    assert ENGINES[engine](build(HERE / "family.c", f"family{optimize}", optimize)) == (0, "ok\n")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_beside_another_malloc(engine, first):
    """The archive without the override: two allocators, one memory."""
    module = build(HERE / "beside.c", f"beside-{first}", f"-DOURS_FIRST={int(first == 'ours')}", archive="libglebe.a")
    assert ENGINES[engine](module) == (0, "ok\n")


@pytest.mark.parametrize("engine", ENGINES)
def test_containers(engine):
    module = build(HERE / "containers.cc", "containers", "-std=c++20", "-fno-exceptions")
    assert ENGINES[engine](module) == (0, "ok\n")
