#!/usr/bin/env python3
"""Measures out-of-core sweeps: the papers' case, and the papers' disk.

  out_of_core.py case     --dir DIR   16384^2, 12 GiB, within 2 GiB that the kernel enforces: in blocks
  out_of_core.py slow     --dir DIR   4096^2, 768 MiB, within 128 MiB, with the disk at 64 MiB/s: in blocks
  out_of_core.py streamed --dir DIR   the case, 20 iterations in one pass (and 200 with --iterations 200)
  out_of_core.py papers   --dir DIR   older and other schemes as well, by block size: the papers' Fig. 7
  out_of_core.py papers-slow --dir DIR   the same on 4096^2 within 128 MiB, with the disk at 64 MiB/s

Needs root, cgroup v1 (memory, blkio), and 50 GiB of disk for the case. Missing data are created in
DIR and kept; results are removed. Runs alternate; every run is appended to bench/results/ as a JSON line,
and the medians are printed. Peers: `--peer NAME=COMMAND`, with {blocked}, {rows} and {iterations}
filled in; its output must contain a number followed by " s/it", or "wall SECONDSs".

`papers` is the papers' case by default, and needs 60 GiB of disk. It runs `syncline-lab schemes`, which
`cargo build --release -p syncline-lab` builds.
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
import sys

MATRICES = ["za", "zr", "zb", "zu", "zv", "zz"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def disk():
    """Returns the MiB read and written so far by all disks."""
    read = written = 0
    with open("/proc/diskstats") as f:
        for line in f:
            w = line.split()
            if os.path.exists(f"/sys/block/{w[2]}/device"):
                read, written = read + int(w[5]), written + int(w[9])
    return read / 2048, written / 2048


def group(kind, settings):
    folder = f"/sys/fs/cgroup/{kind}/syncline-bench"
    os.makedirs(folder, exist_ok=True)
    for name, value in settings:
        try:
            with open(f"{folder}/{name}", "w") as f:
                f.write(str(value))
        except OSError as e:
            sys.exit(f"{folder}/{name}: {e}: this bench needs root and cgroup v1")
    return f"{folder}/cgroup.procs"


def limited(command, memory, rate, folder, log=None):
    """Runs a command with limits on its memory, page cache included, and on its disk. Returns its output, unless a
    file gets it."""
    none = -1
    bounds = [("memory.memsw.limit_in_bytes", none), ("memory.limit_in_bytes", none)]
    if not os.path.exists("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes"):
        bounds = bounds[1:]
    tight = [(name, memory) for name, _ in reversed(bounds)]
    procs = [group("memory", bounds + tight)]
    if rate:
        device = os.stat(folder).st_dev
        which = f"{os.major(device)}:{os.minor(device)} {rate}"
        throttle = ["blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"]
        procs.append(group("blkio", [(t, which) for t in throttle]))
    subprocess.run(["sync"], check=True)
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3")
    enter = "".join(f"echo $$ > {p}; " for p in procs)
    before = disk()
    out, err = (log, None) if log else (subprocess.PIPE, subprocess.PIPE)
    done = subprocess.run(["bash", "-c", enter + 'exec "$@"', "_", *command], stdout=out, stderr=err, text=True)
    after = disk()
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {(done.stderr or '').strip()}")
    return done.stdout, after[0] - before[0], after[1] - before[1]


def prepare(a, side, block):
    """Creates row-major, blocked and framed data; without a block only the first. The framed data share the
    coefficients of the blocked."""
    rows, blocked, framed = (os.path.join(a.dir, n) for n in ("rows", "blocked", "framed"))
    run = lambda *c: subprocess.run([a.syncline, *map(str, c)], check=True)
    if not os.path.exists(f"{rows}/zz.npy"):
        run("gen", "lk23", rows, "--rows", side, "--cols", side)
    if block is None:
        return {"rows": rows}
    if not os.path.exists(f"{blocked}/layout.json"):
        run("convert", rows, blocked, "--layout", "blocked", "--block", block, "--memory", "1G")
    if not os.path.exists(f"{framed}/layout.json"):
        run("convert", rows, framed, "--layout", "framed", "--block", block, "--memory", "1G")
        for m in MATRICES[1:]:
            os.remove(f"{framed}/{m}")
            os.link(f"{blocked}/{m}", f"{framed}/{m}")
    if not os.path.exists(f"{rows}/za.work"):
        shutil.copyfile(f"{rows}/za.npy", f"{rows}/za.work")
    return {"rows": rows, "blocked": blocked, "framed": framed}


def sweep(a, folder, bound, *options):
    return [a.syncline, "run", "lk23", folder, "--iterations", str(a.iterations), "--memory", bound,
            "--force", "--quiet", "--json", *options]


def results():
    """Returns the folder of today's results on this machine."""
    machine = re.sub(r"\W+", "-", platform.node() or "machine")
    folder = os.path.join(ROOT, "bench", "results", f"{datetime.date.today().isoformat()}-{machine}")
    os.makedirs(folder, exist_ok=True)
    return folder


