"""Runs a workload of a guest in a fresh instance, under one of two counters:

    fuel   wasmtime's: about one for each operator, and one for each byte of memory.fill and memory.copy
    ink    the price that a Stylus node charges, by bench/stylus/ink.py, without the price of pages, which is
    `page_gas`,
           in gas

Both repeat exactly. An instance may use the 4 GiB that WebAssembly allows, and fuel for some minutes.
"""

import importlib.metadata
import sys

from build import ROOT

sys.path += [str(ROOT / "build/python"), str(ROOT / "bench/stylus")]

import wasmtime  # tools/setup crate puts it there

try:
    import ink
except ImportError:
    ink = None

VERSION = importlib.metadata.version("wasmtime")
PLENTY = 10**11
compiled = {}


def engine(known=[]):
    if not known:
        config = wasmtime.Config()
        config.consume_fuel = True
        known.append(wasmtime.Engine(config))
    return known[0]


def line(error):
    """The message of a trap in one line: its last cause."""
    return str(error).strip().splitlines()[-1].strip()


def run(path, export, argument):
    """Both counters' figures."""
    found = fuel(path, export, argument)
    return found if "error" in found else found | stylus(path, export, argument)


def fuel(path, export, argument):
    """{"fuel", "pages", "base", "result"}, or {"error"}. `base` is where the heap starts."""
    if path not in compiled:
        compiled[path] = wasmtime.Module.from_file(engine(), str(path))
    with wasmtime.Store(engine()) as store:  # closed at once: edge_cases fills 2 GiB
        store.set_fuel(PLENTY)
        exports = wasmtime.Instance(store, compiled[path], []).exports(store)
        try:
            result = exports[export](store, argument)
        except (wasmtime.Trap, wasmtime.WasmtimeError) as trap:
            return {"error": "takes too long" if "fuel" in line(trap)
                    else f"{line(trap)} at {exports['memory'].size(store)} pages"}
        return {"fuel": PLENTY - store.get_fuel(), "pages": exports["memory"].size(store),
                "base": exports["__heap_base"].value(store), "result": result & 0xFFFFFFFF}


def stylus(path, export, argument):
    """{"ink", "page_gas"}; empty if there is no meter. Beyond the 128 pages that a node allows, the ink is that of a
    machine without a limit, and pages have no price."""
    if ink is None:
        return {}
    try:
        return metered(path, export, argument, True)
    except ink.OutOfInk:
        return metered(path, export, argument, False)


def metered(path, export, argument, pay_pages):
    program = ink.Metered(path, pay_pages=pay_pages)
    try:
        program.call(export, argument)
        return {"ink": program.ink, "page_gas": program.page_gas if pay_pages else None}
    finally:
        program.store.close()
