"""Attackers' suites against each build: each attack ends as expected.txt says. suites.py explains the outcomes.

    python3 test/attack/test_attack.py write           makes expected.txt anew: read what changed
    python3 test/attack/test_attack.py table           the table of docs/security.md
    python3 test/attack/test_attack.py table name=LIB  with a column for another allocator, preloaded; name= is libc's"""

import pathlib
import sys

import pytest

import suites

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from conftest import Toolbox # noqa: E402


def right(found, words, chance):
    """With `chance`: the order of blocks is random, and another check than the usual one may stop the attack."""
    return found in words or (chance and found != "open" and words != ["open"])


@pytest.mark.parametrize("build", suites.BUILDS)
def test_attacks(box, build):
    rules = suites.expected()[build]
    assert list(rules) == suites.ATTACKS, "run: python3 test/attack/test_attack.py write"
    results = suites.outcomes(suites.programs(box), box.library(build), suites.ATTACKS)
    wrong = {attack: f"{found}; expected: {' or '.join(rules[attack])}" for attack, found in results.items()
             if not right(found, rules[attack], chance=build == "secure")}
    assert not wrong


def test_attacks_go_through_where_nothing_checks(box):
    """A control: against an allocator without checks the attacks on links work, so that `stopped` means something."""
    library = box.compile(suites.FOLDER / "naive.c", "-O1", "-fPIC", "-shared", "-fno-builtin", to="attack-naive")
    attacks = [(kind, 64) for kind in suites.LAYOUTS if kind != "never-taken"]
    results = suites.outcomes(suites.programs(box), library, attacks)
    assert set(results.values()) == {"open"}, results


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
    for name, (_, attacks) in suites.SUITES.items():
        counts = " | ".join(str(suites.stopped(columns[build], name)) for build in suites.BUILDS)
        assert f"| {name} | {len(attacks)} | {counts} |" in text, "run: python3 test/attack/test_attack.py table"


def main(box, what, others):
    made, columns, found = suites.programs(box), {}, {}
    for name, library in [*((build, box.library(build)) for build in suites.BUILDS), *others.items()]:
        times = 1 if what == "table" else 20 if name == "secure" else 2
        runs = [suites.outcomes(made, library, suites.ATTACKS) for _ in range(times)]
        found[name] = {attack: {run[attack] for run in runs} for attack in suites.ATTACKS}
        columns[name] = {attack: "/".join(words) for attack, words in found[name].items()}
    if what == "write":
        suites.write_expected(found)
    print(rows(columns))


if __name__ == "__main__":
    main(Toolbox(), sys.argv[1], dict(other.split("=", 1) for other in sys.argv[2:]))
