"""Runs threads.c in wasmtime: each thread has a store and an instance of its own, in one shared memory.

    threads_wasmtime.py MODULE WORKERS STEPS     prints "ok", or the error, and exits with 0 or 1
"""

import os
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "build/python"))
import wasmtime

from wasmtime import _ffi as ffi

STACK = 65536


class Memory(wasmtime.SharedMemory):
    def _as_extern(self):  # 50.0.1 has one indirection too many here
        return ffi.wasmtime_extern_t(ffi.WASMTIME_EXTERN_SHAREDMEMORY,
                                     ffi.wasmtime_extern_union(sharedmemory=self.ptr()))


def failed(why):
    print(why, flush=True)
    os._exit(1)  # others may wait without end for a lock whose holder is gone


def main():
    file, workers, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    config = wasmtime.Config()
    config.wasm_threads = config.shared_memory = True
    engine = wasmtime.Engine(config)
    module = wasmtime.Module.from_file(engine, file)
    memory = Memory(engine, wasmtime.MemoryType(wasmtime.Limits(4, 2048), shared=True))

    def instantiate():
        store = wasmtime.Store(engine)
        return store, wasmtime.Instance(store, module, [memory]).exports(store)

    def work(number, place):
        try:
            store, exports = instantiate()
            tls = exports["__tls_align"].value(store)
            exports["__wasm_init_tls"](store, -(-place // tls) * tls)
            exports["__stack_pointer"].set_value(store, wasmtime.Val.i32(place + STACK))
            status = exports["work"](store, number, steps)
        except Exception as error:
            failed(f"worker {number}: {error}")
        if status != 0:
            failed(f"worker {number}: {status}")

    store, exports = instantiate()
    places = [exports["place"](store, STACK) for _ in range(workers)]
    threads = [threading.Thread(target=work, args=each) for each in enumerate(places)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    status = exports["finish"](store, workers, STACK)
    if status != 0:
        failed(f"finish: {status}")
    print("ok")


main()
