"""What docs/testing.md promises of profiles, explanations, snapshots, leaks and recordings, measured by bench/seeing on
real programs. Figures that could hold without a cause have a control there, which must miss them. `make test-long` runs
this after bench/setup; an hour."""

import os
import subprocess
import sys

import pytest

FIGURES = ["sampler", "memory", "estimates", "stacks", "parts", "pins", "snapshots", "leaks", "recording"]
pytestmark = pytest.mark.skipif(not os.environ.get("GLEBE_TEST_LONG"), reason="make test-long runs it")


@pytest.mark.parametrize("name", FIGURES)
def test_figure(box, name):
    result = subprocess.run([sys.executable, box.root / "bench/seeing/run", name], capture_output=True, text=True)
    print(result.stdout)
    assert result.returncode == 0, result.stdout + result.stderr
