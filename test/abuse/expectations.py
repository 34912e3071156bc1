"""The expected output and exit status of the programs of this folder, in each build and on each system.

A program's head comment states them; test_abuse.py describes its format. `judge` runs a program by a function that the
system's test passes, and compares. A run's result has `returncode`, `out` (stdout) and `text` (stderr)."""

import json
import pathlib
import re

FOLDER = pathlib.Path(__file__).parent
BUILDS = ("default", "secure", "audit")
FLAGS = ("-O1", "-fno-builtin", "-pthread", "-Wno-use-after-free", "-Wno-free-nonheap-object", "-Wno-unused-result",
         "-Wno-stringop-overflow", "-Wno-stringop-overread", "-Wno-deprecated-declarations")


def expectations(source):
    """The head comment of a program as a dictionary; for each build the expected line or word."""
    head = source.read_text().split("*/")[0].removeprefix("/*")
    paragraphs = [" ".join(line.strip().removeprefix("* ").removeprefix("*") for line in p.splitlines()).strip()
                  for p in re.split(r"\n \*\n", head)]
    rules = {"text": paragraphs[0], "lines": "1"}
    for line in re.sub(r"\n \* {2,}", " ", head).splitlines(): # an indented line continues the one above
        match = re.match(r" \* ([a-z, ]+): (.+?)\s*$", line)
        if match:
            for key in match[1].split(", "):
                for name in BUILDS if key == "all" else [key]:
                    assert name not in rules or name == "lines", f"{source.name}: two answers of {name}"
                    rules[name] = match[2]
    assert set(BUILDS) <= set(rules), f"{source.name}: its head does not say what {set(BUILDS) - set(rules)} does"
    return rules


PROGRAMS = {path.stem: expectations(path) for path in sorted(FOLDER.glob("*.c"))}


def said(result):
    """The names and values that the program printed on stdout, with all values of a name in order."""
    told = {}
    for line in result.out.splitlines():
        name, _, value = line.partition(" ")
        told.setdefault(name, []).append(value)
    return told


def reports(result):
    return [line for line in result.text.splitlines() if line.startswith("glebe: ")]


def processes(result):
    """The second line of each report: program, process id, and how to get a backtrace (None: not printed)."""
    return [match.groups() for match in re.finditer(r"^  in (\S+)\[(\d+)\](?:; (.+))?$", result.text, re.M)]


BACKTRACE = "for a backtrace, put before the command line: gdb -batch -ex run -ex bt --args"


def expected_lines(template, told, count):
    """The required lines: one for each ADDRESS that the program printed, or the last of them `count` times."""
    addresses = told["ADDRESS"]
    addresses = addresses if len(addresses) >= count else addresses + addresses[-1:] * (count - len(addresses))
    start = told.get("START", [""])[-1]
    return [template.replace("ADDRESS", a).replace("START", start) for a in addresses[:count]]


DAMAGED = re.compile(r"glebe: malloc\(0x\w+\): "
                     r"the link of a free block of \d+ bytes, which led here, was overwritten\n")


def judge(run, rules, build, *, aborted, faulted):
    """run(**options of GLEBE_...) is one run of the program; `aborted` and `faulted` are the statuses of abort and of a
    wild access."""
    rule, options = rules[build], dict(option.split("=") for option in rules.get("options", "").split())
    if rule == "undetected":
        # The rest is undefined, so check only that glebe itself reports nothing.
        assert reports(run(on_error="count", **options)) == []
    elif rule == "served":
        result = run(**options)
        assert (result.returncode, result.text) == (0, ""), result.out
    elif rule == "faults":
        result = run(**options)
        if not DAMAGED.match(result.text): # half of all overwritten links look like the end of a list
            assert (result.returncode, result.text) == (faulted, "")
        else:
            assert result.returncode == aborted and result.text.count("\n") == 2
    else:
        result = run(**options)
        told = said(result)
        assert reports(result) == expected_lines(rule, told, 1)
        assert result.returncode == aborted and result.text.count("\n") == 2
        [(_, _, hint)] = processes(result)
        assert hint == (None if build == "default" else BACKTRACE)

        lines = int(rules["lines"])
        result = run(on_error="count", stats="json", **options)
        told = said(result)
        assert result.returncode == 0, f"{result.out}{result.text}"
        assert reports(result) == expected_lines(rule, told, lines)
        statistics = json.loads(result.text.splitlines()[-1])
        assert processes(result) == [(statistics["program"], str(statistics["pid"]), None)] * lines
        assert "SOUND" in told and told["ERRORS"] == [str(lines)] * 2
        assert statistics["errors"] == lines
