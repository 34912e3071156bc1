"""Bump's results for any size and alignment, at any address: hypothesis looks for a case in which the real code, on
real 32-bit WebAssembly, differs from the sums of `Model` below, which uses numbers that do not wrap.

    first page        top            end, a page's       limit, at most 4 GiB
        |  handed out  |     room     |     pages to be had    |

A case is a limit, a start address for the allocator (the end of a page or of memory, 2 GiB, 4 GiB, and bytes near
those), and some steps from there. Sizes are relative to a bound, so that a failing case still fails while hypothesis
shrinks it: `("fits", 0, 1)` is a byte more than fits. After each step the test compares the address or null, the number
of pages, the contents of blocks and foreign pages, and checks that the room is zero.

GLEBE_TEST_LONG=1 tries many more cases, different ones each time. A failing case is printed with its last calls."""

import copy
import functools
import os

import pytest
from wasm import PAGE, Probe, compile_probe, must_break, mutant

hypothesis = pytest.importorskip("hypothesis", reason="hypothesis is not in build/python: tools/setup crate")
st = hypothesis.strategies

CASES_QUICK = 300
LONG = bool(os.environ.get("GLEBE_TEST_LONG"))
MOST_PAGES = 1 << 16
EDGE = 64  # bytes at both ends of a block that are written and read
COPIED = 1 << 20  # moved blocks are at most this long, to save time


