"""The cases of test/scale, and the limits for glebe's figures.

A case is a mode of the program (main in harness.c) with its arguments: whole, and a small form that takes a second. A
gate is a figure of a run and its limit. `timed` gates apply only in whole runs; the others are counts and bytes, which
do not depend on the machine's load. A case that failed or was cut short has only the figures that it printed, and a
gate without a figure fails.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import typing

FOLDER = pathlib.Path(__file__).resolve().parent
SOURCES = [FOLDER / name for name in ("harness.c", "blocks.c", "small.c", "threads.c", "heaps.c", "limit.c")]
FLAGS = ("-O2", "-std=gnu11", "-fno-builtin", "-pthread")
MIB = 1 << 20


def mappings_budget():
    """The mappings that an allocator may use: an eighth of the kernel's limit."""
    return int(pathlib.Path("/proc/sys/vm/max_map_count").read_text()) // 8


@dataclasses.dataclass(frozen=True)
class Gate:
    name: str
    figure: typing.Callable  # takes the case's figures, glibc's of the same case, and those of all cases
    limit: float
    timed: bool = False
    small_limit: float = None  # of the small form, if it differs
    beside: str = ""  # the other case whose figures it takes


@dataclasses.dataclass(frozen=True)
class Case:
    what: str
    whole: tuple
    small: tuple
    gates: tuple = ()
    tested: bool = True  # its small form is in `make test`


def of(name):
    return lambda own, glibc, every: own[name]


def to_glibc(name):
    return lambda own, glibc, every: own[name] / max(glibc[name], 1e-9)


def to_case(case, name):
    return lambda own, glibc, every: own[name] / every[case][name]


def beyond(case, name, per):
    return lambda own, glibc, every: (own[name] - every[case][name]) / own[per]


# Every case has these. `capped`: the machine had no memory for the rest.
COMMON = (Gate("requests refused", of("refused"), 0), Gate("blocks with lost bytes", of("broken"), 0))
MAPPINGS = Gate("mappings", of("mappings"), mappings_budget())
EACH = Gate("KB each, of glibc's", to_glibc("kb_each"), 1.5)
LIGHT = Gate("resident after light work, of what was freed", of("after_light_of_freed"), 0.25)
ENDED = (LIGHT, Gate("peak, of the most that lived", of("peak_of_live"), 1.25))
# The host of a virtual machine sometimes takes the processor away while the CPU clock runs on. So of millions of
# requests some take milliseconds under every allocator; the gate compares their number with glibc's.
WAKES = (Gate("requests over 1 ms of CPU time, fill and free, of glibc's",
              lambda own, glibc, every: own["busy_over"] / max(5, glibc["busy_over"]), 2,
              timed=True),
         Gate("longest request of a wake, CPU us", of("wake_most_us"), 1000, timed=True))
SETTLED = Gate("a wake when settled, CPU ms", of("wake_settled_ms"), 0.5, timed=True)
LIMIT = (Gate("served, of the limit", of("granted_of_limit"), 1.0),
         Gate("not served, of the limit", lambda own, glibc, every: max(0, 1 - own["granted_of_limit"]), 0.35),
         Gate("not served once more, of the limit", lambda own, glibc, every: max(0, 1 - own["again_of_limit"]), 0.35),
         Gate("threads, mmap, dlopen that failed", of("others_failed"), 0))

# Writing the blocks takes half of glibc's CPU time, so a limit on CPU time alone would judge the host: it takes 0.55
# where the host supplies huge pages at once, and 0.9 where glebe stops asking for them.
REPLACED = (Gate("CPU time, of glibc's", to_glibc("cpu_ms"), 0.95, timed=True),
            Gate("system time, of glibc's", to_glibc("system_ms"), 0.7, timed=True),
            Gate("peak, of glibc's", to_glibc("peak_kb"), 1.10),
            Gate("page faults, of glibc's", to_glibc("faults"), 1.0),
            Gate("page faults of the whole run, of glibc's", to_glibc("faults"), 0.6, timed=True))

