"""What tools/package built, each package in a fresh place: installed, used as docs/install.md says, removed, and
nothing left. It is part of `make test-long`, after `make package`. A package that is missing there is an error.
test_packages_debian.py has those that go into a bare system."""

import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import zipfile

import pytest

from printed import Document
from test_wheel import PACKER, ROOT, Installed, files, run, try_out

PACKAGES = ROOT / "build/packages"
pytestmark = [pytest.mark.xdist_group("package"),
              pytest.mark.skipif(not os.environ.get("GLEBE_TEST_LONG"), reason="part of make test-long "
                                                                               "(GLEBE_TEST_LONG=1)")]
PC = platform.machine() == "x86_64"
ACTIVE = re.compile(r"was active: at most \d+\.\d [KM]iB.*; commit [0-9a-f]{12}")
NAMED = re.compile(r"glebe \d+\.\d+\.\d+ \(commit [0-9a-f]{12}")
WARNING = "-Wpadded"  # which the source does not heed: a later compiler may have such a one by itself
foreign = pytest.mark.skipif(not PC, reason="an Arm machine builds for itself alone")


def package(pattern):
    found = sorted(PACKAGES.glob(pattern))
    assert len(found) == 1, f"{pattern} in {PACKAGES}: {found}; make package"
    return found[0]


def row(first):
    """The lines of a row of docs/install.md, by column."""
    table = re.findall(r"^\|(.*)\|$", (ROOT / "docs/install.md").read_text(), re.M)
    head, *rows = ([cell.strip() for cell in line.split("|")] for line in table)
    found, = (cells for cells in rows if cells[0] == first)
    return {name: re.findall(r"`([^`]+)`", cell) for name, cell in zip(head, found)}


def newest(path):
    """The latest version of glibc that a file asks for, as a pair."""
    text = subprocess.run(["readelf", "-W", "--version-info", path], capture_output=True, text=True, check=True).stdout
    return max((tuple(map(int, v.split(".")[:2])) for v in re.findall(r"GLIBC_(\d+\.\d+)", text)), default=(0, 0))


# ---- wheels -------------------------------------------------------------------------------------------------------

def test_wheel_for_glibc(tmp_path):
    installed = Installed(package(f"*manylinux_2_28_{platform.machine()}.whl"), tmp_path)
    try_out(installed, tmp_path)
    assert NAMED.match(installed.run(installed.folder / "bin/glebe", "--version"))
    installed.remove()


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_symbols_of_the_wheel_for_glibc(tmp_path, arch):
    """Nothing in it asks for a glibc later than 2.28; control: make lib's library does, on this system."""
    wheel = package(f"*manylinux_2_28_{arch}.whl")
    assert wheel.stat().st_size < 6_000_000
    with zipfile.ZipFile(wheel) as content:
        content.extractall(tmp_path)
    found = [*tmp_path.glob("glebe/lib/*.so"), *tmp_path.glob("*.data/scripts/glebe")]
    assert len(found) == 5
    for path in found:
        assert (2, 0) < newest(path) <= (2, 28), path
    assert newest(ROOT / "build/libglebe.so") > (2, 28)


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
@pytest.mark.parametrize("tag, older", [("manylinux_2_28", "manylinux_2_27"), ("musllinux_1_2", "musllinux_1_1")])
def test_pip_takes_the_wheel(tmp_path, tag, older, arch):
    """pip installs it for its own system, also where none is at hand to run it whole (musl), and the command starts;
    control: for an older C library pip refuses it."""
    wheel = package(f"*{tag}_{arch}.whl")
    pip = [PACKER, "-m", "pip", "install", "--quiet", "--no-index", "--only-binary=:all:", "--target", tmp_path / "to"]
    run(*pip, "--platform", f"{tag}_{arch}", wheel)
    emulator = [] if arch == platform.machine() else ["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"]
    if PC or not emulator:
        assert NAMED.match(run(*emulator, tmp_path / "to/bin/glebe", "--version"))
    said = run(*pip, "--platform", f"{older}_{arch}", wheel, fails=True)
    assert "is not a supported wheel on this platform" in said


