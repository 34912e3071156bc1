"""The pages' samples in C and C++ compile, and the walkthrough's program does what the page says."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted(p.relative_to(ROOT) for p in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"),
                                             *ROOT.glob("bindings/*/README.md")))


def samples(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def whole(text):
    """Puts a sample of bare statements into a function, with its includes in front."""
    includes = "".join(re.findall(r"^#include.*\n", text, re.MULTILINE))
    rest = re.sub(r"^#include.*\n", "", text, flags=re.MULTILINE)
    if re.search(r"^\w[^;{]*\)\n\{", rest, re.MULTILINE):
        return includes + rest
    return f"#include <glebe.h>\n{includes}void sample(void);\nvoid sample(void)\n{{\n{rest}}}\n"


def compiles(compiler, language, text, *flags):
    done = subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wno-unused-result",
                           f"-I{ROOT / 'include'}", *flags, "-fsyntax-only",
                           "-x", language, "-"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{text}\n{done.stderr}"


# Lua's headers may be elsewhere
@pytest.mark.parametrize("page", [p for p in PAGES if samples(p, "c") and p.name != "lua.md"], ids=str)
def test_samples_in_c(box, page):
    """Each block of C in a page compiles."""
    box.need("cc")
    for text in samples(page, "c"):
        compiles("cc", "c", whole(text))


def test_samples_in_cpp(box):
    """So does each of C++."""
    box.need("c++")
    for text in samples("bindings/cpp/README.md", "cpp"):
        compiles("c++", "c++", text, "-std=c++17", f"-I{ROOT / 'bindings/cpp/include'}")


def test_walkthrough(box, tmp_path):
    """The 42nd block is the first that the other thread freed; with its own frees left out, none is."""
    box.need("cc")
    text = samples("docs/walkthrough.md", "c")[0]
    last = ("    for (int i = 0; i < 42; i++) /* the 42nd is a block that the other thread freed */\n        "
            "blocks[i] = glebe_malloc(40);\n}\n")
    assert text.endswith(last)
    look = """
    for (int i = 0; i < 42; i++) {
        void *block = glebe_malloc(40);
        for (int j = 0; j < N; j++)
            if (block == blocks[j])
                return i + 1;
    }
    return 0;
}
"""
    for source, first in ((text.replace(last, look), 42),
                          (text.replace(last, look).replace("glebe_free(blocks[i])", "(void)i"), 0)):
        (tmp_path / "walk.c").write_text(source)
        done = subprocess.run(["cc", "-O1", "walk.c", f"-I{ROOT / 'include'}", box.library("libglebe.a"), "-pthread",
                               "-o", "walk"], cwd=tmp_path,
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert subprocess.run([tmp_path / "walk"], check=False).returncode == first
