"""The promises of docs/contracts.md, each by a program that relies on it, with each build preloaded.

If a test could pass because it tests nothing, a control shows that it can fail: the same program when the promise is
broken. Deadlines are generous: they bound hangs, and do not measure."""

import collections
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import xml.etree.ElementTree

import pytest

FOLDER = pathlib.Path(__file__).parent
BUILDS = ("default", "secure", "audit")
every_build = pytest.mark.parametrize(
    "build", ["default", *(pytest.param(build, marks=pytest.mark.more) for build in BUILDS[1:])])
MIB = 1 << 20


@pytest.fixture(scope="session")
def program(box):
    """name -> the compiled program, which links with libglebe.so if it calls glebe_*."""
    def make(name, *flags, compiler=None, to="contract", glebe=False, libs=()):
        source = next(FOLDER / (name + suffix) for suffix in (".c", ".cpp") if (FOLDER / (name + suffix)).exists())
        compiler = compiler or ("g++" if source.suffix == ".cpp" else "gcc")
        link = [f"-L{box.libraries}", "-lglebe", f"-Wl,-rpath,{box.libraries}"] if glebe else []
        language = ["-std=c++17"] if source.suffix == ".cpp" else ["-fno-builtin"]
        return box.compile(source, "-O1", "-pthread", *language, *flags, to=to, compiler=compiler,
                           libs=[*libs, *link, "-ldl"])
    return make


def limit(which, soft):
    return lambda: resource.setrlimit(which, (soft, soft))


# ---- mistakes that other allocators forgive -----------------------------------------------------------------------

@every_build
def test_before_a_large_block(box, program, build):
    """The word before a block of some MB reads as zero; in the builds that find mistakes the read faults."""
    done = box.run(program("before"), preload=build)
    assert done.returncode == (0 if build == "default" else -signal.SIGSEGV), done.text


# ---- the family ---------------------------------------------------------------------------------------------------

@every_build
def test_family(box, program, build):
    """The malloc family: alignment, errno, size 0, zeroed memory, bytes kept by realloc, glibc's extras."""
    done = box.check(program("family"), preload=build)
    info = xml.etree.ElementTree.fromstring(done.out)
    assert info.tag == "malloc" and info.get("version").startswith("glebe-")
    assert {"used_bytes", "purges", "errors"} <= {child.tag for child in info}
    assert info.find("errors").text == "0" and info.find("used_bytes").get("unit") == "bytes"
    assert re.search(r"^  used_bytes +\d+\.\d [KM]iB$", done.text, re.M), "malloc_stats prints the statistics"


@every_build
@pytest.mark.parametrize("library", ["libstdc++", "libc++"])
def test_new_and_delete(box, program, build, library):
    """Every form of operator new and delete, new_handler and bad_alloc, with both C++ libraries."""
    if library == "libc++":
        path = program("new_delete", "-stdlib=libc++", compiler=cxx_with_libcxx(), to="contract-libc++")
    else:
        path = program("new_delete", "-Wno-mismatched-new-delete", "-Wno-alloc-size-larger-than")
    box.check(path, preload=build)


def cxx_with_libcxx():
    compiler = next((c for c in ("clang++-19", "clang++") if shutil.which(c) and has_libcxx(c)), None)
    if not compiler:
        pytest.skip("no clang++ with libc++ here: tools/setup test")
    return compiler


def has_libcxx(compiler):
    test = subprocess.run([compiler, "-stdlib=libc++", "-x", "c++", "-", "-o", os.devnull],
                          input="#include <vector>\nint main() {}\n", text=True, capture_output=True, check=False)
    return test.returncode == 0


@every_build
@pytest.mark.parametrize("library", ["libstdc++", "libc++"])
def test_new_in_a_plugin(box, program, build, library):
    """A C program opens a C++ plugin whose runtime glebe cannot see: glebe throws bad_alloc and calls handlers."""
    flags, compiler = (["-stdlib=libc++"], cxx_with_libcxx()) if library == "libc++" else ([], None)
    plugin = program("new_in_plugin", "-shared", "-fPIC", "-Wno-alloc-size-larger-than", *flags, compiler=compiler,
                     to=f"contract-plugin-{library}")
    host = program("new_in_plugin_host")
    assert box.check(host, plugin, preload=None).out == "0\n", "control: with the C library's malloc"
    assert box.check(host, plugin, preload=build).out == "0\n"


def test_new_handler_helps(box, program):
    """If a new_handler frees something, the request is served."""
    path = program("handler_helps")
    box.check(path, limit="64M")
    assert box.run(path).returncode == 1, "control: without a limit the handler is not called"


@every_build
def test_before_main_and_after_exit(box, program, build):
    """Constructors, static objects, atexit, thread_local destructors and destructor functions can allocate."""
    done = box.check(program("early_late"), preload=build)
    assert done.out.split("\n")[:-1] == ["first", "object", "thread_local's end", "main", "thread_local's end",
                                         "atexit", "object's end", "last"]


