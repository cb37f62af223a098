#!/usr/bin/env python3
"""Refuses prose that the project does not want, in comments, messages and pages.

    tools/prose.py [FILE...]     names each place; exit status 1 if there is one
    tools/prose.py --count       one line for each rule

Without files, all sources and pages of the repository are read. The rules:

* `width`: a line with a comment, or a line of a page, has at most 100 columns (a table or a link may be wider);
* `words`: a comment or a message names its subject: not nobody, somebody, anybody, everybody, whoever, who,
  whom or "so many". What stands between backticks is a name, and free.
"""

import re
import subprocess
import sys

from tokens import C_LIKE, FORTRAN, HASHED, pieces

WIDTH = 100
WORDS = re.compile(r"\b(nobody|somebody|anybody|everybody|whoever|who|whom|so many)\b", re.IGNORECASE)
PAGE = ".md"


def prose(name, text):
    """Lines of prose as (line, column at which the line ends, text, whether it is a comment)."""
    if name.endswith(PAGE):
        fenced = False
        for number, line in enumerate(text.splitlines(), 1):
            if line.lstrip().startswith("```"):
                fenced = not fenced
            free = fenced or line.lstrip().startswith("|") or re.search(r"\]\(|^\[.*\]: |https?://", line)
            yield number, 0 if free else len(line), "" if fenced else line, True
        return
    lines = text.splitlines()
    number = 1
    for kind, piece in pieces(name, text):
        if kind in ("comment", "string"):
            for offset, part in enumerate(piece.split("\n")):
                width = len(lines[number - 1 + offset]) if kind == "comment" else 0
                yield number + offset, width, part, kind == "comment"
        number += piece.count("\n")


def main():
    arguments = sys.argv[1:]
    count = "--count" in arguments
    names = [argument for argument in arguments if argument != "--count"] or [
        name
        for name in subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.split("\n")
        if name.endswith(C_LIKE + HASHED + FORTRAN + (PAGE,))
    ]
    found = {"width": [], "words": []}
    for name in names:
        if name.endswith("tools/prose.py"):
            continue
        for number, width, text, comment in prose(name, open(name, errors="replace").read()):
            if width > WIDTH:
                found["width"].append(f"{name}:{number}: {width} columns")
            for word in WORDS.findall(re.sub(r"`[^`]*`", "", text)):
                found["words"].append(f"{name}:{number}: \"{word}\": {text.strip()}")
    for rule, places in found.items():
        if count:
            print(f"{rule}: {len(places)}")
        else:
            print(*places, sep="\n", end="\n" if places else "")
    sys.exit(any(found.values()) and not count)


main()
