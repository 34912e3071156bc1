"""glebe.dll under unmodified programs: our own, which check whose blocks they get, and real ones, whose output must
stay the same.

    build/windows-programs/    wheels for Windows and a Python (tools/setup windows-programs, windows-programs-long)

GLEBE_TEST_LONG=1 runs the larger of the real ones, and LLVM's JIT ten thousand times."""

import re
import shutil
import subprocess

import pytest

from programs import COMPILERS, HERE, LONG, ROOT, compile_program, glebe_exe
from under_wine import source, windows

OUT = ROOT / "build/test-windows/under"
PROGRAMS = ROOT / "build/windows-programs"
long = pytest.mark.skipif(not LONG, reason="GLEBE_TEST_LONG=1")
CLANG = [*COMPILERS["clang"][".c"], "-O1", "-fno-builtin"]


def program(name):
    """The path of a real program's file; skips the test if it is missing."""
    found = sorted(PROGRAMS.glob(name))
    if not found:
        pytest.skip(f"{name} is not here: tools/setup windows-programs windows-programs-long")
    return found[-1]


@pytest.fixture(scope="module")
def folder():
    """under.exe and plugin.dll, which it loads; early.exe, which imports it."""
    OUT.mkdir(parents=True, exist_ok=True)
    library = OUT / "plugin.dll"
    subprocess.run([*CLANG, "-shared", "-nostdlib", "-Wl,-e,plugin_main", HERE / "plugin.c", "-lucrt", "-lkernel32",
                    "-o", library], check=True)
    shutil.copy(compile_program("under.c", "clang", archive=None), OUT / "under.exe")
    subprocess.run([*CLANG, HERE / "early.c", library, "-o", OUT / "early.exe"], check=True)
    return OUT


@pytest.fixture
def glebe(wine):
    """Runs `glebe.exe run` with these words."""
    exe = glebe_exe()
    return lambda *words, **options: wine(exe, "run", "--", *words, **options)


def redirected(err, name):
    """The names of the functions that were redirected in a module."""
    return {function for line in re.findall(rf": redirected in {re.escape(name)} (.*)", err)
            for function in line.split()}


@pytest.mark.parametrize("what", ["family", "late", "threads"])
def test_under(glebe, folder, what):
    """Each function, by import and by GetProcAddress; libraries with another C library, loaded and unloaded;
    threads."""
    status, out, err = glebe(folder / "under.exe", what, windows(folder))
    assert (status, out) == (0, "well\n"), out + err
    status, out, err = glebe(folder / "under.exe", what, windows(folder), GLEBE_STATS="json")
    assert '"errors": 0' in err, err


def test_control(wine, folder):
    """Control: without glebe.dll the blocks are not glebe's."""
    assert wine(folder / "under.exe", "owns")[0] == 1
    assert "under.c" in wine(folder / "under.exe", "family")[1]


def test_blocks_from_before(glebe, folder):
    """A block that a library allocated before glebe.dll was loaded: free passes it to the C library, and counts it."""
    status, out, err = glebe(folder / "early.exe", GLEBE_STATS="json")
    assert (status, out) == (0, "well\n"), out + err
    assert re.search(r'"foreign_frees": [1-9]', err) and '"errors": 0' in err, err


def test_report(glebe, folder):
    """The report names the redirected functions of each module, also of later ones, and counts foreign frees."""
    status, out, err = glebe(folder / "under.exe", "late", windows(folder), GLEBE_VERBOSE="1")
    assert (status, out) == (0, "well\n"), out + err
    assert {"malloc", "free", "_aligned_malloc", "_strdup"} <= redirected(err, "under.exe"), err
    assert redirected(err, "plugin.dll") == {"malloc", "free", "_strdup"}, err
    assert re.search(r"under\.exe\[\d+\]: redirected \d+ functions in \d+ modules; freed \d+ blocks of other", err), err
    assert "not redirected" not in err, err


def test_static_c_library_is_told(glebe, folder):
    """A program that imports from no C library cannot be redirected: glebe.dll prints that, and the program runs."""
    alone = folder / "alone.exe"
    subprocess.run([*CLANG, "-nostdlib", "-Wl,-e,alone_main", HERE / "alone.c", "-lkernel32", "-o", alone], check=True)
    status, _, err = glebe(alone, GLEBE_VERBOSE="1")
    assert status == 7 and "not redirected: alone.exe" in err, err


def test_children(glebe, folder):
    """A child is redirected on request, and otherwise not."""
    assert glebe(folder / "under.exe", "child", windows(folder / "under.exe"))[0] == 1
    assert glebe(folder / "under.exe", "child", windows(folder / "under.exe"), GLEBE_TOOL_CHILDREN="1")[0] == 0


