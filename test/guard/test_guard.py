"""Guarded blocks (GLEBE_GUARD) in real processes: what the handler of faults finds, and what it leaves to the program;
and the reports as JSON (GLEBE_REPORT)."""

import json
import os
import pathlib
import re
import resource
import shutil
import signal

import pytest

FOLDER = pathlib.Path(__file__).parent
FOUND = {
    "overflow": ("access", "write past the end of a block: at offset 72 of 64 bytes", "found allocated"),
    "underflow": ("access", "write before the start of a block: 1 bytes before 64 bytes", "found allocated"),
    "near": ("free", "the block of 64 bytes here was written before its start", "found allocated"),
    "after-free": ("access", "read after free: at offset 5 of a block of 64 bytes", "found allocated freed"),
    "thread": ("access", "read after free: at offset 5 of a block of 64 bytes", "found allocated freed"),
    "twice": ("free", "double free: the block of 64 bytes here is free already", "found allocated freed"),
    "handler": ("access", "read after free: at offset 5 of a block of 64 bytes", "found allocated freed"),
    "jump": ("access", "read after free: at offset 5 of a block of 64 bytes", "found allocated freed"),
    "fork": ("access", "read after free: at offset 5 of a block of 64 bytes", "found allocated freed"),
}


@pytest.fixture(scope="session")
def program(box):
    return box.compile(FOLDER / "guarded.c", "-O1", "-fno-builtin", "-pthread", "-Wno-use-after-free",
                       "-Wno-maybe-uninitialized", to="guard")


