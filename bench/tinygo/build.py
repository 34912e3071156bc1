"""Builds the programs under each collector, once: a module is known by a digest of what it is made from.

    bench/build/tinygo/PROGRAM-SCHEDULER-COLLECTOR-O.wasm      O: TinyGo's -opt
"""

import concurrent.futures
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OUT = ROOT / "bench/build/tinygo"

CUSTOM = ["-gc=custom", "-tags=custommalloc {}"]
COLLECTORS = {
    "glebe": CUSTOM,
    "conservative": ["-gc=conservative"],
    "precise": ["-gc=precise"],
    "boehm": ["-gc=boehm"],
    "nottinygc": CUSTOM,
    "leaking": ["-gc=leaking"],
}
PROGRAMS = ("strings", "trees", "maps", "json", "server", "regex", "goroutines")


def rows():
    """(program, scheduler) for each row of the tables."""
    for scheduler in ("none", "asyncify"):
        for program in PROGRAMS:
            if (program, scheduler) != ("goroutines", "none"):
                yield program, scheduler


def collectors(scheduler):
    """Those that can run so: nottinygc traps where there are goroutines."""
    return [c for c in COLLECTORS if (c, scheduler) != ("nottinygc", "asyncify")]


def tool(name, variable):
    """A command: what $variable says, what is on PATH, or what tools/setup knows of."""
    found = os.environ.get(variable) or shutil.which(name)
    if not found:
        asked = subprocess.run([ROOT / "tools/setup", "which", name], capture_output=True, text=True, check=False)
        found = asked.stdout.strip() if asked.returncode == 0 else ""
    if not found:
        sys.exit(f"{name} is not here: put it on PATH, or into ${variable}")
    return found


def digest(paths, *words):
    sha = hashlib.sha256(repr(words).encode())
    for path in sorted(p for top in paths for p in (top.rglob("*") if top.is_dir() else [top])):
        if path.suffix in (".go", ".c", ".h", ".mod", ".sum"):
            sha.update(path.read_bytes())
    return sha.hexdigest()


def made(target, key, command, folder):
    """Runs the command unless the target stands there, made from the same."""
    stamp = target.with_suffix(".key")
    if target.exists() and stamp.exists() and stamp.read_text() == key:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    stamp.write_text(key)
    return target


def module(program, scheduler, collector, optimize="2", folder=HERE):
    tinygo = tool("tinygo", "TINYGO")
    target = OUT / f"{program}-{scheduler}-{collector}-{optimize}.wasm"
    flags = [f.format(collector) for f in COLLECTORS[collector]]
    command = [tinygo, "build", "-target=wasip1", f"-scheduler={scheduler}", f"-opt={optimize}", "-no-debug", *flags, "-o", str(target), f"./{program}"]
    sources = [folder / program, folder / "go.mod", folder / "go.sum"] + [HERE / "under"] * (folder == HERE)
    if collector == "glebe":
        sources += [ROOT / "src", ROOT / "include", ROOT / "bindings/tinygo"]
    return made(target, digest(sources, command, version(tinygo)), command, folder)


def version(tinygo, known={}):
    if tinygo not in known:
        known[tinygo] = subprocess.run([tinygo, "version"], capture_output=True, text=True, check=True).stdout.strip()
    return known[tinygo]


def modules(wanted):
    """Builds those that are wanted, two at a time; returns {(program, scheduler, collector, optimize): path}."""
    wanted = list(dict.fromkeys(wanted))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(wanted, pool.map(lambda w: module(*w), wanted)))


def wazero_host():
    go = tool("go", "GO")
    target = OUT / "wazero-host"
    return made(target, digest([HERE / "host", HERE / "go.sum"]), [go, "build", "-o", str(target), "./host"], HERE)


def code_bytes(path):
    """The bytes of a module's code section."""
    binary, at = path.read_bytes(), 8

    def number(at):
        value = shift = 0
        while True:
            byte = binary[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value, at

    while at < len(binary):
        section = binary[at]
        length, at = number(at + 1)
        if section == 10:
            return length
        at += length
    return 0
