"""docs/recipes.md, line by line. Debian's packages stand in for the images that the page names: they are the same
programs. What takes Debian's package of glebe is in test_packages.py."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from printed import Document

pytestmark = [pytest.mark.more, pytest.mark.xdist_group("package")]
OPTION = re.compile(r"`(?:Environment=)?(GLEBE_\w+=[\w.]+)`")


@pytest.fixture
def page(tmp_path):
    return Document("docs/recipes.md", tmp_path)


def preload(box, line):
    """The variables of a recipe's lines NAME=VALUE, where the loader finds `libglebe.so.0`."""
    found = dict(re.findall(r"^(?:ENV |Environment=)(\w+)=(\S+)$", line, re.M))
    assert found["LD_PRELOAD"] == "libglebe.so.0"
    return {"LD_LIBRARY_PATH": str(box.libraries), **found}


def active(pid):
    return "libglebe.so" in pathlib.Path(f"/proc/{pid}/maps").read_text()


def wait_for(what, seconds=60):
    """The value of `what()`, as soon as it is true."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, f"{what} stayed {found}"
        time.sleep(0.05)
    return found


@contextlib.contextmanager
def running(*command, env, log):
    with open(log, "w", encoding="utf-8") as out, subprocess.Popen(
            [str(word) for word in command], env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT, start_new_session=True) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)


def environment(box, page):
    return preload(box, page.lines("FROM debian:12-slim", language="dockerfile"))


@pytest.mark.parametrize("program, words", [
    ("python3", ["-c", "print(len(str([str(i) for i in range(9000)])))"]),
    ("ruby", ["-e", "puts (1..9000).map { |i| i.to_s * 9 }.join.size"]),
    ("node", ["-e", "console.log(Buffer.concat(Array.from({length: 900}, () => Buffer.alloc(9000))).length)"])])
def test_interpreters(box, page, program, words):
    """They print the same, and glebe was active."""
    if not shutil.which(program):
        pytest.skip(f"{program} is not here")
    plain = box.check(program, *words, preload=None)
    env = {**environment(box, page), "PYTHONMALLOC": "malloc"}
    done = box.check(program, *words, preload=None, env=env, verbose=1)
    assert done.out == plain.out and re.search(r": version \S+ was active: at most [1-9]", done.text), done.text


def children(pid):
    return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("kept", [True, False])
def test_nginx(box, page, tmp_path, kept):
    """Master and worker are on glebe. So is a binary that replaces them by USR2, if the page's line is there: control.
    nginx takes that signal only as a daemon."""
    box.need("nginx", "curl")
    line = "env LD_PRELOAD;"
    assert f"`{line}` in `nginx.conf`" in page.text
    names = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{name}_temp_path {tmp_path}/{name};" for name in names)
    (tmp_path / "nginx.conf").write_text(f"""
{line * kept} env LD_LIBRARY_PATH;
user root; worker_processes 1; pid {tmp_path}/pid; error_log {tmp_path}/error.log;
events {{}}
http {{ access_log off; {paths} server {{ listen unix:{tmp_path}/socket; location / {{ return 200 "served\\n"; }} }} }}
""")
    subprocess.run([shutil.which("nginx"), "-c", tmp_path / "nginx.conf", "-e", tmp_path / "error.log"], check=True,
                   env={**os.environ, **environment(box, page)})
    masters = [int(wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))]
    try:
        worker, = wait_for(lambda: children(masters[0]))
        said = subprocess.run(["curl", "-s", "--unix-socket", tmp_path / "socket", "http://x/"], check=True,
                              capture_output=True, text=True).stdout
        assert said == "served\n" and active(masters[0]) and active(worker)
        os.kill(masters[0], signal.SIGUSR2)
        masters += wait_for(lambda: [pid for pid in children(masters[0]) if pid != worker and children(pid)])
        assert active(masters[1]) == kept
    finally:
        for pid in reversed(masters):
            os.kill(pid, signal.SIGTERM)


def test_redis(box, page, tmp_path):
    """Debian's Redis, which asks a shared jemalloc: its blocks come from glebe now."""
    box.need("redis-server", "redis-cli")
    socket = tmp_path / "socket"
    with running("redis-server", "--port", "0", "--unixsocket", socket, "--dir", tmp_path, "--save", "",
                 env=environment(box, page), log=tmp_path / "log") as server:
        wait_for(socket.exists)
        ask = lambda *words: subprocess.run(["redis-cli", "-s", str(socket), *words], check=True, capture_output=True,
                                            text=True).stdout
        ask("eval", "for i = 1, 20000 do redis.call('set', 'key' .. i, string.rep('x', 100)) end", "0")
        assert ask("dbsize") == "20000\n"
        said = box.check(box.libraries / "glebe", "stats", "--json", server.pid, preload=None).out
        assert int(re.search(r'"used_bytes": ?(\d+)', said)[1]) > 1_000_000


