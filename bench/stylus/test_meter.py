"""The meter against prices that were added up by hand.

A program is WAT text; a comment beside each basic block gives its price, where `b` is the price of a block as such. The
control at the end uses the same prices: a meter with one mistake must fail on one of them."""

import contextlib
import pathlib
import shutil

import pytest

import ink
from ink import INK, Metered, OutOfInk, wasmtime

if wasmtime is None:
    pytest.skip("wasmtime is not in build/python: tools/setup crate", allow_module_level=True)
if not shutil.which("cargo") and not (pathlib.Path.home() / ".cargo/bin/cargo").exists():
    pytest.skip("no cargo", allow_module_level=True)

b = 2450
END = 1 + b  # a block with only `end`
MEMORY = '(memory (export "memory") 1)'


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("modules")


def load(place, text, **options):
    path = place / f"{abs(hash(text))}.wasm"
    path.write_bytes(wasmtime.wat2wasm(text))
    return Metered(path, **options)


# ---- instructions and blocks: (name, program, [(arguments, result, ink)])
# ----------------------------------------------------

ADD = "(func $add (param i32 i32) (result i32) local.get 0 local.get 1 i32.add)"
ADD_COSTS = 75 + 75 + 70 + 1 + b

CASES = [
    ("straight line", '(module (func (export "f") (param i32 i32) (result i32) local.get 0 local.get 1 i32.add))',
     [((2, 3), 5, 75 + 75 + 70 + 1 + b)]),

    ("if and else", """(module (func (export "f") (param i32) (result i32)
        local.get 0  if (result i32)            ;; 75 + 765 + b
        i32.const 5  else                       ;; 1 + 1 + b
        i32.const 6  i32.const 7  i32.mul  end  ;; 1 + 1 + 160 + 1 + b
        ))""",
     [((1,), 5, (75 + 765 + b) + (1 + 1 + b) + END), ((0,), 42, (75 + 765 + b) + (1 + 1 + 160 + 1 + b) + END)]),

    ("if alone", """(module (func (export "f") (param i32) (result i32)
        local.get 0  if                                        ;; 75 + 765 + b
        local.get 0  i32.const 10  i32.shl  local.set 0  end   ;; 75 + 1 + 70 + 210 + 1 + b
        local.get 0))                                          ;; 75 + 1 + b""",
     [((1,), 1024, (75 + 765 + b) + (75 + 1 + 70 + 210 + 1 + b) + (75 + 1 + b)),
      ((0,), 0, (75 + 765 + b) + (75 + 1 + b))]),

    ("loop", """(module (func (export "f") (param i32)
        loop                                                         ;; 1 + b, once
        local.get 0  i32.const 1  i32.sub  local.tee 0  br_if 0      ;; 75 + 1 + 70 + 75 + 765 + b, each time
        end))                                                        ;; 1 + b for either end: loop, function""",
     [((n,), None, (1 + b) + n * (75 + 1 + 70 + 75 + 765 + b) + END + END) for n in (1, 2, 1000)]),

    ("br out of a block", """(module (func (export "f") (result i32)
        block  br 0        ;; 1 + 765 + b; a block that begins ends no basic block
        i32.const 1  i64.const 1  i64.popcnt  drop  drop  end   ;; never
        i32.const 9))      ;; 1 + 1 + b""",
     [((), 9, (1 + 765 + b) + (1 + 1 + b))]),

    ("br_table", """(module (func (export "f") (param i32) (result i32)
        block  block  block  local.get 0  br_table 0 1 2  ;; 1 + 1 + 1 + 75 + 2400 + 2 * 325 + b; the default is free
        end  i32.const 10  return                         ;; 1 + 1 + b, and behind the end
        end  i32.const 20  i32.eqz  return                ;; 1 + 170 + 1 + b
        end  i32.const 30  i32.clz))                      ;; 1 + 210 + 1 + b""",
     [((0,), 10, (3 + 75 + 3050 + b) + (1 + 1 + b)), ((1,), 0, (3 + 75 + 3050 + b) + (1 + 170 + 1 + b)),
      ((2,), 27, (3 + 75 + 3050 + b) + (1 + 210 + 1 + b)), ((77,), 27, (3 + 75 + 3050 + b) + (1 + 210 + 1 + b))]),

    ("call", f"""(module {ADD} (func (export "f") (param i32) (result i32)
        local.get 0  i32.const 2  call $add))   ;; 75 + 1 + 3800 + b, then the end""",
     [((40,), 42, (75 + 1 + 3800 + b) + ADD_COSTS + END)]),

    ("call_indirect", f"""(module (type $t (func (param i32 i32) (result i32))) (type $n (func (result i32)))
        {ADD} (func $nine (result i32) i32.const 9)
        (table funcref (elem $add $nine))
        (func (export "f") (param i32) (result i32)
        local.get 0  i32.const 2  i32.const 0  call_indirect (type $t)  ;; 75 + 1 + 1 + 13610 + 2 * 650 + b
        i32.const 1  call_indirect (type $n)                            ;; 1 + 13610 + b
        i32.sub))                                                       ;; 70 + 1 + b""",
     [((40,), 33, (75 + 2 + 13610 + 1300 + b) + ADD_COSTS + (1 + 13610 + b) + (1 + 1 + b) + (70 + 1 + b))]),

    ("select and globals", """(module (global $g (mut i32) (i32.const 7)) (func (export "f") (param i32) (result i32)
        global.get $g  i32.const 1  i32.or  global.set $g        ;; 225 + 1 + 70 + 575
        i32.const 3  global.get $g  local.get 0  select))        ;; 1 + 225 + 75 + 1250 + 1 + b""",
     [((1,), 3, 225 + 1 + 70 + 575 + 1 + 225 + 75 + 1250 + 1 + b),
      ((0,), 7, 225 + 1 + 70 + 575 + 1 + 225 + 75 + 1250 + 1 + b)]),

    ("loads and stores", f"""(module {MEMORY} (func (export "f") (param i32) (result i32)
        local.get 0  local.get 0  i32.store            ;; 75 + 75 + 825
        local.get 0  i64.const 5  i64.store32 offset=4 ;; 75 + 1 + 950
        local.get 0  i32.load16_u                      ;; 75 + 670
        local.get 0  i64.load8_s offset=4  i32.wrap_i64  i32.add   ;; 75 + 680 + 100 + 70
        nop  memory.size  drop))                       ;; 1 + 3000 + 9 + 1 + b""",
     [((800,), 805, 75 + 75 + 825 + 75 + 1 + 950 + 75 + 670 + 75 + 680 + 100 + 70 + 1 + 3000 + 9 + 1 + b)]),

    ("wide arithmetic", """(module (func (export "f") (param i64 i64) (result i64)
        local.get 0  local.get 1  i64.div_u       ;; 75 + 75 + 1270
        local.get 1  i64.rem_s  i64.const 3  i64.mul  i64.popcnt   ;; 75 + 1270 + 1 + 160 + 6000
        local.get 0  i64.rotl  local.get 1  i64.lt_u  i64.extend_i32_u))   ;; 75 + 100 + 75 + 225 + 100 + 1 + b""",
     [((100, 7), 1, 75 + 75 + 1270 + 75 + 1270 + 1 + 160 + 6000 + 75 + 100 + 75 + 225 + 100 + 1 + b)]),

    ("narrow arithmetic", """(module (func (export "f") (param i32) (result i32)
        local.get 0  i32.const 3  i32.div_s  i32.popcnt  i32.extend8_s   ;; 75 + 1 + 1120 + 2650 + 100
        local.get 0  i32.ctz  i32.mul  local.get 0  i32.ge_u))           ;; 75 + 210 + 160 + 75 + 170 + 1 + b""",
     [((12,), 0, 75 + 1 + 1120 + 2650 + 100 + 75 + 210 + 160 + 75 + 170 + 1 + b)]),

    ("fill", f'(module {MEMORY} (func (export "f") (param i32) i32.const 8 i32.const 1 local.get 0 memory.fill))',
     [((n,), None, 1 + 1 + 75 + 950 + 1 + b + 100 * n) for n in (0, 1, 60000)]),

    ("copy", f'(module {MEMORY} (func (export "f") (param i32) i32.const 8 i32.const 0 local.get 0 memory.copy))',
     [((n,), None, 1 + 1 + 75 + 950 + 1 + b + 100 * n) for n in (0, 1, 60000)]),

    ("a block with parameters and two results", """(module (func (export "f") (param i32) (result i32)
        local.get 0  i32.const 4  block (param i32 i32) (result i32 i32)   ;; 75 + 1 + 1
        i32.const 1  i32.add  local.get 0  br_if 0                         ;; 1 + 70 + 75 + 765 + b
        i32.const 2  i32.add  end                                          ;; 1 + 70 + 1 + b
        i32.add))                                                          ;; 70 + 1 + b""",
     [((6,), 11, (75 + 2 + 1 + 70 + 75 + 765 + b) + (70 + 1 + b)),
      ((0,), 7, (75 + 2 + 1 + 70 + 75 + 765 + b) + (1 + 70 + 1 + b) + (70 + 1 + b))]),

    ("code that cannot be reached", """(module (func (export "f") (param i32) (result i32)
        local.get 0  return                               ;; 75 + 1 + b
        i32.add  if (result i32)  i32.const 1  else  unreachable  end  drop  loop  br 0  end  unreachable))""",
     [((6,), 6, 75 + 1 + b)]),
]


