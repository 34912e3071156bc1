"""What the command prints as JSON: each object is held against its JSON Schema (cli/schema), and the fields of the
schema against docs/json.md."""

import copy
import json
import re
import subprocess

import pytest

jsonschema = pytest.importorskip("jsonschema", reason="tools/setup test installs python3-jsonschema")
pytestmark = pytest.mark.xdist_group("json") # its programs run once

# A program with a leak, blocks of each kind, and reallocs.
PROGRAM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *kept[2000];
int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "twice") == 0) {
        void *volatile block = malloc(3000);
        free(block);
        free(block);
        return 0;
    }
    int (*label)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_DEFAULT,
        "glebe_profile_label");
    if (label)
        label("stage", "fill");
    for (int i = 0; i < 2000; i++)
        memset(kept[i] = malloc(1000 + i), 1, 1000 + i);
    for (int i = 0; i < 2000; i += 2)
        free(kept[i]);
    for (int i = 0; i < 20; i++)
        kept[0] = realloc(i ? kept[0] : NULL, 100 << i);
    free(aligned_alloc(64, 6400));
    void *volatile lost = malloc(5000);
    memset(lost, 1, 5000);
    lost = NULL;
    if (argc > 1) {
        write(1, "ready\\n", 6);
        pause();
    }
    return argv == NULL;
}
"""
SECTIONS = {
    "stats": "Statistics", "compare": "Comparisons", "explain": "Explanations", "leaks": "Leaks", "map": "Maps",
    "trace": "Traces", "report": "Reports", "profile": "Profiles", "profile-diff": "Differences of profiles",
}


def schema_of(box, name):
    return json.loads((box.root / f"cli/schema/{name}.json").read_text())


@pytest.fixture(scope="module")
def printed(box, tmp_path_factory):
    """schema -> the objects that the commands print."""
    folder = tmp_path_factory.mktemp("json")
    (folder / "program.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-g", folder / "program.c", "-o", folder / "program"], check=True)
    command = box.libraries / "glebe"
    assert command.exists(), "run: make cli"

    def run(*words):
        result = subprocess.run([command, *map(str, words)], capture_output=True, text=True, cwd=folder, timeout=120)
        assert result.returncode == 0, (words, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]

    program = folder / "program"
    of = {name: [] for name in SECTIONS}
    waits = [command, "run", "-q", "--", program, "waits"]
    with subprocess.Popen(waits, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        of["stats"] += run("stats", "--json", child.pid)
        # The command has become the program.
        of["explain"] += run("explain", "--json", child.pid)
        of["leaks"] += run("leaks", "--json", child.pid)
        of["map"] += run("map", "--json", child.pid)
        child.kill()
    with subprocess.Popen([program, "waits"], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        without = run("explain", "--json", child.pid)
        assert not without[0]["glebe"] and "classes" not in without[0]
        of["explain"] += without
        child.kill()
    of["stats"] += run("stats", "--json", "--", program)
    of["explain"] += run("explain", "--json", "--at-exit", "--", program)
    of["leaks"] += run("leaks", "--json", "--", program)
    # With sites: all blocks are samples.
    of["explain"] += run("explain", "--json", "--at-exit", "--mean", 1, "--", program)
    of["leaks"] += run("leaks", "--json", "--mean", 1, "--", program)
    for name, rows in (("explain", "sites"), ("leaks", "leaks")):
        assert not of[name][0]["sites_recorded"] and of[name][-1]["sites_recorded"]
        assert any(frame.startswith("main (program.c:") for row in of[name][-1][rows] for frame in row["frames"]), name
    of["compare"] += run("compare", "-q", "--only", "system,glebe", "-n", 2, "--json", "--samples-json", "--", program)
    run("record", "-q", "-o", "t.trace", "--", program)
    of["trace"] += run("trace", "--json", "t.trace") + run("trace", "--json", "--anonymous", "t.trace")
    of["compare"] += run("replay", "-q", "--only", "system,glebe", "-n", 1, "--json", "t.trace")
    of["profile"] += run("profile", "--mean", "4K", "--json", "-o", "a.pb.gz", "--", program)
    of["profile"] += run("profile", "--json", "a.pb.gz")
    of["profile"] += run("profile", "--mean", "4K", "--lifetimes", "--json", "-o", "l.pb.gz", "--", program)
    run("run", "-q", "--guard", 1, "--report", "r.json", "--on-error", "count", "--", program, "twice")
    of["report"] += [json.loads(line) for line in (folder / "r.json").read_text().splitlines()]
    of["report"] += run("report", "--json", "r.json")
    assert "freed_at" not in of["report"][0] and of["report"][1]["freed_at"][0].startswith("main (program.c:")
    run("profile", "-q", "--mean", "16K", "-o", "b.pb.gz", "--", program)
    of["profile-diff"] += run("profile", "--json", "--diff", "a.pb.gz", "b.pb.gz")
    return of


def validator(schema):
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


@pytest.mark.parametrize("name", SECTIONS)
def test_output_is_what_its_schema_says(box, printed, name):
    schema = schema_of(box, name)
    check = validator(schema)
    assert printed[name]
    for object_ in printed[name]:
        check.validate(object_)
        # Control: nothing may be missing, wrong or unknown.
        for field in schema["required"]:
            less = copy.deepcopy(object_)
            del less[field]
            assert not check.is_valid(less), field
            less[field] = {"of": "another type"}
            assert not check.is_valid(less), field
        if schema["additionalProperties"] is False:
            assert not check.is_valid({**object_, "unknown": 1})
    # Each list of objects was seen with an element, so the fields of elements are covered.
    for field, of in schema["properties"].items():
        if of.get("type") == "array" and of["items"].get("type") == "object" and field != "limits":
            assert any(object_.get(field) for object_ in printed[name]), field


def test_statistics_are_those_of_the_header(box, printed):
    properties = list(schema_of(box, "stats")["properties"])
    header = (box.root / "include/glebe.h").read_text()
    assert properties == ["program", "pid", *re.findall(r'^    X\((\w+), "', header, re.M)]
    assert all(list(object_) == properties for object_ in printed["stats"])


def paths(schema, prefix=""):
    for name, of in schema["properties"].items():
        yield prefix + name
        if of.get("type") == "object":
            yield from paths(of, f"{prefix}{name}.")
        elif of.get("type") == "array" and of["items"].get("type") == "object":
            yield from paths(of["items"], f"{prefix}{name}[].")


@pytest.mark.parametrize("name, section", SECTIONS.items())
def test_the_page_has_each_field_and_no_other(box, name, section):
    page = (box.root / "docs/json.md").read_text()
    text = page.split(f"## {section}\n")[1].split("\n## ")[0]
    assert f"cli/schema/{name}.json" in text
    assert re.findall(r"^\| `([^`]+)` \|", text, re.M) == list(paths(schema_of(box, name)))
