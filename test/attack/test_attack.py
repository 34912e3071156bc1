"""Attackers' suites against each build: each attack ends as expected.txt says. suites.py explains the outcomes.

    python3 test/attack/test_attack.py write           makes expected.txt anew: read what changed
    python3 test/attack/test_attack.py table           the table of docs/security.md
    python3 test/attack/test_attack.py table name=LIB  a column for another allocator; name= is libc's"""

import pathlib
import re
import sys

import pytest

import suites

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from conftest import Toolbox # noqa: E402


def right(found, words, chance):
    """With `chance`, the order of blocks is random. Then a check other than the usual one may stop the attack, also one
    that usually goes through."""
    return found in words or (chance and found != "open")


def naive_library(box):
    """An allocator without checks: the control of attacks on links."""
    return box.compile(suites.FOLDER / "naive.c", "-O1", "-fPIC", "-shared", "-fno-builtin", to="attack-naive")


@pytest.mark.parametrize("build", suites.BUILDS)
def test_attacks(box, build):
    rules = suites.expected()[build]
    assert list(rules) == suites.ATTACKS, "run: python3 test/attack/test_attack.py write"
    results = suites.outcomes(box, box.library(build), suites.ATTACKS)
    wrong = {attack: f"{found}; expected: {' or '.join(rules[attack])}" for attack, found in results.items()
             if not right(found, rules[attack], chance=build == "secure")}
    assert not wrong


def test_attacks_go_through_where_nothing_checks(box):
    """A control: against an allocator without checks the attacks on links work, so that `stopped` means something."""
    library = naive_library(box)
    attacks = [(kind, 64) for kind in suites.LAYOUTS if kind not in ("never-taken", "spill-9")]
    results = suites.outcomes(box, library, attacks)
    assert set(results.values()) == {"open"}, results


def trials(box, library, count):
    """Runs the fuzzer. Returns the kinds of trials that went through, and whether malloc handed out the target."""
    fuzzer = box.compile(suites.FOLDER / "overlap.c", *suites.FLAGS, to="attack")
    done = box.run(fuzzer, count, 1, preload=None, env={"LD_PRELOAD": str(library)})
    assert re.search(r"^THROUGH \d+ HARMLESS [1-9]\d* ENDED [1-9]", done.out, re.M), done.out + done.text
    kinds = re.findall(r"^seed \d+: (.+?) of (\d+) bytes, value \d: (.+)$", done.out, re.M)
    return {(kind, int(length)) for kind, length, _ in kinds}, any("outside" in what for *_, what in kinds)


def test_one_mistake_gains_nothing(box):
    """No trial goes through. Without checks, blocks overlap, and malloc hands out an address of the program's."""
    naive = naive_library(box)
    whole = {(kind, length) for kind in ("overflow", "write after free") for length in (8, 16, 32)}
    found, outside = trials(box, naive, 1500)
    assert outside and found & whole, "the control found nothing"
    for build in suites.BUILDS:
        assert trials(box, box.library(build), 1500) == (set(), False)


@pytest.mark.parametrize("size", (16, 64, 1024))
@pytest.mark.parametrize("length", (1, 2, 4))
def test_a_part_of_a_link_gains_nothing(box, size, length):
    """A link of which a part was overwritten leads nowhere: malloc faults. Without checks, parts of 1 and 2 bytes lead
    into the middle of a block nearby."""
    program = box.compile(suites.FOLDER / "partial.c", *suites.FLAGS, to="attack-partial")
    naive = naive_library(box)
    through = {}
    for library in (naive, *map(box.library, suites.BUILDS)):
        done = box.run(program, size, length, preload=None, env={"LD_PRELOAD": str(library)})
        through[library], ended = map(int, re.fullmatch(r"THROUGH (\d+) ENDED (\d+)\n", done.out).groups())
        assert ended or library == naive, "no link was overwritten"
    assert through.pop(naive) or length == 4, "the control found nothing"
    assert not any(through.values()), through


@pytest.mark.parametrize("size", (16, 64, 128, 1024))
def test_content_hides_no_double_free(box, size):
    """However many blocks in use look like free ones, a double free is reported."""
    program = box.compile(suites.FOLDER / "content.c", *suites.FLAGS, to="attack-content")
    naive = box.run(program, size, 4000, preload=None, env={"LD_PRELOAD": str(naive_library(box))})
    assert naive.returncode == 1, "control: without checks a block is handed out twice"
    for build in suites.BUILDS:
        done = box.run(program, size, 4000, preload=build)
        assert re.search(r"free\(0x\w+\): double free", done.text), (build, done.text)


@pytest.mark.parametrize("build", suites.BUILDS)
def test_addresses_are_random(box, build):
    """No block has the same address in two of eight processes, but for those that asked for it."""
    program = box.compile(suites.FOLDER / "places.c", *suites.FLAGS, to="attack-places")
    fixed = [box.run("setarch", "-R", "env", f"LD_PRELOAD={box.library(build)}", program, preload=None).out
             for _ in range(2)]
    large = [out.splitlines()[2:] for out in fixed]
    assert large[0] == large[1], "control: the same with `setarch -R`" # small blocks of the secure build move anyway
    runs = [box.run(program, preload=build).out.splitlines() for _ in range(8)]
    assert all(len(set(addresses)) == len(runs) for addresses in zip(*runs)), runs


@pytest.mark.more
def test_one_mistake_gains_much_where_links_have_no_key(box):
    """A control: the library built without keys hands out the program's own memory."""
    sources = [box.root / "override/override.c", box.root / "src/glebe.c"]
    library = box.compile(sources, "-O1", "-fPIC", "-shared", "-DGB_KEYED=0", "-fvisibility=hidden",
                          to="attack-unkeyed", libs=["-ldl"])
    found, outside = trials(box, library, 6000)
    assert outside and {("overflow", 8), ("write after free", 8)} & found, found


def rows(columns):
    """The table: columns is name -> attack -> its outcomes, joined by slashes."""
    text = ["| suite | attacks | " + " | ".join(columns) + " |", "|---|---|" + "---|" * len(columns)]
    for name, (_, attacks) in suites.SUITES.items():
        cells = " | ".join(str(suites.stopped(results, name)) for results in columns.values())
        text.append(f"| {name} | {len(attacks)} | {cells} |")
    return "\n".join(text)


def test_docs_hold_the_counts(box):
    """The counts of glebe's builds in docs/security.md are those of expected.txt."""
    columns = {build: {attack: "/".join(words) for attack, words in rules.items()}
               for build, rules in suites.expected().items()}
    text = (box.root / "docs/security.md").read_text()
    for row in rows(columns).splitlines()[2:]:
        assert row in text, "run: python3 test/attack/test_attack.py table"


def main(box, what, others):
    columns, found = {}, {}
    for name, library in [*((build, box.library(build)) for build in suites.BUILDS), *others.items()]:
        runs = [suites.outcomes(box, library, suites.ATTACKS) for _ in range(20)] # some outcomes depend on chance
        found[name] = {attack: {run[attack] for run in runs} for attack in suites.ATTACKS}
        columns[name] = {attack: "/".join(words) for attack, words in found[name].items()}
    if what == "write":
        suites.write_expected(found)
    print(rows(columns))


if __name__ == "__main__":
    main(Toolbox(), sys.argv[1], dict(other.split("=", 1) for other in sys.argv[2:]))
