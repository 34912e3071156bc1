"""TinyGo's own test programs print the expected output with glebe, in node, plain and under stress (see own.py)."""

import pytest
from own import NEW_ENOUGH, both_ways, each

pytestmark = NEW_ENOUGH


@pytest.mark.parametrize("name", each("wasm", quick=["finalizeridle"]))
def test_asyncify(name):
    both_ways(name, "wasm")
