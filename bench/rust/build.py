"""Builds the guest under each allocator, once: a digest of a module's sources decides whether it is current.

    bench/build/rust/ALLOCATOR-LEVEL-EXPORTS.wasm      EXPORTS: workloads, entries or nothing, as in guest/Cargo.toml
    bench/build/cargo/                                 cargo's output, unless $CARGO_TARGET_DIR names another folder
"""

import os
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from common import CARGO_TARGET, ROOT, code_bytes, digest, made, run, version

OUT = ROOT / "bench/build/rust"
TARGET = "wasm32-unknown-unknown"

GLEBE = ("bump", "bump-resize", "freelist", "heap")
BUMPS = ("bump", "bump-resize", "mini-alloc")  # they never free
ALLOCATORS = (*GLEBE, "mini-alloc", "std", "dlmalloc", "talc", "rlsf", "lite-alloc", "lol_alloc", "wee_alloc",
              "emballoc")
LEVELS = ("3", "s", "z")

# Linked like a contract: a small stack, so that the heap begins near the start of memory.
RUSTFLAGS = "-C link-arg=-zstack-size=32768"
# The features that rustc enables by default in WebAssembly, for wasm-opt, since the module no longer lists them.
WASM_FEATURES = ("bulk-memory", "sign-ext", "mutable-globals", "nontrapping-float-to-int")

# Name of the row: export and argument. The argument is a number of rounds, or whether blocks are zeroed.
WORKLOADS = {
    "edge_cases": ("edge_cases", 0),
    "edge_cases, zeroed": ("edge_cases", 1),
    "trace": ("trace", 0),
    "trace, zeroed": ("trace", 1),
    "pairs": ("pairs", 10_000),
    "churn": ("churn", 10_000),
    "Vec growth": ("vec_growth", 5),
    "String growth": ("string_growth", 10),
    "HashMap": ("hash_map", 5_000),
    "BTreeMap": ("btree_map", 5_000),
    "boxes": ("boxes", 10),
    "zeroed vectors": ("zeroed_vectors", 300),
    "fragmentation": ("fragmentation", 64),
    "contract": ("contract", 0),
}
UNEQUAL = ("edge_cases", "edge_cases, zeroed")  # other addresses, other work: no checksum to compare

# Cargo's output has one name for all, so one build at a time.
RECIPE = """set -e
cargo build --quiet --locked --release --target "$1" --features "$2"
shift 2; from=$1; to=$2; shift 2
wasm-opt "$@" "$from" -o "$to"
"""


def rustc():
    return " ".join(version("rustc", "--version").split()[:2])


def environment(level):
    found = {"CARGO_TARGET_DIR": str(CARGO_TARGET), "CARGO_PROFILE_RELEASE_OPT_LEVEL": level,
             "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS": RUSTFLAGS}
    if "CC_wasm32_unknown_unknown" not in os.environ and shutil.which("clang-19"):
        found["CC_wasm32_unknown_unknown"] = "clang-19"  # what the archives for C are made with
    return found


def sources(allocator):
    found = [HERE / "guest"]
    if allocator in GLEBE:
        found += [ROOT / "Cargo.toml", ROOT / "bindings/rust"]
    if allocator == "heap":
        found += [ROOT / "src", ROOT / "include"]
    return found


def module(allocator, level, exports="workloads"):
    """The path of a module; raises SystemExit with the compiler's words if it does not build."""
    target = OUT / f"{allocator}-{level}-{exports}.wasm"
    features = ",".join(f for f in (allocator, exports) if f not in ("std", "nothing"))
    flags = [f"-O{level}", *(f"--enable-{f}" for f in WASM_FEATURES)]
    command = ["env", *(f"{k}={v}" for k, v in environment(level).items()), "sh", "-c", RECIPE, "build", TARGET,
               features, str(CARGO_TARGET / TARGET / "release/glebe_bench_guest.wasm"), str(target), *flags]
    key = digest(sources(allocator), command, version("rustc", "--version"), version("wasm-opt", "--version"))
    return made(target, key, lambda: run(command, HERE / "guest"))


def modules(allocators, levels):
    """({(allocator, level, exports): path}, {allocator: why it does not build})."""
    paths, failures = {}, {}
    for level in levels:
        paths["std", level, "nothing"] = module("std", level, "nothing")
        for allocator in allocators:
            for exports in ("workloads", "entries"):
                if allocator in failures:
                    continue
                try:
                    paths[allocator, level, exports] = module(allocator, level, exports)
                except SystemExit as error:
                    said = [line.strip() for line in str(error).splitlines() if line.strip().startswith("error")]
                    failures[allocator] = (said or ["it does not build"])[-1]
                    print(f"{allocator} does not build at opt-level {level}: {failures[allocator]}", flush=True)
    return {k: p for k, p in paths.items() if k[0] not in failures}, failures


def added_code(paths, allocator, level):
    """Bytes of code that Rust's entry points reach: a module that exports them, less one that exports an empty
    function."""
    return code_bytes(paths[allocator, level, "entries"]) - code_bytes(paths["std", level, "nothing"])
