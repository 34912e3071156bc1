"""The parts of tools/package: each is a function of a Job, which puts its files into job.out."""

import platform
import re
import shutil
import zipfile

import licenses
from job import die

# Processor: zig's name of the C library it links for, Rust's target, Debian's architecture.
GNU = {"x86_64": ("x86_64-linux-gnu.2.28", "x86_64-unknown-linux-gnu", "amd64"),
       "aarch64": ("aarch64-linux-gnu.2.28", "aarch64-unknown-linux-gnu", "arm64")}
MUSL = {"x86_64": ("x86_64-linux-musl", "x86_64-unknown-linux-musl"),
        "aarch64": ("aarch64-linux-musl", "aarch64-unknown-linux-musl")}

# What the command embeds: see cli/build.rs.
EMBEDDED = ["glebe", "glebe-secure", "glebe-audit", "glebe-safe", "glebe-mimalloc-2", "glebe-mimalloc-3",
            "glebe-libgc", "glebe-record", "glebe-replayer"]
PRELOADED = ["libglebe.so", "libglebe-secure.so", "libglebe-audit.so", "libglebe-safe.so"]


def libraries(job, folder, arch, target):
    """The shared libraries for one target by zig, stripped, in a folder that cli/build.rs can embed from."""
    out = folder / "libraries"
    musl = "musl" in target
    compiler = job.root / "packaging/zig-cc"
    link = f"-s -L{folder}"
    env = job.environment(folder, CC=f"{compiler} {target}")
    if musl:
        link += " -dynamic"
    else:
        job.run(compiler, target, "-shared", "-nostdlib", "-Wl,-soname,libgcc_s.so.1",
                f"-Wl,--version-script={folder}/packaging/gcc_s.map", folder / "packaging/gcc_s.c",
                "-o", folder / "libgcc_s.so", env=env)
    shared = link if musl else f"{link} -lgcc_s"
    job.run("cmake", "-S", folder, "-B", folder / "cmake-zig", "-DCMAKE_BUILD_TYPE=Release",
            "-DCMAKE_SYSTEM_NAME=Linux", f"-DCMAKE_SYSTEM_PROCESSOR={arch}", f"-DGLEBE_OUTPUT_DIR={out}",
            "-DCMAKE_C_FLAGS_RELEASE=-O2 -DNDEBUG", "-DGLEBE_WERROR=OFF",
            f"-DCMAKE_SHARED_LINKER_FLAGS={shared}", f"-DCMAKE_EXE_LINKER_FLAGS={link}", env=env)
    job.run("cmake", "--build", folder / "cmake-zig", "--parallel", "2", "--target", *EMBEDDED, env=env)
    return out


def wheel(job):
    """Wheels for glibc 2.28 and for musl. maturin packs them, zig links them."""
    for table, tag in ((GNU, "manylinux_2_28"), (MUSL, "musllinux_1_2")):
        for arch in job.arches:
            zig, rust = table[arch][:2]
            folder = job.source(f"wheel-{tag}-{arch}")
            job.say(f"wheel: the libraries for {zig}")
            built = libraries(job, folder, arch, zig)
            into = folder / "bindings/python/glebe/lib"
            into.mkdir(exist_ok=True)
            for name in PRELOADED:
                shutil.copy(built / name, into / name)
            job.reproducible_times(into)
            job.say(f"wheel: the command for {rust}")
            fresh = job.work / f"wheels-{tag}-{arch}"
            job.remove(fresh)
            env = job.environment(folder, GLEBE_LIBRARY_DIR=str(built),
                                  CARGO_TARGET_DIR=str(job.work / "target-wheel"))
            if table is MUSL:  # zig ignores rustc's -static-pie, and links a static program at a fixed address
                env["RUSTFLAGS"] += " -C link-arg=-pie"
            job.run(job.python, "-m", "maturin", "build", "--release", "--zig", "--target", rust,
                    "--compatibility", tag, "--out", fresh, cwd=folder, env=env)
            made = list(fresh.glob("*.whl"))
            if len(made) != 1:
                die(f"maturin made {made}, not one wheel")
            finish(job, made[0], folder, rust)


