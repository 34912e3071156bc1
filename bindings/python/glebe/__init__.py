"""glebe: a malloc that is put under any program, and a command that shows what it changes.

    glebe run -- PROGRAM            the command; `glebe --help` lists the others
    python -m glebe run app.py      the same, with this Python under app.py

The package has no Python API beyond two paths: `command()` is the `glebe` command, `library()` a file for LD_PRELOAD.
"""

import os
import sysconfig
from importlib import metadata

_BUILDS = {"default": "libglebe.so", **{name: f"libglebe-{name}.so" for name in ("secure", "audit", "safe")}}


def command():
    """The path of the `glebe` command that this package brought."""
    # This package's own command comes first: another place may have another version. pip install --target FOLDER puts
    # the command into FOLDER/bin, beside this package, and does not record that.
    beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin")
    places = [beside, *_installed(), sysconfig.get_path("scripts")]
    if os.name == "posix": # pip install --user
        places.append(sysconfig.get_path("scripts", "posix_user"))
    places = list(dict.fromkeys(places))
    for place in places:
        path = os.path.join(place, "glebe")
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise FileNotFoundError(f"glebe: the command is in none of {', '.join(places)}: install the package again")


def _installed():
    """Where the installer put the command by its own record, such as another prefix's bin."""
    try:
        parts = metadata.files("glebe") or []
    except metadata.PackageNotFoundError:
        return []
    return [os.path.dirname(str(part.locate().resolve())) for part in parts if part.name == "glebe"]


def library(build="default"):
    """The path of the library for LD_PRELOAD: the build "default", "secure", "audit" or "safe". The loader splits that
    variable at spaces and colons, and only warns of what it then cannot find; so this refuses a path with any."""
    if build not in _BUILDS:
        raise ValueError(f"glebe.library({build!r}): the builds are {', '.join(_BUILDS)}")
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", _BUILDS[build])
    if not os.path.isfile(path):
        raise FileNotFoundError(f"glebe: {path} is missing: install the package again")
    if any(letter in path for letter in " :\t\n"):
        raise ValueError("glebe.library(): LD_PRELOAD cannot hold a path with spaces or colons: "
                         f"{path}: use `glebe run`, or install the package elsewhere")
    return path
