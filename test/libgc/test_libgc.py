"""The library that replaces bdwgc's: its names against the table in docs/libgc.md and against what Debian's programs
import; programs of our own; and those programs, unmodified, with the same output as on bdwgc.

Programs that are not here are skipped, and named: `tools/setup libgc` installs them. GLEBE_TEST_LONG adds the slower
ones and bdwgc's own tests, whose source `tools/setup libgc` fetches."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

FOLDER = pathlib.Path(__file__).parent
PROGRAMS = FOLDER / "programs"
LONG = pytest.mark.skipif(not os.environ.get("GLEBE_TEST_LONG"), reason="set GLEBE_TEST_LONG=1")
pytestmark = pytest.mark.xdist_group("libgc")
# Libraries and programs of Debian that need libgc.so.1
USERS = ("/usr/bin/w3m", "/usr/bin/asy", "/usr/bin/nix", "/usr/bin/lilypond", "libguile-*.so.*", "libecl.so.*",
         "libneko.so.*", "libpoke.so.*", "libobjc_gc.so.*", "libgccpp.so.*")


@pytest.fixture(scope="session")
def ours(box):
    library = box.libraries / "libgc/libgc.so.1"
    assert library.exists(), "make lib"
    return library


def names(library, which):
    out = subprocess.run(["nm", "-D", which, str(library)], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines()}


def table():
    """name -> what docs/libgc.md says of it."""
    text = (FOLDER.parent.parent / "docs/libgc.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`GC_.*?) \| (served|accepted|refused) \|", text, re.M)
    return {name: what for cell, what in rows for name in re.findall(r"`(GC_\w+)`", cell)}


# ---- names --------------------------------------------------------------------------------------------------------

def test_names(ours):
    """The table has each name that the library exports, and no other."""
    exported = names(ours, "--defined-only")
    assert exported == set(table()), sorted(exported ^ set(table()))
    assert len(exported) > 270, "control"


def test_refusals_speak(box, ours):
    """Each function that the table calls refused says so, once."""
    refusing, name = set(), None
    for path in sorted((box.root / "bindings/libgc").glob("*.c")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if match := re.match(r"EXPORT .*?\b(GC_\w+)\(", line):
                name = match[1]
            if "REFUSE()" in line:
                refusing.add(name)
    assert refusing == {name for name, what in table().items() if what == "refused"}


def test_imports(ours):
    """Whatever Debian's programs import from libgc is there."""
    users = [path for pattern in USERS
             for path in ([pathlib.Path(pattern)] if pattern[0] == "/"
                          else pathlib.Path("/usr/lib").glob("*-linux-gnu/" + pattern)) if path.is_file()]
    if not users:
        pytest.skip("no program on libgc is here: tools/setup libgc")
    imported = {name for user in users for name in names(user, "--undefined-only") if name.startswith("GC_")}
    assert imported and imported <= names(ours, "--defined-only")


# ---- programs of our own ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name, every", [("api", "0"), ("reclaim", "0"), ("threads", "0"), ("threads", "40")])
def test_program(box, ours, name, every):
    """Threads with a collection at each 40th slow allocation too; the others count collections, or what one finds."""
    program = box.compile(FOLDER / f"{name}.c", "-O1", "-pthread", to="libgc", libs=[ours])
    done = box.check(program, "forgets", preload=None, env={"LD_LIBRARY_PATH": str(ours.parent),
                                                            "GC_COLLECT_EVERY": every})
    assert done.out == "well\n"


@pytest.mark.parametrize("markers", ("1", "3"))
def test_markers(box, ours, markers):
    program = box.compile(FOLDER / "markers.c", "-O1", "-pthread", to="libgc", libs=[ours])
    done = box.check(program, preload=None, env={"LD_LIBRARY_PATH": str(ours.parent), "GC_MARKERS": markers})
    assert done.out == "well\n"


def adversary(box, ours, *words, name="adversaries", timeout=120, fails=False):
    program = box.compile(FOLDER / f"{name}.c", "-O1", "-pthread", to="libgc", libs=[ours, "-ldl"])
    run = box.run if fails else box.check
    return run(program, *words, preload=None, timeout=timeout, env={"LD_LIBRARY_PATH": str(ours.parent)})


@pytest.mark.parametrize("words", (("threads", "1000"), ("limit",), ("starve",)), ids="-".join)
def test_adversaries(box, ours, words):
    assert adversary(box, ours, *words).out == "well\n"


