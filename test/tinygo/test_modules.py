"""Third-party code: the tests of public pure-Go modules, with glebe collecting all the time, have the same results as
with TinyGo's own collector.

A module is copied from Go's cache into build/test-tinygo/modules, and gets one file that imports glebe and sets the
stress. Both builds are `tinygo test -c`, run by wazero with the package's folder as its working directory. modules.txt
is the list. This takes long, and runs only with GLEBE_TEST_MODULES=1 (`make test-long`); -s prints the results.
"""

import json
import os
import re
import shutil
import subprocess
import time

import pytest
from test_tinygo import ENVIRONMENT, GO, OUT, ROOT, TINYGO
from test_programs import WAZERO

LIST = [line.split() for line in (ROOT / "test/tinygo/modules.txt").read_text().splitlines() if line and line[0] != "#"]
IDS = [f"{module}/{package}" if package != "." else module for module, _, package, *_ in LIST]
ON = os.environ.get("GLEBE_TEST_MODULES")
WORKS = {**ENVIRONMENT, "GOFLAGS": "-mod=mod", "GOWORK": "off"}

STRESS = """//go:build gc.custom

package {package}

import glebe "github.com/glebe-alloc/glebe/bindings/tinygo"

func init() {{ glebe.SetStress({every}) }}
"""


def go(folder, *arguments):
    done = subprocess.run([GO, *arguments], cwd=folder, env=WORKS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"go {' '.join(arguments)}\n{done.stderr}"
    return done.stdout


def copied(module, version, package):
    """A copy of the module, one for each package, that can import glebe."""
    folder = OUT / "modules" / f"{module}@{version}-{package}".replace("/", "+")
    if not (folder / ".ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        (folder.parent / "go.mod").write_text("module none\n\ngo 1.22\n")
        cached = json.loads(go(folder.parent, "mod", "download", "-json", f"{module}@{version}"))["Dir"]
        shutil.copytree(cached, folder, copy_function=shutil.copyfile)
        subprocess.run(["chmod", "-R", "u+w", folder], check=True)
        if not (folder / "go.mod").exists():
            go(folder, "mod", "init", module)
        go(folder, "mod", "tidy", "-e")
        (folder / ".ready").touch()
    go(folder, "mod", "edit", "-require=github.com/glebe-alloc/glebe@v0.0.0",
       f"-replace=github.com/glebe-alloc/glebe={ROOT}")
    return folder


def outcome(folder, package, every, arguments):
    """(status, {test: how it ended}, seconds) of the package's tests; with glebe if `every` is set, which then collects
    at every so many allocations."""
    where = folder / package
    module = folder / f"{'glebe' if every else 'stock'}.wasm"
    flags = ["-gc=custom", "-tags=custommalloc"] if every else []
    command = [TINYGO, "test", "-c", "-target=wasip1", "-opt=1", "-no-debug", *flags, "-o", str(module), "."]
    done = subprocess.run(command, cwd=where, env=WORKS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[-3000:]}"
    begin = time.monotonic()
    command = [WAZERO, "run", f"-mount={where}:/", "-timeout=5m", str(module), "-test.v", *arguments]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, errors="replace", check=False)
    (folder / f"{module.stem}.log").write_text(done.stdout + done.stderr)
    ends = re.findall(r"^\s*--- (PASS|FAIL|SKIP): (\S+)", done.stdout + done.stderr, re.M)
    return done.returncode, [(test, end) for end, test in ends], time.monotonic() - begin


@pytest.mark.skipif(not ON, reason="takes long; GLEBE_TEST_MODULES=1 runs it")
@pytest.mark.parametrize("line", LIST, ids=IDS)
def test_module(line):
    if not TINYGO or not WAZERO:
        pytest.skip("TinyGo or wazero is not here: tools/setup tinygo")
    module, version, package, every, *arguments = line
    folder = copied(module, version, package)
    name = go(folder / package, "list", "-f", "{{.Name}}", ".").strip()
    (folder / package / "glebe_test.go").write_text(STRESS.format(package=name, every=every))
    stock = outcome(folder, package, None, arguments)
    ours = outcome(folder, package, every, arguments)
    passed = sum(end == "PASS" for _, end in ours[1])
    print(f"\n{module}/{package} {version}, a collection at every {every}: {passed} of {len(ours[1])} pass, "
          f"{ours[2]:.0f} s (stock {stock[2]:.0f} s)")
    last = (folder / "stock.log").read_text().split()[-1:]
    assert stock[1] and last in (["PASS"], ["FAIL"]), "not even TinyGo's own collector came to the end"
    assert ours[:2] == stock[:2]
