"""glebe.exe from outside: what it passes to the program and back, which programs it refuses and how, and the table.
test_redirect.py tests glebe.dll under programs; here a minimal library shows that a library got in."""

import json
import os
import re
import shutil
import subprocess

import pytest

from programs import ARCHIVES, COMPILERS, EXE, HERE, OUT, compile_program, glebe_exe
from under_wine import windows

pytestmark = pytest.mark.more # `make test` leaves out glebe.exe

FOLDER = OUT / "exe"


@pytest.fixture(scope="module")
def folder():
    """words.exe; sign.dll; needs.exe, whose library is missing; small.exe, a 32-bit program."""
    gcc, clang = COMPILERS["gcc"][".c"], COMPILERS["clang"][".c"][0]
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)

    def build(compiler, text, name, *more):
        subprocess.run([*compiler, "-x", "c", "-", "-x", "none", *more, "-o", FOLDER / name], input=text, text=True,
                       check=True)

    shutil.copy(compile_program("words.c", "gcc", archive=None), FOLDER)
    subprocess.run([*gcc, "-shared", HERE / "sign.c", "-o", FOLDER / "sign.dll"], check=True)
    build(gcc, "__declspec(dllexport) int lost(void) { return 1; }", "lost.dll", "-shared")
    build(gcc, "__declspec(dllimport) int lost(void); int main(void) { return lost(); }", "needs.exe",
          FOLDER / "lost.dll")
    (FOLDER / "lost.dll").unlink()
    build([clang, "--target=i686-w64-mingw32", "-fuse-ld=lld", "-nostdlib", "-Wl,-e,_start"],
          "int start(void) { return 5; }", "small.exe")
    return FOLDER


@pytest.fixture
def glebe(wine, folder):
    glebe_exe()
    return lambda *words, **variables: wine(EXE, *words,
                                            **{"GLEBE_TOOL_DLL": windows(folder / "sign.dll"), "LC_ALL": "C.UTF-8",
                                               **variables})


def test_imports():
    """glebe.exe imports nothing that Wine 8 lacks."""
    glebe_exe()
    done = subprocess.run(["x86_64-w64-mingw32-objdump", "-p", EXE], capture_output=True, text=True, check=True)
    libraries = set(re.findall(r"DLL Name: (\S+)", done.stdout))
    assert "advapi32.dll" in libraries and "bcryptprimitives.dll" not in libraries, libraries


def test_run_passes_all_through(glebe, wine, folder):
    """Exit code, arguments and streams; the library is loaded before main, and without glebe.exe not at all."""
    words = ["a b", 'q"uote\\', "", "back\\\\", "-v", "--"]
    status, out, err = glebe("run", "--", folder / "words.exe", "3", *words, "ü✓")
    assert (status, out.splitlines()) == (3, [*words, "<fc><2713>"])
    assert err == "sign: left\n"
    assert wine(folder / "words.exe", "3")[::2] == (3, "sign: none\n")
    assert glebe("run", windows(folder / "words"), "0x107")[0] == 7 # Wine passes on 8 bits


def test_run_reads_standard_input(glebe, wine, folder):
    (folder / "in.txt").write_text("one\ntwo\n")
    line = f"{windows(EXE)} run -- {windows(folder / 'words.exe')} 0 < {windows(folder / 'in.txt')}"
    assert wine("cmd", "/c", line, GLEBE_TOOL_DLL=windows(folder / "sign.dll"))[:2] == (0, "one\ntwo\n")


def test_run_batch_file(glebe, folder):
    """A batch file for cmd.exe, whose children share its console."""
    (folder / "both.bat").write_text(f"@{windows(folder / 'words.exe')} 0 %1\r\n@exit /b 9\r\n")
    assert glebe("run", "--", folder / "both.bat", "hello")[:2] == (9, "hello\n")


def test_options_reach_the_library(glebe):
    status, out, _ = glebe("run", "--limit", "2G", "--stats=json", "--on-error", "count", "--children", "--", "cmd",
                           "/c", "set GLEBE_")
    said = dict(line.split("=") for line in out.splitlines())
    assert status == 0 and said.items() >= {"GLEBE_LIMIT": str(2 << 30), "GLEBE_STATS": "json",
                                            "GLEBE_ON_ERROR": "count",
                                            "GLEBE_TOOL_CHILDREN": "1"}.items(), out
    assert "GLEBE_TOOL_DLL" not in said


def test_verbose(glebe, folder):
    assert "words.exe ran with glebe in its memory" in glebe("run", "-v", "--", folder / "words.exe", "0")[2]


@pytest.mark.parametrize(("words", "code", "says"), [
    (["no-such-program"], 127, "there is no such program"),
    (["small.exe"], 125, "is a 32-bit program"),
    (["needs.exe"], 126, "a library that it needs was not found (status 0xC0000135)"),
    (["in.txt"], 126, "cannot be started"),
    (["--secure", "words.exe"], 125, "--secure: this system has no such build"),
    (["--audit", "words.exe"], 125, "--audit: this system has no such build"),
])
def test_refusals(glebe, folder, words, code, says):
    """A refusal prints one line and runs nothing."""
    (folder / "in.txt").write_text("no program")
    words = [word if word.startswith("--") or word == "no-such-program" else str(folder / word) for word in words]
    status, out, err = glebe("run", *words)
    assert (status, out, err.count("\n")) == (code, "", 1) and says in err, err


def test_library_that_is_none(glebe, folder, tmp_path):
    status, out, err = glebe("run", "--", folder / "words.exe", "0", GLEBE_TOOL_DLL=windows(tmp_path / "none.dll"))
    assert (status, out) == (125, "") and "GLEBE_TOOL_DLL" in err and "there is no such file" in err, err
    status, out, err = glebe("run", "--", folder / "words.exe", "0", GLEBE_TOOL_DLL=windows(HERE / "sign.c"))
    assert (status, out) == (125, "") and "could not be loaded into" in err, err


def test_library_beside_the_command(wine, folder, tmp_path):
    shutil.copy(EXE, tmp_path)
    status, _, err = wine(tmp_path / "glebe.exe", "run", folder / "words.exe", "0")
    assert status == 125 and "put glebe.dll beside glebe.exe" in err, err
    shutil.copy(folder / "sign.dll", tmp_path / "glebe.dll")
    assert wine(tmp_path / "glebe.exe", "run", folder / "words.exe", "0")[::2] == (0, "sign: left\n")


def test_compare_prints_a_table(glebe, folder):
    picture = folder / "picture.svg"
    status, out, err = glebe("compare", "-n", "2", "--svg", windows(picture), "--with",
                             f"other={windows(folder / 'sign.dll')}", "--",
                             folder / "words.exe", "-4")
    assert status == 4 and {"system", "glebe", "other"} <= set(out.split()), out + err
    assert all(title in out for title in ("wall s", "peak RSS MiB", "mean RSS MiB", "exit 4 in 2 of 2",
                                          "2 runs cannot tell")), out
    assert "CPU s" not in out and "page faults" not in out, out # Wine does not report them
    assert "standard error under glebe, other differs from that under system" in err, err
    assert "standard output" not in err, err
    assert "resident memory over time" in picture.read_text()


def test_compare_prints_json(glebe, folder):
    (folder / "in.txt").write_text("one\n")
    status, out, err = glebe("compare", "-n", "3", "--seed", "1", "--json", "--stdin", windows(folder / "in.txt"), "--",
                             folder / "words.exe", "-4")
    runs = [json.loads(line) for line in out.splitlines()]
    assert status == 4 and len(runs) == 6, err
    assert [r["run"] for r in runs if r["allocator"] == "glebe"] == [1, 2, 3]
    assert all(r["wall_s"] > 0 and r["peak_rss_bytes"] > 1 << 20 and r["exit"] == 4 and r["cpu_s"] is None
               for r in runs), runs


def test_compare_refusals(glebe, folder):
    status, _, err = glebe("compare", "--with", "mimalloc", "--", folder / "words.exe")
    assert status == 2 and "known are system, glebe; others as NAME=PATH" in err, err
    status, _, err = glebe("compare", "-n", "1", "--", folder / "needs.exe")
    assert status == 126 and "the warm-up ended: exit 0xC0000135" in err and "cannot begin" in err, err


def test_stats(glebe, folder):
    assert "cannot read process 32 on Windows" in glebe("stats", "32")[2]
    status, out, _ = glebe("stats", "--json", "--", "cmd", "/c", "set GLEBE_STATS")
    assert (status, out.strip()) == (0, "GLEBE_STATS=json")


@pytest.mark.parametrize(("words", "code"), [(["run"], 9), (["compare"], 0x3A)])
def test_ctrl_c(glebe, wine, folder, words, code):
    """At Ctrl-C `run` stays until the program, which ignores it, ends; `compare` ends like other Windows programs
    (0xC000013A). The test needs a console."""
    if not shutil.which("script"):
        pytest.skip("script is not here: Debian's bsdutils")
    line = " ".join(["exec", "wine", str(EXE), *words, "--", str(folder / "words.exe"), "-9", "</dev/null"])
    environment = {**wine.environment, "GLEBE_TOOL_DLL": windows(folder / "sign.dll")}
    done = subprocess.run(["script", "-qec", line, os.devnull], env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, check=False, timeout=300)
    assert done.returncode == code, done.stdout


def test_linux_hands_over(wine, folder):
    """Linux's `glebe run` finds glebe.exe in the repository and Wine on PATH."""
    command = ARCHIVES.parent / "glebe"
    if not command.exists() or not EXE.exists():
        pytest.skip("build/glebe or build/windows/glebe.exe is not here: make cli windows")
    environment = {**wine.environment, "GLEBE_TOOL_DLL": windows(folder / "sign.dll")}
    done = subprocess.run([command, "run", "--", "words.exe", "5", "a b"], cwd=folder, env=environment,
                          capture_output=True, text=True, input="in", check=False, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (5, "a b\nin", "sign: left\n")
