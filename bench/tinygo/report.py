"""The report of a run: tables, verdicts, the plot, and the short form in the README of the package.

A ratio is of two collectors' samples in the same round and engine, then the median over the rounds; a mean is the
geometric mean of such ratios over rows. A collector that failed in a row has no figure there. Every function takes the
results as `run` wrote them.
"""

import statistics

import build
from common import ROOT, draw, mean, mean_cell, number, replace, table

STOCK = ("conservative", "precise", "boehm")
PEERS = (*STOCK, "nottinygc")
SCHEDULERS = ("none", "asyncify")
ENGINES = {"wazero": "seconds", "wasmtime": "seconds", "fuel": "fuel"}  # engine: the figure that is compared
TIME = {"seconds": "wall time", "cpu": "processor time"}


def rows(results, scheduler=None):
    return [r for r in results["rows"] if scheduler in (None, r["scheduler"])]


def name(row):
    return f"{row['program']}, {row['scheduler']}"


def samples(row, engine, collector, figure=None):
    if collector in row["failures"]:
        return []
    return [s[figure or ENGINES[engine]] for s in row["samples"].get(engine, {}).get(collector, [])]


def value(row, engine, collector, figure=None):
    """The median of the rounds; for the longest step the least, since disturbances only add to it."""
    all_ = samples(row, engine, collector, figure)
    return (min if figure == "longest" else statistics.median)(all_) if all_ else None


def ratio(row, engine, collector, other, figure=None):
    """The median of the ratios within rounds. The longest step and pages have one value for all rounds."""
    if figure:
        a, b = value(row, engine, collector, figure), value(row, engine, other, figure)
        return a / b if a and b else None
    pairs = list(zip(samples(row, engine, collector), samples(row, engine, other)))
    return statistics.median(a / b for a, b in pairs) if pairs else None


def mean_ratio(row_list, engine, collector, other, figure=None):
    """The mean over the rows that both have."""
    return mean(r for row in row_list if (r := ratio(row, engine, collector, other, figure)))


def best_peer(row, engine):
    peers = [p for p in PEERS if value(row, engine, p)]
    return min(peers, key=lambda p: value(row, engine, p), default=None)


def of_best(row, engine, subject):
    peer = best_peer(row, engine)
    return ratio(row, engine, subject, peer) if peer else None


# ---- gates --------------------------------------------------------------------------------------------------------

def gates(results, subject="glebe"):
    """(what, figure or None, limit) for each target; a missing figure does not pass.

    The targets are for time, not fuel: in fuel clearing a page costs as much as adding 4096 numbers, and growing memory
    nothing."""
    none, tasks = rows(results, "none"), rows(results, "asyncify")
    for engine in ("wazero", "wasmtime"):
        # the rows in which no collector can reach 0.60
        high = [r for r in none if (floor := of_best(r, engine, "leaking")) and floor > 0.60]
        free = [r for r in none if r not in high]
        yield f"{engine}: none, {len(free)} rows whose floor allows it, mean, of the best peer of each", \
            mean(of_best(r, engine, subject) for r in free), 0.60
        for row in high:
            yield f"{engine}: {name(row)}, of leaking", ratio(row, engine, subject, "leaking"), 1.10
        for row in none:
            yield f"{engine}: {name(row)}, of its best peer ({best_peer(row, engine)})", \
                of_best(row, engine, subject), 0.90
        for row in none:
            if row["program"] == "trees":
                yield f"{engine}: {name(row)}, of leaking", ratio(row, engine, subject, "leaking"), 1.60
            if row["program"] == "strings":
                yield f"{engine}: {name(row)}, of nottinygc", ratio(row, engine, subject, "nottinygc"), 0.50
        yield f"{engine}: asyncify, {len(tasks)} rows, mean, of boehm", \
            mean(ratio(r, engine, subject, "boehm") for r in tasks), 0.60
    for scheduler in SCHEDULERS:
        row_list = rows(results, scheduler)
        smallest = [mean(ratio(r, "fuel", subject, s, "pages") for r in row_list) for s in STOCK]
        yield f"final memory, {scheduler}, mean, of the smallest stock collector", \
            None if None in smallest else max(smallest), 1.10
    for row in results["rows"]:
        if row["program"] == "trees":
            for optimize in ("2", "z"):
                yield f"code of {name(row)}, -opt={optimize}, KiB over leaking", added(row, subject, optimize), 10


def added(row, collector, optimize):
    """KiB of code that the collector adds to a program that has none."""
    code = row["code"]
    if optimize not in code.get(collector, {}) or optimize not in code.get("leaking", {}):
        return None
    return (code[collector][optimize] - code["leaking"][optimize]) / 1024


