"""docs/lua.md followed word for word outside the repository, with each installed Lua. (LuaRocks: test_module.py.)"""

import os
import re
import shutil

import pytest

from printed import ROOT, Document, shell

LUAS = ("lua5.1", "lua5.2", "lua5.3", "lua5.4", "luajit")


@pytest.fixture(scope="session")
def home(box, tmp_path_factory):
    """The folder where a reader has installed glebe."""
    box.need("cmake", "pkg-config")
    home = tmp_path_factory.mktemp("home")
    shell(f"cmake --install $GLEBE/build/cmake --prefix {home}", home)
    path = f"{home}/lib/pkgconfig:{os.environ.get('PKG_CONFIG_PATH', '')}"
    return {"HOME": str(home), "PKG_CONFIG_PATH": path}


def line_of(lines, word):
    found = [line for line in lines.splitlines() if re.search(rf"\b{re.escape(word)}\b", line)]
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("lua", LUAS)
def test_host(home, tmp_path, lua):
    document = Document("docs/lua.md", tmp_path)
    try:
        shell(f"pkg-config --exists {lua}", tmp_path)
    except AssertionError:
        pytest.skip(f"no headers of {lua} here: tools/setup lua")
    lines = document.lines("cc host.c")
    program = re.search(r"-o (\S+)", line_of(lines, lua))[1]
    said = shell("\n".join([lines.splitlines()[0], line_of(lines, lua), f"./{program}"]), tmp_path, env=home)
    version = "Lua 5.1" if lua == "luajit" else lua.replace("lua", "Lua ")
    form = document.lines(version if version == "Lua 5.4" else "Lua 5.4", language="").replace("Lua 5.4", version)
    assert re.fullmatch(re.sub(r"\d{5}(?= KiB in)", r"1\\d{4}", form), said), said


@pytest.mark.parametrize("lua", LUAS)
def test_module(tmp_path, lua):
    document = Document("docs/lua.md", tmp_path)
    folder = lua.replace("lua5", "5")
    if not shutil.which(lua) or not (ROOT / "build/lua" / folder / "glebe.so").exists():
        pytest.skip(f"no {lua} here: tools/setup lua, make lua")
    said = shell(line_of(document.lines("LUA_CPATH"), lua), tmp_path)
    assert said == (re.search(r"`(not here: .*?)`", document.text)[1] + "\n" if lua == "luajit" else "true\ntrue\n")
