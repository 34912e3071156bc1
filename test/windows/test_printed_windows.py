"""docs/windows.md followed word for word outside the repository, with Wine in place of Windows."""

import re

import pytest

from printed import Document, shell
from programs import ZIG, glebe_exe, need

ACTIVE = r"glebe: {}\[\d+\]: version [\d.]+ was active: .*, 0 errors\n"
ARCHIVE, *LINES = Document("docs/windows.md", None).lines("archive=").splitlines()


@pytest.fixture
def reader(wine, tmp_path):
    """The document, with its files in a reader's folder, and a function that runs its lines there. `zig` is that of
    tools/check-macos."""
    document = Document("docs/windows.md", tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/zig").write_text(f'#!/bin/sh\nexec "{ZIG}" -m ziglang "$@"\n')
    (tmp_path / "bin/zig").chmod(0o755)
    kept = {k: v for k, v in wine.environment.items() if k.startswith(("WINE", "LC_"))}
    env = {**kept, "PATH": f"{tmp_path}/bin:{wine.environment['PATH']}"}
    return document, lambda lines: shell(lines, tmp_path, env=env).replace("\r\n", "\n")


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split()[-1].removesuffix(".exe"))
def test_link(reader, line):
    """Each line makes a program that starts and contains glebe."""
    document, run = reader
    need(ZIG if line.startswith("zig") else line.split()[0])
    run(f"{ARCHIVE}\n{line}")
    name = line.split()[-1]
    said = run(document.lines("wine 1.exe").replace("1.exe", name))
    assert ("1000 words\n" if ".cpp" in line else "hello\n") in said
    assert re.search(ACTIVE.format(re.escape(name)), said), said


@pytest.mark.more # as all that needs glebe.exe
def test_under_a_program(reader):
    """Both commands, under Wine."""
    document, run = reader
    glebe_exe()
    run("x86_64-w64-mingw32-gcc program.c -o program.exe")
    for line in document.lines("glebe.exe run").splitlines():
        said = run(line)
        if " run " in line:
            assert "hello\n" in said and re.search(ACTIVE.format("program.exe"), said), said
        else:
            assert re.search(r"^\W*system .*\d", said, re.M) and re.search(r"^\W*glebe  .*\d", said, re.M), said
