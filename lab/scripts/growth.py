#!/usr/bin/env python3
"""Measures the growth of a streamed sweep's time with rows, columns, depth and the memory bound.

  growth.py --dir DIR [--side 8192] [--rounds 2]

Runs Livermore kernel 23 out of core, and varies one factor at a time around SIDE x SIDE, 20 iterations in one pass.
The data (at most twice that of the base case: 6 GiB for 8192) are created below DIR and removed. Runs alternate; every
run is appended to bench/results/ as a JSON line, and the medians are printed as the table of bench/README.md.
"""
import argparse
import datetime
import json
import os
import platform
import re
import shutil
import statistics
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dir", default="bench-data")
    p.add_argument("--syncline", default="target/release/syncline")
    p.add_argument("--side", type=int, default=8192)
    p.add_argument("--rounds", type=int, default=2)
    a = p.parse_args()
    binary, side = os.path.abspath(a.syncline), a.side
    folder = os.path.join(os.path.abspath(a.dir), "growth")
    output = os.path.join(folder, "out.npy")
    machine = re.sub(r"\W+", "-", platform.node() or "machine")
    results = os.path.join(ROOT, "bench", "results", f"{datetime.date.today().isoformat()}-{machine}")
    os.makedirs(results, exist_ok=True)
    log = open(os.path.join(results, "growth.jsonl"), "a")

    def run(factor, value, rows, cols, *options):
        command = [binary, "run", "lk23", os.path.join(folder, "data"), "--output", output, "--force", "--json", *options]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        j = json.loads(out.strip().splitlines()[-1])
        run = {"factor": factor, "value": value, "rows": rows, "cols": cols, "options": list(options),
               "seconds": j["seconds"], "gib": (j["bytes_read"] + j["bytes_written"]) / 2**30,
               "passes": j["passes"], "peak_rss_mib": j["peak_rss"] >> 20}
        log.write(json.dumps(run) + "\n")
        log.flush()
        return run

    def race(rows, cols, cells):
        """Runs cells on the same data, in turn."""
        os.makedirs(folder, exist_ok=True)
        subprocess.run([binary, "gen", "lk23", os.path.join(folder, "data"), "--rows", str(rows), "--cols", str(cols)],
                       check=True, capture_output=True)
        # Not counted: in the first run of a shape the disk is still busy with the new files.
        subprocess.run(["sync"], check=True)
        runs = [[] for _ in cells]
        for _ in range(a.rounds):
            for done, (factor, value, options) in zip(runs, cells):
                done.append(run(factor, value, rows, cols, *options))
        shutil.rmtree(folder)
        for done in runs:
            one = done[0]
            seconds = statistics.median(r["seconds"] for r in done)
            print(f"| {one['factor']} | {one['value']} | {one['passes']} | {one['gib']:.2f} | {seconds:.2f} | "
                  f"{seconds / one['gib']:.2f} | {one['peak_rss_mib']} |", flush=True)

    twenty = ["--iterations", "20", "--depth", "20", "--memory", "1G"]
    print("| factor | value | passes | GiB read and written | seconds | seconds per GiB | peak MiB |")
    print("|---|---|---|---|---|---|---|")
    for rows in (side // 8, side // 4, side // 2, side, 2 * side):
        race(rows, side, [("rows", rows, twenty)])
    for cols in (side // 8, side // 4, side // 2, 2 * side):
        race(side, cols, [("columns", cols, twenty)])
    depths = [("depth, 40 iterations", d, ["--iterations", "40", "--depth", str(d), "--memory", "1G"])
              for d in (5, 10, 20, 40)]
    single = [("depth = iterations", d, ["--iterations", str(d), "--depth", str(d), "--memory", "1G"])
              for d in (1, 10, 40, 80)]
    bounds = [("memory, 40 iterations", m, ["--iterations", "40", "--memory", m])
              for m in ("64M", "128M", "256M", "512M", "1G")]
    race(side, side, depths + single + bounds)


if __name__ == "__main__":
    main()
