"""Source trees that tests change, copied once into build/test-tinygo, so that the installed ones stay as they are.

    goroot/   the Go that TinyGo uses, in which glebe is a package of the standard library
    root/     what TinyGo has in place of some of Go's packages, such as sync and os; with net/http's names of statuses,
              if this TinyGo lacks net/http
    wasip2/   the same with the line of docs/tinygo.md for wasip2

TinyGo compiles from them: `command` and `environment()` say how.
"""

import functools
import pathlib
import re
import shutil
import subprocess

from test_tinygo import ENVIRONMENT, GO, OUT, ROOT, TINYGO
from test_programs import which

GOROOT = OUT / "goroot"
TINYGOROOT = OUT / "root"
WASIP2 = OUT / "wasip2"


def asked(command, name):
    done = subprocess.run([command, "env", name], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    return pathlib.Path(done.stdout.strip())


def copied(theirs, mine, stamp, without=()):
    """Copies `theirs`/src, unless a copy with this stamp is there; links the rest. Tells whether it copied."""
    ready = mine / ".ready"
    if ready.exists() and ready.read_text() == stamp:
        return False
    shutil.rmtree(mine, ignore_errors=True)
    mine.mkdir(parents=True)
    for entry in theirs.iterdir():
        if entry.name != "src":
            (mine / entry.name).symlink_to(entry)
    shutil.copytree(theirs / "src", mine / "src",
                    ignore=lambda folder, names: set(without) & set(names) if folder == str(theirs / "src") else ())
    return True


@functools.cache
def goroot():
    """glebe's own files are links in the copy, so they are always current."""
    theirs = asked(GO, "GOROOT")
    version = (theirs / "VERSION").read_text()
    if copied(theirs, GOROOT, version, without=["cmd"]):
        glebe = GOROOT / "src/glebe"
        (glebe / "bindings").mkdir(parents=True)
        for name in ("bindings/tinygo", "src", "include"):
            (glebe / name).symlink_to(ROOT / name)
        (GOROOT / ".ready").write_text(version)
    return GOROOT


@functools.cache
def tinygoroot():
    """TinyGo's own net/http is a submodule, which the TinyGo of tools/setup lacks. The programs tested here only ask it
    for names of statuses and methods, and Go's files with these compile."""
    theirs = asked(TINYGO, "TINYGOROOT")
    if copied(theirs, TINYGOROOT, str(theirs)):
        http = TINYGOROOT / "src/net/http"
        if not any(http.glob("*.go")):
            http.mkdir(parents=True, exist_ok=True)
            for name in ("status.go", "method.go"):
                shutil.copyfile(asked(GO, "GOROOT") / "src/net/http" / name, http / name)
        (TINYGOROOT / ".ready").write_text(str(theirs))
    return TINYGOROOT


@functools.cache
def wasip2root():
    """With the line that docs/tinygo.md has a user append to a file of TinyGo."""
    theirs = asked(TINYGO, "TINYGOROOT")
    line, file = re.search(r"^echo '(.*)' *\\?\n? *>> *\"\$\(tinygo env TINYGOROOT\)/(.*)\"$",
                           (ROOT / "docs/tinygo.md").read_text(), re.MULTILINE).groups()
    if copied(theirs, WASIP2, f"{theirs} {line}"):
        (WASIP2 / file).write_text(f"{(WASIP2 / file).read_text()}{line}\n")
        (WASIP2 / ".ready").write_text(f"{theirs} {line}")
    return WASIP2


@functools.cache
def command():
    """TinyGo without the script that tools/setup puts before it, which chooses the tree."""
    built = asked(TINYGO, "TINYGOROOT") / "build/tinygo"
    return built if built.exists() else TINYGO


def for_wasip2():
    return {**environment(wasip2root()), "WASMTOOLS": which("wasm-tools")}


def environment(root=None):
    return {**ENVIRONMENT, "TINYGOROOT": str(root or tinygoroot()), "GOWORK": "off",
            "XDG_CACHE_HOME": str(asked(TINYGO, "GOCACHE").parent)}
