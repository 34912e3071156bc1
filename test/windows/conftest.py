"""Windows programs under Wine, in a prefix of their own and without a display.

These tests show only how programs behave under Wine, not under Windows itself."""

import shutil
import subprocess

import pytest

import under_wine


@pytest.fixture(scope="session")
def wine(tmp_path_factory):
    """Runs a program with arguments and environment variables; returns its exit status and output. The prefix is
    outside the tree, since links in it lead to the whole machine."""
    if not shutil.which("wine"):
        pytest.skip("wine is not here: tools/setup windows")
    prefix = tmp_path_factory.mktemp("wine")
    environment = under_wine.environment(prefix)
    # not a pipe, since Wine's server would keep it open
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["wineboot", "--init"], env=environment, check=False, timeout=300, **silent)

    def run(program, *words, **variables):
        done = subprocess.run(["wine", program, *words], env={**environment, **variables}, capture_output=True,
                              text=True, check=False, stdin=subprocess.DEVNULL, timeout=1800)
        return done.returncode, done.stdout.replace("\r\n", "\n"), done.stderr

    run.environment = environment
    # A running program keeps the server and its services alive: restarting them takes two seconds each time.
    with subprocess.Popen(["wine", "cmd"], env=environment, stdin=subprocess.PIPE, **silent):
        yield run
    subprocess.run(["wineserver", "-k"], env=environment, capture_output=True, check=False)
