"""Each program of this folder misuses the allocator in one way; its head comment gives each build's reaction.

    default: undetected                                  no line, and all later behaviour is undefined
    secure, audit: glebe: free(ADDRESS): double free ... this exact line on stderr
    all: served                                          no line, and exit 0
    all: faults                                          SIGSEGV, and no line
    lines: 2                                             so many such lines if misuse is only counted (else one)
    options: limit=48M    address: 200M                  GLEBE_LIMIT, RLIMIT_AS

A second line names program and process.

The program prints ADDRESS and START on stdout: the line must name exactly these addresses. A program with a detected
misuse runs twice: by default (the line, then SIGABRT), and with on_error=count (the line, then the program continues
with a sound heap and exits 0, and the statistics have the count). Every program runs with each library preloaded, and
linked with libglebe-override.a."""

import re
import resource
import signal

import pytest

from expectations import BACKTRACE, BUILDS, FLAGS, FOLDER, PROGRAMS, judge

@pytest.fixture(scope="session")
def programs(box):
    """name, way -> path. Preloaded programs link with libglebe.so for glebe_check."""
    link = [f"-L{box.libraries}", "-lglebe", f"-Wl,-rpath,{box.libraries}", "-ldl"]

    def make(name, way):
        if way == "linked":
            return box.compile(FOLDER / f"{name}.c", *FLAGS, to="abuse-linked",
                               libs=[box.library("libglebe-override.a"), "-ldl"])
        return box.compile(FOLDER / f"{name}.c", *FLAGS, to="abuse", libs=link)
    return make


def cases():
    for name in PROGRAMS:
        for way in (*BUILDS, "linked"):
            yield pytest.param(name, way, id=f"{name}-{way}")


@pytest.mark.parametrize("name, way", list(cases()))
def test_misuse(box, programs, name, way):
    rules = PROGRAMS[name]
    program = programs(name, way)
    how = {"preload": None if way == "linked" else way, "timeout": 600}
    if "address" in rules:
        bytes_ = int(rules["address"].rstrip("M")) << 20
        how["limits"] = lambda: resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_))
    judge(lambda **options: box.run(program, **how, **options), rules, "default" if way == "linked" else way,
          aborted=-signal.SIGABRT, faulted=-signal.SIGSEGV)


def test_every_line_names_call_and_address():
    """Every message names the call and the address."""
    for name, rules in PROGRAMS.items():
        for build in BUILDS:
            if rules[build].startswith("glebe: "):
                assert re.match(r"glebe: [a-z_ ]+\(ADDRESS\): .{10,}", rules[build]), name


def test_secure_and_audit_find_what_the_default_build_cannot():
    """The default build misses only interior frees of the thread's own small blocks, and double frees of blocks on
    another thread's lists: the price of a fast free, and the reason for the other builds."""
    found = [name for name, rules in PROGRAMS.items() if rules["default"] == "undetected"
             and rules["secure"].startswith("glebe: ")]
    assert {"double_free_small_then_by_other", "interior_small", "wild_uncarved"} <= set(found)
    for name, rules in PROGRAMS.items():
        if rules["default"].startswith("glebe: "):
            found = all(rules[build].startswith("glebe: ") for build in ("secure", "audit"))
            assert found, f"{name}: found by the default build alone"


@pytest.mark.parametrize("how", ["command", "preload", "linked"])
def test_the_backtrace_that_is_advised(box, programs, how):
    """The second line, put before the same command line, shows the caller of free."""
    box.need("gdb")
    name, build = ("double_free_small", "secure") if how != "linked" else ("double_free_large", "default")
    program = programs(name, "linked" if how == "linked" else "preload")
    command = [box.libraries / "glebe", "run", "--secure", "--", program] if how == "command" else [program]
    how_to = BACKTRACE.split(": ")[1].split()
    done = box.run(*how_to, *command, preload=build if how == "preload" else None)
    frames = [line for line in done.out.splitlines() if line.startswith("#")]
    assert any(f" {name}.c" in line or "main (" in line for line in frames), done.out + done.text
    assert any("gb_report" in line or "abort" in line for line in frames)


def table():
    """The table in docs/misuse.md; `python3 test/abuse/test_abuse.py` prints it."""
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