def check_case(place, program, calls, **options):
    for arguments, result, price in calls:
        module = load(place, program, **options)
        assert module.call("f", *arguments) == result
        assert module.ink == price, f"f{arguments}: {module.ink} ink, by hand {price}"


@pytest.mark.parametrize("name, program, calls", CASES, ids=[c[0] for c in CASES])
def test_by_hand(place, name, program, calls):
    check_case(place, program, calls)


# ---- pages
# -------------------------------------------------------------------------------------------------------------------

GROW = '(module (memory (export "memory") {}) (func (export "f") (param i32) (result i32) local.get 0 memory.grow))'
GROW_INK = 75 + 8050 + 1 + b


def test_pages_by_hand(place):
    module = load(place, GROW.format(1))
    assert (module.pages, module.page_gas, module.ink) == (1, 0, 0)
    assert (module.call("f", 1), module.page_gas, module.ink) == (1, 0, GROW_INK), "the second page is free as well"
    assert (module.call("f", 3), module.page_gas, module.ink) == (2, 3000, 2 * GROW_INK), \
        "pages are no ink of instructions"
    assert module.call("f", 5) == 5 and module.page_gas == 8 * 1000 + 3 - 1, "the table has 3 for 10 pages, 1 for none"
    assert module.call("f", 118) == 10 and module.page_gas == 31_999_998 and module.pages == 128, \
        "what the node's test of its model has for all"
    with pytest.raises(OutOfInk):
        module.call("f", 1)
    assert module.pages == 128


