"""The interface of libglebe.so beside that of the last release, by libabigail. test/package/abi/ has the dump;
`tools/abi` writes it, once for each release. Until 0.1.0 is out, it is what 0.1.0 shall be."""

import pathlib
import platform
import re
import subprocess

import pytest

FOLDER = pathlib.Path(__file__).parent / "abi"
KEPT = FOLDER / f"libglebe-{platform.machine()}.abi"
pytestmark = pytest.mark.more


def abidiff(box, old, new):
    """Exit status and text. The status is 0 if the interfaces are the same; added functions do not count."""
    box.need("abidiff")
    headers = [word for which in (1, 2) for word in (f"--headers-dir{which}", box.root / "include")]
    done = subprocess.run(["abidiff", "--no-added-syms", *headers, old, new], capture_output=True, text=True,
                          check=False)
    assert not done.returncode & 3, done.stdout + done.stderr
    return done.returncode, done.stdout


@pytest.fixture
def kept():
    if not KEPT.exists():
        pytest.skip(f"no dump of the last release for {platform.machine()}")
    return KEPT


@pytest.mark.parametrize("build", ["default", "secure", "audit", "libglebe-safe.so"])
def test_interface_is_that_of_the_last_release(box, kept, build):
    """Each build serves a program that was linked with the last release's default build."""
    status, text = abidiff(box, kept, box.library(build))
    if build != "default":  # of another name, which is all that may differ
        text = re.sub(r"^ELF SONAME changed\n|^SONAME changed from .*\n", "", text, flags=re.M)
        assert set(re.findall(r"(\d+) (?:Removed|Changed|Added)", text)) == {"0"}, text
    else:
        assert status == 0, text


@pytest.mark.parametrize("change", ["a function less", "a field less"])
def test_a_change_is_found(box, kept, tmp_path, change):
    """Control: the dump with one function more, or one field of a structure more, than there is now."""
    text = kept.read_text()
    if change == "a function less":
        line = re.search(r"^.*<elf-symbol name='glebe_trim'.*\n", text, re.M)[0]
        text = text.replace(line, line + line.replace("glebe_trim", "glebe_planted"), 1)
    else:
        found = re.search(r"<class-decl name='glebe_stats' size-in-bits='(\d+)'", text)
        text = text.replace(found[0], found[0].replace(found[1], str(int(found[1]) + 64)))
    (tmp_path / "old.abi").write_text(text)
    status, said = abidiff(box, tmp_path / "old.abi", box.library("default"))
    assert status & 4, said


def test_versions(box):
    """glebe_* has the version GLEBE_0, and malloc's family none."""
    box.need("readelf")
    text = subprocess.run(["readelf", "-W", "--dyn-syms", box.library("default")], capture_output=True, text=True,
                          check=True).stdout
    names = [line.split()[7] for line in text.splitlines() if re.match(r" *\d+: ", line) and " UND " not in line]
    names = [name for name in names if name != "GLEBE_0"]
    assert "glebe_malloc@@GLEBE_0" in names and "malloc" in names and "_Znwm" in names
    assert not [name for name in names if name.startswith("glebe_") != name.endswith("@@GLEBE_0")]
