"""The pages of this repository, as text with links. tools/lint checks them; tools/docs makes a site of them."""

import os
import pathlib
import re

FENCE = re.compile(r"(?ms)^(```|~~~).*?^\1[ \t]*$")
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
# [text][name] or [text][], and what such a name leads to.
REFERENCE = re.compile(r"(?<![!\w\]])\[([^\[\]]+)\]\[([^\[\]]*)\]")
DEFINED = re.compile(r"(?m)^ {0,3}\[([^\[\]]+)\]: *(\S+)")
HEADING = re.compile(r"(?m)^#{1,6} +(.*?)[ #]*$")
ELSEWHERE = re.compile(r"[a-z][a-z+.-]*:")
REPOSITORY = "https://github.com/glebe-alloc/glebe"
WITHIN = re.compile(re.escape(REPOSITORY) + r"/(?:blob|tree)/main/") # a crate's README has no files beside it
SUMMARY = pathlib.PurePosixPath("docs/SUMMARY.md")


def pages(root):
    """Every Markdown page for readers, relative to the root."""
    found = [*root.glob("*.md"), *root.glob(".github/*.md"), *(root / "docs").rglob("*.md")]
    for folder in ("bindings/*", "src", "bench", "bench/*", "cli"):
        found += root.glob(f"{folder}/README.md")
    return sorted(path.relative_to(root) for path in found)


def without_code(text):
    """The text with code replaced by spaces, so offsets stay: links and headings in code do not count."""
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])
    return CODE.sub(blank, FENCE.sub(blank, text))


def links(text):
    """(offset, is a picture, target) of each link."""
    for match in LINK.finditer(without_code(text)):
        yield match.start(), bool(match[1]), match[3]


def anchors(text):
    """The anchors of this page, which follow # in a link."""
    seen = {}
    for match in HEADING.finditer(FENCE.sub("", text)):
        title = re.sub(r"[`*]|\]\([^)]*\)", "", match[1]).replace("[", "")
        slug = re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
        count = seen[slug] = seen.get(slug, -1) + 1
        yield f"{slug}-{count}" if count else slug


def resolve(page, target):
    """(path from the root, anchor) of a link's target; for `#anchor` the path is the page's own. None if the target is
    outside the repository."""
    if within := WITHIN.match(target):
        page, target = pathlib.PurePosixPath("README.md"), target[within.end():]
    elif ELSEWHERE.match(target):
        return None
    path, _, anchor = target.partition("#")
    return pathlib.PurePosixPath(os.path.normpath(page.parent / path)) if path else page, anchor


def broken(root):
    """(place, complaint) for each link into the repository that has no target."""
    known = {}
    for page in pages(root):
        text = (root / page).read_text(encoding="utf-8")
        for offset, _, target in links(text):
            if (found := resolve(page, target)) is None:
                continue
            place, (path, anchor) = f"{page}:{text.count(chr(10), 0, offset) + 1}", found
            if not (root / path).exists():
                yield place, f"{target}: there is no {path}"
            elif anchor and path.suffix == ".md":
                if path not in known:
                    known[path] = set(anchors((root / path).read_text(encoding="utf-8")))
                if anchor not in known[path]:
                    yield place, f"{target}: {path} has no heading #{anchor}"


def in_summary(root):
    """The pages that docs/SUMMARY.md names, in its order."""
    found = [resolve(SUMMARY, target) for _, _, target in links((root / SUMMARY).read_text(encoding="utf-8"))]
    return [path for path, _ in filter(None, found)]