def test_pages_at_the_start(place):
    assert load(place, GROW.format(17)).page_gas == 15 * 1000 + 9 - 1
    assert load(place, GROW.format(17), pages_free=20).page_gas == 0
    assert load(place, GROW.format(17), pay_pages=False).page_gas == 0
    with pytest.raises(OutOfInk):
        load(place, GROW.format(129))


def test_steps_do_not_matter(place):
    for step in (1, 2, 7, 127):
        module = load(place, GROW.format(1))
        while module.pages < 128:
            module.call("f", min(step, 128 - module.pages))
        assert module.page_gas == 31_999_998


def test_growth_that_fails_or_does_nothing(place):
    module = load(place, GROW.format("1 5"))
    assert module.call("f", 9) == -1 and module.page_gas == 8 * 1000 + 3 - 1 and module.pages == 1, \
        "paid before it is tried"
    assert module.call("f", 0) == 1 and module.host_ink == 8400 and module.ink == 2 * GROW_INK
    module = load(place, GROW.format("3 3"))
    assert module.call("f", 9) == -1 and module.page_gas == 1000, "a memory that cannot grow pays for what it is"


def test_without_prices_for_pages(place):
    module = load(place, GROW.format(1), pay_pages=False)
    assert module.call("f", 1000) == 1 and module.page_gas == 0 and module.pages == 1001 and module.ink == GROW_INK


