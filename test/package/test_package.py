"""What a user gets: the installed tree, found by CMake and pkg-config, moved elsewhere, stripped; the header in every
language; the C++ headers with real containers."""

import pathlib
import re
import shutil
import subprocess

import pytest

FOLDER = pathlib.Path(__file__).parent
pytestmark = pytest.mark.xdist_group("package") # they share what is built at first


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def take_objects(root, made, build):
    """Compiling takes most of a tree's time. So a target that has the same flags in both trees gets the objects that
    `make lib` compiled, unless a source is newer."""
    folders = ("src", "include", "override", "bindings/mimalloc", "bindings/libgc")
    sources = max(path.stat().st_mtime for folder in folders
                  for path in (root / folder).rglob("*.[ch]"))
    for flags in build.glob("CMakeFiles/*.dir/flags.make"):
        same = made / flags.relative_to(build)
        if same.exists() and same.read_text() == flags.read_text():
            for compiled in same.parent.rglob("*.o"):
                if compiled.stat().st_mtime > sources:
                    to = build / compiled.relative_to(made)
                    to.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(compiled, to)


@pytest.fixture(scope="session")
def tree(box, tmp_path_factory, request):
    """A CMake tree of this source, built once for these tests; the quick run takes that of `make lib`."""
    box.need("cmake")
    made = box.root / "build/cmake"
    if "not more" in request.config.option.markexpr and (made / "CMakeCache.txt").exists():
        return made
    build = tmp_path_factory.mktemp("tree")
    run("cmake", "-S", box.root, "-B", build)
    take_objects(box.root, made, build)
    run("cmake", "--build", build, "--parallel", "2")
    return build


@pytest.fixture(scope="session")
def prefix(tree, tmp_path_factory):
    """Where it is installed, and then moved to: nothing in it may remember the first place."""
    first = tmp_path_factory.mktemp("first") / "prefix"
    run("cmake", "--install", tree, "--prefix", first, "--strip")
    second = tmp_path_factory.mktemp("second") / "moved"
    shutil.move(first, second)
    return second


@pytest.fixture(scope="session")
def consumer(prefix, tmp_path_factory):
    build = tmp_path_factory.mktemp("consumer")
    run("cmake", "-S", FOLDER / "consumer", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build, "--parallel", "2")
    return build


def library_dir(prefix):
    return next(prefix.glob("**/libglebe.so")).parent


def test_installed_files(prefix):
    """Headers, six libraries, and what finds them: no more, and no path of the build."""
    names = sorted(str(p.relative_to(prefix)) for p in prefix.rglob("*") if p.is_file())
    wanted = {"include/glebe.h", "include/glebe/heap.hpp", "include/glebe/allocator.hpp",
              "include/glebe/memory_resource.hpp"}
    assert wanted <= set(names)
    libraries = {re.sub(r"\.so\..*", ".so", p.name) for p in library_dir(prefix).iterdir() if p.is_file()}
    assert libraries == {"libglebe.so", "libglebe-secure.so", "libglebe-audit.so", "libglebe-safe.so", "libglebe.a",
                         "libglebe-override.a"}
    for path in prefix.rglob("*"):
        if path.suffix in {".pc", ".cmake"}:
            assert "/first" not in path.read_text() and str(FOLDER.parent.parent) not in path.read_text(), path


def test_installed_symbols(box, prefix):
    """Stripped, the libraries keep what they export."""
    out = run("nm", "-D", "--defined-only", library_dir(prefix) / "libglebe.so")
    names = {line.split()[-1].split("@")[0] for line in out.splitlines()}
    assert {"malloc", "free", "calloc", "realloc", "glebe_malloc", "glebe_check", "_Znwm", "_ZdlPv",
            "glebe_live"} <= names
    assert not [name for name in names if name.startswith("gb_")]


@pytest.mark.parametrize("name, malloc",
                         [("use-shared", "glebe"), ("use-static", "the C library's"), ("use-override", "glebe")])
def test_find_package(consumer, name, malloc):
    """glebe::glebe and glebe::override take over malloc, glebe::static does not."""
    assert run(consumer / name) == f"works, malloc is {malloc}\n"


def test_override_in_a_program_that_names_no_malloc(consumer):
    """operator new and the C++ library's own malloc are glebe's in a program whose objects never ask for malloc."""
    done = subprocess.run([consumer / "names-no-malloc"], capture_output=True, text=True, check=True,
                          env={"GLEBE_VERBOSE": "1"})
    assert done.stdout.startswith("7 4096 "), done.stdout  # 4000 bytes come from the class of 4096
    assert "was active" in done.stderr
    undefined = run("nm", "-u", next(consumer.glob("**/names_no_malloc.cpp.o")))
    assert not re.search(r"\bmalloc\b", undefined), "the program names malloc, so it shows nothing"


@pytest.mark.parametrize("library, active", [("glebe", True), ("static", False)])
def test_shared_in_a_program_of_which_only_libraries_call_malloc(consumer, library, active):
    """glebe::glebe stays in even if the linker drops what the program's own objects do not call."""
    done = subprocess.run([consumer / f"only-libraries-{library}"], capture_output=True, text=True, check=True,
                          env={"GLEBE_VERBOSE": "1"})
    assert done.stdout == "said\n" and ("was active" in done.stderr) == active


@pytest.mark.parametrize("name", ["ends-memory", "ends-memory-static", "ends-memory-static-runtime"])
def test_bad_alloc_in_static_programs(consumer, name):
    """operator new calls the new_handler and throws also where the C++ runtime is an archive."""
    assert run(consumer / name) == "handler 1, caught\n"


