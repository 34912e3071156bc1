"""The cost of malloc in WebAssembly, compared with wasi-libc's own (dlmalloc) in the same run: wasmtime's fuel for a
free and a malloc, the pages of 64 KiB in the end, and bytes of code. All figures are counts, not times, and repeat
exactly. The bounds are measured values, rounded up; `python test/wasm/test_malloc_cost.py` prints the figures of
docs/decisions/0008."""

import functools
import subprocess
import sys

import pytest

from test_programs import ARCHIVES, CLANG, HERE, OUT, ROOT

sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench/tinygo/host")]
from common import code_bytes

ROUNDS = 8

# live blocks, least and most bytes, HOW (churn.c); bounds: fuel in percent of dlmalloc's, and pages more than
# dlmalloc's
MIXES = {
    "100 / 200": (100, 1, 200, 0, 27, 0),
    "1,000 / 500": (1000, 1, 500, 0, 27, 2),
    "8,000 / 2,500": (8000, 1, 2500, 0, 46, 7),
    "32,768 / 2,500": (32768, 1, 2500, 0, 45, 22),
    "300 / 20,000": (300, 1, 20000, 0, 57, 2),
    "20,000 of 16 to 64": (20000, 16, 64, 0, 41, 1),
    "5,000 of 100 to 1,000": (5000, 100, 1000, 0, 43, 5),
    "1,000 of 4,096": (1000, 4096, 4096, 0, 31, 2),
    "100 of 16 to 100 KB": (100, 16384, 100000, 0, 59, 2),
    "4,000 small, some large": (4000, 1, 1, 2, 41, 4),
    "200 vectors to 20 KB": (200, 64, 20000, 3, 80, 1),
    "4,000 to 64 KB, by doublings": (4000, 16, 65536, 1, 43, 6),
}
QUICK = ("1,000 / 500", "8,000 / 2,500", "100 of 16 to 100 KB") # blocks of each kind


def tool(*arguments):
    done = subprocess.run([CLANG, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, arguments))}\n{done.stderr}"


def module_of(allocator, source, name, *flags):
    """Compiles and links separately: with wasm-opt on PATH, clang would run it at the end of a single command, and the
    figures would depend on that."""
    OUT.mkdir(parents=True, exist_ok=True)
    peer = {"none": ["-DPEER=0", HERE / "peers.c"], "wasteful": ["-DPEER=1", HERE / "peers.c"]}.get(allocator, [])
    module, sources = OUT / f"cost-{allocator}-{name}.wasm", [source, *peer[1:]]
    objects = [module.with_suffix(f".{c.stem}.o") for c in sources]
    for c, o in zip(sources, objects):
        tool("--target=wasm32-wasi", "-Os", "-mbulk-memory", "-fno-builtin", "-Wall", "-Wextra", *flags, *peer[:1],
             "-c", c, "-o", o)
    tool("--target=wasm32-wasi", *objects, *[ARCHIVES / "libglebe-override.a"] * (allocator == "glebe"),
         "-Wl,--strip-all", "-o", module)
    return module


def run(allocator, mix, rounds):
    """Fuel of a whole run, and pages in the end."""
    pytest.importorskip("wasmtime", reason="wasmtime is not here: tools/setup wasm")
    from wasmtime_host import Host
    live, least, most, how = MIXES[mix][:4]
    module = module_of(allocator, HERE / "churn.c", f"{list(MIXES).index(mix)}-{rounds}",
                       f"-DLIVE={live}", f"-DLEAST={least}", f"-DMOST={most}", f"-DHOW={how}", f"-DROUNDS={rounds}")
    answer = Host(fuel=True, pages=0).run(str(module))
    assert answer["error"] == ""
    return answer["fuel"], answer["pages"]


@functools.cache
def cost(allocator, mix):
    """Fuel of a free and a malloc beyond the program's own, and pages."""
    def pair(who):
        fuel, pages = run(who, mix, ROUNDS)
        return (fuel - run(who, mix, 0)[0]) / (ROUNDS * MIXES[mix][0]), pages
    fuel, pages = pair(allocator)
    return fuel - pair("none")[0], pages


def within(allocator, mix):
    fuel, pages = cost(allocator, mix)
    their_fuel, their_pages = cost("dlmalloc", mix)
    fuel_bound, more_bound = MIXES[mix][4:]
    return fuel * 100 <= their_fuel * fuel_bound, pages <= their_pages + more_bound


@pytest.mark.parametrize("mix", [pytest.param(mix, marks=[] if mix in QUICK else pytest.mark.more) for mix in MIXES])
def test_fuel_and_memory(mix):
    assert within("glebe", mix) == (True, True), (cost("glebe", mix), cost("dlmalloc", mix))


def test_waste_is_found():
    """An allocator that rounds up to powers of two is fast and fails in memory; dlmalloc fails in fuel."""
    assert within("wasteful", "8,000 / 2,500") == (True, False)
    assert within("dlmalloc", "8,000 / 2,500") == (False, True)


USES_ALL = """#include <stdlib.h>
int main(int count, char **arguments)
{
    void *a = malloc((size_t)count), *b = calloc((size_t)count, 3), *c = aligned_alloc(64, (size_t)count);
    a = realloc(a, (size_t)count * 2);
    free(a), free(b), free(c);
    return arguments == a;
}
"""


def added_code(allocator):
    source = OUT / "uses-all.c"
    OUT.mkdir(parents=True, exist_ok=True)
    source.write_text(USES_ALL)
    return code_bytes(module_of(allocator, source, "code")) - code_bytes(module_of("none", source, "code"))


def test_code():
    assert added_code("glebe") <= CODE_BYTES < added_code("dlmalloc")


CODE_BYTES = 11000


if __name__ == "__main__":
    for one in MIXES:
        print(f"| {one} |", " | ".join("{:.0f}, {}".format(*cost(who, one)) for who in ("dlmalloc", "glebe")), "|")
    print("code", added_code("dlmalloc"), added_code("glebe"))
