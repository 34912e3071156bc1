"""bindings/tinygo/README.md followed word for word outside the repository."""

import os
import pathlib

import pytest

from printed import Document, shell
from test_tinygo import ENVIRONMENT, TINYGO
from test_programs import WAZERO


@pytest.mark.more
def test_readme(tmp_path):
    """A module, a program in it, and a run that collects; without the flags the build names them."""
    if not TINYGO or not WAZERO:
        pytest.skip("TinyGo or wazero is not here: tools/setup tinygo")
    document = Document("bindings/tinygo/README.md", tmp_path)
    folders = [str(pathlib.Path(tool).parent) for tool in (TINYGO, WAZERO)]
    env = {"PATH": os.pathsep.join([*folders, ENVIRONMENT["PATH"]])}
    assert document.run("tinygo build", env=env).startswith("1000 words, true\n")
    line = next(line for line in document.lines("tinygo build").splitlines() if "build" in line)
    said = shell(line.replace("-gc=custom -tags=custommalloc", ""), tmp_path, env=env, fails=True)
    assert "glebe-needs-gc-custom-and-tags-custommalloc not allowed" in said
