"""Common hosts of TinyGo's modules: a plugin in a real Envoy, wazero embedded in Go, http-wasm.

Envoy comes from PyPI, and listens on loopback at ports that the system chooses; the upstream is an echo server in this
file. The plugin (test/hosts/proxywasm) rewrites headers and bodies in both directions, so each answer shows whether any
data was lost. GLEBE_TEST_LONG=1 sends thousands of requests instead of hundreds.
"""

import contextlib
import functools
import http.client
import http.server
import os
import re
import shlex
import subprocess
import threading
import time

import pytest

from test_tinygo import ENVIRONMENT, GO, OUT, ROOT, TINYGO

HOSTS = ROOT / "test/hosts"
ENVOY = ROOT / "build/python/envoy/_bin/envoy"
TIMES = 10 if os.environ.get("GLEBE_TEST_LONG") else 1

CONFIGURATION = """
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: main
          route_config:
            virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: "/"}, route: {cluster: upstream}}]}]
          http_filters:
          - name: envoy.filters.http.wasm
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm
              config:
                name: plugin
                configuration: {"@type": type.googleapis.com/google.protobuf.StringValue, value: "EVERY"}
                vm_config: {runtime: envoy.wasm.runtime.v8, code: {local: {filename: "MODULE"}}}
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: upstream
    load_assignment:
      cluster_name: upstream
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: UPSTREAM}}}}]}]
"""


class Echo(http.server.BaseHTTPRequestHandler):
    """Sends back the body, and the headers that the plugin added, prefixed with x-seen-."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        if self.headers.get("transfer-encoding") == "chunked":
            body = b""
            while length := int(self.rfile.readline(), 16):
                body += self.rfile.read(length)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        for name, value in self.headers.items():
            if name.startswith("x-out-"):
                self.send_header("x-seen-" + name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


# The SDK that test/hosts uses, and the one that follows it.
SDK, LATER = "github.com/tetratelabs/proxy-wasm-go-sdk", "github.com/proxy-wasm/proxy-wasm-go-sdk"
LATER_VERSION = "v0.0.0-20250212164326-ab4161dcf924"


def with_later_sdk(name):
    """A copy of the program of test/hosts, with that SDK."""
    folder = OUT / "later-sdk"
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "main.go").write_text((HOSTS / name / "main.go").read_text().replace(SDK, LATER))
    (folder / "go.mod").write_text("module later\n\ngo 1.24\n\nrequire (\n\tgithub.com/glebe-alloc/glebe v0.0.0\n"
                                   f"\t{LATER} {LATER_VERSION}\n)\n\n"
                                   f"replace github.com/glebe-alloc/glebe => {ROOT}\n")
    done = subprocess.run([GO, "mod", "tidy"], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@functools.cache
def plugin(name, scheduler, tags, sdk=SDK):
    if not TINYGO:
        pytest.skip("no TinyGo that is recent enough: tools/setup tinygo")
    OUT.mkdir(parents=True, exist_ok=True)
    folder = HOSTS if sdk == SDK else with_later_sdk(name)
    module = OUT / f"{name}-{scheduler}-{tags.replace(' ', '-')}{'' if sdk == SDK else '-later'}.wasm"
    command = [TINYGO, "build", "-target=wasip1", "-buildmode=c-shared", f"-scheduler={scheduler}", "-gc=custom",
               f"-tags={tags}", "-no-debug", "-o", str(module), f"./{name}"]
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return module


class Running:
    """An Envoy with the plugin: `address` takes requests, `gauge()` reads a gauge of the plugin, `pid` is Envoy's."""

    def __init__(self, admin, pid):
        self.admin = admin
        self.pid = pid
        self.address = None

    def get(self, path):
        connection = http.client.HTTPConnection(self.admin, timeout=600)
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def gauge(self, name):
        return int(re.search(rf"glebe_{name}: (\d+)", self.get("/stats"))[1])


@contextlib.contextmanager
def envoy(module, every, folder, handler=Echo):
    """`every` is the plugin's configuration, `handler` the upstream."""
    if not ENVOY.exists():
        pytest.skip("Envoy is not here: tools/setup tinygo")
    upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    configuration = CONFIGURATION.replace("MODULE", str(module)).replace("EVERY", str(every))
    try:
        with process_of(configuration.replace("UPSTREAM", str(upstream.server_address[1])), folder) as running:
            yield running
    finally:
        upstream.shutdown()
        upstream.server_close()


@contextlib.contextmanager
def process_of(text, folder):
    """An Envoy with this configuration."""
    configuration, address, log = folder / "envoy.yaml", folder / "admin", folder / "log"
    configuration.write_text(text)
    with open(log, "w", encoding="utf-8") as file:
        process = subprocess.Popen([ENVOY, "-c", configuration, "--concurrency", "1", "--admin-address-path", address,
                                    "--use-dynamic-base-id", "-l", "warning"], stdout=file, stderr=file)
    try:
        running = None
        for _ in range(6000):
            assert process.poll() is None, log.read_text()
            with contextlib.suppress(OSError, TypeError):
                running = Running(address.read_text(), process.pid)
                running.address = re.search(r"::(127\S+)", running.get("/listeners"))[1]
                if running.get("/ready").startswith("LIVE"):
                    break
            time.sleep(0.1)
        else:
            pytest.fail(f"Envoy does not get ready\n{log.read_text()}")
        yield running
    finally:
        process.terminate()
        process.wait(600)


