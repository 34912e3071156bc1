"""Runs a WebAssembly module as an Arbitrum Stylus node would charge for it.

    program = Metered("contract.wasm")
    program.call("user_entrypoint", 36)
    program.ink, program.gas        what its instructions cost; 10,000 ink are 1 gas
    program.page_gas                what its memory costs, the first pages included
    program.pages                   how much memory it has now, in pages of 64 KiB

    bench/stylus/ink.py MODULE.wasm [EXPORT [INTEGER...]]    the same from a shell: calls the export and prints the four

meter/ instruments the module, wasmtime runs it; both are kept under bench/build/stylus by a digest of the module and
the meter. The page model and its figures are the node's (github.com/OffchainLabs/nitro at 6dce8d13,
arbos/programs/memory.go and params.go, looked up on 2026-11-21):

- the first `pages_free` pages of a transaction are free, and each page more costs 1000 gas, whether the module starts
  with it or grows by it;
- memory as a whole also costs b to the power of its pages, rounded down, where b is such that 128 pages cost just below
  31,874,000 gas. A growth pays the difference. So this term is nothing for few pages, and most of the price of a
  hundred;
- beyond 128 pages the price is more gas than there is: a growth runs out of ink and the program ends. `memory.grow`
  does not return;
- a growth is paid before it is tried, and not paid back if it fails. A growth by no page costs the price of a call to
  the host.

The price of a call as such (21,000 gas for a transaction, loading the program) is not included. Host functions charge
for themselves: see `Metered.pay`.
"""

import contextlib
import fcntl
import functools
import hashlib
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from common import CARGO_TARGET, ROOT, digest

OUT = ROOT / "bench/build/stylus"
PAGE = 1 << 16

sys.path.insert(0, str(ROOT / "build/python"))
try:
    import wasmtime  # tools/setup crate puts it there
except ImportError:
    wasmtime = None

INK = 10_000  # in a gas
HOST_CALL = 8_400  # ink that a call to the host costs at least
PLENTY = 1 << 62  # ink
PAGES_MAX = 128
PAGE_GAS = 1000