CASES = {
    "large": Case("100,000 blocks of 1.1 MB, a word written in each; every second freed, then all",
                  ("blocks", 100_000, 1_100_000, 1_100_000, 0, 1), ("blocks", 24_000, 1_100_000, 1_100_000, 0, 1),
                  (Gate("mappings with all of them", of("live_mappings"), 2000), MAPPINGS, EACH)),
    "large-mixed": Case("60,000 blocks of 64 KiB to 1 MiB, a word written in each",
                        ("blocks", 60_000, 65_537, MIB, 0, 1), ("blocks", 3_000, 65_537, MIB, 0, 1), (MAPPINGS, EACH)),
    "medium-large": Case("200,000 blocks of 32 to 256 KiB, a word written in each",
                         ("blocks", 200_000, 32_768, 262_144, 0, 1), ("blocks", 8_000, 32_768, 262_144, 0, 1),
                         (MAPPINGS, EACH)),
    "half-mib": Case("3,000 blocks of 512 KiB, a word written in each",
                     ("blocks", 3_000, MIB // 2, MIB // 2, 0, 1), ("blocks", 1_000, MIB // 2, MIB // 2, 0, 1),
                     (MAPPINGS, EACH)),
    "200-kb": Case("10,000 blocks of 200 KB, a word written in each",
                   ("blocks", 10_000, 200_000, 200_000, 0, 1), ("blocks", 3_000, 200_000, 200_000, 0, 1),
                   (MAPPINGS, EACH)),
    "aligned": Case("3,000 blocks of 1 KiB aligned to 1 MiB",
                    ("blocks", 3_000, 1024, 1024, MIB, 1), ("blocks", 1_000, 1024, 1024, MIB, 1), (MAPPINGS, EACH)),
    "live-threads": Case("8,000 threads at once, 24 small blocks in each",
                         ("live-threads", 8_000, 24), ("live-threads", 500, 24), (MAPPINGS, EACH)),
    "ended": Case("200 threads take 2 MB each in 128 B blocks and end; main frees them; 3 s of light work; main takes "
                  "as much in 256 B blocks",
                  ("ended", 200, 2048, 128, 0, 3000), ("ended", 100, 512, 128, 0, 1200), ENDED),
    "ended-own": Case("1,000 threads of 300 KB at once that free their own; the same",
                      ("ended", 1000, 300, 128, 1, 3000), ("ended", 200, 300, 128, 1, 1200), ENDED),
    "asleep": Case("8 threads, one after another, take 200 MB each in blocks of 64 B to 2 KB and sleep; main frees "
                   "them; 3 s of light work",
                   ("asleep", 8, 204_800, 64, 2048, 3000), ("asleep", 8, 16_384, 64, 2048, 1200), (LIGHT,)),
    "threads-two": Case("2 threads serve 8,000 requests of 1,000 sessions, each of 20 to 200 small blocks, one of 8 to "
                        "64 KiB, at times a large one; up to 4 small ones stay",
                        ("seldom", 2, 8_000), ("seldom", 2, 3_000), (MAPPINGS,)),
    "threads-asleep": Case("1,000 threads, one for each session, serve the same requests",
                           ("seldom", 1_000, 8_000), ("seldom", 1_000, 3_000),
                           (MAPPINGS, Gate("KB for each, beyond those of 2 threads",
                                           beyond("threads-two", "live_kb", "threads"), 8, beside="threads-two"),
                            Gate("CPU time, of glibc's", to_glibc("cpu_ms"), 1.2, timed=True))),
    "exchange": Case("4 threads share a table of 100,000 small blocks; each replaces 3,000,000 at random, and frees "
                     "what others allocated",
                     ("exchange", 4, 3_000_000), ("exchange", 4, 300_000),
                     # In the small form glibc's peak depends on how its threads meet: 31.5 to 34.6 MB, of which 31 are
                     # the blocks. glebe's is 34.2 to 34.8 MB.
                     (MAPPINGS, Gate("peak, of glibc's", to_glibc("peak_kb"), 1.10, small_limit=1.25),
                      Gate("CPU time, of glibc's", to_glibc("cpu_ms"), 1.2, timed=True))),
    "passing": Case("10,000 threads come and go, 8 at a time; each leaves a small block",
                    ("passing", 10_000, 8), ("passing", 2_000, 8), (MAPPINGS, Gate("KB for each", of("kb_each"), 4))),
    "wakes": Case("400 MB of 64 B blocks, three in four freed at random; 100 small requests each 0.7 s",
                  ("wakes", 400, 64, 24, 700, 100, 100, 0), ("wakes", 32, 64, 3, 100, 100, 100, 0), (*WAKES, SETTLED)),
    "wakes-large": Case("the same of 4 GB; 2,000 requests each 0.7 s, then 100",
                        ("wakes", 4096, 64, 40, 700, 2000, 100, 0), ("wakes", 64, 64, 3, 100, 100, 100, 0),
                        (*WAKES, SETTLED), tested=False),
    "wakes-random": Case("1 GB of 64 B blocks, 19 in 20 freed in random order; 2,000 small requests each 0.7 s",
                         ("wakes", 1024, 64, 8, 700, 2000, 2000, 1),
                         ("wakes", 32, 64, 3, 100, 2000, 2000, 1), WAKES[1:]),
    "idle": Case("16 GB of small blocks (less where the machine has less), half freed in stretches; 1,000 requests "
                 "each 0.7 s; filled again",
                 ("idle", 16_384, 12, 1000), ("idle", 64, 3, 1000),
                 (*WAKES, Gate("resident at the last wake, of what lives", of("of_live"), 1.15))),
    "holes": Case("100,000 blocks of 192 KB, every tenth freed; new blocks of 240 KB",
                  ("holes", 100_000, 196_608, 2_000, 20_000), ("holes", 5_000, 196_608, 500, 2_000),
                  (Gate("a new block, CPU us", of("new_us"), 1.5, timed=True),
                   Gate("a free and malloc, CPU us", of("pair_us"), 0.6, timed=True), MAPPINGS)),
    "holes-large": Case("the same with 400,000",
                        ("holes", 400_000, 196_608, 2_000, 20_000), ("holes", 20_000, 196_608, 500, 2_000),
                        (Gate("a new block, of that with 100,000", to_case("holes", "new_us"), 1.3, timed=True),
                         Gate("a free and malloc, of that with 100,000", to_case("holes", "pair_us"), 1.3, timed=True),
                         MAPPINGS), tested=False),
    "ranges": Case("4,095 blocks of 1 GiB by a page's alignment, freed; 64 of 100 MiB; 32 of 4 GiB",
                   ("ranges", 4095, 1024), ("ranges", 4095, 1024), (MAPPINGS,)),
    "limit-beyond": Case("RLIMIT_AS set by the program, 2 GB beyond what it has; blocks of 16 MB until NULL, freed, "
                         "again",
                         ("limit", 2048, 1, 16 * MIB), ("limit", 2048, 1, 16 * MIB), LIMIT),
    "limit-absolute": Case("the same, of 4 GB in all",
                           ("limit", 4096, 0, 16 * MIB), ("limit", 4096, 0, 16 * MIB), LIMIT),
    "limit-small": Case("the same, of 512 MB in all, by blocks of 1,000 bytes",
                        ("limit", 512, 0, 1000), ("limit", 192, 0, 1000), LIMIT),
    "replace": Case("64 blocks of 1 to 4 MiB, touched whole, one replaced at a time, 4,000 times",
                    ("replace", 64, MIB, 4 * MIB, 4_000), ("replace", 64, MIB, 4 * MIB, 400),
                    REPLACED),
    "pieces": Case("100 GB of address space in pieces of 16 KiB to 512 MiB, 1,000,000 operations",
                   ("pieces", 100, 1_000_000), ("pieces", 4, 20_000), (MAPPINGS,)),
    "heaps": Case("10,000 heaps of the allocator's own, 10 small blocks in each; destroyed; 3 s of light work",
                  ("heaps", 10_000, 10, 3000), ("heaps", 1_000, 10, 300),
                  (MAPPINGS, dataclasses.replace(LIGHT, timed=True))),
    "churn": Case("1,000,000 heaps created and destroyed, 64 at a time",
                  ("churn", 1_000_000), ("churn", 20_000), (Gate("resident KB", of("live_kb"), 2048), MAPPINGS)),
}


def gates(name):
    return (*COMMON, *CASES[name].gates)


def judged(gate, name, own, glibc, every):
    """The gate's figure, or None if the run has none."""
    try:
        return gate.figure(own, glibc, every)
    except (KeyError, TypeError, ZeroDivisionError):
        return None


def limit_of(gate, small):
    return gate.small_limit if small and gate.small_limit is not None else gate.limit


def passes(gate, figure, small=False):
    return figure is not None and figure <= limit_of(gate, small)


def figures(program, name, library=None, small=False, cap_mb=12_000, seconds=600, env=None):
    """A run's figures; {"failed": why} if it did not end well."""
    case = CASES[name]
    command = [str(word) for word in (program, *(case.small if small else case.whole))]
    if name == "idle":
        command[2] = str(min(int(command[2]), max(64, cap_mb - 2_000)))
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith(("GLEBE_", "MALLOC_", "MIMALLOC_", "LD_PRELOAD", "POOR"))}
    environment.update({"SCALE_CAP_MB": str(cap_mb)}, **(env or {}))
    if library:
        environment["LD_PRELOAD"] = str(library)
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds,
                              stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"over {seconds} s"}
    if done.returncode:
        return {"failed": f"status {done.returncode}", "said": done.stderr[-400:]}
    return json.loads(done.stdout)
