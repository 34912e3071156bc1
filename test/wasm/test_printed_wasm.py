"""docs/webassembly.md followed word for word outside the repository, with each installed engine."""

import shutil
import sys

import pytest

from printed import ROOT, Document, shell
from test_programs import WAZERO

WASMTIME = f"""#!{sys.executable}
import pathlib, sys
sys.path[:0] = ["{ROOT / 'test/wasm'}"]
import test_programs
status, text = test_programs.run_wasmtime(pathlib.Path(sys.argv[1]).resolve())
print(text, end="")
sys.exit(status)
"""
ENGINES = ("wasmtime", "wazero", "node")


@pytest.fixture
def document(tmp_path):
    """wasmtime's command is the library that tools/setup installs."""
    if not shutil.which("clang-19") or not (ROOT / "build/wasm32").exists():
        pytest.skip("clang-19 or the archives are not here: make wasm")
    (tmp_path / "wasmtime").write_text(WASMTIME)
    (tmp_path / "wasmtime").chmod(0o755)
    return Document("docs/webassembly.md", tmp_path)


def run(document, engine, module="program.wasm"):
    """Runs the document's line for this engine."""
    if engine == "wasmtime":
        pytest.importorskip("wasmtime", reason="wasmtime is not here: tools/setup wasm")
    if engine == "node" and not shutil.which("node") or engine == "wazero" and not WAZERO:
        pytest.skip(f"{engine} is not here: tools/setup wasm wazero")
    line = next(line for line in document.lines("wasmtime ").splitlines() if line.startswith(engine))
    line = line.replace("wasmtime ", "./wasmtime ").replace("wazero ", f"{WAZERO} ").replace("program.wasm", module)
    return shell(line, document.folder)


@pytest.mark.parametrize("which", [0, 1], ids=["archive", "source"])
def test_program(document, which):
    document.run("clang-19", which)
    assert run(document, "node") == "malloc is glebe's\n"


def test_names(document):
    """They are there even if wasm-opt, which removes names, is installed."""
    assert int(document.run("llvm-nm-19")) > 10


def test_another_malloc(document):
    """Control: with the other archive malloc is the C library's."""
    shell(document.lines("clang-19").replace("-override", ""), document.folder)
    assert run(document, "node") == "malloc is another\n"


@pytest.mark.parametrize("engine", [pytest.param(engine, marks=[] if engine == "wasmtime" else pytest.mark.more)
                                    for engine in ENGINES])
def test_cpp_in_each_engine(document, engine):
    document.run("clang++-19")
    assert run(document, engine, "words.wasm") == "1000 words\n"


@pytest.mark.parametrize("glebe", [True, False])
def test_names_of_cpp(document, glebe):
    """Control: without glebe the module has none of its names."""
    lines = document.lines("clang++-19").replace("-O2", "") + document.lines("llvm-nm-19").splitlines()[-1]
    if not glebe:
        lines = lines.replace("$GLEBE/build/wasm32/libglebe-override.a", "")
    shell(lines.replace("named", "words"), document.folder, fails=not glebe)