def test_misuse(glebe, folder):
    """The report names the call and the address."""
    status, _, err = glebe(folder / "under.exe", "misuse")
    assert status == 3 and re.search(r"glebe: free\(0x[0-9a-f]+\): address is 64 bytes inside a block", err), err


# ---- third-party programs ----


def same_output(wine, glebe, words, *modules):
    """Runs with and without glebe: the output and status are the same; glebe was in each of the modules, and reported
    no error."""
    status, out, err = wine(*words)
    statistics = {"GLEBE_VERBOSE": "1", "GLEBE_STATS": "json"}
    glebes_status, glebes_out, glebes_err = glebe(*words, **statistics)
    assert (glebes_status, glebes_out) == (status, out), glebes_err + err
    for module in modules:
        assert {"malloc", "free"} <= redirected(glebes_err, module), glebes_err
    assert re.search(r'"pages_taken": [1-9]', glebes_err) and '"errors": 0' in glebes_err, glebes_err
    return out


def test_clang_format(wine, glebe, tmp_path):
    """LLVM's formatter (UCRT, dynamic)."""
    text = tmp_path / "text.cpp"
    text.write_text(source(20000 if LONG else 500))
    out = same_output(wine, glebe, [program("clang_format/data/bin/clang-format.exe"), windows(text)],
                      "clang-format.exe")
    assert len(out) > 140 * (20000 if LONG else 500)


@long
def test_clang_tidy(wine, glebe, tmp_path):
    """LLVM's linter: twenty modules."""
    text = tmp_path / "text.cpp"
    text.write_text(source(500) + "int main() { return f0(1, 2); }\n")
    out = same_output(wine, glebe, [program("clang_tidy/data/bin/clang-tidy.exe"), windows(text), "--checks=*", "--"],
                      "clang-tidy.exe")
    assert out.count("warning: ") > 1000


PYTHON = """
import ctypes, decimal, hashlib, json, sqlite3, sys, threading, xml.etree.ElementTree, zlib
table = {str(i): [i] * (i % 50) for i in range(20000)}
text = json.dumps(table)
assert json.loads(text) == table
print(hashlib.sha256(text.encode()).hexdigest(), len(zlib.compress(text.encode())))
base = sqlite3.connect(":memory:")
base.execute("create table t(a, b)")
base.executemany("insert into t values(?, ?)", ((i, "x" * (i % 100)) for i in range(10000)))
print(base.execute("select sum(a), sum(length(b)) from t").fetchall(), decimal.Decimal(2).sqrt())
threads = [threading.Thread(target=lambda: [bytearray(n) for n in range(5000)]) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(xml.etree.ElementTree.fromstring("<a>" + "<b/>" * 1000 + "</a>")))
"""


@long
def test_python(wine, glebe, tmp_path):
    """CPython, which loads extension modules as it imports them, with all of its blocks from malloc."""
    script = tmp_path / "script.py"
    script.write_text(PYTHON)
    python = program("python-*/python.exe")
    home = {"PYTHONHOME": windows(python.parent), "PYTHONMALLOC": "malloc", "WINEPATH": windows(python.parent / "lib")}
    words = [python, windows(script)]
    out = same_output(lambda *w: wine(*w, **home), lambda *w, **o: glebe(*w, **home, **o), words, "python313.dll")
    assert len(out.splitlines()) == 3


# ---- LLVM's JIT ----


@pytest.fixture(scope="module")
def jit():
    """The program, LLVM, and the folder of LLVM's own C++ library."""
    library = program("llvmlite/binding/llvmlite.dll")
    built = compile_program("jit.cpp", "gcc", archive=None)
    return lambda run, *words: run(built, windows(library), *map(str, words),
                                   WINEPATH=windows(PROGRAMS / "llvmlite.libs"))


@long
@pytest.mark.parametrize(("rounds", "threads", "functions"), [(1, 1, 3000), (10000, 1, 1), (10000, 2, 1), (500, 8, 5)])
@pytest.mark.parametrize("lock", ["recursive", "critical"])
def test_jit(glebe, jit, rounds, threads, functions, lock):
    """No crash and no deadlock, with one or more threads, and under recursive locks."""
    status, out, err = jit(glebe, rounds, threads, functions, lock)
    assert status == 0 and out.startswith(f"well: {rounds} rounds of {functions} functions"), out + err


@long
def test_jit_control(glebe, jit):
    """Control: a lock that is not recursive deadlocks, and the program notices."""
    status, out, err = jit(glebe, 10, 1, 1, "plain")
    assert status == 2 and out.startswith("deadlock"), out + err
