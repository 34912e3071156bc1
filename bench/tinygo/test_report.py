"""The targets of the TinyGo bench: results that meet them pass, each gate can fail, and a missing figure does not
pass."""

import build
import report


def results(glebe, pages, code, failures=()):
    """Results in which glebe takes these fractions of its peers' time and memory, and so many KiB of code; leaking
    takes a tenth of their time."""
    def sample(collector):
        cost = {"glebe": glebe, "leaking": 0.1}.get(collector, 1.0)
        return {"seconds": cost, "cpu": cost, "fuel": cost * 1e9, "longest": 1000,
                "pages": pages if collector == "glebe" else 100}

    def row(program, scheduler):
        there = build.collectors(scheduler)
        sizes = {c: {o: 9000 + (code * 1024 if c == "glebe" else 0) for o in ("2", "z")} for c in there}
        return {"program": program, "scheduler": scheduler, "code": sizes,
                "failures": {c: "it broke" for c in failures},
                "samples": {engine: {c: [sample(c)] for c in there} for engine in report.ENGINES}}

    return {"rows": [row(*r) for r in build.rows()], "rounds": 1}


def verdicts(found):
    return {what: figure is not None and figure <= limit for what, figure, limit in report.gates(found)}


def test_what_meets_every_target_passes():
    assert all(verdicts(results(0.15, 105, 9)).values())


def test_each_gate_can_fail():
    assert not any(verdicts(results(1.3, 120, 11)).values())


def test_what_was_not_measured_does_not_pass():
    broken = results(0.15, 105, 9, failures=["glebe"])
    assert not any(ok for what, ok in verdicts(broken).items() if not what.startswith("code"))


def test_a_row_whose_floor_is_high_is_held_to_the_floor():
    found = results(0.15, 105, 9)
    strings = found["rows"][0]
    for sample in (s for engine in strings["samples"].values() for s in engine["leaking"]):
        sample["seconds"] = 0.7
    for seconds, passes in ((0.76, True), (0.78, False)):
        for engine in strings["samples"].values():
            engine["glebe"][0]["seconds"] = seconds
        assert verdicts(found)["wazero: strings, none, of leaking"] is passes
        assert verdicts(found)["wazero: none, 6 rows whose floor allows it, mean, of the best peer of each"]