# ---- an end of the ink
# -------------------------------------------------------------------------------------------------------

LATCH = f"""(module {MEMORY} (global $g (export "g") (mut i32) (i32.const 0)) (func (export "f") (param i32)
    i32.const 1  global.set $g  local.get 0  br_if 0      ;; 1 + 575 + 75 + 765 + b
    i32.const 2  global.set $g))                          ;; 1 + 575 + 1 + b"""
LATCH_INK = (1 + 575 + 75 + 765 + b) + (1 + 575 + 1 + b)


def test_out_of_ink_stops_before_the_block(place):
    for missing, reached in ((0, 2), (1, 1), (1 + 575 + 1 + b, 1), (1 + 575 + 1 + b + 1, 0)):
        module = load(place, LATCH, ink=LATCH_INK - missing)
        with pytest.raises(OutOfInk) if missing else contextlib.nullcontext():
            module.call("f", 0)
        assert module.exports["g"].value(module.store) == reached


def test_out_of_ink_before_the_bytes(place):
    fill = f'(module {MEMORY} (func (export "f") (param i32) i32.const 8 i32.const 1 local.get 0 memory.fill))'
    price = 1 + 1 + 75 + 950 + 1 + b + 100 * 500
    module = load(place, fill, ink=price)
    module.call("f", 500)
    assert module.left == 0 and module.read(8, 500) == b"\1" * 500
    module = load(place, fill, ink=price - 1)
    with pytest.raises(OutOfInk):
        module.call("f", 500)
    assert module.read(8, 500) == bytes(500)
    with pytest.raises(OutOfInk):
        load(place, fill, ink=price).call("f", -1)


def test_pages_are_paid_from_the_same_ink(place):
    load(place, GROW.format(1), ink=GROW_INK + 1000 * INK).call("f", 2)
    with pytest.raises(OutOfInk):
        load(place, GROW.format(1), ink=GROW_INK + 1000 * INK - 1).call("f", 2)


def test_other_traps_stay(place):
    with pytest.raises(wasmtime.Trap, match="unreachable"):
        load(place, '(module (func (export "f") unreachable))').call("f")


# ---- modules as compilers make them
# --------------------------------------------------------------------------------------------

def test_functions_keep_their_numbers(place):
    """The meter adds an import, so every defined function moves: in calls, tables, exports, references and the
    start."""
    text = f"""(module (import "env" "twice" (func $twice (param i32) (result i32))) {MEMORY}
        (global $g (mut i32) (i32.const 0)) (table 2 funcref) (elem (i32.const 0) $seven $twice)
        (global $r funcref (ref.func $seven)) (elem declare func $seven)
        (func $begin i32.const 30 global.set $g) (start $begin)
        (func $seven (result i32) i32.const 7)
        (func (export "f") (result i32)
            i32.const 2 call $twice  call $seven  i32.add
            i32.const 0 call_indirect (result i32)  i32.add  global.get $g  i32.add))"""
    module = load(place, text, imports={("env", "twice"): lambda metered, n: 2 * n})
    start = 1 + 575 + 1 + b
    assert module.ink == start
    assert module.call("f") == 4 + 7 + 7 + 30
    seven = 1 + 1 + b
    assert module.ink == start + (1 + 3800 + b) + (3800 + b) + seven + (70 + 1 + 13610 + b) + seven + (70 + 225 + 70 + 1
                                                                                                       + b)


