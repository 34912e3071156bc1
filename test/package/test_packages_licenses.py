"""The licences of what is linked into the command, in each binary package that tools/package built. Part of `make
test-long`, like test_packages.py."""

import importlib
import json
import re
import subprocess
import sys
import zipfile

import pytest

from test_packages import foreign, package, pytestmark
from test_wheel import ROOT, run

NAME = "THIRD-PARTY-LICENSES"
DEBIAN = {"amd64": "x86_64", "arm64": "aarch64"}
OWN = {"glebe", "glebe-cli"}


def of_wheel(pattern):
    """The file, and the parts that the wheel's own CycloneDX list names."""
    with zipfile.ZipFile(package(pattern)) as content:
        name, = (name for name in content.namelist() if name.endswith(f".dist-info/licenses/{NAME}"))
        text = content.read(name).decode()
        about = content.read(f"{name.split('/')[0]}/METADATA").decode()
        assert f"\nLicense-File: {NAME}\n" in about
        listed, = (name for name in content.namelist() if name.endswith(".cyclonedx.json"))
        parts = json.loads(content.read(listed))["components"]
    return text, {f"{part['name']} {part['version']}" for part in parts if part["name"] not in OWN}


def of_debian(arch):
    """The file of the package `glebe`, which has the command of the wheel for glibc, and that wheel's parts."""
    tar = subprocess.run(["dpkg-deb", "--fsys-tarfile", package(f"glebe_*_{arch}.deb")], capture_output=True,
                         check=True)
    content = lambda name: subprocess.run(["tar", "-xO", f"./usr/share/doc/glebe/{name}"], input=tar.stdout,
                                          capture_output=True, check=True).stdout.decode()
    assert f"/usr/share/doc/glebe/{NAME}" in content("copyright")
    return content(NAME), of_wheel(f"*manylinux_2_28_{DEBIAN[arch]}.whl")[1]


def of_windows():
    """The file, and the crates that cargo's tree for Windows has."""
    with zipfile.ZipFile(package("*windows-x86_64.zip")) as content:
        name, = (name for name in content.namelist() if name.endswith(NAME))
        text = content.read(name).decode()
    tree = run("cargo", "tree", "--locked", "-p", "glebe-cli", "-e", "normal", "--target", "x86_64-pc-windows-gnu",
               "--prefix", "none", "-f", "{p}", cwd=ROOT)
    found = {line.split(" (")[0].replace(" v", " ") for line in tree.splitlines() if " v" in line}
    return text, {part for part in found if part.split()[0] not in OWN}


def without_text(text, parts):
    """The parts that have no row in the file's table, or a row without a text."""
    table, *rest = re.split(r"^==== \[(\d+)\] ====$", text, flags=re.M)
    bodies = dict(zip(rest[::2], rest[1::2]))
    rows = {row.split("  ")[0]: re.findall(r"\[(\d+)\]", row) for row in table.splitlines() if "[" in row}
    has = lambda number: len(bodies.get(number, "")) > 100
    return {part for part in parts if not rows.get(part) or not all(map(has, rows[part]))}


CASES = {**{f"{tag}-{arch}": lambda tag=tag, arch=arch: of_wheel(f"*{tag}_{arch}.whl")
            for tag in ("manylinux_2_28", "musllinux_1_2") for arch in ("x86_64", "aarch64")},
         **{f"debian-{arch}": lambda arch=arch: of_debian(arch) for arch in DEBIAN}, "windows": of_windows}


@pytest.mark.parametrize("case", [pytest.param(case, marks=foreign if "x86_64" not in case else []) for case in CASES])
def test_every_part_has_its_licence(case):
    """Control: a row or a text that is taken out of the file is missed."""
    text, parts = CASES[case]()
    assert len(parts) > 50 and {"clap", "serde_json"} <= {part.split()[0] for part in parts}
    also = [r"Rust's standard library \d[.\d]+", r"gimli \d[.\d]+, in Rust's library"]
    also += [r"the runtime of mingw-w64 \S+"] if case == "windows" else [r"LLVM's unwinder, of zig \S+"]
    also += [r"musl, of zig \S+"] if "musl" in case else []
    parts |= {re.search(f"^{line}(?=  )", text, re.M)[0] for line in also}
    assert not without_text(text, parts)
    assert ("musl, of zig" in text) == ("musl" in case)
    assert without_text(re.sub(r"(?m)^serde_json .*\n", "", text), parts) == {part for part in parts
                                                                              if part.startswith("serde_json ")}
    number = re.search(r"(?m)^serde_json .*\[(\d+)\]", text)[1]
    gone = re.sub(rf"(?ms)^==== \[{number}\] ====$.*?(?=^==== |\Z)", f"==== [{number}] ====\n", text)
    assert {part.split()[0] for part in without_text(gone, parts)} >= {"serde_json"}
    for path in (str(ROOT), ".cargo/registry", ".rustup"):
        assert path not in text


def test_other_licences_stop_the_build(monkeypatch):
    """A crate whose licence asks for more, or that has none, ends tools/package; one that offers a choice does not."""
    monkeypatch.syspath_prepend(str(ROOT / "packaging"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    is_allowed = importlib.import_module("licenses").is_allowed
    for expression in ("MIT", "MIT/Apache-2.0", "Unlicense OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0",
                       "Apache-2.0 WITH LLVM-exception OR GPL-3.0-only", "BSD-3-Clause AND BSD-2-Clause"):
        assert is_allowed(expression), expression
    for expression in ("", "GPL-3.0-only", "MIT AND GPL-2.0-only", "(GPL-2.0 OR LGPL-2.1) AND MIT", "NOASSERTION"):
        assert not is_allowed(expression), expression