@pytest.mark.parametrize("tag", ["manylinux_2_28", "musllinux_1_2"])
def test_wheel_suits_pages_of_64_kib(tmp_path, tag):
    """Red Hat's kernels for AArch64 have such pages, and load only files that are aligned to them; control: a library
    linked for pages of 4 KiB is told apart."""
    with zipfile.ZipFile(package(f"*{tag}_aarch64.whl")) as content:
        content.extractall(tmp_path)
    (tmp_path / "small.c").write_text("int small;\n")
    small = tmp_path / "small.so"
    run(ROOT / "packaging/zig-cc", "aarch64-linux-musl", "-shared", "-Wl,-z,max-page-size=4096", tmp_path / "small.c",
        "-o", small, env={"ZIG_PYTHON": str(PACKER)})
    found = [*tmp_path.glob("glebe/lib/*.so"), *tmp_path.glob("*.data/scripts/glebe")]
    assert len(found) == 5
    for path in (*found, small):
        loads = re.findall(r"^ +LOAD .* 0x(\w+)$", run("readelf", "-lW", path), re.M)
        assert loads and all(int(align, 16) % 65536 == 0 for align in loads) == (path != small), (path, loads)


# ---- the others ---------------------------------------------------------------------------------------------------

def test_rock(tmp_path):
    """luarocks builds it without a network, with a compiler that warns too, and removes it whole."""
    before = files(tmp_path)
    tree = ["--lua-version=5.4", "--tree", tmp_path / "rocks"]
    env = {"HOME": str(tmp_path / "home")}
    said = run("luarocks", *tree, "install", package("*.src.rock"), f"CC=gcc {WARNING}", env=env, cwd=tmp_path)
    assert f"[{WARNING}]" in said
    path = tmp_path / "rocks/lib/lua/5.4/?.so"
    code = 'local g = require "glebe" g.adopt() print(type(g.stats()))'
    assert run("lua5.4", "-e", code, env={"LUA_CPATH": str(path)}) == "table\n"
    run("luarocks", *tree, "remove", "glebe", env=env, cwd=tmp_path)
    left = {name for name in files(tmp_path) - before if (tmp_path / name).is_file() and "/manifest" not in f"/{name}"}
    assert not [name for name in left if "glebe" in name], left


@pytest.fixture
def tinygo():
    setup = ROOT / "tools/setup"
    found = subprocess.run([setup, "which", "tinygo"], capture_output=True, text=True, check=False).stdout.strip()
    if not found:
        pytest.skip("no TinyGo: tools/setup tinygo")
    tools = [pathlib.Path(run(setup, "which", name).strip()).parent for name in ("go", "wazero")]
    return {"PATH": ":".join(map(str, [pathlib.Path(found).parent, *tools, os.environ["PATH"]]))}


def test_go_module(tinygo, tmp_path):
    """The first program of bindings/tinygo requires the version from a proxy of files, in a GOPATH of its own."""
    env = {"FOLDER": str(PACKAGES), "GOPATH": str(tmp_path / "go"), "GOTOOLCHAIN": "local", "GOFLAGS": "-modcacherw",
           "HOME": str(pathlib.Path.home()), **tinygo}
    folder = tmp_path / "program"
    folder.mkdir()
    page = Document("bindings/tinygo/README.md", folder)
    proxy, get = Document("docs/install.md", None).lines("GOPROXY").splitlines()
    assert get == row("Go and TinyGo")["install"][0]
    none, = row("Go and TinyGo")["remove"]
    lines = re.sub(r"^go mod edit .*$", f"{proxy}\n{get}", page.lines("wazero run example.wasm"), flags=re.M)
    assert "1000 words, true\n" in run("sh", "-euc", lines, cwd=folder, env=env)
    run("sh", "-euc", f"{proxy}; rm *.go; {none}; go clean -modcache", cwd=folder, env=env)
    assert "glebe-alloc" not in (folder / "go.mod").read_text()
    assert not [name for name in files(tmp_path / "go") if "glebe" in name]


