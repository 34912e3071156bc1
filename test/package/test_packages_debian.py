"""The packages that tools/package built, in a bare Debian 12: the lines of docs/install.md, word for word, then away
again, and nothing left. Trees of both processors: see trees.py. Like test_packages.py, part of `make test-long`."""

import re
import shutil
import subprocess
import time
import zipfile

import pytest

import trees
from printed import Document
from test_packages import ACTIVE, NAMED, foreign, package, pytestmark, row
from test_wheel import PACKER, ROOT, run

CPU = {"amd64": "x86_64", "arm64": "aarch64"}
PACKAGES = ("libglebe0", "libglebe-dev", "glebe", "lua-glebe")


def debian(arch):
    return {name: package(f"{name}_*_{arch}.deb") for name in PACKAGES}


@pytest.fixture(params=[pytest.param("amd64", marks=foreign), "arm64"])
def tree(request, tmp_path):
    """Nothing but Debian's minimal packages."""
    made = trees.copy(trees.pristine(request.param), tmp_path / "tree")
    yield made
    shutil.rmtree(made.folder)


def type_in(tree, lines, **options):
    """Lines of a page, typed in /tmp, where the files are."""
    return tree.run("sh", "-euc", f"cd /tmp\n{lines}", **options)


def bring(tree, *files):
    for file in files:
        shutil.copy(file, tree.folder / "tmp")


def test_debian_packages(tree):
    """Install, use and remove by the rows of the page."""
    before = tree.files()
    bring(tree, *debian(tree.arch).values())
    lines = lambda first, column: [line.replace("_amd64", f"_{tree.arch}") for line in row(first)[column]]
    (program,), (develop,) = lines("Debian, Ubuntu", "install"), lines("a C compiler", "install")
    lua = next(line for line in lines("Lua", "install") if line.startswith("apt "))
    for line in (program, develop, lua):
        type_in(tree, line)
    assert NAMED.match(tree.run("glebe", "--version"))
    for line in lines("Debian, Ubuntu", "use"):
        said = type_in(tree, line.replace("PROGRAM", "cat /etc/hostname"), env={"GLEBE_VERBOSE": "1"})
        assert ACTIVE.search(said), said
    assert tree.files() > before
    for first in ("Lua", "a C compiler", "Debian, Ubuntu"):
        type_in(tree, next(line for line in lines(first, "remove") if line.startswith("apt ")))
    assert tree.files() == before


def test_recipe_of_docker(tree):
    """The lines of docs/recipes.md, and the package away again."""
    before = tree.files()
    bring(tree, debian(tree.arch)["libglebe0"])
    lines = Document("docs/recipes.md", None).lines("FROM debian:12-slim", language="dockerfile")
    tree.run("sh", "-euc", re.search(r"^RUN (.*)$", lines, re.M)[1].replace("_amd64", f"_{tree.arch}"))
    name, value = re.search(r"^ENV (\w+)=(\S+)$", lines, re.M).groups()
    assert ACTIVE.search(tree.run("true", env={name: value, "GLEBE_VERBOSE": "1"}))
    tree.run("dpkg", "--purge", "libglebe0")
    assert tree.files() == before


def test_lua_package(tree):
    """The module in an interpreter of the same system."""
    bring(tree, debian(tree.arch)["lua-glebe"])
    tree.run("apt-get", "update")
    tree.run("apt-get", "install", "--no-install-recommends", "lua5.4", "lua5.1")
    tree.run("dpkg", "-i", f"/tmp/{debian(tree.arch)['lua-glebe'].name}")
    code = 'local g = require "glebe" g.adopt() print(type(g.stats()))'
    for lua in ("lua5.1", "lua5.4"):
        assert tree.run(lua, "-e", code) == "table\n"


def test_wheel_for_glibc(tree):
    """From Debian's Python to the first table, by the page's lines. It prints how long each step took."""
    wheel = package(f"*manylinux_2_28_{CPU[tree.arch]}.whl")
    bring(tree, wheel)
    (tree.folder / "tmp/app.py").write_text("print(len([bytes(i) for i in range(3000)]))\n")
    tree.run("apt-get", "update")
    tree.run("apt-get", "install", "--no-install-recommends", "python3-venv")
    assert list(tree.folder.glob("usr/lib/python3*/EXTERNALLY-MANAGED"))  # so the page takes a virtual environment
    before = tree.files()
    lines = Document("docs/install.md", None).lines("-m venv").replace("x86_64", CPU[tree.arch]).splitlines()
    for line in lines:
        start = time.monotonic()
        said = type_in(tree, line)
        print(f"{time.monotonic() - start:.1f} s: {line}")
    assert re.search(r"^\| system +\d", said, re.M) and re.search(r"^\| glebe +\d", said, re.M), said
    print(said)
    command = re.search(r"(\S+/bin/)glebe compare", lines[-1])[1]
    assert ACTIVE.search(type_in(tree, f"{command}glebe run -v -- python3 app.py"))
    assert ACTIVE.search(type_in(tree, f"{command}python -m glebe run -v app.py"))
    assert NAMED.match(type_in(tree, f"{command}glebe --version"))
    type_in(tree, f"{command}pip uninstall --yes glebe")
    assert not [name for name in tree.files() - before if "glebe" in name.removeprefix("root/glebe")]
    type_in(tree, "rm -r ~/glebe ~/.cache/glebe")
    assert tree.files() == before


