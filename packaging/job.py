"""One run of tools/package: its folders, the unpacked source, and the environment in which builds are reproducible."""

import os
import pathlib
import re
import shutil
import subprocess
import sys


def die(text):
    sys.exit(f"tools/package: {text}")


class Job:
    def __init__(self, root, out, work, arches):
        self.root, self.out, self.work, self.arches = root, out, work, arches
        self.out.mkdir(parents=True, exist_ok=True)
        self.work.mkdir(parents=True, exist_ok=True)
        self.python = root / "build/package-venv/bin/python"
        self.version = re.search(r'^version = "(.*)"', (root / "Cargo.toml").read_text(), re.M)[1]
        self.commit = self.git("rev-parse", "HEAD")
        # Tracked files with the changes that are not committed: a commit that belongs to no branch.
        self.epoch = self.git("log", "-1", "--format=%ct", "HEAD")
        at = {f"GIT_{who}_DATE": f"@{self.epoch} +0000" for who in ("AUTHOR", "COMMITTER")}
        self.snapshot = self.git("stash", "create", **at) or self.commit
        self.made_of = self.commit[:12] + ("" if self.snapshot == self.commit else "-dirty")

    def git(self, *words, **more):
        return subprocess.run(["git", "-C", str(self.root), *words], check=True, capture_output=True, text=True,
                              env={**os.environ, **more}).stdout.strip()

    def remove(self, folder):
        shutil.rmtree(folder, ignore_errors=True)

    def say(self, text):
        print(f"tools/package: {text}", flush=True)

    def run(self, *command, cwd=None, env=None, text=None):
        """Runs a command; shows its output only if it fails."""
        done = subprocess.run([str(word) for word in command], cwd=cwd or self.root, env=env or self.environment(),
                              stdin=None if text else subprocess.DEVNULL, input=text, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        if done.returncode:
            print(done.stdout)
            die(f"{' '.join(map(str, command))}: exit status {done.returncode}")
        return done.stdout

    def source(self, name):
        """The tracked files, unpacked into a folder of their own, which is made anew in each run; and the line by which
        every compiler names the commit."""
        folder = self.work / name / f"glebe-{self.version}"
        self.remove(folder)
        folder.mkdir(parents=True)
        archive = subprocess.Popen(["git", "-C", str(self.root), "archive", self.snapshot], stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", str(folder)], stdin=archive.stdout, check=True)
        if archive.wait():
            die("git archive failed")
        (folder / "src/base/glebe_commit.h").write_text(f'#define GB_COMMIT "{self.made_of}"\n')
        return folder

    def environment(self, folder=None, **more):
        """For builds in `folder`: times of the commit, and no path of this machine in what compilers write."""
        keep = {name: value for name, value in os.environ.items()
                if not name.startswith(("GLEBE_", "CARGO_TARGET", "CARGO_BUILD", "LD_", "DEB_")) and
                name not in {"RUSTFLAGS", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CC", "CXX", "MAKEFLAGS", "MFLAGS"}}
        cargo = subprocess.run([self.root / "tools/setup", "which", "cargo"], capture_output=True, text=True,
                               check=False).stdout.strip()
        path = [str(self.python.parent), *([str(pathlib.Path(cargo).parent)] if cargo else []), keep["PATH"]]
        keep.update(SOURCE_DATE_EPOCH=self.epoch, LC_ALL="C.UTF-8", TZ="UTC", PATH=":".join(path),
                    ZIG_PYTHON=str(self.python))
        if folder:
            homes = {str(folder): "glebe", os.environ.get("CARGO_HOME", str(pathlib.Path.home() / ".cargo")): "cargo"}
            keep["RUSTFLAGS"] = " ".join(f"--remap-path-prefix={path}=/{name}" for path, name in homes.items())
            # zig has its own paths for the C library.
            keep["CFLAGS"] = " ".join(f"-ffile-prefix-map={path}=/{name}"
                                      for path, name in [*homes.items(), (str(self.root), "root")])
        keep.update(more)
        return keep

    def reproducible_times(self, folder):
        for path in [folder, *folder.rglob("*")]:
            os.utime(path, (int(self.epoch), int(self.epoch)), follow_symlinks=False)

    def tar(self, folder, file):
        """A .tar.gz of a folder that has the same bits each time."""
        packed = subprocess.run(
            ["tar", "--sort=name", f"--mtime=@{self.epoch}", "--owner=0", "--group=0", "--numeric-owner",
             "--format=gnu", "--mode=u+rwX,go+rX,go-w", "-C", str(folder.parent), "-c", folder.name],
            check=True, stdout=subprocess.PIPE).stdout
        with open(file, "wb") as out:
            subprocess.run(["gzip", "-9", "--no-name"], input=packed, check=True, stdout=out)

    def zip(self, folder, file, inside=False):
        """A .zip of a folder, or of what is inside it, that has the same bits each time."""
        self.reproducible_times(folder)
        file.unlink(missing_ok=True)
        top = folder if inside else folder.parent
        names = sorted(str(path.relative_to(top)) for path in folder.rglob("*") if path.is_file())
        # With -@, zip adds its suffix to a name that has another.
        self.run("zip", "-X", "-9", "-q", "-@", "out.zip", cwd=top, text="\n".join(names) + "\n")
        shutil.move(top / "out.zip", file)
