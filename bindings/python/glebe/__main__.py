"""`python -m glebe ...` is the command `glebe ...`, with one addition: a program that ends in .py runs under this
Python. So `python -m glebe run app.py --port 80` is `glebe run -- python app.py --port 80`."""

import os
import sys

from glebe import command


# The options of the command that take the next word as their value. test_wheel.py compares them with its help.
WITH_VALUE = frozenset("""-n -o --by --diff --folded --frames --from --guard --limit --mean --on-error --only --output
    --purge-ms --report --runs --sample-ms --seconds --seed --snapshot --stdin --svg --with""".split())


def program_at(words):
    """Where the program begins: at the first word that is neither an option nor its value, or behind a `--` before it.
    Later words are the program's own, each `--` among them too."""
    for i, word in enumerate(words[1:], 1):
        if word == "--":
            return i + 1
        if not word.startswith("-") and words[i - 1] not in WITH_VALUE:
            return i
    return len(words)


def with_python(words, python):
    """The command's arguments, with this Python before the program if that is a script: a file that ends in .py."""
    at = program_at(words)
    if at >= len(words) or not words[at].endswith(".py") or not os.path.isfile(words[at]):
        return words
    separator = [] if words[at - 1] == "--" else ["--"]
    return [*words[:at], *separator, python, *words[at:]]


def main():
    try:
        path = command()
    except FileNotFoundError as missing:
        sys.exit(str(missing))
    os.execv(path, ["glebe", *with_python(sys.argv[1:], sys.executable)])


if __name__ == "__main__":
    main()
