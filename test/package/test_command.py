"""The `glebe` command with real programs: reading the statistics of running processes, and starting programs that have
their own allocator."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

WAITS = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    char *volatile block = malloc(3 << 20);
    for (int i = 0; i < 3 << 20; i += 4096)
        block[i] = 1;
    puts(getenv("GLEBE_LIMIT") ? getenv("GLEBE_LIMIT") : argv[0]);
    fflush(stdout);
    if (argc > 1)
        pause();
    free(block);
    return 7;
}
"""
ON_MIMALLOC = """
#include <stdlib.h>
void *mi_malloc(size_t bytes);
void mi_free(void *block);
int main(void)
{
    free(mi_malloc(100));
    mi_free(malloc(100));
    return 0;
}
"""
# A stand-in for mimalloc's own library: it has its own memory, and malloc's names.
MIMALLOC = """
#include <stddef.h>
static char room[1 << 20];
static size_t used;
void *mi_malloc(size_t bytes) { used += (bytes + 15) & ~(size_t)15; return room + used - ((bytes + 15) & ~(size_t)15); }
void mi_free(void *block) { (void)block; }
void *malloc(size_t bytes) { return mi_malloc(bytes); }
void free(void *block) { mi_free(block); }
"""
# How glebe gets into a program, and the compiler's arguments for that.
WAYS = {
    "preloaded": ["-pie"], "linked": ["-pie"], "linked-no-pie": ["-no-pie"], "static": ["-static", "-no-pie"],
    "static-pie": ["-static-pie"],
}


@pytest.fixture(scope="module")
def command(box):
    glebe = box.libraries / "glebe"
    assert glebe.exists(), "run: make cli"
    return glebe


@pytest.fixture(scope="module")
def waits(box, tmp_path_factory):
    """way, stripped -> a program that contains glebe in that way ("preloaded": it contains none)."""
    folder = tmp_path_factory.mktemp("waits")

    def make(way, stripped=False):
        out = folder / (f"{way}-stripped" if stripped else way)
        if not out.exists():
            (folder / "waits.c").write_text(WAITS)
            link = [] if way == "preloaded" else ["-Wl,-u,malloc", box.library("libglebe-override.a"), "-pthread"]
            subprocess.run(["gcc", *WAYS[way], "-fPIE", folder / "waits.c", *link, "-o", out], check=True)
            if stripped:
                subprocess.run(["strip", "--strip-all", out], check=True)
        return out
    return make


