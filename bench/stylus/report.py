"""The report of a run: tables, also between the markers of README.md. Every function takes the results as `run` wrote
them."""

import build
from common import replace, table

# From the README of mini-alloc 1.0.0: gas for its test `edge_cases`, plain and with each alloc replaced by
# alloc_zeroed; pages are free there.
PUBLISHED = {"mini-alloc": ("333", "329"), "wee_alloc": ("721", "95 million"), "std": ("516", "48 million")}
NAMES = {"glebe": "glebe::Bump", "glebe-resize": "glebe::Bump, resize", "glebe-freelist": "glebe::FreeList",
         "wee_alloc": "wee_alloc", "std": "std (dlmalloc)"}


def number(figure):
    return "-" if figure is None else f"{figure:,.0f}"


def levels(results):
    return list(dict.fromkeys(key.split()[1] for key in results["contract"]))


def rows(results, which="contract"):
    """(level, allocator, label, results) in the order of the tables."""
    for level in levels(results):
        for allocator in build.ALLOCATORS:
            yield level, allocator, f"{level}  {NAMES.get(allocator, allocator)}", \
                results[which][f"{allocator} {level}"]


def edge_cases(results):
    lines = []
    for _, allocator, label, found in rows(results, "programs"):
        published = PUBLISHED.get(allocator, ("-", "-"))
        cells = [label]
        for program, said in zip(("edge_cases", "edge_cases, zeroed"), published):
            paid = found[program + ", pages paid"]
            cells += [said, number(found[program]["gas"]),
                      "out of ink" if paid is None else number(paid["gas"] + paid["page_gas"])]
        lines.append([*cells, number(found["edge_cases"]["pages"])])
    return table(["edge_cases, gas", "published", "here", "pages paid", "zeroed: published", "here", "pages paid",
                  "pages"], lines)


def work(results):
    lines = []
    for level, _, label, found in rows(results, "programs"):
        floor = results["programs"][f"{build.FLOOR} {level}"]
        cells = [label]
        for program in ("trace", "trace, zeroed"):
            f = found[program]
            cells += [number(f["gas"] - floor[program]["gas"]), number(f["gas"]), number(f["gas"] + f["page_gas"])]
        v = found["vectors"]
        lines.append([*cells, number(found["trace"]["pages"]), number(v["gas"]), number(v["gas"] + v["page_gas"]),
                      number(v["pages"])])
    return table(["gas", "trace: allocator", "all", "+ pages", "zeroed: allocator", "all", "+ pages", "pages",
                  "vectors", "+ pages", "pages"], lines)


def contract(results):
    lines = []
    for level, allocator, label, found in rows(results):
        size = results["bytes"][f"{allocator} {level}"]
        cells = [label, number(size["wasm"]), number(size["brotli"])]
        for call in ("transfer", "publish"):
            f = found[call]
            cells += [number(f["gas"] * 10_000), number(f["gas"] + f["page_gas"]), number(f["pages"])]
        lines.append(cells)
    return table(["token", "bytes", "brotli", "transfer: ink", "gas + pages", "pages", "publish 32 KiB: ink",
                  "gas + pages", "pages"], lines)


def heading(results):
    v = results["versions"]
    return (f"{results['when']}, commit {results['commit']}, {results['rustc']}; mini-alloc {v['mini-alloc']}, "
            f"wee_alloc {v['wee_alloc']}, "
            f"stylus-sdk {v['stylus-sdk']}. A row begins with its opt-level.")


def text(results):
    host = {call: {round(f[call]["host_gas"]) for f in results["contract"].values()}
            for call in ("transfer", "publish")}
    spread = lambda figures: " to ".join(dict.fromkeys(number(f) for f in (min(figures), max(figures))))
    return "\n".join([heading(results), "", edge_cases(results), work(results), contract(results),
                      f"The host functions cost another {spread(host['transfer'])} gas in transfer and "
                      f"{spread(host['publish'])} in publish, "
                      "whatever the allocator.", ""])


def readme(results):
    """Replaces the text between the markers."""
    replace(build.HERE / "README.md", "bench/stylus", text(results))
