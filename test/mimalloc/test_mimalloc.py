"""The libraries that replace mimalloc's: one program runs on mimalloc's own and on ours, by the soname; the exports;
misuse.

mimalloc's own libraries are Debian's, if installed, and those that `bench/setup` built; without any the comparison is
skipped."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

FOLDER = pathlib.Path(__file__).parent
pytestmark = pytest.mark.xdist_group("mimalloc") # the tests share programs that the first one builds
LINES = (2, 3)
every_line = pytest.mark.parametrize("line", LINES)


def ours(box, line):
    return box.libraries / f"mimalloc/libmimalloc.so.{line}"


def theirs(box):
    """(line, library) of each real mimalloc here, in the versions that left_out.txt covers. Skips the calling test if
    there is none."""
    known = ("mimalloc 2.3.2", "mimalloc 3.3.2") # the benches' peers, which are the newest releases
    bench = pathlib.Path(os.environ.get("BENCH_BUILD") or box.root / "bench/build") / "peers"
    debian = sorted(pathlib.Path("/usr/lib").glob("*-linux-*/libmimalloc.so.[23]"))
    peers = [(n, p) for n in LINES if (p := bench / f"mimalloc-v{n}.so").exists()
             and p.with_suffix(".version").read_text(encoding="utf-8").strip() in known]
    found = [(int(p.name[-1]), p) for p in debian] + peers
    if not found:
        pytest.skip("no libmimalloc here: apt-get install libmimalloc2.0, or bench/setup")
    return found


@pytest.fixture(scope="session")
def program(box):
    """name -> the program, linked to our library, or to that in `folder`."""
    def make(name, line=3, *flags, folder=None):
        source = next(FOLDER / (name + suffix) for suffix in (".c", ".cpp") if (FOLDER / (name + suffix)).exists())
        cxx = source.suffix == ".cpp"
        return box.compile(source, "-O1", "-pthread", f"-DLINE={line}", *([] if cxx else ["-std=c11", "-fno-builtin"]),
                           *flags, to=f"mimalloc-{line}" + "-theirs" * bool(folder), compiler="g++" if cxx else "gcc",
                           libs=[f"-L{folder}", f"-l:libmimalloc.so.{line}"] if folder else [ours(box, line)])
    return make


def on(box, library, line, *command, tmp_path, check=True, **options):
    """Run with `library` as the libmimalloc.so of that line."""
    folder = tmp_path / f"{library.parent.name}-{library.name}"
    folder.mkdir(exist_ok=True)
    place = folder / f"libmimalloc.so.{line}"
    if not place.exists():
        place.symlink_to(library)
    run = box.check if check else box.run
    return run(*command, preload=None, env={"LD_LIBRARY_PATH": str(folder)}, **options)


def exports(library):
    out = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True,
                         check=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines()}


def header(line):
    """mimalloc's own header, if one of this line is installed."""
    for path in (pathlib.Path("/usr/include/mimalloc.h"), pathlib.Path("/usr/local/include/mimalloc.h")):
        match = path.exists() and re.search(r"define MI_MALLOC_VERSION\s+(\d+)", path.read_text())
        if match and match[1][0] == str(line):
            return path
    return None


@every_line
def test_api(box, program, tmp_path, line):
    """The whole walk on ours; mimalloc's own header declares the same functions."""
    done = on(box, ours(box, line), line, program("api", line), tmp_path=tmp_path)
    assert done.out.splitlines()[-1] == f"process, line {line}"
    if header(line):
        path = box.compile(FOLDER / "api.c", "-O1", "-pthread", "-fno-builtin", f"-DLINE={line}", "-DTHEIRS",
                           to=f"mimalloc-{line}-header", libs=[ours(box, line)])
        assert on(box, ours(box, line), line, path, tmp_path=tmp_path).out == done.out


def test_api_as_theirs(box, program, tmp_path):
    """A program linked to mimalloc's own library prints the same on it and on ours; GLEBE_VERBOSE tells the two
    apart."""
    for line, library in theirs(box):
        path = program("api", line, "-DSTRICT=0", folder=named_as(library, line, tmp_path))
        real = on(box, library, line, path, tmp_path=tmp_path, verbose=1)
        mine = on(box, ours(box, line), line, path, tmp_path=tmp_path, verbose=1)
        assert mine.out == real.out and mine.out
        assert "glebe" in mine.text and "glebe" not in real.text


def named_as(library, line, tmp_path):
    """A folder with the library under the name that programs look for; the libraries of bench/ have no soname."""
    folder = tmp_path / f"link-{library.parent.name}-{library.name}"
    folder.mkdir(exist_ok=True)
    shutil.copy(library, folder / f"libmimalloc.so.{line}")
    return folder