@pytest.mark.skipif(not os.environ.get("GLEBE_TEST_LONG"), reason="part of make test-long (GLEBE_TEST_LONG=1)")
def test_postgres(box, page, tmp_path):
    """The server and the process of a connection."""
    tools = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
    if not tools or os.geteuid():
        pytest.skip("no PostgreSQL of Debian, or no root to become its user")
    home = pathlib.Path(f"/tmp/glebe-recipe-{os.getpid()}")
    home.mkdir(mode=0o755)
    try:
        shutil.chown(home, "postgres")
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        subprocess.run([*user, tools[-1] / "initdb", "-D", home / "data", "-A", "trust", "--no-sync"], check=True,
                       stdout=subprocess.DEVNULL)
        copy = home / "libglebe.so.0"
        shutil.copy(box.library("default"), copy)
        env = {**environment(box, page), "LD_LIBRARY_PATH": str(home)}
        with running("env", *(f"{k}={v}" for k, v in env.items()), *user, tools[-1] / "postgres", "-D", home / "data",
                     "-k", home, "-c", "listen_addresses=", env={}, log=tmp_path / "log") as server:
            wait_for(lambda: list(home.glob(".s.PGSQL.*[0-9]")))
            ask = "select pg_backend_pid(), count(*) from (select g, md5(g::text) from generate_series(1, 50000) g) t"
            psql = [*user, tools[-1] / "psql", "-h", home, "-d", "postgres", "-Atc"]
            said = wait_for(lambda: subprocess.run([*psql, ask + ", pg_sleep(0)"], check=False, capture_output=True,
                                                   text=True).stdout)
            assert said.rstrip().endswith("|50000") and active(server.pid)
            server.send_signal(signal.SIGINT)
            server.wait(timeout=60)
    finally:
        shutil.rmtree(home)