@pytest.mark.parametrize("word, env", (
    ("lowered", {}), ("full", {}), ("environment", {"GC_MAXIMUM_HEAP_SIZE": "10M"}), ("finalizers", {}),
    ("markers", {"GC_MARKERS": "-1"}), ("addresses", {}), ("memoryless", {})))
def test_limits(box, ours, word, env):
    program = box.compile(FOLDER / "limits.c", "-O1", "-pthread", to="libgc", libs=[ours])
    done = box.check(program, word, preload=None, env={"LD_LIBRARY_PATH": str(ours.parent), **env})
    assert done.out == "well\n"
    assert ("GC_MARKERS is not understood" in done.text) == ("GC_MARKERS" in env)


def test_roots_are_unloaded(box, ours, tmp_path):
    (tmp_path / "kept.c").write_text("void *kept;\n", encoding="utf-8")
    subprocess.run(["gcc", "-shared", "-fPIC", "kept.c", "-o", "kept.so"], cwd=tmp_path, check=True)
    assert adversary(box, ours, "unload", tmp_path / "kept.so").out == "well\n"


def deep_in_the_core(box, *words, timeout=120):
    library = box.libraries / "libglebe.so"
    program = box.compile(FOLDER / "deep.c", "-O1", "-pthread", "-DCORE", f"-I{box.root / 'include'}",
                          to="libgc-core", libs=[library])
    return box.check(program, *words, preload=None, timeout=timeout, env={"LD_LIBRARY_PATH": str(library.parent)})


@pytest.mark.parametrize("shape", ("list", "comb"))
def test_deep_graphs(box, ours, shape):
    """Marking takes no stack and no memory, by libgc's names and by the core's."""
    assert adversary(box, ours, shape, "1000000", name="deep").out == "well\n"
    assert deep_in_the_core(box, shape, "1000000").out == "well\n"


@pytest.mark.parametrize("spoil", ("stack", "memory"))
def test_deep_graphs_are_bounded(box, ours, spoil):
    """Control: a walk by recursion ends the process, and 8 MiB are too much."""
    done = adversary(box, ours, "list", "100000", spoil, name="deep", fails=True)
    assert done.returncode and ("grown <= MOST_KIB" in done.text) == (spoil == "memory")


@LONG
@pytest.mark.parametrize("shape, cells", (("list", 50000000), ("comb", 25000000)))
def test_deeper_graphs(box, ours, shape, cells):
    """50 million objects: 1.5 GiB."""
    if os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 3 << 30:
        pytest.skip("less than 3 GiB of memory are free")
    assert adversary(box, ours, shape, cells, name="deep", timeout=600).out == "well\n"
    assert deep_in_the_core(box, shape, cells, timeout=600).out == "well\n"


# ---- programs of Debian -------------------------------------------------------------------------------------------

def page(tmp_path):
    rows = "".join(f"<tr><td>{i}<td><a href=x{i}>link</a><td>word word</tr>" for i in range(200))
    (tmp_path / "page.html").write_text(f"<html><h1>Title</h1><table border=1>{rows}</table></html>", encoding="utf-8")
    return tmp_path / "page.html"


def neko(tmp_path):
    shutil.copy(PROGRAMS / "work.neko", tmp_path)
    subprocess.run(["nekoc", "work.neko"], cwd=tmp_path, check=True)
    return tmp_path / "work.n"


def crystal(tmp_path):
    """A program with fibers, compiled by a compiler that is on libgc itself."""
    subprocess.run(["crystal", "build", PROGRAMS / "work.cr", "-o", tmp_path / "work"], cwd=tmp_path, check=True,
                   env={**os.environ, "CRYSTAL_CACHE_DIR": str(tmp_path / "cache"), "HOME": str(tmp_path)})
    return tmp_path / "work"


POKE = ("type P = struct { int x; string s; }; var q = 0; for (var i = 0; i < 3000; i++) { var p = P { x = i, "
        's = "abc" }; q = q + p.x; } printf "%v\\n", q;')
