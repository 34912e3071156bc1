"""`python -m glebe`: where the program begins among the words, and which command runs. No wheel is built: the package
is that of bindings/python."""

import os
import shutil
import subprocess
import sys
import venv

import pytest


def runs(folder, *words, python=sys.executable):
    """What the command is called with by `python -m glebe WORDS` in `folder`; the command is a script that prints."""
    done = subprocess.run([python, "-m", "glebe", *words], cwd=folder, capture_output=True, text=True, timeout=60,
                          check=False, env={**os.environ, "PYTHONPATH": str(folder / "packages")})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def prints(path, name):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nprintf '%s\\n' {name} \"$@\"\n")
    path.chmod(0o755)


@pytest.fixture
def installed(box, tmp_path):
    """The package and its command as `pip install --target packages` leaves them, and a script app.py."""
    shutil.copytree(box.root / "bindings/python/glebe", tmp_path / "packages/glebe")
    prints(tmp_path / "packages/bin/glebe", "first")
    (tmp_path / "app.py").touch()
    return tmp_path


PYTHON = [sys.executable, "app.py"]


@pytest.mark.parametrize("words, expected", [
    (["run", "app.py", "--port", "80"], ["run", "--", *PYTHON, "--port", "80"]),
    (["run", "-v", "--", "app.py"], ["run", "-v", "--", *PYTHON]),
    (["compare", "--runs", "2", "app.py"], ["compare", "--runs", "2", "--", *PYTHON]),
    # A `--` behind the program's name is the program's.
    (["run", "app.py", "--", "input"], ["run", "--", *PYTHON, "--", "input"]),
    (["run", "--", "app.py", "--", "input"], ["run", "--", *PYTHON, "--", "input"]),
    (["run", "wc", "-c", "--", "app.py"], ["run", "wc", "-c", "--", "app.py"]),
    (["record", "-o", "x.trace", "app.py", "--", "q"], ["record", "-o", "x.trace", "--", *PYTHON, "--", "q"]),
    # No program, or none that is a file.
    (["--version"], ["--version"]),
    (["run", "--"], ["run", "--"]),
    (["run", "missing.py"], ["run", "missing.py"]),
])
def test_words(installed, words, expected):
    assert runs(installed, *words) == ["first", *expected]


@pytest.mark.parametrize("place", ["packages/bin", "bin"])
def test_the_command_of_the_package_runs(installed, place):
    """Where two versions are installed, the package runs its own command: beside it, or where the installer's record
    has it. Control: without it, the other is found."""
    venv.create(installed / "other", with_pip=False)
    prints(installed / "other/bin/glebe", "second")
    python = installed / "other/bin/python"
    if place == "bin":
        (installed / "bin").mkdir()
        (installed / "packages/bin/glebe").rename(installed / "bin/glebe")
        record = installed / "packages/glebe-0.1.0.dist-info"
        record.mkdir()
        (record / "METADATA").write_text("Metadata-Version: 2.1\nName: glebe\nVersion: 0.1.0\n")
        (record / "RECORD").write_text("glebe/__init__.py,,\n../bin/glebe,,\n")
    assert runs(installed, "--version", python=python) == ["first", "--version"]
    (installed / place / "glebe").unlink()
    assert runs(installed, "--version", python=python) == ["second", "--version"]
