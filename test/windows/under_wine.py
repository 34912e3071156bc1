"""What tests and benches of Windows programs need of Wine: its environment, paths, and a text for LLVM's tools."""

import os


def environment(prefix):
    """That of a Wine in this prefix, without a display, and without options of glebe's. No debugger either: it comes
    where a program faults, crashes now and then itself, and then the program's exit status is 0."""
    kept = {k: v for k, v in os.environ.items() if k != "DISPLAY" and not k.startswith("GLEBE_")}
    absent = "mscoree,mshtml,winemenubuilder.exe,winedbg.exe="
    return {**kept, "WINEPREFIX": str(prefix), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": absent, "LC_ALL": "C"}


def windows(path):
    """As programs there name a file of ours."""
    return "Z:" + str(path).replace("/", "\\")


def source(functions):
    """C that wants formatting, a function a line."""
    return "".join(
        f"static   int f{i}( int a,int b ){{ if(a>b){{return a*{i}+b;}} else {{ for(int k=0;k<b;k++)  a+=k*{i % 7} ; "
        f"return  a; }} }}\n"
        for i in range(functions))
