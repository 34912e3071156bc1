"""The attacks of this folder as suites, and what they do to an allocator.

An outcome is one word:

    open        the attack went through
    none        it gained nothing: the process ended as if nothing had happened
    SEGV, ABRT  the process ended by this signal, without a line of glebe's
    r3          glebe reported it: line r3 of expected.txt, where ADDRESS is the last one that attack.c printed
    open/none   either, by chance: the secure build hands out blocks in random order"""

import pathlib
import re
import signal
from concurrent.futures import ThreadPoolExecutor

FOLDER = pathlib.Path(__file__).parent
BUILDS = ("default", "secure", "audit")
SOURCES = [FOLDER / name for name in ("attack.c", "misuse.c", "houses.c", "layouts.c")]
FLAGS = ("-O1", "-fno-builtin", "-pthread", "-Wno-use-after-free", "-Wno-free-nonheap-object", "-Wno-array-bounds",
         "-Wno-stringop-overflow", "-Wno-alloc-size-larger-than")

SMALL, MEDIUM, LARGE = 8, 4096, 256 << 10
KINDS = """over-1 over-32 over-mb under-1 under-32 under-mb copy-over-1 copy-over-32 copy-over-mb copy-under-1
copy-under-32 copy-under-mb zero-read zero-read-free zero-write zero-write-free twice twice-delayed twice-between
twice-reused twice-single free-number free-inside-1 free-inside-8 free-close free-far free-alloca free-stack write-freed
write-freed-reused bytes-after-free bytes-at-malloc reuse reuse-downsize reuse-realloc executable enormous""".split()
HOUSES = """tcache_dup fastbin_dup fastbin_dup_into_stack fastbin_dup_consolidate house_of_botcake tcache_poisoning
tcache_poisoning_plain decrypt_safe_linking safe_link_double_protect tcache_stashing_unlink fastbin_reverse_into_tcache
house_of_lore unsorted_bin_into_stack large_bin_attack house_of_storm house_of_spirit house_of_spirit_inside
unsafe_unlink poison_null_byte house_of_einherjar overlapping_chunks overlapping_chunks_2 tcache_dup_overflow
mmap_overlapping house_of_force house_of_orange house_of_tangerine tcache_metadata_poisoning house_of_io house_of_mind
first_fit""".split()
LAYOUTS = """link-last link-middle spill-8 spill-16 spill-9 spill-1 spill-2 a-a a-b-a delayed a-b-written-a owned
inside-8 inside-16 inside-half never-taken""".split()

# name of the suite -> what it is, and its attacks
SUITES = {
    "mimalloc-bench": ("the kinds of mimalloc-bench's security programs", [
        *((kind, size) for kind in KINDS for size in (SMALL, MEDIUM, LARGE)),
        ("cxx-size-wrong", 72), ("cxx-array-of-one", 1), ("cxx-one-of-array", MEDIUM),
        ("cxx-array-of-string", 32), ("cxx-string-of-array", MEDIUM)]),
    "hardened_malloc": ("the kinds that hardened_malloc's tests expect to end", [
        ("cxx-size-wrong", 32), ("cxx-aligned-small", 64), ("cxx-aligned-large", 9000),
        ("twice", 16), ("twice-between", 16), ("twice", LARGE), ("twice-between", LARGE),
        ("past-usable-1", 8), ("past-usable-8", 8), ("past-usable-1", LARGE), ("past-usable-8", LARGE),
        ("free-protected", 16), ("free-unprotected", 16), ("free-region", 16), ("free-far", 16),
        ("free-inside-1", 16), ("free-inside-1", LARGE), ("free-number", 16), ("realloc-number", 16),
        ("usable-number", 16), ("usable-inside", 16), ("usable-region", 16), ("usable-freed", 16),
        ("read-freed-large", LARGE), ("zero-read", 0), ("zero-write", 0),
        ("write-byte-small", 128), ("write-byte-small-reused", 128),
        ("write-byte-large", LARGE), ("write-byte-large-reused", LARGE)]),
    "how2heap": ("its techniques", [(kind, size) for kind in HOUSES for size in (48, 256, 1200)]),
    "glebe's layout": ("attacks that know how glebe links free blocks", [
        (kind, size) for kind in LAYOUTS for size in (16, 48, 64, 112, 256, 1024, 2048)]),
}
ATTACKS = list(dict.fromkeys(attack for _, attacks in SUITES.values() for attack in attacks))
assert len(SUITES["mimalloc-bench"][1]) == 116 and len(SUITES["hardened_malloc"][1]) == 30


def programs(box):
    """The program for attacks of C, and that for those of C++."""
    return [box.compile(SOURCES, *FLAGS, to="attack"),
            box.compile(SOURCES, *FLAGS, to="attack-cxx", libs=["-Wl,--no-as-needed", "-lstdc++"])]


def outcome(box, made, attack, library):
    """What the attack does with this library preloaded (None: the C library's malloc): a word, or glebe's line."""
    done = box.run(made[attack[0].startswith("cxx-")], *attack, preload=library, timeout=120)
    assert "preload" not in done.stderr and done.returncode not in (2, 127), f"{attack}: {done.stderr}"
    if "OPEN\n" in done.stdout:
        return "open"
    lines = [line for line in done.stderr.splitlines() if line.startswith("glebe: ")]
    if lines:
        told = re.findall(r"^ADDRESS (0x[0-9a-f]+)$", done.stdout, re.M)
        line = lines[0].replace(f"({told[-1]})", "(ADDRESS)") if told else lines[0]
        return re.sub(r"0x[0-9a-f]{6,}", "0x...", line)
    return signal.Signals(-done.returncode).name[3:] if done.returncode < 0 else "none"


def outcomes(box, library, attacks, jobs=2):
    made = programs(box)
    with ThreadPoolExecutor(jobs) as pool:
        return dict(zip(attacks, pool.map(lambda attack: outcome(box, made, attack, library), attacks)))


def stopped(results, suite):
    """How many attacks of the suite never go through."""
    return sum("open" not in results[attack].split("/") for attack in SUITES[suite][1])


def expected():
    """build -> attack -> outcomes that are right, from expected.txt; a number of a line stands for the line."""
    lines, rows = {}, {build: {} for build in BUILDS}
    for row in (FOLDER / "expected.txt").read_text().splitlines():
        if match := re.match(r"(r\d+) (glebe: .+)$", row):
            lines[match[1]] = match[2]
        elif match := re.match(r"(\S+) (\d+) (\S+) (\S+) (\S+)$", row):
            for build, cell in zip(BUILDS, match.groups()[2:]):
                rows[build][match[1], int(match[2])] = [lines.get(word, word) for word in cell.split("/")]
    return rows


def write_expected(results):
    """Writes expected.txt from build -> attack -> set of outcomes."""
    lines = sorted({word for build in BUILDS for words in results[build].values() for word in words
                    if word.startswith("glebe: ")})
    names = {line: f"r{n}" for n, line in enumerate(lines, 1)}
    text = "# attack, size, and its outcome in the default, the secure and the audit build: see suites.py.\n"
    text += "# Made by: python3 test/attack/test_attack.py write\n\n"
    text += "".join(f"{name} {line}\n" for line, name in names.items()) + "\n"
    for attack in ATTACKS:
        cells = ("/".join(sorted(names.get(word, word) for word in results[build][attack])) for build in BUILDS)
        text += f"{attack[0]} {attack[1]} {' '.join(cells)}\n"
    (FOLDER / "expected.txt").write_text(text)
