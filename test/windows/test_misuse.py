"""The programs of test/abuse for Windows, under Wine, with the default build's expectations in their head comments.
test/windows/posix defines the POSIX functions that Windows names differently. All are compiled as one program, which
runs the one that its argument names: they differ in ten lines each."""

import sys
import types

import pytest

from programs import OUT, ROOT, compile_program

sys.path.append(str(ROOT / "test/abuse"))
from expectations import FOLDER, PROGRAMS, judge

LEFT_OUT = {
    "exhausted_address_space": "a process has no limit of its address space",
    "foreign_malloc": "a block of the C library's own goes back to it: test/windows/family.c",
    **{name: "names operator delete as it is called where size_t is unsigned long; the build for Windows does not look "
             "at sizes"
       for name in PROGRAMS if name.startswith("delete_") and name.split("_")[1] in ("sized", "aligned", "array")},
}
# abort ends with 3, as in the C library. Wine's host system keeps the last eight bits of a status, here those of
# 0xC0000005.
ABORTED, FAULTED = 3, 5


@pytest.fixture(scope="module")
def programs():
    """The path of the program that contains all."""
    names = [name for name in PROGRAMS if name not in LEFT_OUT]
    source = OUT / "abuse.c"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text("\n".join([
        *(f'#define main {name}\n#include "{FOLDER / name}.c"\n#undef main' for name in names),
        "int main(int argc, char **argv)\n{",
        *(f'    if (argc > 1 && strcmp(argv[1], "{name}") == 0)\n        return {name}();' for name in names),
        "    return 99;\n}\n"]))
    return compile_program(source, "clang", f"-I{ROOT / 'test/windows/posix'}", "-Wno-unused-result", "-static",
                           "-lstdc++")


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(wine, programs, name):
    if name in LEFT_OUT:
        pytest.skip(LEFT_OUT[name])

    def run(**options):
        status, out, text = wine(programs, name,
                                 **{f"GLEBE_{option.upper()}": value for option, value in options.items()})
        # without Wine's own line about the access
        text = "".join(line for line in text.splitlines(True) if not line.startswith("wine: "))
        return types.SimpleNamespace(returncode=status, out=out, text=text)
    judge(run, PROGRAMS[name], "default", aborted=ABORTED, faulted=FAULTED)
