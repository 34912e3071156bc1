"""bindings/c/README.md, bindings/cpp/README.md, docs/misuse.md, docs/guards.md and the programs of docs/collector.md,
followed word for word in a folder outside the repository."""

import pathlib
import re
import subprocess

import pytest

from printed import ROOT, Document, shell

pytestmark = pytest.mark.xdist_group("package")
ACTIVE = r"glebe: program\[\d+\]: version [\d.]+ was active: .*, 0 errors\n"


@pytest.fixture(scope="session")
def home(box, tmp_path_factory):
    """$HOME, where a reader has installed glebe, and the variables that the README exports."""
    box.need("make", "cmake", "pkg-config")
    home = tmp_path_factory.mktemp("home")
    document = Document("bindings/c/README.md", home)
    for line in document.lines("make install").splitlines():
        if line != "make cli":  # the test uses the libraries of `box`
            shell(line, ROOT, env={"HOME": str(home)})
    exports = document.lines("export PATH")
    said = shell(exports + "env", home, env={"HOME": str(home)})
    names = re.findall(r"export (\w+)=", exports)
    return {"HOME": str(home), **{name: re.search(rf"^{name}=(.*)$", said, re.M)[1] for name in names}}


@pytest.fixture
def reader(home, tmp_path):
    """A reader of a document, in a folder of their own."""
    def read(name):
        document = Document(name, tmp_path)
        return lambda part, **how: document.run(part, env=home, **how)
    return read


def test_install(box, home, tmp_path):
    """Every file that the README names is there, and no more; below DESTDIR likewise."""
    prefix = pathlib.Path(home["HOME"], ".local")
    files = {str(p.relative_to(prefix)) for p in prefix.rglob("*") if not p.is_dir()}
    table = (ROOT / "bindings/c/README.md").read_text().split("| installed |")[1].split("\n\n")[0]
    named, folder = set(), ""
    for name in re.findall(r"`([\w./+-]+)`", "".join(row.split("|")[1] for row in table.splitlines()[2:])):
        folder = name.rpartition("/")[0] if "/" in name else folder
        named.add(name if "/" in name else f"{folder}/{name}")
    for name in named:
        assert any(file.startswith(name) if name.endswith("/") else file == name for file in files), name
    other = {file for file in files if not re.sub(r"\.so\..*", ".so", file).startswith(tuple(named))}
    assert not other
    assert {f"lib/pkgconfig/glebe{kind}.pc" for kind in ("", "-static", "-override")} <= files
    assert {f"share/doc/glebe/LICENSE{kind}" for kind in ("", "-MIT", "-APACHE")} <= files
    shell(f"make install PREFIX=/opt/glebe DESTDIR={tmp_path}", ROOT)
    assert {str(p.relative_to(tmp_path / "opt/glebe")) for p in tmp_path.rglob("*") if not p.is_dir()} == files


def test_the_installed_command(home):
    """It has its library inside, wherever it is."""
    assert shell("glebe run -v -- echo hello", home["HOME"], env=home).startswith("hello\n")


def test_malloc(reader):
    read = reader("bindings/c/README.md")
    read("cc program.c")
    assert re.fullmatch("hello\n" + ACTIVE, read("GLEBE_VERBOSE=1 ./program"))


def test_malloc_without_the_symbol(reader, home, tmp_path):
    """Control: it is -u that takes the archive in."""
    read = reader("bindings/c/README.md")
    flags = shell("pkg-config --libs glebe-override", tmp_path, env=home)
    shell("cc program.c " + re.sub(r"-Wl,-u\S+", "", flags).strip() + " -o program", tmp_path)
    assert read("GLEBE_VERBOSE=1 ./program") == "hello\n"


@pytest.mark.parametrize("kept", [True, False])
def test_malloc_of_the_shared_library(reader, home, tmp_path, kept):
    """pkg-config's line for the shared library takes it in under --as-needed; control: by --no-as-needed."""
    read = reader("bindings/c/README.md")
    flags = shell("pkg-config --libs glebe", tmp_path, env=home).strip()
    flags = flags if kept else flags.replace("-Wl,--push-state,--no-as-needed", "-Wl,--push-state")
    shell(f"cc -Wl,--as-needed program.c {flags} -Wl,-rpath,$HOME/.local/lib -o program", tmp_path, env=home)
    assert re.fullmatch("hello\n" + (ACTIVE if kept else ""), read("GLEBE_VERBOSE=1 ./program"))


@pytest.mark.parametrize("flags", ["", "-static", "-static-libstdc++ -static-libgcc"])
def test_bad_alloc(home, tmp_path, flags):
    """pkg-config's line does for C++ too: operator new throws, with a C++ runtime in the program as well."""
    source = ROOT / "test/package/ends_memory.cpp"
    shell(f"c++ {flags} {source} $(pkg-config --libs glebe-override) -o program 2>/dev/null", tmp_path, env=home)
    assert shell("./program", tmp_path) == "handler 1, caught\n"


