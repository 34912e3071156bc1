"""Bump on WebAssembly in a real engine: random work against a model, edges, mutants that must be caught, threads, WASI,
and its size compared with mini-alloc's.

Every promise is a function, `promise(module)`, with an assertion that fails if the module breaks the promise. The
mutants are the crate with one mistake each, and at least one promise must fail on each."""

import fcntl
import os
import random
import shutil
import threading

import pytest
from wasm import BUILD, FOLDER, PAGE, ROOT, Probe, compile_probe, must_break, mutant, need, run, sections, wasmtime


@pytest.fixture(scope="module")
def module():
    return compile_probe()


class Model:
    """The owners of memory. A block is [start, end, align, mark]; foreign pages and blocks must not overlap."""

    def __init__(self, probe, rng):
        self.probe, self.rng, self.blocks, self.foreign, self.places = probe, rng, [], [], []
        self.floor = probe.take(1, 1)

    def size(self):
        kind = self.rng.random()
        if kind < 0.1:
            return PAGE - self.probe.take(1, 1) % PAGE - 1 or PAGE  # to the page's very end
        if kind < 0.2:
            return self.rng.randrange(1, 4) * PAGE
        return self.rng.randrange(1, 3000 if kind < 0.9 else 200_000)

    def new(self, at, size, align, mark):
        assert at and at % align == 0, f"{at:#x} for alignment {align:#x}"
        assert at >= self.floor and at + size <= self.probe.pages * PAGE and at + size < 1 << 32
        for start, end in [(b[0], b[1]) for b in self.blocks] + self.foreign:
            assert at + size <= start or end <= at, f"{at:#x}+{size:#x} lies in {start:#x}..{end:#x}"
        self.probe.write(at, bytes([mark]) * size)
        self.blocks.append([at, at + size, align, mark])

    def step(self):
        kind, rng = self.rng.random(), self.rng
        mark = rng.randrange(1, 256)
        if kind < 0.65 or not self.blocks:
            size, align = self.size(), 1 << rng.choice([0, 0, 1, 2, 3, 3, 3, 4, 6, 12, 16, 17, 18])
            zeroed = rng.random() < 0.7
            at = (self.probe.take_zeroed if zeroed else self.probe.take)(size, align)
            if zeroed:
                assert self.probe.read(at, size).count(0) == size, f"{at:#x} is not zero"
            self.new(at, size, align, mark)
        elif kind < 0.85:
            block = self.blocks[-1] if rng.random() < 0.6 else rng.choice(self.blocks)
            old, size = block[1] - block[0], self.size()
            at = self.probe.resize(block[0], old, block[2], size)
            kept = min(old, size)
            assert at and self.probe.read(at, kept).count(block[3]) == kept, "a resized block keeps its bytes"
            self.blocks.remove(block)
            self.new(at, size, block[2], mark)
        elif kind < 0.89:
            pages = rng.randrange(1, 3)
            at = self.probe.foreign(pages)
            self.foreign.append((at, at + pages * PAGE))
            self.probe.write(at, b"\xff" * (pages * PAGE))
        else:
            self.travel(kind < 0.94)

    def travel(self, remembers):
        """Takes a checkpoint, or resets to one."""
        if remembers and len(self.places) < 16:
            self.probe.checkpoint(len(self.places))
            self.places.append(len(self.blocks))
            self.blocks = [b[:] for b in self.blocks]
            self.saved = getattr(self, "saved", [])[: len(self.places) - 1] + [list(self.blocks)]
        elif self.places:
            depth = self.rng.randrange(len(self.places))
            self.probe.reset(depth)
            # A block that was resized since the checkpoint is void too.
            now = {tuple(b) for b in self.blocks}
            self.blocks = [b for b in self.saved[depth] if tuple(b) in now]
            self.places, self.saved = self.places[:depth], self.saved[:depth]

    def check(self):
        for start, end, _, mark in self.blocks:
            assert self.probe.read(start, end - start).count(mark) == end - start, f"{start:#x}: bytes of another block"
        for start, end in self.foreign:
            assert self.probe.read(start, end - start).count(255) == end - start, \
                f"{start:#x}: foreign pages were written"


