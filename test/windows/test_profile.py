"""GLEBE_PROFILE under glebe.dll: the text that a Windows program writes has its callers and their bytes."""

import subprocess

from programs import COMPILERS, OUT, glebe_exe, need
from under_wine import windows

FOLDER = OUT / "profile"
PROGRAM = """
#include <stdlib.h>
#include <string.h>
enum { BLOCKS = 40 << 8 };
static void *kept[BLOCKS];
__attribute__((noinline)) void *keeps(void) { return memset(malloc(4 << 10), 1, 4 << 10); }
__attribute__((noinline)) void *drops(void) { return memset(malloc(4 << 10), 1, 4 << 10); }
int main(void)
{
    for (int i = 0; i < BLOCKS; i++)
        kept[i] = keeps();
    for (int i = 0; i < BLOCKS / 2; i++)
        free(drops());
    return 3;
}
"""


def written(wine, exe):
    """The profile of a run in which each block is a sample, as lists of words."""
    for old in FOLDER.glob("profile.*"):
        old.unlink()
    status, _, err = wine(glebe_exe(), "run", "--", exe, GLEBE_PROFILE=windows(FOLDER / "profile"),
                          GLEBE_PROFILE_BYTES="1")
    assert status == 3, err
    [path] = FOLDER.glob("profile.*")
    lines = path.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("glebe-profile 1", "end")
    return [line.split() for line in lines]


def compiled(name):
    FOLDER.mkdir(parents=True, exist_ok=True)
    need(*COMPILERS["gcc"][".c"])
    exe = FOLDER / name
    subprocess.run([*COMPILERS["gcc"][".c"], "-O1", "-g", "-fno-builtin", "-x", "c", "-", "-o", exe], input=PROGRAM,
                   text=True, check=True)
    return exe


def test_a_profile_has_callers(wine):
    exe = compiled("known.exe")
    lines = written(wine, exe)
    [module] = [line for line in lines if line[0] == "module" and line[-1].endswith("known.exe")]
    start, end = int(module[1], 16), int(module[2], 16)
    head = subprocess.run(["x86_64-w64-mingw32-objdump", "-p", exe], capture_output=True, text=True, check=True).stdout
    fields = dict(line.split(maxsplit=1) for line in head.splitlines() if line.startswith(("ImageBase", "SizeOfImage")))
    base, size = int(fields["ImageBase"], 16), int(fields["SizeOfImage"], 16)
    assert end - start == size and module[4][8:] == f"{size:08x}", module
    of = {}
    for line in lines:
        if line[0] != "site":
            continue
        allocated, live = int(line[2]), int(line[4])
        own = [at - start + base - 1 for at in (int(word, 16) for word in line[7:]) if start <= at < end]
        names = subprocess.run(["x86_64-w64-mingw32-addr2line", "-f", "-e", exe, *map(hex, own[:2])],
                               capture_output=True, text=True, check=True).stdout.split()
        if names[2:3] == ["main"]:
            of[names[0]] = (allocated >> 20, live >> 20)
    assert of == {"keeps": (40, 40), "drops": (20, 0)}, (of, lines)
    modules = {line[-1].rsplit("\\")[-1] for line in lines if line[0] == "module"}
    assert {"glebe.dll", "kernel32.dll", "ntdll.dll"} <= modules
    # The control: without the option no profile is written.
    (path,) = FOLDER.glob("profile.*")
    path.unlink()
    assert wine(glebe_exe(), "run", "--", exe)[0] == 3
    assert not list(FOLDER.glob("profile.*"))


def test_no_room_is_one_line(wine):
    exe = compiled("short.exe")
    status, _, err = wine(glebe_exe(), "run", "--", exe, GLEBE_PROFILE=windows(FOLDER / "none" / "profile"))
    assert status == 3
    lines = [line for line in err.splitlines() if line.startswith("glebe: profile:")]
    assert len(lines) == 1 and "no such folder" in lines[0], err
