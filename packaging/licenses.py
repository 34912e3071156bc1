"""The file THIRD-PARTY-LICENSES of a package: what is linked into the command besides glebe, and under which licence.

    Crate 1.2.3        MIT OR Apache-2.0        [4] [17]        one line for each crate, and for the rest below
    ...
    ==== [4] ====                                               each text once, as it lies in the source
    MIT License ...

The texts are read where the build takes the code from, so none is kept in the repository:

1. Crates: the licence files in cargo's unpacked sources, for each crate that `cargo metadata` leads to from the command
   by dependencies that are not for tests alone. Below the first folder only C sources have texts of their own.
2. Rust's standard library: the page that comes with the compiler has most of its crates, with their texts.
3. The C side: zig's musl, unwinder and compiler library; for Windows the runtime of mingw-w64, from Debian's package.

A crate without a licence file gets the text that the compiler's documentation has of the first licence in its manifest,
with the manifest's authors. A licence that is not in ALLOWED stops the build.
"""

import html.parser
import json
import pathlib
import re

from job import die

NAME = "THIRD-PARTY-LICENSES"
# What asks only that its text, or a mention, comes along.
ALLOWED = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Zlib",
           "Unicode-3.0", "0BSD", "MPL-2.0"}
HOLDER = "<year> <copyright holders>"  # in the standard text
OWN = {"glebe", "glebe-cli"}
# Parts of Rust's standard library that lie in its own repository, and have its licence.
IN_TREE = {"alloc", "compiler_builtins", "core", "panic_abort", "panic_unwind", "proc_macro", "profiler_builtins",
           "rustc_std_workspace_alloc", "rustc_std_workspace_core", "rustc_std_workspace_std", "std", "std_detect",
           "sysroot", "test", "unwind"}
SHORTEST = 100  # characters: a packed link is only a path, and other files name a licence in a line
FILES = re.compile(r"(?i)(li[cs]en[cs]e|copying|copyright|notice|unlicense)")
HEAD = """\
Third-party software in the command `glebe` and the libraries of this package
==============================================================================

glebe itself is under the MIT licence or the Apache License 2.0, as you choose. This file was made when the package was
built. It names all else that may be linked in, and the numbers of the texts below.
"""


def is_allowed(expression):
    """True if an SPDX expression can be fulfilled by licences in ALLOWED. Old manifests write / for OR."""
    words = re.findall(r"[()]|[\w.+-]+(?: WITH [\w.+-]+)?", expression.replace("/", " OR "))
    known = {"AND": "and", "OR": "or", "(": "(", ")": ")"}
    return bool(words) and eval(" ".join(known.get(word, str(word in ALLOWED)) for word in words))  # noqa: S307


class Texts:
    """Numbered texts. Two that differ only in white space are one."""

    def __init__(self):
        self.numbers, self.rows, self.bodies = {}, [], []

    def number(self, text):
        key = " ".join(text.split())
        if len(key) < SHORTEST:
            die(f"this is no licence text: {key}")
        if key not in self.numbers:
            self.numbers[key] = len(self.bodies) + 1
            lines = (line.rstrip() for line in text.replace("\r\n", "\n").replace("\f", "\n").splitlines())
            self.bodies.append("\n".join(lines).strip("\n"))
        return self.numbers[key]

    def add(self, name, expression, texts):
        found = sorted({self.number(text) for text in texts})
        if not found:
            die(f"{name} ({expression}) has no licence text")
        self.rows.append((name, expression, " ".join(f"[{number}]" for number in found)))

    def __str__(self):
        widths = [max(len(row[i]) for row in self.rows) for i in (0, 1)]
        table = "\n".join(f"{name:{widths[0]}}  {expression:{widths[1]}}  {found}"
                          for name, expression, found in self.rows)
        bodies = "".join(f"\n==== [{i}] ====\n\n{body}\n" for i, body in enumerate(self.bodies, 1))
        return f"{HEAD}\n{table}\n{bodies}"


class Notices(html.parser.HTMLParser):
    """Reads the compiler's page: `crates` has [expression, texts] by name and version, `words` what it says of the
    library's own files."""

    def __init__(self):
        super().__init__()
        self.crates, self.words, self.inside, self.is_label = {}, [], [], False

    def handle_starttag(self, tag, attrs):
        self.inside.append(tag)
        if tag == "pre":
            self.last()[1].append("")

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass  # <meta> has no end

    def last(self):
        return self.crates[next(reversed(self.crates))]

    def handle_data(self, data):
        words = " ".join(data.split())
        if "pre" in self.inside:
            self.last()[1][-1] += data
        elif self.inside[-1:] == ["h3"]:
            self.crates[words.split()[-1]] = ["", []]
        elif not self.crates and "head" not in self.inside and words:
            self.words.append(words)
        elif self.is_label and words:
            self.last()[0], self.is_label = words, False
        else:
            self.is_label |= words == "License:"


def metadata(job, folder, *options):
    return json.loads(job.run("cargo", "metadata", "--locked", "--format-version=1", "--quiet", *options, cwd=folder))


