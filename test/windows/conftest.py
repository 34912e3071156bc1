"""Windows programs under Wine, in a prefix of their own and without a display.

What passes here was seen under Wine; of Windows itself it says nothing."""

import shutil
import subprocess

import pytest

import under_wine


@pytest.fixture(scope="session")
def wine(tmp_path_factory):
    """Runs a program with arguments and environment variables: its exit status and what it said. The prefix is not in
    the tree, for links in it lead out to all of the machine."""
    if not shutil.which("wine"):
        pytest.skip("wine is not here: tools/setup windows")
    prefix = tmp_path_factory.mktemp("wine")
    environment = under_wine.environment(prefix)
    # not a pipe, which Wine's server would keep open
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["wineboot", "--init"], env=environment, check=False, timeout=300, **silent)

    def run(program, *words, **variables):
        done = subprocess.run(["wine", program, *words], env={**environment, **variables}, capture_output=True,
                              text=True, check=False, stdin=subprocess.DEVNULL, timeout=1800)
        return done.returncode, done.stdout.replace("\r\n", "\n"), done.stderr

    run.environment = environment
    # While a program runs, the server and its services stay: each time that they end and begin takes two seconds.
    with subprocess.Popen(["wine", "cmd"], env=environment, stdin=subprocess.PIPE, **silent):
        yield run
    subprocess.run(["wineserver", "-k"], env=environment, capture_output=True, check=False)
