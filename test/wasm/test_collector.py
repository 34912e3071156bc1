"""The C tests of the collector and the pools in WebAssembly: the sources of test/unit, test/model and test/stress, with
test/wasm/native in place of cmocka, mmap and threads. Unit and model tests run on the fake host, since they need its
failures; the stress test runs on real linear memory."""

import functools
import re
import shutil
import subprocess

import pytest

from test_programs import CLANG, ENGINES, HERE, OUT, ROOT

MEMORY = {"unit": 4 << 30, "model": 4 << 30, "stress": 512 << 20}
SEEDS = 8  # one of each kind
# The other engines take three to ten times as long, most of it to compile modules of a megabyte.
EACH = [pytest.param(engine, marks=[] if engine == "node" else pytest.mark.more) for engine in ENGINES]


@functools.cache
def build(kind, name, root=ROOT, of="collect"):
    OUT.mkdir(parents=True, exist_ok=True)
    module = OUT / f"{of}-{name}.wasm"
    sources = ([root / f"test/stress/{of}.c", root / "src/glebe.c"] if kind == "stress"
               else [root / f"test/{kind}/{of}_test.c"])
    command = [CLANG, "--target=wasm32-wasi", "-std=gnu11", "-O1", "-mbulk-memory", "-Wall", "-Wextra",
               "-Wno-unused-function", "-UNDEBUG",
               *(["-DGB_WORDS=1"] if kind != "stress" else []), f"-I{HERE / 'native'}", f"-I{root / 'include'}",
               *map(str, sources),
               f"-Wl,--max-memory={MEMORY[kind]},-z,stack-size=1048576,--stack-first", "-o", str(module)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    return module


@pytest.mark.parametrize("engine", EACH)
def test_unit(engine):
    status, text = ENGINES[engine](build("unit", "unit"))
    assert status == 0 and re.fullmatch(r"\d\d tests\n", text), text


def test_stack():
    """The part of the stack in linear memory is a root."""
    status, text = ENGINES["node"](build("unit", "unit", of="mark_stack"))
    assert (status, text) == (0, "3 tests\n"), text


@pytest.mark.more
@pytest.mark.parametrize("engine", [each for each in EACH if "wazero" not in each.values])  # it copies memory to grow
def test_model(engine):
    status, text = ENGINES[engine](build("model", "model"), GLEBE_TEST_SEEDS=str(SEEDS), GLEBE_TEST_STEPS="150")
    assert (status, text) == (0, f"seeds 1 to {SEEDS}, 150 steps each\n"), text


@pytest.mark.more
def test_model_of_stacks():
    module = build("model", "model", of="collect_stacks_linear")
    status, text = ENGINES["node"](module, GLEBE_TEST_SEEDS=str(SEEDS), GLEBE_TEST_STEPS="150")
    assert (status, text) == (0, f"seeds 1 to {SEEDS}, 150 steps each\n"), text


@pytest.mark.more
@pytest.mark.parametrize("engine", EACH)
def test_pool(engine):
    status, text = ENGINES[engine](build("unit", "unit", of="pool"))
    assert status == 0 and re.fullmatch(r"\d\d tests\n", text), text
    status, text = ENGINES[engine](build("model", "model", of="pool"), GLEBE_TEST_SEEDS="4", GLEBE_TEST_STEPS="100")
    assert (status, text) == (0, "seeds 1 to 4, 100 steps each\n"), text


@pytest.mark.parametrize("engine", EACH)
def test_stress(engine):
    status, text = ENGINES[engine](build("stress", "stress"), "4", "20261121")
    assert status == 0 and re.fullmatch(r"\S+ 4 20261121 3\n", text), text


def plant(tmp_path, name, right, wrong):
    for folder in ("src", "include", "test/unit", "test/model"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    text = (tmp_path / name).read_text()
    assert text.count(right) == 1
    (tmp_path / name).write_text(text.replace(right, wrong))


@pytest.mark.more
def test_the_pool_model_objects(tmp_path):
    """A pool whose batches overlap by a unit: the model must notice."""
    plant(tmp_path, "src/api/pool.c", "pool->fresh += count * bytes;",
          "pool->fresh += count * bytes - pool->open.unit_bytes;")
    status, said = ENGINES["node"](build("model", "planted", root=tmp_path, of="pool"), GLEBE_TEST_SEEDS="1")
    assert status != 0 and "repeat: GLEBE_TEST_SEEDS=1" in said


@pytest.mark.more
def test_the_model_objects(tmp_path):
    """A collector that overlooks the last roots: the model must notice."""
    range_of = "gb_mark_range(gc, ~roots[i].start, roots[i].end);"
    plant(tmp_path, "src/gc/collect.c", range_of, range_of.replace(".end", ".end - 32"))
    status, said = ENGINES["wasmtime"](build("model", "planted", root=tmp_path), GLEBE_TEST_SEEDS="1")
    assert status != 0 and "a reachable object is lost" in said


@pytest.mark.more
def test_the_model_of_stacks_objects(tmp_path):
    """A collector that takes objects for stacks by their contents: the model must notice."""
    known = "if (page->stack == 0)"
    believed = "if (*(const uintptr_t *)start == 0xb83bf575)\n        *high = end;\n    "
    plant(tmp_path, "src/gc/stack.c", known, believed + known)
    module = build("model", "planted", root=tmp_path, of="collect_stacks_linear")
    status, said = ENGINES["wasmtime"](module, GLEBE_TEST_SEEDS="1")
    assert status != 0 and "a reachable object is lost" in said
