"""Finalizers with odd arguments work as with TinyGo's own collector; weak references and cleanups, which that lacks."""

import functools
import subprocess

import pytest
from own import NEW_ENOUGH
from test_tinygo import ENGINES, ENVIRONMENT, OUT, TINYGO, build, either, printed, tinygo


@either
def test_weak_references_and_cleanups(scheduler):
    module = build("weak", scheduler)
    for run in ENGINES.values():
        assert printed(run(module)) == (0, ["ok"])


@functools.cache
def stock(scheduler):
    OUT.mkdir(parents=True, exist_ok=True)
    module = OUT / f"finalizers-stock-{scheduler}.wasm"
    done = tinygo("build", "-target=wasip1", f"-scheduler={scheduler}", "-gc=precise", "-buildmode=c-shared", "-o",
                  str(module), "./test/tinygo/finalizers")
    assert done.returncode == 0, done.stderr
    return module


def called(module, function, out):
    """The exported function's output, and the trap that ended it, if any."""
    wasmtime = pytest.importorskip("wasmtime", reason="wasmtime is not here: tools/setup wasm")
    engine = wasmtime.Engine()
    linker, store, wasi = wasmtime.Linker(engine), wasmtime.Store(engine), wasmtime.WasiConfig()
    linker.define_wasi()
    wasi.stdout_file = str(out)
    store.set_wasi(wasi)
    exports = linker.instantiate(store, wasmtime.Module.from_file(engine, str(module))).exports(store)
    exports["_initialize"](store)
    trap = None
    try:
        exports[function](store)
    except wasmtime.Trap as error:
        trap = error.trap_code
    return out.read_text(), trap


@NEW_ENOUGH
@pytest.mark.parametrize("scheduler", [pytest.param("none", marks=pytest.mark.more), "asyncify"])
@pytest.mark.parametrize("function, traps", [("fine", False), ("result", True), ("interface", True)])
def test_as_with_the_precise_collector(scheduler, function, traps, tmp_path):
    """Each pointer into an object has its own finalizer. A function of another type than func(*T) makes the engine
    trap."""
    theirs = called(stock(scheduler), function, tmp_path / "stock")
    assert (theirs[1] is not None) == traps and "came back" not in theirs[0]
    assert called(build("finalizers", scheduler, "-buildmode=c-shared"), function, tmp_path / "glebe") == theirs
    if not traps:
        assert theirs[0] == "2 4 3 6 0 7 0 9 0 0 ran\n"


@NEW_ENOUGH
@either
def test_of_any(scheduler, tmp_path):
    """func(any), which users of nottinygc have written, and at which TinyGo's own collectors trap."""
    assert called(stock(scheduler), "any", tmp_path / "stock")[1] is not None
    assert called(build("finalizers", scheduler, "-buildmode=c-shared"), "any", tmp_path / "glebe") == ("true\n", None)


LINKS = """package main

import "weak"

var kept = new(int)

func main() { println(weak.Make(kept).Value() == kept) }
"""


@NEW_ENOUGH
@pytest.mark.more
def test_what_go_calls_weak_does_not_link(tmp_path):
    """weak.Make does not link: the reason for glebe's own types. When it links, or runtime.AddCleanup does something,
    they may be removed."""
    if not TINYGO:
        pytest.skip("no TinyGo that is recent enough: tools/setup tinygo")
    (tmp_path / "main.go").write_text(LINKS)
    (tmp_path / "go.mod").write_text("module links\n\ngo 1.24\n")
    done = subprocess.run([TINYGO, "build", "-target=wasip1", "-gc=precise", "-o", str(tmp_path / "o.wasm"), "."],
                          cwd=tmp_path, env={**ENVIRONMENT, "GOFLAGS": "", "GOWORK": "off"}, capture_output=True,
                          text=True, check=False)
    assert done.returncode != 0 and "undefined symbol: weak.runtime_makeStrongFromWeak" in done.stderr
    root = tinygo("env", "TINYGOROOT").stdout.strip()
    with open(f"{root}/src/runtime/runtime.go", encoding="utf-8") as file:
        stub = "func AddCleanup[T, S any](ptr *T, cleanup func(S), arg S) Cleanup {\n\treturn Cleanup{}\n}"
        assert stub in file.read()
