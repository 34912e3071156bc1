"""Like test_crates.py. These builds have output folders of their own, so another worker runs them: cargo waits for no
other."""

import json
import os
import re
import shutil

import pytest

from crates import BUILD, BUMP, HEAP, ROOT, consumer, crates, run


@pytest.mark.more
@pytest.mark.parametrize("features", [pytest.param("", id="heap", marks=pytest.mark.long),
                                      pytest.param(', features = ["allocator-api2"]', id="allocator"),
                                      pytest.param(", default-features = false", id="bump")])
def test_minimum_rust(crates, tmp_path, features):
    """The stated MSRV builds the crate, if rustup has that toolchain; cargo itself refuses older ones."""
    minimum = re.search(r'^rust-version = "(.*)"', (crates / "glebe/Cargo.toml").read_text(), re.M)[1]
    if not shutil.which("rustup") or minimum not in run("rustup", "toolchain", "list", cwd=tmp_path):
        pytest.skip(f"no Rust {minimum}: tools/setup crate (it takes rustup)")
    folder = consumer(tmp_path / "consumer", crates, BUMP if "default" in features else HEAP, features)
    run("cargo", f"+{minimum}", "build", "-q", cwd=folder, env={"CARGO_TARGET_DIR": str(BUILD / f"msrv-{minimum}")})
    targets = run("rustup", "target", "list", "--installed", "--toolchain", minimum, cwd=tmp_path)
    if "default" in features and "wasm32-unknown-unknown" in targets:
        (folder / "src/main.rs").rename(folder / "src/lib.rs")
        (folder / "src/lib.rs").write_text("pub static ALLOC: glebe::Bump = glebe::Bump::INIT;\n")
        run("cargo", f"+{minimum}", "build", "-q", "--target", "wasm32-unknown-unknown", cwd=folder,
            env={"CARGO_TARGET_DIR": str(BUILD / f"msrv-{minimum}")})


def newer_than(version):
    """The packages of Cargo.lock that need a later Rust."""
    number = lambda text: tuple(map(int, text.split(".")[:2]))
    parts = json.loads(run("cargo", "metadata", "-q", "--locked", "--format-version", "1", cwd=ROOT))["packages"]
    return {part["name"] for part in parts if part["rust_version"] and number(part["rust_version"]) > number(version)}


def test_lock_keeps_to_the_minimum_rust():
    """What the command is made of compiles with the Rust that its manifest names, by its authors' word; control: some
    parts need a later one than the crate's."""
    minimum = re.search(r'^rust-version = "(.*)"', (ROOT / "cli/Cargo.toml").read_text(), re.M)[1]
    assert not newer_than(minimum)
    assert newer_than("1.71")


@pytest.mark.long
def test_command(crates, tmp_path):
    """glebe-cli builds from its package and that of the crate glebe, and runs a program under the embedded library.
    Third-party crates, which take a minute of processor time, come from target/, where `make cli` built them: packages
    leave out the profiles of the workspace, so they are given."""
    manifest = (ROOT / "Cargo.toml").read_text()
    profiles = tmp_path / "profiles.toml"
    profiles.write_text(manifest[manifest.index("[profile."):])
    profile = os.environ.get("COMMAND_PROFILE", "release")
    run("cargo", "build", "-q", "--profile", profile, "--config", profiles,
        "--config", f'patch.crates-io.glebe.path="{crates / "glebe"}"',
        "--config", f"profile.{profile}.package.glebe-cli.opt-level=0",
        cwd=crates / "glebe-cli", env={"CARGO_TARGET_DIR": str(ROOT / "target")})
    program = shutil.copy(ROOT / "target" / profile / "glebe", tmp_path / "glebe")
    script = "grep -q libglebe /proc/self/maps && echo served"
    environment = {"HOME": str(tmp_path), "LD_LIBRARY_PATH": ""}
    assert run(program, "run", "--", "sh", "-c", script, cwd=tmp_path, env=environment) == "served\n"
    run("sh", "-c", script, cwd=tmp_path, fails=True)  # the control
