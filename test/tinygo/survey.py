#!/usr/bin/env python3
"""Which packages of the standard library have tests that end with glebe as with TinyGo's own collector?

    survey.py                 every package with tests, the short ones first, that the results lack: hours
    survey.py PACKAGE ...     these, again
    survey.py --table         the results as a table

Results go to build/test-tinygo/survey.jsonl, a line for each package. A panic ends a WebAssembly program, so a test in
which TinyGo's own collector ends is left out, and the rest runs again. What differs with glebe is a bug of glebe until
it is explained. Packages that add something to test_std.py go from here to std.txt.
"""

import json
import re
import shutil
import sys

import roots
import test_std
from test_tinygo import OUT

RESULTS = OUT / "survey.jsonl"
CACHE = OUT / "std/wazero"  # what wazero compiled; several runs of a module follow one another
SKIPS = 12
SECONDS = 60


def run(package, every, skipped, seconds=SECONDS):
    """What test_std.outcome says, the test that was running in the end, and the last lines."""
    arguments = ["-test.skip=" + "|".join(f"^{test}$" for test in skipped)] if skipped else []
    found = test_std.outcome(package, every, arguments, f"{seconds}s", [f"-cachedir={CACHE}"])
    log = test_std.compiled(package, every is not None).with_suffix(".log").read_text()
    begun = re.findall(r"^=== RUN +(\S+)", log, re.M)
    said = re.findall(r"^(?:panic|fatal error|error instantiating|.*wasm error|timeout).*", log, re.M)
    return found, begun[-1].split("/")[0] if begun else None, (said or log.strip().splitlines()[-1:] or [""])[0]


def stock(package):
    """(outcome, tests left out) with TinyGo's own collector, or why there is none."""
    skipped, slow = [], 0
    while True:
        found, running, said = run(package, None, skipped)
        slow += found[3] > SECONDS
        if found[2] in (["PASS"], ["FAIL"]):
            return (found, skipped) if found[1] else "no test runs"
        if not running or running in skipped or len(skipped) == SKIPS or slow > 2:
            return f"ends before the first test: {said}" if not running else f"ends in many tests, as {running}: {said}"
        skipped.append(running)


def built(package, glebe):
    """Nothing, or why the package's tests do not compile."""
    try:
        test_std.compiled(package, glebe)
        return None
    except AssertionError as problem:
        lines = [line for line in str(problem).splitlines()[1:] if line.strip() and line[0] not in "#" and
                 "warning" not in line]
        return lines[0] if lines else "?"


def surveyed(package):
    entry = {"package": package}
    if why := built(package, False):
        return entry | {"stock": "does not build", "why": why}
    found = stock(package)
    if isinstance(found, str):
        return entry | {"stock": "does not run", "why": found}
    theirs, skipped = found
    entry |= {"stock": "runs", "tests": len(theirs[1]), "passed": sum(end == "PASS" for _, end in theirs[1]),
              "skipped": skipped, "seconds": round(theirs[3], 1)}
    if why := built(package, True):
        return entry | {"glebe": "does not build", "why": why}
    for every in (0, 10, 100, 1000):
        try:
            ours, running, said = run(package, every, skipped, 2 * SECONDS)
        except AssertionError as problem: # it ends before it says that it collects
            entry[f"every {every}"] = str(problem).splitlines()[0]
            continue
        same = ours[:3] == theirs[:3]
        entry[f"every {every}"] = "same" if same else f"{running}: {said}" if ours[2] != theirs[2] else \
            "differs: " + ", ".join(sorted({test for test, _ in set(ours[1]) ^ set(theirs[1])}))
        entry[f"seconds {every}"] = round(ours[3], 1)
        if same == bool(every):
            break
    return entry


def packages():
    """Every package of Go or TinyGo with tests, those with the fewest bytes of tests first."""
    sizes = {}
    for tree in (roots.goroot(), roots.tinygoroot()):
        for file in (tree / "src").rglob("*_test.go"):
            name = str(file.parent.relative_to(tree / "src"))
            if not re.search(r"testdata|vendor|^cmd|^machine|^glebe", name) and "glebe" not in file.name:
                sizes[name] = sizes.get(name, 0) + file.stat().st_size
    return sorted(sizes, key=sizes.get)


def known():
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {entry["package"]: entry for entry in map(json.loads, lines)}


def table():
    for package, e in sorted(known().items()):
        runs = "; ".join(f"{key}: {e[key]}" for key in e if key.startswith("every"))
        print(f"| {package} | {e['stock']} | {e.get('passed', '')} of {e.get('tests', '')} | {runs or e.get('why')} |")


def main():
    if sys.argv[1:] == ["--table"]:
        return table()
    have = {*known(), *(line[0] for line in test_std.LIST)}
    for package in sys.argv[1:] or [p for p in packages() if p not in have]:
        entry = surveyed(package)
        print(json.dumps(entry), flush=True)
        with RESULTS.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        shutil.rmtree(CACHE, ignore_errors=True)
        for wasm in (OUT / "std").glob(f"{package.replace('/', '+')}-*.wasm"):
            wasm.unlink()
        test_std.compiled.cache_clear()


if __name__ == "__main__":
    main()
