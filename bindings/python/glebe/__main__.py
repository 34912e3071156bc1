"""`python -m glebe ...` is the command `glebe ...`, with one addition: a program that ends in .py runs under this
Python. So `python -m glebe run app.py --port 80` is `glebe run -- python app.py --port 80`."""

import os
import sys

from glebe import command


def with_python(words, python):
    """The command's arguments, with this Python before a script. A script is the word after `--`; without that word,
    the first that ends in .py and is a file."""
    if "--" in words:
        at = words.index("--") + 1
        options = words[:at]
    else:
        at = next((i for i, word in enumerate(words[1:], 1) if word.endswith(".py") and os.path.isfile(word)),
                  len(words))
        options = [*words[:at], "--"]
    if at < len(words) and words[at].endswith(".py") and os.path.isfile(words[at]):
        return [*options, python, *words[at:]]
    return words


def main():
    try:
        path = command()
    except FileNotFoundError as missing:
        sys.exit(str(missing))
    os.execv(path, ["glebe", *with_python(sys.argv[1:], sys.executable)])


if __name__ == "__main__":
    main()
