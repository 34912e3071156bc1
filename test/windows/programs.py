"""Compiles the tests' programs, and names the paths of files."""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = pathlib.Path(__file__).parent
OUT = ROOT / "build/test-windows"
ARCHIVES = ROOT / "build/windows"
EXE = ARCHIVES / "glebe.exe"
FLAGS = ["-O1", "-g", "-fno-builtin", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
OF_GCC = ["-Wno-alloc-size-larger-than", "-Wno-free-nonheap-object"]
LONG = bool(os.environ.get("GLEBE_TEST_LONG"))
ZIG = ROOT / "build/venv/bin/python" # tools/check-macos installs it
COMPILERS = {
    "gcc": {".c": ["x86_64-w64-mingw32-gcc"], ".cpp": ["x86_64-w64-mingw32-g++-posix", "-std=c++17", "-static"]},
    "clang": {".c": ["clang-19", "--target=x86_64-w64-mingw32", "-fuse-ld=lld"],
              ".cpp": ["clang++-19", "--target=x86_64-w64-mingw32", "-fuse-ld=lld", "-std=c++17", "-static"]},
    "clang with UCRT": {".c": ["clang-19", "--target=x86_64-w64-mingw32", "-fuse-ld=lld", "-D_UCRT"]},
    "zig": {".c": [ZIG, "-m", "ziglang", "cc", "-target", "x86_64-windows-gnu"],
            ".cpp": [ZIG, "-m", "ziglang", "c++", "-target", "x86_64-windows-gnu", "-std=c++17"]},
}


def glebe_exe():
    """The path of glebe.exe; skips the test if it is not built."""
    if not EXE.exists():
        pytest.skip("glebe.exe is not here: make windows, with Rust's target")
    return EXE


def need(*command):
    """Skips the test if a compiler is missing."""
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not here: tools/setup windows, tools/check-macos")
    if command[0] == ZIG and not list(ZIG.parent.parent.glob("lib/python*/site-packages/ziglang")):
        pytest.skip("zig is not here: tools/check-macos")


def compile_program(name, compiler, *options, archive="libglebe-override.a", to=""):
    """The path of a program of this folder, linked with an archive of glebe or (None) without one; `to` distinguishes
    programs from the same source."""
    source = HERE / name
    command = COMPILERS[compiler].get(source.suffix)
    if not command:
        pytest.skip("Debian's C++ libraries are for msvcrt")
    need(*command)
    out = OUT / compiler / str(archive) / to / f"{source.stem}.exe"
    out.parent.mkdir(parents=True, exist_ok=True)
    flags = [*FLAGS, *(OF_GCC if compiler == "gcc" else ["-Wno-deprecated-declarations"])]
    library = [ARCHIVES / archive] if archive else []
    library += ["-lucrt"] if "-D_UCRT" in command else [] if command[0] == ZIG else ["-lpthread"]
    done = subprocess.run([*command, *flags, source, *library, *options, "-o", out], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    return out
