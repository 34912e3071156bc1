"""Whether the stacks of a heap profile are heaptrack's: of five programs, the ten stacks with the most bytes.

heaptrack's raw file has each call with its stack of return addresses, by libunwind; glebe's profile, with each block a
sample, has them by libgcc. Both are compared as places in files: path, and offset in it. Frames of the two libraries
themselves are left out, and heaptrack keeps 64 frames.

A realloc that leaves a block where it is counts as a new allocation in heaptrack; in glebe's profile the block keeps
its stack. So the numbers of allocations are shown, and not judged. As a control, heaptrack's stacks without their
innermost frame must not be in the profile."""

import collections
import os
import pathlib
import struct
import subprocess
import tempfile

from programs import ROOT, cases, command, run

FIVE, TOP, FRAMES = "ghostscript git perl z3 sqlite".split(), 10, 64
OWN = ("libheaptrack", "libglebe", "libunwind")


def segments(path):
    """The loaded segments of an ELF file: (virtual address, offset in the file, bytes)."""
    data = pathlib.Path(path).read_bytes()[:1 << 16]
    start, each, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    heads = (struct.unpack_from("<IIQQQQQQ", data, start + i * each) for i in range(count))
    return [(head[3], head[2], head[6]) for head in heads if head[0] == 1]


class Places:
    """From an address to (path, offset in the file)."""

    def __init__(self):
        self.ranges = []

    def add(self, start, end, offset, path):
        self.ranges.append((start, end, offset, os.path.realpath(path)))

    def of(self, address):
        for start, end, offset, path in self.ranges:
            if start <= address < end:
                return path, address - start + offset
        return "?", address


def stack(places, addresses):
    """Places, the innermost first, without those of the profilers."""
    found = [places.of(address) for address in addresses]
    return tuple(place for place in found if not any(own in place[0] for own in OWN))[:FRAMES - 4]


def heaptracked(case, scratch):
    """{stack: [allocations, bytes]} by heaptrack, and the program's loaded files."""
    words, environment = command(case, scratch)
    run(["heaptrack", "--raw", "-o", f"{scratch}/raw", *words], environment)
    file = next(pathlib.Path(scratch).glob("raw*"))
    text = subprocess.run(["zstd" if file.suffix == ".zst" else "gzip", "-dc", file], capture_output=True, text=True,
                          errors="replace", check=True).stdout
    places, program, traces, sums = Places(), "", [(0, 0)], collections.defaultdict(lambda: [0, 0])
    for line in text.splitlines():
        kind, *rest = line.split(" ")
        if kind == "x":
            program = rest[1]
        elif kind == "m" and rest[1] != "-":
            path = program if rest[1] == "x" else rest[1]
            if os.path.exists(path):
                base = int(rest[2], 16)
                for address, offset, length in segments(path):
                    places.add(base + address, base + address + length, offset, path)
        elif kind == "t":
            traces.append((int(rest[0], 16) + 1, int(rest[1], 16)))  # it has the address before the return address
        elif kind == "+":
            entry = sums[int(rest[1], 16)]
            entry[0] += 1
            entry[1] += int(rest[0], 16)
    found = collections.defaultdict(lambda: [0, 0])
    for trace, (blocks, size) in sums.items():
        addresses = []
        while trace:
            addresses.append(traces[trace][0])
            trace = traces[trace][1]
        entry = found[stack(places, addresses)]
        entry[0] += blocks
        entry[1] += size
    return found


def sampled(case, scratch):
    """The same by glebe, with each block a sample."""
    words, environment = command(case, scratch)
    name = pathlib.Path(scratch) / "profile"
    run(words, dict(environment, LD_PRELOAD=str(ROOT / "build/libglebe.so"), GLEBE_PROFILE=str(name),
                    GLEBE_PROFILE_BYTES="1"))
    file = max(name.parent.glob("profile.*"), key=lambda path: path.stat().st_size)
    places, found = Places(), collections.defaultdict(lambda: [0, 0])
    for line in file.read_text(errors="replace").splitlines():
        kind, *rest = line.split(" ")
        if kind == "module":
            start, end, offset = (int(word, 16) for word in rest[:3])
            places.add(start, end, offset, " ".join(rest[4:]))
        elif kind == "site":
            entry = found[stack(places, [int(word, 16) for word in rest[6:]])]
            entry[0] += int(rest[0]) / 65536
            entry[1] += int(rest[1])
    return found


def measure(show):
    equal = top = counted = control = 0
    for case in cases(FIVE):
        with tempfile.TemporaryDirectory() as scratch:
            theirs, ours = heaptracked(case, scratch), sampled(case, scratch)
        best = sorted(theirs, key=lambda s: -theirs[s][1])[:TOP]
        here = [s for s in best if s in ours]
        same = [s for s in here if abs(ours[s][0] - theirs[s][0]) < 1]
        top, equal, counted = top + len(best), equal + len(here), counted + len(same)
        control += sum(s[1:] in ours for s in best)
        share = 100 * sum(theirs[s][1] for s in best) / sum(size for _, size in theirs.values())
        show(f"{case['name']:10} {len(theirs):6} stacks; of heaptrack's first {len(best)} ({share:.0f} % of the bytes) "
             f"{len(here)} are in glebe's profile, {len(same)} with as many allocations")
        for s in best:
            if s not in ours:
                near = max(ours, key=lambda o: sum(a == b for a, b in zip(reversed(o), reversed(s))))
                show(f"  missing, {theirs[s]}: {[f'{os.path.basename(p)}+{o:x}' for p, o in s[:6]]}\n"
                     f"    nearest, {ours[near]}: {[f'{os.path.basename(p)}+{o:x}' for p, o in near[:6]]}")
    show(f"{counted} of {top} with as many allocations")
    return [("of heaptrack's first ten stacks of five programs, in glebe's profile", equal, ">=", top),
            ("of these without their innermost frame, the control", control, "<=", top / 2)]
