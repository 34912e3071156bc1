"""TinyGo's own test programs, from testdata/ of the installed TinyGo, made to import glebe and run.

A program is copied into build/test-tinygo/own, beside a file that imports glebe and asks the host how often to collect.
So one build runs plain and under stress. For wasip1 the host is wazero's command, for wasip2 wasmtime (wasip2.py);
both answer through the environment. For wasm it is TinyGo's own JavaScript in node, to which HOOK adds the function
that answers.
"""

import concurrent.futures
import functools
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from test_tinygo import ENVIRONMENT, OUT, ROOT, TINYGO, tinygo
from test_programs import WAZERO

import roots

TINYGO_ROOT = pathlib.Path(tinygo("env", "TINYGOROOT").stdout.strip()) if TINYGO else None
TESTDATA = TINYGO_ROOT / "testdata" if TINYGO else None
# TinyGo's programs for finalizers came with 0.42; older releases also expect other output of the other programs.
VERSION = tuple(map(int, re.findall(r"\d+", tinygo("version").stdout)[:2])) if TINYGO else ()
NEW_ENOUGH = pytest.mark.skipif(VERSION < (0, 42),
                                reason="TinyGo's own programs and finalizers are those of 0.42 or later")

WASI = ("wasip1", "wasip2")

MODULE = """module own

go 1.25

require (
	github.com/glebe-alloc/glebe v0.0.0
	github.com/tinygo-org/tinygo v0.0.0
)

replace (
	github.com/glebe-alloc/glebe => {glebe}
	github.com/tinygo-org/tinygo => {tinygo}
)
"""

# Under stress a program first checks that collections happen, and else ends at once.
STRESS = """package main

import glebe "github.com/glebe-alloc/glebe/bindings/tinygo"

var glebeSink *int

func init() {
	n := glebeStress()
	if n == 0 {
		return
	}
	before := glebe.ReadStats().Collections
	glebe.SetStress(n)
	for i := 0; i < 2*n; i++ {
		glebeSink = new(int)
	}
	if glebe.ReadStats().Collections == before {
		panic("no stress")
	}
}
"""

ASK_ENVIRONMENT = """package main

import "syscall"

func glebeStress() (n int) {
	text, _ := syscall.Getenv("GLEBE_STRESS")
	for _, digit := range text {
		n = n*10 + int(digit-'0')
	}
	return n
}
"""

ASK_FUNCTION = """package main

//go:wasmimport glebe stress
func stress() int32

func glebeStress() int { return int(stress()) }
"""

HOOK = """
let Own;
Object.defineProperty(globalThis, 'Go', {
    get: () => Own,
    set: (theirs) => {
        Own = class extends theirs {
            constructor() {
                super();
                this.importObject.glebe = { stress: () => Number(process.env.GLEBE_STRESS || 0) };
            }
        };
    },
});
"""


def module_of(name, ask, label):
    """The folder of a module with the program and glebe."""
    folder = OUT / "own" / f"{name}-{label}"
    shutil.rmtree(folder, ignore_errors=True)
    if (TESTDATA / f"{name}.go").exists():
        folder.mkdir(parents=True)
        shutil.copyfile(TESTDATA / f"{name}.go", folder / "main.go")
    else:
        shutil.copytree(TESTDATA / name, folder, copy_function=shutil.copyfile)
    (folder / "go.mod").write_text(MODULE.format(glebe=ROOT, tinygo=TINYGO_ROOT))
    shutil.copyfile(TINYGO_ROOT / "go.sum", folder / "go.sum")
    (folder / "glebe.go").write_text(STRESS)
    (folder / "glebe_ask.go").write_text(ask)
    (folder / "hook.js").write_text(HOOK)
    return folder


@functools.cache
def build(name, target, *flags, scheduler="asyncify", ask=None):
    """The program with glebe, or with another collector if `flags` say so."""
    if not TINYGO:
        pytest.skip("no TinyGo that is recent enough: tools/setup tinygo")
    ask = ask or (ASK_ENVIRONMENT if target in WASI else ASK_FUNCTION)
    folder = module_of(name, ask, "-".join([target, scheduler, *(re.sub(r"\W+", "-", flag) for flag in flags)]))
    if not any(flag.startswith("-gc=") for flag in flags):
        more = [flag.removeprefix("-tags=") for flag in flags if flag.startswith("-tags=")]
        flags = [flag for flag in flags if not flag.startswith("-tags=")]
        more += ["glebe_wasip2"] if target == "wasip2" else []
        flags += ["-gc=custom", f"-tags={' '.join(['custommalloc', *more])}"]
    else:
        for file in ("glebe.go", "glebe_ask.go"):
            (folder / file).unlink()
    module = folder / "own.wasm"
    program, environment = (roots.command(), roots.for_wasip2()) if target == "wasip2" else (TINYGO, ENVIRONMENT)
    command = [program, "build", f"-target={target}", f"-scheduler={scheduler}", "-no-debug", *flags, "-o", module, "."]
    done = subprocess.run(command, cwd=folder, env={**environment, "GOFLAGS": "-mod=mod", "GOWORK": "off"},
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stderr[-3000:]}"
    return module


