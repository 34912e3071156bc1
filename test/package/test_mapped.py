"""How much of the library's code is mapped in an ordinary process: cmake/compact.ld puts the rest last."""

import os

import pytest

MOST_KB = 128 # two windows of the kernel


def mapped(box, *arguments):
    program = box.compile(box.root / "test/package/mapped.c", "-pthread", to="mapped",
                          libs=[box.library("libglebe.so"), f"-Wl,-rpath,{box.libraries}"])
    kb, place = box.check(program, *arguments, purge_ms=1).out.split()
    if place != "aligned" or os.sysconf("SC_PAGESIZE") != 4096:
        pytest.skip("the library does not begin where a window begins, or OS pages are larger")
    return int(kb)


def test_ordinary_process_maps_two_windows(box):
    assert mapped(box) <= MOST_KB


def test_control_other_code_is_mapped_when_called(box):
    assert mapped(box, "check") > MOST_KB