def finish(job, made, folder, target):
    """Copies a wheel to job.out, with the licences of what is linked in. The list of parts that maturin puts into it
    names the folder of the build; here that becomes /glebe, so that the wheel is the same from any folder."""
    job.run(job.python, "-m", "wheel", "unpack", made, "--dest", made.parent)
    unpacked = made.parent / f"glebe-{job.version}"
    lists = list(unpacked.glob("*.dist-info/sboms/*.json"))
    if not lists:
        die(f"{made.name} has no list of parts")
    for path in lists:
        path.write_text(path.read_text().replace(str(folder), "/glebe"))
    place = lists[0].parents[1]
    (place / "licenses" / licenses.NAME).write_text(licenses.third_party(job, folder, target))
    about = (place / "METADATA").read_text()
    line = "License-File: LICENSE-APACHE\n"
    if line not in about:
        die(f"METADATA of {made.name} names no licence file")
    (place / "METADATA").write_text(about.replace(line, f"{line}License-File: {licenses.NAME}\n"))
    job.run(job.python, "-m", "wheel", "pack", unpacked, "--dest-dir", job.out)


def deb(job):
    """libglebe0, libglebe-dev, glebe and lua-glebe by debhelper; for another processor by a cross compiler."""
    native = job.run("dpkg", "--print-architecture").strip()
    for arch in job.arches:
        debian = GNU[arch][2]
        folder = job.source(f"deb-{debian}")
        shutil.copytree(folder / "packaging/debian", folder / "debian")
        date = job.run("date", "-R", "-u", "-d", f"@{job.epoch}").strip()
        (folder / "debian/changelog").write_text(
            f"glebe ({job.version}) unstable; urgency=medium\n\n  * Built from commit {job.commit}.\n\n"
            f" -- {maintainer(folder)}  {date}\n")
        share(job, folder)
        built = job.work / f"command-{debian}"
        command(job, arch, built)
        (folder / "debian" / licenses.NAME).write_bytes(
            of_wheel(job, arch, f"glebe-{job.version}.dist-info/licenses/{licenses.NAME}"))
        job.say(f"deb: {debian}")
        job.run("dpkg-buildpackage", "-b", "-us", "-uc", *([] if debian == native else ["-d", f"-a{debian}"]),
                cwd=folder, env=job.environment(GLEBE_COMMAND=str(built)))
        for path in sorted(folder.parent.glob(f"*_{job.version}_*.deb")):
            if "-dbgsym_" not in path.name:
                shutil.copy(path, job.out)


def command(job, arch, to):
    """Puts the command for glibc, out of the wheel, at `to`."""
    to.parent.mkdir(exist_ok=True)
    to.write_bytes(of_wheel(job, arch, f"glebe-{job.version}.data/scripts/glebe"))
    to.chmod(0o755)


def of_wheel(job, arch, name):
    """A file's content in the wheel for glibc."""
    found = list(job.out.glob(f"glebe-{job.version}-py3-none-manylinux_*_{arch}.whl"))
    if not found:
        die(f"deb takes the command for {arch} from its wheel: tools/package wheel deb")
    with zipfile.ZipFile(found[0]) as content:
        return content.read(name)


def maintainer(folder):
    control = (folder / "packaging/debian/control").read_text()
    return re.search(r"^Maintainer: (.*)$", control, re.M)[1]


def share(job, folder):
    """Man pages and completions, by the command for this machine."""
    command(job, platform.machine(), folder / "build/glebe")
    job.run("make", "-C", folder, "share")


def crates(job):
    """glebe and glebe-cli as cargo publishes them."""
    folder = job.source("crates")
    own = f'patch.crates-io.glebe.path="{folder}"'  # cargo before 1.90 asks the registry for it
    target = job.work / "target-crates"
    job.run("cargo", "package", "--quiet", "--workspace", "--no-verify", "--locked", "--config", own, cwd=folder,
            env=job.environment(folder, CARGO_TARGET_DIR=str(target)))
    for name in ("glebe", "glebe-cli"):
        shutil.copy(target / f"package/{name}-{job.version}.crate", job.out)


MODULE = "github.com/glebe-alloc/glebe"


