"""TinyGo programs with glebe as collector and malloc, compiled by $TINYGO or the TinyGo of `tools/setup which tinygo`,
in each installed engine: wasmtime from PyPI, node, and wazero's command."""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OUT = ROOT / "build/test-tinygo"

sys.path.insert(0, str(ROOT / "test/wasm"))
from test_programs import ENGINES, run_node, which

TINYGO, GO = which("tinygo"), which("go")
# TinyGo calls Go, and wasm-opt. npm's wasm-opt is itself WebAssembly, and takes more than half of a build; so tests use
# the system's, which is native.
ENVIRONMENT = {**os.environ, "PATH": f"{os.path.dirname(GO)}:{os.environ['PATH']}"} if GO else dict(os.environ)
if native := shutil.which("wasm-opt"):
    ENVIRONMENT.setdefault("WASMOPT", native)


def tinygo(*arguments):
    if not TINYGO:
        pytest.skip("no TinyGo that is recent enough: tools/setup tinygo")
    return subprocess.run([TINYGO, *arguments], capture_output=True, text=True, check=False, cwd=ROOT, env=ENVIRONMENT)


@functools.cache
def build(program, scheduler, *flags, target="wasip1"):
    OUT.mkdir(parents=True, exist_ok=True)
    module = OUT / f"{program}-{target}-{scheduler}{''.join(flags)}.wasm"
    done = tinygo("build", f"-target={target}", f"-scheduler={scheduler}", "-gc=custom", "-tags=custommalloc", "-o",
                  str(module), *flags, f"./test/tinygo/{program}")
    assert done.returncode == 0, done.stderr
    return module


def guests(name, collectors, *flags, command=lambda: TINYGO, environment=lambda: {**ENVIRONMENT, "GOWORK": "off"}):
    """test/tinygo/NAME/guest, a Go module of its own, with the flags of each collector: the modules by collector."""
    if not (TINYGO and GO):
        pytest.skip("no TinyGo that is recent enough: tools/setup tinygo")
    (OUT / name).mkdir(parents=True, exist_ok=True)
    built = {}
    for collector, its in collectors.items():
        built[collector] = OUT / f"{name}/{collector}.wasm"
        done = subprocess.run([command(), "build", "-target=wasip1", "-opt=1", "-no-debug", *flags, *its, "-o",
                               built[collector], "./guest"], cwd=ROOT / "test/tinygo" / name, text=True, check=False,
                              env=environment(), capture_output=True)
        assert done.returncode == 0, done.stderr[-3000:]
    return built


def printed(result):
    """Status and lines of output: println writes to stderr, which not every runner here separates from stdout."""
    return result[0], result[1].strip().splitlines()


either = pytest.mark.parametrize("scheduler", ["none", pytest.param("asyncify", marks=pytest.mark.more)])


def test_goroutines():
    module = build("goroutines", "asyncify")
    for run in ENGINES.values():
        assert printed(run(module)) == (0, ["ok"])


@pytest.mark.more
@either
def test_objects(scheduler):
    module = build("objects", scheduler)
    for run in ENGINES.values():
        assert printed(run(module)) == (0, ["ok"])


@pytest.mark.parametrize("scheduler", ["none", pytest.param("asyncify", marks=pytest.mark.long)])
def test_content_decides_nothing(scheduler):
    """The heap's constants, live addresses and forged stacks as data in every kind of allocation, against a model of
    reachability."""
    module = build("content", scheduler)
    for run in ENGINES.values():
        assert printed(run(module)) == (0, ["ok"])


BROWSER = """
require(process.argv[1]);
const go = new Go();
WebAssembly.instantiate(require('node:fs').readFileSync(process.argv[2]), go.importObject)
    .then(({ instance }) => go.run(instance));
"""


