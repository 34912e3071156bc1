"""Three TeX engines, each prepared to typeset the book again: contents, references and index are complete, as in an
author's n-th run.

    lualatex    Debian's LuaHBTeX with LaTeX: fontspec, unicode-math, microtype, TikZ, hyperref
    mkiv        ConTeXt MkIV on Debian's LuaTeX
    lmtx        ConTeXt LMTX on LuaMetaTeX of a newer Debian: unpacked from its packages into build/, with its own C
                library

prepare(chapters) makes the files that all runs share; command(allocator) is the measured command, to be run in
`folder`. Formats, font caches and all other files are in build/bench-tex (or $BENCH_TEX), so that the bench does not
touch a user's own TeX.
"""

import functools
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OUT = pathlib.Path(os.environ.get("BENCH_TEX", ROOT / "build/bench-tex"))
LUAMETATEX_FROM = "trixie"
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def environment(**more):
    """The environment of a run, without variables that could affect the document."""
    keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**keep, "LC_ALL": "C.UTF-8", "SOURCE_DATE_EPOCH": "1000000000", "FORCE_SOURCE_DATE": "1", **more}


def preloaded(allocator):
    """The start of a command: `env` sets the variable, so that only the engine runs under the allocator."""
    return ["env", f"LD_PRELOAD={allocator.preload}"] if allocator.preload else []


