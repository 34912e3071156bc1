"""Builds the programs under each collector, once: a digest of the sources decides whether a module is current.

    bench/build/tinygo/PROGRAM-SCHEDULER-COLLECTOR-O.wasm      O: TinyGo's -opt
"""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from common import ROOT, digest, made, run, version

OUT = ROOT / "bench/build/tinygo"

CUSTOM = ["-gc=custom", "-tags=custommalloc {}"]
COLLECTORS = {
    "glebe": CUSTOM,
    "conservative": ["-gc=conservative"],
    "precise": ["-gc=precise"],
    "boehm": ["-gc=boehm"],
    "nottinygc": CUSTOM,
    "never": ["-gc=custom", "-tags={}"],
    "leaking": ["-gc=leaking"],
}
FLOORS = ("never", "leaking")  # they never collect, with and without TinyGo's code to note references
PROGRAMS = ("strings", "trees", "maps", "json", "server", "regex", "waf", "goroutines")


def rows():
    """(program, scheduler) for each row of the tables."""
    for scheduler in ("none", "asyncify"):
        for program in PROGRAMS:
            if (program, scheduler) != ("goroutines", "none"):
                yield program, scheduler


def collectors(scheduler):
    """The collectors that run with this scheduler: nottinygc traps with goroutines."""
    return [c for c in COLLECTORS if (c, scheduler) != ("nottinygc", "asyncify")]


def tool(name, variable):
    """The path of a command: from $variable, PATH, or tools/setup."""
    found = os.environ.get(variable) or shutil.which(name)
    if not found:
        asked = subprocess.run([ROOT / "tools/setup", "which", name], capture_output=True, text=True, check=False)
        found = asked.stdout.strip() if asked.returncode == 0 else ""
    if not found:
        sys.exit(f"{name} is not here: put it on PATH, or into ${variable}")
    return found


def module(program, scheduler, collector, optimize="2", folder=HERE):
    tinygo = tool("tinygo", "TINYGO")
    target = OUT / f"{program}-{scheduler}-{collector}-{optimize}.wasm"
    flags = [f.format(collector) for f in COLLECTORS[collector]]
    command = [tinygo, "build", "-target=wasip1", f"-scheduler={scheduler}", f"-opt={optimize}", "-no-debug", *flags,
               "-o", str(target), f"./{program}"]
    sources = [folder / program, folder / "go.mod", folder / "go.sum"] + [HERE / "under"] * (folder == HERE)
    if collector == "glebe":
        sources += [ROOT / "src", ROOT / "include", ROOT / "bindings/tinygo"]
    return made(target, digest(sources, command, version(tinygo, "version")), lambda: run(command, folder))


def modules(wanted):
    """Builds the wanted modules, two at a time; returns {(program, scheduler, collector, optimize): path}."""
    wanted = list(dict.fromkeys(wanted))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(wanted, pool.map(lambda w: module(*w), wanted)))


def wazero_host():
    target = OUT / "wazero-host"
    command = [tool("go", "GO"), "build", "-o", str(target), "./host"]
    return made(target, digest([HERE / "host", HERE / "go.sum"]), lambda: run(command, HERE))