def cargo(*arguments, **variables):
    """Runs cargo; its output is shown if it fails."""
    environment = {**os.environ, "CARGO_TARGET_DIR": str(CARGO_TARGET), **variables}
    found = shutil.which("cargo") or pathlib.Path.home() / ".cargo/bin/cargo"
    done = subprocess.run([str(found), *map(str, arguments)], env=environment, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise RuntimeError(f"cargo {' '.join(map(str, arguments))}\n{done.stdout}\n{done.stderr}")
    return CARGO_TARGET


@contextlib.contextmanager
def alone():
    """One process at a time, since cargo's output always has the same name."""
    OUT.mkdir(parents=True, exist_ok=True)
    with open(OUT / "lock", "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@functools.cache
def meter(folder=HERE / "meter"):
    """The path of the built meter, and the digest of its source. The path is of a copy, so that two versions of the
    meter do not alternate under one name."""
    key = digest([folder / "Cargo.toml", folder / "Cargo.lock", folder / "src"])
    copy = OUT / f"meter-{key[:16]}"
    if not copy.exists():
        with alone():
            (folder / "src/main.rs").touch()  # for cargo a mutant, built since, is the same package, and newer
            target = cargo("build", "--quiet", "--release", "--locked", "--manifest-path", folder / "Cargo.toml")
            replace(copy, (target / "release/stylus-meter").read_bytes(), 0o755)
    return copy, key


def replace(path, content, mode=0o644):
    """Writes a file atomically, even if another process does the same."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    os.chmod(file.name, mode)
    os.replace(file.name, path)


def metered(wasm, command=None):
    """The path of the instrumented module. The meter's messages about instructions that a node refuses go to stderr,
    once."""
    command, key = command or meter()
    original = pathlib.Path(wasm).read_bytes()
    target = OUT / f"metered/{hashlib.sha256(key.encode() + original).hexdigest()[:32]}.wasm"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as place:
            made = pathlib.Path(place) / "made.wasm"
            done = subprocess.run([str(command), str(wasm), str(made)], capture_output=True, text=True, check=False)
            if done.returncode:
                raise ValueError(done.stderr.strip())
            sys.stderr.write(done.stderr)
            os.replace(made, target)
    return target


@functools.cache
def engine():
    return wasmtime.Engine()


@functools.cache
def compiled(path):
    return wasmtime.Module.from_file(engine(), str(path))


def exponential(pages):
    """The part of memory's price that depends on its total size, in gas."""
    return int(math.exp(math.log(31_874_000) / PAGES_MAX) ** pages)


class OutOfInk(Exception):
    """A call cost more ink than was left."""


class Metered:
    """A module with a meter, instantiated. One object is one transaction: its figures add up over its calls.

    imports      {(module, name): function(this object, *arguments)}: the module's imports
    pages_free   pages that cost nothing
    ink          how much there is to spend
    pay_pages    False: memory costs nothing and may grow as it likes; the figures are then of a machine that is no node
    """

    def __init__(self, wasm_path, imports=None, pages_free=2, ink=PLENTY, pay_pages=True, command=None):
        module = compiled(metered(wasm_path, command))
        self.store = self.context = wasmtime.Store(engine())
        self.budget, self.pages_free, self.pay_pages = ink, pages_free, pay_pages
        self.page_gas = self.host_ink = 0
        self.pages_paid = 0
        linker = wasmtime.Linker(engine())
        given = {("vm_hooks", "pay_for_memory_grow"): Metered.pay_for_memory_grow, **(imports or {})}
        for kind in module.imports:
            if (kind.module, kind.name) not in given:
                raise LookupError(f"{wasm_path} imports {kind.module}.{kind.name}, which is not given")
            linker.define_func(kind.module, kind.name, kind.type, self.host(given[kind.module, kind.name]),
                               access_caller=True)
        self.exports = linker.instantiate(self.store, module).exports(self.store)
        self.memory = self.exports.get("memory")
        self.ink_left, self.status = self.exports["stylus_ink_left"], self.exports["stylus_ink_status"]
        self.left = ink
        if self.memory:
            self.buy_pages(self.pages)
        if "stylus_start" in list(self.exports):
            self.call("stylus_start")

    def host(self, function):
        """Wraps an import: during the call, the host accesses the instance through its caller."""
        def called(caller, *arguments):
            outer, self.context = self.context, caller
            try:
                return function(self, *arguments)
            finally:
                self.context = outer
        return called

    def call(self, export, *arguments):
        """Calls an export. OutOfInk if the price was too high; any other trap is wasmtime's."""
        try:
            return self.exports[export](self.store, *arguments)
        except (wasmtime.Trap, wasmtime.WasmtimeError, OutOfInk) as trap:
            if self.status.value(self.store):
                raise OutOfInk(f"{export}: {self.pages} pages, {self.page_gas} gas for pages, {self.gas:.0f} gas for "
                               "instructions") from trap
            raise

    # ---- what it cost
    # -------------------------------------------------------------------------------------------------

    @property
    def left(self):
        return self.ink_left.value(self.context)

    @left.setter
    def left(self, ink):
        self.ink_left.set_value(self.context, wasmtime.Val.i64(ink))

    @property
    def ink(self):
        """The ink of the instructions."""
        return self.budget - self.left - self.page_gas * INK - self.host_ink

    @property
    def gas(self):
        return self.ink / INK

    @property
    def pages(self):
        return self.memory.size(self.context) if self.memory else 0

    # ---- for hosts
    # ----------------------------------------------------------------------------------------------------

    def take(self, ink):
        if ink > self.left:
            self.status.set_value(self.context, wasmtime.Val.i32(1))
            raise OutOfInk
        self.left -= ink

    def pay(self, ink):
        """Charges for work of the host; `host_ink` is the sum."""
        self.take(ink)
        self.host_ink += ink

    def read(self, address, size):
        return bytes(self.memory.read(self.context, address & 0xFFFFFFFF, (address & 0xFFFFFFFF) + size))

    def write(self, address, data):
        self.memory.write(self.context, data, address & 0xFFFFFFFF)

    def pay_for_memory_grow(self, pages):
        pages &= 0xFFFF  # the node uses only these bits
        if pages:
            self.buy_pages(pages)
        else:
            self.pay(HOST_CALL)

    def buy_pages(self, pages):
        old, new = self.pages_paid, self.pages_paid + pages
        self.pages_paid = new
        if not self.pay_pages or new <= self.pages_free:
            return
        if new > PAGES_MAX:
            self.take(1 << 64)
        paid = lambda count: max(count - self.pages_free, 0) * PAGE_GAS + exponential(count)
        gas = paid(new) - paid(old)
        self.take(gas * INK)
        self.page_gas += gas


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    program = Metered(arguments[0])
    if arguments[1:]:
        print("result", program.call(arguments[1], *map(int, arguments[2:])))
    print(f"ink {program.ink}\ngas {program.gas:.1f}\npage gas {program.page_gas}\npages {program.pages}")


if __name__ == "__main__":
    main(sys.argv[1:])