def objects(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def accesses(line):
    """Only x86 says whether an access reads or writes."""
    return re.sub(r"\): (read|write|access) ", "): ACCESS ", line)


@pytest.mark.parametrize("way", list(FOUND))
def test_found(box, program, tmp_path, way):
    call, finding, stacks = FOUND[way]
    result = box.run(program, way, guard=1, report=tmp_path / "reports")
    assert result.returncode == (0 if way == "fork" else -signal.SIGABRT), result.text
    lines = result.text.splitlines()
    address = result.out.split()[1]
    assert accesses(lines[0]) == accesses(f"glebe: {call}({address}): {finding}")
    assert re.fullmatch(r"  in guarded\[\d+\]", lines[1])
    assert [line for line in lines[2:] if not line.startswith("    ")] == [f"  {s} at" for s in stacks.split()]
    for title in stacks.split(): # the innermost caller is the program's, not the library's
        assert re.match(r"    \S+/guarded\+0x[0-9a-f]+$", lines[lines.index(f"  {title} at") + 1])

    [told] = objects(tmp_path / "reports")
    assert (told["program"], told["call"], told["address"], told["build"]) == ("guarded", call, address, "default")
    assert told["block"]["bytes"] == 64 and told["block"]["freed"] == ("freed" in stacks)
    assert int(told["block"]["start"], 16) + told["block"]["offset"] == int(address, 16)
    for title in ("found", "allocated", "freed"):
        assert bool(told[title]) == (title in stacks)
        for frame in told[title][:1]:
            assert told["modules"][frame["module"]]["path"] == str(program)


@pytest.mark.parametrize("way", [way for way in FOUND if way != "fork"])
def test_counted(box, program, way):
    """The program goes on with a sound heap."""
    result = box.run(program, way, guard=1, on_error="count", stats="json")
    assert result.returncode == 0, result.text
    assert json.loads(result.text.splitlines()[-1])["errors"] == 1


@pytest.mark.parametrize("way, status", [
    ("own-fault", -signal.SIGSEGV), ("sent", -signal.SIGSEGV), ("ignored", 0),
    ("restored", -signal.SIGSEGV), ("chained", 3), ("nested", 4)])
def test_faults_of_the_program(box, program, way, status):
    result = box.run(program, way, guard=1)
    assert (result.returncode, result.text) == (status, "")


@pytest.mark.parametrize("handlers, guards", [(7, True), (9, False)])
def test_where_glebes_handler_cannot_be_first(box, program, handlers, guards):
    """It remembers eight handlers, the one at the start among them; then no block is guarded."""
    assert (int(box.run(program, "handlers", handlers, guard=1).out) > 0) == guards


@pytest.mark.parametrize("build", ["secure", "audit"])
def test_other_builds_refuse(box, program, build):
    result = box.run(program, "own-fault", guard="8M", preload=build)
    assert result.text == "glebe: GLEBE_GUARD is ignored: only the default build on Linux guards blocks\n"


@pytest.mark.parametrize("build", ["default", "secure", "audit"])
def test_reports_of_each_build(box, program, tmp_path, build):
    """Without guards: the block, and who frees it a second time."""
    for _ in range(2): # the file grows
        result = box.run(program, "unguarded", preload=build, report=tmp_path / "reports")
        assert result.returncode == -signal.SIGABRT
    told = objects(tmp_path / "reports")
    assert len(told) == 2 and told[0]["pid"] != told[1]["pid"]
    assert (told[1]["build"], told[1]["call"]) == (build, "free")
    assert told[1]["block"]["bytes"] == 64 and told[1]["block"]["offset"] == 0 and told[1]["block"]["freed"]
    assert told[1]["found"] and not told[1]["allocated"] and not told[1]["freed"]


ODD = [b'quotes "\' and \\back', b"control \x01\x1b\r\t\x7f", b"a line\nand two\n", b"no newline: \\012",
       "ß漢😀".encode(), b"\xff", b"cut \xe6\x97", b"overlong \xc0\xaf \xe0\x9f\xbf \xf0\x8f\xbf\xbf",
       b"half a pair \xed\xa0\x80", b"beyond \xf4\x90\x80\x80 \xf5", b'all \xff\n"\\']


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_any_path_is_in_a_report(box, program, tmp_path, name):
    """A report is UTF-8 and JSON, and leads to the program's file."""
    folder = tmp_path / os.fsdecode(name)
    folder.mkdir()
    there = shutil.copy(program, folder / "any")
    result = box.run(there, "unguarded", report=tmp_path / "reports")
    assert result.returncode == -signal.SIGABRT and result.text.isascii(), result.text
    told = json.loads((tmp_path / "reports").read_bytes().decode())
    paths = {os.fsdecode(bytes.fromhex(m["path_hex"])) if "path_hex" in m else m["path"] for m in told["modules"]}
    assert str(there) in paths, told["modules"]
    shown = name.decode(errors="replace")
    assert [m for m in told["modules"] if f"/{shown}/" in m["path"]], told["modules"]
    assert any("path_hex" in m for m in told["modules"]) == ("\ufffd" in shown)


def test_a_sampled_block_has_its_stack(box, tmp_path):
    """A heap profile knows who allocated a block that is freed wrongly."""
    program = box.compile(FOLDER / "inside.c", "-O1", "-fno-builtin", "-Wno-free-nonheap-object", to="guard")
    box.run(program, profile=tmp_path / "profile", profile_bytes=1, report=tmp_path / "reports")
    [told] = objects(tmp_path / "reports")
    assert told["block"]["offset"] == 4096 and not told["block"]["freed"] and told["allocated"]


def test_report_that_cannot_be_written(box, program, tmp_path):
    result = box.run(program, "own-fault", report=tmp_path / "none" / "reports")
    assert result.text.startswith(f"glebe: report: cannot write {tmp_path}/none/reports: error 2 (no such folder)")


@pytest.mark.parametrize("room", [0, 100])
def test_a_report_beyond_the_limit_of_files(box, program, tmp_path, room):
    """The program goes on, one line says it for all three reports, and the next program's report is on its own line."""
    reports, limit = tmp_path / "reports", lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    result = box.run(program, "unguarded", 4, report=reports, on_error="count", limits=limit)
    assert result.returncode == 0, result.text
    assert result.text.count("double free") == 3
    assert result.text.count("glebe: report: cannot write to the file of GLEBE_REPORT\n") == 1
    assert reports.stat().st_size == room
    box.run(program, "unguarded", report=reports)
    *cut, last = reports.read_text().splitlines()
    assert [len(line) for line in cut] == [room] * bool(room)
    assert json.loads(last)["call"] == "free"


def test_stderr_beyond_the_limit_of_files(box, program, tmp_path):
    """Lines on stderr end no program either: those of a report, and those at exit."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        os.dup2(os.open(tmp_path / "stderr", os.O_WRONLY | os.O_CREAT, 0o600), 2)
    result = box.run(program, "unguarded", 3, on_error="count", verbose=1, limits=limit)
    assert result.returncode == 0
    assert (tmp_path / "stderr").read_text() == "glebe: fre"
