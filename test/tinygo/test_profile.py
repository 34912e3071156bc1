"""The heap profile of a module, as `go tool pprof` reads it: from a file, and from the handler of docs/tinygo.md."""

import re
import subprocess

import pytest
from printed import Document
from test_tinygo import ENVIRONMENT, GO, ROOT, TINYGO, build, either

# A host around the handler that docs/tinygo.md prints. It prints its address, and serves until stdin ends.
HOST = """package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	ctx := context.Background()
	engine := wazero.NewRuntime(ctx)
	wasi_snapshot_preview1.MustInstantiate(ctx, engine)
	module, err := os.ReadFile(os.Args[1])
	check(err)
	guest, err := engine.InstantiateWithConfig(ctx, module,
		wazero.NewModuleConfig().WithStartFunctions("_initialize"))
	check(err)
HANDLER
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println(listener.Addr())
	go http.Serve(listener, nil)
	io.Copy(io.Discard, os.Stdin)
}
"""


@either
def test_profile(scheduler, tmp_path):
    """Each live object is counted once with its size and its pointers, garbage is not, and Go's own tool reads it."""
    wasmtime = pytest.importorskip("wasmtime", reason="wasmtime is not here: tools/setup wasm")
    module = build("profile", scheduler, "-buildmode=c-shared")
    engine = wasmtime.Engine()
    store, linker = wasmtime.Store(engine), wasmtime.Linker(engine)
    linker.define_wasi()
    store.set_wasi(wasmtime.WasiConfig())
    exports = linker.instantiate(store, wasmtime.Module.from_file(engine, str(module))).exports(store)
    exports["_initialize"](store)
    packed = exports["heap_profile"](store)
    file = tmp_path / "heap.pb"
    file.write_bytes(exports["memory"].read(store, packed >> 32, (packed >> 32) + (packed & 0xffffffff)))
    said = subprocess.run([GO, "tool", "pprof", "-raw", str(file)], capture_output=True, text=True, check=True,
                          env=ENVIRONMENT).stdout
    assert "inuse_objects/count inuse_space/bytes" in said
    values = {int(at): (int(objects), int(bytes)) for objects, bytes, at in
              re.findall(r"^ +(\d+) +(\d+): (\d+) *$", said, re.M)}
    names = {name: values[int(at)] for at, name in re.findall(r"^ +(\d+): 0x0 M=\d+ (.+?) :0", said, re.M)}
    assert len(names) == len(values) > 4
    assert names["3145728 bytes, no pointers"] == (1, 3 << 20)
    assert 5000 <= names["224 bytes, no pointers"][0] < 5030
    # The first 4 KiB of a layout are in pages whose objects may have pointers anywhere.
    of_nodes = names["32 bytes, pointers in words 0 1 of 8"][0]
    assert 4500 < of_nodes <= 5000 and 5000 <= of_nodes + names["32 bytes, any word may be a pointer"][0] < 5100
    assert not any(name.startswith(("320 ", "304 ", "300 ")) and count > 100 for name, (count, _) in names.items())


@pytest.mark.more
def test_handler_that_docs_print(tmp_path):
    """The guest's function and the host's handler, as printed, give `go tool pprof -top` the printed rows."""
    if not (TINYGO and GO):
        pytest.skip("TinyGo or Go is not here: tools/setup tinygo")
    document = Document("docs/tinygo.md", None)
    guest = (ROOT / "test/tinygo/profile/main.go").read_text()
    keeps = "//go:wasmexport keeps\nfunc keeps() { long[0]++ }\n"  # else the compiler drops `long`
    guest, functions = re.subn(r"^//go:wasmexport heap_profile\n.*?^}\n", keeps, guest, flags=re.M | re.S)
    guest, variables = re.subn(r"^\tprofile .*\n", "", guest, flags=re.M)
    assert (functions, variables) == (1, 1)
    programs = {"guest": guest + document.lines("heap_profile", language="go"),
                "host": HOST.replace("HANDLER", document.lines("http.HandleFunc", language="go"))}
    for name, text in programs.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "main.go").write_text(text)
    hosts = ROOT / "test/hosts"
    (tmp_path / "go.mod").write_text((hosts / "go.mod").read_text().replace("=> ../..", f"=> {ROOT}"))
    (tmp_path / "go.sum").write_text((hosts / "go.sum").read_text())
    for command in ([TINYGO, "build", "-target=wasip1", "-buildmode=c-shared", "-gc=custom", "-tags=custommalloc", "-o",
                     "guest.wasm", "./guest"], [GO, "build", "-o", "serve", "./host"]):
        done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    printed = document.lines("pprof -top", language="console")
    command = re.search(r"^\$ go (tool pprof .*)$", printed, re.M)[1]
    with subprocess.Popen([tmp_path / "serve", "guest.wasm"], cwd=tmp_path, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as host:
        address = host.stdout.readline().strip()
        assert "//localhost:8080/" in command
        done = subprocess.run([GO, *command.replace("localhost:8080", address).split()], capture_output=True, text=True,
                              check=False, env={**ENVIRONMENT, "PPROF_TMPDIR": str(tmp_path)})
        host.stdin.close()
    assert done.returncode == 0, done.stderr
    columns = r"^ +(\S+) +\S+% +\S+% +(\S+) +\S+% +(.*)$"
    rows = re.findall(columns, printed, re.M)
    assert len(rows) == 3 and set(rows) <= set(re.findall(columns, done.stdout, re.M)), done.stdout
