"""Third-party code: the tests of public pure-Go modules, with glebe collecting all the time, have the same results as
with TinyGo's own collector.

A module is copied from Go's cache into build/test-tinygo/modules, and gets one file that imports glebe and sets the
stress; files that import another collector are left out. Both builds are `tinygo test -c`, run by wazero with the
package's folder as its working directory. modules.txt is the list. An argument +ctype there is for modules with
archives of C++: the build links functions such as toupper, which TinyGo's C library lacks. With +pass all tests must
pass, and are not run with TinyGo's own collector. This takes long, and runs only with GLEBE_TEST_MODULES=1 (`make
test-long`); -s prints the results.
"""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest
from test_tinygo import ENVIRONMENT, GO, OUT, ROOT, TINYGO
from test_programs import CLANG, WAZERO

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


@functools.cache
def ctype():
    """An archive of the character functions of the wasi-libc that clang uses. docs/tinygo.md has the same in shell."""
    def said(*command, cwd=None):
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout.split()
    libc, = said(CLANG, "--target=wasm32-wasi", "-print-file-name=libc.a")
    archiver, = said(CLANG, "-print-prog-name=llvm-ar")
    if not pathlib.Path(libc).exists():
        pytest.skip("wasi-libc is not here: tools/setup wasm")
    folder = OUT / "ctype"
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [member for member in said(archiver, "t", libc)
              if re.fullmatch(r"(is[a-z]*|to(upper|lower|wctrans)|__ctype.*)\.o", member) and member != "isatty.o"]
    said(archiver, "x", libc, *chosen, cwd=folder)
    said(archiver, "rcs", "libctype.a", *chosen, cwd=folder)
    return folder / "libctype.a"


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
        for file in folder.rglob("*.go"):
            if '"github.com/wasilibs/nottinygc"' in file.read_text():
                file.unlink()
        if not (folder / "go.mod").exists():
            go(folder, "mod", "init", module)
        go(folder, "mod", "tidy", "-e")
        (folder / ".ready").touch()
    go(folder, "mod", "edit", "-require=github.com/glebe-alloc/glebe@v0.0.0",
       f"-replace=github.com/glebe-alloc/glebe={ROOT}")
    return folder


def outcome(folder, package, every, arguments, linked):
    """(status, {test: how it ended}, seconds) of the package's tests; with glebe if `every` is set, which then collects
    at every so many allocations."""
    where = folder / package
    module = folder / f"{'glebe' if every else 'stock'}.wasm"
    flags = (["-gc=custom", "-tags=custommalloc"] if every else []) + linked
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
    linked = [f"-ldflags=-extldflags={ctype()}"] if "+ctype" in arguments else []
    given = [argument for argument in arguments if argument[0] != "+"]
    ours = outcome(folder, package, every, given, linked)
    passed = sum(end == "PASS" for _, end in ours[1])
    said = (f"\n{module}/{package} {version}, a collection at every {every}: {passed} of {len(ours[1])} pass, "
            f"{ours[2]:.0f} s")
    if "+pass" in arguments:
        print(said)
        assert ours[0] == 0 and passed == len(ours[1]) > 0
        return
    stock = outcome(folder, package, None, given, linked)
    print(f"{said} (stock {stock[2]:.0f} s)")
    last = (folder / "stock.log").read_text().split()[-1:]
    assert stock[1] and last in (["PASS"], ["FAIL"]), "not even TinyGo's own collector came to the end"
    assert ours[:2] == stock[:2]
