"""Wine for tests and benches of Windows programs: its environment, paths, and a text for LLVM's tools."""

import os


def environment(prefix):
    """The environment of a Wine in this prefix, without a display, glebe's options and a debugger. Wine's debugger
    would start when a program faults; it sometimes crashes, and then the program's exit status is 0."""
    kept = {k: v for k, v in os.environ.items() if k != "DISPLAY" and not k.startswith("GLEBE_")}
    absent = "mscoree,mshtml,winemenubuilder.exe,winedbg.exe="
    return {**kept, "WINEPREFIX": str(prefix), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": absent, "LC_ALL": "C"}


def windows(path):
    """The path of a file as Windows programs name it."""
    return "Z:" + str(path).replace("/", "\\")


def source(functions):
    """Unformatted C code, one function per line."""
    return "".join(
        f"static   int f{i}( int a,int b ){{ if(a>b){{return a*{i}+b;}} else {{ for(int k=0;k<b;k++)  a+=k*{i % 7} ; "
        f"return  a; }} }}\n"
        for i in range(functions))
