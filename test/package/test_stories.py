"""The stories of docs/stories.md end as they say. The smallest is in `make test-all`; `make test-long` runs all."""

import os
import subprocess
import sys

import pytest


def tell(box, name):
    result = subprocess.run([sys.executable, box.root / "demo/stories/run", name], capture_output=True, text=True,
                            timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Holds: " in result.stdout and "DOES NOT HOLD" not in result.stdout
    return result.stdout


@pytest.mark.more
def test_a_leak_in_a_plugin(box):
    text = tell(box, "plugin")
    assert "remember_header" in text and (box.root / "build/stories/plugin.svg").exists()


@pytest.mark.skipif(not os.environ.get("GLEBE_TEST_LONG"), reason="make test-long runs it")
@pytest.mark.parametrize("name", ["container", "pinned"])
def test_other_stories(box, name):
    tell(box, name)


def test_a_wrong_name_is_one_line(box):
    result = subprocess.run([sys.executable, box.root / "demo/stories/run", "nix"], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr == "demo/stories/run: there is no story nix, only container, pinned, plugin\n"
