"""The report of a run: tables, verdicts, the plot, and the short form in the README files.

Ink, fuel, pages and code repeat exactly, so one run is enough, and a ratio is of two numbers. Native times vary: a
ratio there is of two runs in the same round, and then the median over the rounds. A failed run has no figure. Every
function takes the results as `run` wrote them.
"""

import collections
import statistics

import build
from common import ROOT, draw, mean, mean_cell, number, replace, table

RIVALS = ("talc", "rlsf", "lite-alloc")  # the heap must be no worse than the best of them
EQUAL = [w for w in build.WORKLOADS if w not in build.UNEQUAL]
LEVEL = {"3": "opt-level 3", "s": "opt-level s", "z": "opt-level z"}
SHOWN = {"bump": "glebe::Bump", "bump-resize": "glebe::Bump, resize", "freelist": "glebe::FreeList",
         "heap": "glebe::Heap"}
PAGE = 1 << 16

# (workload, "ink" or "pages"): why the heap is deliberately worse there than the best of its rivals. The gate accepts
# it, and the README prints the reason.
NOTES = {}


def names(results):
    return [a for a in build.ALLOCATORS if a not in results["failures"] and a in results["code"]]


def cell(results, allocator, workload, level):
    return results["cells"].get(level, {}).get(workload, {}).get(allocator, {"error": "not run"})


def value(results, allocator, workload, level, figure):
    """ink, fuel, pages or page_gas; None if the workload failed or was not measured."""
    found = cell(results, allocator, workload, level)
    return None if "error" in found else found.get(figure)


def over(a, b):
    return None if a is None or not b else a / b


def ratio(results, allocator, other, workload, level, figure):
    return over(value(results, allocator, workload, level, figure), value(results, other, workload, level, figure))


def disagree(cells):
    """Marks allocators as failed whose checksum differs from that of most."""
    counts = collections.Counter(c["result"] for c in cells.values() if "error" not in c)
    usual = counts.most_common(1)[0][0] if counts else None
    for found in cells.values():
        if "error" not in found and found["result"] != usual:
            found["error"] = f"its checksum is {found['result']:#x}, and the others' {usual:#x}"


# ---- gates --------------------------------------------------------------------------------------------------------

INK_LIMITS = {"3": {"edge_cases": 0.70, "trace": 0.78, "contract": 1.00, "Vec growth": 1.00, "String growth": 1.00},
              "s": {"edge_cases": 0.88, "trace": 0.88, "contract": 0.98},
              "z": {"edge_cases": 0.88, "trace": 0.88, "contract": 0.98}}
HEAP_LIMITS = {"pairs": 0.35, "churn": 0.35, "contract": 0.75}
HEAP_CODE_BYTES = 3500


def bump_gates(results, bump):
    """(what, figure or None, limit): the bump allocator against mini-alloc."""
    mini = "mini-alloc"
    for level, limits in INK_LIMITS.items():
        for workload, limit in limits.items():
            yield f"{workload}, {LEVEL[level]}: ink, of mini-alloc", ratio(results, bump, mini, workload, level,
                                                                           "ink"), limit
        for workload in build.UNEQUAL[0], "trace":
            plain, zeroed = (value(results, bump, w, level, "ink") for w in (workload, f"{workload}, zeroed"))
            yield f"{workload}, {LEVEL[level]}: ink zeroed, of plain", over(zeroed, plain), 1.02
        worst = [pages_over(results, bump, mini, workload, level) for workload in EQUAL]
        yield f"{LEVEL[level]}: pages of mini-alloc's where the heap starts alike, the worst row", \
            None if None in worst else max(worst), 1.00
    code = results["code"]
    yield f"{LEVEL['z']}: code, of mini-alloc", over(code.get(bump, {}).get("z"), code.get(mini, {}).get("z")), 0.95


