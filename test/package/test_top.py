"""`glebe top`: a frame as text, on a terminal, of a process that samples, and of one that ends."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

# Keeps 20 MiB; with "works" it allocates until it is killed.
PROGRAM = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) static void *keeps(void) { return memset(malloc(4000), 1, 4000); }
int main(int argc, char **argv)
{
    static void *kept[5000];
    for (int i = 0; i < 5000; i++)
        kept[i] = keeps();
    write(1, "ready\\n", 6);
    while (argc > 1 && argv) {
        for (int i = 0; i < 5000; i++) {
            free(kept[i]);
            kept[i] = keeps();
        }
        usleep(20000);
    }
    pause();
}
"""


@pytest.fixture(scope="module")
def command(box):
    glebe = box.libraries / "glebe"
    assert glebe.exists(), "run: make cli"
    return glebe


@pytest.fixture
def process(command, tmp_path):
    """words, variables -> the id of a process that runs on glebe."""
    (tmp_path / "program.c").write_text(PROGRAM)
    program = tmp_path / "program"
    subprocess.run(["gcc", "-O1", "-g", tmp_path / "program.c", "-o", program], check=True)
    with contextlib.ExitStack() as stack:
        def start(*words, **variables):
            line = [command, "run", "-q", "--", program, *words]
            child = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables})
            stack.callback(child.wait)
            stack.callback(child.kill)
            assert child.stdout.readline() == "ready\n"
            return child
        yield start


def top(command, *words, **variables):
    return subprocess.run([command, "top", *map(str, words)], capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C.UTF-8", **variables})


def test_without_a_terminal_one_frame_is_text(command, process):
    child = process()
    result = top(command, child.pid)
    assert (result.returncode, result.stderr) == (0, ""), result
    assert result.stdout.startswith(f"program[{child.pid}]: peak ") and " heap" in result.stdout
    for text in ["resident set", "live blocks up to 64 KiB", "block bytes", "█"]:
        assert text in result.stdout, result.stdout
    assert "\x1b" not in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert "option limit" not in result.stdout
    plain = top(command, child.pid, LC_ALL="C")
    assert plain.stdout.isascii() and "####" in plain.stdout
    # Two frames: the second has rates.
    assert "faults/s" in top(command, "-n", 2, child.pid).stdout


def test_the_limit_of_glebe_is_shown(command, process):
    text = top(command, process(GLEBE_LIMIT="1G").pid).stdout
    assert "  limit: glebe's option limit: " in text and " of 1024.0 MiB\n" in text, text


def test_a_process_that_samples_shows_its_callers(command, process, tmp_path):
    child = process("works", GLEBE_PROFILE=str(tmp_path / "p"), GLEBE_PROFILE_BYTES="4096")
    for _ in range(60):
        text = top(command, "-n", 3, child.pid).stdout
        if "allocated" in text:
            break
    assert "live by caller" in text and " keeps\n" in text and "/s allocated; sampled" in text, text


def test_the_end_of_the_process_is_one_line(command, process):
    child = process()
    with subprocess.Popen([command, "top", "-n", "1000", str(child.pid)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout.readline().startswith("program[")
        child.kill()
        child.wait()
        _, said = watcher.communicate(timeout=60)
        assert (watcher.returncode, said) == (0, f"glebe: program[{child.pid}] has ended\n")
    result = top(command, child.pid)
    assert result.returncode == 125 and result.stderr == f"glebe: there is no process {child.pid}\n"


def is_cooked(terminal):
    """Whether the terminal edits lines, as a shell leaves it."""
    return bool(termios.tcgetattr(terminal)[3] & termios.ICANON)


def on_terminal(command, pid, keys, size=(24, 80), **variables):
    """What the command writes to a terminal until it ends, and its exit status. `keys`: pressed when a frame is there,
    or a signal that comes then."""
    waits, ready = os.pipe()
    child, terminal = pty.fork()
    if child == 0:
        os.read(waits, 1) # the terminal has its size
        for number in (signal.SIGINT, signal.SIGHUP): # nohup and a shell's `&` ignore them
            signal.signal(number, signal.SIG_DFL)
        os.environ.update({"TERM": "xterm", "LC_ALL": "C.UTF-8", "COLUMNS": "80", **variables})
        os.execv(command, ["glebe", "top", str(pid)])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    os.write(ready, b"x")
    shown = b""
    until = time.monotonic() + 120
    pressed = False
    with open(terminal, "rb+", buffering=0) as screen:
        while time.monotonic() < until:
            if not select.select([screen], [], [], 1)[0]:
                continue
            try:
                part = screen.read(65536)
            except OSError: # the other end is closed
                break
            if not part:
                break
            shown += part
            if b"resident set" in shown and keys and not pressed:
                pressed = True
                assert not is_cooked(screen), "control"
                if isinstance(keys, signal.Signals):
                    os.kill(child, keys)
                else:
                    screen.write(keys)
        else:
            os.kill(child, 9)
        assert is_cooked(screen)
    return shown.decode(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("keys", [b"q", b"\x03", signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_key_or_a_signal_ends_it_and_the_terminal_is_as_before(command, process, keys):
    shown, status = on_terminal(command, process().pid, keys)
    assert status == 0 and "program[" in shown, shown
    # The other screen is entered, and left at the end.
    assert shown.index("\x1b[?1049h") < shown.index("program[") < shown.rindex("\x1b[?1049l"), shown


def test_a_terminal_without_a_size_gets_text(command, process):
    shown, status = on_terminal(command, process().pid, b"", size=(0, 0))
    assert status == 0 and "\x1b" not in shown and "resident set" in shown, shown


def test_a_dumb_terminal_gets_text(command, process):
    shown, status = on_terminal(command, process().pid, b"", TERM="dumb", LC_ALL="C")
    assert status == 0 and "\x1b" not in shown and shown.isascii() and "resident set" in shown, shown
