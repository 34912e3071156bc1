"""Debian's minimal tree for a processor, in which tests install packages. tools/bare makes it once, in
build/packages-tree-ARCH; each test works in a copy.

A tree for another processor runs under qemu. The kernel finds qemu by a rule of binfmt_misc. The rule is made in a user
namespace, which has its own rules since Linux 6.7, so the machine's rules stay as they are.

    parent                            child: unshare --user --mount
    write uid_map, gid_map, a line -> read a line; mount binfmt_misc; write the rule; chroot; the command
"""

import importlib.machinery
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NATIVE = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=False).stdout.strip()

# A 64-bit ELF file for Arm, executable (2) or shared (3): the bytes of its head, and those of their bits that count.
# O: the kernel opens the program; C: set-user-ID holds; F: qemu is opened now, outside the tree.
HEAD = r"\x7fELF\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00\xb7\x00"
BITS = r"\xff" * 7 + r"\x00" + r"\xff" * 8 + r"\xfe\xff\xff\xff"
RULE = f":qemu-aarch64:M::{HEAD}:{BITS}:/usr/bin/qemu-aarch64-static:OCF"
RULES = "/proc/sys/fs/binfmt_misc"
INSIDE = f"""
read -r _
tree=$1 rule=$2
shift 2
set -e
[ -z "$rule" ] || {{ mount -t binfmt_misc none {RULES} && printf %s "$rule" >{RULES}/register; }}
[ -d "$tree/debootstrap" ] || mount --rbind /proc "$tree/proc" # the second stage looks after that itself
exec chroot "$tree" "$@" </dev/null
"""
# debootstrap asks for devices, which a user namespace cannot make: its first stage, outside, makes them. This word
# keeps it from trying, and from giving up.
SECOND_STAGE = ["env", "container=lxc", "/debootstrap/debootstrap", "--second-stage"]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What packages leave by Debian's rules: dpkg's own records, logs, and the loader's cache.
ASIDE = re.compile(r"(proc|sys|dev|tmp|run|root/\.cache|var/log|var/cache|var/lib/(apt|dpkg/[a-z]+-old))(/|$)")


def tool_bare():
    loader = importlib.machinery.SourceFileLoader("bare", str(ROOT / "tools/bare"))
    bare = importlib.util.module_from_spec(importlib.util.spec_from_loader("bare", loader))
    loader.exec_module(bare)
    return bare


class Tree:
    def __init__(self, arch, folder, environment=()):
        self.arch, self.folder, self.environment = arch, pathlib.Path(folder), dict(environment)

    def run(self, *words, fails=False, env=None):
        """What a command in the tree prints. It starts with the tree's environment, and with nothing of this one's."""
        foreign = self.arch != NATIVE
        space = ["unshare", *(["--user"] if foreign else []), "--mount", "--propagation", "private",
                 "sh", "-c", INSIDE, "sh", self.folder, RULE if foreign else ""]
        env = {"PATH": PATH, "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive", **self.environment, **(env or {})}
        set_env = ["env", "-i", *(f"{name}={value}" for name, value in env.items())]
        with subprocess.Popen([str(word) for word in [*space, *set_env, *words]], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as child:
            if foreign:
                self.map_users(child)
            said, _ = child.communicate("\n")
        assert (child.returncode != 0) == fails, f"{' '.join(map(str, words))}\n{child.returncode}\n{said}"
        return said

    def map_users(self, child):
        """Every user is the same inside. A map can be written once the namespace is there."""
        mine = os.readlink("/proc/self/ns/user")
        while child.poll() is None and os.readlink(f"/proc/{child.pid}/ns/user") == mine:
            pass
        for kind in ("uid_map", "gid_map"):
            pathlib.Path(f"/proc/{child.pid}/{kind}").write_text("0 0 65536\n")

    def files(self):
        """What is in the tree, but for what packages may leave."""
        found = set()
        for folder, folders, names in os.walk(self.folder):
            inside = os.path.relpath(folder, self.folder)
            folders[:] = [name for name in folders if not ASIDE.match(os.path.normpath(f"{inside}/{name}"))]
            found |= {os.path.normpath(f"{inside}/{name}") for name in [*folders, *names]}
        return {name for name in found if "__pycache__" not in name and not ASIDE.match(name)}


def pristine(arch):
    """The tree of which tests get copies; makes it if it is not there."""
    if os.geteuid() or not shutil.which("debootstrap"):
        pytest.skip("takes root and debootstrap: tools/setup fresh")
    folder = ROOT / f"build/packages-tree-{arch}"
    bare = tool_bare()
    if folder.exists():
        return Tree(arch, folder, bare.hand_through(folder))
    if arch == NATIVE:
        bare.make_tree(folder, "")
        return Tree(arch, folder, bare.hand_through(folder))
    if not shutil.which("qemu-aarch64-static"):
        pytest.skip("no qemu-aarch64-static: tools/setup fresh")
    part = folder.with_name(f"{folder.name}-part")
    bare.make_tree(part, "", "--foreign", f"--arch={arch}")
    Tree(arch, part).run(*SECOND_STAGE)
    part.rename(folder)
    return pristine(arch)


def copy(tree, folder):
    """A copy of a tree, with apt that asks nothing."""
    subprocess.run(["cp", "-a", tree.folder, folder], check=True)
    (folder / "etc/apt/apt.conf.d/99yes").write_text('APT::Get::Assume-Yes "true";\n')
    return Tree(tree.arch, folder, tree.environment)