def random_work(module, kind=Model, steps=250):
    for seed in range(4):
        model = kind(Probe(module), random.Random(seed))
        for _ in range(steps):
            model.step()
        model.check()


def page_edges(module):
    """A block that ends exactly where memory does costs no page; the next byte costs one. Growth is exact."""
    probe = Probe(module)
    start, first = probe.take(1, 1), probe.pages
    rest = first * PAGE - start - 1
    assert 0 < rest < PAGE, "the rest of the initial memory is the heap's first part"
    assert probe.take(rest, 1) == start + 1 and probe.pages == first
    assert probe.take(1, 1) == first * PAGE and probe.pages == first + 1
    assert probe.take(PAGE - 1, 1) == first * PAGE + 1 and probe.pages == first + 1
    assert probe.take(4 * PAGE, 1) == (first + 1) * PAGE and probe.pages == first + 5
    assert probe.take(PAGE + 1, 1) == (first + 5) * PAGE and probe.pages == first + 7
    assert probe.take(PAGE + 1, 1) == (first + 6) * PAGE + 1 and probe.pages == first + 8, "only what it lacks"
    assert probe.take(1, 2 * PAGE) % (2 * PAGE) == 0


def early_grower(module):
    """Pages that other code took before the first block stay its own, and the initial rest is still used first."""
    probe = Probe(module)
    first = probe.pages
    theirs = probe.foreign(2)
    at = probe.take(100, 8)
    assert at + 100 <= first * PAGE == theirs
    more = probe.take(PAGE, 1)
    assert more == theirs + 2 * PAGE and probe.pages == first + 3


def four_gib(module):
    """At the end of memory: null, no block beyond it, no wrap, and requests that fit are still served."""
    for size in (1 << 30, (1 << 30) + PAGE, 0x7FFF0000, 0x7FFFFFFF, 5 * PAGE, 255 * PAGE + 1):
        probe, last, count = Probe(module), 0, 0
        while at := probe.take(size, 1):
            assert at >= last and at + size < 1 << 32, f"{at:#x}+{size:#x} after {last:#x}"
            last, count = at + size, count + 1
        assert count >= ((1 << 32) - 20 * PAGE) // size - 1 and probe.pages <= 1 << 16
        while size < 1 << 30 and (at := probe.take(PAGE, 1)):
            assert at >= last and at + PAGE < 1 << 32, f"{at:#x} after {last:#x}"
            last = at + PAGE
        for _ in range(3):
            assert probe.take(0x7FFFFFFF, 1) == 0
            at = probe.take(1, 1)
            assert at == 0 or at >= last
    probe = Probe(module)
    for align in (1 << 30, 1 << 29, 1 << 17):
        at = probe.take(100, align)
        assert at and at % align == 0


def limited(module):
    """If the host refuses more pages, a request that does not fit returns null, and one that fits is served."""
    probe = Probe(module, pages_max=40)
    start = probe.take(1, 1)
    assert probe.take(40 * PAGE, 1) == 0
    block = probe.take(1000, 1)
    probe.write(block, b"\x05" * 1000)
    assert probe.resize(block, 1000, 1, 41 * PAGE) == 0, "a resize that fails"
    assert probe.take(8, 1) >= block + 1000, "... leaves the block where it was"
    assert probe.take(39 * PAGE - (start + 2000), 1) and probe.pages <= 40
    assert probe.read(block, 1000) == b"\x05" * 1000


def zeroed_after_reset(module):
    """After a reset the same memory is zero again, whatever was written to it."""
    probe = Probe(module)
    probe.take(10, 1)
    probe.checkpoint(0)
    places = set()
    for _ in range(3):
        block = probe.take_zeroed(5 * PAGE, 8)
        assert probe.read(block, 5 * PAGE).count(0) == 5 * PAGE
        probe.write(block, b"\xff" * (5 * PAGE))
        places.add((block, probe.pages))
        probe.reset(0)
    assert len(places) == 1


def checkpoint_guards_older_blocks(module):
    """The last block before a checkpoint does not grow over it."""
    probe = Probe(module)
    block = probe.take(100, 1)
    probe.checkpoint(0)
    moved = probe.resize(block, 100, 1, 1000)
    assert moved >= block + 100
    probe.reset(0)
    probe.write(block, b"\x01" * 100)
    again = probe.take_zeroed(5000, 1)
    assert again >= block + 100 and probe.read(again, 5000) == bytes(5000)


