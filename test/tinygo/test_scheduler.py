"""A plugin for the Kubernetes scheduler by sigs.k8s.io/kube-scheduler-wasm-extension/guest, in wazero: with glebe its
answers to real pods and nodes are those of TinyGo's own collector, and those that the host computes itself.

scheduler/ is a Go module with the plugin, its host, and the rules that both have. The Go proxy has the SDK, and none of
its example plugins, so this one is made here; it implements each of the SDK's extension points. The host schedules one
pod after another, by some 45 calls each: pods and nodes come in as Protocol Buffers and JSON.

This runs only with GLEBE_TEST_MODULES=1 (`make test-long`); -s prints the figures. GLEBE_SCHEDULER_CYCLES is how many
pods are scheduled.
"""

import json
import os
import subprocess

import pytest

from test_tinygo import ENVIRONMENT, GO, OUT, ROOT, guests

HERE = ROOT / "test/tinygo/scheduler"
CYCLES = int(os.environ.get("GLEBE_SCHEDULER_CYCLES", 2000))
WORKS = {**ENVIRONMENT, "GOWORK": "off"}
COLLECTORS = {"glebe": ["-gc=custom", "-tags=custommalloc"],
              **{name: [f"-gc={name}"] for name in ("precise", "leaking")}}

pytestmark = pytest.mark.skipif(not os.environ.get("GLEBE_TEST_MODULES"),
                                reason="takes long; GLEBE_TEST_MODULES=1 runs it")


@pytest.fixture(scope="module")
def modules():
    return guests("scheduler", COLLECTORS, "-buildmode=c-shared")


@pytest.fixture(scope="module")
def host():
    program = OUT / "scheduler/host"
    program.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([GO, "build", "-o", program, "./host"], cwd=HERE, env=WORKS, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr[-3000:]

    def run(*arguments):
        done = subprocess.run([program, f"-cache={OUT}/scheduler/compiled", *map(str, arguments)], capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        print("\n" + done.stdout, end="")
        return [json.loads(line) for line in done.stdout.splitlines()]
    return run


def right(answer, cycles):
    return (answer.get("error"), answer["wrong"], answer["cycles"]) == (None, 0, cycles)


def test_answers_and_memory(modules, host):
    """Both collectors give the same answers, and glebe's memory grows by at most a page after the first tenth."""
    answers = host(f"-cycles={CYCLES}", *(modules[name] for name in ("glebe", "precise")))
    for answer in answers:
        assert right(answer, CYCLES), answer
        assert answer["digest"] == answers[0]["digest"]
    glebe = answers[0]
    assert glebe["calls"] > 40 * CYCLES and glebe["collections"] > CYCLES / 20
    assert glebe["pages"][-1] <= glebe["pages"][1] + 1, glebe


@pytest.mark.parametrize("every, cycles", [(1, 20), (10, 150)])
def test_collecting_often(modules, host, every, cycles):
    glebe, = host(f"-cycles={cycles}", f"-stress={every}", modules["glebe"])
    precise, = host(f"-cycles={cycles}", modules["precise"])
    assert right(glebe, cycles) and right(precise, cycles), (glebe, precise)
    assert glebe["digest"] == precise["digest"]
    assert glebe["collections"] > 10000, glebe


def test_control_of_answers(modules, host):
    """Control: a plugin with another weight than the host thinks gives other scores, which are found."""
    glebe, = host("-cycles=20", "-weight=4", modules["glebe"])
    right_one, = host("-cycles=20", modules["glebe"])
    assert glebe["wrong"] > 10 and glebe["digest"] != right_one["digest"]


def test_control_of_memory(modules, host):
    """Control: without collections the memory of the same plugin grows."""
    leaking, = host("-cycles=100", modules["leaking"])
    assert right(leaking, 100) and leaking["pages"][-1] > leaking["pages"][1] * 2, leaking
