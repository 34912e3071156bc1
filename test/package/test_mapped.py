"""How much of the library's code is mapped in an ordinary process: cmake/compact.ld puts the rest last. And how much of
the unwinder's tables while there is a profile."""

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


def test_a_profile_maps_less_of_the_tables(box, tmp_path):
    """Reading the unwinder's tables maps at most half of what it maps without a profile."""
    tables = box.compile(box.root / "test/package/tables.c", "-O1", to="tables")
    pages, of_all = map(int, box.check(tables).out.split())
    assert of_all > 100, "control: the tables are large"
    if 2 * pages < of_all:
        pytest.skip("the kernel maps no pages around the one that is read")
    profiled, _ = map(int, box.check(tables, profile=tmp_path / "profile").out.split())
    assert 0 < profiled <= pages / 2, (profiled, pages)