@pytest.mark.parametrize("name", ["containers", "containers-static"])
def test_cpp_headers(consumer, name):
    """heap, memory_resource and allocator under vector, map, string, list, unordered_map and the pmr containers."""
    run(consumer / name)


@pytest.mark.parametrize("variant", ["libglebe-secure.so", "libglebe-audit.so"])
def test_cpp_headers_in_other_builds(consumer, prefix, variant):
    run(consumer / "containers", env={"LD_PRELOAD": str(library_dir(prefix) / variant)})


def test_pkg_config(box, prefix, tmp_path):
    """pkg-config in the moved tree, shared and static."""
    box.need("pkg-config")
    env = {"PKG_CONFIG_PATH": str(next(prefix.glob("**/pkgconfig"))), "PATH": "/usr/bin:/bin"}
    flags = run("pkg-config", "--cflags", "--libs", "glebe", env=env).split()
    run("gcc", FOLDER / "consumer/use.c", "-o", tmp_path / "use", *flags, f"-Wl,-rpath,{library_dir(prefix)}")
    assert run(tmp_path / "use") == "works, malloc is glebe\n"
    static = run("pkg-config", "--static", "--cflags", "--libs", "glebe", env=env).split()
    run("gcc", "-static", FOLDER / "consumer/use.c", "-o", tmp_path / "use-static", *static)
    assert run(tmp_path / "use-static") == "works, malloc is the C library's\n"
    header = (prefix / "include/glebe.h").read_text()
    version = ".".join(re.search(rf"GLEBE_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH"))
    assert run("pkg-config", "--modversion", "glebe", env=env).strip() == version


@pytest.mark.parametrize("package, malloc", [("glebe", "glebe"), ("glebe-static", "the C library's"),
                                             ("glebe-override", "glebe")])
def test_pkg_config_in_a_folder_with_a_space(box, prefix, tmp_path, package, malloc):
    """A shell that reads the flags again gets each path in one piece; without quotes they would be pieces."""
    box.need("pkg-config")
    folder = tmp_path / "a b"
    folder.symlink_to(prefix)
    pc = next(prefix.glob("**/pkgconfig")).relative_to(prefix)
    env = {"PKG_CONFIG_PATH": str(folder / pc), "PATH": "/usr/bin:/bin",
           "LD_LIBRARY_PATH": str(library_dir(prefix))}
    flags = run("pkg-config", "--cflags", "--libs", package, env=env).strip()
    assert r"a\ b" in flags
    source = FOLDER / "consumer/use.c"
    run("sh", "-c", f"eval 'gcc {source} -o use {flags}'", cwd=tmp_path, env=env)
    assert run(tmp_path / "use", env=env) == f"works, malloc is {malloc}\n"


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_older_cpp_is_told_what_it_needs(box, compiler):
    box.need(compiler)
    headers = [f"-I{box.root / folder}" for folder in ("include", "bindings/cpp/include")]
    done = subprocess.run([compiler, "-std=c++14", *headers, "-fsyntax-only", "-x", "c++", "-"], text=True, check=False,
                          input="#include <glebe/allocator.hpp>\n", capture_output=True)
    assert done.returncode and "C++ headers need C++17: compile with -std=c++17" in done.stderr, done.stderr


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("standard", ["c99", "c11", "c17", "c2x", "c++11", "c++17", "c++20"])
def test_header_in_every_language(box, compiler, standard):
    """glebe.h compiles without a warning."""
    box.need(compiler)
    language = "c++" if "+" in standard else "c"
    run(compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
        f"-I{box.root / 'include'}", "-fsyntax-only", FOLDER / "header.c")


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("standard", ["c++17", "c++20"])
@pytest.mark.parametrize("header", ["heap", "memory_resource", "allocator"])
def test_cpp_headers_alone(box, compiler, standard, header):
    """Each C++ header compiles alone and without a warning."""
    box.need(compiler)
    run(compiler, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror",
        f"-I{box.root / 'include'}",
        f"-I{box.root / 'bindings/cpp/include'}", "-x", "c++", "-fsyntax-only", "-",
        input=f"#include <glebe/{header}.hpp>\n")


def test_linking_as_the_readme_has_it(box, tmp_path):
    """The README's line takes glebe into a program in which only the C library calls malloc; without -u it stays
    out."""
    line = re.search(r"`(cc program\.c [^`]*libglebe-override\.a)`", (box.root / "README.md").read_text())[1]
    (tmp_path / "program.c").write_text('#include <stdio.h>\n#include <string.h>\nint main(void) { return '
                                        'puts(strdup("said")) < 0; }\n')
    (tmp_path / "build").symlink_to(box.libraries)
    for command, has in ((line, True), (line.replace("-Wl,-u,malloc ", ""), False)):
        run(*command.split(), cwd=tmp_path)
        done = subprocess.run([tmp_path / "a.out"], capture_output=True, text=True, check=True,
                              env={"GLEBE_VERBOSE": "1"})
        assert done.stdout == "said\n" and ("was active" in done.stderr) == has


@pytest.mark.more # test_printed.py: test_without_a_build_system
def test_one_command_build(box, tmp_path):
    """Without CMake: the unity file compiles with no special flag."""
    run("cc", "-O2", "-c", box.root / "src/glebe.c", "-o", tmp_path / "glebe.o", cwd=tmp_path)
    run("cc", FOLDER / "consumer/use.c", f"-I{box.root / 'include'}", tmp_path / "glebe.o", "-o", tmp_path / "use",
        "-pthread")
    assert run(tmp_path / "use") == "works, malloc is the C library's\n"
