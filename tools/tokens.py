#!/usr/bin/env python3
"""Shows that a commit changed comments only: compares the tokens of every source file.

    tools/tokens.py OLD [NEW]              tokens and the code of examples are the same, or they are named
    tools/tokens.py OLD [NEW] --messages   the text of string literals may differ

OLD and NEW are commits. Without NEW the files of the working tree are compared. Exit status 1: they differ.
Sources are Rust, C, C++, Fortran, shell and Python. White space does not count. In Rust, a block of code in
a documentation comment is a test, so it counts; blocks marked `text` and the like do not.
"""

import re
import subprocess
import sys

C_LIKE = (".rs", ".c", ".h", ".cpp", ".hpp")
HASHED = (".sh", ".py")
FORTRAN = (".f90", ".F90")

RUST = re.compile(
    r"""(?P<comment>//[^\n]*)
      | (?P<block>/\*)
      | (?P<string>b?c?r(?P<hashes>\#*)".*?"(?P=hashes)|[bc]?"(?:\\.|[^"\\])*")
      | (?P<char>b?'(?:\\(?:x..|u\{[^}]*\}|.)|[^'\\])')
      | (?P<life>'[A-Za-z_]\w*)
      | (?P<word>\w+)
      | (?P<space>\s+)
      | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
C = re.compile(
    r"""(?P<comment>//[^\n]*)
      | (?P<block>/\*)
      | (?P<string>"(?:\\.|[^"\\])*")
      | (?P<char>'(?:\\.|[^'\\])*')
      | (?P<word>\w+)
      | (?P<space>\s+)
      | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
HASH = re.compile(
    r"""(?P<comment>(?<![^\s;])\#[^\n]*)
      | (?P<string>\"{3}.*?\"{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
      | (?P<word>\w+)
      | (?P<space>\s+)
      | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
BANG = re.compile(
    r"""(?P<comment>![^\n]*)
      | (?P<string>"[^"\n]*"|'[^'\n]*')
      | (?P<word>\w+)
      | (?P<space>\s+)
      | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)


def end_of_block(text, at, nested):
    """The end of the block comment that begins at `at`."""
    depth, at = 1, at + 2
    while depth and at < len(text):
        if text.startswith("*/", at):
            depth, at = depth - 1, at + 2
        elif nested and text.startswith("/*", at):
            depth, at = depth + 1, at + 2
        else:
            at += 1
    return at


def pieces(name, text):
    """What a source consists of: pairs of a kind ("comment", "string", "space" or others) and a text."""
    rust = name.endswith(".rs")
    grammar = RUST if rust else C if name.endswith(C_LIKE) else BANG if name.endswith(FORTRAN) else HASH
    at = 0
    while at < len(text):
        match = grammar.match(text, at)
        kind = "string" if match.lastgroup == "hashes" else match.lastgroup
        end = end_of_block(text, at, rust) if kind == "block" else match.end()
        yield "comment" if kind == "block" else kind, text[at:end]
        at = end


def tokens(name, text, messages):
    """The tokens of a source, then those of the code in its documentation."""
    found, examples, fence = [], [], None
    for kind, piece in pieces(name, text):
        if kind == "comment":
            doc = re.match(r"//[/!] ?(.*)", piece) if name.endswith(".rs") else None
            if doc:
                line = doc[1].strip()
                if line.startswith("```"):
                    fence = line[3:] if fence is None else None
                    example = fence is not None and fence.split(",")[0] not in ("text", "sh", "toml", "c")
                elif fence is not None and example:
                    examples.extend(re.findall(r"\w+|\S", re.sub(r"(^|\s)//.*$", "", line)))
        elif kind == "string":
            found.append('"…"' if messages else re.sub(r"\\\n\s*", "", piece))
        elif kind != "space":
            found.append(piece)
    # The formatter adds and removes these when it breaks a line.
    closing = (")", "]", "}", ">")
    kept = lambda all: [t for t, after in zip(all, all[1:] + [""]) if not (t == "," and after in closing)]
    return kept(found), kept(examples)


def git(*args):
    return subprocess.run(["git", *args], check=True, capture_output=True).stdout.decode(errors="replace")


def main():
    messages = "--messages" in sys.argv
    commits = [argument for argument in sys.argv[1:] if argument != "--messages"]
    if not 1 <= len(commits) <= 2:
        sys.exit(__doc__)
    changed = git("diff", "--name-status", "--no-renames", *commits).splitlines()
    looked, wrong = 0, []
    for line in changed:
        status, name = line.split("\t")
        if not name.endswith(C_LIKE + HASHED + FORTRAN):
            continue
        if status != "M":
            wrong.append(f"{name}: added or deleted")
            continue
        looked += 1
        old = git("show", f"{commits[0]}:{name}")
        new = git("show", f"{commits[1]}:{name}") if len(commits) == 2 else open(name, errors="replace").read()
        before, after = tokens(name, old, messages), tokens(name, new, messages)
        for what, one, two in zip(("code", "examples"), before, after):
            if one != two:
                at = next((i for i, (a, b) in enumerate(zip(one, two)) if a != b), min(len(one), len(two)))
                context = lambda of: " ".join(of[max(0, at - 4) : at + 5])
                wrong.append(f"{name}: {what}: `{context(one)}` became `{context(two)}`")
    for line in wrong:
        print(line)
    print(f"{looked} sources differ; {len(wrong)} differ in more than comments" + (" and messages" if messages else ""))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
