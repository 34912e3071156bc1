"""GLEBE_PROFILE under glebe.dll: the profile that a Windows program writes has its callers and their bytes, and the
command for Linux finds their names in the program's file."""

import json
import subprocess

import pytest

from programs import COMPILERS, OUT, ROOT, glebe_exe, need
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


@pytest.mark.parametrize("debug", [["-g"], []], ids=["dwarf", "symbols"])
def test_a_profile_has_callers(wine, debug):
    need(*COMPILERS["gcc"][".c"])
    command = ROOT / "build/glebe"
    if not command.exists():
        pytest.skip("glebe is not here: make cli")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("profile.*"):
        old.unlink()
    exe = FOLDER / "known.exe"
    subprocess.run([*COMPILERS["gcc"][".c"], "-O1", "-fno-builtin", *debug, "-x", "c", "-", "-o", exe], input=PROGRAM,
                   text=True, check=True)
    status, _, err = wine(glebe_exe(), "run", "--", exe, GLEBE_PROFILE=windows(FOLDER / "profile"),
                          GLEBE_PROFILE_BYTES="1")
    assert status == 3, err
    [written] = FOLDER.glob("profile.*")

    def read(*options):
        done = subprocess.run([command, "profile", "--json", *options, "-o", FOLDER / "out.pb.gz", "--from", written],
                              capture_output=True, text=True, check=True)
        return json.loads(done.stdout), done.stderr

    live, said = read("--live")
    assert live["title"].startswith("known.exe[") and "has changed" not in said, (live, said)
    of = {row["function"]: row["bytes"] for row in live["functions"]}
    assert of["keeps"] == 40 << 20 and "drops" not in of, of
    of = {row["function"]: row["bytes"] for row in read("--alloc")[0]["functions"]}
    assert of["drops"] == 20 << 20, of
    # The control: another program in this place has no names for these addresses.
    subprocess.run([*COMPILERS["gcc"][".c"], "-O2", "-x", "c", "-", "-o", exe], text=True, check=True,
                   input="int main(void) { return 0; }")
    live, said = read("--live")
    assert "known.exe has changed since the program ran" in said, said
    assert all("keeps" not in row["function"] for row in live["functions"]), live
