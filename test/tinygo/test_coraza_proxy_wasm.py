"""Coraza's plugin for Envoy and other hosts of proxy-wasm, with glebe: its own tests pass, in the SDK's host in wazero.

The plugin has go-re2 (C++), go-aho-corasick (Rust) and go-libinjection (C) as archives, and the core rule set in it. It
is made for TinyGo 0.34 and nottinygc. What differs here, with any collector of TinyGo 0.42:

- glebe is imported in place of nottinygc;
- what main does is done in an init, and -buildmode=c-shared has the host call _initialize: a command ends after main;
- asyncify in place of -scheduler=none, which no longer builds fmt, and -stack-size=1MB for the inits;
- functions such as toupper are linked (test_modules.py);
- net/http has only names (roots.py), and libinjection in Go, which the plugin replaces with that in C, is left out;
- the host calls _initialize, compiles the module once for all tests, and is wazero 1.12: compiled by Go 1.24 or
  later, releases before 1.9 run no module that copies memory.

The build takes minutes, so this runs only with GLEBE_TEST_MODULES=1 (`make test-long`), and builds only after changes.
"""

import json
import os
import re
import shutil
import subprocess

import pytest

import roots
from test_modules import WORKS, copied, ctype, go
from test_tinygo import GO, OUT, ROOT, TINYGO

PLUGIN, VERSION = "github.com/corazawaf/coraza-proxy-wasm", "v0.0.0-20260824140537-b1770f5b0be3"
SDK, SDK_VERSION = "github.com/tetratelabs/proxy-wasm-go-sdk", "v0.24.0"
WAZERO = "github.com/tetratelabs/wazero@v1.12.0"
MULTIPHASE = "coraza.rule.multiphase_evaluation"
TAGS = f"no_fs_access memoize_builders {MULTIPHASE} " \
       "coraza.disabled_operators.detectSQLi coraza.disabled_operators.detectXSS"
COLLECTORS = {"glebe": ["-gc=custom", f"-tags=custommalloc glebe_envoy {TAGS}"],
              "precise": ["-gc=precise", f"-tags={TAGS}"]}
PLUGIN_PACKAGE = f"{PLUGIN}/wasmplugin"
IMPORT = """//go:build tinygo && gc.custom

package main

import _ "github.com/glebe-alloc/glebe/bindings/tinygo"
"""
# The plugin calls logMemStats after each request; a build tag of its own chooses what that does. With the tag
# glebe_gauges it keeps two gauges of Envoy: the pages of 64 KiB of the instance that served the request, and with glebe
# how often it collected. The host of the SDK makes new metrics for each test of one instance, so its tests go without.
COUNT = f"""//go:build glebe_gauges && gc.custom

package main

import (
	glebe "github.com/glebe-alloc/glebe/bindings/tinygo"

	"{PLUGIN_PACKAGE}"
)

func init() {{ wasmplugin.Collections = func() int64 {{ return int64(glebe.ReadStats().Collections) }} }}
"""
GAUGES = """//go:build glebe_gauges

package wasmplugin

// static int pages(void) { return (int)__builtin_wasm_memory_size(0); }
import "C"

import "github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm"

var Collections func() int64

// gauge is a metric and its value, since Envoy can only add to a metric.
type gauge struct {
	metric proxywasm.MetricGauge
	value  int64
}

func (g *gauge) set(name string, value int64) {
	if g.metric == 0 {
		g.metric = proxywasm.DefineGaugeMetric(name)
	}
	g.metric.Add(value - g.value)
	g.value = value
}

var pages, collections gauge

func logMemStats() {
	pages.set("glebe_memory_pages", int64(C.pages()))
	if Collections != nil {
		collections.set("glebe_collections", Collections())
	}
}
"""

pytestmark = pytest.mark.skipif(not os.environ.get("GLEBE_TEST_MODULES"),
                                reason="takes long; GLEBE_TEST_MODULES=1 runs it")


