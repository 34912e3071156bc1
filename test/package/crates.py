"""What the tests of the packed crates share: the crates as a registry would serve them, and a program that depends on
one. Cargo's output stays in build/crate/package, so that a second run compiles little."""

import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import zlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build/crate/package"
# -O1 compiles the core in half the time; a reader's build has -O3.
VARIABLES = {"GLEBE_LIBRARY_DIR": "", "CFLAGS": "-O1"}


def run(*command, cwd, env=None, fails=False):
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    environment.update({**VARIABLES, "CARGO_TARGET_DIR": str(BUILD), **(env or {})})
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, cwd=cwd,
                          env=environment)
    text = f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    assert (done.returncode != 0) == fails, text
    return text if fails else done.stdout


@pytest.fixture(scope="module")
def crates(request):
    """The two packages, unpacked: a folder with glebe/ and glebe-cli/. Its path is the same each time, so that cargo
    reuses its output, and outside the repository, since cargo would find its workspace."""
    own = f'patch.crates-io.glebe.path="{ROOT}"'  # cargo before 1.90 asks the registry for it
    packed = BUILD / request.module.__name__
    run("cargo", "package", "--quiet", "--workspace", "--no-verify", "--allow-dirty", "--config", own, cwd=ROOT,
        env={"CARGO_TARGET_DIR": str(packed)})
    folder = pathlib.Path(tempfile.gettempdir()) / f"glebe-crates-{os.getuid()}-{zlib.crc32(str(packed).encode()):08x}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    for name in ("glebe", "glebe-cli"):
        with tarfile.open(packed / "package" / f"{name}-{version}.crate") as archive:
            archive.extractall(folder)
        (folder / f"{name}-{version}").rename(folder / name)
    yield folder
    shutil.rmtree(folder)


def consumer(folder, crates, main, features=""):
    """A program that depends on the unpacked crate."""
    (folder / "src").mkdir(parents=True)
    (folder / "Cargo.toml").write_text(
        '[package]\nname = "consumer"\nversion = "0.0.0"\nedition = "2021"\n'
        f'[dependencies]\nglebe = {{ path = "{crates / "glebe"}"{features} }}\n')
    (folder / "src/main.rs").write_text(main)
    return folder


HEAP = """
#[global_allocator]
static ALLOC: glebe::Heap = glebe::Heap::new();
fn main() {
    let words: Vec<String> = (0..100_000).map(|i| i.to_string()).collect();
    let heap = glebe::OwnedHeap::with_limit(1 << 20).unwrap();
    let copy = heap.alloc_str(&words[99_999]).unwrap();
    println!("{copy} {}", glebe::stats().used_bytes > 1_000_000);
}
"""
BUMP = """
#[global_allocator]
static ALLOC: glebe::Bump = glebe::Bump::INIT;
fn main() {
    let words: Vec<String> = (0..100_000).map(|i| i.to_string()).collect();
    println!("{}", words[99_999]);
}
"""
