"""FreeList on WebAssembly in a real engine: the work of test_bump.py with frees, the promises of a heap that frees,
mutants that must be caught, threads; and the C core, which must give the same results as FreeList."""

import random
import shutil

import pytest
from test_bump import THREADS, Model, build_by_cargo, build_with_atomics, random_work, share, share_in_node
from wasm import PAGE, Probe, compile_probe, must_break, mutant, need

FEATURES = ("freelist", "trace")


@pytest.fixture(scope="module")
def module():
    return compile_probe("freelist", features=FEATURES)


class Freeing(Model):
    """The model of test_bump.py, but a third of the steps frees a block, and there are no checkpoints."""

    def step(self):
        if self.rng.random() < 0.33:
            self.travel(False)
        else:
            super().step()

    def travel(self, remembers):
        if self.blocks:
            block = self.rng.choice(self.blocks)
            start, end, align, mark = block
            assert self.probe.read(start, end - start).count(mark) == end - start, f"{start:#x}: bytes of another block"
            self.blocks.remove(block)
            self.probe.give(start, end - start, align)


def holds(probe, at, size, byte):
    """True if all bytes are `byte`. A bool, since pytest takes minutes to compare long byte strings."""
    return probe.read(at, size).count(byte) == size


def freeing_work(module):
    random_work(module, Freeing, steps=400)


def trace(module):
    """After the trace, all memory that it took is in the lists."""
    probe = Probe(module)
    for seed in range(3):
        probe.work_of_all(seed, 8000)
        assert probe.free_bytes() == probe.heap_bytes(), "bytes that are neither live nor free"


def ages(module):
    """Repeating the same work takes little more memory than once. How much depends on where the heap begins, so the
    test takes the average."""
    more = []
    for front in range(0, 40_000, 5000):
        probe = Probe(module)
        probe.take(1 + front, 8)
        probe.work_of_all(0, 8000)
        first = probe.heap_bytes()
        for seed in range(24):
            probe.work_of_all(seed % 3, 8000)
        more.append(probe.heap_bytes() / first)
    assert sum(more) / len(more) < 1.4, f"bytes of a heap that has aged, of those of a new one: {more}"


def used_again(module):
    """A freed block of any size is the next of its size, and zero on request."""
    probe = Probe(module)
    for size in (1, 8, 100, 512, 513, 5000, 70_000, 200_000):
        block = probe.take(size, 8)
        probe.write(block, b"\xff" * size)
        probe.give(block, size, 8)
        assert probe.take_zeroed(size, 8) == block and holds(probe, block, size, 0), size
        probe.give(block, size, 8)


def gathers(module):
    """Freed small blocks serve a large one before memory grows, in whatever order they were freed."""
    probe = Probe(module)
    blocks = [probe.take(40, 8) for _ in range(20_000)]
    random.Random(1).shuffle(blocks)
    pages = probe.pages
    for block in blocks:
        probe.give(block, 40, 8)
    large = probe.take_zeroed(700_000, 8)
    assert probe.pages == pages and holds(probe, large, 700_000, 0)


def lengthens_the_last(module):
    """If the last block is free, memory grows by only as much as it is too short."""
    probe = Probe(module)
    block = probe.take(5 * PAGE, 8)
    probe.write(block, b"\xff" * (5 * PAGE))
    pages = probe.pages
    probe.give(block, 5 * PAGE, 8)
    again = probe.take_zeroed(7 * PAGE, 8)
    assert again == block and pages + 2 <= probe.pages <= pages + 3 and holds(probe, again, 7 * PAGE, 0)
    probe.give(again, 7 * PAGE, 8)
    theirs = probe.foreign(1)
    probe.write(theirs, b"\xee" * PAGE)
    other = probe.take_zeroed(9 * PAGE, 8)
    assert other >= theirs + PAGE and holds(probe, theirs, PAGE, 0xEE) and holds(probe, other, 9 * PAGE, 0)


def limited(module):
    """If the host refuses more pages, a request that does not fit returns null, one that fits is served, and no memory
    is lost."""
    probe = Probe(module, pages_max=40)
    blocks = []
    while block := probe.take(5000, 8):
        blocks.append(block)
    assert probe.pages == 40 and probe.take(100_000, 8) == 0 and len(blocks) > 200
    for block in blocks:
        probe.give(block, 5000, 8)
    assert probe.take((len(blocks) - 2) * 5000, 8), "all of it again, as one"
    assert probe.take(0x7FFFFFF0, 8) == 0 and probe.take(8, 1 << 30) == 0


def shrinks(module):
    """The rest of a block that shrinks is used before memory grows."""
    probe = Probe(module)
    blocks = [probe.take(PAGE, 8) for _ in range(20)]
    pages = probe.pages
    for block in blocks:
        assert probe.resize(block, PAGE, 8, 64) == block
    assert all(probe.take(PAGE - 8192, 8) for _ in range(19)) and probe.pages <= pages + 1


