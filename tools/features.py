#!/usr/bin/env python3
"""Checks that a third-party crate has the same features in all selections of packages.

  features.py          prints each crate that a selection compiles with features that the workspace does not give it;
                       exit code 1 if there is one

A crate is compiled again for each set of features, with all crates above it. What is missing belongs into
tools/workspace-hack/Cargo.toml.
"""
import json
import os
import pathlib
import subprocess
import sys

WORKSPACE = "test --workspace"
# As tools/test.sh runs them.
FOLDERS = sorted(path.name for path in pathlib.Path("crates").iterdir())
CRATES = " ".join(f"-p {name}" if name == "syncline" else f"-p syncline-{name}" for name in FOLDERS)
SELECTIONS = ["build --workspace", "build", "test", f"test {CRATES}", "build -p syncline-cli", "build -p syncline-lab", "build -p syncline-python",
              "build -p syncline-cli -p syncline-solve -p syncline-c -p syncline-preload", "test -p syncline-wave",
              "test -p syncline-cli", "test -p syncline-farm"]


def compiled(selection):
    """The sets of features with which a selection compiles each target of a crate."""
    command = ["cargo", *selection.split(), "--unit-graph", "-Zunstable-options"]
    if selection.startswith("test"):
        command.append("--no-run")
    # The graph of units is for nightly toolchains; it only describes a build.
    told = subprocess.run(command, stdout=subprocess.PIPE, check=True, env={**os.environ, "RUSTC_BOOTSTRAP": "1"})
    sets = {}
    for unit in json.loads(told.stdout)["units"]:
        if unit["mode"] == "build" and unit["pkg_id"].startswith("registry"):
            name = unit["pkg_id"].rsplit("#", 1)[-1], unit["target"]["name"], unit["profile"]["opt_level"]
            sets.setdefault(name, set()).add(tuple(sorted(unit["features"])))
    return sets


def main():
    whole, wrong = compiled(WORKSPACE), 0
    for selection in SELECTIONS:
        for name, sets in sorted(compiled(selection).items()):
            for features in sets - whole.get(name, sets):
                wrong += 1
                wanted = " or ".join(", ".join(one) for one in sorted(whole[name]))
                print(f"error: cargo {selection}: {name[0]} has the features {', '.join(features)}, not {wanted}",
                      file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
