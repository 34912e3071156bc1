"""Hosts with states in heaps of their own (states.c), with each Lua whose headers are installed; the oldest and the
newest also run under the sanitizers, which share one compilation of the core."""

import pathlib
import subprocess

import pytest

FOLDER = pathlib.Path(__file__).parent
ROOT = FOLDER.parent.parent
LUAS = ("lua5.1", "lua5.2", "lua5.3", "lua5.4", "luajit")
CASES = ("contract", "cap", "tight", "many", "churn", "finalizers", "closing", "pressure", "relieved", "relieving",
         "adopt")
BUILDS = {"plain": ["-O1"], "sanitized": ["-O1", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]}
SANITIZED = ("lua5.1", "lua5.4") # the ends of the range


@pytest.fixture(scope="session")
def states(box):
    def make(lua, build):
        found = subprocess.run(["pkg-config", "--cflags", "--libs", lua], capture_output=True, text=True, check=False)
        if found.returncode:
            pytest.skip(f"no headers of {lua} here: tools/setup lua")
        core = box.libraries / "libglebe.a"
        if build == "sanitized":
            core = box.compile(ROOT / "src/glebe.c", "-std=c11", "-c", *BUILDS[build], to="lua-core-sanitized")
        return box.compile([FOLDER / "states.c", ROOT / "bindings/lua/glebe_lua.c"], "-std=c11", *BUILDS[build],
                           to=f"lua-{lua}-{build}",
                           libs=[core, "-Wl,--no-as-needed", *found.stdout.split(), "-lm", "-pthread"])
    return make


@pytest.mark.parametrize("lua, build", [
    pytest.param(lua, build, marks=[] if lua in ("lua5.4", "luajit") and build == "plain" else pytest.mark.more)
    for lua, build in [*((lua, "plain") for lua in LUAS), *((lua, "sanitized") for lua in SANITIZED)]])
def test_states(box, states, lua, build):
    """The contract of lua_Alloc, caps and recovery, thousands of states, with and without finalizers, pressure, relief,
    adoption."""
    program, missing = states(lua, build), []
    for case in CASES:
        done = box.run(program, case, preload=None, env={"ASAN_OPTIONS": "detect_leaks=1"})
        assert done.returncode in (0, 77), f"{case}: {done.returncode}\n{done.text}"
        missing += [case] * (done.returncode == 77)
    said = ([], ["adopt"], list(CASES)) if lua == "luajit" else ([],)
    assert missing in said, "what this Lua is said not to have"


@pytest.mark.more
@pytest.mark.parametrize("lua", SANITIZED)
def test_the_sanitizer_sees_leaks(box, states, lua):
    """Control: the sanitizer reports blocks that an adoption leaves with malloc for good."""
    done = box.run(states(lua, "sanitized"), "leak", preload=None, env={"ASAN_OPTIONS": "detect_leaks=1"})
    assert done.returncode != 0 and "LeakSanitizer" in done.text
