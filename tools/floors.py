#!/usr/bin/env python3
"""Checks that each crate depends only on crates of lower floors.

  floors.py            prints each crate with its floor and its dependencies; exit code 1 for a dependency on the same
                       floor or a higher one

Floors are in `[workspace.metadata.floors]` of Cargo.toml. Dependencies of tests, benches and builds count as well.
"""
import json
import subprocess
import sys


def main():
    told = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version", "1"], stdout=subprocess.PIPE, check=True)
    told = json.loads(told.stdout)
    floors = told["metadata"]["floors"]
    wrong = []
    packages = {package["name"]: package for package in told["packages"]}
    for name in sorted(set(packages) - set(floors)):
        wrong.append(f"{name} has no floor in [workspace.metadata.floors]")
    for name in sorted(set(floors) - set(packages)):
        wrong.append(f"{name} has a floor, but is not a crate of the workspace")
    for name, package in sorted(packages.items(), key=lambda item: (floors.get(item[0], -1), item[0])):
        below = {}
        for to in package["dependencies"]:
            if to["name"] in packages and to["name"] != name:
                below.setdefault(to["name"], to["kind"] or "normal")
        print(f"{floors.get(name, '?'):>2} {name}: {', '.join(sorted(below)) or '-'}")
        for to, kind in sorted(below.items()):
            if floors.get(to, 0) >= floors.get(name, 0):
                wrong.append(f"{name} (floor {floors.get(name)}) depends on {to} (floor {floors.get(to)}, {kind})")
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