def test_crates(tmp_path):
    """`cargo install` of the command and `cargo add` of the library, from the packed files, in a CARGO_HOME of its own;
    removed, and nothing left. Without optimization, which takes minutes."""
    for path in PACKAGES.glob("*.crate"):
        run("tar", "-xf", path, "-C", tmp_path)
    command, = tmp_path.glob("glebe-cli-*")
    library, = tmp_path.glob("glebe-[0-9]*")
    home = tmp_path / "cargo"
    home.mkdir()
    for name in ("config.toml", "config"):
        if (pathlib.Path.home() / ".cargo" / name).exists():
            shutil.copy(pathlib.Path.home() / ".cargo" / name, home)
    env = {"CARGO_HOME": str(home), "CARGO_TARGET_DIR": str(ROOT / "build/crate/installed"), "HOME": str(tmp_path),
           "RUSTUP_HOME": os.environ.get("RUSTUP_HOME") or str(pathlib.Path.home() / ".rustup"),
           "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0"}
    run("cargo", "install", "--path", command, "--config", f'patch.crates-io.glebe.path="{library}"', env=env)
    assert NAMED.match(run(home / "bin/glebe", "--version", env=env))
    assert ACTIVE.search(run(home / "bin/glebe", "run", "-v", "--", "true", env=env))
    remove, uninstall = row("Rust")["remove"]
    run("sh", "-euc", uninstall, env=env)
    assert not list((home / "bin").iterdir())
    user = tmp_path / "user"
    run("cargo", "new", user, env=env)
    run("sh", "-euc", f"{row('Rust')['install'][0]} --path {library}", cwd=user, env=env)
    (user / "src/main.rs").write_text("#[global_allocator]\nstatic ALLOC: glebe::Heap = glebe::Heap::new();\n"
                                      "fn main() { println!(\"{}\", vec![1; 1000].len()); }\n")
    said = run("cargo", "run", "--quiet", cwd=user, env={**env, "GLEBE_VERBOSE": "1"})
    assert re.search(r"of the crate was active: .*; commit [0-9a-f]{12}", said), said
    run("sh", "-euc", remove, cwd=user, env=env)
    assert "glebe" not in (user / "Cargo.toml").read_text()


def test_source_archive(tmp_path):
    """It has what git tracks. It compiles by the line of docs/start.md, warnings stop no build, and it names the commit
    without git."""
    run("tar", "-xf", package("glebe-?.?.?.tar.gz"), "-C", tmp_path)
    top, = tmp_path.iterdir()
    assert not (top / ".git").exists()
    (top / "program.c").write_text("#include <stdlib.h>\nint main(void) { return !malloc(100); }\n")
    line = re.search(r"`(cc -O2 program\.c src/glebe\.c [^`]*)`", (top / "docs/start.md").read_text())[1]
    run("sh", "-euc", f"{line} -Iinclude -o program", cwd=top)
    assert ACTIVE.search(run(top / "program", env={"GLEBE_VERBOSE": "1"}))
    run("cmake", "-S", top, "-B", tmp_path / "build", env={"CFLAGS": WARNING})
    assert f"[{WARNING}]" in run("cmake", "--build", tmp_path / "build", "--target", "glebe")
    assert ACTIVE.search(run("true", env={"LD_PRELOAD": str(tmp_path / "build/libglebe.so"), "GLEBE_VERBOSE": "1"}))