def pages_over(results, allocator, other, workload, level):
    """The ratio of pages. A heap that starts later than the other may need one more page for the difference."""
    a, b = (cell(results, who, workload, level) for who in (allocator, other))
    if "pages" not in a or "pages" not in b:
        return None
    later = max(0, a["base"] - b["base"])
    return a["pages"] / (b["pages"] + -(-later // PAGE))


def heap_gates(results, heap):
    """The heap against the standard library's allocator, and against the best small allocator that frees too."""
    for level in build.LEVELS:
        for workload, limit in HEAP_LIMITS.items():
            for figure in ("ink", "fuel"):
                yield f"{workload}, {LEVEL[level]}: {figure}, of std", ratio(results, heap, "std", workload, level,
                                                                             figure), limit
        yield f"fragmentation, {LEVEL[level]}: pages, of std", ratio(results, heap, "std", "fragmentation", level,
                                                                     "pages"), 1.00
    yield f"{LEVEL['z']}: bytes of code", results["code"].get(heap, {}).get("z"), HEAP_CODE_BYTES
    for figure in ("ink", "pages"):
        for workload in EQUAL:
            if (workload, figure) not in NOTES:
                best = best_rival(results, workload, figure)
                yield f"{workload}, {LEVEL['3']}: {figure}, of the best of {', '.join(RIVALS)} ({best or 'none'})", \
                    ratio(results, heap, best, workload, "3", figure) if best else None, 1.00


def best_rival(results, workload, figure):
    there = [r for r in RIVALS if value(results, r, workload, "3", figure)]
    return min(there, key=lambda r: value(results, r, workload, "3", figure), default=None)


def native_gates(native, heap="glebe"):
    for figure, what in (("cpu", "CPU time"), ("peak_kib", "peak resident memory")):
        yield f"natively: {what}, mean of {len(native['samples'])} workloads, of mimalloc", \
            mean(native_ratio(native, workload, heap, "mimalloc", figure) for workload in native["samples"]), 1.00


def native_ratio(native, workload, allocator, other, figure):
    of = native["samples"].get(workload, {})
    pairs = list(zip(of.get(allocator, []), of.get(other, [])))
    return statistics.median(a[figure] / b[figure] for a, b in pairs) if pairs else None


def gates(results, bump="bump", heap="heap"):
    for what, figure, limit in bump_gates(results, bump):
        yield f"{bump}: {what}", figure, limit
    for what, figure, limit in heap_gates(results, heap):
        yield f"{heap}: {what}", figure, limit


# ---- tables -------------------------------------------------------------------------------------------------------

FIGURES = {"ink": ("Ink, millions", 1e6), "fuel": ("Fuel, millions", 1e6), "pages": ("Pages of 64 KiB in the end", 1),
           "page_gas": ("Gas for those pages, besides the ink; a node refuses more than 128", 1)}


def figures(results, level, figure):
    """A row for each workload, and the geometric mean over those of equal work, std's being 1."""
    there, unit = names(results), FIGURES[figure][1]
    measured = lambda w: any(value(results, a, w, level, figure) is not None for a in there)
    lines = [[w, *(shown(results, a, w, level, figure, unit) for a in there)] for w in build.WORKLOADS if measured(w)]
    if figure != "page_gas":
        lines.append(["mean, std = 1", *(mean_cell([ratio(results, a, "std", w, level, figure) for w in EQUAL])
                                         for a in there)])
    return table([LEVEL[level], *there], lines)


def shown(results, allocator, workload, level, figure, unit):
    found = value(results, allocator, workload, level, figure)
    if found is None:
        there = cell(results, allocator, workload, level)
        return "FAILED" if "error" in there else "refused" if figure == "page_gas" and "ink" in there else "-"
    return number(found / unit)


def code(results):
    there = names(results)
    return table(["bytes", *there], [[LEVEL[o], *(number(results["code"][a].get(o)) for a in there)]
                                     for o in results["levels"]])


def failures(results):
    lines = [f"{a} did not build: {why.removeprefix('error: ')}" for a, why in results["failures"].items()]
    for level, workloads in results["cells"].items():
        lines += [f"FAILED: {w} under {a}, {LEVEL[level]}: {c['error']}" for w, cells in workloads.items()
                  for a, c in cells.items() if "error" in c]
    return lines


def heading(results):
    m = results["machine"]
    return (f"{m['when']}, commit {m['commit']}, {m['rustc']}, {m['wasm-opt']}, wasmtime {m['wasmtime']}. Ink: "
            f"{m['ink']}.")


def text(results):
    parts = [heading(results)]
    for figure, (title, _) in FIGURES.items():
        if any(figure in c for level in results["cells"].values() for w in level.values() for c in w.values()):
            parts += [title, *(figures(results, level, figure) for level in results["levels"])]
    parts += ["Code that Rust's entry points reach, bytes", code(results), *failures(results)]
    return "\n\n".join(parts) + "\n"


NATIVE = {"cpu": "CPU time, mimalloc = 1", "peak_kib": "Peak resident memory, mimalloc = 1"}


def native_text(native):
    there = native["allocators"]
    m = native["machine"]
    parts = [f"{m['when']}, commit {m['commit']}, {m['cpu']}, {m['cores']} cores, {m['rustc']}; {native['rounds']} "
             f"rounds, interleaved, seed {native['seed']}."]
    for figure, title in NATIVE.items():
        cells = {w: {a: native_ratio(native, w, a, "mimalloc", figure) for a in there} for w in native["samples"]}
        show = lambda r: "-" if r is None else f"{r:.3f}"
        lines = [[w, *(show(of[a]) for a in there)] for w, of in cells.items()]
        lines.append(["mean", *(show(mean(of[a] for of in cells.values())) for a in there)])
        parts.append(table([title, *there], lines))
    spread = [s["cpu"] for of in native["samples"].values() for s in of.get("mimalloc", [])]
    if spread:
        apart = [max(t) / min(t) for of in native["samples"].values()
                 if (t := [s["cpu"] for s in of.get("mimalloc", [])])]
        parts.append(f"mimalloc's own rounds lie apart by up to {max(apart) - 1:.0%}.")
    parts += [f"{a} did not build: {why}" for a, why in native["failures"].items()]
    return "\n\n".join(parts) + "\n"


# ---- plot and README ----------------------------------------------------------------------------------------------

FAR = 4.0


def plot(results, path):
    """Ink (fuel, where there is no ink) and pages as multiples of std's."""
    level, there = results["levels"][0], names(results)
    figure = "ink" if value(results, "std", "trace", level, "ink") else "fuel"
    means = {a: [mean(r for w in EQUAL if (r := ratio(results, a, "std", w, level, f))) for f in (figure, "pages")]
             for a in there}
    points = [(SHOWN.get(a, a), *m) for a, m in means.items() if None not in m and max(m) <= FAR]
    lines = [(w, [(SHOWN.get(a, a), r) for a in there if (r := ratio(results, a, "std", w, level, figure))])
             for w in build.WORKLOADS]
    draw({"points_title": f"Geometric means, {LEVEL[level]}; beyond {FAR:.0f} not drawn",
          "points_x": f"{figure}, std = 1",
          "points_y": "pages in the end, std = 1", "points": points,
          "rows_title": f"{figure.capitalize()}, {LEVEL[level]}, std = 1", "rows": lines}, path)


def readme(results):
    """Replaces the text between the markers here and in the README of the binding, and the plot."""
    plot(results, build.HERE / "bench.svg")
    replace(build.HERE / "README.md", "bench/rust", long(results))
    replace(ROOT / "bindings/rust/README.md", "bench/rust", short(results))


def native_readme(native):
    replace(build.HERE / "README.md", "bench/rust native", native_text(native))


def long(results):
    parts = [heading(results), "![ink and pages](bench.svg)"]
    for figure, levels in (("ink", results["levels"]), ("fuel", results["levels"][:1]),
                           ("pages", results["levels"][:1]), ("page_gas", results["levels"][:1])):
        shown_ = [figures(results, level, figure) for level in levels
                  if value(results, "std", "trace", level, figure) is not None]
        parts += [f"{FIGURES[figure][0]}:", *shown_] if shown_ else []
    parts += ["Code that Rust's entry points reach, bytes:", code(results)]
    parts += [f"- {line}" for line in failures(results)]
    parts += [f"- {heap_note(*key)}: {why}" for key, why in NOTES.items()]
    return "\n\n".join(p.strip("\n") for p in parts) + "\n"


def heap_note(workload, figure):
    return f"glebe::Heap takes more {figure} on {workload} than the best of {', '.join(RIVALS)}"


def short(results):
    """A row for each allocator, with the figures for a contract's author."""
    level = results["levels"][0]
    figure = "ink" if value(results, "std", "trace", level, "ink") else "fuel"
    columns = [(w, figure, 1e6) for w in ("trace", "pairs", "churn", "contract")] + [("fragmentation", "pages", 1)]
    versions = results["machine"]["crates"]
    lines = []
    for a in sorted(names(results), key=lambda a: value(results, a, "trace", level, figure) or float("inf")):
        name = SHOWN.get(a) or f"{a} {versions.get(a, '')}".strip()
        lines.append([name, *(shown(results, a, w, level, f, unit) for w, f, unit in columns),
                      number(results["code"][a].get("z"))])
    head = ["", *(f"{w}, M {f}" if f == figure else f"{w}, {f}" for w, f, _ in columns), "code at z, bytes"]
    return table(head, lines)
