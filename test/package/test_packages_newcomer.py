"""A newcomer on a bare Debian 12: what docs/install.md says, and the page that its row names, typed word for word, for
the packages that test_packages_debian.py does not try. Each tree gets what the page says to install, and no more. Part
of `make test-long`, after `make package`."""

import re
import shutil

import pytest

import trees
from printed import Document
from test_packages import ACTIVE, NAMED, PACKAGES, ROOT, foreign, package, pytestmark, row
from test_packages_debian import CPU, bring, debian, tree, type_in

INSTALL = "docs/install.md"
TEXT = (ROOT / INSTALL).read_text()
HEAPS = re.compile(r"^\d{4,} blocks in \d+ KiB$", re.M)


def apt(tree, *words):
    tree.run("apt-get", "update")
    tree.run("apt-get", "install", "--no-install-recommends", *words)


def needs(what):
    """The packages of Debian that the page says `what` needs."""
    text = " ".join(TEXT.split())
    return re.search(rf"- \*\*The {what}\*\*[^*]*?`apt install ([^`]+)`", text)[1].split()


def reader(tree, name):
    """A page with its programs in a folder of the tree, and a function that types lines there."""
    page = Document(name, tree.folder / "tmp/reader")
    return page, lambda lines, **options: type_in(tree, f"cd reader\n{lines}", **options)


def test_pipx(tree):
    """One line puts the command on the PATH, another removes it."""
    needed, install = re.search(r"pipx \(`apt install ([^`]+)`\) .*`(pipx install [^`]+)`", TEXT).groups()
    apt(tree, needed)
    bring(tree, wheel := package(f"*manylinux_2_28_{CPU[tree.arch]}.whl"))
    type_in(tree, install.replace("FILE", wheel.name))
    use, = row("Python")["use"]
    path = {"PATH": f"/root/.local/bin:{trees.PATH}"}
    assert ACTIVE.search(type_in(tree, use.replace("run", "run -v").replace("PROGRAM", "cat /etc/hostname"), env=path))
    type_in(tree, "pipx uninstall glebe")
    assert not [name for name in tree.files() if "glebe" in name]


def test_development_package(tree):
    """The page for C: pkg-config, heaps beside malloc, CMake; and away again."""
    apt(tree, *needs("development package"))
    before = tree.files()
    bring(tree, *debian(tree.arch).values())
    install, = row("a C compiler")["install"]
    type_in(tree, install.replace("_amd64", f"_{tree.arch}"))
    page, typed = reader(tree, "bindings/c/README.md")
    typed(page.lines("cc program.c $(pkg-config"))
    assert ACTIVE.search(typed(page.lines("GLEBE_VERBOSE=1 ./program")))
    assert HEAPS.search(typed(page.lines("cc heaps.c $(pkg-config")))
    said = typed(page.lines("cmake -S . -B build"))
    assert ACTIVE.search(said) and HEAPS.search(said), said
    for line in row("a C compiler")["remove"]:
        type_in(tree, line)
    assert tree.files() == before


def test_source_archive(tree):
    """A compiler is all that the line of docs/start.md needs."""
    apt(tree, "gcc", "libc6-dev")
    before = tree.files()
    bring(tree, archive := package("glebe-?.?.?.tar.gz"))
    (tree.folder / "tmp/program.c").write_text("#include <stdlib.h>\nint main(void) { return !malloc(100); }\n")
    line, = row("a C compiler and nothing else")["use"]
    whole = re.search(rf"`({re.escape(line.removesuffix('...'))}[^`]*)`", (ROOT / "docs/start.md").read_text())[1]
    type_in(tree, f"tar -xf {archive.name}\ncd {archive.name.removesuffix('.tar.gz')}\nmv ../program.c .\n"
                  f"{whole} -o ../program")
    assert ACTIVE.search(type_in(tree, "./program", env={"GLEBE_VERBOSE": "1"}))
    assert tree.files() == before


def test_rock(tree):
    """luarocks fetches nothing, compiles, and removes it whole."""
    apt(tree, *needs("rock"))
    before = tree.files()
    bring(tree, package("*.src.rock"))
    install, remove = (next(line for line in row("Lua")[column] if "luarocks" in line)
                       for column in ("install", "remove"))
    type_in(tree, install)
    page, typed = reader(tree, "docs/lua.md")
    assert typed(page.lines("luarocks --lua-version=5.4 path")) == "true\ntrue\n"
    type_in(tree, remove)
    assert not [name for name in tree.files() - before if "glebe" in name]


@foreign
@pytest.mark.parametrize("tree", [trees.NATIVE], indirect=True)  # a processor under qemu would add an hour
def test_crates(tree):
    """The command and the library from the files, by Debian's Rust; without optimization, which takes minutes."""
    apt(tree, *needs("crate"))
    before = tree.files()
    bring(tree, *PACKAGES.glob("*.crate"))
    env = {"CARGO_PROFILE_RELEASE_OPT_LEVEL": "0", "GLEBE": "/tmp/glebe-0.1.0",
           "PATH": f"/root/.cargo/bin:{trees.PATH}"}
    type_in(tree, Document(INSTALL, None).lines("cargo install"), env=env)
    assert NAMED.match(type_in(tree, "glebe --version", env=env))
    assert ACTIVE.search(type_in(tree, "glebe run -v -- true", env=env))
    page, typed = reader(tree, "bindings/rust/README.md")
    program = page.folder / "example/src/main.rs"
    text = program.read_text()
    shutil.rmtree(page.folder / "example")
    typed(page.lines("cargo new example"), env=env)
    program.write_text(text)
    assert ACTIVE.search(typed("cd example\n" + page.lines("target/release/example"), env=env))
    remove, uninstall = row("Rust")["remove"]
    typed(f"cd example\n{remove}", env=env)
    type_in(tree, uninstall, env=env)
    left = {name for name in tree.files() - before if not name.startswith(("root/.cargo/registry", "root/.cargo/."))}
    assert not [name for name in left if "glebe" in name]
