"""wasip2.py MODULE [ARGUMENT]...: runs a component of TinyGo's -target=wasip2 in wasmtime, as its own command would,
with the environment and TinyGo's sources as the folder /. own.py and test_wasip2.py use it as a module, too."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "build/python"))
import wasmtime
from wasmtime import component


def started(path, arguments, environment, folder, words=None):
    """The store, and the component's instance in it. `words` is the host's function for test/tinygo/component."""
    engine = wasmtime.Engine()
    store, linker, wasi = wasmtime.Store(engine), component.Linker(engine), wasmtime.WasiConfig()
    wasi.argv = [os.path.basename(path), *arguments]
    wasi.env = list(environment.items())
    wasi.inherit_stdout()
    wasi.inherit_stderr()
    if folder:
        wasi.preopen_dir(folder, "/", fs_mutable=False)
    store.set_wasi(wasi)
    linker.add_wasip2()
    if words:
        with linker.root() as root:
            root.add_func("words", words)
    return store, linker.instantiate(store, component.Component.from_file(engine, str(path)))


def main(path, *arguments):
    environment = {key: value for key, value in os.environ.items() if key.startswith(("GLEBE_STRESS", "ENV"))}
    store, instance = started(path, arguments, environment, os.environ.get("MOUNT"))
    interface = instance.get_export_index(store, "wasi:cli/run@0.2.0")
    run = instance.get_func(store, instance.get_export_index(store, "run", interface))
    try:
        return 0 if run(store).tag == "ok" else 1
    except wasmtime.ExitTrap as ended:  # os.Exit
        return ended.code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
