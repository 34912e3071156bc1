"""Shared by the benches in lua/, months/, tex/, tinygo/, rust/, stylus/, windows/ and pool/: building once, counting
instructions, describing the machine and the versions, and writing tables.

Each bench has its own modules `build` and `report`, so none can import from another. The module that the others of a
bench import first (`build`, in stylus/ `ink`, in pool/ `run` itself) puts this folder on sys.path.

A built file stays until its sources change; the digest of the sources is beside it, in a file of the same name that
ends in .key.
"""

import functools
import hashlib
import json
import math
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import textwrap
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# that bench/peers/build.sh builds
PEERS = pathlib.Path(os.environ.get("BENCH_BUILD") or ROOT / "bench/build").resolve() / "peers"
CARGO_TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "bench/build/cargo"))


# ---- building -----------------------------------------------------------------------------------------------------

def digest(paths, *words):
    """A digest of the sources among these files and in these folders, and of words such as the command and the
    compiler's version."""
    sha = hashlib.sha256(repr(words).encode())
    for path in sorted(p for top in paths for p in (top.rglob("*") if top.is_dir() else [top])):
        if path.suffix in (".go", ".c", ".h", ".mod", ".sum", ".rs", ".toml", ".lock"):
            sha.update(path.read_bytes())
    return sha.hexdigest()


def made(target, key, make):
    """Calls make() unless the target exists and was made from the same sources."""
    stamp = target.with_suffix(".key")
    if not (target.exists() and stamp.exists() and stamp.read_text() == key):
        target.parent.mkdir(parents=True, exist_ok=True)
        make()
        stamp.write_text(key)
    return target


def run(command, folder):
    """Runs a command; if it fails, SystemExit with its output."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")


def bdwgc(newest):
    """The environment in which programs find bdwgc's library: the system's, or the newest, which is built first. Prints
    its version, a line above a table."""
    env = {}
    if newest:
        run([ROOT / "bench/peers/build.sh", "bdwgc"], ROOT)
        env["LD_LIBRARY_PATH"] = str(PEERS / "bdwgc")
    number = subprocess.run([sys.executable, "-c", "import ctypes; print(ctypes.CDLL('libgc.so.1').GC_get_version())"],
                            env={**os.environ, **env}, capture_output=True, text=True, check=True).stdout
    print("bdwgc " + ".".join(map(str, int(number).to_bytes(3, "big"))) + "\n", flush=True)
    return env


# ---- measuring ----------------------------------------------------------------------------------------------------

# valgrind counts each byte of `rep stosb` and `rep movsb`. Which processor takes them, and from which size on, glibc
# decides: so counted programs get a glibc that never does.
COUNTED = {"GLIBC_TUNABLES": ":".join(f"glibc.cpu.x86_rep_{which}_threshold={1 << 30}"
                                      for which in ("stosb", "movsb"))}


def instructions(command, cwd=None, env=None):
    """The instructions that a command executes, counted by valgrind; of several processes, the most. If it fails,
    RuntimeError with its output."""
    done = subprocess.run(["valgrind", "--tool=cachegrind", "--cache-sim=no", "--trace-children=yes",
                           "--cachegrind-out-file=/dev/null",
                           *command], cwd=cwd, env={**(os.environ if env is None else env), **COUNTED},
                          capture_output=True, text=True, errors="replace", check=False)
    counts = [int(count.replace(",", "")) for count in re.findall(r"I +refs: +([\d,]+)", done.stderr)]
    if done.returncode or not counts or "cannot be preloaded" in done.stderr:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stderr}")
    return max(counts)


# ---- machine and versions -----------------------------------------------------------------------------------------

@functools.cache
def version(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def peer_version(library):
    """The version that bench/peers/build.sh noted for a library that it built; None for others."""
    said = library.with_suffix(".version")
    return said.read_text().strip() if said.exists() else None


def vendored(crate):
    """The sources of a crate that bench/peers/build.sh fetched."""
    return next((PEERS.parent / "vendor").glob(f"{crate}-[0-9]*"))


def mimalloc_sources():
    """The sources of the newest mimalloc, for benches that link it."""
    return vendored("rustfs-mimalloc-sys") / "c_src/mimalloc"


def locked(folder):
    """{crate: version} from the lock file of the package in this folder."""
    return dict(re.findall(r'name = "([^"]+)"\nversion = "([^"]+)"', (folder / "Cargo.lock").read_text()))


def commit():
    return subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True,
                          check=False).stdout.strip()


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    return {"when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "cpu": cpu, "cores": os.cpu_count(),
            "commit": commit()}


def code_bytes(path):
    """The bytes of a WebAssembly module's code section."""
    binary, at = path.read_bytes(), 8

    def leb128(at):
        value = shift = 0
        while True:
            byte = binary[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value, at

    while at < len(binary):
        section = binary[at]
        length, at = leb128(at + 1)
        if section == 10:
            return length
        at += length
    return 0


# ---- tables and verdicts ------------------------------------------------------------------------------------------

def mean(ratios):
    """The geometric mean. None if there is no ratio, or if one is missing: a mean over fewer would be a different
    figure."""
    ratios = list(ratios)
    return None if not ratios or None in ratios else math.exp(statistics.fmean(map(math.log, ratios)))


def mean_cell(ratios):
    """The mean of the existing ratios, with their number if some are missing."""
    found = [r for r in ratios if r]
    return "-" if not found else f"{mean(found):.2f}" + (f" of {len(found)}" if len(found) < len(ratios) else "")


def number(figure):
    if figure is None:
        return "-"
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def table(head, lines):
    """A Markdown table that is readable as text: columns of equal width, the first one left-aligned."""
    cells = [head, *lines]
    width = [max(len(line[i]) for line in cells) for i in range(len(head))]
    shown = lambda line: "| " + " | ".join(c.ljust(w) if i == 0 else c.rjust(w)
                                           for i, (c, w) in enumerate(zip(line, width))) + " |"
    rule = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(width)) + "|"
    return "\n".join([shown(head), rule, *map(shown, lines)]) + "\n"


