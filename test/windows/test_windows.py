"""Windows programs that link build/windows/libglebe-override.a, under Wine, in a prefix of their own and without a display.

Each program checks what it does and says "well". What passes here was seen under Wine; of Windows itself it says nothing."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = pathlib.Path(__file__).parent
OUT = ROOT / "build/test-windows"
ARCHIVES = ROOT / "build/windows"
FLAGS = ["-O1", "-g", "-fno-builtin", "-Wall", "-Wextra", "-Werror", "-Wno-alloc-size-larger-than", f"-I{ROOT / 'include'}"]
COMPILERS = {
    "gcc": {".c": ["x86_64-w64-mingw32-gcc"], ".cpp": ["x86_64-w64-mingw32-g++-posix", "-std=c++17", "-static"]},
    "clang": {".c": ["clang-19", "--target=x86_64-w64-mingw32", "-fuse-ld=lld"],
              ".cpp": ["clang++-19", "--target=x86_64-w64-mingw32", "-fuse-ld=lld", "-std=c++17", "-static"]},
}
compilers = pytest.mark.parametrize("compiler", COMPILERS)


def compile_program(name, compiler, archive="libglebe-override.a"):
    source = HERE / name
    command = COMPILERS[compiler][source.suffix]
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not here: tools/setup windows")
    out = OUT / compiler / archive / f"{source.stem}.exe"
    out.parent.mkdir(parents=True, exist_ok=True)
    flags = FLAGS if compiler == "gcc" else [*(f for f in FLAGS if "alloc-size" not in f), "-Wno-deprecated-declarations"]
    done = subprocess.run([*command, *flags, source, ARCHIVES / archive, "-lpthread", "-o", out], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="session")
def wine(tmp_path_factory):
    """Runs a program: its exit status and what it said. The prefix is not in the tree, for links in it lead out to all of the machine."""
    if not shutil.which("wine"):
        pytest.skip("wine is not here: tools/setup windows")
    prefix = tmp_path_factory.mktemp("wine")
    environment = {k: v for k, v in os.environ.items() if k != "DISPLAY" and not k.startswith("GLEBE_")}
    environment.update(WINEPREFIX=str(prefix), WINEDEBUG="-all", WINEDLLOVERRIDES="mscoree,mshtml,winemenubuilder.exe=", LC_ALL="C")
    subprocess.run(["wineboot", "--init"], env=environment, capture_output=True, check=False, timeout=300)

    def run(program, **options):
        done = subprocess.run(["wine", program], env={**environment, **options}, capture_output=True, text=True, check=False, timeout=300)
        return done.returncode, done.stdout, done.stderr

    yield run
    subprocess.run(["wineserver", "-k"], env=environment, capture_output=True, check=False)


@compilers
@pytest.mark.parametrize("name", ["family.c", "storm.cpp", "ends.c"])
def test_program(wine, name, compiler):
    """The whole family; threads that end with destructors, and C++; an end while threads allocate."""
    status, out, err = wine(compile_program(name, compiler))
    assert (status, out.split()[:1]) == (0, ["well"]), out + err


@compilers
def test_statistics_at_exit(wine, compiler):
    """GLEBE_STATS=1 speaks at the end: the program's blocks were glebe's. Its name is the program's."""
    status, _, err = wine(compile_program("family.c", compiler), GLEBE_STATS="1")
    assert status == 0
    figures = {line.split(": ")[-2]: int(line.split(": ")[-1]) for line in err.splitlines() if line.startswith("glebe: family.exe")}
    assert figures["pages_taken"] > 100 and figures["errors"] == 0


def test_control(wine):
    """Without the override calloc is the C library's."""
    for archive, said in {"libglebe.a": "not ours", "libglebe-override.a": "well"}.items():
        assert wine(compile_program("ours.c", "gcc", archive))[:2] == (0, said + "\n")


def test_misuse(wine):
    """A block freed twice, and an address that nobody gave out, end the program with a message that names the call."""
    program = compile_program("misuse.c", "gcc")
    status, out, err = wine(program)
    assert status == 3 and "glebe: free(" in err and "well" not in out, out + err
    status, out, err = wine(program, GLEBE_ON_ERROR="count")
    assert status == 0 and "well" in out, out + err


def test_crate(wine):
    """The crate's tests of Heap, Bump and FreeList, built for Windows."""
    target = "x86_64-pc-windows-gnu"
    if not shutil.which("cargo"):
        pytest.skip("cargo is not here: tools/setup build")
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    if not (pathlib.Path(sysroot) / "lib/rustlib" / target / "lib").is_dir():
        pytest.skip(f"rustc has no {target}: tools/setup windows (it takes rustup)")
    tests = [argument for name in ("heap", "bump", "freelist") for argument in ("--test", name)]
    done = subprocess.run(["cargo", "test", "-q", "--no-run", "--target", target, *tests, "--message-format=json"], cwd=ROOT, capture_output=True,
                          text=True, check=False, env={**os.environ, "CARGO_TARGET_DIR": str(OUT / "cargo")})
    assert done.returncode == 0, done.stderr
    programs = [found for line in done.stdout.splitlines() if (found := json.loads(line).get("executable"))]
    assert len(programs) == 3
    missing = pathlib.Path(programs[0]).parent / "bcryptprimitives.dll"
    subprocess.run([*COMPILERS["gcc"][".c"], "-shared", "-O1", HERE / "prng.c", "-ladvapi32", "-o", missing], check=True)
    for program in programs:
        status, out, err = wine(program)
        assert status == 0 and "test result: ok" in out, out + err