def crates(job, folder, target):
    """The packages that the command is made of, by cargo."""
    found = metadata(job, folder, f"--filter-platform={target}")
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node["deps"] for node in found["resolve"]["nodes"]}
    ids = [key for key, package in packages.items() if package["name"] == "glebe-cli"]
    for key in ids:
        ids += [dep["pkg"] for dep in nodes[key]
                if dep["pkg"] not in ids and any(kind["kind"] != "dev" for kind in dep["dep_kinds"])]
    return sorted((packages[key] for key in ids if packages[key]["name"] not in OWN),
                  key=lambda package: (package["name"], package["version"]))


def texts_of(package, standard):
    """The licence files of a crate's sources, or the standard text of the first licence that it offers."""
    top = pathlib.Path(package["manifest_path"]).parent
    files = [path for path in sorted(top.iterdir()) if FILES.match(path.name) and path.is_file()]
    if package["links"]:  # C sources; a COPYING beside a LICENSE would be another choice
        files += sorted(top.glob("*/LICENSE*"))
    texts = [text for text in (path.read_text(errors="replace") for path in files) if len(text) >= SHORTEST]
    if texts:
        return texts
    choices = re.split(r" OR |/", package["license"] or "")
    text = next((path.read_text() for path in (standard / f"{name.strip()}.txt" for name in choices)
                 if path.exists()), None)
    if text is None:
        die(f"{package['name']} {package['version']} ({package['license']}) has no licence file, and {standard} has no "
            "such text")
    authors = ", ".join(package["authors"]) or f"the authors of {package['name']}"
    return [text.replace(HOLDER, authors)]


def third_party(job, folder, target):
    """The file's content for one target of the command."""
    texts = Texts()
    sysroot = pathlib.Path(job.run("rustc", "--print", "sysroot", cwd=folder).strip())
    standard = sysroot / "share/doc/rust/licenses"
    for package in crates(job, folder, target):
        expression = package["license"] or ""
        name = f"{package['name']} {package['version']}"
        if not is_allowed(expression):
            die(f"{name} is under {expression or 'no licence'}; packaging/licenses.py has what is allowed")
        texts.add(name, expression, texts_of(package, standard))
    rust_side(job, folder, target, texts, sysroot)
    c_side(job, target, texts)
    return str(texts)


def rust_side(job, folder, target, texts, sysroot):
    """The standard library, and the crates that it is built of. The compiler's page lists those for all targets, and
    leaves out some that are linked, which the command has in a version of its own."""
    page = sysroot / "share/doc/rust/COPYRIGHT-library.html"
    if not page.exists():
        die(f"{page} is missing: rustup's compilers have it since 1.85")
    version = job.run("rustc", "--version", cwd=folder).split()[1]
    notices = Notices()
    notices.feed(page.read_text())
    licenses = [page.with_name("licenses") / f"{name}.txt" for name in
                ("MIT", "Apache-2.0", "LLVM-exception", "Unicode-3.0")]
    standard = (path.read_text().replace(HOLDER, "The Rust Project Developers") for path in licenses)
    texts.add(f"Rust's standard library {version}", "(MIT OR Apache-2.0) AND Apache-2.0 WITH LLVM-exception AND "
              "Unicode-3.0", ["\n".join(notices.words), *standard])
    own = {package["name"]: package for package in metadata(job, folder)["packages"]}
    listed = {name.rpartition("-")[0]: (name, *found) for name, found in notices.crates.items()}
    for name in sorted({path.name[3:].rpartition("-")[0] for path in
                        (sysroot / f"lib/rustlib/{target}/lib").glob("*.rlib")} - IN_TREE):
        name = name if name in listed or name in own else name.replace("_", "-")
        if name in listed:
            full, expression, found = listed[name]
            texts.add(f"{' '.join(full.rsplit('-', 1))}, in Rust's library", expression, found)
        elif name in own:
            texts.add(f"{name}, in Rust's library", own[name]["license"], texts_of(own[name], page.parent / "licenses"))
        else:
            die(f"{name} is part of Rust's standard library, and {page} has no text for it")


def c_side(job, target, texts):
    if "windows" in target:
        package = "mingw-w64-x86-64-dev"
        version = job.run("dpkg-query", "-W", "-f=${Version}", package)
        texts.add(f"the runtime of mingw-w64 {version}", "ZPL-2.1 AND others",
                  [pathlib.Path(f"/usr/share/doc/{package}/copyright").read_text()])
        return
    code = "import ziglang; print(ziglang.__path__[0])"
    zig = pathlib.Path(job.run(job.python, "-c", code).strip())
    version = job.run(job.python, "-m", "ziglang", "version").strip()
    texts.add(f"zig's compiler library {version}", "MIT", [(zig / "LICENSE").read_text()])
    texts.add(f"LLVM's unwinder, of zig {version}", "Apache-2.0 WITH LLVM-exception",
              [(zig / "lib/libunwind/LICENSE.TXT").read_text()])
    if "musl" in target:
        texts.add(f"musl, of zig {version}", "MIT", [(zig / "lib/libc/musl/COPYRIGHT").read_text()])