# The quickest first, since mostly the first one catches a mutant.
PROMISES = [used_again, lengthens_the_last, shrinks, trace, limited, freeing_work, gathers, ages]


@pytest.mark.parametrize("promise", PROMISES, ids=lambda p: p.__name__)
def test_promise(module, promise):
    promise(module)


@pytest.mark.more
def test_small_build():
    module = compile_probe("freelist-z", features=FEATURES, level="z")
    for promise in PROMISES:
        promise(module)


MUTANTS = {
    "no alignment": ("(piece.start as usize).wrapping_neg() & (align - 1)",
                     "(piece.start as usize).wrapping_neg() & 0 & align"),
    "a small block is not cleared": ("served(block, bytes, ZEROED)", "served(block, bytes, false)"),
    "a large block is not cleared": ("served(block, bytes, zeroed)", "served(block, bytes, false)"),
    "the last large block is any": ("if list.is_null() || (**list).bytes != bytes {", "if list.is_null() {"),
    "a piece is not cleared": ("if zeroed && piece.used > front", "if zeroed && piece.used > front + bytes"),
    "what is lengthened counts as new": ("return Piece { start: tail.cast(), bytes: need, used };",
                                         "return Piece { start: tail.cast(), bytes: need, used: 0 };"),
    "the rest is lost": ("if rest > 0 {", "if rest > 1 << 30 {"),
    "the front is lost": ("if front > 0 {", "if front > 1 << 30 {"),
    "the rest begins too early": ("lists.give(start.wrapping_add(bytes).cast(), rest);",
                                  "lists.give(start.wrapping_add(bytes - GRAIN).cast(), rest);"),
    "large sizes are not rounded when freed": ("lists.give_large(block.cast(), rounded(bytes));",
                                               "lists.give_large(block.cast(), bytes);"),
    "any block fits": ("if (*block).bytes >= bytes {", "if (*block).bytes + 512 >= bytes {"),
    "neighbours are not merged": ("if !above.is_null() && end_of(block) == above.cast() {",
                                  "if above.is_null() && end_of(block) == above.cast() {"),
    "all are neighbours": ("if !above.is_null() && end_of(block) == above.cast() {",
                           "if !above.is_null() && end_of(block) <= above.cast() {"),
    "the last block is listed too": ("                    tail = block;",
                                     "                    tail = block;\n                    self.give(block, bytes);"),
    "the last block is lost": ("self.give(tail, (*tail).bytes);", "let _ = tail;"),
    "wherever memory goes on": ("if more == top {", "if !more.is_null() {"),
    "nothing is gathered": ("if stale || costs && self.again.saturating_sub(heap) <= need {", "if stale {"),
    "stale lists are not gathered": ("let stale = need > STALE_BYTES", "let stale = need > STALE_BYTES << 19"),
    "nothing is gathered at the end": ("        lists.again = 0;\n", "        lists.again = usize::MAX;\n"),
    "shrinking gives nothing": ("if new < old {", "if new + (1 << 30) < old {"),
    "growing in place takes nothing": ("let more = bump::take(new - old, GRAIN);", "let more = end;"),
    "a resize copies too little": ("to.copy_from_nonoverlapping(block, layout.size());",
                                   "to.copy_from_nonoverlapping(block, layout.size() / 2);"),
    "sorted the wrong way": ("ends.add(!(block as usize >> shift) & (piles - 1))",
                             "ends.add((block as usize >> shift) & (piles - 1))"),
    "sorting leaves a bit out": ("shift += digit;", "shift += digit + 1;"),
}


@pytest.mark.more
@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught(name):
    """Control for all promises: each mistake breaks one."""
    must_break(mutant("freelist", name, [("freelist.rs", *MUTANTS[name])], features=FEATURES), PROMISES)


@pytest.mark.parametrize("share", [share, pytest.param(share_in_node, marks=pytest.mark.more)])
def test_threads(share):
    """A build with atomics: with four threads at once, no block is handed out twice."""
    module = build_with_atomics("freelist")
    for _ in range(3):
        assert share(module) == [0] * THREADS


CLANG = next(filter(shutil.which, ("clang", "clang-19")), None)


@pytest.mark.skipif(not CLANG, reason="clang is not here: tools/setup test")
@pytest.mark.parametrize("level", [pytest.param("3", marks=pytest.mark.more), "z"])
def test_the_core_ends_as_it_does(module, level):
    """`Heap`, the C core, and FreeList, pure Rust, return the same sum for the same work."""
    need("wasm32-unknown-unknown")
    core = build_by_cargo(level, "heap", "trace", CC_wasm32_unknown_unknown=CLANG)
    for seed in range(4):
        assert Probe(core).work_of_all(seed, 8000) == Probe(module).work_of_all(seed, 8000)
