"""The targets of the Rust bench: results that meet them pass, each gate can fail, and a missing figure does not
pass."""

import copy

import build
import report
from common import judge

BEST = {"ink": 100.0, "fuel": 100.0, "pages": 10, "base": 40_000, "page_gas": 0, "result": 7}


def results(bump, heap, code):
    """Results in which the bump allocator takes `bump` of the others' ink and pages, the heap `heap`, and both `code`
    bytes."""
    def cell(allocator):
        share = bump if allocator in ("bump", "bump-resize") else heap if allocator == "heap" else 1.0
        return BEST | {figure: BEST[figure] * share for figure in ("ink", "fuel", "pages")}

    cells = {level: {w: {a: cell(a) for a in build.ALLOCATORS} for w in build.WORKLOADS} for level in build.LEVELS}
    for workloads in cells.values():
        for workload in workloads:
            if bump > 1 and "zeroed" in workload:
                workloads[workload]["bump"]["ink"] *= 1.1
    sizes = {a: {level: code if a in build.GLEBE else 1000 for level in build.LEVELS} for a in build.ALLOCATORS}
    return {"levels": list(build.LEVELS), "failures": {}, "cells": cells, "code": sizes}


def verdicts(found):
    return {what: figure is not None and figure <= limit for what, figure, limit in report.gates(found)}


GOOD = results(0.5, 0.3, 900)


def test_what_meets_every_target_passes():
    found = verdicts(GOOD)
    assert all(found.values()) and len(found) > 50


def test_each_gate_can_fail():
    assert not any(verdicts(results(1.3, 1.3, 4000)).values())


def test_a_missed_target_is_reported(capsys):
    """One figure beyond its limit gives one line, and makes the whole verdict fail."""
    found = copy.deepcopy(GOOD)
    found["cells"]["3"]["trace"]["bump"]["ink"] = 79.0
    found["cells"]["3"]["trace, zeroed"]["bump"]["ink"] = 79.0
    assert not judge(report.gates(found), decimals=3)
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]
    assert said == ["FAIL  bump: trace, opt-level 3: ink, of mini-alloc: 0.790, limit 0.780"]
    assert judge(report.gates(GOOD), decimals=3)


def test_what_was_not_measured_does_not_pass():
    found = copy.deepcopy(GOOD)
    found["failures"] = {"heap": "it does not compile"}
    found["code"].pop("heap")
    for workloads in found["cells"].values():
        for cells in workloads.values():
            cells.pop("heap")
            cells["bump"] = {"error": "it broke"}
    assert not any(ok for what, ok in verdicts(found).items() if "code" not in what)
    assert not verdicts(found)["heap: opt-level z: bytes of code"]


def test_a_later_start_of_the_heap_is_allowed_the_page_it_reaches_into():
    found = copy.deepcopy(GOOD)
    cells = found["cells"]["3"]["churn"]
    what = "bump: opt-level 3: pages of mini-alloc's where the heap starts alike, the worst row"
    cells["bump"]["pages"] = cells["mini-alloc"]["pages"] + 1
    assert not verdicts(found)[what]
    cells["bump"]["base"] += 16
    assert verdicts(found)[what]


def test_a_wrong_checksum_is_a_failure():
    cells = {a: dict(BEST) for a in ("bump", "std", "talc")}
    cells["talc"]["result"] = 8
    report.disagree(cells)
    assert "error" in cells["talc"] and "error" not in cells["std"]


def test_a_note_excuses_the_heap_and_is_printed(monkeypatch):
    key = ("churn", "ink")
    monkeypatch.setitem(report.NOTES, key, "because")
    assert not [what for what in verdicts(GOOD) if "churn" in what and "best of" in what and "ink" in what]
    assert "churn" in report.heap_note(*key)


def native(cpu, peak):
    sample = lambda a: {"cpu": cpu if a == "glebe" else 1.0, "peak_kib": peak if a == "glebe" else 1000, "checksum": 1}
    return {"samples": {w: {a: [sample(a)] * 3 for a in ("glebe", "mimalloc")} for w in ("json", "syn")}}


def test_native_gates():
    ok = lambda found: [figure is not None and figure <= limit for _, figure, limit in report.native_gates(found)]
    assert ok(native(0.97, 900)) == [True, True]
    assert ok(native(1.01, 1001)) == [False, False]
    assert ok({"samples": {"json": {"mimalloc": [{"cpu": 1, "peak_kib": 1}]}}}) == [False, False]


def test_tables_say_what_failed():
    found = copy.deepcopy(GOOD)
    found["machine"] = dict.fromkeys(("when", "commit", "rustc", "wasm-opt", "wasmtime", "ink"),
                                     "?") | {"crates": {"talc": "5"}}
    found["cells"]["3"]["pairs"]["talc"] = {"error": "out of memory"}
    text = report.text(found)
    assert "FAILED: pairs under talc, opt-level 3: out of memory" in text
    assert "FAILED" in next(line for line in text.splitlines() if line.startswith("| pairs"))
    assert "| talc 5" in report.short(found)
