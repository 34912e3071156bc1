"""Windows programs that link build/windows/libglebe-override.a. Each checks itself and prints "well"."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

from programs import ARCHIVES, COMPILERS, HERE, OUT, ROOT, ZIG, compile_program, need

compilers = pytest.mark.parametrize("compiler", COMPILERS)


@compilers
@pytest.mark.parametrize("name", ["family.c", "storm.cpp", "ends.c"])
def test_program(wine, name, compiler):
    """The whole family; threads with destructors, and C++; a process that ends while threads allocate."""
    status, out, err = wine(compile_program(name, compiler))
    assert (status, out.split()[:1]) == (0, ["well"]), out + err


@compilers
def test_statistics_at_exit(wine, compiler):
    """GLEBE_STATS=1 prints statistics at the end, under the program's name: its blocks were glebe's."""
    status, _, err = wine(compile_program("family.c", compiler), GLEBE_STATS="1")
    assert status == 0
    head, *rows = err.splitlines()
    figures = {row.split()[0]: row.split()[1] for row in rows}
    assert head.startswith("glebe: family.exe[") and int(figures["pages_taken"]) > 100 and figures["errors"] == "0"


def test_large_pages(wine):
    """If the system has no large pages for us, glebe uses ordinary ones and prints nothing."""
    assert wine(compile_program("family.c", "clang"), GLEBE_LARGE_PAGES="1") == (0, "well\n", "")
    status, _, err = wine(compile_program("family.c", "clang"), GLEBE_LARGER_PAGES="1")
    assert status == 0 and "unknown GLEBE_LARGER_PAGES=1" in err, err


def test_microsofts_linker(wine):
    """clang for Microsoft's ABI and lld-link: the library that clang-cl and cl programs link. LLVM's search path has
    the same file."""
    need("lld-link-19")
    built, imports = OUT / "msvc", pathlib.Path("/usr/x86_64-w64-mingw32/lib")
    built.mkdir(parents=True, exist_ok=True)
    subprocess.run(["clang-19", "--target=x86_64-pc-windows-msvc", "-O1", "-Wall", "-Wextra", "-Werror", "-c",
                    HERE / "msvc.c", "-o", built / "msvc.obj"],
                   check=True)
    library = ARCHIVES / "msvc/glebe-override.lib"
    subprocess.run(["lld-link-19", "/nologo", "/entry:start", "/subsystem:console", f"/out:{built / 'msvc.exe'}",
                    built / "msvc.obj", library, imports / "libucrt.a", imports / "libkernel32.a"], check=True)
    status, _, err = wine(built / "msvc.exe", GLEBE_STATS="json")
    assert status == 0 and '"errors": 0' in err and '"foreign_frees": 1' in err, err
    llvms = ARCHIVES / "llvm/mimalloc/out/msvc-x64/Release/mimalloc-static.lib"
    assert llvms.read_bytes() == library.read_bytes()


@pytest.mark.parametrize("source", ["src/glebe.c", "override/windows/crt.c", "override/windows/redirect.c",
                                    "override/windows/inject.c"])
def test_arm64(source):
    """glebe compiles for Windows on ARM64; it was never run there."""
    need(ZIG)
    out = OUT / "arm64" / f"{pathlib.Path(source).stem}.o"
    out.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([ZIG, "-m", "ziglang", "cc", "-target", "aarch64-windows-gnu", "-std=c11", "-O2", "-DNDEBUG",
                           "-Wall", "-Wextra",
                           "-Wpedantic", "-Werror", f"-I{ROOT / 'include'}", "-c", ROOT / source, "-o", out],
                           capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_control(wine):
    """Control: without the override calloc is the C library's."""
    for archive, said in {"libglebe.a": "not ours", "libglebe-override.a": "well"}.items():
        assert wine(compile_program("ours.c", "gcc", archive=archive))[:2] == (0, said + "\n")


def test_misuse(wine):
    """A block freed twice, and an address that no malloc returned, end the program with a message that names the
    call."""
    program = compile_program("misuse.c", "gcc")
    status, out, err = wine(program)
    assert status == 3 and "glebe: free(" in err and "well" not in out, out + err
    status, out, err = wine(program, GLEBE_ON_ERROR="count")
    assert status == 0 and "well" in out, out + err


@pytest.mark.long
def test_crate(wine):
    """The crate's tests of Heap, Bump and FreeList, built for Windows."""
    target = "x86_64-pc-windows-gnu"
    if not shutil.which("cargo"):
        pytest.skip("cargo is not here: tools/setup build")
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    if not (pathlib.Path(sysroot) / "lib/rustlib" / target / "lib").is_dir():
        pytest.skip(f"rustc has no {target}: tools/setup windows (it takes rustup)")
    tests = [argument for name in ("heap", "bump", "freelist") for argument in ("--test", name)]
    done = subprocess.run(["cargo", "test", "-q", "--no-run", "--target", target, *tests, "--message-format=json"],
                          cwd=ROOT, capture_output=True,
                          text=True, check=False, env={**os.environ, "CARGO_TARGET_DIR": str(OUT / "cargo")})
    assert done.returncode == 0, done.stderr
    programs = [found for line in done.stdout.splitlines() if (found := json.loads(line).get("executable"))]
    assert len(programs) == 3
    missing = pathlib.Path(programs[0]).parent / "bcryptprimitives.dll"
    subprocess.run([*COMPILERS["gcc"][".c"], "-shared", "-O1", HERE / "prng.c", "-ladvapi32", "-o", missing],
                   check=True)
    for program in programs:
        status, out, err = wine(program)
        assert status == 0 and "test result: ok" in out, out + err