def verify(folder):
    """What systemd says of a service with the folder's drop-in."""
    (folder / "service.service").write_text("[Service]\nExecStart=/bin/true\n")
    return subprocess.run(["systemd-analyze", "--man=no", "verify", folder / "service.service"], capture_output=True,
                          text=True, check=False, env={**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:"}).stderr


def test_systemd(box, page, tmp_path):
    """systemd takes the drop-in, and its variables put glebe in."""
    box.need("systemd-analyze")
    (tmp_path / "service.service.d").mkdir()
    (tmp_path / "glebe.conf").rename(tmp_path / "service.service.d/glebe.conf")
    said = verify(tmp_path)
    assert "glebe.conf" not in said, said
    lines = page.lines("[Service]", language="ini")
    assert "was active" in box.check("true", preload=None, env={**preload(box, lines), "GLEBE_VERBOSE": "1"}).text


def test_systemd_finds_a_mistake(page, box, tmp_path):
    """Control."""
    box.need("systemd-analyze")
    (tmp_path / "service.service.d").mkdir()
    (tmp_path / "service.service.d/glebe.conf").write_text("[Service]\nEnvironments=LD_PRELOAD=libglebe.so.0\n")
    said = verify(tmp_path)
    assert "glebe.conf" in said


@pytest.fixture
def deployment(page, tmp_path):
    """Its variables, but for the preload, with the volume of snapshots in the test's folder; and its limit in bytes."""
    lines = page.lines("kind: Deployment", language="yaml")
    found = dict(re.findall(r"- \{name: (\w+), value: \"?([^\"}]+)\"?\}", lines))
    assert found.pop("LD_PRELOAD") == "libglebe.so.0" and len(found) == 2
    limit = int(re.search(r"limits: \{memory: (\d+)Mi\}", lines)[1]) << 20
    return {name: value.replace("/snapshots", str(tmp_path)) for name, value in found.items()}, limit


def test_kubernetes(box, deployment):
    """The variables of the deployment are options, with values that glebe takes."""
    found, _ = deployment
    assert box.check("true", env=found).text == ""
    assert "GLEBE_SNAPSHOT" in box.check("true", env={**found, "GLEBE_SNAPSHOT": "service@90%%"}).text  # the control


@pytest.mark.parametrize("percent", [80, 95])
def test_kubernetes_near_the_limit(box, page, deployment, tmp_path, percent):
    """A container at 95 % of its limit leaves a snapshot, which the page's command reads; control: at 80 % it leaves
    none. The files of the cgroup are the test's own, in a mount namespace."""
    box.need("unshare")
    found, limit = deployment
    (tmp_path / "group").write_text("0::/\n")
    lay = f"mount -t tmpfs none /sys/fs/cgroup && mount --bind {tmp_path}/group /proc/$$/cgroup"
    if subprocess.run(["unshare", "-rm", "sh", "-c", lay], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespaces here: unshare -rm mount -t tmpfs fails")
    files = {"memory.max": limit, "memory.current": limit // 100 * percent, "memory.stat": "anon 1\ninactive_file 0"}
    write = " && ".join(f"echo '{text}' >/sys/fs/cgroup/{name}" for name, text in files.items())
    code = "import time\nfor i in range(40): kept = [bytes(300_000) for k in range(100)]; time.sleep(0.02)"
    box.check("unshare", "-rm", "sh", "-c", f"{lay} && {write} && exec env LD_PRELOAD={box.library()} \"$@\"", "sh",
              sys.executable, "-c", code, preload=None, env=found)
    written = [path for path in tmp_path.iterdir() if re.fullmatch(r"service\.\d+", path.name)]
    assert len(written) == (percent >= 90)
    assert "`glebe explain --from FILE`" in page.text
    for path in written:
        said = box.check(box.libraries / "glebe", "explain", "--from", path, preload=None).out
        assert "Limit: container: " in said and f" of {limit >> 20}.0 MiB" in said, said


def test_options_of_the_tables(box, page):
    """Each option that replaces another allocator's is one of glebe's; control: a name that is none is reported."""
    options = set(OPTION.findall(page.text))
    assert len(options) >= 5
    for option in options:
        name, value = option.split("=")
        said = box.check("true", env={name: value}).text
        assert all(re.match(r"glebe: \w+\[\d+\]: |  \w", line) for line in said.splitlines()), said
        assert "not an option" not in said and "GLEBE_" not in said, said
    assert "GLEBE_PURGES" in box.check("true", env={"GLEBE_PURGES": "1"}).text


def test_lines_of_other_allocators(box, page):
    """Each preload line of the table serves a program, and so does the line beside it. Both in one line: glebe's line
    at exit says that it is not alone."""
    lines = re.findall(r"^\| `LD_PRELOAD=(/\S+)` \| `LD_PRELOAD=(\S+)` \|$", page.text, re.M)
    assert [re.search(r"lib(\w+)\.so", old)[1] for old, _ in lines] == ["jemalloc", "mimalloc"]
    for old, new in lines:
        if not pathlib.Path(old).exists():
            pytest.skip(f"{old} is not here: tools/setup recipes")
        run = lambda preload: box.check("cat", "/proc/self/maps", preload=None, verbose=1,
                                        env={"LD_PRELOAD": preload, "LD_LIBRARY_PATH": str(box.libraries)})
        name = pathlib.Path(old).name
        assert name in (said := run(old)).out and "libglebe" not in said.out
        assert name not in (said := run(new)).out and re.search(r" was active: at most [1-9]", said.text)
        assert name in (said := run(f"{old} {new}")).out and "was active beside another malloc" in said.text


def test_the_line_that_says_whether_it_is_in(box, page):
    """`grep -c libglebe /proc/PID/maps`."""
    assert "`grep -c libglebe /proc/PID/maps` (0: no)" in page.text
    lines = "grep -c libglebe /proc/$$/maps || true"
    assert int(box.check("sh", "-c", lines).out) > 0
    assert int(box.check("sh", "-c", lines, preload=None).out) == 0