@contextlib.contextmanager
def running(*words, **variables):
    """The process, once its program has printed its first line. Its children end with it."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GLEBE_") and k != "LD_PRELOAD"}
    with subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env={**environment, **variables}) as process:
        try:
            assert process.stdout.readline()
            yield process
        finally:
            children = open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii").read().split()
            process.kill()
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(child), 9)


# ---- glebe stats PID ----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("stripped", [False, True], ids=["symbols", "stripped"])
@pytest.mark.parametrize("way", WAYS)
def test_stats_find_glebe(box, command, waits, way, stripped):
    """Works for every way into the program, and without symbols; text and JSON are as at the exit."""
    path = waits(way, stripped)
    words = [command, "run", "--", path, "waits"] if way == "preloaded" else [path, "waits"]
    with running(*words) as process:
        done = box.check(command, "stats", "--json", process.pid, preload=None)
        assert done.text == ""
        found = json.loads(done.out)
        assert (found["program"], found["pid"]) == (path.name, process.pid)
        assert 3 << 20 <= found["used_bytes"] < 5 << 20 and found["errors"] == 0
        head, *rows = box.check(command, "stats", process.pid, preload=None).out.splitlines()
        assert head == f"glebe: {path.name}[{process.pid}]: statistics"
        assert [row.split()[0] for row in rows] == list(found)[2:]
        assert all(re.fullmatch(r"  \w+ +\d+(\.\d [KM]iB)?", row) and len(row) <= 40 for row in rows)


def test_text_and_json_are_the_same_from_inside_and_outside(box, command):
    """The library and the command print the same figures in the same form."""
    def shape(text):
        return [re.sub(r"[\d.]+( [KM]iB)?$", "", row).rstrip() for row in text.splitlines()[1:]]
    for program in ("gzip", "bash"):
        figures = json.loads(box.check(program, "--version", stats="json").text)
        by_command = box.check(command, "run", "--stats", "--", program, "--version", preload=None).text
        assert shape(box.check(program, "--version", stats=1).text) == shape(by_command)
        assert shape(by_command) == [f"  {name}" for name in figures if name not in ("program", "pid")]
        by_command = box.check(command, "run", "--stats=json", "--", program, "--version", preload=None).text
        assert list(json.loads(by_command)) == list(figures)


def test_stats_find_the_child(box, command, waits):
    """Given a process that only waits for the program: this command with -v, or a shell."""
    for words in ([command, "run", "-v", "--"], ["sh", "-c", '"$@"; exit 1', "sh", command, "run", "--"]):
        with running(*words, waits("preloaded"), "waits") as process:
            done = box.check(command, "stats", "--json", process.pid, preload=None)
            assert "has no glebe; this is its child" in done.text
            found = json.loads(done.out)
            assert found["program"] == "preloaded" and found["pid"] != process.pid


def test_stats_find_a_module_of_lua(box, command):
    """`require "glebe"` in an unmodified interpreter."""
    module, lua = box.root / "build/lua/5.4/glebe.so", shutil.which("lua5.4")
    if not module.exists() or not lua:
        pytest.skip("no lua5.4, or no module: make lua")
    code = 'local g = require "glebe" print "ready" io.stdout:flush() while true do end'
    with running(lua, "-e", code, LUA_CPATH=f"{module.parent}/?.so") as process:
        found = json.loads(box.check(command, "stats", "--json", process.pid, preload=None).out)
        assert found["program"] == "lua5.4" and found["pid"] == process.pid


@pytest.mark.more
def test_stats_find_glebe_in_rust(box, command, tmp_path):
    """A program whose global allocator is the crate's Heap, stripped."""
    box.need("cargo")
    (tmp_path / "src").mkdir()
    (tmp_path / "Cargo.toml").write_text(f"""
[package]
name = "waits"
version = "0.0.0"
edition = "2021"
[dependencies]
glebe = {{ path = "{box.root}" }}
[profile.dev]
strip = true
[workspace]
""")
    (tmp_path / "src/main.rs").write_text("""
#[global_allocator]
static ALLOC: glebe::Heap = glebe::Heap::new();
fn main() {
    let block = vec![1u8; 3 << 20];
    println!("ready");
    std::thread::sleep(std::time::Duration::from_secs(if std::env::args().count() > 1 { 600 } else { 0 }));
    std::process::exit(i32::from(block[5]) + 6);
}
""")
    shutil.copy(box.root / "Cargo.lock", tmp_path)
    target = box.root / "build/test-command-rust"
    done = subprocess.run(["cargo", "build", "--target-dir", target], cwd=tmp_path, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    with running(target / "debug/waits", "waits") as process:
        found = json.loads(box.check(command, "stats", "--json", process.pid, preload=None).out)
        assert (found["program"], found["pid"]) == ("waits", process.pid) and found["used_bytes"] > 3 << 20
    done = box.run(command, "run", "--stats", "--", target / "debug/waits", preload=None)
    assert done.returncode == 7 and "has a glebe of its own inside" in done.text
    assert done.text.count(": statistics\n") == 2


def test_stats_of_what_has_no_glebe(box, command, waits):
    with running(waits("preloaded"), "waits") as process:
        done = box.run(command, "stats", process.pid, preload=None)
        assert done.returncode == 125 and f"no glebe was found in process {process.pid} (preloaded)" in done.text
        assert "glebe run -- preloaded" in done.text


# ---- statistics of a whole run ------------------------------------------------------------------------------------

def test_children_are_summed_up(box, command):
    """The program's own statistics come first and alone; forty children are one line."""
    code = "import subprocess\nfor i in range(40): subprocess.run(['true'])"
    python = pathlib.Path(sys.executable)
    done = box.check(command, "run", "--stats", "--", python, "-c", code, preload=None)
    assert done.text.count(": statistics\n") == 1 and re.match(rf"glebe: {python.name}\[\d+\]: statistics\n", done.text)
    summary = done.text.splitlines()[-1]
    assert re.fullmatch(rf"glebe: {python.name}: 40 children: peak [\d.]+ [KM]iB at most \(true\[\d+\]\), [\d.]+ "
                        rf"[KM]iB purged, "
                        "0 errors, 0 times out of memory", summary), summary
    done = box.check(command, "run", "--stats=json", "--", python, "-c", code, preload=None)
    objects = [json.loads(line) for line in done.text.splitlines()]
    assert len(objects) == 41 and objects[0]["program"] == python.name and len({o["pid"] for o in objects}) == 41
    assert all(o["program"] == "true" for o in objects[1:])


def test_a_run_with_statistics_ends_as_the_program(box, command, tmp_path):
    folder = {"TMPDIR": str(tmp_path)}
    done = box.run(command, "run", "--stats", "--", "bash", "-c", "kill -TERM $$", preload=None, env=folder)
    assert done.returncode == -15 and re.search(r"glebe: bash\[\d+\] printed no statistics: it ended by a signal",
                                                done.text)
    assert box.run(command, "stats", "--", "bash", "-c", "exit 5", preload=None, env=folder).returncode == 5
    assert list(tmp_path.iterdir()) == [], "no file is left"


def test_a_child_that_outlives_the_run_speaks_on_stderr(box, command):
    done = box.check(command, "run", "--stats", "--", "bash", "-c", "(sleep 0.4; exec true) & exit", preload=None)
    assert re.search(r"^glebe: true\[\d+\]: statistics$", done.text, re.M), done.text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGALRM, signal.SIGRTMIN + 3])
