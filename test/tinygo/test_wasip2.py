"""Components: -target=wasip2, in wasmtime.

TinyGo is a copy with the line that docs/tinygo.md appends to it (roots.py). wasm-tools makes the component of the
module; both it and the interfaces of WASI come from tools/setup."""

import functools
import os
import re
import shutil
import subprocess
import sys

import pytest
from own import NEW_ENOUGH, both_ways, each
from test_tinygo import OUT, ROOT, TINYGO, tinygo
from test_programs import which

import roots

pytest.importorskip("wasmtime", reason="wasmtime is not here: tools/setup wasm")
import wasip2

TAGS = "-tags=custommalloc glebe_wasip2"
pytestmark = [NEW_ENOUGH, pytest.mark.more,
              pytest.mark.skipif(not which("wasm-tools"), reason="wasm-tools is not here: tools/setup wasip2")]


@functools.cache
def build(program, scheduler, *flags):
    OUT.mkdir(parents=True, exist_ok=True)
    module = OUT / f"{program}-wasip2-{scheduler}{flags[0] if flags else ''}.wasm"
    if not any(flag.startswith("-gc=") for flag in flags):
        flags = ["-gc=custom", TAGS, *flags]
    command = [roots.command(), "build", "-target=wasip2", f"-scheduler={scheduler}", *flags, "-o", module,
               f"./test/tinygo/{program}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=roots.for_wasip2())
    assert done.returncode == 0, done.stderr
    return module


@pytest.mark.parametrize("program", ["weak", pytest.param("content", marks=pytest.mark.long),
                                     pytest.param("goroutines", marks=pytest.mark.long)])
def test_programs(program):
    done = subprocess.run([sys.executable, wasip2.__file__, build(program, "asyncify")], capture_output=True, text=True,
                          timeout=300, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "ok\n")


def interfaces():
    """The component's world, beside the interfaces of WASI that it includes."""
    folder = OUT / "component"
    shutil.rmtree(folder, ignore_errors=True)
    theirs = roots.asked(TINYGO, "TINYGOROOT") / "lib/wasi-cli/wit"
    shutil.copytree(theirs / "deps", folder / "deps")
    (folder / "deps/cli").mkdir()
    for file in theirs.glob("*.wit"):
        shutil.copyfile(file, folder / "deps/cli" / file.name)
    shutil.copyfile(ROOT / "test/tinygo/component/world.wit", folder / "world.wit")
    return folder


def words(count):
    return [f"word{i}" * (i % 9 + 1) for i in range(count)]


@pytest.mark.parametrize("scheduler", ["asyncify", "none"])
@pytest.mark.parametrize("stress", [pytest.param(0, marks=pytest.mark.long), 1])
def test_lists_of_strings(scheduler, stress):
    """Nothing that the host writes is lost: parameters, with and without a goroutine, and results. Without
    stress the lists are long enough for collections."""
    flags = [f"-wit-package={interfaces()}", "-wit-world=component"]
    store, instance = wasip2.started(build("component", scheduler, *flags), [], {"STRESS": str(stress)}, None,
                                     lambda _, count: words(count))
    join, directly, ask, collections = (instance.get_func(store, name)
                                        for name in ("join", "join-directly", "ask", "collections"))
    for count in [1, 10, 100, 1000, 5000] * 3:
        for function, given in ((join, words(count)), (directly, words(count)), (ask, count)):
            assert function(store, given) == " ".join(words(count))
            function.post_return(store)
    assert collections(store) > (300 if stress else 5)


def test_without_the_line():
    """TinyGo's own message, which docs/tinygo.md explains."""
    done = tinygo("build", "-target=wasip2", "-gc=custom", TAGS, "-o", os.devnull, "./test/tinygo/ends")
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert done.returncode != 0 and lines[0] == "# runtime" and len(lines) == 2, done.stderr
    assert lines[1].endswith("undefined: realloc") and "`undefined: realloc`" in (ROOT / "docs/tinygo.md").read_text()


@pytest.mark.parametrize("name", each("wasip2", more=re.compile("(channel|finalizer|gc)$")))
def test_tinygos_own_programs(name):
    both_ways(name, "wasip2")
