"""A web application firewall as people run it: Coraza with the core rule set, in wazero, with glebe and with TinyGo's
own collectors. All give the verdicts that Coraza gives under Go on the requests of the core rule set's own tests.

coraza/ is a Go module with the guest, its host, and the firewall that both have. The builds take minutes, so this runs
only with GLEBE_TEST_MODULES=1 (`make test-long`); -s prints the figures. GLEBE_CORAZA_ROUNDS is how often all 4680
requests are sent.
"""

import json
import os
import subprocess

import pytest

import roots
from test_tinygo import ENVIRONMENT, GO, OUT, ROOT, guests

HERE = ROOT / "test/tinygo/coraza"
ROUNDS = int(os.environ.get("GLEBE_CORAZA_ROUNDS", 3))
WORKS = {**ENVIRONMENT, "GOWORK": "off"}
# Coraza without files, and without a table that TinyGo and wazero take too long to compile (waf/libinjection.go).
TAGS = "no_fs_access coraza.disabled_operators.detectSQLi coraza.disabled_operators.detectXSS"
COLLECTORS = {"glebe": ["-gc=custom", f"-tags=custommalloc {TAGS}"],
              **{name: [f"-gc={name}", f"-tags={TAGS}"] for name in ("precise", "conservative", "boehm")}}

pytestmark = pytest.mark.skipif(not os.environ.get("GLEBE_TEST_MODULES"),
                                reason="takes long; GLEBE_TEST_MODULES=1 runs it")


@pytest.fixture(scope="module")
def modules():
    return guests("coraza", COLLECTORS, "-stack-size=1MB", command=roots.command, environment=roots.environment)


@pytest.fixture(scope="module")
def host():
    program = OUT / "coraza/host"
    done = subprocess.run([GO, "build", f"-tags={TAGS}", "-o", program, "./host"], cwd=HERE, env=WORKS,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]

    def run(*arguments):
        done = subprocess.run([program, f"-cache={OUT}/coraza/compiled", *map(str, arguments)], capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        print("\n" + done.stdout, end="")
        return [json.loads(line) for line in done.stdout.splitlines()]
    return run


def test_verdicts_and_memory(modules, host):
    """Every collector's verdicts are Go's, and glebe's memory grows by at most a twentieth after the first round."""
    for answer in host(f"-rounds={ROUNDS}", *modules.values()):
        assert (answer.get("error"), answer["differ"]) == (None, 0), answer
        assert answer["requests"] >= 4000 * ROUNDS
        if answer["guest"] == "glebe":
            assert answer["pages"][-1] <= answer["pages"][1] * 1.05, answer


def test_collecting_often(modules, host):
    answer, = host("-stress=1000", "-every=20", modules["glebe"])
    assert (answer.get("error"), answer["differ"]) == (None, 0), answer