class Engine:
    """`ready` is the folder with the book and its auxiliary files; each run starts from a copy of it, `folder`."""

    def __init__(self, name, book):
        self.name, self.book = name, book
        self.ready, self.folder = OUT / name / "ready", OUT / name / "run"

    def prepare(self, chapters, plain):
        """Makes the format if there is none, and runs until the document is stable, under the C library's malloc."""
        self.ready.mkdir(parents=True, exist_ok=True)
        self.setup(plain)
        sources = [HERE / "generate.py", HERE / self.book, HERE / "engines.py"]
        stamp, key = self.ready / ".made", f"{chapters} {[path.stat().st_mtime for path in sources]}"
        if stamp.exists() and stamp.read_text() == key:
            return
        shutil.rmtree(self.ready)
        self.ready.mkdir()
        subprocess.run([sys.executable, HERE / "generate.py", self.ready, str(chapters)], check=True)
        shutil.copy(HERE / self.book, self.ready)
        for _ in range(3):
            subprocess.run(self.command(plain), cwd=self.ready, env=self.environment(), check=False, **QUIET)
            self.between()
        stamp.write_text(key)

    def setup(self, plain):
        pass

    def between(self):
        pass

    @property
    def pdf(self):
        return self.folder / pathlib.Path(self.book).with_suffix(".pdf").name

    def fresh(self):
        """Restores the folder to its state before any run."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.ready, self.folder)


class LuaLatex(Engine):
    def __init__(self):
        super().__init__("lualatex", "book-latex.tex")
        self.cache = OUT / "lualatex/cache"

    def missing(self):
        return None if shutil.which("lualatex") else "no lualatex: tools/setup tex"

    def environment(self):
        return environment(TEXMFCACHE=str(self.cache))

    def setup(self, plain):
        self.cache.mkdir(parents=True, exist_ok=True)  # of fonts; the first run fills it, which takes half a minute

    def between(self):
        subprocess.run(["makeindex", "-q", "book-latex"], cwd=self.ready, env=self.environment(), check=False, **QUIET)

    def command(self, allocator):
        return [*preloaded(allocator), "lualatex", "-interaction=batchmode", self.book]


class Context(Engine):
    # The arguments that ConTeXt's own runner passes to the engine.
    told = ["--c:currentrun=1", "--c:fulljobname=./book-context.tex", "--c:input=./book-context.tex", "--c:kindofrun=3",
            "--c:maxnofruns=1", "--c:once"]

    def __init__(self, name):
        super().__init__(name, "book-context.tex")

    def between(self):
        """Passes a run's results to the next one, as ConTeXt's own runner does."""
        learnt = self.ready / "book-context.tua"
        if learnt.exists():
            learnt.replace(learnt.with_suffix(".tuc"))


class Mkiv(Context):
    def __init__(self):
        super().__init__("mkiv")
        self.cache = OUT / "mkiv/cache"

    def missing(self):
        return None if shutil.which("mtxrun") and shutil.which("luatex") else "no ConTeXt: tools/setup tex"

    def environment(self):
        return environment(TEXMFCACHE=str(self.cache))

    @property
    def format(self):
        return next(self.cache.glob("luatex-cache/context/*/formats/luatex/cont-en.fmt"), None)

    def setup(self, plain):
        if not self.format:
            self.cache.mkdir(parents=True, exist_ok=True)
            for command in (["mtxrun", "--generate"], ["mtxrun", "--script", "context", "--make", "cont-en"]):
                subprocess.run(command, env=self.environment(), cwd=self.cache, check=False, **QUIET)
        if not self.format:
            sys.exit("ConTeXt's format could not be made")

    def command(self, allocator):
        return [*preloaded(allocator), "luatex", "--jobname=book-context", "--shell-escape", "--interaction=batchmode",
                f"--fmt={self.format}", f"--lua={self.format.with_suffix('.lui')}", "cont-yes.mkiv", *self.told]


class Lmtx(Context):
    """The loader of the program's own C library starts it, and finds libmimalloc.so.3 in the first folder of its
    path."""

    def __init__(self):
        super().__init__("lmtx")
        self.top = OUT / "lmtx"
        self.debian, self.cache = self.top / "debian", self.top / "cache"
        self.libraries = self.debian / "usr/lib/x86_64-linux-gnu"
        self.program = self.debian / "usr/bin/luametatex"

    @functools.cache
    def missing(self):
        if not self.program.exists():
            problem = self.fetch()
            if problem:
                return problem
        return None

    def fetch(self):
        """Fetches the packages by apt with private lists, and unpacks them without installing: the system does not
        change."""
        if not shutil.which("apt-get") or os.uname().machine != "x86_64":
            return "LuaMetaTeX is had from Debian's packages for x86-64 only"
        shown = subprocess.run(["apt-get", "indextargets", "--format", "$(LABEL) $(COMPONENT) $(REPO_URI)"],
                               capture_output=True, text=True, check=False).stdout
        mirror = next((line.split()[2] for line in shown.splitlines() if line.startswith("Debian main ")), None)
        if not mirror:
            return "no package source of Debian's here that could have LuaMetaTeX"
        apt = self.top / "apt"
        (apt / "lists/partial").mkdir(parents=True, exist_ok=True)
        (apt / "sources.list").write_text(
            f"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {mirror} {LUAMETATEX_FROM} main\n")
        (apt / "status").touch()
        (apt / "apt.conf").write_text(f'Dir::State "{apt}"; Dir::State::status "{apt}/status"; Dir::Cache "{apt}";\n'
                                      f'Dir::Etc::SourceList "{apt}/sources.list"; Dir::Etc::SourceParts "-";\n')
        own = {**os.environ, "APT_CONFIG": str(apt / "apt.conf")}
        for command in (["update"], ["download", "context", "luametatex", "libmimalloc3", "libc6"]):
            done = subprocess.run(["apt-get", "-q", *command], cwd=apt, env=own, capture_output=True, text=True,
                                  check=False)
            if done.returncode:
                return f"apt-get {command[0]} for {LUAMETATEX_FROM}: {done.stderr.strip().splitlines()[-1]}"
        for package in apt.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, self.debian], check=True)
            package.unlink()
        return None if self.program.exists() else "the packages hold no LuaMetaTeX"

    def environment(self):
        return environment(TEXMFCNF=str(self.top / "cnf"))

    def engine(self, allocator, program="luametatex"):
        before = allocator.mimalloc and [allocator.mimalloc] or []
        return [*preloaded(allocator), str(self.libraries / "ld-linux-x86-64.so.2"), "--library-path",
                ":".join(map(str, (*before, self.libraries))), str(self.debian / "usr/bin" / program)]

    @property
    def format(self):
        return next(self.cache.glob("luametatex-cache/context/*/formats/luametatex/cont-en.fmt"), None)

    def setup(self, plain):
        """Makes a tree for ConTeXt from the package's files and the system's fonts, and then the format, as
        `mtxrun --make` would."""
        if self.format:
            return
        (self.top / "cnf").mkdir(exist_ok=True)
        (self.top / "fonts").mkdir(exist_ok=True)
        if not (self.top / "fonts/fonts").exists():
            (self.top / "fonts/fonts").symlink_to("/usr/share/texmf/fonts")
        searched = {"TEXINPUTS": "tex/{context,plain/base,generic}//", "MPINPUTS": "metapost/{context,base,}//",
                    "LUAINPUTS": "{tex,scripts}/context//", "TEXMFSCRIPTS": "scripts/context/lua//",
                    "OPENTYPEFONTS": "fonts/opentype//",
                    "T1FONTS": "fonts/type1//", "AFMFONTS": "fonts/afm//", "TFMFONTS": "fonts/tfm//",
                    "ENCFONTS": "fonts/enc//", "TEXFONTMAPS": "fonts/map//"}
        lines = [f'TEXMFSYSVAR = "{self.cache}", TEXMFCACHE = "{self.cache}",',
                 f'TEXMF = "{{{self.debian}/usr/share/texmf,{self.top}/fonts}}",',
                 *(f'{name} = ".;$TEXMF/{where}",' for name, where in searched.items())]
        (self.top / "cnf/texmfcnf.lua").write_text(
            'return { type = "configuration", version = "1.1.0", content = { variables = {\n' + "\n".join(lines)
            + "\n} } }\n")
        self.cache.mkdir(exist_ok=True)
        subprocess.run([*self.engine(plain, "mtxrun"), "--generate"], env=self.environment(), check=False, **QUIET)
        subprocess.run([*self.engine(plain, "mtxrun"), "--make", "cont-en"], env=self.environment(), check=False,
                       **QUIET)
        # mtxrun has made the folder, but could not start the engine, since it does not use the loader.
        target = next(self.cache.glob("luametatex-cache/context/*/formats/luametatex"))
        source = self.debian / "usr/share/texmf/tex/context/base/mkxl"
        subprocess.run([*self.engine(plain), "--ini", "--shell-escape", f"--lua={source}/luat-cod.lmt",
                        f"{source}/cont-en.mkxl"],
                       cwd=target, env=self.environment(), check=False, **QUIET)
        if not self.format:
            sys.exit("LMTX's format could not be made")

    def command(self, allocator):
        return [*self.engine(allocator), "--jobname=book-context", "--shell-escape", f"--fmt={self.format}",
                f"--lua={self.format.with_suffix('.lui')}", f"--c:texmfbinpath={self.debian}/usr/bin", *self.told]


ENGINES = {engine.name: engine for engine in (LuaLatex(), Mkiv(), Lmtx())}
