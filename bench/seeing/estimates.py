"""Estimates of heap profiles beside exact counts, on twenty programs.

    exact      a profile in which each block is a sample (GLEBE_PROFILE_BYTES=1). Its live bytes at the end, if they
               are over 1 MiB, must be those that the audit build's tables count, in a process that stops at that
               moment (stay.c); less than that, blocks from before the start of the profile count too much
    estimate   profiles with a sample each 64 KiB. The error, of all bytes allocated and of the bytes live at the end,
               is divided by the standard error of the exact population: the root of the sum of s^2 (1 - p) / p over
               its blocks, p = 1 - exp(-s / mean), where the blocks of a stack have their mean size s

Programs with more live blocks at once than the sampler has records, 349,525, have no exact profile, so clang is not
among them.
Of a normal error, 0.3 % of estimates are off by more than three standard errors. Few samples have no normal error, so
estimates of fewer than ten expected samples are left out; at 64 KiB fewer are left out than at the usual 512 KiB.
As a control, estimates that are a tenth too high must not be that often within three standard errors.
"""

import math
import pathlib
import signal
import subprocess
import tempfile
import time

from programs import GLEBE, ROOT, TWENTY, cases, command, compiled, last_object, run

MORE = ["git", "imagemagick", "povray"]
MEAN, RUNS, LEAST, ERRORS = 64 << 10, 8, 10, 3


def preloaded(case, library, scratch, **more):
    """The program, and the environment in which it ends as stay.c says."""
    stay = compiled("stay.c", "-shared", "-fPIC")
    words, environment = command(case, scratch)
    return words, dict(environment, LD_PRELOAD=f"{stay} {ROOT / 'build' / library}", **more)


def profile(case, mean, scratch):
    """The sites of the program's profile: (bytes allocated, blocks, bytes live, blocks). None if samples were lost, or
    if the program, as PHP, ends without the functions that libraries have for it."""
    file = pathlib.Path(scratch) / "at-exit"
    run(*preloaded(case, "libglebe.so", scratch, SEEING_PROFILE=str(file), GLEBE_PROFILE=f"{scratch}/profile",
                   GLEBE_PROFILE_BYTES=str(mean)))
    sites = []
    if not file.exists():
        return None
    for line in file.read_text(errors="replace").splitlines():
        if line.startswith("samples ") and int(line.split()[3]):
            return None
        if line.startswith("site "):
            blocks, size, live, live_size = map(int, line.split()[1:5])
            sites.append((size, blocks / 65536, live_size, live / 65536))
    return sites


def audited(case, scratch):
    """The live bytes at the same moment by the tables of the audit build."""
    words, environment = preloaded(case, "libglebe-audit.so", scratch, SEEING_STAY="1")
    with subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        try:
            while pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")")[-1].split()[0] not in "TZ":
                time.sleep(0.05)
            seen = last_object(run([GLEBE, "explain", "--json", str(process.pid)]))
        finally:
            process.send_signal(signal.SIGKILL)
    return seen["live_bytes"]


def sums(sites, size, blocks):
    """Bytes, expected samples, and the standard error of an estimate of the bytes."""
    total, samples, square = 0, 0, 0
    for site in sites:
        if site[blocks] >= 1:
            each = site[size] / site[blocks]
            p = -math.expm1(-each / MEAN)
            total, samples, square = total + site[size], samples + p * site[blocks], \
                square + site[blocks] * each * each * (1 - p) / p
    return total, samples, math.sqrt(square)


def measure(show):
    errors, biased, apart, told = [], [], [], 0
    for case in cases([name for name in [*TWENTY, *MORE] if name != "clang"]):
        with tempfile.TemporaryDirectory() as scratch:
            exact = profile(case, 1, scratch)
            if exact is None:
                show(f"{case['name']:18} has too many live blocks, or no end")
                continue
            live, counted = sum(site[2] for site in exact), audited(case, scratch)
            apart += [abs(live - counted) / counted] if counted > 1 << 20 else []
            runs = [profile(case, MEAN, scratch) for _ in range(RUNS)]
        line, any_told = f"{case['name']:18} live {live:11} audit {counted:11} ", False
        for what, size, blocks in ("allocated", 0, 1), ("live", 2, 3):
            total, samples, error = sums(exact, size, blocks)
            if samples < LEAST or not error:
                line += f" {what}: too few samples"
                continue
            found = [(sum(site[size] for site in sites) - total) / error for sites in runs]
            errors += found
            biased += [one + 0.1 * total / error for one in found]
            any_told = True
            line += (f" {what} {total:12}, error {100 * error / total:4.1f} %: {sum(found) / len(found):+.2f}, "
                     f"most {max(found, key=abs):+.2f}")
        told += any_told
        show(line)
    inside, control = (sum(abs(error) <= ERRORS for error in some) for some in (errors, biased))
    mean = sum(errors) / len(errors)
    show(f"{len(errors)} estimates: mean {mean:+.3f}, mean square {sum(e * e for e in errors) / len(errors):.3f}")
    return [("programs with estimates", told, ">=", 20),
            ("estimates within three standard errors, %", 100 * inside / len(errors), ">=", 99),
            ("the same of estimates that are a tenth too high, the control, %", 100 * control / len(errors), "<=", 90),
            ("exact profile and audit build differ at most by, %", 100 * max(apart, default=100), "<=", 2)]