def papers(a, side, limit, blocks, rate):
    """Runs all schemes in turn, by one program, which prints its own tables."""
    side = a.side or side
    what = f"{a.what}-{side}"
    folder = os.path.join(a.dir, what)
    os.makedirs(folder, exist_ok=True)
    data = ["--dir", folder, "--rows", str(side), "--cols", str(side), "--blocks", a.blocks or blocks]
    subprocess.run([a.lab, "schemes", "prepare", *data], check=True)
    limit = (a.limit or limit) << 20
    name = os.path.join(results(), what)
    # A quarter of the memory is left for the program and for the page cache of the read-ahead: with
    # a tenth, pages that had just been read were dropped and read again.
    command = [a.lab, "schemes", "race", *data, "--memory", str(limit // 4 * 3), "--rounds", str(a.rounds), "--iterations",
               str(a.iterations), "--json", "--plot", f"{name}.svg"]
    with open(f"{name}.jsonl", "a") as log:
        limited(command, limit, rate, folder, log)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["case", "slow", "streamed", "papers", "papers-slow"], nargs="?", default="case")
    p.add_argument("--dir", default="bench-data")
    p.add_argument("--syncline", default="target/release/syncline")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--iterations", type=int, help="default: 2 in blocks, 20 streamed, 4 of the papers")
    p.add_argument("--lab", default="target/release/syncline-lab")
    p.add_argument("--side", type=int, help="papers: rows and columns")
    p.add_argument("--limit", type=int, help="papers: MiB of memory, page cache included")
    p.add_argument("--blocks", help="papers: sides of the blocks, with commas")
    p.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    a = p.parse_args()
    a.dir, a.syncline, a.lab = os.path.abspath(a.dir), os.path.abspath(a.syncline), os.path.abspath(a.lab)
    a.iterations = a.iterations or {"streamed": 20, "papers": 4}.get(a.what, 2)
    if a.what.startswith("papers"):
        if a.what == "papers":
            papers(a, 16384, 2048, "512,1024,2048", 0)
        else:
            papers(a, 4096, 128, "256,512,1024", 64 << 20)
        return
    if a.what == "streamed":
        side, block, memory, bound, rate = 16384, None, 2 << 30, "1800M", 0
    elif a.what == "case":
        side, block, memory, bound, rate = 16384, 2048, 2 << 30, "1800M", 0
    else:
        side, block, memory, bound, rate = 4096, 512, 128 << 20, "100M", 64 << 20
        a.dir = os.path.join(a.dir, "slow")
    os.makedirs(a.dir, exist_ok=True)
    data = prepare(a, side, block)
    ways = {}
    if a.what == "case":
        ways["row-major"] = sweep(a, data["rows"], bound, "--executor", "blocked")
        plain = os.path.join(a.dir, "plain_mapped")
        source = os.path.join(ROOT, "lab", "peers", "plain_mapped.c")
        subprocess.run(["cc", "-O3", "-march=native", "-ffp-contract=off", "-o", plain, source], check=True)
        ways["plain mapped loop"] = [plain, data["rows"], str(side), str(a.iterations)]
    if a.what == "streamed":
        ways["streamed"] = sweep(a, data["rows"], bound, "--output", os.path.join(a.dir, "out.npy"))
    else:
        ways["blocked"] = sweep(a, data["blocked"], bound)
        ways["framed"] = sweep(a, data["framed"], bound)
    if a.what == "slow":
        ways["framed, barrier"] = sweep(a, data["framed"], bound, "--order", "barrier")
        ways["blocked, barrier"] = sweep(a, data["blocked"], bound, "--order", "barrier")
    for peer in a.peer:
        name, command = peer.split("=", 1)
        ways[name] = command.format(iterations=a.iterations, **data).split()

    runs = {name: [] for name in ways}
    with open(os.path.join(results(), f"out_of_core-{a.what}.jsonl"), "a") as log:
        for r in range(a.rounds):
            for name, command in ways.items():
                out, read, written = limited(command, memory, rate, a.dir)
                if "--json" in command:
                    j = json.loads(out.strip().splitlines()[-1])
                    each, peak = j["seconds"] / a.iterations, j["peak_rss"] >> 20
                    model = j["bytes_read"] / 2**30, j["bytes_written"] / 2**30
                else:
                    found = re.search(r"([\d.]+) s/it", out)
                    each = float(found[1]) if found else float(re.search(r"wall ([\d.]+)s", out)[1]) / a.iterations
                    peak, model = None, None
                run = {"way": name, "round": r, "seconds_per_iteration": each, "disk_read_mib": round(read),
                       "disk_written_mib": round(written), "peak_rss_mib": peak, "mapped_gib": model,
                       "command": [os.path.basename(c) if c.startswith("/") else c for c in command], "limit": memory, "rate": rate,
                       "kernel": platform.release(), "cpus": os.cpu_count()}
                log.write(json.dumps(run) + "\n")
                log.flush()
                runs[name].append(run)
                print(f"round {r}: {name:20} {each:7.2f} s/it", file=sys.stderr)
    if a.what == "streamed":
        os.remove(os.path.join(a.dir, "out.npy"))
    print(f"{side}^2, {a.iterations} iterations, limit {memory >> 20} MiB, medians of {a.rounds} alternating runs")
    for name, rs in runs.items():
        med = lambda key: statistics.median(x[key] for x in rs)
        peak = f"{rs[0]['peak_rss_mib']} MiB peak" if rs[0]["peak_rss_mib"] else ""
        mapped = "mapped {:.1f} + {:.1f} GiB".format(*rs[0]["mapped_gib"]) if rs[0]["mapped_gib"] else ""
        print(f"{name:20} {med('seconds_per_iteration'):7.2f} s/it   disk {med('disk_read_mib') / 1024:5.1f} + "
              f"{med('disk_written_mib') / 1024:4.1f} GiB   {mapped:24} {peak}")


if __name__ == "__main__":
    main()