def test_wasm_archive(tinygo, tmp_path):
    """The first lines of docs/webassembly.md, with the archive in place of the repository; wazero runs the program."""
    (tmp_path / "here").mkdir()
    run("tar", "-xf", package("*wasm32.tar.gz"), "-C", tmp_path / "here")
    top, = (tmp_path / "here").iterdir()
    page = Document("docs/webassembly.md", tmp_path)
    page.run("$GLEBE/include program.c $GLEBE/build/wasm32", env={"GLEBE": str(top)})
    assert run("wazero", "run", tmp_path / "program.wasm", env=tinygo) == "malloc is glebe's\n"


@foreign
def test_windows_archive(tmp_path):
    """The command puts glebe.dll under a program, and a program links the archive, both under Wine."""
    run("unzip", "-q", package("*windows-x86_64.zip"), "-d", tmp_path)
    top, = tmp_path.glob("glebe-*")
    program = tmp_path / "program.exe"
    compiler = "x86_64-w64-mingw32-gcc-posix"
    env = {"WINEPREFIX": str(tmp_path / "prefix"), "WINEDEBUG": "-all", "GLEBE_VERBOSE": "1"}
    Document("docs/windows.md", tmp_path)
    run(compiler, tmp_path / "program.c", "-o", program)
    assert b"_dll_imports_lib" not in (top / "glebe.exe").read_bytes()  # as symbols that name rustc's folder end
    assert NAMED.search(run("wine", top / "glebe.exe", "--version", env=env))
    line = row("Windows")["use"][0].replace("run", "run -v").replace("PROGRAM", str(program))
    said = run("sh", "-euc", f"wine {top}/{line}", env=env)
    assert "hello" in said and "redirected in program.exe" in said and ACTIVE.search(said), said
    run(compiler, tmp_path / "program.c", top / "libglebe-override.a", "-o", program)
    assert ACTIVE.search(run("wine", program, env=env))


@pytest.mark.parametrize("tag", ["manylinux_2_28", "musllinux_1_2"])
@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_list_of_parts(tag, arch):
    """The CycloneDX list names every crate in the command, by cargo's own word, with its version and its licence."""
    triple = f"{arch}-unknown-linux-{'gnu' if 'many' in tag else 'musl'}"
    with zipfile.ZipFile(package(f"*{tag}_{arch}.whl")) as content:
        name, = (name for name in content.namelist() if name.endswith(".cyclonedx.json"))
        parts = json.loads(content.read(name))
    assert parts["bomFormat"] == "CycloneDX"
    named = {(part["name"], part["version"]) for part in [parts["metadata"]["component"], *parts["components"]]}
    assert all(part.get("licenses") for part in parts["components"])
    tree = run("cargo", "tree", "--locked", "-p", "glebe-cli", "-e", "normal", "--target", triple, "--prefix", "none",
               "-f", "{p}", cwd=ROOT)
    linked = {tuple(line.split(" (")[0].replace(" v", "|").split("|")) for line in tree.splitlines() if " v" in line}
    assert len(linked) > 20 and not linked - named


def test_sums():
    """`sha256sum --check` agrees with every file, and every file is named; control: a changed line is found."""
    name = "SHA256SUMS"
    run("sha256sum", "--check", "--quiet", name, cwd=PACKAGES)
    text = (PACKAGES / name).read_text()
    named = {line.split("  ")[1] for line in text.splitlines()}
    assert named == {n for n in files(PACKAGES) if (PACKAGES / n).is_file()} - {name}
    wrong = ("1" if text[0] == "0" else "0") + text[1:]
    assert "FAILED" in run("sha256sum", "--check", "-", cwd=PACKAGES, input=wrong, fails=True)


def test_twice(tmp_path):
    """A second build of the rock, in another folder, has the same bits; control: a changed file is named."""
    command = [ROOT / "tools/package", "rock", "--out", tmp_path / "out", "--work", tmp_path / "work"]
    run(*command)
    assert "2 files, the same in both builds" in run(*command, "--twice")
    with open(next((tmp_path / "out").glob("*.rock")), "ab") as rock:
        rock.write(b"x")
    assert re.search(r"\.src\.rock differs between two builds", run(*command, "--twice", fails=True))
