"""The own tests of Guile and of ECL, and the ANSI tests of Common Lisp, on Debian's bdwgc and on glebe's library: the
verdicts must be the same.

`tools/setup libgc` installs both programs, and fetches the sources that have the tests; without them these tests are
skipped. They take minutes, so GLEBE_TEST_LONG asks for them; ECL's smallest suite is also run without.

A suite of the version beside the installed one may have tests that fail: they fail on both libraries, by name. Whether
garbage is found at once depends on the stack, so Guile calls a test of its collector UNRESOLVED that sees some: that
counts as passed. Left out are tests with sockets, clocks and child processes, and whether a mutex of ECL is fair: what
those say is not the collector's."""

import collections
import functools
import os
import re
import shutil

import pytest

LONG = pytest.mark.skipif(not os.environ.get("GLEBE_TEST_LONG"), reason="set GLEBE_TEST_LONG=1")
pytestmark = pytest.mark.xdist_group("libgc")


@pytest.fixture(scope="session")
def ours(box):
    library = box.libraries / "libgc/libgc.so.1"
    assert library.exists(), "make lib"
    return library


def on_both(box, ours, folder, run):
    """What run(folder, env) returns on bdwgc and on glebe; and the proof of which was in use."""
    found = []
    for name, env in (("bdwgc", {}), ("glebe", {"LD_LIBRARY_PATH": str(ours.parent)})):
        place = folder / name
        place.mkdir(parents=True)
        verdicts, done = run(place, {"HOME": str(place), "TMPDIR": str(place), "GLEBE_VERBOSE": "1", **env})
        assert ("was active" in done.text) == (name == "glebe"), done.text
        found.append(verdicts)
    return found


# ---- Guile --------------------------------------------------------------------------------------------------------

# By name, so that a part that fails is named; each runs in one process.
GUILE = {
    "collector": ("gc", "guardians", "weaks", "hash", "fdes-finalizers", "threads", "fluids", "asyncs", "atomic"),
    "data": ("alist", "array-map", "arrays", "bit-operations", "bitvectors", "chars", "common-list", "copy-tree",
             "fractions", "keywords", "list", "numbers", "pairs", "records", "sort", "srfi-1", "srfi-13", "srfi-14",
             "srfi-4", "structs", "symbols", "vectors", "vlist"),
    "control": ("continuations", "control", "eval", "future", "goops", "interp", "match", "modules", "optargs",
                "parameters", "procprop", "procs", "r4rs", "r5rs_pitfall", "srfi-18", "srfi-34", "srfi-41",
                "srfi-45", "syncase", "syntax"),
    "compiler": ("brainfuck", "compiler", "dwarf", "elisp", "elisp-compiler", "peg", "reader", "rtl", "tree-il"),
    "input": ("coding", "encoding-utf8", "format", "iconv", "print", "rdelim", "regexp", "srfi-6"),
}


def guile_verdicts(box, names, place, env):
    source = box.root / "build/guile-source/test-suite"
    done = box.run("guile", "--no-auto-compile", "-L", source, "-e", "main", "-s", source / "guile-test",
                   "--test-suite", source / "tests", "--log-file", place / "log", *(f"{name}.test" for name in names),
                   preload=None, env=env, timeout=300)
    log = (place / "log").read_text(encoding="utf-8", errors="replace")
    lines = re.findall(r"^(PASS|FAIL|ERROR|UNRESOLVED|UPASS|XFAIL|UNTESTED|UNSUPPORTED): (.*?)(?: - arguments:.*)?$",
                       log, re.M)
    assert "Totals for this test run" in done.out, done.out[-2000:] + done.text[-2000:]
    return [("PASS" if what == "UNRESOLVED" else what, re.sub(r"\b[0-9a-f]{8,16}\b", "ADDRESS", name))
            for what, name in lines], done


@LONG
@pytest.mark.parametrize("part", GUILE)
def test_guile(box, ours, tmp_path, part):
    box.need("guile")
    tests = box.root / "build/guile-source/test-suite/tests"
    if not tests.exists():
        pytest.skip("Guile's own tests are not here: tools/setup libgc")
    names = [name for name in GUILE[part] if (tests / f"{name}.test").exists()]
    theirs, glebes = on_both(box, ours, tmp_path, functools.partial(guile_verdicts, box, names))
    assert collections.Counter(glebes) == collections.Counter(theirs)
    counts = collections.Counter(what for what, _ in glebes)
    assert counts["PASS"] > 100, counts
    print(part, len(names), dict(counts))