def grows_in_place(module):
    """The last block grows in place, across pages too."""
    probe = Probe(module)
    block = probe.take(100, 8)
    pages = probe.pages
    assert probe.resize(block, 100, 8, 200) == block
    assert probe.resize(block, 200, 8, 10 * PAGE) == block
    assert probe.pages <= pages + 10


def zeroed_costs_what_plain_costs(module):
    plain, zeroed = (Probe(module, fuel=10**9).fuel("blocks", 2000, flag) for flag in (0, 1))
    assert zeroed <= plain * 1.02, f"fuel: plain {plain}, zeroed {zeroed}"


PROMISES = [random_work, page_edges, early_grower, four_gib, limited, zeroed_after_reset,
            checkpoint_guards_older_blocks, grows_in_place, zeroed_costs_what_plain_costs]


@pytest.mark.parametrize("promise", PROMISES, ids=lambda p: p.__name__)
def test_promise(module, promise):
    promise(module)


@pytest.mark.parametrize("level", [pytest.param("s", marks=pytest.mark.more), "z"])
def test_small_builds(level):
    """The promises, built for size, with and without `resize`."""
    for resize in (True, False):
        module = compile_probe(f"small-{level}-{resize}", level=level, resize=resize)
        for promise in PROMISES:
            if promise is not grows_in_place or resize:
                promise(module)


MUTANTS = {
    "no alignment": [("bump/mod.rs", "(top as usize).wrapping_neg() & (align - 1)", "0 & align")],
    "one byte too few": [("bump/mod.rs", "let new = top.wrapping_add(need);", "let new = top.wrapping_add(need - 1);")],
    "no room at the very end": [("bump/mod.rs", "need > room(top, end)", "need >= room(top, end)")],
    "a byte past the end": [("bump/mod.rs", "need > room(top, end)", "need > room(top, end) + 1")],
    "one page too many": [("bump/wasm.rs", ">> PAGE_LOG2) + 1;", ">> PAGE_LOG2) + 2;")],
    "grows by the whole block": [("bump/wasm.rs", "need - super::room(top, end) - 1", "need - 1")],
    "foreign pages are ours": [("bump/wasm.rs", "if start == end {", "if start >= end {")],
    "the end is what memory.size says": [("bump/wasm.rs", "if start == end {",
                                          "let new_end = (core::arch::wasm32::memory_size::<0>() << 16) as *mut u8;\n"
                                          "    let _ = first; if start as usize >= end as usize {")],
    "4 GiB is an end": [("bump/wasm.rs", "if new_end <= start {", "if new_end < start && !new_end.is_null() {")],
    "what memory is grown for is free": [("bump/mod.rs", "TOP.store(top.wrapping_add(need));", "TOP.store(top);")],
    "elsewhere is here": [("bump/mod.rs", "if SHARED || start != end {", "if SHARED || start < end {")],
    "failure is not noticed": [("bump/wasm.rs", "if new_end <= start {", "if new_end.is_null() {")],
    "the initial rest is lost": [("bump/wasm.rs", "pub static TOP: Word = Word::new(unsafe { addr_of!(__heap_base)",
                                  "pub static TOP: Word = Word::new(unsafe { addr_of!(__heap_end)")],
    "reset does not clear": [("bump/mod.rs", "unsafe { start.write_bytes(0, used) };", "let _ = used;")],
    "reset forgets the region": [("bump/mod.rs", "if to.base == base() { to.top } else { top.wrapping_sub(bytes()) }",
                                  "to.top")],
    "checkpoint guards nothing": [("bump/mod.rs", "        take(1, 1);\n", "")],
    "resize loses the block": [("bump/mod.rs", "TOP.store(top);\n            }\n        } else if",
                                "}\n        } else if")],
    "resize takes any block for the last": [("bump/mod.rs", "if top == block.wrapping_add(old) {", "if top > block {")],
    "resize does not copy": [("bump/mod.rs", "unsafe { new.copy_from_nonoverlapping(block, old) };", "")],
    "zeroed is cleared": [("bump/mod.rs", "unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {\n"
                           "        take(layout.size(), layout.align())",
                           "unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {\n"
                           "        let p = take(layout.size(), layout.align());"
                           " for i in 0..layout.size() { unsafe { p.add(i).write_volatile(0) } } p")],
}


