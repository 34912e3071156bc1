"""Many requests within 1.5 times the peak of live bytes (soak/main.go), in wasmtime, with glebe and with TinyGo's own
collectors.

The test first measures the peak of live bytes, with a collection wherever much is held. It sets two limits: glebe's by
SetMemoryLimit, and for all collectors the engine's, 1 MiB higher for data, stacks and memory before the heap. The build
alone takes a minute, so the test runs only with GLEBE_SOAK=200000, the number of requests (`make test-long`); -s prints
its figures.
"""

import os
import sys

import pytest
from test_tinygo import OUT, ROOT, tinygo

sys.path.insert(0, str(ROOT / "bench/tinygo/host"))

MEASURED = 1000  # requests, two periods of their shapes
REQUESTS = int(os.environ.get("GLEBE_SOAK", 0))
pytestmark = pytest.mark.skipif(not REQUESTS, reason="takes long; GLEBE_SOAK=200000 runs it")
STOCK = ("boehm", "precise", "conservative")


def build(collector):
    OUT.mkdir(parents=True, exist_ok=True)
    module = OUT / f"soak-{collector}.wasm"
    flags = ["-gc=custom", "-tags=custommalloc"] if collector == "glebe" else [f"-gc={collector}"]
    done = tinygo("build", "-target=wasip1", "-scheduler=asyncify", "-opt=1", "-no-debug", *flags, "-o", str(module),
                  "./test/tinygo/soak")
    assert done.returncode == 0, done.stderr
    return str(module)


def run(module, requests, limit, pages):
    """(how it ended, {request: pages then}, the other output)"""
    pytest.importorskip("wasmtime", reason="wasmtime is not here: tools/setup wasm")
    from wasmtime_host import Host
    answer = Host(fuel=False, pages=pages).run(module, str(requests), str(limit))
    lines = answer["output"].splitlines()
    at = {int(request): int(pages) for word, request, pages in (line.split() for line in lines
                                                                if line.startswith("at ")) if word == "at"}
    return answer, at, [line for line in lines if not line.startswith("at ")]


@pytest.fixture(scope="module")
def limit():
    """1.5 times the peak of live bytes, and the engine's pages for it."""
    answer, _, rest = run(build("glebe"), MEASURED, 0, 0)
    assert (answer["error"], rest[-1]) == ("", "ok"), answer
    most = int(rest[0].removeprefix("live "))
    return most * 3 // 2, (most * 3 // 2 + (1 << 20) >> 16) + 1


def test_soak(limit):
    answer, at, rest = run(build("glebe"), REQUESTS, *limit)
    print(f"\nlive at most {limit[0] * 2 // 3:,} bytes, limits {limit[0]:,} bytes and {limit[1]} "
          f"pages\n{row('glebe', answer, at)}")
    assert (answer["error"], rest) == ("", ["ok"]), answer
    half = [pages for request, pages in at.items() if request >= REQUESTS // 2]
    assert len(half) >= 6 and half[0] == half[-1], f"memory still grows: {at}"


def test_the_limit_is_felt(limit):
    """Control: a limit below the live bytes is not enough."""
    answer, _, rest = run(build("glebe"), MEASURED, limit[0] // 2, limit[1])
    assert answer["error"] and "out of memory" in rest[-1], answer


@pytest.mark.parametrize("collector", STOCK)
def test_others(collector, limit):
    """No gate: prints how TinyGo's collectors do at the same limit, and without a limit."""
    for pages in (limit[1], 0):
        answer, at, _ = run(build(collector), REQUESTS if pages else REQUESTS // 10, limit[0], pages)
        print(f"\n{row(collector, answer, at)}{'' if pages else ' (without a limit)'}")


def row(collector, answer, at):
    requests = list(at)
    end = f"ended after {requests[-1]:,}"
    if answer["error"]:
        end = f"died between {requests[-1]:,} and the next tenth: {answer['output'].splitlines()[-1][:100]}"
    return (f"{collector}: {end} requests, {answer['cpu']:.0f} s, pages at each tenth "
            f"{' '.join(map(str, at.values()))}, in the end {answer['pages']}")