def test_wheel_for_musl(tree):
    """The command is static and starts at any address, and runs a program with musl; a program with glibc it refuses.
    """
    wheel = package(f"*musllinux_1_2_{CPU[tree.arch]}.whl")
    tree.run("apt-get", "update")
    tree.run("apt-get", "install", "--no-install-recommends", "musl")
    inside = tree.folder / "opt"
    with zipfile.ZipFile(wheel) as content:
        content.extractall(inside)
    command = next(inside.glob("*.data/scripts/glebe")).rename(inside / "glebe-command")
    command.chmod(0o755)
    said = run("readelf", "-hlW", command)
    assert "INTERP" not in said and "DYN (Position-Independent Executable file)" in said
    (inside / "program.c").write_text("#include <stdlib.h>\nint main(void) { return !malloc(100); }\n")
    run(ROOT / "packaging/zig-cc", f"{CPU[tree.arch]}-linux-musl", "-dynamic", "-O0", inside / "program.c", "-o",
        inside / "program", env={"ZIG_PYTHON": str(PACKER)})
    assert ACTIVE.search(tree.run("/opt/glebe-command", "run", "-v", "--", "/opt/program"))
    assert ACTIVE.search(tree.run("/opt/program", env={"LD_PRELOAD": "/opt/glebe/lib/libglebe.so",
                                                       "GLEBE_VERBOSE": "1"}))
    assert "uses glibc" in tree.run("/opt/glebe-command", "run", "--", "true", fails=True)


@pytest.mark.parametrize("arch", [pytest.param("amd64", marks=foreign), "arm64"])
def test_lintian(arch):
    """It objects to nothing."""
    said = run("lintian", "--fail-on", "none", "--allow-root", *debian(arch).values())
    rest = [line for line in said.splitlines() if line[:2] in ("E:", "W:")]
    assert not rest, said


@foreign
def test_interface_is_the_same_on_both(tmp_path):
    """test_abi.py compares the interface of this machine's processor with the last release's; here the other one's has
    the same names, in the same versions."""
    found = {}
    for arch in CPU:
        run("dpkg-deb", "-x", debian(arch)["libglebe0"], tmp_path / arch)
        library, = tmp_path.glob(f"{arch}/usr/lib/*/libglebe.so.0")
        assert "soname: [libglebe.so.0]" in run("readelf", "-dW", library)
        lines = run("readelf", "-W", "--dyn-syms", library).splitlines()
        found[arch] = {line.split()[7] for line in lines if " GLOBAL " in line and " UND " not in line}
    assert "glebe_malloc@@GLEBE_0" in found["arm64"] and "malloc" in found["arm64"]
    assert found["arm64"] == found["amd64"]
    for name in PACKAGES:
        needs = {run("dpkg-deb", "-f", debian(arch)[name], "Depends") for arch in CPU}
        assert len(needs) == 1, needs


@foreign
@pytest.mark.parametrize("arch, compiler", [("amd64", "gcc"), ("arm64", "aarch64-linux-gnu-gcc")])
def test_development_package(tmp_path, arch, compiler):
    """pkg-config and CMake find the libraries below /usr/lib/MULTIARCH, for the cross compiler too."""
    multiarch = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[arch]
    for name in ("libglebe0", "libglebe-dev"):
        run("dpkg-deb", "-x", debian(arch)[name], tmp_path / "root")
    library = tmp_path / "root/usr/lib" / multiarch
    qemu = [] if arch == "amd64" else ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-E", "GLEBE_VERBOSE=1"]
    (tmp_path / "program.c").write_text(
        "#include <glebe.h>\n#include <stdio.h>\nint main(void) { return !glebe_malloc(1) || puts(\"said\") < 0; }\n")
    env = {"PKG_CONFIG_LIBDIR": str(library / "pkgconfig"), "GLEBE_VERBOSE": "1"}
    flags = run("pkg-config", "--cflags", "--libs", "glebe-override", env=env).split()
    run(compiler, tmp_path / "program.c", *flags, "-o", tmp_path / "by-pkg-config")
    assert "was active" in run(*qemu, tmp_path / "by-pkg-config", env=env)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(user LANGUAGES C)\nfind_package(glebe 0.1 REQUIRED)\n"
        "add_executable(program program.c)\ntarget_link_libraries(program PRIVATE glebe::override)\n")
    cross = [] if arch == "amd64" else ["-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64"]
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_C_COMPILER={compiler}", *cross,
        f"-Dglebe_DIR={library}/cmake/glebe")
    run("cmake", "--build", tmp_path / "build")
    assert "was active" in run(*qemu, tmp_path / "build/program", env=env)
