"""Each program of this folder misuses the allocator in one way; its head comment says what each build shall answer.

    default: undetected                                  no line, and what follows is undefined
    secure, audit: glebe: free(ADDRESS): double free ... this exact line on stderr
    all: served                                          no line, and exit 0
    all: faults                                          SIGSEGV, and no line
    lines: 2                                             so many such lines where misuse is only counted (else one)
    options: limit=48M    address: 200M                  GLEBE_LIMIT, RLIMIT_AS

ADDRESS and START are what the program said on stdout: the line must name the very address. A detected misuse is run twice:
as it comes (the line, then SIGABRT), and with on_error=count (the line, then the program goes on, with a sound heap, exits 0,
and the statistics hold the count). Every program runs with each library preloaded, and linked with libglebe-override.a."""

import json
import pathlib
import re
import resource
import signal

import pytest

FOLDER = pathlib.Path(__file__).parent
BUILDS = ("default", "secure", "audit")


def expectations(source):
    """What the head comment of a program says, as a dictionary; for each build the expected line or word."""
    head = source.read_text().split("*/")[0].removeprefix("/*")
    paragraphs = [" ".join(line.strip().removeprefix("* ").removeprefix("*") for line in p.splitlines()).strip()
                  for p in re.split(r"\n \*\n", head)]
    rules = {"text": paragraphs[0], "lines": "1"}
    for line in head.splitlines():
        match = re.match(r" \* ([a-z, ]+): (.+?)\s*$", line)
        if match:
            for key in match[1].split(", "):
                for name in BUILDS if key == "all" else [key]:
                    assert name not in rules or name == "lines", f"{source.name}: two answers of {name}"
                    rules[name] = match[2]
    assert set(BUILDS) <= set(rules), f"{source.name}: its head does not say what {set(BUILDS) - set(rules)} does"
    return rules


PROGRAMS = {path.stem: expectations(path) for path in sorted(FOLDER.glob("*.c"))}
FLAGS = ("-O1", "-fno-builtin", "-pthread", "-Wno-use-after-free", "-Wno-free-nonheap-object", "-Wno-unused-result",
         "-Wno-stringop-overflow", "-Wno-stringop-overread", "-Wno-deprecated-declarations")


@pytest.fixture(scope="session")
def programs(box):
    """name, way -> path. Preloaded programs link with libglebe.so, from which they take glebe_check."""
    link = [f"-L{box.libraries}", "-lglebe", f"-Wl,-rpath,{box.libraries}", "-ldl"]

    def make(name, way):
        if way == "linked":
            return box.compile(FOLDER / f"{name}.c", *FLAGS, to="abuse-linked", libs=[box.library("libglebe-override.a"), "-ldl"])
        return box.compile(FOLDER / f"{name}.c", *FLAGS, to="abuse", libs=link)
    return make


def said(result):
    """What the program told on stdout, with all values of a name in order."""
    told = {}
    for line in result.out.splitlines():
        name, _, value = line.partition(" ")
        told.setdefault(name, []).append(value)
    return told


def reports(result):
    return [line for line in result.text.splitlines() if line.startswith("glebe: ")]


def expected_lines(template, told, count):
    """The lines that must come: one for each ADDRESS that was announced, or the last of them `count` times."""
    addresses = told["ADDRESS"]
    addresses = addresses if len(addresses) >= count else addresses + addresses[-1:] * (count - len(addresses))
    start = told.get("START", [""])[-1]
    return [template.replace("ADDRESS", a).replace("START", start) for a in addresses[:count]]


def cases():
    for name in PROGRAMS:
        for way in (*BUILDS, "linked"):
            yield pytest.param(name, way, id=f"{name}-{way}")


@pytest.mark.parametrize("name, way", list(cases()))
def test_misuse(box, programs, name, way):
    rules = PROGRAMS[name]
    rule = rules["default" if way == "linked" else way]
    program = programs(name, way)
    how = {"preload": None if way == "linked" else way, "timeout": 60}
    how.update(option.split("=") for option in rules.get("options", "").split())
    if "address" in rules:
        bytes_ = int(rules["address"].rstrip("M")) << 20
        how["limits"] = lambda: resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_))

    if rule == "undetected":
        # Undefined from here on: only that glebe itself says nothing is looked at.
        assert reports(box.run(program, on_error="count", **how)) == []
    elif rule == "served":
        result = box.run(program, **how)
        assert (result.returncode, result.text) == (0, ""), result.out
    elif rule == "faults":
        result = box.run(program, **how)
        assert (result.returncode, result.text) == (-signal.SIGSEGV, "")
    else:
        result = box.run(program, **how)
        told = said(result)
        assert reports(result) == expected_lines(rule, told, 1)
        assert result.returncode == -signal.SIGABRT and result.text.count("\n") == 1

        lines = int(rules["lines"])
        result = box.run(program, on_error="count", stats="json", **how)
        told = said(result)
        assert result.returncode == 0, f"{result.out}{result.text}"
        assert reports(result) == expected_lines(rule, told, lines)
        assert "SOUND" in told and told["ERRORS"] == [str(lines)] * 2
        assert json.loads(result.text.splitlines()[-1])["errors"] == lines


def test_every_line_names_call_and_address():
    """A message that does not say which call and which address is of no use."""
    for name, rules in PROGRAMS.items():
        for build in BUILDS:
            if rules[build].startswith("glebe: "):
                assert re.match(r"glebe: [a-z_ ]+\(ADDRESS\): .{10,}", rules[build]), name


def test_secure_and_audit_find_what_the_default_build_cannot():
    """double and interior frees of small blocks of the own thread: the price of a fast free, and why there are other builds."""
    found = [name for name, rules in PROGRAMS.items() if rules["default"] == "undetected" and rules["secure"].startswith("glebe: ")]
    assert {"double_free_small", "interior_small", "wild_uncarved", "write_after_free_link"} <= set(found)
    for name, rules in PROGRAMS.items():
        if rules["default"].startswith("glebe: "):
            assert rules["secure"] == rules["audit"] == rules["default"], f"{name}: found by the default build alone"


def table():
    """docs/misuse.md holds this; `python3 test/abuse/test_abuse.py` prints it."""
    sign = {"served": "harmless", "undetected": "-", "faults": "faults"}
    rows = ["| program in test/abuse | what it does | default | secure | audit |", "|---|---|---|---|---|"]
    for name, rules in PROGRAMS.items():
        cells = " | ".join(sign.get(rules[build], "found") for build in BUILDS)
        rows.append(f"| {name} | {rules['text']} | {cells} |")
    return "\n".join(rows)


def test_docs_hold_the_table(box):
    assert table() in (box.root / "docs/misuse.md").read_text(), "run: python3 test/abuse/test_abuse.py, and paste"


if __name__ == "__main__":
    print(table())
