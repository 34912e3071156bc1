"""GLEBE_PROFILE under glebe.dll: the profile that a Windows program writes has its callers and their bytes, and the
command for Linux finds their names in the program's file."""

import json
import subprocess

import pytest

from programs import COMPILERS, OUT, ROOT, glebe_exe, need
from under_wine import windows

pytestmark = pytest.mark.more # `make test` leaves out glebe.exe

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


def compiled(name, *options, source=PROGRAM):
    FOLDER.mkdir(parents=True, exist_ok=True)
    need(*COMPILERS["gcc"][".c"])
    exe = FOLDER / name
    subprocess.run([*COMPILERS["gcc"][".c"], "-O1", "-fno-builtin", *options, "-x", "c", "-", "-o", exe], input=source,
                   text=True, check=True)
    return exe


def written(wine, exe):
    """The path of the profile of a run in which each block is a sample."""
    for old in FOLDER.glob("profile.*"):
        old.unlink()
    status, _, err = wine(glebe_exe(), "run", "--", exe, GLEBE_PROFILE=windows(FOLDER / "profile"),
                          GLEBE_PROFILE_BYTES="1")
    assert status == 3, err
    [path] = FOLDER.glob("profile.*")
    return path


@pytest.mark.parametrize("debug", [["-g"], []], ids=["dwarf", "symbols"])
def test_a_profile_has_callers(wine, debug):
    command = ROOT / "build/glebe"
    if not command.exists():
        pytest.skip("glebe is not here: make cli")
    exe = compiled("known.exe", *debug)
    path = written(wine, exe)
    lines = path.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("glebe-profile 1", "end")
    modules = {line.rsplit("\\")[-1] for line in lines if line.startswith("module ")}
    assert {"known.exe", "glebe.dll", "kernel32.dll", "ntdll.dll"} <= modules

    def read(*options):
        done = subprocess.run([command, "profile", "--json", *options, "-o", FOLDER / "out.pb.gz", "--from", path],
                              capture_output=True, text=True, check=True)
        return json.loads(done.stdout), done.stderr

    live, said = read("--live")
    assert live["title"].startswith("known.exe[") and "has changed" not in said, (live, said)
    of = {row["function"]: row["bytes"] for row in live["functions"]}
    assert of["keeps"] == 40 << 20 and "drops" not in of, of
    of = {row["function"]: row["bytes"] for row in read("--alloc")[0]["functions"]}
    assert of["drops"] == 20 << 20, of
    # The control: another program in this place, of another size, has no names for these addresses.
    compiled("known.exe", source="char large[1 << 20]; int main(void) { return 0; }")
    live, said = read("--live")
    assert "known.exe has changed since the program ran" in said, said
    assert all("keeps" not in row["function"] for row in live["functions"]), live


def test_without_the_option(wine):
    exe = compiled("none.exe")
    written(wine, exe).unlink()
    assert wine(glebe_exe(), "run", "--", exe)[0] == 3
    assert not list(FOLDER.glob("profile.*"))


def test_no_room_is_one_line(wine):
    exe = compiled("short.exe")
    status, _, err = wine(glebe_exe(), "run", "--", exe, GLEBE_PROFILE=windows(FOLDER / "none" / "profile"))
    assert status == 3
    lines = [line for line in err.splitlines() if line.startswith("glebe: profile:")]
    assert len(lines) == 1 and "no such folder" in lines[0], err
