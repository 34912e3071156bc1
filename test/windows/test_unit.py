"""The C tests of test/unit and test/model for Windows, under Wine: on the fake port, whose memory there comes from
Windows (test/windows/posix). A long has 32 bits. The models run few seeds, as under sanitizers; GLEBE_TEST_LONG=1 runs
all seeds, and test/regress."""

import functools
import re
import subprocess

import pytest

from programs import COMPILERS, LONG, OUT, ROOT, compile_program, need

SOURCES = sorted(path for kind in ("unit", "model", *["regress"] * LONG)
                 for path in (ROOT / "test" / kind).glob("*_test.c"))
LEFT_OUT = {
    "unit/pool_count_test.c": "counts instructions by ptrace",
    "model/months_test.c": "the system does not tell what is resident",
}
LESS = {"GLEBE_TEST_SEEDS": "8", "GLEBE_TEST_STEPS": "150", "GLEBE_TEST_STRIDE": "5"} if not LONG else {}
CMOCKA = ROOT / "build/cmocka"


@pytest.fixture(scope="module")
def cmocka():
    """The path of cmocka's object file."""
    if not CMOCKA.exists():
        pytest.skip("cmocka's source is not here: tools/setup windows-programs")
    need(*COMPILERS["clang"][".c"])
    out = OUT / "cmocka.o"
    out.parent.mkdir(parents=True, exist_ok=True)
    has = [f"-DHAVE_{header}_H" for header in ("INTTYPES", "MALLOC", "SIGNAL")]
    subprocess.run(["clang-19", "--target=x86_64-w64-mingw32", "-w", *has, f"-I{CMOCKA / 'include'}", "-c",
                    CMOCKA / "src/cmocka.c", "-o", out], check=True)
    return out


FLAGS = ["-O1", "-g0", "-DFIXTURE_LINKED",
         *(f"-I{path}" for path in (ROOT / "test/windows/posix", ROOT / "include", ROOT / "src", CMOCKA / "include"))]


@functools.cache
def core(*constants):
    """The path of the core's object file with the constants that a test defines, as in cmake/tests.cmake."""
    out = OUT / f"core{''.join(f'-{constant}' for constant in constants)}.o"
    subprocess.run(["clang-19", "--target=x86_64-w64-mingw32", "-w", *FLAGS, *(f"-D{c}" for c in constants), "-c",
                    ROOT / "test/unit/core.c", "-o", out], check=True)
    return out


QUICK = ("collect_test", "heap_test", "page_test", "thread_test")


@pytest.mark.parametrize("source", [pytest.param(path, marks=[] if path.parent.name == "unit" and path.stem in QUICK
                                                 else [pytest.mark.more])
                                    for path in SOURCES], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_passes(wine, cmocka, source):
    name = f"{source.parent.name}/{source.name}"
    if name in LEFT_OUT:
        pytest.skip(LEFT_OUT[name])
    text = source.read_text()
    constants = [f"{name}={value}" for name, value in re.findall(r"^#define (GB_\w+) (\d+)$", text, re.M)]
    real = '#include "glebe.h"' in text # on the real port
    linked = [] if "src/glebe.c" in text else [ROOT / "src/glebe.c"] if real else [core(*constants)]
    quick = ["-O0"] if linked and not real and source.parent.name == "unit" else [] # as in cmake/tests.cmake
    program = compile_program(source, "clang", cmocka, *linked, *FLAGS, *quick, "-static", archive=None,
                              to=source.parent.name)
    content = re.search("collect_(content|stacks)", name) # as there, too
    status, out, err = wine(program, **{**LESS, **({"GLEBE_TEST_STEPS": "40"} if content and LESS else {})})
    assert status == 0 and ("[  PASSED  ]" in out + err or "seeds 1 to" in out), out + err
