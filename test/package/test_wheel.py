"""The wheel, from `pip install` to the first table, and away again: nothing is left. It is packed here from what `make
cli` built; GLEBE_TEST_LONG tests those that tools/package built, in test_packages.py."""

import os
import pathlib
import re
import shutil
import subprocess
import venv
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKER = ROOT / "build/package-venv/bin/python"
LIBRARIES = ("libglebe.so", "libglebe-secure.so", "libglebe-audit.so", "libglebe-safe.so")
pytestmark = [pytest.mark.more, pytest.mark.xdist_group("package")]


def run(*command, fails=False, **options):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GLEBE_", "PYTHON", "LD_"))}
    env.update(options.pop("env", {}))
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, env=env, **options)
    assert (done.returncode != 0) == fails, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def pack(box, folder):
    """A wheel by maturin, with the libraries of `box`; cargo finds its work done."""
    if not PACKER.exists():
        pytest.skip("maturin is not here: tools/setup wheel")
    shutil.copytree(ROOT / "bindings/python", folder / "python",
                    ignore=shutil.ignore_patterns("__pycache__", "lib"))
    for name in LIBRARIES:
        to = folder / "python/glebe/lib" / name
        to.parent.mkdir(exist_ok=True)
        shutil.copy(box.library(name), to)
    text = (ROOT / "pyproject.toml").read_text()
    for name, here in (("cli/Cargo.toml", ROOT / "cli/Cargo.toml"), ("bindings/python", "python")):
        text = text.replace(f'"{name}', f'"{here}')
    for name in ("LICENSE-MIT", "LICENSE-APACHE"):
        shutil.copy(ROOT / name, folder)
    (folder / "pyproject.toml").write_text(text)
    cargo = pathlib.Path(run(ROOT / "tools/setup", "which", "cargo").strip())
    profile = os.environ.get("COMMAND_PROFILE", "release")
    wrapper = {"RUSTC_WORKSPACE_WRAPPER": "clippy-driver"} if profile == "checked" else {}  # as in the Makefile
    run(PACKER, "-m", "maturin", "build", "--profile", profile, "--compatibility", "linux", "--auditwheel", "skip",
        "--out", folder / "out", cwd=folder,
        env={**wrapper, "GLEBE_LIBRARY_DIR": str(box.libraries), "CARGO_TARGET_DIR": str(ROOT / "target"),
             "PATH": f"{cargo.parent}:{os.environ['PATH']}"})
    return next((folder / "out").glob("*.whl"))


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if "__pycache__" not in path.parts}


class Installed:
    """A wheel in a virtual environment of its own, with a home of its own."""

    def __init__(self, wheel, folder):
        self.folder = folder / "venv"
        venv.create(self.folder, with_pip=True)
        self.before = files(self.folder)
        self.home = folder / "home"
        self.home.mkdir()
        rustup = os.environ.get("RUSTUP_HOME") or pathlib.Path.home() / ".rustup"  # pip asks rustc for its version
        self.env = {"HOME": str(self.home), "PIP_DISABLE_PIP_VERSION_CHECK": "1", "XDG_CACHE_HOME": "",
                    "RUSTUP_HOME": str(rustup)}
        self.python = self.folder / "bin/python"
        run(self.python, "-m", "pip", "install", "--quiet", "--no-index", wheel, env=self.env)

    def run(self, *words, **options):
        env = {**self.env, **options.pop("env", {})}
        return run(*words, env=env, **options)

    def remove(self):
        """Uninstalls it, and requires that nothing is left, in the home but for the cache that the pages name."""
        self.run(self.python, "-m", "pip", "uninstall", "--quiet", "--yes", "glebe")
        assert files(self.folder) == self.before
        assert {path.split("/")[0] for path in files(self.home)} <= {".cache"}
        assert {path.name for path in (self.home / ".cache").glob("*")} <= {"glebe", "pip"}


