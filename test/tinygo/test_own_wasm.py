"""TinyGo's own test programs print the expected output with glebe, in node, plain and under stress (see own.py).

They are compiled without optimisation, which takes half the time. Objects that do not leave a function are then
allocated too, some of them by the scheduler itself. test_own_wasip1.py has the optimised programs."""

import pytest
from own import NEW_ENOUGH, both_ways, each

pytestmark = NEW_ENOUGH

OPTIMIZED = {
    "cgo": "without optimisation it imports sqrt",
    "finalizeridle": "without optimisation words of ended calls are left on the stack, as with the stock conservative "
                     "collector",
}


@pytest.mark.parametrize("name", each("wasm", quick=["finalizeridle"]))
def test_asyncify(name):
    both_ways(name, "wasm", *([] if name in OPTIMIZED else ["-opt=0"]))
