"""What tools/package built, each package in a fresh place: installed, used as docs/install.md says, removed, and
nothing left. It is part of `make test-long`, after `make package`. A package that is missing there is an error."""

import importlib.machinery
import importlib.util
import os
import pathlib
import platform
import re
import shutil
import subprocess
import zipfile

import pytest

from printed import Document
from test_wheel import ROOT, Installed, files, run, try_out

PACKAGES = ROOT / "build/packages"
pytestmark = [pytest.mark.xdist_group("package"),
              pytest.mark.skipif(not os.environ.get("GLEBE_TEST_LONG"), reason="part of make test-long "
                                                                               "(GLEBE_TEST_LONG=1)")]
PC = platform.machine() == "x86_64"
foreign = pytest.mark.skipif(not PC, reason="an Arm machine builds for itself alone")


def package(pattern):
    found = sorted(PACKAGES.glob(pattern))
    assert len(found) == 1, f"{pattern} in {PACKAGES}: {found}; make package"
    return found[0]


def newest(path):
    """The latest version of glibc that a file asks for, as a pair."""
    text = subprocess.run(["readelf", "-W", "--version-info", path], capture_output=True, text=True, check=True).stdout
    return max((tuple(map(int, v.split(".")[:2])) for v in re.findall(r"GLIBC_(\d+\.\d+)", text)), default=(0, 0))


# ---- wheels -------------------------------------------------------------------------------------------------------

def test_wheel_for_glibc(tmp_path):
    installed = Installed(package(f"*manylinux_2_28_{platform.machine()}.whl"), tmp_path)
    try_out(installed, tmp_path)
    assert "commit " in installed.run(installed.folder / "bin/glebe", "--version")
    installed.remove()


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_symbols_of_the_wheel_for_glibc(tmp_path, arch):
    """Nothing in it asks for a glibc later than 2.28; control: make lib's library does, on this system."""
    wheel = package(f"*manylinux_2_28_{arch}.whl")
    assert wheel.stat().st_size < 6_000_000
    with zipfile.ZipFile(wheel) as content:
        content.extractall(tmp_path)
    found = [*tmp_path.glob("glebe/lib/*.so"), *tmp_path.glob("*.data/scripts/glebe")]
    assert len(found) == 4
    for path in found:
        assert (2, 0) < newest(path) <= (2, 28), path
    assert newest(ROOT / "build/libglebe.so") > (2, 28)


@foreign
def test_wheel_for_arm(tmp_path):
    """The command starts under qemu, and the library serves a program there."""
    with zipfile.ZipFile(package("*manylinux_2_28_aarch64.whl")) as content:
        content.extractall(tmp_path)
    command = next(tmp_path.glob("*.data/scripts/glebe"))
    command.chmod(0o755)
    qemu = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]
    assert "aarch64-unknown-linux-gnu)" in run(*qemu, command, "--version")
    program = tmp_path / "program"
    (tmp_path / "program.c").write_text("#include <stdlib.h>\nint main(void) { return !malloc(100); }\n")
    run("aarch64-linux-gnu-gcc", "-O0", tmp_path / "program.c", "-o", program)
    library = tmp_path / "glebe/lib/libglebe.so"
    assert "was active" in run(*qemu, "-E", f"LD_PRELOAD={library}", "-E", "GLEBE_VERBOSE=1", program)


@foreign
def test_wheel_for_musl(tmp_path):
    """The command is static, and runs a program with musl; a program with glibc it refuses."""
    with zipfile.ZipFile(package("*musllinux_1_2_x86_64.whl")) as content:
        content.extractall(tmp_path)
    command = next(tmp_path.glob("*.data/scripts/glebe"))
    command.chmod(0o755)
    assert "INTERP" not in run("readelf", "-lW", command)
    (tmp_path / "program.c").write_text("#include <stdlib.h>\nint main(void) { return !malloc(100); }\n")
    run("musl-gcc", "-O0", tmp_path / "program.c", "-o", tmp_path / "program")
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert "was active" in run(command, "run", "-v", "--", tmp_path / "program", env=cache)
    assert "uses glibc" in run(command, "run", "--", "true", env=cache, fails=True)


# ---- Debian -------------------------------------------------------------------------------------------------------

def debian(arch="amd64" if PC else "arm64"):
    names = ("libglebe0", "libglebe-dev", "glebe", "lua-glebe")
    return {name: package(f"{name}_*_{arch}.deb") for name in names}