def try_out(installed, folder):
    """The lines of bindings/python/README.md."""
    app = folder / "app.py"
    app.write_text("import sys\nprint(sys.argv[1:], sys.executable)\nblocks = [bytes(i) for i in range(3000)]\n")
    glebe, python = installed.folder / "bin/glebe", installed.python
    assert re.match(r"glebe \d+\.\d+\.\d+ \(.*\)\n", installed.run(glebe, "--version"))
    active = r"was active: at most [1-9]\d*\.\d [KM]iB"
    said = installed.run(python, "-m", "glebe", "run", "-v", app, "--port", "80", cwd=folder)
    assert f"['--port', '80'] {python}" in said and re.search(active, said), said
    said = installed.run(python, "-m", "glebe", "run", "--", "app.py", "--", "x", cwd=folder)
    assert f"['--', 'x'] {python}" in said
    assert installed.run(python, "-m", "glebe", "run", "--", "echo", "app.py", cwd=folder) == "app.py\n"
    said = installed.run(python, "-m", "glebe", "run", "cat", "app.py", cwd=folder)
    assert said == app.read_text() # the program is cat
    for build in ("default", "secure", "audit", "safe"):
        path = installed.run(python, "-c", f"import glebe; print(glebe.library({build!r}))").strip()
        said = installed.run(python, "-c", "pass", env={"LD_PRELOAD": path, "GLEBE_VERBOSE": "1"})
        assert re.search(active, said) and (f"; {build} build" in said) == (build != "default"), said
    said = installed.run(python, "-c", "import glebe; glebe.library('fast')", fails=True)
    assert "glebe.library('fast'): the builds are default, secure, audit, safe" in said
    said = installed.run(glebe, "compare", "--runs", "2", "--only", "system,glebe", "--", python, app)
    assert "allocator" in said and "system" in said and "page faults" in said


@pytest.fixture(scope="module")
def wheel(box, tmp_path_factory):
    return pack(box, tmp_path_factory.mktemp("wheel"))


def test_wheel(wheel, tmp_path):
    installed = Installed(wheel, tmp_path)
    try_out(installed, tmp_path)
    installed.remove()


def test_options_with_values_are_known(wheel, tmp_path):
    """`python -m glebe` finds the program behind the options that the command's help shows."""
    installed = Installed(wheel, tmp_path)
    found = set()
    commands = "run compare profile record replay trace explain leaks map top stats"
    for command in commands.split():
        text = installed.run(installed.folder / "bin/glebe", command, "--help")
        for short, name in re.findall(r"(?m)^ +(?:(-\w), )?(--[a-z-]+) <", text):
            found |= {short, name} - {""}
    known = installed.run(installed.python, "-c", "from glebe.__main__ import *; print(*WITH_VALUE)").split()
    assert set(known) == found


def test_wheel_of_another_prefix(wheel, tmp_path):
    """A virtual environment sees the packages of another place; the command is in that place's bin."""
    installed = Installed(wheel, tmp_path)
    venv.create(tmp_path / "other", with_pip=False)
    packages = next((installed.folder / "lib").glob("python*/site-packages"))
    said = installed.run(tmp_path / "other/bin/python", "-m", "glebe", "--version", env={"PYTHONPATH": str(packages)})
    assert said.startswith("glebe ")


@pytest.mark.parametrize("name", ["a b", pytest.param("a:b", marks=pytest.mark.long)])
def test_wheel_below_a_space(wheel, tmp_path, name):
    """The loader would split the library's path, so library() refuses it; `glebe run` puts it elsewhere. Control: the
    loader cannot preload the path, and from another folder library() is what it was."""
    installed = Installed(wheel, tmp_path)
    packages = next((installed.folder / "lib").glob("python*/site-packages"))
    ask = [installed.python, "-c", "import glebe; print(glebe.library())"]
    assert installed.run(*ask).strip() == str(packages / "glebe/lib/libglebe.so")
    there = tmp_path / name
    shutil.copytree(packages / "glebe", there / "glebe")
    shutil.copy(installed.folder / "bin/glebe", there / "command")
    path = there / "glebe/lib/libglebe.so"
    code = f"import sys; sys.path.insert(0, {str(there)!r}); import glebe; print(glebe.library())"
    said = installed.run(installed.python, "-c", code, fails=True)
    assert f"ValueError: glebe.library(): LD_PRELOAD cannot hold a path with spaces or colons: {path}: use" in said
    said = installed.run("true", env={"LD_PRELOAD": str(path), "GLEBE_VERBOSE": "1"})
    assert "cannot be preloaded" in said and "was active" not in said
    assert "was active" in installed.run(there / "command", "run", "-v", "--", "true", cwd=tmp_path)


def test_wheel_without_its_command(wheel, tmp_path):
    """Control: what `python -m glebe` runs is the wheel's own command; without it, one line says so."""
    installed = Installed(wheel, tmp_path)
    (installed.folder / "bin/glebe").unlink()
    said = installed.run(installed.python, "-m", "glebe", "--version", fails=True)
    assert said.count("\n") == 1 and said.startswith("glebe: the command is in none of ") and "Traceback" not in said


def test_wheel_content(wheel):
    """It carries its licences and the list of its parts, and no path of this machine's source."""
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        for name in (*(f"glebe/lib/{name}" for name in LIBRARIES), "glebe/__main__.py"):
            assert name in names
        for part in ("/licenses/LICENSE-MIT", "/licenses/LICENSE-APACHE", ".cyclonedx.json", ".data/scripts/glebe"):
            assert [name for name in names if name.endswith(part)], part
