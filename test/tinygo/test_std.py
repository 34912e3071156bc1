"""The standard library's own tests have the same results with glebe under stress as with TinyGo's own collector: for
wasip1, in wazero.

std.txt is the list. The tests of a package are in the package, so it must be able to import glebe:
build/test-tinygo/goroot is a copy of the Go that TinyGo uses, in which glebe is a package of the standard library, and
each listed package has one more test file, which sets the stress. The tests of both collectors are compiled from that
copy. Packages that TinyGo replaces, such as sync and os, are left out: their tests come from TinyGo's folder, which has
no such file. `make test-all` runs one package, GLEBE_TEST_STD=1 (`make test-long`) all; -s prints the results.
"""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest
from test_tinygo import ENVIRONMENT, GO, OUT, ROOT, TINYGO
from test_programs import WAZERO

LIST = [line.split() for line in (ROOT / "test/tinygo/std.txt").read_text().splitlines() if line and line[0] != "#"]
ALL = os.environ.get("GLEBE_TEST_STD")
QUICK = ("path",)
GOROOT = OUT / "goroot"
# Without os.environ's GOFLAGS, which may hold flags for modules.
WORKS = {**ENVIRONMENT, "GOROOT": str(GOROOT), "GOFLAGS": "", "GOWORK": "off"}
TIMEOUT = "10m"

# Checks that collections happen; otherwise no test runs.
STRESS = """//go:build gc.custom

package {package}

import glebe "glebe/bindings/tinygo"

var glebeSink *int

func init() {{
	before := glebe.ReadStats().Collections
	glebe.SetStress({every})
	for i := 0; i < 2*{every}; i++ {{
		glebeSink = new(int)
	}}
	if glebe.ReadStats().Collections == before {{
		panic("no stress")
	}}
}}
"""


@functools.cache
def goroot():
    """Makes the copy, unless it exists and is of the same Go. glebe's own files are links, so they are always
    current."""
    asked = subprocess.run([GO, "env", "GOROOT"], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    theirs = pathlib.Path(asked.stdout.strip())
    version = (theirs / "VERSION").read_text()
    if not (GOROOT / ".ready").exists() or (GOROOT / ".ready").read_text() != version:
        shutil.rmtree(GOROOT, ignore_errors=True)
        GOROOT.mkdir(parents=True)
        for entry in theirs.iterdir():
            if entry.name != "src":
                (GOROOT / entry.name).symlink_to(entry)
        shutil.copytree(theirs / "src", GOROOT / "src",
                        ignore=lambda folder, names: {"cmd"} & set(names) if folder == str(theirs / "src") else ())
        glebe = GOROOT / "src/glebe"
        (glebe / "bindings").mkdir(parents=True)
        for name in ("bindings/tinygo", "src", "include"):
            (glebe / name).symlink_to(ROOT / name)
        (GOROOT / ".ready").write_text(version)
    return GOROOT


@functools.cache
def compiled(package, every):
    """The package's tests as a module: with glebe, collecting at every n-th allocation, or with TinyGo's own
    collector."""
    folder = goroot() / "src" / package
    name = re.search(r"^package (\w+)", next(text for path in sorted(folder.glob("*_test.go"))
                                             if re.search(r"^package \w+", text := path.read_text(), re.M)), re.M)[1]
    (folder / "glebe_test.go").write_text(STRESS.format(package=name, every=every or 1))
    module = OUT / "std" / f"{package.replace('/', '+')}-{'glebe' if every else 'stock'}.wasm"
    module.parent.mkdir(parents=True, exist_ok=True)
    flags = ["-gc=custom", "-tags=custommalloc"] if every else []
    command = [TINYGO, "test", "-c", "-target=wasip1", "-opt=1", "-no-debug", *flags, "-o", str(module), package]
    done = subprocess.run(command, cwd=OUT / "std", env=WORKS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[-3000:]}"
    return module


def outcome(package, every, arguments, timeout=TIMEOUT):
    """(status, [(test, how it ended)], the last word, seconds)"""
    module = compiled(package, every)
    begin = time.monotonic()
    folder = goroot() / "src" / package
    command = [WAZERO, "run", f"-mount={folder}:/", f"-timeout={timeout}", str(module), "-test.v", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    text = done.stdout + done.stderr
    module.with_suffix(".log").write_text(text)
    text = re.sub("0x[0-9a-f]+", "0x", text)  # names with addresses in them
    ends = re.findall(r"^\s*--- (PASS|FAIL|SKIP): (\S+)", text, re.M)
    return done.returncode, [(test, end) for end, test in ends], text.split()[-1:], time.monotonic() - begin


def marks(package):
    return [] if package in QUICK else pytest.mark.skipif(not ALL, reason="takes long; GLEBE_TEST_STD=1 runs it")


@pytest.mark.more
@pytest.mark.parametrize("line", [pytest.param(line, id=line[0], marks=marks(line[0])) for line in LIST])
def test_package(line):
    if not TINYGO or not WAZERO:
        pytest.skip("TinyGo or wazero is not here: tools/setup tinygo wazero")
    package, every, *arguments = line
    stock, ours = outcome(package, None, arguments), outcome(package, int(every), arguments)
    passed = sum(end == "PASS" for _, end in ours[1])
    print(f"\n{package}, a collection at every {every}: {passed} of {len(ours[1])} pass, {ours[3]:.0f} s "
          f"(stock {stock[3]:.0f} s)")
    assert stock[1] and stock[2] in (["PASS"], ["FAIL"]), f"not even TinyGo's own collector came to the end: {stock[2]}"
    assert ours[:3] == stock[:3]


@pytest.mark.more
def test_differences_are_found():
    """Control: one test less is a different outcome, and so is a failing test."""
    if not TINYGO or not WAZERO:
        pytest.skip("TinyGo or wazero is not here: tools/setup tinygo wazero")
    whole, less = outcome("path", None, []), outcome("path", None, ["-test.skip=^TestClean$"])
    assert ("TestClean", "PASS") in whole[1] and whole[:3] != less[:3]