def judge(gates, decimals):
    """Prints a line for each gate (what, figure or None, limit); true if all passed. A gate without a figure fails."""
    verdicts = []
    for what, figure, limit in gates:
        verdicts.append(figure is not None and figure <= limit)
        show = "{:,.0f}" if limit > 100 else f"{{:.{decimals}f}}"
        said = "not measured" if figure is None else show.format(figure)
        print(f"{'pass' if verdicts[-1] else 'FAIL'}  {what}: {said}, limit {show.format(limit)}")
    print(f"{sum(verdicts)} of {len(verdicts)} gates passed")
    return all(verdicts)


def draw(picture, path):
    """Draws a picture (see bench/src/plot.rs) with the bench driver."""
    source = path.with_suffix(".picture.json")
    source.write_text(json.dumps(picture))
    subprocess.run([ROOT / "bench/driver", "plot", source, path], check=True)
    source.unlink()


def filled(text):
    """Markdown with its sentences filled to 120 columns; tables and pictures stay as they are."""
    return "\n".join(line if len(line) <= 120 or line.startswith(("|", "!", "<"))
                     else textwrap.fill(line, 120, break_long_words=False, break_on_hyphens=False)
                     for line in text.split("\n"))


def replace(file, marker, new):
    """Replaces the text between the lines `<!-- MARKER: begin -->` and `<!-- MARKER: end -->`."""
    new = filled(new)
    begin, end = f"<!-- {marker}: begin -->\n", f"<!-- {marker}: end -->"
    text, count = re.subn(f"(?s){re.escape(begin)}.*?{re.escape(end)}", lambda _: begin + new + end, file.read_text())
    if count != 1:
        raise SystemExit(f"{file} has no place for {marker}")
    file.write_text(text)
