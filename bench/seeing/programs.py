"""The programs of bench/cases.toml that the figures are measured on, and running them."""

import json
import os
import pathlib
import subprocess
import sys
import tomllib

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))

ROOT = BENCH.parent
GLEBE = ROOT / "build/glebe"
BUILD = pathlib.Path(os.environ.get("BENCH_BUILD") or BENCH / "build").resolve()
MADE = ROOT / "build/seeing"
TIMEOUT_S = 900
TWENTY = """lua-trees lua-strings lua-tables lua-json sqlite python clang gcc z3 ghostscript python-documents
            python-networkx python-lxml python-pillow python-numpy ruby perl php protobuf luatex""".split()


def cases(names):
    """The cases of these names, in their order."""
    known = {case["name"]: case for case in tomllib.loads((BENCH / "cases.toml").read_text())["case"]}
    return [known[name] for name in names]


def command(case, scratch, size="quick"):
    """A case's program and arguments, and the environment to run it in."""
    places = {"bin": BUILD / "bin", "data": BUILD / "data", "venv": BUILD / "venv", "real": BENCH / "real",
              "tmp": scratch, "n": case[size]}
    return [word.format(**places) for word in case["run"]], dict(os.environ, **case.get("environment", {}))


def run(words, environment=None, ok=True, **more):
    """Runs a program without input. If it fails, RuntimeError with the end of what it said."""
    done = subprocess.run([str(word) for word in words], env=environment, timeout=TIMEOUT_S, check=False, text=True,
                          errors="replace", stdin=subprocess.DEVNULL, capture_output=True, **more)
    if ok and done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))[:90]}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
    return done


def measured(words, environment, preloads=()):
    """Processor time in seconds and the peak of the resident set in bytes, of one run (bench/src/measure.c)."""
    preload = [f"LD_PRELOAD={' '.join(map(str, preloads))}"] if preloads else []
    read, write = os.pipe()
    with os.fdopen(read) as report:
        try:
            run([BUILD / "bin/measure", write, *preload, *words], environment, pass_fds=[write])
        finally:
            os.close(write)
        user, system, _, peak, _, _, status, signal = map(int, report.read().split())
    if status or signal:
        raise RuntimeError(f"{' '.join(map(str, words))[:90]}: status {status}, signal {signal}")
    return (user + system) / 1e6, peak * 1024


def last_object(done):
    """The command's JSON object, which ends the output; before it, the program may have printed anything."""
    at = done.stdout.rfind('{"program"')
    if at < 0:
        raise RuntimeError(f"{' '.join(map(str, done.args))[:90]}: no JSON object: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout[at:])


def compiled(source, *flags, compiler="gcc", to=None):
    """Compiles a source of this folder, if it changed."""
    made = MADE / (to or source.rsplit(".", 1)[0])
    path = pathlib.Path(__file__).with_name(source)
    if not made.exists() or made.stat().st_mtime < path.stat().st_mtime:
        MADE.mkdir(parents=True, exist_ok=True)
        run([compiler, "-pthread", *flags, "-o", made, path])
    return made
