"""Whether the snapshot is there and whole when the kernel kills the process for its memory: fifty kills in a control
group of 48 to 160 MB, or where none can be made, ends under RLIMIT_AS, where the process aborts at its limit."""

import itertools
import os
import pathlib
import resource
import signal
import subprocess
import tempfile

from programs import GLEBE, ROOT, compiled, last_object, run

THREADS, SIZES, LIMITS_MB, KILLS = (1, 3), (40, 700, 9000, 70000, 400000), (48, 96, 160), 50


class Group:
    """A control group for memory, version 1 or 2; `made` is false if there can be none."""

    def __init__(self, limit):
        top = pathlib.Path("/sys/fs/cgroup")
        first = (top / "memory").is_dir()
        self.path = (top / "memory" if first else top) / f"glebe-seeing-{os.getpid()}"
        self.made = True
        try:
            self.path.mkdir()
            (self.path / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(limit))
            if not first:
                (self.path / "memory.swap.max").write_text("0")
        except OSError:
            self.made = False

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.path.is_dir():
            self.path.rmdir()


def kill(program, threads, size, limit, sampled, scratch):
    """Runs the program to its end. Returns (how it ended, in a group)."""
    file = f"{scratch}/snapshot"
    environment = {"LD_PRELOAD": str(ROOT / "build/libglebe.so"), "GLEBE_SNAPSHOT": f"{file}@90%"}
    if sampled:
        environment["GLEBE_PROFILE"] = f"{scratch}/profile"
    with Group(limit) as group:
        def limits():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if group.made:
                group.enter()
            else:
                resource.setrlimit(resource.RLIMIT_AS, (limit + (96 << 20), limit + (96 << 20)))

        ended = subprocess.run([program, str(threads), str(size)], env=environment, preexec_fn=limits, check=False,
                               timeout=300, capture_output=True)
        return ended.returncode, group.made


def whole(sampled, scratch):
    """What the snapshot has: `parts`, `sums` (the first of its two versions), or why it is not whole."""
    file = pathlib.Path(scratch) / "snapshot"
    if not file.exists():
        return "no file"
    try:
        seen = last_object(run([GLEBE, "explain", "--json", "--from", file]))
        if sampled:
            named = run([GLEBE, "profile", "--json", file]).stdout
            if "grows" not in named:
                return "a profile without the function"
    except RuntimeError as error:
        return str(error)
    if seen.get("live_bytes", seen.get("used_bytes", 0)) < 20 << 20:
        return "too little in it"
    return "parts" if seen.get("parts") else "sums"


def measure(show):
    program, kept, in_group = compiled("grows.c", "-O1", "-g"), 0, 0
    rounds = itertools.cycle(itertools.product(LIMITS_MB, SIZES, THREADS, (False, True)))
    for limit, size, threads, sampled in itertools.islice(rounds, KILLS):
        with tempfile.TemporaryDirectory() as scratch:
            code, made = kill(program, threads, size, limit << 20, sampled, scratch)
            found = whole(sampled, scratch)
        forced = code == -signal.SIGKILL if made else code == -signal.SIGABRT
        kept += forced and found in ("parts", "sums")
        in_group += made
        show(f"{limit:4} MB, {threads} threads, blocks of {size:6}, {'sampled' if sampled else '-':7}: "
             f"{'killed by the kernel' if made and forced else f'ended with {code}'}, snapshot: {found}")
    show(f"{in_group} of {KILLS} in a control group")
    return [("snapshots that are whole, of fifty forced ends", kept, ">=", KILLS)]
