"""The standard library's own tests have the same results with glebe under stress as with TinyGo's own collector: for
wasip1, in wazero.

std.txt is the list. The tests of a package are in the package, so it must be able to import glebe: roots.py has a copy
of the Go that TinyGo uses, in which glebe is a package of the standard library, and one of the packages that TinyGo
replaces, such as sync and os. Each listed package has two more test files there: one goes to the package's folder, as
tests read files there, and the other sets the stress. The tests of both collectors are compiled from these copies.
GLEBE_TEST_STD=1 (`make test-long`) runs them; -s prints the results.
"""

import functools
import os
import re
import subprocess
import time

import pytest
import roots
from test_tinygo import OUT, ROOT, TINYGO
from test_programs import WAZERO

LIST = [line.split() for line in (ROOT / "test/tinygo/std.txt").read_text().splitlines() if line and line[0] != "#"]
pytestmark = pytest.mark.skipif(not os.environ.get("GLEBE_TEST_STD"), reason="takes long; GLEBE_TEST_STD=1 runs it")
TIMEOUT = "10m"

# Needs no import, which some packages could not have. The compiler reads the file first because of its name: variables
# of some tests are the contents of files.
FOLDER_FILE = "0_glebe_test.go"
FOLDER = """package {package}

//export chdir
func glebeChdir(path *byte) int32

var glebeFolder = glebeGo("/{folder}\\x00")

func glebeGo(folder string) bool {{
	path := []byte(folder)
	if glebeChdir(&path[0]) != 0 {{
		panic("the folder is not there")
	}}
	return true
}}
"""

# Collects at every n-th allocation, where the environment's GLEBE_EVERY is n, or else as always. Checks that
# collections happen; otherwise no test runs.
STRESS = """//go:build gc.custom

package {package}

import (
	"unsafe"

	glebe "glebe/bindings/tinygo"
)

var glebeSink *int

//export getenv
func glebeGetenv(name *byte) unsafe.Pointer

func init() {{
	name, every := []byte("GLEBE_EVERY\\x00"), 0
	for at := glebeGetenv(&name[0]); at != nil && *(*byte)(at) != 0; at = unsafe.Add(at, 1) {{
		every = 10*every + int(*(*byte)(at)-'0')
	}}
	if every == 0 {{
		return
	}}
	before := glebe.ReadStats().Collections
	glebe.SetStress(every)
	for i := 0; i < 2*every; i++ {{
		glebeSink = new(int)
	}}
	if glebe.ReadStats().Collections == before {{
		panic("no stress")
	}}
	println("glebe: under stress")
}}
"""


def environment():
    # Without os.environ's GOFLAGS, which may hold flags for modules.
    return {**roots.environment(), "GOROOT": str(roots.goroot()), "GOFLAGS": ""}


def source(package):
    """(tree, folder in it) of the package: TinyGo's own, if it has one with tests, comes before Go's."""
    own = roots.tinygoroot() / "src" / package
    return (roots.tinygoroot() if any(own.glob("*_test.go")) else roots.goroot()) / "src", package


@functools.cache
def compiled(package, glebe):
    """The package's tests as a module, with glebe or with TinyGo's own collector."""
    tree, folder = source(package)
    texts = [path.read_text() for path in sorted((tree / folder).glob("*_test.go")) if "glebe" not in path.name]
    names = re.findall(r"^package (\w+)", "\n".join(texts), re.M)
    # What tests from outside import cannot import them back.
    name = next((name for name in names if name.endswith("_test")), names[0])
    (tree / folder / FOLDER_FILE).write_text(FOLDER.format(package=name, folder=folder))
    (tree / folder / "glebe_test.go").write_text(STRESS.format(package=name))
    module = OUT / "std" / f"{package.replace('/', '+')}-{'glebe' if glebe else 'stock'}.wasm"
    module.parent.mkdir(parents=True, exist_ok=True)
    flags = ["-gc=custom", "-tags=custommalloc"] if glebe else []
    command = [roots.command(), "test", "-c", "-target=wasip1", "-opt=1", "-no-debug", *flags, "-o", str(module),
               package]
    done = subprocess.run(command, cwd=OUT / "std", env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stderr[-3000:]}"
    return module


def outcome(package, every, arguments, timeout=TIMEOUT, options=()):
    """(status, [(test, how it ended)], the last word, seconds) with TinyGo's own collector (`every` None), or with
    glebe, which collects at each `every`-th allocation too (0: only as always)."""
    module = compiled(package, every is not None)
    begin = time.monotonic()
    command = [WAZERO, "run", f"-mount={source(package)[0]}:/", f"-timeout={timeout}", *options,
               f"-env=GLEBE_EVERY={every or 0}", str(module), "-test.v", *arguments]
    done = subprocess.run(command, cwd=OUT, capture_output=True, text=True, errors="replace", check=False)
    text = done.stdout + done.stderr
    module.with_suffix(".log").write_text(text)
    assert not every or "glebe: under stress" in text, f"{package} never got to its stress: {text[-1000:]}"
    text = re.sub("0x[0-9a-f]+", "0x", text)  # names with addresses in them
    ends = re.findall(r"^\s*--- (PASS|FAIL|SKIP): (\S+)", text, re.M)
    return done.returncode, [(test, end) for end, test in ends], text.split()[-1:], time.monotonic() - begin


@pytest.mark.parametrize("line", LIST, ids=[line[0] for line in LIST])
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


def test_differences_are_found():
    """Control: one test less is a different outcome, and so is a failing test."""
    if not TINYGO or not WAZERO:
        pytest.skip("TinyGo or wazero is not here: tools/setup tinygo wazero")
    whole, less = outcome("path", None, []), outcome("path", None, ["-test.skip=^TestClean$"])
    assert ("TestClean", "PASS") in whole[1] and whole[:3] != less[:3]
