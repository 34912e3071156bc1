"""The host functions: keccak against known values, calldata, and a small contract in WAT that calls them, with its
prices added up by hand."""

import hashlib
import pathlib
import shutil

import pytest

import host
from host import Chain, keccak256
from ink import INK, wasmtime

if wasmtime is None:
    pytest.skip("wasmtime is not in build/python: tools/setup crate", allow_module_level=True)
if not shutil.which("cargo") and not (pathlib.Path.home() / ".cargo/bin/cargo").exists():
    pytest.skip("no cargo", allow_module_level=True)


def test_keccak():
    assert keccak256(b"").hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert keccak256(b"transfer(address,uint256)")[:4].hex() == "a9059cbb"
    for size in (0, 1, 135, 136, 137, 271, 272, 1000):  # with the other suffix it is Python's SHA3-256
        data = bytes(i * 7 & 255 for i in range(size))
        assert keccak256(data, b"\6") == hashlib.sha3_256(data).digest()


def test_calldata():
    word = lambda n: n.to_bytes(32, "big")
    data = Chain.abi("f(address,bytes,uint256)", b"\1" * 20, b"abc", 7)
    assert data == (keccak256(b"f(address,bytes,uint256)")[:4] + bytes(12) + b"\1" * 20 + word(96) + word(7) + word(3)
                    + b"abc" + bytes(29))


# Reads its calldata, a key and a value, to address 0. Loads the slot's old value to 64 and returns it; writes the new
# value; logs the key as topic and the new value as data. Then it fails if the first byte of the new value is 255.
KEEP = """(module
    (import "vm_hooks" "read_args" (func $args (param i32)))
    (import "vm_hooks" "write_result" (func $result (param i32 i32)))
    (import "vm_hooks" "storage_load_bytes32" (func $load (param i32 i32)))
    (import "vm_hooks" "storage_cache_bytes32" (func $store (param i32 i32)))
    (import "vm_hooks" "storage_flush_cache" (func $flush (param i32)))
    (import "vm_hooks" "emit_log" (func $log (param i32 i32 i32)))
    (memory (export "memory") 1)
    (func (export "user_entrypoint") (param i32) (result i32)
        (call $args (i32.const 0))
        (call $load (i32.const 0) (i32.const 64))
        (call $store (i32.const 0) (i32.const 32))
        (call $log (i32.const 0) (i32.const 64) (i32.const 1))
        (call $flush (i32.const 0))
        (call $result (i32.const 64) (i32.const 32))
        (i32.eq (i32.load8_u (i32.const 32)) (i32.const 255))))"""


@pytest.fixture
def keep(tmp_path):
    (tmp_path / "keep.wasm").write_bytes(wasmtime.wat2wasm(KEEP))
    return tmp_path / "keep.wasm"


def test_storage_logs_and_what_a_failure_leaves(keep):
    chain, key, one, two = Chain(), b"k" * 32, b"1" * 32, b"2" * 32
    done = chain.call(keep, key + one)
    assert (done.status, done.output, done.log, chain.storage) == (0, bytes(32), [([key], one)], {key: one})
    done = chain.call(keep, key + b"\xff" * 32)
    assert (done.status, done.output, done.log, chain.storage) == (1, one, [], {key: one})
    assert chain.call(keep, key + two).output == one and chain.storage == {key: two}


def test_exit_early_ends_the_call(tmp_path):
    text = """(module (import "vm_hooks" "exit_early" (func $exit (param i32)))
        (import "vm_hooks" "write_result" (func $result (param i32 i32)))
        (memory (export "memory") 1) (data (i32.const 8) "bye")
        (func (export "user_entrypoint") (param i32) (result i32)
            (call $result (i32.const 8) (i32.const 3)) (call $exit (local.get 0)) unreachable))"""
    (tmp_path / "exit.wasm").write_bytes(wasmtime.wat2wasm(text))
    for status in (0, 1):
        done = Chain().call(tmp_path / "exit.wasm", b"?" * status)
        assert (done.status, done.output) == (status, b"bye")


def test_prices_by_hand(keep):
    chain, key, one, two = Chain(), b"k" * 32, b"1" * 32, b"2" * 32
    fixed = (8400 + 5040 + 30 * 32) + (8400 + 2 * 5040) + (2100 + 5) * INK + (8400 + 2 * 5040) \
        + (8400 + 59673) + (16381 + 55 * 32) + (375 * 2 + 8 * 32) * INK + (8400 + 59673) + (8400 + 2 * 16381)
    assert chain.call(keep, key + one).program.host_ink == fixed + 20_000 * INK, "nothing becomes something"
    assert chain.call(keep, key + two).program.host_ink == fixed + 2900 * INK, "something becomes something else"
    assert chain.call(keep, key + two).program.host_ink == fixed, \
        "the same again is not written: the load has told what was there"


def test_prices_of_keccak():
    class Program:
        paid = 0

        def pay(self, ink):
            self.paid += ink

        def read(self, _, size):
            return bytes(size)

        def write(self, _, data):
            assert data == keccak256(bytes(self.size))

    for size, price in ((0, 121_800), (64, 121_800), (65, 142_800), (320, 121_800 + 8 * 21_000)):
        program = Program()
        program.size = size
        host.Call({}, host.SENDER, b"").native_keccak256(program, 0, size, 0)
        assert program.paid == price
