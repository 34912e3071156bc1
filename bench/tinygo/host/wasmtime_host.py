"""Runs modules in wasmtime, by the protocol of main.go: a line of stdin is a module's path and its arguments; the
answer is a line of JSON.

    wasmtime_host.py [fuel] [pages N]

With `fuel` the answer also has the consumed fuel, and the guest's clock counts fuel: its longest step is then in
operators of WebAssembly, and repeats exactly. With `pages` a module's memory is limited to N pages of 64 KiB.
"""

import json
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT / "build/python"))

import wasmtime  # tools/setup wasm puts it there

PLENTY = 10**15


class Host:
    def __init__(self, fuel, pages):
        config = wasmtime.Config()
        config.consume_fuel = fuel
        self.fuel, self.pages = fuel, pages
        self.engine = wasmtime.Engine(config)
        self.compiled = {}

    def run(self, path, *arguments):
        if path not in self.compiled:
            self.compiled[path] = wasmtime.Module.from_file(self.engine, path)
        store = wasmtime.Store(self.engine)
        if self.pages:
            store.set_limits(memory_size=self.pages << 16)
        linker = wasmtime.Linker(self.engine)
        linker.define_wasi()
        if self.fuel:
            store.set_fuel(PLENTY)
            linker.allow_shadowing = True
            i32, i64 = wasmtime.ValType.i32(), wasmtime.ValType.i64()

            def clock(caller, _identity, _precision, out):
                caller["memory"].write(caller, (PLENTY - store.get_fuel()).to_bytes(8, "little"), out)
                return 0

            linker.define_func("wasi_snapshot_preview1", "clock_time_get", wasmtime.FuncType([i32, i64, i32], [i32]),
                               clock, access_caller=True)
        with tempfile.NamedTemporaryFile() as out:
            wasi = wasmtime.WasiConfig()
            wasi.argv = [path, *arguments]
            wasi.stdout_file = out.name  # panics go there too
            store.set_wasi(wasi)
            answer = {"error": ""}
            begin, spent = time.perf_counter(), time.process_time()
            exports = linker.instantiate(store, self.compiled[path]).exports(store)
            try:
                exports["_start"](store)
            except wasmtime.ExitTrap as end:
                if end.code:
                    answer["error"] = f"status {end.code}"
            except (wasmtime.Trap, wasmtime.WasmtimeError) as trap:
                answer["error"] = str(trap).strip().splitlines()[-1].strip()
            answer |= {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - spent,
                       "pages": exports["memory"].size(store)}
            if self.fuel:
                answer["fuel"] = PLENTY - store.get_fuel()
            return answer | {"output": out.read().decode(errors="replace")}


def main(arguments):
    pages = int(arguments[arguments.index("pages") + 1]) if "pages" in arguments else 0
    host = Host("fuel" in arguments, pages)
    for line in sys.stdin:
        print(json.dumps(host.run(*line.split())), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
