"""What .github/workflows/release.yml does with the packages once they are tested: the commands of its last job, typed
here, with a stand-in for `gh`. Part of `make test-long`, after `make package`."""

import json
import pathlib
import re
import shutil

import pytest

from test_packages import PACKAGES, ROOT, package, pytestmark
from test_wheel import run

JOB = (ROOT / ".github/workflows/release.yml").read_text().partition("\n  draft:\n")[2]


def commands(part):
    """The commands of the step that contains `part`."""
    found, = (text for text in re.findall(r"run: (?:\|\n)?((?: {10}.*\n|\S.*\n)+)", JOB) if part in text)
    return found


@pytest.fixture
def packages(tmp_path):
    package("*manylinux_2_28_x86_64.whl")
    return pathlib.Path(shutil.copytree(PACKAGES, tmp_path / "packages"))


def test_draft(packages, tmp_path):
    """The draft gets each file, and the sums name each: a reader checks whatever file he fetched."""
    run("sh", "-euc", commands("--check"), cwd=packages)
    run("sh", "-euc", commands("go-proxy"), cwd=packages)
    (tmp_path / "gh").write_text('#!/bin/sh\nfor word; do echo "$word"; done\n')
    (tmp_path / "gh").chmod(0o755)
    said = run("sh", "-euc", f"PATH={tmp_path}:$PATH\n{commands('gh release')}", cwd=packages,
               env={"GITHUB_REF_NAME": "v0.1.0"}).split("\n")
    assert said[:3] == ["release", "create", "v0.1.0"] and "--draft" in said
    files = {word.removeprefix("./") for word in said[3:] if word and not word.startswith("--")}
    sums = dict(reversed(line.split("  ")) for line in (packages / "SHA256SUMS").read_text().splitlines())
    assert files == {path.name for path in packages.iterdir() if path.is_file()}
    assert files == {name for name in sums if not name.startswith("go/")} | {"SHA256SUMS"}
    parts = json.loads((packages / "glebe.cyclonedx.json").read_text())
    assert parts["bomFormat"] == "CycloneDX" and parts["metadata"]["component"]["name"] == "glebe-cli"
    reader = tmp_path / "reader"
    reader.mkdir()
    for name in ("SHA256SUMS", "go-proxy.tar.gz"):
        shutil.copy(packages / name, reader)
    line, = re.findall(r"`(sha256sum [^`]*)`", (ROOT / "docs/install.md").read_text())
    assert run("sh", "-euc", line, cwd=reader) == "go-proxy.tar.gz: OK\n"
    run("tar", "-xf", "go-proxy.tar.gz", cwd=reader)
    assert (reader / "go/github.com/glebe-alloc/glebe/@v/v0.1.0.zip").exists()


def test_a_changed_package_is_no_draft(packages):
    """Control."""
    with open(next(packages.glob("*.crate")), "ab") as file:
        file.write(b"x")
    assert "FAILED" in run("sh", "-euc", commands("--check"), cwd=packages, fails=True)