def run(module, target, stress, *arguments, script=None, mount=None, timeout=300, **environment):
    """(status, output). `script`: TinyGo's JavaScript that runs the module, instead of the usual one."""
    environment["GLEBE_STRESS"] = str(stress)
    if target == "wasip2":
        command = [sys.executable, ROOT / "test/tinygo/wasip2.py", module, *arguments]
        environment["MOUNT"] = mount.split(":")[0] if mount else ""
    elif target == "wasip1":
        if not WAZERO:
            pytest.skip("wazero's command is not here: tools/setup wazero")
        given = [f"-env={key}={value}" for key, value in environment.items()] + ([f"-mount={mount}"] if mount else [])
        command = [WAZERO, "run", *given, str(module), *arguments]
    else:
        if not shutil.which("node"):
            pytest.skip("node is not here: tools/setup wasm")
        hook = module.with_name("hook.js")
        script = script or TINYGO_ROOT / "targets/wasm_exec_node.js"
        command = ["node", "--no-concurrent-marking", "-r", str(hook), str(script), str(module), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout, check=False,
                          cwd=TINYGO_ROOT, env={**ENVIRONMENT, **environment}, encoding="utf-8", errors="replace")
    return done.returncode, done.stdout


# ---- the programs that print ----

# Programs that TinyGo's tests leave out for WebAssembly, or that have their own test.
LEFT_OUT = {
    "recover": "nothing recovers from a panic in WebAssembly",
    "signal": "there are no signals",
    "timer_stop_reset_race": "it is for the scheduler with threads",
    "wasmexport": "test_own_exports.py has it",
    "wasmfunc": "test_own_exports.py has it",
}
LEFT_OUT_FOR = {
    "wasip1": {},
    "wasip2": {"cgo": "it has no C library",
               "filesystem": "it looks in the current directory; this host has none, so it fails with any collector"},
    "wasm": {"env": "JavaScript has no environment", "filesystem": "nor files"},
}
FLAGS = {
    "finalizerinvariants": ["-tags=runtime_asserts"],
    "finalizerlarge": ["-tags=runtime_asserts"],
    "ldflags": ["-ldflags=-X main.someGlobal=foobar"],
    "ldflags-initialized": ["-ldflags=-X main.someGlobal=foobar"],
}

def programs():
    """Every program with an expected text beside it, except those left out."""
    if not TESTDATA:
        return []
    files = [path.stem for path in TESTDATA.glob("*.go") if path.with_suffix(".txt").exists()]
    return sorted(set(files + [path.parent.name for path in TESTDATA.glob("*/out.txt")]) - set(LEFT_OUT))


# What collectors get wrong: objects that die, goroutines, maps, reflection, timers.
COLLECTED = re.compile("gc|finalizer|goroutines|channel|map|reflect|json|timers|weak|zeroalloc")


def each(target, quick=(), more=COLLECTED):
    """The programs for this target. Those that `quick` does not name run with `make test-all` if `more` matches, else
    with `make test-long`."""
    marks = lambda name: [] if name in quick else pytest.mark.more if more.match(name) else pytest.mark.long
    return [pytest.param(name, marks=marks(name)) for name in programs() if name not in LEFT_OUT_FOR[target]]


def expected(name):
    beside = TESTDATA / ("testing-wasm.txt" if name == "testing" else f"{name}.txt")
    return (beside if beside.exists() else TESTDATA / name / "out.txt").read_text()


def ended(name, module, target, stress):
    arguments = ["first", "second"] if name == "env" else []
    status, text = run(module, target, stress, *arguments, mount=f"{TINYGO_ROOT}:/:ro", ENV1="VALUE1", ENV2="VALUE2")
    return status, re.sub(r"\(\d\.\d\ds\)", "(0.00s)", text) if name == "testing" else text


def both_ways(name, target, *flags, scheduler="asyncify"):
    """The program prints the expected output, plain and with a collection at every allocation. The two run at once, as
    some programs mostly sleep."""
    module = build(name, target, *FLAGS.get(name, []), *flags, scheduler=scheduler)
    with concurrent.futures.ThreadPoolExecutor() as both:
        plain, stressed = both.map(lambda stress: ended(name, module, target, stress), (0, 1))
    assert plain == (0, expected(name)), "plain"
    assert stressed == (0, expected(name)), "under stress"