def test_an_import_that_is_there_is_taken(place):
    """Contracts import the function themselves, as the node demands; they may also call it."""
    text = """(module (import "vm_hooks" "pay_for_memory_grow" (func $pay (param i32)))
        (memory (export "memory") 1) (func (export "f") (param i32) (result i32) local.get 0 memory.grow)
        (func (export "direct") i32.const 4 call $pay))"""
    module = load(place, text)
    assert module.call("f", 3) == 1 and module.page_gas == 2000 and module.ink == GROW_INK
    module.call("direct")
    assert module.page_gas == 6 * 1000 + 2 - 1 and module.pages == 4


def test_hosts_charge_and_touch_memory(place):
    text = f"""(module (import "env" "put" (func $put (param i32))) {MEMORY}
        (func (export "f") (result i32) i32.const 100 call $put i32.const 100 i32.load))"""

    def put(metered, at):
        metered.pay(5000)
        metered.write(at, b"\x2a\0\0\0")

    module = load(place, text, imports={("env", "put"): put})
    assert module.call("f") == 42
    assert module.host_ink == 5000 and module.ink == (1 + 3800 + b) + (1 + 670 + 1 + b)
    with pytest.raises(OutOfInk):
        load(place, text, imports={("env", "put"): put}, ink=(1 + 3800 + b) + 4999).call("f")
    with pytest.raises(LookupError, match="env.put"):
        load(place, text)


def test_refused_instructions_are_named_and_cannot_be_paid(place, capfd):
    text = f"""(module {MEMORY} (func (export "f") (param i32) (result i32)
        local.get 0  if  f32.const 1  f32.const 2  f32.add  drop  end
        i32.const {place.stat().st_mtime_ns % 100000}))"""
    module = load(place, text)
    assert "refuses F32Add, which is here 1 times" in capfd.readouterr().err
    module.call("f", 0)
    with pytest.raises(OutOfInk):
        module.call("f", 1)


def test_what_is_no_module_is_an_error(place):
    path = place / "broken.wasm"
    path.write_bytes(b"\0asm\1\0\0\0\1\7nonsense")
    with pytest.raises(ValueError, match="cannot meter"):
        Metered(path)


# ---- the control
# --------------------------------------------------------------------------------------------------------------

MUTANTS = {
    "a wrong price": ("prices.rs", "LocalGet { .. } | LocalTee { .. } => 75",
                      "LocalGet { .. } | LocalTee { .. } => 76"),
    "a price under a wrong name": ("prices.rs", "Select => 1250", "Select => 1120"),
    "a block that else does not end": ("prices.rs", "End | Else\n", "End\n"),
    "a block that br_if does not end": ("prices.rs", "| BrIf { .. }\n", "\n"),
    "bytes that are not paid": ("code.rs", "i64_const(BULK_BYTE as i64)", "i64_const(0)"),
    "parameters that are not paid": ("prices.rs", "650 * params(*type_index) as u64",
                                     "650 * (params(*type_index) as u64 / 64)"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_meter_is_noticed(place, name):
    file, old, new = MUTANTS[name]
    folder = ink.OUT / "mutants" / name.replace(" ", "-")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ink.HERE / "meter", folder)
    source = folder / "src" / file
    assert source.read_text().count(old) == 1
    source.write_text(source.read_text().replace(old, new))
    command = ink.meter(folder)
    failed = []
    for case, program, calls in CASES:
        try:
            check_case(place, program, calls, command=command)
        except (AssertionError, OutOfInk):
            failed.append(case)
    assert failed, f"no test noticed: {name}"
    assert len(failed) < len(CASES) or "wrong price" in name, "a mutant that breaks every case shows little"