class Model:
    """The promises as sums. All addresses are exact: 4 GiB is 1 << 32."""

    def __init__(self, start, pages, limit):
        self.base = self.top = start
        self.end, self.pages, self.limit = pages * PAGE, pages, limit

    @property
    def room(self):
        return self.end - self.top

    def pad(self, align):
        return -self.top % align

    def take(self, size, align):
        """A block that ends at `top`, or 0.

        The allocator requests the pages that are missing after the newest block. After pages of other code there is
        only that much, which may again be too little. After a failure, pages that the host gave before stay, and so
        does a new region; pages that would reach 4 GiB are not used."""
        while (lacks := self.pad(align) + size - self.room) > 0:
            pages = -(-lacks // PAGE)
            if self.pages + pages > self.limit:
                return 0
            start = self.pages * PAGE
            self.pages += pages
            if self.pages == MOST_PAGES:
                return 0
            if start != self.end:
                self.base = self.top = start
            self.end = self.pages * PAGE
        self.top += self.pad(align) + size
        return self.top - size

    def resize(self, block, old, align, new):
        """realloc with the feature `resize`."""
        if new <= old:
            return block
        top = self.top
        if top == block + old:
            self.top = block
        at = self.take(new, align)
        if not at and self.top == block:
            self.top = top
        return at

    def checkpoint(self):
        self.take(1, 1)
        return self.base, self.top

    def reset(self, place):
        self.top = place[1] if place[0] == self.base else self.base


class Case:
    """A probe and the model, which must agree after each step."""

    def __init__(self, module, resizes, pages_more):
        start, first = here(module)
        limit = min(first + pages_more, MOST_PAGES) if pages_more >= 0 else MOST_PAGES + pages_more + 1
        self.probe, self.model, self.resizes = Probe(module, pages_max=limit), Model(start, first, limit), resizes
        self.blocks, self.foreign, self.calls = [], [], []  # blocks: [address, size, alignment, mark]

    def told(self, what):
        """The message of a failure, with the last calls; it is built only when needed."""
        return f"{what}; after: " + "; ".join(self.calls[-8:])

    def hold(self, at, size, byte):
        return all(self.probe.read(start, length).count(byte) == length for start, length in ends(at, size))

    def fill(self, at, size, byte):
        for start, length in ends(at, size):
            self.probe.write(start, bytes([byte]) * length)

    def agree(self, at, expected):
        assert at == expected, self.told(f"{at:#x}, and not {expected:#x}")
        assert self.probe.pages == self.model.pages, self.told(f"{self.probe.pages} pages, and not {self.model.pages}")

    def own(self, at, size, align):
        """Independent of the model: a new block overlaps no other."""
        assert at % align == 0 and at + size <= self.model.pages * PAGE and at + size < 1 << 32, \
            self.told(f"{at:#x} is no address")
        for start, length, *_ in self.blocks + self.foreign:
            assert at + size <= start or start + length <= at, self.told(f"{at:#x} lies in {start:#x}+{length:#x}")
        mark = len(self.calls) % 254 + 1
        self.fill(at, size, mark)
        self.blocks.append([at, size, align, mark])

    def look(self):
        """The allocator has not written to blocks and foreign pages."""
        for start, length, _, mark in self.blocks + self.foreign:
            assert self.hold(start, length, mark), self.told(f"{start:#x}+{length:#x} was written")
        assert self.hold(self.model.top, self.model.room, 0), self.told("the room is not zero")

    def size(self, what, amount, delta, align, old=0):
        """The size for a name, in the bounds of a Layout; if a block is resized, relative to that block's size."""
        fits, model = self.model.room - self.model.pad(align), self.model
        size = {"bytes": 1 << amount, "pages": amount * PAGE, "room": model.room, "fits": old + fits, "most": 1 << 31,
                "old": old, "rest": (model.limit - model.pages) * PAGE + fits}[what]
        return max(1, min(size + delta, (1 << 31) - align))

    def take(self, size, align, zeroed):
        self.calls.append(f"take {size:#x} {align:#x}")
        expected = self.model.take(size, align)
        at = (self.probe.take_zeroed if zeroed else self.probe.take)(size, align)
        self.agree(at, expected)
        if at:
            assert not zeroed or self.hold(at, size, 0), self.told(f"{at:#x} is not zero")
            self.own(at, size, align)

    def resize(self, which, size):
        if not self.blocks:
            return
        block = self.blocks[-1 - which % len(self.blocks)]
        at, old, align, mark = block
        new = self.size(*size, align, old)
        after = copy.copy(self.model)
        expected = after.resize(at, old, align, new) if self.resizes else after.take(new, align)
        kept = min(old, new)
        if expected not in (0, at) and kept > COPIED:
            return
        self.calls.append(f"resize {at:#x} {old:#x} {align:#x} to {new:#x}")
        self.model = after
        moved = self.probe.resize(at, old, align, new)
        self.agree(moved, expected)
        if moved:
            self.blocks.remove(block)
            start = self.probe.read(moved, min(EDGE, kept))
            last = self.probe.read(moved + old - min(EDGE, old), min(EDGE, old)) if new >= old else start
            assert start.count(mark) == len(start) and last.count(mark) == len(last), \
                self.told("a resized block lost its bytes")
            self.own(moved, new, align)

    def others(self, pages):
        """Other code takes pages; -1: all pages, -2: all but one, and so on."""
        free = self.model.limit - self.model.pages
        pages = min(pages, free) if pages > 0 else free + pages + 1
        if pages > 0:
            self.calls.append(f"{pages} foreign pages")
            at = self.probe.foreign(pages)
            self.model.pages += pages
            self.foreign.append([at, pages * PAGE, 1, 255])
            self.fill(at, pages * PAGE, 255)

    def crowd(self, pages, size):
        """Resizes the last block with foreign pages after it: it moves, or fails in another region."""
        self.others(pages)
        self.resize(0, size)

    def spare(self, pages):
        """Makes room of more than a page, by a checkpoint, a block and a reset."""
        if pages:
            self.calls.append(f"{pages} pages and back")
            self.probe.checkpoint(0)
            place = self.model.checkpoint()
            at = self.probe.take(pages * PAGE, 1)
            self.agree(at, self.model.take(pages * PAGE, 1))
            if at:
                self.fill(at, pages * PAGE, 0xEE)
            self.probe.reset(0)
            self.model.reset(place)

    def go(self, anchor, delta):
        """Moves `top` to an address, if that is ahead and there is memory."""
        address = {"page": self.model.end, "next": self.model.end + 5 * PAGE, "half": 1 << 31,
                   "limit": self.model.limit * PAGE, "here": self.model.top}[anchor] + delta
        before = None
        while before != self.model.top < address:
            before = self.model.top
            self.take(min(address - before, (1 << 31) - 1), 1, False)

    def step(self, kind, *what):
        if kind == "take":
            size, align, zeroed = what
            self.take(self.size(*size, 1 << align), 1 << align, zeroed)
        else:
            getattr(self, kind)(*what)
        self.look()


def ends(at, size):
    """The bytes of a block that are checked: all of a short one, both ends of a long one."""
    if size <= 2 * EDGE:
        return [(at, size)]
    return [(at, EDGE), (at + size - EDGE, EDGE)]


@functools.cache
def here(module):
    """Where a module's heap starts, and how many pages the module has at its start."""
    probe = Probe(module)
    return probe.take(1, 1), probe.pages


# Lists, since nested strategies take longer than the calls. Repeated values are tried more often.
NEAR = [0, 1, -1, 2, -2, 7, -7, 8, -8, 9, PAGE, -PAGE, PAGE + 1, -PAGE - 1, PAGE - 1, 1 - PAGE]
SIZES = st.sampled_from(
    [(what, 0, delta) for what in ("fits", "room", "fits", "rest", "rest", "most", "old") for delta in NEAR] +
    [("bytes", log2, delta) for log2 in range(32) for delta in (0, 1, -1)] +
    [("pages", pages, delta) for pages in (1, 2, 3, 4, 8, 16, 40) for delta in NEAR])
ALIGNS = st.sampled_from([0, 0, 3, 0, 0, 4, 0, 16, 17, 0, 0, 30, 29, *range(31)])  # 1 << 31 has no size but 0
PAGES = st.sampled_from([1, 2, 3, -2, -3, -4, -1])
STEPS = st.one_of(
    st.tuples(st.just("take"), SIZES, ALIGNS, st.booleans()),
    st.tuples(st.just("resize"), st.sampled_from([0, 0, 0, 1, 2]), SIZES),
    st.tuples(st.just("crowd"), PAGES, st.sampled_from([(what, 0, delta) for what in ("rest", "fits")
                                                        for delta in NEAR])),
    st.tuples(st.just("others"), PAGES))
CASES = st.tuples(
    # the limit: this many pages more, or all but so many
    st.sampled_from([*range(12), -1, -2, -3, -1, -2, -1, -1, -1, -1, 1 << 15, 3 << 14]),
    st.tuples(st.sampled_from(["here", "page", "next", "half", "limit", "limit", "limit"]),
              st.sampled_from([*NEAR, -3 * PAGE, -40 * PAGE])),
    st.sampled_from([0, 0, 0, *range(1, 12)]),  # pages of room
    st.lists(STEPS, min_size=1, max_size=6))


def explore(module, resizes, examples, shrinks=True):
    """Looks for a failing case, and raises the smallest of its kind. The cases are always the same, except in the long
    test."""
    kinds = [hypothesis.Phase.generate, *([hypothesis.Phase.shrink] if shrinks else [])]

    @hypothesis.settings(max_examples=examples, derandomize=not LONG or not shrinks, database=None, deadline=None,
                         phases=kinds,
                         print_blob=False, report_multiple_bugs=False,
                         suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(CASES)
    def agrees(case):
        limit, place, spare, steps = case
        work = Case(module, resizes, limit)
        work.go(*place)
        work.spare(spare)
        for step in [*steps, ("take", ("bytes", 0, 0), 0, True)]:  # the last step shows where `top` is
            work.step(*step)

    agrees()


@pytest.mark.parametrize("level", [pytest.param("3", marks=pytest.mark.more), "z"])
@pytest.mark.parametrize("resizes", [True, False], ids=["resize", "plain"])
def test_edges(level, resizes):
    """The unchanged code agrees with the model, built for speed and for size."""
    explore(compile_probe(f"edges-{level}-{resizes}", level=level, resize=resizes), resizes,
            20_000 if LONG else CASES_QUICK)


PAD = "(top as usize).wrapping_neg() & (align - 1)"
LACKS = "if need > room(top, end) {"
MUTANTS = {
    "a pad where none is needed": [("bump/mod.rs", PAD, "align - (top as usize & (align - 1))")],
    "a pad of 16 bits": [("bump/mod.rs", PAD, "(top as u16).wrapping_neg() as usize & (align - 1)")],
    "no pad in the comparison": [("bump/mod.rs", LACKS, "if size > room(top, end) {")],
    "no pad in what is lacking": [("bump/mod.rs", "source::grow(need, align",
                                   "source::grow(size.max(room(top, end) + 1), align")],
    "a pad behind the block": [("bump/mod.rs", LACKS,
                                "let need = need.wrapping_add(align - 1) & !(align - 1);\n        " + LACKS)],
    "room is a byte less": [("bump/mod.rs", LACKS, "if need >= room(top, end) {")],
    "room is a byte more": [("bump/mod.rs", LACKS, "if need > room(top, end) + 1 {")],
    "ends are compared, which wrap": [("bump/mod.rs", LACKS, "if top.wrapping_add(need) > end {")],
    "sizes have 30 bits": [("bump/wasm.rs", "((need - super::room(top, end) - 1) >> PAGE_LOG2)",
                            "(((need - super::room(top, end) - 1) << 2) >> (PAGE_LOG2 + 2))")],
    "a page more at a page's end": [("bump/wasm.rs", "- super::room(top, end) - 1)", "- super::room(top, end))")],
    "a page less behind it": [("bump/wasm.rs", ">> PAGE_LOG2) + 1;", ">> PAGE_LOG2).max(1);")],
    "4 GiB is an end": [("bump/wasm.rs", "if new_end <= start {", "if first == usize::MAX {")],
    "a failure moves the end": [("bump/wasm.rs", "    if new_end <= start {",
                                 "    if start == end { END.store(new_end) }\n    if new_end <= start {")],
    "regions that touch are two": [("bump/wasm.rs", "if start == end {", "if start == end && pages > 1 {")],
    "foreign pages are ours": [("bump/wasm.rs", "if start == end {", "if start >= end {")],
    "elsewhere is here": [("bump/mod.rs", "if SHARED || start != end {", "if SHARED || start < end {")],
    "a failed resize loses the block": [("bump/mod.rs",
                                         "TOP.store(top);\n            }\n        } else if", "}\n        } else if")],
    "a failed resize goes back to the old region": [("bump/mod.rs", "if !SHARED && block == TOP.load() {",
                                                     "if !SHARED && top == block.wrapping_add(old) {")],
    "the same size is a larger one": [("bump/mod.rs", "if bytes <= old {", "if bytes < old {")],
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.more] * (number > 2))
                                  for number, name in enumerate(MUTANTS)])
def test_mutant_is_caught(name):
    """Control: the same cases find each mistake of arithmetic."""
    must_break(mutant("edges", name, MUTANTS[name]), [lambda module: explore(module, True, CASES_QUICK, shrinks=False)])
