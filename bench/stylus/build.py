"""Builds the guest and the contract with each allocator, once: a digest of the sources decides whether a module is
current.

    bench/build/stylus/guest-ALLOCATOR-O.wasm      O: opt-level
    bench/build/stylus/contract-ALLOCATOR-O.wasm
"""

import ink
from common import ROOT, digest, made, version

HERE, OUT = ink.HERE, ink.OUT
TARGET = "wasm32-unknown-unknown"
LEVELS = ("3", "s", "z")

# The features of guest/ and contract/. mini-alloc's own test has a stack of 8 KiB, and Stylus' template for contracts
# 32.
ALLOCATORS = ("glebe", "glebe-resize", "glebe-freelist", "mini-alloc", "wee_alloc", "std")
FLOOR = "nothing"
STACK = {"guest": 8192, "contract": 32768}


def module(kind, allocator, level="3"):
    """Builds a module as a user does: cargo, the crate as a dependency, and no C compiler."""
    target = OUT / f"{kind}-{allocator}-{level}.wasm"
    flags = ["-C", f"link-arg=-zstack-size={STACK[kind]}"]
    sources = [HERE / kind, ROOT / "bindings/rust", ROOT / "Cargo.toml"]

    def make():
        with ink.alone():
            folder = ink.cargo("build", "--quiet", "--release", "--locked", "--target", TARGET, "--no-default-features",
                               "--features", allocator,
                               "--manifest-path", HERE / kind / "Cargo.toml", CARGO_PROFILE_RELEASE_OPT_LEVEL=level,
                               CARGO_ENCODED_RUSTFLAGS="\x1f".join(flags), CC_wasm32_unknown_unknown="false")
            ink.replace(target, (folder / TARGET / f"release/stylus_{kind}.wasm").read_bytes())

    return made(target, digest(sources, kind, version("rustc", "--version"), allocator, level, flags), make)


def sizes(path):
    """Bytes of a module, plain and as a node stores it: best brotli compression. None if Python has no brotli."""
    try:
        import brotli  # tools/setup stylus puts it into build/python
    except ImportError:
        return {"wasm": path.stat().st_size, "brotli": None}
    return {"wasm": path.stat().st_size, "brotli": len(brotli.compress(path.read_bytes(), quality=11, lgwin=22))}
