"""Scripts (same/*.lua) print the same and leave the same files in states of each kind (same.c) as with Lua's own
functions alone."""

import pathlib
import re
import subprocess

import pytest

FOLDER = pathlib.Path(__file__).parent
ROOT = FOLDER.parent.parent
SCRIPTS = sorted((FOLDER / "same").glob("*.lua"))
WAYS = {
    "close": "glebe_lua_newstate, lua_close",
    "finalize": "glebe_lua_newstate, glebe_lua_close",
    "thread": "the same, closed by another thread",
    "adopt": "glebe_lua_adopt, glebe_lua_close",
}


@pytest.fixture(scope="session")
def host(box):
    def make(lua):
        found = subprocess.run(["pkg-config", "--cflags", "--libs", lua], capture_output=True, text=True, check=False)
        if found.returncode:
            pytest.skip(f"no headers of {lua} here: tools/setup lua")
        libraries = [box.libraries / "libglebe.a", "-Wl,--no-as-needed", *found.stdout.split(), "-lm", "-pthread"]
        return box.compile([FOLDER / "same.c", ROOT / "bindings/lua/glebe_lua.c"], "-std=c11", "-O1",
                           to=f"lua-{lua}-same", libs=libraries)
    return make


def outcome(box, program, way, script, folder):
    """Exit status, both outputs without addresses, and the files; None if this Lua cannot do that."""
    folder.mkdir()
    done = box.run(program, way, script, folder, preload=None)
    if done.returncode == 77:
        return None
    plain = lambda text: re.sub("0x[0-9a-f]+", "ADDRESS", text)
    return done.returncode, plain(done.out), plain(done.text), {f.name: f.read_text() for f in folder.iterdir()}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
@pytest.mark.parametrize("lua", ("lua5.4", "luajit",
                                 *(pytest.param(lua, marks=pytest.mark.more)
                                   for lua in ("lua5.1", "lua5.2", "lua5.3"))))
def test_same(box, host, tmp_path, lua, script):
    program = host(lua)
    stock = outcome(box, program, "stock", script, tmp_path / "stock")
    assert stock[1] or stock[3], "the script does something"
    ways = {way: outcome(box, program, way, script, tmp_path / way) for way in WAYS}
    missing = [way for way, result in ways.items() if result is None]
    assert missing == (["adopt"] if lua == "luajit" else [])
    for way in ways.keys() - missing:
        assert ways[way] == stock, WAYS[way]