@pytest.mark.parametrize("arch", ["amd64", "arm64"])
def test_lintian(arch):
    """It objects to nothing."""
    said = run("lintian", "--fail-on", "none", "--allow-root", *debian(arch).values())
    rest = [line for line in said.splitlines() if line[:2] in ("E:", "W:")]
    assert not rest, said


@pytest.fixture(scope="module")
def tree():
    """Debian's minimal tree, made once."""
    if os.geteuid() or not shutil.which("debootstrap"):
        pytest.skip("takes root and debootstrap: tools/setup bare")
    loader = importlib.machinery.SourceFileLoader("bare", str(ROOT / "tools/bare"))
    bare = importlib.util.module_from_spec(importlib.util.spec_from_loader("bare", loader))
    loader.exec_module(bare)
    tree = ROOT / "build/packages-tree"
    if not tree.exists():
        bare.make_tree(tree)
    return tree


def test_debian_packages(tree):
    """The lines of docs/recipes.md's Dockerfile, the command, and away again: no file is left."""
    inside = ["chroot", tree, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"]
    aside = re.compile(r"(proc|sys|dev|tmp|var|root/\.cache|usr/share/doc)(/|$)")
    every = lambda: {name for name in files(tree) if not aside.match(name)}
    purge = lambda: run(*inside, "dpkg", "--purge", "glebe", "libglebe0")
    purge() # what a run that failed may have left
    before = every()
    found = debian()
    document = Document("docs/recipes.md", None)
    for name in ("libglebe0", "glebe"):
        shutil.copy(found[name], tree / "tmp")
    lines = re.search(r"^RUN (.*)$", document.lines("FROM debian:12-slim", language="dockerfile"), re.M)[1]
    run(*inside, "sh", "-euc", lines.replace("_amd64", f"_{found['glebe'].stem.rpartition('_')[2]}"))
    assert "was active" in run(*inside, "LD_PRELOAD=libglebe.so.0", "GLEBE_VERBOSE=1", "true")
    run(*inside, "dpkg", "-i", f"/tmp/{found['glebe'].name}")
    assert re.match(r"glebe \d+\.\d+\.\d+ \(commit ", run(*inside, "glebe", "--version"))
    assert "was active" in run(*inside, "glebe", "run", "-v", "--", "true")
    assert every() > before
    purge()
    assert every() == before


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


def test_lua_package(tmp_path):
    """The module for each Lua of Debian."""
    run("dpkg-deb", "-x", debian()["lua-glebe"], tmp_path)
    for version in ("5.1", "5.2", "5.3", "5.4"):
        module, = tmp_path.glob(f"usr/lib/*/lua/{version}")
        if shutil.which(f"lua{version}"):
            code = 'local g = require "glebe" g.adopt() print(type(g.stats()))'
            assert run(f"lua{version}", "-e", code, env={"LUA_CPATH": f"{module}/?.so"}) == "table\n"


# ---- the others ---------------------------------------------------------------------------------------------------

def test_rock(tmp_path):
    """luarocks builds it without a network, and removes it whole."""
    before = files(tmp_path)
    tree = ["--lua-version=5.4", "--tree", tmp_path / "rocks"]
    env = {"HOME": str(tmp_path / "home")}
    run("luarocks", *tree, "install", package("*.src.rock"), env=env, cwd=tmp_path)
    path = tmp_path / "rocks/lib/lua/5.4/?.so"
    code = 'local g = require "glebe" g.adopt() print(type(g.stats()))'
    assert run("lua5.4", "-e", code, env={"LUA_CPATH": str(path)}) == "table\n"
    run("luarocks", *tree, "remove", "glebe", env=env, cwd=tmp_path)
    left = {name for name in files(tmp_path) - before if (tmp_path / name).is_file() and "/manifest" not in f"/{name}"}
    assert not [name for name in left if "glebe" in name], left


def test_go_module(tmp_path):
    """A program that requires the version from a proxy of files, built by TinyGo, in a GOPATH of its own."""
    setup = ROOT / "tools/setup"
    go = run(setup, "which", "go").strip()
    tinygo = subprocess.run([setup, "which", "tinygo"], capture_output=True, text=True, check=False).stdout.strip()
    if not tinygo:
        pytest.skip("no TinyGo: tools/setup tinygo")
    tag = (PACKAGES / "go/github.com/glebe-alloc/glebe/@v/list").read_text().strip()
    env = {"GOPROXY": f"file://{PACKAGES}/go", "GOSUMDB": "off", "GOPATH": str(tmp_path / "go"), "GOTOOLCHAIN": "local",
           "GOFLAGS": "-modcacherw", "HOME": str(pathlib.Path.home()),
           "PATH": f"{pathlib.Path(go).parent}:{os.environ['PATH']}"}
    (tmp_path / "main.go").write_text("package main\n\nimport _ \"github.com/glebe-alloc/glebe/bindings/tinygo\"\n\n"
                                      "func main() { println(len(make([]byte, 100))) }\n")
    run(go, "mod", "init", "example.com/program", cwd=tmp_path, env=env)
    run(go, "get", f"github.com/glebe-alloc/glebe@{tag}", cwd=tmp_path, env=env)
    assert f"github.com/glebe-alloc/glebe {tag}" in (tmp_path / "go.mod").read_text()
    run(tinygo, "build", "-target=wasip1", "-gc=custom", "-tags=custommalloc", "-o", "program.wasm", ".", cwd=tmp_path,
        env=env)
    assert (tmp_path / "program.wasm").read_bytes()[:4] == b"\0asm"
    run(go, "get", "github.com/glebe-alloc/glebe@none", cwd=tmp_path, env=env)
    assert "glebe-alloc" not in (tmp_path / "go.mod").read_text()


def test_crates_are_packed():
    """test_crates.py builds and runs what cargo packs; here are the same files."""
    assert package("glebe-[0-9]*.crate").stat().st_size > 100_000
    assert package("glebe-cli-*.crate").stat().st_size > 50_000


def test_source_archive(tmp_path):
    """It has what git tracks, and compiles by the line of docs/start.md."""
    run("tar", "-xf", package("glebe-?.?.?.tar.gz"), "-C", tmp_path)
    top, = tmp_path.iterdir()
    (top / "program.c").write_text("#include <stdlib.h>\nint main(void) { return !malloc(100); }\n")
    line = re.search(r"`(cc -O2 program\.c src/glebe\.c [^`]*)`", (top / "docs/start.md").read_text())[1]
    run("sh", "-euc", f"{line} -Iinclude -o program", cwd=top)
    assert "was active" in run(top / "program", env={"GLEBE_VERBOSE": "1"})


def test_wasm_archive(tmp_path):
    run("tar", "-xf", package("*wasm32.tar.gz"), "-C", tmp_path)
    top, = tmp_path.iterdir()
    (tmp_path / "program.c").write_text("#include <stdlib.h>\nint main(void) { return !malloc(100); }\n")
    run("clang-19", "--target=wasm32-wasi", "-O2", tmp_path / "program.c", top / "wasm32/libglebe-override.a", "-o",
        tmp_path / "program.wasm")
    assert (tmp_path / "program.wasm").read_bytes()[:4] == b"\0asm"


@foreign
def test_windows_archive(tmp_path):
    """The command starts under Wine, and an archive links."""
    run("unzip", "-q", package("*windows-x86_64.zip"), "-d", tmp_path)
    top, = tmp_path.glob("glebe-*")
    (tmp_path / "program.c").write_text("#include <stdlib.h>\nint main(void) { return !malloc(100); }\n")
    run("x86_64-w64-mingw32-gcc-posix", tmp_path / "program.c", top / "libglebe-override.a", "-o",
        tmp_path / "program.exe")
    env = {"WINEPREFIX": str(tmp_path / "prefix"), "WINEDEBUG": "-all", "GLEBE_VERBOSE": "1"}
    assert "was active" in run("wine", tmp_path / "program.exe", env=env)
    assert re.search(r"glebe \d", run("wine", top / "glebe.exe", "--version", env=env))


def test_sums():
    """`sha256sum --check` agrees with every file, and every file is named; control: a changed line is found."""
    name = "SHA256SUMS"
    run("sha256sum", "--check", "--quiet", name, cwd=PACKAGES)
    text = (PACKAGES / name).read_text()
    named = {line.split("  ")[1] for line in text.splitlines()}
    assert named == {n for n in files(PACKAGES) if (PACKAGES / n).is_file()} - {name}
    wrong = ("1" if text[0] == "0" else "0") + text[1:]
    assert "FAILED" in run("sha256sum", "--check", "-", cwd=PACKAGES, input=wrong, fails=True)