def requests(running, count, path="/", large=12000):
    """Sends `count` requests over one connection, of repeating sizes, and checks each answer."""
    connection = http.client.HTTPConnection(running.address, timeout=600)
    before = ""
    for i in range(count):
        body = bytes(range(97, 123)) * (i * 37 % 100 * large // 2600 + 1)
        headers = {f"x-in-{k}": f"value {k} of {i}" for k in range(i % 20)}
        connection.request("POST", path, body=body, headers={**headers, "x-in-id": f"{path} {i}"})
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200
        assert text == body.upper()[::-1], f"{i}: {text[:100]}"
        assert answer.getheader("x-bytes") == str(len(body))
        seen = {f"x-in-{k}": answer.getheader(f"x-seen-x-out-{k}") for k in range(i % 20)}
        assert seen == {k: v.upper() for k, v in headers.items()}
        if i:
            assert answer.getheader("x-kept") == before
        before = f"{path} {i}"
    connection.close()


@pytest.mark.more
@pytest.mark.parametrize("scheduler, sdk", [
    pytest.param("none", SDK, id="none"),
    pytest.param("asyncify", SDK, id="asyncify", marks=pytest.mark.long),
    pytest.param("asyncify", LATER, id="later-sdk", marks=pytest.mark.long)])
def test_envoy_collecting_all_the_time(scheduler, sdk, tmp_path):
    """Data that Envoy puts into the plugin's memory lasts as long as the plugin reads it, with a collection at every
    allocation. With the later SDK each callback is a goroutine."""
    with envoy(plugin("proxywasm", scheduler, "custommalloc glebe_envoy", sdk), 1, tmp_path) as running:
        requests(running, 60 * TIMES)
        assert running.gauge("collections") > 300 * TIMES


@pytest.mark.more
def test_envoy_memory_is_flat(tmp_path):
    with envoy(plugin("proxywasm", "asyncify", "custommalloc glebe_envoy"), 0, tmp_path) as running:
        requests(running, 100)
        before = running.gauge("memory_pages")
        senders = [threading.Thread(target=requests, args=(running, 80 * TIMES, f"/{i}")) for i in range(2)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        requests(running, 1)  # the gauge is that of the last request
        assert 0 < before <= running.gauge("memory_pages") <= before + 2
        assert running.gauge("collections") > 10


@pytest.mark.more
def test_envoy_without_the_tag_fills_memory(tmp_path):
    """Control, and the reason for the tag: without it malloc is exported, so Envoy calls that, and no side frees."""
    with envoy(plugin("proxywasm", "none", "custommalloc"), 0, tmp_path) as running:
        requests(running, 50)
        before = running.gauge("memory_pages")
        requests(running, 60)
        assert running.gauge("memory_pages") > before + 10


def block(language, containing):
    """A block of code in docs/tinygo.md."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "docs/tinygo.md").read_text(), re.MULTILINE | re.DOTALL)
    return next(text for text in blocks if containing in text)


@pytest.mark.more
def test_what_docs_tell(tmp_path):
    """The plugin and the configuration of docs/tinygo.md give the output that the page shows."""
    if not (TINYGO and ENVOY.exists()):
        pytest.skip("TinyGo or Envoy is not here: tools/setup tinygo")
    (tmp_path / "main.go").write_text(block("go", "SetVMContext"))
    (tmp_path / "go.mod").write_text((HOSTS / "go.mod").read_text().replace("=> ../..", f"=> {ROOT}"))
    (tmp_path / "go.sum").write_text((HOSTS / "go.sum").read_text())
    command = re.search(r"^tinygo (build .*glebe_envoy.*)$", block("sh", "capitals"), re.MULTILINE)[1]
    done = subprocess.run([TINYGO, *shlex.split(command)], cwd=tmp_path, env=ENVIRONMENT, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    configuration = block("yaml", "envoy.wasm").replace("port_value: 10000", "port_value: 0")
    configuration = configuration.replace("plugin.wasm", f"{tmp_path}/plugin.wasm")
    admin = "admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}\n"
    with process_of(admin + configuration, tmp_path) as running:
        connection = http.client.HTTPConnection(running.address, timeout=600)
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"HELLO FROM ENVOY\n"
        connection.close()
    assert "# HELLO FROM ENVOY" in block("sh", "curl")


def names(entries):
    return {entry.name for entry in entries}


@pytest.mark.more
@pytest.mark.parametrize("tag", ["glebe_envoy", "nottinygc_envoy"])
def test_tags_of_envoy(tag):
    """With the tag the module does not export malloc and free, nor import sched_yield; without it, it does both."""
    wasmtime = pytest.importorskip("wasmtime", reason="wasmtime is not here: tools/setup wasm")
    family, modules = {"malloc", "free", "calloc", "realloc"}, []
    for tags in ("custommalloc", f"custommalloc {tag}"):
        modules.append(wasmtime.Module.from_file(wasmtime.Engine(), str(plugin("yields", "none", tags))))
    without, tagged = modules
    assert {"malloc", "free"} <= names(without.exports) and "sched_yield" in names(without.imports)
    assert not family & names(tagged.exports) and "sched_yield" not in names(tagged.imports)
    assert names(tagged.exports) == names(without.exports) - family


@pytest.mark.more
@pytest.mark.parametrize("package", ["wazero", pytest.param("httpwasm", marks=pytest.mark.long)])
def test_hosts_in_go(package):
    if not (TINYGO and GO):
        pytest.skip("no TinyGo that is recent enough: tools/setup tinygo")
    chosen = [] if TIMES > 1 else ["-skip=JSON"]  # whose guest takes long to build
    done = subprocess.run([GO, "test", "-count=1", "-v", *chosen, f"./{package}"], cwd=HOSTS, capture_output=True,
                          text=True, check=False,
                          env={**ENVIRONMENT, "TINYGO": TINYGO, "GOFLAGS": "-buildvcs=false"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--- PASS" in done.stdout and "--- SKIP" not in done.stdout, done.stdout
