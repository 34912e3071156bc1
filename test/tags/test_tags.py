"""Memory tags (GLEBE_TAGS) of the secure build on 64-bit Arm, in a process under qemu: it has a processor with tags."""

import pathlib
import re

import pytest

pytestmark = pytest.mark.more # like all tests for other processors

FOLDER = pathlib.Path(__file__).parent
FREE = "access after free, or past a block's end: a free block is here"
FOUND = {
    "small-after-free": ("access", FREE),
    "medium-after-free": ("access", FREE),
    "realloc": ("access", FREE),
    "overflow": ("access", f"{FREE}|access with .* of the block of 40 bytes here"),
    "overflow-slack": ("access", "access past the end of a block: at offset 1056 of 1050 bytes"),
    "underflow": ("access", f"{FREE}|access past the end of a block: at offset 47 of 40 bytes"
                  "|access with .* of the block of 40 bytes here"),
    "reused": ("access", "access with an address of another block, or of one that was freed: at offset 3 of the block "
               "of 100 bytes here"),
    "reused-free": ("free", r"the block of this address, with the tag \d+, was freed: "
                    r"the one here now has the tag \d+"),
    "twice": ("free", "double free: the block of 100 bytes here is free already"),
}


class Arm:
    def __init__(self, box):
        sources = [FOLDER / "tagged.c", box.root / "src/glebe.c", *sorted((box.root / "override").glob("*.c"))]
        self.box = box
        self.program = box.compile(
            sources, "-std=gnu11", "-O1", "-fno-builtin", "-pthread", "-DGB_SECURE=1", "-Wno-use-after-free",
            "-Wno-maybe-uninitialized", to="tags", compiler="aarch64-linux-gnu-gcc", libs=["-ldl"])

    def run(self, way, **options):
        return self.box.run("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", self.program, way, preload=None, **options)


@pytest.fixture(scope="session")
def arm(box):
    box.need("aarch64-linux-gnu-gcc", "qemu-aarch64")
    return Arm(box)


def report(result):
    """The call and the finding of the only report, about the address that the program printed."""
    [line] = [line for line in result.text.splitlines() if line.startswith("glebe: ")]
    call, address, finding = re.fullmatch(r"glebe: (\w+)\((0x[0-9a-f]+)\): (.*)", line).groups()
    assert f"at {address}" in result.out.splitlines()
    return call, finding


@pytest.mark.parametrize("way", list(FOUND))
def test_found(arm, way):
    result = arm.run(way)
    assert "signal 6" in result.text, result.text
    call, finding = report(result)
    assert call == FOUND[way][0] and re.fullmatch(FOUND[way][1], finding), finding


@pytest.mark.parametrize("way", list(FOUND))
def test_counted(arm, way):
    result = arm.run(way, on_error="count")
    assert result.returncode == 0, result.text
    assert report(result)[0] == FOUND[way][0]


@pytest.mark.parametrize("level", [1, 2, 3])
def test_sound_program(arm, level):
    result = arm.run("sound", secure=level, verbose=1)
    assert (result.returncode, result.out) == (0, "a tagged buffer: tagged, sound\n"), result.text
    assert "; secure build, memory tags" in result.text and " 0 errors" in result.text


def test_tags_can_be_refused(arm):
    """What only tags find is found no more: so the tests above do see tags."""
    result = arm.run("sound", tags=0, verbose=1)
    assert (result.returncode, result.out) == (0, "a tagged buffer: untagged, sound\n"), result.text
    assert "memory tags" not in result.text
    for way in ("small-after-free", "overflow", "overflow-slack", "underflow", "reused"):
        result = arm.run(way, tags=0)
        assert result.returncode == 0 and result.text == "", (way, result.text)
    assert "double free" in arm.run("twice", tags=0).text


def test_a_processor_without_tags(arm):
    """The same program runs on, untagged."""
    result = arm.box.run("qemu-aarch64", "-cpu", "cortex-a72", "-L", "/usr/aarch64-linux-gnu", arm.program, "sound",
                         preload=None)
    assert (result.returncode, result.out) == (0, "a tagged buffer: untagged, sound\n"), result.text