@pytest.mark.more
def test_browser_target():
    """TinyGo's own JavaScript runs it, in node."""
    module = build("goroutines", "asyncify", target="wasm")
    script = pathlib.Path(tinygo("env", "TINYGOROOT").stdout.strip()) / "targets/wasm_exec.js"
    done = subprocess.run(["node", "-e", BROWSER, str(script), str(module)], capture_output=True, text=True,
                          timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


@pytest.mark.more
def test_no_host_in_particular():
    """A module without imports, bulk memory and C library."""
    wasmtime = pytest.importorskip("wasmtime", reason="wasmtime is not here: tools/setup wasm")
    engine = wasmtime.Engine()
    module = wasmtime.Module.from_file(engine, str(build("unknown", "none", target="wasm-unknown")))
    assert module.imports == []
    store = wasmtime.Store(engine)
    exports = wasmtime.Instance(store, module, []).exports(store)
    exports["_initialize"](store)
    assert exports["kept"](store, 3000) == 5050
    assert exports["collections"](store) > 20
    assert exports["memory"].size(store) < 10


@pytest.mark.more
@either
def test_collecting_while_a_host_calls_back(scheduler):
    wasmtime = pytest.importorskip("wasmtime", reason="wasmtime is not here: tools/setup wasm")
    engine = wasmtime.Engine()
    linker, store = wasmtime.Linker(engine), wasmtime.Store(engine)
    linker.define_wasi()
    store.set_wasi(wasmtime.WasiConfig())
    exports = {}
    linker.define_func("host", "back", wasmtime.FuncType([], []), lambda: exports["inner"](store))
    module = wasmtime.Module.from_file(engine, str(build("nested", scheduler, "-buildmode=c-shared")))
    exports = linker.instantiate(store, module).exports(store)
    exports["_initialize"](store)
    for _ in range(20):
        assert exports["outer"](store) == 49500


@either
@pytest.mark.parametrize("function, said", [
    ("no_function", "fatal error: runtime.SetFinalizer: second argument is not a function\n"),
    ("pointer_to_function", "fatal error: runtime.SetFinalizer: second argument is not a function\n"),
    ("no_pointer", "fatal error: runtime.SetFinalizer: first argument is not a pointer\n"),
    ("nothing", "fatal error: runtime.SetFinalizer: first argument is not a pointer\n"),
    ("fine", 1111),
])
def test_finalizer_misuse(scheduler, function, said, tmp_path):
    """The messages are those of TinyGo's own collectors."""
    wasmtime = pytest.importorskip("wasmtime", reason="wasmtime is not here: tools/setup wasm")
    engine = wasmtime.Engine()
    linker, store, wasi = wasmtime.Linker(engine), wasmtime.Store(engine), wasmtime.WasiConfig()
    linker.define_wasi()
    wasi.stdout_file = str(tmp_path / "said")
    store.set_wasi(wasi)
    module = wasmtime.Module.from_file(engine, str(build("misuse", scheduler, "-buildmode=c-shared")))
    exports = linker.instantiate(store, module).exports(store)
    exports["_initialize"](store)
    if isinstance(said, int):
        assert exports[function](store) == said
    else:
        with pytest.raises(wasmtime.Trap):
            exports[function](store)
        assert (tmp_path / "said").read_text() == said


def test_memory_ends():
    status, text = run_node(build("ends", "none"))
    assert status != 0
    found = re.search(r"within\npanic: glebe: out of memory: 3145728 bytes wanted, (\d+) of (\d+) in use, (\d+) live "
                      r"after (\d+) collections", text)
    assert found, text
    used, heap, live, collections = map(int, found.groups())
    assert 0 < live <= used <= heap < 3 << 20 and collections > 100


GLEBE = ["-gc=custom", "-tags=custommalloc"]
FLAGS = "gc-custom-and-tags-custommalloc"
TARGET = "a-target-wasip1-wasm-or-wasm-unknown"
SCHEDULER = "scheduler-asyncify-or-none"
WASIP2 = "tag-glebe_wasip2-see-docs-tinygo"


def refused(text):
    """The need that the one line of the error names."""
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) == 1, text
    return re.search(r"/refused/internal/glebe-needs-(\S+) not allowed$", lines[0])[1]


@pytest.mark.parametrize("flags, needs", [
    (["-target=wasip1", "-gc=custom"], FLAGS),
    (["-target=wasip1", "-tags=custommalloc"], FLAGS),
    (["-target=wasip1", "-gc=precise"], FLAGS),
    (["-target=wasip1", "-scheduler=tasks", *GLEBE], SCHEDULER),
    (["-target=wasip1", "-scheduler=threads", *GLEBE], SCHEDULER),
    (["-target=wasm", "-scheduler=cores", *GLEBE], SCHEDULER),
    (["-target=wasip2", *GLEBE], WASIP2),
    (["-target=wasip2"], FLAGS),
    (["-target=wasip2", "-gc=custom", "-tags=glebe_wasip2"], FLAGS),
    (["-target=wasip2", "-scheduler=threads", "-gc=custom", "-tags=custommalloc glebe_wasip2"], SCHEDULER),
    (["-target=arduino", *GLEBE], TARGET),
])
def test_refused_builds(flags, needs):
    """TinyGo itself prints one line for each, before anything is compiled."""
    done = tinygo("build", "-o", str(OUT / "refused.wasm"), *flags, "./test/tinygo/ends")
    assert done.returncode != 0 and refused(done.stderr) == needs


@pytest.mark.parametrize("tags, needs", [
    ("gc.custom custommalloc scheduler.threads", TARGET),
    ("gc.boehm scheduler.threads", TARGET),
    ("gc.custom custommalloc scheduler.asyncify tinygo.wasm", None),
    ("gc.custom custommalloc scheduler.none tinygo.wasm wasm_unknown", None),
    ("gc.custom custommalloc scheduler.asyncify tinygo.wasm wasip2 glebe_wasip2", None),
])
def test_refused_by_its_tags(tags, needs):
    """Native programs: TinyGo first lists the packages with these tags, and this test checks that list. The TinyGo of
    tools/setup cannot build native programs itself."""
    if not GO:
        pytest.skip("Go is not here: tools/setup tinygo")
    done = subprocess.run([GO, "list", "-tags", f"tinygo {tags}", "./bindings/tinygo"], cwd=ROOT,
                          env={**ENVIRONMENT, "CGO_ENABLED": "1"}, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (needs is None)
    if needs:
        assert refused("\n".join(line for line in done.stderr.splitlines() if not line.startswith("package "))) == needs


def test_without_the_import(tmp_path):
    """This build has no glebe, so TinyGo itself panics, with a message that docs/tinygo.md explains."""
    (tmp_path / "main.go").write_text('package main\n\nfunc main() { println("glebe is not imported") }\n')
    done = tinygo("build", "-target=wasip1", *GLEBE, "-o", str(tmp_path / "o.wasm"), str(tmp_path / "main.go"))
    said = re.match(r"panic: missing core function \"runtime\.\w+\"", done.stderr)
    assert done.returncode != 0 and said, done.stderr
    if "0.42" in tinygo("version").stdout:
        assert said[0] in (ROOT / "docs/tinygo.md").read_text()