def go(job):
    """The Go module as a proxy serves it: a folder for GOPROXY=file://... Go itself fetches the tag from a repository
    that stands in for GitHub's, and packs it."""
    tag = f"v{job.version}"
    scratch = job.work / "go"
    job.remove(scratch)
    scratch.mkdir()
    repository = scratch / "repository"
    job.run("git", "init", "--quiet", "--bare", repository)
    job.run("git", "push", "--quiet", repository, f"{job.snapshot}:refs/heads/main", f"{job.snapshot}:refs/tags/{tag}")
    job.run("git", "-C", repository, "symbolic-ref", "HEAD", "refs/heads/main")
    tool = job.run(job.root / "tools/setup", "which", "go").strip()
    env = job.environment(GOPROXY="direct", GOSUMDB="off", GOFLAGS="-modcacherw", GOTOOLCHAIN="local",
                          GOMODCACHE=str(scratch / "cache"), GIT_CONFIG_COUNT="2", GIT_TERMINAL_PROMPT="0",
                          GIT_CONFIG_KEY_0=f"url.file://{repository}.insteadOf", GIT_CONFIG_VALUE_0=f"https://{MODULE}",
                          GIT_CONFIG_KEY_1="protocol.file.allow", GIT_CONFIG_VALUE_1="always")
    job.run(tool, "mod", "download", f"{MODULE}@{tag}", cwd=scratch, env=env)
    made = scratch / "cache/cache/download" / MODULE / "@v"
    out = job.out / "go" / MODULE / "@v"
    job.remove(job.out / "go")
    out.mkdir(parents=True)
    (out / "list").write_text(f"{tag}\n")
    for kind in ("info", "mod", "zip"):
        shutil.copy(made / f"{tag}.{kind}", out)


def rock(job):
    """The rockspec, and a rock with what the module is made of."""
    folder = job.source("rock")
    rockspec, = (folder / "bindings/lua").glob("*.rockspec")
    content = job.work / "rock-content"
    job.remove(content)
    for name in ("src", "include", "bindings/lua", "tools/lua", "LICENSE", "LICENSE-MIT", "LICENSE-APACHE"):
        to = content / "glebe" / name
        to.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (folder / name).is_dir() else shutil.copy)(folder / name, to)
    shutil.copy(rockspec, content)
    shutil.copy(rockspec, job.out)
    job.zip(content, job.out / f"{rockspec.stem}.src.rock", inside=True)


def source(job):
    """What git tracks, and the line that names the commit."""
    job.tar(job.source("source"), job.out / f"glebe-{job.version}.tar.gz")


def windows(job):
    """glebe.exe, glebe.dll, and archives for mingw and Microsoft's linker: docs/windows.md."""
    folder = job.source("windows")
    target = job.work / "target-windows"
    target.mkdir(exist_ok=True)
    (folder / "target").symlink_to(target)
    job.run("tools/windows", cwd=folder, env=job.environment(folder))
    if not (folder / "build/windows/glebe.exe").exists():
        die("glebe.exe is missing: tools/setup package")
    content = job.work / "windows" / f"glebe-{job.version}-windows-x86_64"
    job.remove(content)
    shutil.copytree(folder / "build/windows", content)
    add_common(folder, content, "docs/windows.md")
    (content / licenses.NAME).write_text(licenses.third_party(job, folder, "x86_64-pc-windows-gnu"))
    job.zip(content, job.out / f"{content.name}.zip")


def wasm(job):
    """The archives for C and C++ in WebAssembly: docs/webassembly.md."""
    folder = job.source("wasm")
    job.run("tools/wasm", cwd=folder, env=job.environment(folder))
    content = job.work / "wasm" / f"glebe-{job.version}-wasm32"
    job.remove(content)
    for name in ("wasm32", "wasm32-threads"):
        shutil.copytree(folder / "build" / name, content / "build" / name)
    add_common(folder, content, "docs/webassembly.md")
    job.tar(content, job.out / f"{content.name}.tar.gz")


def add_common(folder, content, page):
    (content / "include").mkdir()
    shutil.copy(folder / "include/glebe.h", content / "include")
    for name in ("LICENSE", "LICENSE-MIT", "LICENSE-APACHE", page):
        shutil.copy(folder / name, content)


PARTS = {part.__name__: part for part in (source, wheel, deb, crates, go, rock, windows, wasm)}