@pytest.mark.parametrize("package", ["glebe-static", "glebe-override"])
def test_heaps(reader, home, tmp_path, package):
    read = reader("bindings/c/README.md")
    if package == "glebe-static":
        said = read("cc heaps.c $(pkg-config")
    else:
        said = shell(f"cc heaps.c $(pkg-config --cflags --libs {package}) -o heaps && ./heaps", tmp_path, env=home)
    assert 60_000 < int(re.fullmatch(r"(\d+) blocks in 65\d\d\d KiB\n", said)[1]) < 68_000


def test_cmake(reader):
    said = reader("bindings/c/README.md")("cmake -S . -B build")
    assert "hello\n" in said and re.search(ACTIVE, said)
    assert re.search(r"\d+ blocks in \d+ KiB\n", said)


@pytest.mark.long # test_malloc_without_a_build_system
def test_without_a_build_system(reader, tmp_path):
    reader("bindings/c/README.md")("heaps.c $GLEBE/src/glebe.c")
    assert " blocks in " in subprocess.run([tmp_path / "heaps"], capture_output=True, text=True, check=True).stdout


@pytest.mark.more
def test_malloc_without_a_build_system(reader):
    """Two sources of override/ take malloc over; control: the line would say `beside another malloc` without them."""
    said = reader("bindings/c/README.md")("override/override.c")
    assert re.fullmatch("hello\n" + ACTIVE.replace("program", "whole"), said)


def test_cpp(reader):
    """The C++ README's program, by its lines and by CMake's."""
    read = reader("bindings/cpp/README.md")
    assert read("c++ -std=c++17") == "4 words\n"
    assert read("cmake -S . -B build").endswith("\n4 words\n")


def test_collected_list(reader):
    assert reader("docs/collector.md")("list.c") == "1000000 objects allocated, 1000 live\n"


def test_collected_trees(reader, home, tmp_path):
    """The stack is the root; without the marker the trees are lost."""
    read = reader("docs/collector.md")
    assert read("trees.c") == "32767 nodes kept\n"
    program = tmp_path / "trees.c"
    text = program.read_text()
    marked = re.sub(r"^ *glebe_gc_on_mark.*\n", "", text, flags=re.M)
    assert marked != text
    program.write_text(marked)
    lines = "cc -O2 -Wno-unused-function trees.c $(pkg-config --cflags --libs glebe-static) -o trees; "
    assert "32767 nodes kept" not in shell(lines + "./trees || true", tmp_path, env=home)


@pytest.mark.more
@pytest.mark.parametrize("how", ["gcc -O0", pytest.param("gcc -O3 -flto", marks=pytest.mark.long), "clang -O0",
                                 pytest.param("clang -O3", marks=pytest.mark.long),
                                 pytest.param("gcc -O1 -fsanitize=address,undefined", marks=pytest.mark.long)])
def test_collected_trees_by(reader, tmp_path, how):
    """The same with other compilers, with the core in one piece with the program, and under AddressSanitizer."""
    reader("docs/collector.md")
    shell(f"{how} -I$GLEBE/include trees.c $GLEBE/src/glebe.c -o trees", tmp_path)
    assert shell("./trees", tmp_path, env={"ASAN_OPTIONS": "detect_stack_use_after_return=0"}) == "32767 nodes kept\n"


@pytest.mark.parametrize("build", ["secure", "audit", "default"])
def test_misuse(home, tmp_path, build):
    """The command finds the double free with each build, and without glebe nothing of ours does."""
    document = Document("docs/misuse.md", tmp_path)
    lines = document.lines("cc twice.c")
    named = build != "default"
    assert f"glebe run {f'--{build} ' * named}--" in document.text
    said = shell(lines.replace("--secure ", f"--{build} " * named), tmp_path, env=home, fails=True)
    form = re.search(r"^    (glebe: free\(0x)\w+(\).*)$", document.text, re.M)
    assert re.search(re.escape(form[1]) + r"\w+" + re.escape(form[2]), said), said
    assert "glebe" not in shell("./twice || true", tmp_path)


def test_guards(home, tmp_path):
    """The program of the page ends with the report that the page shows, and `glebe report` names the same lines. Only
    x86 says whether an access reads."""
    document = Document("docs/guards.md", tmp_path)
    shown = re.findall(r"^ {4}(?:glebe|server)[^\n]*\n(?: {6}.*\n)+", document.text, re.M)
    said = document.run("cc -g server.c", env=home, fails=True)
    told = shell("glebe report found.json", tmp_path, env=home)
    assert len(shown) == 2
    for form, text in zip(shown, (said, told)):
        for line in form.splitlines():
            words = re.split(r"0x\w+|\[\d+\]|/home/me|\): read|\.\.\.", line.strip())
            assert re.search(".*".join(map(re.escape, words)), text), f"{line}\n{text}"
    assert "glebe" not in shell("./server", tmp_path)
