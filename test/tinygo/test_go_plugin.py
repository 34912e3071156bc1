"""github.com/knqyf263/go-plugin, plugins from Protocol Buffers: its own tests pass with plugins on glebe.

The host's tests pass messages of all kinds to a plugin and back, through memory of the plugin's malloc. The module is
copied from Go's cache, as test_modules.py does. A plugin gets one more file, which imports glebe and sets the stress. A
host whose plugin does not exist must fail. This takes long, and runs only with GLEBE_TEST_MODULES=1 (`make test-long`).
"""

import subprocess

import pytest
from test_modules import ON, STRESS, WORKS, copied
from test_tinygo import GO, TINYGO

MODULE, VERSION = "github.com/knqyf263/go-plugin", "v0.9.0"
# folder of the host's test: those of its plugins
PLUGINS = {"tests/fields": ["plugin"]}
EVERY = 10


def host_passes(folder):
    done = subprocess.run([GO, "test", "-count=1", "-v", "."], cwd=folder, env=WORKS, capture_output=True, text=True,
                          check=False)
    return done.returncode == 0 and "--- PASS" in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif(not ON, reason="takes long; GLEBE_TEST_MODULES=1 runs it")
@pytest.mark.parametrize("place", PLUGINS)
def test_host_and_plugins(place):
    if not TINYGO:
        pytest.skip("TinyGo is not here: tools/setup tinygo")
    folder = copied(MODULE, VERSION, ".") / place
    for old in folder.rglob("*.wasm"):
        old.unlink()
    assert not host_passes(folder)[0], "the test passes without its plugin"
    for plugin in PLUGINS[place]:
        (folder / plugin / "glebe.go").write_text(STRESS.format(package="main", every=EVERY))
        command = [TINYGO, "build", "-target=wasip1", "-buildmode=c-shared", "-opt=1", "-no-debug", "-gc=custom",
                   "-tags=custommalloc", "-o", "plugin.wasm", "."]
        done = subprocess.run(command, cwd=folder / plugin, env=WORKS, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[-3000:]}"
    passed, said = host_passes(folder)
    assert passed, said[-3000:]
