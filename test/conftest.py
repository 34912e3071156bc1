"""Shared by the end-to-end tests: finds the built libraries, compiles programs, and runs them.

    build/                 libglebe.so, libglebe-secure.so, libglebe-audit.so, libglebe.a, libglebe-override.a
    build/test-abuse/ ...  the programs, compiled again only if a source or a header has changed

GLEBE_LIBRARY_DIR names another folder with the libraries. Tests leave files only in build/ and their own temporary
folders.
"""

import fcntl
import os
import pathlib
import shutil
import subprocess

import pytest

pytest.register_assert_rewrite("expectations") # of test/abuse

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARIES = pathlib.Path(os.environ.get("GLEBE_LIBRARY_DIR") or ROOT / "build").resolve()
BUILD = ROOT / "build"
BUILDS = {"default": "libglebe.so", "secure": "libglebe-secure.so", "audit": "libglebe-audit.so"}


def pytest_configure(config):
    config.addinivalue_line("markers", "xdist_group(name): tests that run on one worker, where there are several")
    config.addinivalue_line("markers", "more: left to `make test-all`; `make test` has another test of the same part")
    config.addinivalue_line("markers", "long: left to `make test-long`; `make test-all` has another of the same part")


class Toolbox:
    """Compiles and runs programs. `result.text` is stderr, `result.out` stdout."""

    root = ROOT
    libraries = LIBRARIES
    builds = BUILDS

    def library(self, name="default"):
        return LIBRARIES / BUILDS.get(name, name)

    def need(self, *tools):
        """Skip the test if a tool is missing, and name it."""
        for tool in tools:
            if not shutil.which(tool):
                pytest.skip(f"{tool} is not here: tools/setup test")

    def compile(self, sources, *flags, to, compiler="gcc", libs=()):
        """The path of the program made of `sources`. Compiles it only if one of its dependencies is newer."""
        sources = [pathlib.Path(s) for s in ([sources] if isinstance(sources, (str, pathlib.Path)) else sources)]
        suffix = ".so" if "-shared" in flags else ""
        out = BUILD / f"test-{to}" / (sources[0].stem + suffix)
        out.parent.mkdir(parents=True, exist_ok=True)
        command = [compiler, "-g1", "-Wall", "-Wextra", f"-I{ROOT / 'include'}", *flags, *map(str, sources),
                   *map(str, libs)]
        stamp = out.with_name(out.name + ".command")
        folders = {s.parent for s in sources}
        parts = [*sources, *(s for folder in folders for s in folder.glob("*.h")), ROOT / "include/glebe.h",
                 *((ROOT / "src").rglob("*.c") if ROOT / "src" in folders else ()), # glebe.c includes them
                 *(pathlib.Path(lib) for lib in libs if not str(lib).startswith("-"))]
        with out.with_name(out.name + ".lock").open("w") as lock: # tests of one file run in several processes
            fcntl.flock(lock, fcntl.LOCK_EX)
            fresh = (out.exists() and stamp.exists() and stamp.read_text() == " ".join(command)
                     and out.stat().st_mtime > max(p.stat().st_mtime for p in parts))
            if not fresh:
                scratch = out.with_name(out.name + ".new")
                done = subprocess.run([*command, "-o", str(scratch)], capture_output=True, text=True, check=False)
                assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
                scratch.rename(out)
                stamp.write_text(" ".join(command))
        return out

    def run(self, *command, preload="default", timeout=600, limits=None, env=None, **options):
        """Run a program with a library preloaded (None: no library). `options` sets GLEBE_... by lower-case names.
        `limits` is called in the child before the program starts."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GLEBE_") and k != "LD_PRELOAD"}
        environment.update({f"GLEBE_{k.upper()}": str(v) for k, v in options.items()})
        if preload:
            environment["LD_PRELOAD"] = str(self.library(preload))
        environment.update(env or {})
        done = subprocess.run([str(c) for c in command], env=environment, capture_output=True, timeout=timeout,
                              text=True, errors="replace", stdin=subprocess.DEVNULL, preexec_fn=limits, check=False)
        done.text, done.out = done.stderr, done.stdout
        return done

    def check(self, *command, **options):
        """Run, and require success."""
        done = self.run(*command, **options)
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.out}\n{done.text}"
        return done


@pytest.fixture(scope="session")
def box():
    missing = [name for name in [*BUILDS.values(), "libglebe.a", "libglebe-override.a"]
               if not (LIBRARIES / name).exists()]
    assert not missing, f"{LIBRARIES} lacks {missing}: run `make lib`"
    return Toolbox()