QUICK = {
    "w3m": lambda tmp: ["w3m", "-dump", page(tmp)],
    "guile": lambda tmp: ["guile", "--no-auto-compile", "-c", "(display (map sqrt '(1 4 9)))"],
    "neko": lambda tmp: ["neko", neko(tmp)],
    "poke": lambda tmp: ["poke", "--quiet", "-c", POKE],
}
SLOW = {
    "guile": lambda tmp: ["guile", "--no-auto-compile", PROGRAMS / "work.scm"],
    "ecl": lambda tmp: ["ecl", "--shell", PROGRAMS / "work.lisp"],
    "nix-instantiate": lambda tmp: ["nix-instantiate", "--eval", "--strict", PROGRAMS / "work.nix"],
    "lilypond": lambda tmp: ["sh", "-c", f"lilypond -s --svg -o {tmp}/page {PROGRAMS}/work.ly && cat {tmp}/page.svg"],
    "crystal": lambda tmp: [crystal(tmp)],
    "inkscape": lambda tmp: ["inkscape", "--actions=select-all;object-to-path;path-union", "--export-type=svg",
                             "--export-plain-svg", "-o", "-", PROGRAMS / "work.svg"],
    "asy": lambda tmp: ["asy", "-noV", "-f", "pdf", PROGRAMS / "work.asy"],
}


def same(box, ours, tmp_path, command, **settings):
    """The output on bdwgc, which ours must repeat; and the proof that ours was in use."""
    env = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    theirs = box.check(*command, preload=None, env=env)
    done = box.check(*command, preload=None,
                     env=env | {"LD_LIBRARY_PATH": str(ours.parent), "GLEBE_VERBOSE": "1"} | settings)
    assert "was active" not in theirs.text and "was active" in done.text
    assert done.out == theirs.out and done.out.strip()
    assert "not served" not in done.text and "GC Warning" not in done.text


@pytest.mark.parametrize("name", QUICK)
def test_programs(box, ours, tmp_path, name):
    box.need(name)
    same(box, ours, tmp_path, QUICK[name](tmp_path))


@LONG
@pytest.mark.parametrize("name", SLOW)
def test_long_programs(box, ours, tmp_path, name):
    box.need(name)
    same(box, ours, tmp_path, SLOW[name](tmp_path))


@LONG
@pytest.mark.parametrize("name", (*QUICK, "crystal", "inkscape"))
def test_programs_that_collect_often(box, ours, tmp_path, name):
    box.need(name)
    same(box, ours, tmp_path, {**SLOW, **QUICK}[name](tmp_path), GC_COLLECT_EVERY="100")


def test_command(box, ours, tmp_path):
    """glebe run --libgc puts the library in; the command carries it."""
    box.need("w3m")
    command = box.libraries / "glebe"
    assert command.exists(), "make cli"
    done = box.check(command, "run", "--libgc", "--verbose", "--", "w3m", "-dump", page(tmp_path), preload=None)
    assert "Title" in done.out and "glebe as libgc.so.1" in done.text and "was active" in done.text


# ---- bdwgc's own tests --------------------------------------------------------------------------------------------

# What each must print. smash_test writes behind its objects; by default neither library looks for that.
GCTESTS = {"test": "Collector appears to work", "disclaim_test": "", "disclaim_bench": "", "disclaim_weakmap_test": "",
           "huge_test": "", "initsecondarythread": "", "leak_test": "leaked objects", "middle": "", "realloc_test": "",
           "smash_test": "", "subthread_create": "", "test_atomic_ops": "", "thread_leak_test": "leaked objects",
           "threadkey_test": ""}


@LONG
@pytest.mark.parametrize("name", GCTESTS)
def test_bdwgc(box, ours, name):
    source = box.root / "build/libgc-source"
    if not source.exists():
        pytest.skip("bdwgc's source is not here: tools/setup libgc")
    flags = ["-w", "-O1", "-pthread", f"-I{source / 'include'}",
             *(f"-D{macro}" for macro in ("GC_THREADS", "GC_PTHREADS", "ALL_INTERIOR_POINTERS", "ENABLE_DISCLAIM",
                                          "GC_ATOMIC_UNCOLLECTABLE", "GC_GCJ_SUPPORT", "JAVA_FINALIZATION",
                                          "THREAD_LOCAL_ALLOC", "NO_EXECUTE_PERMISSION"))]
    program = box.compile(source / f"tests/{name}.c", *flags, to="libgc-theirs", libs=[ours])
    done = box.check(program, preload=None, env={"LD_LIBRARY_PATH": str(ours.parent)}, timeout=300)
    assert GCTESTS[name] in done.out + done.text
    print((done.out + done.text).strip().splitlines()[-1:])