# ---- threads ------------------------------------------------------------------------------------------------------

@every_build
def test_threads_that_exit(box, program, build):
    """Memory of threads that ended is reused, though other threads freed it."""
    box.check(program("threads_exit"), preload=build, timeout=300)


@every_build
def test_key_destructors(box, program, build):
    """Destructors of thread-specific data allocate and free in all rounds; no heap is lost."""
    box.check(program("key_rounds", glebe=True), preload=build)


@every_build
def test_signal_handler(box, program, build):
    """glebe_usable_size and glebe_version may be called from a signal handler."""
    box.check(program("signals", glebe=True), preload=build)


@every_build
@pytest.mark.parametrize("heaps", [2000, 6000])
def test_heaps_that_were_destroyed(box, program, build, heaps):
    """Destroyed heaps leave no memory behind, not even their records of 3,776 bytes each."""
    most, kept = map(int, box.check(program("heap_rounds", glebe=True), heaps, preload=build).out.split())
    assert most >= 4 * heaps * 3776 >> 20, "control: they took that much"
    assert kept <= 8


@every_build
def test_a_cancelled_thread(box, program, build):
    """A pending cancellation does not cancel a thread inside malloc, even if malloc reads or writes files."""
    path = program("cancelled")
    box.check(path, "stats", preload=None)
    assert "\n  used_bytes " in box.check(path, "stats", preload=build).text
    assert box.check(path, "wrong", preload=build, on_error="count").text.count("glebe: free(") == 3
    box.check(path, "works", preload=build)


# ---- leaks --------------------------------------------------------------------------------------------------------

LEAKS = {24: (1, 1), 600: (11, 1), 900: (2, 0), 1300: (7, 7), 9000: (1, 1), 100000: (1, 1), 1 << 18: (1, 1),
         5 << 20: (1, 1)} # bytes asked for: blocks, first blocks


def told(out):
    """What the program printed: bytes of a block -> blocks, first blocks; then the line of sums."""
    *rows, sums = out.splitlines()
    return {int(size): (int(blocks), int(first)) for size, blocks, first in map(str.split, rows)}, sums


@every_build
def test_leaks(box, program, build):
    """glebe_leaks finds 25 planted leaks of eight kinds, and none where nothing leaks: references in globals, on a
    stack, in a register, in thread-local and in shared memory, and to the inside of a block."""
    path = program("leaks", "-O0", glebe=True)
    rows, sums = told(box.check(path, preload=build).out)
    assert [rows[size] for size in sorted(rows)] == list(LEAKS.values()) and all(
        asked <= got <= asked * 1.5 for asked, got in zip(LEAKS, sorted(rows))), rows
    assert re.fullmatch(r"sums 25 \d+ 2 callers 0", sums)
    if build == "default":
        _, sums = told(box.check(path, "mean", preload=build).out)
        assert sums.endswith("2 callers 25"), "each block was sampled"


@every_build
def test_leaks_while_others_allocate(box, program, build):
    """While threads are inside malloc and free, no block on its way is a leak."""
    box.check(program("leaks", "-O0", glebe=True), "busy", 10, preload=build, timeout=300)