def replaced(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1, f"{path} has changed"
    path.write_text(text.replace(old, new))


def plugin():
    """A copy of the plugin, for TinyGo 0.42, with glebe where that is the collector."""
    folder = copied(PLUGIN, VERSION, ".")
    changed = (folder / "glebe.go").exists()
    if not changed:
        replaced(folder / "main.go", "func main() {", "func main() {}\n\nfunc init() {")
        sdk = folder / "sdk"
        shutil.rmtree(sdk, ignore_errors=True)
        cached = json.loads(go(folder, "mod", "download", "-json", f"{SDK}@{SDK_VERSION}"))["Dir"]
        shutil.copytree(cached, sdk, copy_function=shutil.copyfile)
        subprocess.run(["chmod", "-R", "u+w", sdk], check=True)
        host = sdk / "proxywasm/proxytest/wasmwrapper.go"
        replaced(host, "compiled, wazeroconfig)", 'compiled, wazeroconfig.WithStartFunctions("_initialize"))')
        replaced(host, "wazero.NewRuntime(ctx)",
                 "wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(compiledOnce))")
        host.write_text(host.read_text() + "\nvar compiledOnce = wazero.NewCompilationCache()\n")
        go(folder, "mod", "edit", f"-replace={SDK}=./sdk", f"-require={WAZERO}")
        replaced(folder / "wasmplugin/memstats.go", "//go:build !memstats", "//go:build !memstats && !glebe_gauges")
    for path, text in (("glebe.go", IMPORT), ("count.go", COUNT), ("wasmplugin/gauges.go", GAUGES)):
        (folder / path).write_text(text)
    if not changed:
        go(folder, "mod", "tidy", "-e")
    return folder


def built(folder, collector=None):
    """The module with this collector and with gauges, or where the plugin's tests look for it, with glebe and without
    gauges."""
    module = folder / "build" / f"{collector or 'mainraw'}.wasm"
    flags = [f"{flag} glebe_gauges" if collector and flag.startswith("-tags=") else flag
             for flag in COLLECTORS[collector or "glebe"]]
    stamp = module.with_suffix(".command")
    module.parent.mkdir(exist_ok=True)
    command = [str(roots.command()), "build", "-target=wasip1", "-buildmode=c-shared", "-opt=1", "-no-debug",
               "-stack-size=1MB", *flags, f"-ldflags=-extldflags={ctype()}", "-o", str(module), "."]
    ours = [path for name in ("bindings/tinygo", "src", "include") for path in (ROOT / name).rglob("*.[chg]*")]
    sources = [] if collector == "precise" else ours
    wanted = f"{' '.join(command)}\n{IMPORT}{COUNT}{GAUGES}"
    fresh = (stamp.exists() and stamp.read_text() == wanted
             and all(module.stat().st_mtime > path.stat().st_mtime for path in sources))
    if not fresh:
        environment = {**roots.environment(), "GOFLAGS": "-mod=mod"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        stamp.write_text(wanted)
    return module


def test_its_own_tests():
    if not (TINYGO and GO):
        pytest.skip("no TinyGo that is recent enough: tools/setup tinygo")
    folder = plugin()
    built(folder)
    done = subprocess.run([GO, "test", "-count=1", "-v", "-timeout=1h", f"-tags={MULTIPHASE}", "."], cwd=folder,
                          env=WORKS, capture_output=True, text=True, errors="replace", check=False)
    (OUT / "coraza-proxy-wasm.log").write_text(done.stdout + done.stderr)
    ends = re.findall(r"^\s*--- (PASS|FAIL|SKIP): (\S+)", done.stdout, re.M)
    bad = [test for end, test in ends if end != "PASS"]
    in_module = sum("/wasm" in test for _, test in ends)
    print(f"\n{PLUGIN}: {len(ends)} tests, {in_module} of them in the module")
    assert done.returncode == 0 and not bad, f"{bad}\n{done.stdout[-3000:]}"
    assert in_module >= 90
