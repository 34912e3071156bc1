"""The heap profile of a module, as `go tool pprof` reads it."""

import re
import subprocess

import pytest
from test_tinygo import ENVIRONMENT, GO, build, either


@either
def test_profile(scheduler, tmp_path):
    """Each live object is counted once with its size and its pointers, garbage is not, and Go's own tool reads it."""
    wasmtime = pytest.importorskip("wasmtime", reason="wasmtime is not here: tools/setup wasm")
    module = build("profile", scheduler, "-buildmode=c-shared")
    engine = wasmtime.Engine()
    store, linker = wasmtime.Store(engine), wasmtime.Linker(engine)
    linker.define_wasi()
    store.set_wasi(wasmtime.WasiConfig())
    exports = linker.instantiate(store, wasmtime.Module.from_file(engine, str(module))).exports(store)
    exports["_initialize"](store)
    packed = exports["heap_profile"](store)
    file = tmp_path / "heap.pb"
    file.write_bytes(exports["memory"].read(store, packed >> 32, (packed >> 32) + (packed & 0xffffffff)))
    said = subprocess.run([GO, "tool", "pprof", "-raw", str(file)], capture_output=True, text=True, check=True,
                          env=ENVIRONMENT).stdout
    assert "inuse_objects/count inuse_space/bytes" in said
    values = {int(at): (int(objects), int(bytes)) for objects, bytes, at in
              re.findall(r"^ +(\d+) +(\d+): (\d+) *$", said, re.M)}
    names = {name: values[int(at)] for at, name in re.findall(r"^ +(\d+): 0x0 M=\d+ (.+?) :0", said, re.M)}
    assert len(names) == len(values) > 4
    assert names["3145728 bytes, no pointers"] == (1, 3 << 20)
    assert 5000 <= names["224 bytes, no pointers"][0] < 5030
    # The first 4 KiB of a layout are in pages whose objects may have pointers anywhere.
    of_nodes = names["32 bytes, pointers in words 0 1 of 8"][0]
    assert 4500 < of_nodes <= 5000 and 5000 <= of_nodes + names["32 bytes, any word may be a pointer"][0] < 5100
    assert not any(name.startswith(("320 ", "304 ", "300 ")) and count > 100 for name, (count, _) in names.items())
