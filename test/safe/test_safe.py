"""The safe build: a freed block is not used again while a word of the program's memory points into it.

reuse.c leaves pointers to freed blocks in each kind of memory, and is its own control: without the pointer, and under
the default build, the blocks come back. words.c does so with each word of a block, and kept.c looks at the memory of
what stays held. misuse.c calls functions with held blocks. storm.c is for threads, signals and fork. The programs of
test/abuse run too: the safe build finds what the default build finds, and double frees."""

import pathlib
import re
import shutil
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "abuse"))
from expectations import FLAGS, FOLDER as ABUSE, PROGRAMS, judge

SAFE = "libglebe-safe.so"

# What the safe build finds and the default build does not. Each reports a block that is free already.
FOUND = ("double_free_medium_then_by_other", "double_free_small_then_by_other", "interior_small",
         "interior_small_unaligned", "wild_uncarved")
# A write to a freed block goes to memory that nothing uses. In the default build some of these fault.
HARMLESS = ("read_after_free_zero", "write_after_free_body", "write_after_free_drain", "write_after_free_link",
            "write_after_free_second_word", "write_after_free_trim")
# These wait for a freed block to come back, or allocate up to a limit, while they keep pointers to what they freed.
KEEP = ("write_after_free_flush", "exhausted", "exhausted_address_space")
# Known misses: an overflow, a block that was free in its page from the start, and objects of pools.
MISSED = ("overflow_into_link", "wild_ready_block", "pool_double_free", "pool_size_wrong", "pool_write_after_free")


@pytest.fixture(scope="module")
def program(box):
    if not sys.platform.startswith("linux") or sys.maxsize < 1 << 32:
        pytest.skip("the safe build is for Linux on 64 bits")
    assert (box.libraries / SAFE).exists(), "run: make lib"
    return lambda name: box.compile(box.root / f"test/safe/{name}.c", *FLAGS, to="safe")


def test_held_while_a_pointer_is_left(box, program):
    done = box.check(program("reuse"), preload=SAFE)
    lines = done.out.splitlines()
    assert len(lines) == 20 and all(re.search(": (held|reused)$", line) for line in lines)


def test_the_default_build_reuses(box, program):
    """The control: what the test looks for happens without the safe build."""
    done = box.run(program("reuse"))
    assert done.returncode == 1
    assert all(line.endswith(": reused") for line in done.out.splitlines() if ":" in line), done.out


@pytest.mark.parametrize("bytes_", [0, 64, 400, 9000, 100000, 3000000])
def test_each_word_is_read(box, program, bytes_):
    """words.c, whose control is what comes back once the pointers are gone: all but what a word on the stack holds."""
    rows = [[int(word) for word in line.split()]
            for line in box.check(program("words"), bytes_, preload=SAFE).out.splitlines()]
    assert len(rows) == 3 and all(count and not held and later >= 0.75 * count - 2 for count, held, later in rows), rows


def test_the_default_build_reads_none(box, program):
    rows = box.check(program("words"), 9000).out.split()
    assert rows[0] == rows[1], rows


def test_blocks_that_stay_held_give_memory_back(box, program):
    before, after = box.check(program("kept"), preload=SAFE).out.split()
    assert int(after) < int(before) / 4, (before, after)


@pytest.mark.parametrize("bytes_", [64, 9000, 100000, 3000000])
@pytest.mark.parametrize("call", ["free", "realloc", "malloc_usable_size"])
def test_calls_with_held_blocks_are_reported(box, program, call, bytes_):
    done = box.run(program("misuse"), call, bytes_, preload=SAFE)
    address = done.out.split()[1]
    double = "double free: " if call == "free" else ""
    assert done.returncode == -signal.SIGABRT
    line = rf"glebe: {call}\({address}\): {double}the block of .* here is free already\n"
    assert re.match(line, done.text), done.text


@pytest.mark.parametrize("bytes_", [64, 9000, 100000, 3000000])
def test_a_write_to_a_held_block_is_harmless(box, program, bytes_):
    assert box.check(program("misuse"), "write", bytes_, preload=SAFE).text == ""


def test_threads_signals_and_forks(box, program):
    assert box.check(program("storm"), preload=SAFE).text == ""


@pytest.mark.more
@pytest.mark.parametrize("library", [SAFE, "secure"])
def test_what_the_program_never_touched_stays_untouched(box, program, library):
    """Both builds clear freed blocks."""
    first, last = map(int, box.check(program("sparse"), 60000, 5000, preload=library).out.split())
    assert last < 3 * first, (first, last) # the safe build holds blocks for a while


@pytest.mark.parametrize("mebibytes", [3, 2048])
def test_a_sparse_block_that_shrinks_stays_sparse(box, program, mebibytes):
    """A copy would make all of it resident."""
    assert int(box.check(program("shrinks"), mebibytes << 20, preload=SAFE).out) < 16 << 10


def test_the_line_at_exit_names_the_build(box):
    assert "; safe build\n" in box.check("true", preload=SAFE, verbose=1).text
    assert "build" not in box.check("true", verbose=1).text


def test_without_proc_nothing_is_reused(box, program):
    """Where /proc is not there, the library says so once, and uses no freed memory again."""
    if not shutil.which("unshare") or box.run("unshare", "-Urm", "true", preload=None).returncode:
        pytest.skip("unshare cannot make a namespace here")
    done = box.run("unshare", "-Urm", "sh", "-c", 'mount -t tmpfs none /proc && LD_PRELOAD=$1 "$2" 60', "sh",
                   box.library(SAFE), program("reuse"), preload=None)
    assert done.text.count("the safe build cannot read this process's memory") == 1, done.text
    assert "reused" not in done.out and done.out.count(": control") >= 10, done.out


def abuse_rules(name):
    """The line that the safe build prints, a word of test_abuse.py, or None: no line, and exit 0."""
    rules = PROGRAMS[name]
    if name in MISSED:
        return "undetected"
    if name in HARMLESS:
        return None
    if rules["default"] != "undetected":
        return rules["default"]
    return rules["audit"] if name in FOUND else None


def test_each_undetected_mistake_has_an_answer():
    undetected = {name for name, rules in PROGRAMS.items() if rules["default"] == "undetected"}
    answers = {*FOUND, *HARMLESS, *MISSED, *KEEP}
    assert undetected <= answers, undetected - answers
    assert answers <= set(PROGRAMS), answers - set(PROGRAMS)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in KEEP])
def test_misuse(box, program, name):
    path = box.compile(ABUSE / f"{name}.c", *FLAGS, to="abuse",
                       libs=[f"-L{box.libraries}", "-lglebe", f"-Wl,-rpath,{box.libraries}", "-ldl"])
    rules = dict(PROGRAMS[name])
    rules["default"] = abuse_rules(name) or "served"
    judge(lambda **options: box.run(path, preload=SAFE, **options), rules, "default",
          aborted=-signal.SIGABRT, faulted=-signal.SIGSEGV)
