"""Runs the code that documents print, unchanged, in a folder outside the repository: programs, saved under the names
that they print, and shell lines.

    ```c               a fenced block whose first line is a comment with a file's name is that file
    /* program.c */

    ```sh              shell lines; $GLEBE is the folder of this repository
"""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
FENCED = re.compile(r"^```([a-z]*)[^\n]*\n(.*?)^```$", re.M | re.S)
NAMED = re.compile(r"^(?:/\*|//|#|--) ([\w./-]+\.\w+)(?: \*/)?\n")


class Document:
    """A document's blocks in order, and the folder (or None) where its reader works."""

    def __init__(self, name, folder):
        self.text, self.folder = (ROOT / name).read_text(), folder
        self.blocks = FENCED.findall(self.text)
        for _, text in self.blocks:
            if folder and (named := NAMED.match(text)):
                path = folder / named[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)

    def lines(self, part, which=0, language="sh"):
        """The shell lines of the block that contains `part`: the first, or another of them."""
        found = [text for kind, text in self.blocks if kind == language and part in text]
        assert len(found) > which, f"no {language} block with {part!r}"
        return found[which]

    def run(self, part, which=0, fails=False, cwd=None, env=None, language="sh"):
        """Runs that block, and returns its output: stdout and stderr."""
        lines = self.lines(part, which, language)
        return shell(lines, cwd or self.folder, fails=fails, env=env)


def shell(lines, cwd, fails=False, env=None):
    others = ("GLEBE_", "PKG_CONFIG", "LUA_", "LD_", "MAKE", "MFLAGS")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    environment.update({"GLEBE": str(ROOT), **(env or {})})
    done = subprocess.run(["sh", "-euc", lines], cwd=cwd, env=environment, capture_output=True, text=True,
                          errors="replace", check=False, stdin=subprocess.DEVNULL)
    assert (done.returncode != 0) == fails, f"{lines}\n{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr
