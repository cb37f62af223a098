#!/usr/bin/env python3
"""Counts the names that the roots of the crates export, and refuses more than the house has room for.

    tools/surface.py     one line for each library crate; exit status 1 if a limit is exceeded

A name is a documented module, or an item, that `src/lib.rs` makes public. What is `#[doc(hidden)]` is
plumbing between the crates and does not count. A name that is needed goes into a module of its subject;
the root has what most users of the crate call.
"""

import pathlib
import re
import sys

FACADE, ALL = 26, 170
PUBLIC = re.compile(
    r"^((?:#\[[^\n]*\]\s*\n)*)pub (?:use ([^;]*);|(?:mod|fn|struct|enum|trait|const|type|static) (\w+))", re.MULTILINE
)


def names(text):
    """The public names of a root."""
    found = []
    for attributes, use, item in PUBLIC.findall(re.sub(r"//[^\n]*", "", text)):
        if "doc(hidden)" in attributes:
            continue
        listed = re.search(r"\{(.*)\}", use, re.DOTALL)
        paths = listed[1].split(",") if listed else [use or item]
        found += [re.split(r"::| as ", path.strip())[-1] for path in paths if path.strip()]
    return found


def main():
    root = pathlib.Path(__file__).parent.parent
    total, facade = 0, 0
    for lib in sorted(root.glob("crates/*/src/lib.rs")):
        crate = lib.parts[-3]
        found = names(lib.read_text())
        print(f"{len(found):3} {crate}: {' '.join(sorted(found))}")
        if crate == "syncline":
            facade = len(found)
        else:
            total += len(found)
    print(f"{facade} names at the root of the facade, at most {FACADE}; {total} at all others, at most {ALL}")
    sys.exit(facade > FACADE or total > ALL)


main()