# ---- tables -------------------------------------------------------------------------------------------------------

def figures(results, scheduler, engine, figure=None, unit=1.0):
    """A row for each program, and the geometric mean, glebe's being 1."""
    there, row_list = build.collectors(scheduler), rows(results, scheduler)
    lines = []
    for row in row_list:
        cell = lambda c: "FAILED" if c in row["failures"] else number(v / unit if (v := value(row, engine, c, figure))
                                                                      else None)
        lines.append([row["program"], *map(cell, there)])

    lines.append(["mean, glebe = 1", *(mean_cell([ratio(r, engine, c, "glebe", figure) for r in row_list])
                                       for c in there)])
    return table([scheduler, *there], lines)


TABLES = (
    ("Time in wazero, ms", "wazero", None, 1e-3),
    ("Time in wasmtime, ms", "wasmtime", None, 1e-3),
    ("Fuel, millions of operators", "fuel", None, 1e6),
    ("Memory in the end, pages of 64 KiB", "fuel", "pages", 1),
    ("Longest step in wazero, ms, the least of the rounds", "wazero", "longest", 1e6),
    ("Longest step in fuel, millions of operators", "fuel", "longest", 1e6),
)


def code(results):
    everybody = [c for c in build.COLLECTORS if c not in build.FLOORS]
    lines = [[f"{name(row)}, -opt={o}", *(number(added(row, c, o)) for c in everybody)]
             for row in results["rows"] for o in ("2", "z") if added(row, "glebe", o) is not None]
    return table(["KiB over leaking", *everybody], lines)


def heading(results):
    m = results["machine"]
    return (f"{m['when']}, commit {m['commit']}, {m['cpu']}, {m['cores']} cores, {m['tinygo']}, -opt=2 -no-debug; "
            f"{results['rounds']} rounds, seed {results['seed']}; time is {TIME[ENGINES['wazero']]}.")


def text(results):
    parts = [heading(results)]
    for title, engine, figure, unit in TABLES:
        parts += [title, *(figures(results, s, engine, figure, unit) for s in SCHEDULERS)]
    parts += ["Code, KiB", code(results)]
    parts += [f"FAILED: {name(row)} under {c}: {why}" for row in results["rows"] for c, why in row["failures"].items()]
    return "\n\n".join(parts) + "\n"


# ---- plot and README ----------------------------------------------------------------------------------------------

def plot(results, path):
    """Time and memory as multiples of boehm's."""
    points, everything = [], rows(results)
    for collector in build.COLLECTORS:
        time, memory = (mean_ratio(everything, e, collector, "boehm", f)
                        for e, f in (("wazero", None), ("fuel", "pages")))
        if time and memory and collector not in build.FLOORS:
            points.append((collector, time, memory))
    lines = [(name(row), [(c, r) for c in build.COLLECTORS if (r := ratio(row, "wazero", c, "boehm"))])
             for row in everything]
    draw({"points_title": "All rows, geometric means", "points_x": "time, boehm = 1",
          "points_y": "final memory, boehm = 1", "points": points,
          "rows_title": "Time in wazero, boehm = 1", "rows": lines}, path)


def readme(results):
    """Replaces the text between the markers in the README of the package, and the plot beside it."""
    place = ROOT / "bindings/tinygo"
    plot(results, place / "bench.svg")
    replace(place / "README.md", "bench/tinygo", short(results))


def short(results):
    parts = ["Time in wazero in ms, and its geometric mean. nottinygc has no goroutines. leaking and never do not "
             "collect; never also notes references, as TinyGo does for every collector:",
             *(figures(results, s, "wazero", None, 1e-3) for s in SCHEDULERS),
             "The means of the other figures, glebe = 1, and code:"]
    lines = []
    for title, engine, figure, _ in TABLES[1:]:
        for s in SCHEDULERS:
            found = [mean_ratio(rows(results, s), engine, c, "glebe", figure) if c in build.collectors(s) else None
                     for c in build.COLLECTORS]
            lines.append([f"{title.split(',')[0]}, {s}", *(f"{f:.2f}" if f else "-" for f in found)])
    for row in results["rows"]:
        if row["program"] == "trees":
            lines += [[f"KiB of code over leaking, {row['scheduler']}, -opt={o}",
                       *(number(added(row, c, o)) for c in build.COLLECTORS)] for o in ("2", "z")]
    parts += [table(["", *build.COLLECTORS], lines), "![time and memory](bench.svg)", heading(results)]
    return "\n\n".join(p.strip("\n") for p in parts) + "\n"