# ---- ECL ----------------------------------------------------------------------------------------------------------

# Of ECL's suites those that need no C compiler and no terminal. `ansi+` is its own part of the ANSI tests.
ECL = ("ansi+", "complex", "hash-tables", "ieee-fp", "mixed", "mop", "mp", "package-ext", "unicode")


def ecl_verdicts(box, suite, place, env):
    tests = box.root / "build/ecl-source/src/tests"
    (place / "run.lisp").write_text(f'(ext:chdir #p"{place}/")\n(load #p"{tests}/doit.lsp")\n'
                                    f"(2am-ecl:run 'cl-test::{suite})\n(ext:exit)\n", encoding="utf-8")
    done = box.run("ecl", "--norc", "--shell", place / "run.lisp", preload=None, env=env, timeout=300)
    ran = re.search(r"Did (\d+) tests? \((\d+) crashed\), (\d+) checks?", done.out)
    assert ran, done.out[-2000:] + done.text[-2000:]
    failed = sorted(name for name in re.findall(r"^ ([A-Z][^\s:]*):$", done.out, re.M) if "FAIRNESS" not in name)
    return (*map(int, ran.groups()), failed), done


def check_ecl(box, ours, tmp_path, suite):
    box.need("ecl")
    if not (box.root / "build/ecl-source").exists():
        pytest.skip("ECL's own tests are not here: tools/setup libgc")
    theirs, glebes = on_both(box, ours, tmp_path, functools.partial(ecl_verdicts, box, suite))
    assert glebes == theirs
    tests, crashed, _, failed = glebes
    assert tests >= 4 and crashed <= len(failed) <= 1, glebes
    print(suite, glebes)


@LONG
@pytest.mark.parametrize("suite", ECL)
def test_ecl(box, ours, tmp_path, suite):
    check_ecl(box, ours, tmp_path, suite)


def test_ecl_smallest(box, ours, tmp_path):
    check_ecl(box, ours, tmp_path, "hash-tables")


# The ANSI tests of Common Lisp by Paul Dietz, from GCL's sources. ECL looks characters up in tables without a check of
# their range, and leaves strings as the collector hands them out. So what such a string has decides whether ECL crashes
# or a test passes, with bdwgc too: those of the tests' own data are filled, and tests that read new ones are left out.
ANSI = """
(ext:chdir #p"{place}/")
(load "gclload1.lsp")
(load "gclload2.lsp")
(in-package :cl-test)
(dolist (name '(make-sequence.6 make-sequence.8 make-sequence.18 make-sequence.20 make-sequence.26))
  (regression-test:rem-test name))
(dolist (x *universe*)
  (when (typep x '(array character))
    (dotimes (i (array-total-size x)) (setf (row-major-aref x i) #\\x))))
(regression-test:do-tests)
(ext:exit)
"""


def ansi_verdicts(box, tests, place, env):
    place = place / "tests"
    shutil.copytree(tests, place)
    (place / "run.lisp").write_text(ANSI.replace("{place}", str(place)), encoding="utf-8")
    done = box.run("ecl", "--norc", "--shell", place / "run.lisp", preload=None, env=env, timeout=600)
    ran = re.search(r"^(\d+) out of (\d+) total tests failed: (.*?)\.\s*\Z", done.out, re.M | re.S)
    assert ran, done.out[-2000:] + done.text[-2000:]
    return (int(ran[2]), int(ran[1]), sorted(re.split(r",\s+", ran[3]))), done


@LONG
def test_ansi(box, ours, tmp_path):
    box.need("ecl")
    tests = box.root / "build/gcl-source/ansi-tests"
    if not tests.exists():
        pytest.skip("the ANSI tests are not here: tools/setup libgc")
    theirs, glebes = on_both(box, ours, tmp_path, functools.partial(ansi_verdicts, box, tests))
    assert glebes == theirs
    count, failures, failed = glebes
    assert count > 11_000 and failures == len(failed) < 20, glebes
    print("ANSI", count, failed)
