"""TinyGo's own test programs print with glebe what they shall, in node, plain and under stress (own.py says how)."""

import pytest
from own import NEW_ENOUGH, both_ways, each

pytestmark = NEW_ENOUGH


@pytest.mark.parametrize("name", each("wasm", quick=["finalizeridle"]))
def test_asyncify(name):
    both_ways(name, "wasm")