def test_leaks_are_those_of_the_command(box, program):
    """glebe_leaks and `glebe leaks` say the same of one process."""
    path = program("leaks", "-O0", glebe=True)
    with subprocess.Popen([path, "wait"], stdout=subprocess.PIPE, text=True) as child:
        try:
            out = ""
            for line in child.stdout:
                out += line
                if line.startswith("sums "):
                    break
            rows, sums = told(out)
            command = [box.libraries / "glebe", "leaks", "--json", str(child.pid)]
            found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        finally:
            child.kill()
    assert {leak["bytes"] // leak["blocks"]: (leak["blocks"], leak["first_blocks"]) for leak in found["leaks"]} == rows
    assert sums.split()[1:4] == [str(found[key]) for key in ("leaked_blocks", "leaked_bytes", "threads")]


# ---- profiles -----------------------------------------------------------------------------------------------------

def test_stacks_of_a_profile(box, program, tmp_path):
    """With each block a sample, a profile has the stacks that allocated, each with its blocks, also where frames have
    another size in each call."""
    out = box.check(program("stacks", glebe=True), tmp_path / "profile", preload=None).out
    paths = {tuple(returns): int(blocks) for blocks, *returns in map(str.split, out.splitlines())}
    known, found = {address for path in paths for address in path}, collections.Counter()
    for line in (tmp_path / "profile").read_text().splitlines():
        kind, *words = line.split(" ")
        stack = tuple(address for address in words[6:] if address in known) if kind == "site" else ()
        if stack:
            found[stack] += round(int(words[0]) / 65536)
    assert len(paths) > 100 and found == paths


# ---- fork ---------------------------------------------------------------------------------------------------------

@every_build
def test_fork_in_a_threaded_process(box, program, build):
    """While other threads of the parent allocate, the child can allocate, free inherited blocks, start threads and
    fork."""
    box.check(program("fork_threads"), 200, preload=build, timeout=300)


@every_build
@pytest.mark.parametrize("bytes_", [64, 1000, 6000, 100000, 3000000])
def test_fork_inherits(box, program, build, bytes_):
    """The child reuses nearly all memory of a thread that did not survive the fork, after freeing its blocks."""
    done = box.check(program("fork_inherits", glebe=True), bytes_, preload=build)
    held, kept, half = (int(n) for n in done.out.split())
    assert held >= 16 << 20 and kept <= 1 << 20, done.out
    most = (17 << 20) * (1.25 if build == "secure" and bytes_ == 64 else 1) # a tail makes a block of 80 bytes
    assert half <= most, "where every other block was free, no more than all of it is lost"


@pytest.mark.more
def test_fork_control(box, program):
    """Control: without fork handlers the same program hangs."""
    shim = program("no_fork_handlers", "-shared", "-fPIC")
    preloaded = {"LD_PRELOAD": f"{shim} {box.library()}"}
    done = box.run(program("fork_threads"), 2000, 10, preload=None, env=preloaded, timeout=300)
    assert done.returncode == 42 and "the child hung" in done.text


@every_build
def test_exit_while_others_fork(box, program, build):
    """exit does not hang while other threads fork. Each run hung with a chance of a third or more."""
    for _ in range(8):
        preloaded_and_static(box, program, build, "fork_exit")


@pytest.mark.more
@every_build
def test_fork_handlers_may_allocate(box, program, build):
    """Other libraries' fork handlers may allocate, in any order of registration."""
    early = program("fork_handlers_early", "-shared", "-fPIC")
    path = program("fork_handlers", "-Wl,--no-as-needed", libs=[early, f"-Wl,-rpath,{early.parent}"])
    box.check(path, preload=build)
    assert box.check(path, preload=None), "control: with the C library's malloc"


def preloaded_and_static(box, program, build, name, *words):
    """Run the program with the library preloaded; once also as a static program with the archive."""
    box.check(program(name), *words, preload=build, timeout=60)
    if build == "default":
        path = program(name, "-static", to="contract-static",
                       libs=["-Wl,-u,malloc", box.library("libglebe-override.a")])
        box.check(path, *words, preload=None, verbose=1, timeout=60)


@pytest.mark.more
@every_build
def test_fork_while_streams_are_flushed(box, program, build, tmp_path):
    """fork, fflush(NULL) and a getline whose buffer grows do not deadlock."""
    preloaded_and_static(box, program, build, "fork_streams", tmp_path / "lines", 100)


@every_build
def test_fork_in_a_signal_handler(box, program, build):
    """In a process with one thread a signal handler may fork: the interrupted malloc continues in parent and child."""
    preloaded_and_static(box, program, build, "fork_in_handler", 300)


@pytest.mark.parametrize("what, when", [("locks", "FREE"), ("forks", "FREE"), ("forks", "FIRST")])
def test_fork_handlers_of_others(box, program, what, when):
    """A library's fork handlers may take a lock that it holds while it allocates, and may fork themselves."""
    others = program("fork_others", "-shared", "-fPIC", "-DLIBRARY", f"-D{when}", to=f"contract-others-{when}")
    path = program("fork_others", to=f"contract-others-program-{when}", libs=[others, f"-Wl,-rpath,{others.parent}"])
    box.check(path, what, preload=None, timeout=60)
    for build in BUILDS:
        box.check(path, what, preload=build, timeout=60)


# ---- loading and unloading ----------------------------------------------------------------------------------------

def test_unload_of_a_plugin_linked_with_the_library(box, program):
    """dlopen and dlclose, in a loop, of a plugin linked with libglebe.so, with threads that end after it is
    unloaded."""
    plugin = program("plugin", "-shared", "-fPIC", glebe=True, to="contract-shared")
    box.check(program("unload"), plugin, preload=None)


def test_unload_of_a_plugin_that_contains_the_archive(box, program):
    """The same with libglebe.a inside the plugin."""
    plugin = program("plugin", "-shared", "-fPIC", "-Wl,-z,defs", to="contract-archive",
                     libs=[box.library("libglebe.a")])
    box.check(program("unload"), plugin, preload=None)


@pytest.fixture(scope="session")
def deepbind(program):
    """A program, and a plugin that it opens with RTLD_DEEPBIND."""
    return program("deepbind", "-rdynamic"), program("deepbind_plugin", "-shared", "-fPIC")


@every_build
@pytest.mark.parametrize("how", ["open", "base"])
def test_deepbind(box, deepbind, build, how):
    """The program and a module opened with RTLD_DEEPBIND may free each other's blocks: from strdup, getline, asprintf,
    new, a thread of the module's. A name that both define is the program's."""
    assert box.check(*deepbind, how, preload=None).out == "one malloc, plugin's name\n", \
        "control: with the C library's malloc"
    assert box.check(*deepbind, how, preload=build).out == "one malloc, program's name\n"


@pytest.mark.parametrize("how", ["open", "base"])
def test_option_deepbind(box, deepbind, how):
    """GLEBE_DEEPBIND=1 leaves RTLD_DEEPBIND in force."""
    assert box.check(*deepbind, how, "look", deepbind=1).out == "another malloc, plugin's name\n"
    assert box.check(*deepbind, how, "look", deepbind=0).out == "one malloc, program's name\n"


@every_build
def test_php(box, build):
    """PHP opens its extensions with RTLD_DEEPBIND, and each side frees blocks of the other."""
    box.need("php")
    extensions = {"dom", "SimpleXML", "intl", "mbstring"}
    if not extensions <= set(box.check("php", "-m", preload=None).out.split()):
        pytest.skip(f"php lacks some of {extensions}: tools/setup test")
    script = FOLDER / "modules.php"
    expected = "28030 text STRASSE aäz\n"
    assert box.check("php", script, preload=None).out == expected
    assert box.check("php", script, preload=build).out == expected
    assert box.run("php", script, preload=build, deepbind=1).returncode < 0, "control"


@every_build
def test_another_namespace(box, deepbind, build):
    """dlmopen: a new namespace has its own C library, and so its own malloc."""
    assert box.check(*deepbind, "new", preload=None).out == "another malloc, plugin's name\n", \
        "control: so it is without glebe"
    assert box.check(*deepbind, "new", preload=build).out == "another malloc, plugin's name\n"


@every_build
def test_dlopen_knows_its_caller(box, program, build):
    """A library opens another by name: the loader searches the RUNPATH of the library that calls dlopen, relative to
    its $ORIGIN."""
    wanted = program("no_fork_handlers", "-shared", "-fPIC", to="contract-by-name/module")
    by_name = program("opens_by_name", "-shared", "-fPIC", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/module",
                      to="contract-by-name")
    path = program("opens", "-Wl,--no-as-needed", libs=[by_name])
    box.check(path, wanted.name, preload=None)
    done = box.run(path, wanted.name, preload=None,
                   env={"LD_PRELOAD": str(program("calls_dlopen", "-shared", "-fPIC"))})
    assert done.returncode == 1 and "opens_by_name(" in done.text, "control: a dlopen that calls the next one"
    box.check(path, wanted.name, preload=build)


# ---- limits -------------------------------------------------------------------------------------------------------

@every_build
@pytest.mark.parametrize("mib, percent, kib", [
    (64, 40, 1), (64, 40, 40), (64, 40, 500), (64, 55, 36 * 1024),  # one block of more than half of the limit
    (200, 70, 1), (200, 70, 10), (200, 70, 100), (200, 70, 1500), (200, 70, 5000), (200, 60, 120 * 1024),
    (1024, 80, 300), (1024, 55, 600 * 1024), (1024, 80, 100 * 1024)])
def test_address_space_limit(box, program, build, mib, percent, kib):
    """Under RLIMIT_AS the program starts, allocates nearly up to the limit, gets NULL beyond, and does it again."""
    if build == "audit" and mib == 64:
        percent -= 5  # the shadow takes address space too
    box.check(program("address_limit"), percent, kib, preload=build, limits=limit(resource.RLIMIT_AS, mib * MIB))


@every_build
@pytest.mark.parametrize("kib", [1, 30, 300])
def test_address_space_is_used_again(box, program, build, kib):
    """Under RLIMIT_AS huge blocks and stacks get the address space of freed smaller blocks."""
    box.check(program("address_reuse"), kib, 60, preload=build, limits=limit(resource.RLIMIT_AS, 200 * MIB))


def test_address_space_limit_is_not_passed(box, program):
    """Control: the limits work, so the program never gets more than the limit."""
    done = box.run(program("address_limit"), 101, 100, limits=limit(resource.RLIMIT_AS, 200 * MIB))
    assert done.returncode == 1 and "n * bytes >= wanted does not hold" in done.text


@pytest.mark.parametrize("kib", [1, 40, 300, 5000, 60000])
def test_strict_commit(box, program, kib):
    """As under overcommit_memory=2: glebe makes only memory in use writable, and returns NULL at the end,
    repeatedly."""
    shim = program("commit_limit", "-shared", "-fPIC")
    # The shim does not see that memory was purged, so only the first round can expect all of it.
    done = box.check(program("takes_all"), kib, preload=None,
                     env={"LD_PRELOAD": f"{shim} {box.library()}", "COMMIT_LIMIT": str(300 * MIB)})
    assert 180 <= int(done.out.split()[0]) <= 300


@every_build
def test_overcommit_2(box, program, build):
    """The real overcommit_memory=2, only on request: it changes a setting of the whole machine for a second."""
    if os.environ.get("GLEBE_TEST_OVERCOMMIT") != "1":
        pytest.skip("changes vm.overcommit_memory of the whole machine for a second: set GLEBE_TEST_OVERCOMMIT=1 to "
                    "run it as root")
    if os.geteuid() != 0:
        pytest.skip("only root can set vm.overcommit_memory")
    memory, kbytes, ratio = (pathlib.Path("/proc/sys/vm") / name for name in ("overcommit_memory", "overcommit_kbytes",
                                                                              "overcommit_ratio"))
    before = [f.read_text() for f in (memory, kbytes, ratio)]
    committed = int(re.search(r"Committed_AS:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1])
    path = program("takes_all")
    try:
        kbytes.write_text(str(committed + 600 * 1024))  # low enough to reach the limit
        memory.write_text("2")
        done = box.run(path, 300, preload=build, timeout=30)
    finally:
        memory.write_text(before[0])
        (kbytes if before[1].strip() != "0" else ratio).write_text(before[1] if before[1].strip() != "0" else before[2])
    assert done.returncode == 0, done.text
    taken = [int(n) for n in done.out.split()]
    assert len(taken) == 3 and all(200 <= n <= 650 for n in taken), taken


@every_build
@pytest.mark.parametrize("when", ["early", "late"])
def test_locked_memory(box, program, build, when):
    """mlockall: memory cannot be purged, but calloc's memory is still zero."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if os.geteuid() != 0 and soft < 1 << 30:
        pytest.skip("RLIMIT_MEMLOCK is too low here, and only root may pass it")
    box.check(program("locked"), when, preload=build)


PLACES = {"memory.max": "/sys/fs/cgroup", "memory.high": "/sys/fs/cgroup",
          "memory.limit_in_bytes": "/sys/fs/cgroup/memory"}


@pytest.mark.more
@every_build
@pytest.mark.parametrize("file, group, limited, later", [
    ("memory.max", "/", "/", ""), ("memory.max", "/a/b", "/a", ""), ("memory.max", "/a/b", "/a/b", "later"),
    ("memory.max", "/not/here", "/", ""), ("memory.high", "/a/b", "/a/b", ""), ("memory.high", "/a/b", "/a", ""),
    ("memory.limit_in_bytes", "/a/b", "/a/b", ""), ("memory.limit_in_bytes", "/a/b", "/a", ""),
    ("memory.limit_in_bytes", "/not/here", "/", "")])
def test_group_limit(box, program, tmp_path, build, file, group, limited, later):
    """Near the limit of its cgroup, or of a parent cgroup, glebe calls the program's callback once, and returns the
    memory that the program drops to the system; also if the limit is set while the program runs. The cgroup's files are
    the test's own, mounted over the real ones in a mount namespace: no cgroup of this machine is touched."""
    box.need("unshare")
    own = tmp_path / "cgroup"
    own.write_text("9:name=systemd:/else\n4:cpu,cpuacct:/else\n"
                   + (f"3:memory:{group}\n0::/else\n" if file == "memory.limit_in_bytes" else f"0::{group}\n"))
    lay = f'mount -t tmpfs none /sys/fs/cgroup && mount --bind "{own}" /proc/$$/cgroup'
    if subprocess.run(["unshare", "-rm", "sh", "-c", lay], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespaces here: unshare -rm mount -t tmpfs fails")
    folder = PLACES[file] + limited.rstrip("/")
    script = (f'{lay} && mkdir -p "{folder}" && exec env LD_PRELOAD={box.library(build)} '
              f'{program("pressure", glebe=True)} {file} "{folder}" {later}')
    box.check("unshare", "-rm", "sh", "-c", script, preload=None)


@pytest.mark.more
@pytest.mark.parametrize("build", [BUILDS[0], *(pytest.param(build, marks=pytest.mark.long) for build in BUILDS[1:])])
def test_moves_that_fail(box, program, build):
    """Blocks grow beyond their room while the kernel refuses to move them, or moves them elsewhere."""
    shim = program("remap", "-shared", "-fPIC")
    for path in (program("grow"), program("split")):
        box.check(path, preload=build)
        for move in ("made", "refused", "taken", "away", "lost"):
            done = box.check(path, "whole", preload=None,
                             env={"LD_PRELOAD": f"{shim} {box.library(build)}", "MOVE": move})
            assert ("mremap" in done.text) == (path.name == "split" and build != "secure"), done.text


@every_build
def test_blocks_of_several_mappings(box, program, build):
    """A block moves as a whole or not at all, though the kernel knows it as several mappings."""
    done = box.check(program("split"), preload=build)
    if done.out != "registered\n":
        pytest.skip("no userfaultfd here: blocks moved whose parts have advice of their own")


# ---- other worlds -------------------------------------------------------------------------------------------------

@pytest.mark.more
def test_valgrind(box, program):
    """A preloaded program runs under memcheck without a complaint, with threads and fork. memcheck gets an option that
    malloc is ours. valgrind preloads the library into the program, not into itself."""
    box.need("valgrind")
    done = box.check("valgrind", "--quiet", "--error-exitcode=9", "--trace-children=yes",
                     "--soname-synonyms=somalloc=nouserintercepts",
                     "env", f"LD_PRELOAD={box.library()}", "GLEBE_VERBOSE=1", program("workout"), preload=None,
                     timeout=600)
    assert "page size" in done.out and "was active" in done.text


def compiled_by(box, compiler, to):
    """glebe's sources compiled by another compiler, as its users would, into one object."""
    box.need(compiler)
    sources = [box.root / "src/glebe.c", *sorted((box.root / "override").glob("*.c"))]
    return box.compile(sources, "-O1", "-fPIC", "-r", "-nostdlib", f"-I{box.root}", to=f"{to}-core", compiler=compiler)


def linked_by(box, compiler, to, *flags):
    """workout.c with that object."""
    libs = [compiled_by(box, compiler, to)]
    return box.compile(FOLDER / "workout.c", "-O1", "-pthread", "-fno-builtin", *flags, to="-".join([to, *flags]),
                       libs=libs, compiler=compiler)


def test_static_glibc(box, program):
    """A static program with libglebe-override.a."""
    path = program("workout", "-static", to="contract-static", libs=[box.library("libglebe-override.a")])
    check_active(box, path)


def check_active(box, *command, **options):
    done = box.check(*command, preload=None, verbose=1, **options)
    assert "page size" in done.out
    assert re.search(r"glebe: \S+\[\d+\]: version \S+ was active: at most [1-9]", done.text), f"not active: {done.text}"
    return done


@pytest.mark.more
def test_static_musl(box):
    check_active(box, linked_by(box, "musl-gcc", "contract-musl", "-static"))


@pytest.mark.more
def test_dynamic_musl(box):
    """The program's own definitions come before the C library's."""
    check_active(box, linked_by(box, "musl-gcc", "contract-musl"))


@pytest.mark.more
def test_preloaded_musl(box):
    core = compiled_by(box, "musl-gcc", "contract-musl")
    library = box.compile(core, "-shared", to="contract-musl-shared", compiler="musl-gcc")
    path = box.compile(FOLDER / "workout.c", "-O1", "-pthread", "-fno-builtin", to="contract-musl-plain",
                       compiler="musl-gcc")
    check_active(box, path, env={"LD_PRELOAD": str(library)})


QEMU = ("qemu-aarch64",)
LITTLE_QEMU = ("qemu-aarch64", "-R", "0x400000000")  # limits the address space
# Older emulators keep a record of every page of address space that a program reserves. A limit of data, which the
# program ignores, stops such an emulator before it takes all memory.
BOUNDED = limit(resource.RLIMIT_DATA, 1 << 30)


def aarch64(box):
    box.need("qemu-aarch64")
    return linked_by(box, "aarch64-linux-gnu-gcc", "contract-aarch64", "-static")


@pytest.mark.more
def test_aarch64(box):
    """64-bit Arm, under an emulator, which may have little address space."""
    check_active(box, *QEMU, aarch64(box), timeout=600, limits=BOUNDED)
    check_active(box, *LITTLE_QEMU, aarch64(box), timeout=600)


@pytest.mark.more
def test_pages_of_64_kib(box):
    """OS pages larger than a slice: an emulator with a larger page size than the host refuses calls that are not
    aligned to it. If the emulator cannot do that, only the unit tests with the fake port test this."""
    path = aarch64(box)
    done = box.run(*QEMU, "-p", "65536", path, preload=None, timeout=600)
    if "page size 65536" not in done.out:
        pytest.skip(f"this qemu does not change the page size: {(done.out + done.text).strip()[:60]!r}")
    assert done.returncode == 0, done.text


# ---- options ------------------------------------------------------------------------------------------------------

NAMES = ["committed_bytes", "used_bytes", "peak_used_bytes", "errors", "out_of_memory", "heaps", "purged_bytes"]


ACTIVE = (r"glebe: {}\[(\d+)\]: version \d+\.\d+\.\d+ was active: at most \d+\.\d [KM]iB in use, "
          r"\d+\.\d [KM]iB purged, 0 errors\n")


def test_option_verbose(box):
    assert re.fullmatch(ACTIVE.format("true"), box.check("true", verbose=1).text)
    assert box.check("true", verbose=0).text == ""


def test_option_stats(box):
    done = box.check("gzip", "--version", stats="json") # allocates, and ends by exit
    stats = json.loads(done.text)
    assert stats.pop("program") == "gzip" and stats.pop("pid") > 1
    assert set(NAMES) <= set(stats) and all(isinstance(v, int) for v in stats.values()) and stats["used_bytes"] > 0
    text = box.check("gzip", "--version", stats=1).text
    head, *rows = text.splitlines()
    assert re.fullmatch(r"glebe: gzip\[\d+\]: statistics", head)
    for name, row in zip(stats, rows, strict=True):
        unit = r"\.\d [KM]iB" if name.endswith("_bytes") else ""
        assert re.fullmatch(rf"  {name} +\d+{unit}", row) and len(row) < 40, row


def test_said_though_stderr_is_closed(box, program, tmp_path):
    """Requested output goes to the stderr of the program's start, whatever the program did to stderr since."""
    path, file = program("says"), tmp_path / "file"
    assert re.fullmatch(ACTIVE.format("ls"), box.check("ls", FOLDER, verbose=1).text), \
        "coreutils close stderr themselves"
    for how in ("", "closes", "reuses", "closefrom"):
        done = box.check(path, how, file, verbose=1)
        assert re.fullmatch(ACTIVE.format("says"), done.text), how
        json.loads(box.check(path, how, file, stats="json").text)
    assert file.read_bytes() == b"", "a file that got stderr's number"
    for how in ("forks", "daemon"): # each process prints its own
        done = box.check(path, how, verbose=1)
        assert sorted(re.findall(ACTIVE.format("says"), done.text)) == sorted(done.out.split()), how
    script = tmp_path / "script"
    script.write_text(f"#!{path}\n")
    script.chmod(0o755)
    assert re.fullmatch(ACTIVE.format("script"), box.check(script, verbose=1).text)


def test_said_to_nobody(box, program, tmp_path):
    """If no descriptor leads to stderr any more, glebe prints nothing, and does not write to a file with stderr's
    number."""
    file = tmp_path / "file"
    done = box.run(program("says"), "closeall", file, verbose=1, stats=1)
    assert done.returncode == 0 and done.text == "" and file.read_bytes() == b""
    preload = f"LD_PRELOAD={box.library()}"
    assert box.run("sh", "-c", f"exec env {preload} {program('says')} reuses {file} 2>&-", preload=None,
                   verbose=1).returncode == 0
    assert file.read_bytes() == b"", "there was no stderr from the start"
    done = box.run("bash", "-c",
                   f"exec 3>&1; (sleep 0.3; {preload} {program('says')} closes; echo $? >&3) 2>&1 | true; sleep 0.6",
                   preload=None, verbose=1)
    assert done.out == "0\n", "a pipe without a reader ends nothing"


def test_descriptors_are_the_programs(box, program):
    """glebe duplicates stderr only if output is requested. The duplicate takes no number that the program would get,
    and children do not inherit it."""
    path = program("says")
    without = box.check(path, "opens").out
    assert box.check(path, "opens", verbose=1, stats=1).out == without
    low = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
    assert box.check(path, "opens", verbose=1, limits=low).out == box.check(path, "opens", limits=low).out
    box.need("strace")
    command = ("strace", "-f", "-e", "trace=fcntl", "env", f"LD_PRELOAD={box.library()}", path)
    assert "F_DUPFD_CLOEXEC" in box.check(*command, preload=None, verbose=1).text, "control"
    assert "F_DUPFD" not in box.check(*command, preload=None).text


SIZE = "bytes, or a number with K, M, G or T"


@pytest.mark.parametrize("name, value, wants", [
    ("LIMIT", "1.5", SIZE), ("LIMIT", "1.", SIZE), ("LIMIT", ".5G", SIZE),
    ("VERBOSE", "yes", "0 or 1"), ("STATS", "xml", "0, 1 or json"), ("BACKGROUND", "2", "0 or 1"),
    ("LIMIT", "12X", SIZE), ("LIMIT", "-1", SIZE),
    ("LIMIT", "99999999999999999999", SIZE), ("LIMIT", "1\n\x1b[31m2", SIZE),
    ("PURGE_MS", "1s", "milliseconds, at most 1073741823"), ("PURGE_MS", "-1", "milliseconds, at most 1073741823"),
    ("PURGE_MS", "1073741824", "milliseconds, at most 1073741823"), ("LIMIT", "9223372036854775808", SIZE),
    ("LIMIT", "8589934592G", SIZE), ("VERBOSE", "4294967297", "0 or 1"), ("PURGE", "lazily", "dontneed or free"),
    ("ON_ERROR", "ignore", "abort or count")])
def test_option_malformed(box, name, value, wants):
    """A value that does not parse changes nothing. One line names it, whatever it contains, and valid values."""
    done = box.check("true", env={f"GLEBE_{name}": value})
    shown = "".join(c if " " <= c <= "~" else "?" for c in value)
    assert done.text == f"glebe: malformed GLEBE_{name}={shown} is ignored: it takes {wants}\n"


def test_option_empty(box):
    """An empty value counts as unset."""
    assert box.check("true", env={"GLEBE_LIMIT": "", "GLEBE_VERBOSE": ""}).text == ""


def test_option_unknown(box):
    """An unknown GLEBE_ variable is named too, except for those of the tools."""
    assert box.check("true", env={"GLEBE_LIMITS": "1G"}).text == "glebe: unknown GLEBE_LIMITS=1G is ignored\n"
    assert box.check("true", env={"GLEBE_TOOL_X": "1", "GLEBE_LIBRARY_DIR": "/"}).text == ""


def test_option_limit(box, program):
    """The whole process gets at most GLEBE_LIMIT; suffixes K, M, G."""
    for value in ("64M", "65536K", str(64 * MIB)):
        done = box.check(program("takes_all"), 300, limit=value)
        assert all(55 <= int(n) <= 64 for n in done.out.split()), done.out
    assert int(box.check(program("takes_all"), 300, limit="1G").out.split()[0]) in range(900, 1025)


@every_build
def test_more_than_there_is(box, program, build):
    """Where memory is overcommitted, one block may be larger than all of it. Limits refuse that."""
    much = lambda log2, **more: box.run(program("much"), log2, preload=build, **more).returncode
    strict = pathlib.Path("/proc/sys/vm/overcommit_memory").read_text() == "2\n"
    assert (much(36), much(42), much(36, limit="1G")) == (7 if strict else 0, 7, 7)
    assert all(much(36, limits=limit(of, 16 << 30)) == 7 for of in (resource.RLIMIT_AS, resource.RLIMIT_DATA))


def test_option_background(box, program):
    """Memory is purged while the process idles, without a call of malloc; fork's child has such a thread too."""
    path = program("idle")
    box.check(path, 30, background=1)
    box.check(path, 30, "fork", background=1)
    assert box.run(path, 3).returncode == 7, "control: without the thread nothing goes back"


def test_background_in_a_child(box, program):
    """A child of fork has one thread until it allocates, since some system calls require that."""
    path = program("background_child")
    box.check(path, background=1)
    assert box.run(path).returncode == 1, "control: without the option there is no thread"


@pytest.mark.more
@every_build
def test_background_is_checked(box, program, build):
    """glebe_check is right also while the background thread purges the heaps of ended threads."""
    box.check(program("background_check"), preload=build, background=1, purge_ms=1)


@pytest.mark.parametrize("build", ["secure", "audit", "libglebe-safe.so", "default"])
def test_a_build_without_samples_says_so(box, tmp_path, build):
    done = box.check("true", preload=build, profile=tmp_path / "profile")
    said = "glebe: GLEBE_PROFILE is ignored: only the default build takes samples\n"
    assert done.text == ("" if build == "default" else said)


def test_option_purge_ms(box, program):
    """A long purge_ms retains memory, a short one purges it soon."""
    path = program("idle")
    box.check(path, 30, background=1, purge_ms=10)
    assert box.run(path, 3, background=1, purge_ms=600000).returncode == 7


@every_build
def test_option_purge(box, program, build):
    """A lazy purge: the system may take the memory when it needs it, but calloc's memory is still zero."""
    path = program("lazily")
    lazy = int(box.check(path, preload=build, purge="free", purge_ms=50).out)
    if lazy == -1:
        pytest.skip("this system does not count LazyFree")
    assert lazy > (4000 if build == "secure" else 20000) # in the secure build larger blocks leave at once
    assert int(box.check(path, preload=build, purge="dontneed", purge_ms=50).out) == 0, "control"


@pytest.mark.more
def test_options_in_set_user_id_programs(box, tmp_path):
    """glebe does not read the environment of a setuid program. (There the loader ignores LD_PRELOAD, so the program is
    static.)"""
    if os.geteuid() != 0:
        pytest.skip("only root can make a file that runs as another user")
    path = box.compile(FOLDER / "workout.c", "-O1", "-pthread", "-fno-builtin", "-static", to="contract-static",
                       libs=[box.library("libglebe-override.a"), "-ldl"])
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent.name.startswith(("pytest", "popen")):
            parent.chmod(0o755)
    copy = tmp_path / "program"
    shutil.copy(path, copy)
    os.chown(copy, 1, 1)
    copy.chmod(0o755)

    def as_nobody():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    assert "was active" in box.check(copy, preload=None, limits=as_nobody, verbose=1).text, "control: an ordinary file"
    copy.chmod(0o4755)
    mounts = os.statvfs(tmp_path).f_flag & os.ST_NOSUID
    if mounts:
        pytest.skip("the temporary folder is mounted nosuid")
    assert box.check(copy, preload=None, limits=as_nobody, verbose=1).text == ""


# ---- the documents ------------------------------------------------------------------------------------------------

def test_every_contract_names_its_test(box):
    """docs/contracts.md names a test for each promise, here or in test/package, and names all tests of this file."""
    text = (box.root / "docs/contracts.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", text))
    here = {name for path in sorted(FOLDER.glob("test_*.py")) for name in re.findall(r"^def (test_\w+)",
                                                                                     path.read_text(), re.M)}
    package = {name for path in sorted((box.root / "test/package").glob("test_*.py"))
               for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)}
    assert named <= here | package, f"no such test: {named - here - package}"
    assert here - named <= {"test_every_contract_names_its_test"}, f"not in docs/contracts.md: {here - named}"
