"""What `glebe record` costs: at most 1.5 times the processor time in the mean of ten programs, and 2 bytes a call.

The programs run on glibc's malloc, as they would without us. Processor time is the program's own, with the kernel's
part: the least of several runs, with the recorder and without in turn. The second pass, which makes the trace when the
program has ended, is shown apart. Instructions do not depend on what else the machine does; valgrind counts them.

A loop that only allocates and frees, for which all of that is far more, is shown and not judged. It is the control: it
must be above 1.5."""

import json
import os
import tempfile

import common

from programs import GLEBE, ROOT, cases, command, compiled, measured, run

TEN = "lua-json lua-strings sqlite perl python z3 git python-documents python-lxml protobuf".split()
RUNS, PAIRS = 3, 10_000_000
RECORDER = ROOT / "build/record/libglebe-record.so"


def seconds(words, environment):
    """The least processor time: without the recorder, with it, and of the whole command."""
    found = [], [], []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as scratch:
            found[0].append(measured(words, environment)[0])
            found[1].append(measured(words, dict(environment, GLEBE_TOOL_RECORD=scratch), [RECORDER])[0])
            found[2].append(measured([GLEBE, "record", "-q", "-o", f"{scratch}/trace", "--", *words], environment)[0])
    return tuple(map(min, found))


def instructions(words, environment):
    """By how many times more instructions the program executes."""
    with tempfile.TemporaryDirectory() as scratch:
        recorded = dict(environment, LD_PRELOAD=str(RECORDER), GLEBE_TOOL_RECORD=scratch)
        return common.instructions(words, env=recorded) / common.instructions(words, env=environment)


def bytes_a_call(words, environment, scratch):
    trace = f"{scratch}/trace"
    run([GLEBE, "record", "-q", "-o", trace, "--", *words], environment)
    events = json.loads(run([GLEBE, "trace", "--json", trace]).stdout)["totals"]["events"]
    return os.path.getsize(trace) / events, events


def line(name, alone, recorded, whole, more):
    return (f"{name:18} {alone:6.2f} s alone, {recorded:6.2f} s recorded: {recorded / alone:.2f} times; with the "
            f"second pass {whole / alone:.2f}; instructions {more}")


def measure(show):
    times, sizes, counts = [], [], []
    for case in cases(TEN):
        with tempfile.TemporaryDirectory() as scratch:
            words, environment = command(case, scratch)
            alone, recorded, whole = seconds(words, environment)
            size, events = bytes_a_call(words, environment, scratch)
            more = "not counted"
            if os.environ.get("SEEING_INSTRUCTIONS"):
                counts.append(instructions(list(map(str, words)), environment))
                more = f"{counts[-1]:.3f}"
        times.append(recorded / alone)
        sizes.append(size)
        show(f"{line(case['name'], alone, recorded, whole, more)}; {events} calls, {size:.2f} bytes each")
    alone, recorded, whole = seconds([compiled("loop.c", "-O2"), "64", str(PAIRS)], dict(os.environ))
    show(line("a loop", alone, recorded, whole, "not counted"))
    if counts:
        show(f"instructions, mean {sum(counts) / len(counts):.3f}, at most {max(counts):.3f}")
    return [("processor time of recorded programs, mean", sum(times) / len(times), "<=", 1.5),
            ("the same of a loop, the control", recorded / alone, ">=", 1.5),
            ("bytes a call in the mean", sum(sizes) / len(sizes), "<=", 2)]