@pytest.mark.more
@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught(name):
    """Control for all promises: each mistake breaks one."""
    must_break(mutant("bump", name, MUTANTS[name]), [*PROMISES[1:], random_work])


# ---- threads --------------------------------------------------------------------------------------------------------

THREADS, BLOCKS = 4, 30_000
SHARED = ["-C", "link-arg=--import-memory", "-C", "link-arg=--shared-memory", "-C", "link-arg=--max-memory=1073741824",
          "-C", "link-arg=--export=__stack_pointer"]


class SharedMemory(wasmtime.SharedMemory if wasmtime else object):
    """wasmtime 50.0.1 passes a pointer too many here."""

    def _as_extern(self):
        from wasmtime import _ffi as ffi

        return ffi.wasmtime_extern_t(ffi.WASMTIME_EXTERN_SHAREDMEMORY,
                                     ffi.wasmtime_extern_union(sharedmemory=self.ptr()))


def share(module):
    """Threads take blocks of one memory at once. Returns how many blocks were damaged."""
    config = wasmtime.Config()
    config.wasm_threads = True
    config.shared_memory = True
    engine = wasmtime.Engine(config)
    code = wasmtime.Module.from_file(engine, str(module))
    kind = next(i.type for i in code.imports if i.name == "memory")
    memory = SharedMemory(engine, kind)
    results = [None] * THREADS
    barrier = threading.Barrier(THREADS)

    def instance():
        store = wasmtime.Store(engine)
        linker = wasmtime.Linker(engine)
        linker.define(store, "env", "memory", memory)
        return store, linker.instantiate(store, code).exports(store)

    def thread(number, store, exports):
        stack = exports["__stack_pointer"]
        stack.set_value(store, wasmtime.Val.i32(stack.value(store) - number * 65536))  # each its part of the one stack
        barrier.wait()
        try:
            results[number] = exports["share"](store, number + 1, BLOCKS)
        except wasmtime.Trap as trap:
            results[number] = trap

    instances = [instance() for _ in range(THREADS)]
    threads = [threading.Thread(target=thread, args=(n, *i)) for n, i in enumerate(instances)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


def share_in_node(module):
    """The same in node's workers."""
    if not shutil.which("node"):
        pytest.skip("node is not here: tools/setup wasm")
    limits = next(i.type.limits for i in wasmtime.Module.from_file(wasmtime.Engine(), str(module)).imports
                  if i.name == "memory")
    said = run("node", FOLDER / "threads.mjs", module, limits.min, limits.max, THREADS, BLOCKS)
    return [int(wrong) for wrong in said.split()]


def build_with_atomics(*features):
    """Builds the probe with threads as a user does, by cargo."""
    need("wasm32-wasip1-threads")
    flags = {"CARGO_ENCODED_RUSTFLAGS": "\x1f".join(SHARED)}
    return build_by_cargo("3", *features, "threads", target="wasm32-wasip1-threads", **flags)


@pytest.mark.parametrize("share", [share, share_in_node])
def test_threads(share):
    """With four threads at once, no block is handed out twice."""
    module = build_with_atomics()
    for _ in range(5):
        assert share(module) == [0] * THREADS


@pytest.mark.parametrize("share", [share, share_in_node])
def test_threads_without_atomics_are_noticed(share):
    """Control: with the single-threaded code the same work damages blocks, mostly in the first run; on a busy machine
    threads may take turns for a long time."""
    module = compile_probe("threads-none", target="wasm32-wasip1-threads", features=("threads",), flags=SHARED)
    for _ in range(500):
        if share(module) != [0] * THREADS:
            return
    pytest.fail("500 runs and no damage")


# ---- WASI -----------------------------------------------------------------------------------------------------------

def wasi(module, out):
    config = wasmtime.WasiConfig()
    config.argv = ["program", "argument"]
    config.env = [("KEY", "value" * 100)]
    config.stdout_file = str(out)
    config.preopen_dir(str(out.parent), "/")
    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    store.set_wasi(config)
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    instance = linker.instantiate(store, wasmtime.Module.from_file(engine, str(module)))
    try:
        instance.exports(store)["_start"](store)
    except wasmtime.ExitTrap as end:
        assert end.code == 0
    return out.read_text()


def test_wasi(tmp_path):
    """The standard library's own malloc and Bump live side by side."""
    module = compile_probe("wasi", target="wasm32-wasip1", program="wasi.rs")
    assert wasi(module, tmp_path / "out").startswith("program argument KEYvalue")


def test_wasi_from_the_heap_base_is_noticed(tmp_path):
    """Control: on WASI an allocator that starts at __heap_base overwrites malloc's blocks."""
    text = 'cfg(not(target_os = "wasi"))'
    other = 'cfg(target_os = "wasi")'
    module = compile_probe("wasi-base", [("bump/wasm.rs", text, "cfg(all())"), ("bump/wasm.rs", other, "cfg(any())")],
                           target="wasm32-wasip1", program="wasi.rs")
    with pytest.raises((wasmtime.Trap, AssertionError, wasmtime.WasmtimeError)):
        wasi(module, tmp_path / "out")


# ---- lint ----------------------------------------------------------------------------------------------------------

@pytest.mark.more
@pytest.mark.parametrize("target", ["wasm32-unknown-unknown", "wasm32-wasip1", "wasm32-wasip1-threads"])
def test_clippy(target):
    """clippy accepts the code that only WebAssembly compiles."""
    need(target)
    if not shutil.which("cargo-clippy"):
        pytest.skip("cargo-clippy is not here: tools/setup test")
    run("cargo", "clippy", "-q", "-p", "glebe", "--no-default-features", "--features", "resize", "--target", target,
        "--", "-D", "warnings", cwd=ROOT, env={"CARGO_TARGET_DIR": str(BUILD / "target")})


# ---- size -----------------------------------------------------------------------------------------------------------

def build_by_cargo(level, *features, target="wasm32-unknown-unknown", **variables):
    """Builds a program as a user does: cargo, the crate as a dependency, and no C compiler."""
    BUILD.mkdir(parents=True, exist_ok=True)
    env = {"CARGO_PROFILE_RELEASE_OPT_LEVEL": level, "CARGO_TARGET_DIR": str(BUILD / "target"), "CC": "false",
           "CC_wasm32_unknown_unknown": "false", **variables}
    with open(BUILD / "lock", "w", encoding="utf-8") as lock:  # the next build has the same name
        fcntl.flock(lock, fcntl.LOCK_EX)
        run("cargo", "build", "-q", "--release", "--target", target, "--features", ",".join(features), cwd=FOLDER,
            env=env)
        built = BUILD / "target" / target / "release/glebe_probe.wasm"
        return shutil.copy(built, BUILD / f"{'-'.join(features)}-{level}.wasm")


@pytest.mark.long
def test_size_beside_mini_alloc():
    """Less fuel than mini-alloc, and at opt-level z a few more bytes, which wasm-opt removes. Prints the table (-s
    shows it); with GLEBE_TEST_LONG=1 also the lines without a requirement."""
    need("wasm32-unknown-unknown")
    print("\nlevel  exports   bytes of code+data: mini-alloc  Bump  with resize   fuel of work: mini-alloc  Bump  "
          "with resize")
    for level in ("z", "s", "3"):
        for exports in ("take", "family", "work") if level == "z" or os.environ.get("GLEBE_TEST_LONG") else ("work",):
            size, fuel = {}, {}
            for name, features in (("mini", ("mini",)), ("bump", ()), ("resize", ("resize",))):
                module = build_by_cargo(level, *features, *(() if exports == "take" else (exports,)))
                found = sections(module)
                size[name] = found[10] + found.get(11, 0)
                if exports == "work":
                    fuel[name] = Probe(module, fuel=10**9).fuel("work", 1000)
            print(f"{level:6} {exports:8} {size['mini']:33} {size['bump']:5} {size['resize']:12} "
                  f"{fuel.get('mini', ''):26} {fuel.get('bump', ''):6} {fuel.get('resize', ''):12}")
            if level == "z":
                assert size["bump"] <= size["mini"] + 53, f"{exports}: {size}"
            if fuel:
                assert fuel["bump"] <= fuel["mini"] and fuel["resize"] <= fuel["mini"], f"{level}: {fuel}"