def test_luametatex_needs_five(box, program, tmp_path):
    """A program that imports the same functions of libmimalloc.so.3 as LuaMetaTeX."""
    path = program("five", 3)
    text = subprocess.run(["nm", "-D", "--undefined-only", str(path)], capture_output=True, text=True,
                          check=True).stdout
    assert {n for n in re.findall(r"\S+", text) if n.startswith("mi_")} == {"mi_malloc", "mi_calloc", "mi_realloc",
                                                                            "mi_free", "mi_strdup"}
    dynamic = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True, check=True).stdout
    assert re.findall(r"NEEDED.*\[(libmi\S+)\]", dynamic) == ["libmimalloc.so.3"]
    done = on(box, ours(box, 3), 3, path, tmp_path=tmp_path, verbose=1)
    assert done.out == "104466\n" and "glebe" in done.text
    nowhere = box.run(path, preload=None, env={"LD_LIBRARY_PATH": "/nowhere"})
    assert nowhere.returncode == 127, "control: without a library it does not start"


def named():
    text = (FOLDER / "left_out.txt").read_text()
    return set(" ".join(line for line in text.splitlines() if not line.startswith("#")).split())


def test_left_out(box):
    """left_out.txt names every function that theirs export and ours do not, with its reason, and no other."""
    for line in LINES:
        assert not named() & exports(ours(box, line))
        assert {"mi_malloc", "mi_heap_new", "malloc", "_Znwm", "glebe_check"} <= exports(ours(box, line))
    for line, library in theirs(box):
        missing = exports(library) - exports(ours(box, line)) - {n for n in exports(library) if n.startswith("_mi_")}
        assert missing <= named(), f"{library}: neither there nor in left_out.txt"
        assert missing, "control: something is left out, so that the line above could fail"


@every_line
def test_heaps(box, program, tmp_path, line):
    """6,000 heaps by four threads, deleted and destroyed: blocks of deleted heaps live on, no heap is lost, every
    invariant holds."""
    done = on(box, ours(box, line), line, program("heaps", line), tmp_path=tmp_path)
    broken, heaps, used = map(int, done.out.split())
    assert broken == 0 and heaps <= 12 and used <= 1 << 20, done.out


@every_line
@pytest.mark.parametrize("threads, rounds", [(1, 5000), (1, 20000), (4, 5000)])
def test_heaps_deleted_before_their_blocks(box, program, tmp_path, line, threads, rounds):
    """Deleted heaps end when they become empty, while others are made; memory stays within a bound."""
    done = on(box, ours(box, line), line, program("rounds", line), threads, rounds, tmp_path=tmp_path)
    broken, heaps, mib = map(int, done.out.split())
    assert broken == 0 and heaps <= 64 and mib <= 16, done.out


def test_new(box, program, tmp_path):
    """mi_new: the handler, bad_alloc, and null from the nothrow forms."""
    done = on(box, ours(box, 3), 3, program("new"), tmp_path=tmp_path)
    assert done.out == "6 thrown, 0 handled, null 1 1\n6 thrown, 8 handled, null 1 1\n"


MISUSE = {
    "destroy twice": r"mi_heap_destroy\(0x\w+\): not a heap from mi_heap_new, or destroyed already",
    "delete twice": r"mi_heap_delete\(0x\w+\): not a heap from mi_heap_new, or destroyed already",
    "heap that is gone": r"mi_heap_malloc\(0x\w+\): not a heap from mi_heap_new, or destroyed already",
    "free twice": r"mi_free\(0x\w+\): double free: the block of 20480 bytes here is free already",
    "marked twice": r"mi_free\(0x\w+\): address is 56 bytes inside a block of 20480 bytes that starts at 0x\w+",
    "static": r"mi_free\(0x\w+\): address is not from glebe",
    "inside": r"mi_free\(0x\w+\): address is 64 bytes inside a block of 20480 bytes that starts at 0x\w+",
    "inside marked": r"mi_free\(0x\w+\): address is 120 bytes inside a block of 20480 bytes that starts at 0x\w+",
    "size": r"mi_free_size\(0x\w+\): size 200000 is wrong: the block has 20480 bytes",
    "alignment": r"mi_free_aligned\(0x\w+\): address is 8 bytes inside a block of 20480 bytes that starts at 0x\w+",
    "realloc": r"mi_realloc\(0x\w+\): address is not from glebe",
}


@pytest.mark.parametrize("what", MISUSE)
def test_misuse(box, program, tmp_path, what):
    """One line names mimalloc's function, another the process; then SIGABRT, or what GLEBE_ON_ERROR sets."""
    report = rf"glebe: {MISUSE[what]}\n  in misuse\[\d+\]\n"
    path = program("misuse")
    done = on(box, ours(box, 3), 3, path, what, tmp_path=tmp_path, check=False)
    assert done.returncode == -6 and re.fullmatch(report, done.text), done.text
    done = on(box, ours(box, 3), 3, path, what, tmp_path=tmp_path, on_error="count")
    assert done.out.splitlines()[-1] == "went on" and re.fullmatch(report, done.text), done.text


def test_no_misuse(box, program, tmp_path):
    """Control: mi_cfree of a foreign block is no misuse, and prints nothing."""
    done = on(box, ours(box, 3), 3, program("misuse"), "checked", tmp_path=tmp_path)
    assert done.out == "went on\n" and done.text == ""
