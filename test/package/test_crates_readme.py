"""The README of the crate, followed word for word. These builds have an output folder of their own, so another worker
runs them than test_crates.py: cargo waits for no other."""

import pathlib
import re
import shutil

import pytest

from crates import BUILD, VARIABLES, run
from printed import Document, shell

OUT = BUILD / "readme"
ENV = {**VARIABLES, "CARGO_TARGET_DIR": str(OUT)}


@pytest.fixture
def reader(tmp_path):
    """A function that runs the README's lines in a reader's folder, and the README."""
    document = Document("bindings/rust/README.md", tmp_path)
    rust = {path: path.read_text() for path in tmp_path.rglob("*.rs")}
    shutil.rmtree(tmp_path / "example")
    shutil.rmtree(tmp_path / "contract")

    def read(part, cwd=""):
        said = document.run(part, cwd=tmp_path / cwd, env=ENV)
        for path, text in rust.items():  # once `cargo new` has made its package
            if (tmp_path / path.relative_to(tmp_path).parts[0]).exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        return said

    read.document = document
    return read


@pytest.mark.more
def test_readme_of_heap(reader, tmp_path):
    """The README followed word for word: the global allocator, a heap as a value, containers in one."""
    reader("cargo new example")
    lines = reader.document.lines("target/release/example").replace("target/", f"{OUT}/")
    said = shell(lines, tmp_path / "example", env=ENV)
    assert re.search(r"^1000 words, \d+ KiB$", said, re.M)
    assert re.search(r"^glebe: example\[\d+\]: version [\d.]+ of the crate was active: .*, 0 errors$", said, re.M), said
    said = reader("--example heap", "example")
    assert re.search(r"^\[7, 2, 3\] IN A HEAP\n(9\d\d|10\d\d) more blocks in (9\d\d|10\d\d) KiB$", said, re.M), said
    said = reader("--example containers", "example")
    assert re.search(r"^100000 numbers in \d+ KiB\nmemory allocation failed because", said, re.M), said


@pytest.mark.parametrize("allocator", ["Bump", "FreeList"])
def test_readme_of_webassembly(reader, tmp_path, allocator):
    libraries = run("rustc", "--print", "sysroot", cwd=tmp_path).strip()
    if not pathlib.Path(libraries, "lib/rustlib/wasm32-unknown-unknown/lib").exists():
        pytest.skip("Rust has no wasm32-unknown-unknown here: tools/setup crate")
    reader("cargo new --lib contract")
    source = tmp_path / "contract/src/lib.rs"
    other = re.search(r"// or: (glebe::FreeList = \S+)", source.read_text())[1]
    if allocator == "FreeList":
        source.write_text(re.sub(r"glebe::Bump = .*?;", f"{other};", source.read_text()))
    reader.document.run("cargo rustc", cwd=tmp_path / "contract", env=ENV)
    if not shutil.which("node"):
        pytest.skip("node is not here: tools/setup wasm")
    module = OUT / "wasm32-unknown-unknown/release/contract.wasm"
    script = ("WebAssembly.instantiate(require('fs').readFileSync(process.argv[1]))"
              ".then(made => console.log(made.instance.exports.digits(1000)))")
    assert run("node", "-e", script, module, cwd=tmp_path) == "2890\n"
