"""TinyGo's own test programs whose exported functions a host calls: with glebe they print the expected output, plain
and under stress.

For wasip1 and wasm-unknown the host is wasmtime, with the imports from TinyGo's own tests; for wasm it is the
JavaScript beside each program, in node.
"""

import pytest
from own import ASK_FUNCTION, NEW_ENOUGH, TESTDATA, build, expected, run

pytestmark = [NEW_ENOUGH, pytest.mark.more]

STRESS = pytest.mark.parametrize("stress", [pytest.param(0, marks=pytest.mark.long), 1])
RESULTS = [("hello", (), None), ("add", (3, 5), 8), ("add", (7, 9), 16), ("add", (6, 1), 7),
           ("reentrantCall", (2, 3), 5), ("reentrantCall", (1, 8), 9), ("goroutineExit", (), None)]


class Host:
    """A module in wasmtime, with the functions that it imports; `results` has the return values of its exports."""

    def __init__(self, module, stress, out):
        wasmtime = pytest.importorskip("wasmtime", reason="wasmtime is not here: tools/setup wasm")
        engine = wasmtime.Engine()
        linker, self.store, wasi = wasmtime.Linker(engine), wasmtime.Store(engine), wasmtime.WasiConfig()
        wasi.stdout_file = str(out)
        self.store.set_wasi(wasi)
        linker.define_wasi()
        number, none = wasmtime.ValType.i32(), []
        linker.define_func("glebe", "stress", wasmtime.FuncType(none, [number]), lambda: stress)
        linker.define_func("tester", "callOutside", wasmtime.FuncType([number, number], [number]),
                           lambda a, b: self.call("add", a, b))
        linker.define_func("tester", "callTestMain", wasmtime.FuncType(none, none), self.call_all)
        instance = linker.instantiate(self.store, wasmtime.Module.from_file(engine, str(module)))
        self.exports = instance.exports(self.store)
        self.exit, self.results = wasmtime.ExitTrap, []

    def call(self, name, *arguments):
        return self.exports[name](self.store, *arguments)

    def call_all(self):
        for name, arguments, _ in RESULTS:
            self.results.append((name, arguments, self.call(name, *arguments)))

    def begin(self, command):
        """`command`: main calls call_all; otherwise the module is initialized, and then called."""
        if not command:
            self.call("_initialize")
            self.call_all()
            return
        try:
            self.call("_start")
        except self.exit as ended:
            assert ended.code == 0


@STRESS
@pytest.mark.parametrize("program, target, mode, scheduler", [
    ("wasmexport", "wasip1", "default", "asyncify"),
    ("wasmexport", "wasip1", "c-shared", "asyncify"),
    ("wasmexport-noscheduler", "wasip1", "c-shared", "none"),
    ("wasmexport-noscheduler", "wasip1", "wasi-legacy", "none"),
    ("wasmexport-noscheduler", "wasm-unknown", "c-shared", "none"),
    ("wasmexport-noscheduler", "wasm-unknown", "default", "none"),
])
def test_exports(program, target, mode, scheduler, stress, tmp_path):
    module = build(program, target, f"-buildmode={mode}", scheduler=scheduler, ask=ASK_FUNCTION)
    host = Host(module, stress, tmp_path / "said")
    host.begin(command=mode != "c-shared")
    assert host.results == RESULTS
    if target == "wasip1":  # the other has nothing to print with
        assert (tmp_path / "said").read_text() == expected("wasmexport")


def script(name):
    return TESTDATA / f"{name}.js"


@STRESS
@pytest.mark.parametrize("mode", ["default", "c-shared"])
def test_exports_in_javascript(mode, stress):
    module = build("wasmexport-noscheduler", "wasm", f"-buildmode={mode}")
    assert run(module, "wasm", stress, mode, script=script("wasmexport")) == (0, expected("wasmexport"))


@STRESS
def test_functions_for_javascript(stress):
    module = build("wasmfunc", "wasm")
    assert run(module, "wasm", stress, "default", script=script("wasmfunc")) == (0, expected("wasmfunc"))


@STRESS
def test_finalizers_after_an_export(stress):
    """Finalizers run once an exported function has returned and the scheduler is idle; otherwise the JavaScript
    fails."""
    module = build("wasmexport-finalizer", "wasm", "-buildmode=c-shared")
    assert run(module, "wasm", stress, script=script("wasmexport-finalizer")) == (0, "")


def test_the_javascript_can_fail():
    """Control: with a collector without finalizers it fails."""
    status, text = run(build("wasmexport-finalizer", "wasm", "-buildmode=c-shared", "-gc=leaking"), "wasm", 0,
                       script=script("wasmexport-finalizer"))
    assert status == 1 and "no wasm-export finalizer ran" in text