def test_a_signal_reaches_the_program(command, number):
    """A signal that is sent only to the command, as by a supervisor, reaches the program.

    The tests may run in a shell's background, where INT and QUIT are ignored: the command starts with the default."""
    process = subprocess.Popen([command, "run", "--stats", "--", "sh", "-c", "echo on; exec sleep 60"],
                               preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout.readline() == "on\n"
    process.send_signal(number)
    assert process.wait(timeout=30) in (-number, 128 + number)


def test_the_status_is_known_where_sigchld_is_ignored(command):
    ignore = lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    done = subprocess.run([command, "run", "--stats", "--", "sh", "-c", "exit 3"], capture_output=True, check=False,
                          preexec_fn=ignore)
    assert done.returncode == 3, done.stderr


def test_docs_hold_the_statistics(box):
    """docs/options.md has a row for each statistic of glebe.h, with its unit and meaning."""
    declared = re.findall(r' {4}X\((\w+), "(\w+)", "([^"]*)"\)', (box.root / "include/glebe.h").read_text())
    assert len(declared) > 15
    docs = (box.root / "docs/options.md").read_text()
    for name, unit, meaning in declared:
        assert f"| `{name}` | {unit} | {meaning} |\n" in docs


# ---- options ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("value", ["1.5G", "0.5M", "64KiB", "1.999999999T", "7b", "0"])
def test_a_size_is_the_same_to_both(box, value):
    """The library accepts the same sizes as the command."""
    assert box.check("true", env={"GLEBE_LIMIT": value}).text == ""
    assert box.check(box.libraries / "glebe", "run", f"--limit={value}", "--", "true", preload=None).text == ""


# ---- programs that have an allocator ------------------------------------------------------------------------------

@pytest.mark.parametrize("way", [way for way in WAYS if way != "preloaded"])
def test_run_a_program_with_glebe_inside(box, command, waits, way):
    """A program with glebe linked in runs unchanged, with the given options; nothing is preloaded."""
    path = waits(way, stripped=True)
    done = box.run(command, "run", "--limit=1.5G", "--stats", "-v", "--", path, preload=None)
    assert done.returncode == 7 and done.out == f"{3 << 29}\n"
    assert f"note: {path} has glebe linked in" in done.text and "ran with the glebe that is linked into it" in done.text
    assert done.text.count(": statistics\n") == 1 and done.text.count("was active") == 1
    assert box.run(command, "run", "-q", "--limit=1M", "--", path, preload=None).returncode == -11, "the limit holds"
    for option, library in (("--secure", "libglebe-secure.so"), ("--audit", "libglebe-audit.so")):
        done = box.run(command, "run", option, "--", path, preload=None)
        assert done.returncode == 125 and library in done.text and done.out == ""
    done = box.run(command, "compare", "--runs", "1", "--", path, preload=None)
    assert done.returncode == 125 and "has glebe linked in" in done.text and "all rows would show glebe" in done.text


@pytest.mark.parametrize("line", [2, 3])
def test_run_a_program_on_mimalloc(box, command, tmp_path, line):
    """A program linked to libmimalloc frees blocks of mi_malloc with free: glebe serves both."""
    library, program = tmp_path / f"libmimalloc.so.{line}", tmp_path / "program"
    (tmp_path / "mimalloc.c").write_text(MIMALLOC)
    (tmp_path / "program.c").write_text(ON_MIMALLOC)
    soname = f"-Wl,-soname,{library.name}"
    subprocess.run(["gcc", "-shared", "-fPIC", "-fno-builtin", soname, tmp_path / "mimalloc.c", "-o", library],
                   check=True)
    subprocess.run(["gcc", "-fno-builtin", tmp_path / "program.c", library, "-o", program], check=True)
    own = {"LD_LIBRARY_PATH": str(tmp_path)}
    assert box.run(program, preload=None, env=own).returncode == 0, "control: on its own library"
    assert box.run(program, preload="default", env=own).returncode == -6, \
        "control: glebe's malloc under mimalloc's functions"
    assert box.check(command, "run", "--", program, preload=None, env=own).text == ""
    done = box.check(command, "run", "-v", "--", program, preload=None, env=own)
    assert f"glebe as libmimalloc.so.{line}" in done.text and "was active" in done.text
    words = ["compare", "--runs", "1", "--only", "system,glebe", "--json"]
    done = box.check(command, *words, "--", program, preload=None, env=own)
    assert [json.loads(row)["exit"] for row in done.out.splitlines()] == [0, 0]
    assert f"linked with libmimalloc.so.{line}" in done.text and "never loaded" not in done.text
    done = box.run(command, "run", "--secure", "--", program, preload=None, env=own)
    assert done.returncode == 125 and "no --secure build" in done.text
    library.unlink()
    assert box.check(command, "run", "--", program, preload=None).text == "", "mimalloc's own library is not needed"
