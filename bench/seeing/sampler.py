"""What the sampler costs at its mean of 512 KiB, in instructions.

Two programs: the JSON program (real/documents.py, each of its objects a malloc), and a loop that only allocates and
frees blocks of 64 bytes. Instructions are the difference between a long and a short run, with the sampler and without,
so start and end do not count; valgrind counts them. As a control, the loop with a sample each 8 KiB must be above its
limit."""

from programs import BENCH, ROOT, compiled

import common

ROUNDS = (2, 6)
SLOWER = 50  # valgrind takes that many times the program's time
LOOPS = (1_000_000, 3_000_000)
MEAN, CONTROL = 512 << 10, 8 << 10


def preload(mean):
    stay = compiled("stay.c", "-shared", "-fPIC")
    words = ["env", f"LD_PRELOAD={stay} {ROOT / 'build/libglebe.so'}", "PYTHONHASHSEED=0", "PYTHONMALLOC=malloc",
             f"SEEING_SLOWER={SLOWER}"]
    return words + (["SEEING_SAMPLE=1", f"SEEING_MEAN={mean}"] if mean else [])


def more(words, short, long, mean=MEAN):
    """By how many percent the sampler adds to the instructions of `long - short` rounds."""
    counts = [[common.instructions([*preload(each), *map(str, words), str(n)]) for n in (short, long)]
              for each in (None, mean)]
    off, on = (long - short for short, long in counts)
    return 100 * (on - off) / off, off


def measure(show):
    json, of_json = more(["/usr/bin/python3", BENCH / "real/documents.py"], *ROUNDS)
    show(f"JSON program: {of_json:,} instructions, with the sampler {json:+.2f} %")
    loop, of_loop = more([compiled("loop.c", "-O2"), 64], *LOOPS)
    control, _ = more([compiled("loop.c", "-O2"), 64], *LOOPS, CONTROL)
    show(f"loop, 64 bytes: {of_loop:,} instructions, with the sampler {loop:+.2f} %")
    return [("instructions, JSON program, %", json, "<=", 0.3),
            ("instructions, a loop that allocates, %", loop, "<=", 1),
            ("the same with a sample each 8 KiB, the control", control, ">=", 1)]
