"""The module in unmodified interpreters (adopt.lua), with each installed Lua; and its rockspec."""

import pathlib
import shutil
import subprocess

import pytest

from printed import Document, shell

FOLDER = pathlib.Path(__file__).parent
ROOT = FOLDER.parent.parent
every_lua = pytest.mark.parametrize("lua", ("lua5.1", "lua5.2", "lua5.3", "lua5.4", "luajit"))


def module(lua):
    path = ROOT / "build/lua" / lua.replace("lua5", "5") / "glebe.so"
    if not path.exists() or not shutil.which(lua):
        pytest.skip(f"no {lua} here: tools/setup lua")
    return path


@every_lua
@pytest.mark.parametrize("preload", [None, "default"])
def test_module(box, lua, preload):
    """`require "glebe"` in the system's interpreter, alone and beside a libglebe.so that serves the rest of the
    process."""
    done = box.check(lua, FOLDER / "adopt.lua", module(lua), preload=preload)
    assert set(done.out.split()) == ({"no"} if lua == "luajit" else {"yes"} if lua == "lua5.1"
                                     else {"yes", "finalized"})


@every_lua
def test_module_where_memory_ends(box, lua):
    """If there can be no heap, adopt says why, and the state goes on with its old allocator."""
    script = ('package.cpath = arg[1] glebe = require "glebe" '
              'local ok, why = glebe.adopt() assert(not ok and glebe.stats() == nil) print(why) '
              'local t = {} for i = 1, 100000 do t[i] = {} end')
    path = ROOT / "build/test-lua-script.lua"
    path.write_text(script)
    said = box.check(lua, path, module(lua), preload=None, limit=1).out
    assert said == ("not here: in LuaJIT, or in a coroutine of Lua 5.1\n" if lua == "luajit" else "not enough memory\n")
    done = box.run(lua, path, module(lua), preload=None)
    assert (done.returncode == 0) == (lua == "luajit"), "control: there is memory without that limit"


@every_lua
def test_module_shows_one_symbol(lua):
    """The module does not export malloc, and takes no functions from another glebe in the process."""
    defined = subprocess.run(["nm", "-D", "--defined-only", module(lua)], capture_output=True, text=True,
                             check=True).stdout
    assert [line.split()[-1] for line in defined.splitlines()] == ["luaopen_glebe"]
    wanted = subprocess.run(["nm", "-D", "--undefined-only", module(lua)], capture_output=True, text=True,
                            check=True).stdout
    assert "lua_setallocf" in wanted and "glebe" not in wanted and " malloc" not in wanted


@pytest.mark.long
@pytest.mark.parametrize("version", ["5.4", "5.1"]) # the ends of the range
def test_rockspec(tmp_path, version):
    """`luarocks make` builds the module, and an interpreter finds it, as docs/lua.md prints it for 5.4."""
    if not shutil.which("luarocks") or not shutil.which(f"lua{version}"):
        pytest.skip("no luarocks here: tools/setup lua")
    document = Document("docs/lua.md", tmp_path)
    lines = document.lines("luarocks") + f"cd {tmp_path}\n" + document.lines("luarocks", 1)
    assert "true\ntrue\n" in shell(lines.replace("5.4", version), tmp_path, env={"HOME": str(tmp_path)})
