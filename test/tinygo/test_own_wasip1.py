"""TinyGo's own test programs print the expected output with glebe, in wazero, plain and under stress (see own.py).

The expected text is beside each program. TinyGo's tests run the programs for finalizers only for wasm, these tests also
for wasip1.
"""

import pytest
from own import NEW_ENOUGH, both_ways, build, each, expected, programs, run

pytestmark = NEW_ENOUGH

# Some of the programs without goroutines, fmt and os; TinyGo 0.42 does not build the last two without a scheduler.
SCHEDULER_NONE = ["finalizer", "gc", "map", *(
    pytest.param(name, marks=pytest.mark.long)
    for name in ("alias", "finalizerbits", "finalizerinvariants", "finalizerlarge", "map_bigkey", "slice"))]


@pytest.mark.parametrize("name", each("wasip1", quick=["gc"]))
def test_asyncify(name):
    both_ways(name, "wasip1")


@pytest.mark.more
@pytest.mark.parametrize("name", SCHEDULER_NONE)
def test_none(name):
    both_ways(name, "wasip1", scheduler="none")


@pytest.mark.more
@pytest.mark.parametrize("name", ["finalizer", "finalizeridle", "finalizerlarge"])
def test_they_can_fail(name):
    """Control: with a collector without finalizers these programs fail."""
    status, text = run(build(name, "wasip1", "-gc=leaking"), "wasip1", 0)
    assert status != 0 and "panic: " in text


@pytest.mark.more
def test_a_difference_is_found():
    """Control for the comparison: an environment that the program does not expect."""
    module = build("env", "wasip1")
    arguments = {"ENV1": "VALUE1", "ENV2": "VALUE2"}
    assert run(module, "wasip1", 0, "first", "second", **arguments) == (0, expected("env"))
    assert run(module, "wasip1", 0, "first", "third", **arguments) != (0, expected("env"))


@pytest.mark.more
def test_there_are_many():
    """Guards against an empty folder, in which no program could fail."""
    assert len(programs()) >= 40
    some = {"gc", "finalizer", "finalizeridle", "goroutines", "channel", "map", "reflect", "json", "timers", "cgo"}
    assert some <= set(programs())
