#!/usr/bin/env python3
"""Measures a sweep on hosts whose disk is slow: 1 host against 4, each with 64 MiB/s.

  sweep_blkio.py --dir DIR --out FILE [--hosts 1,4] [--rounds 3] [--rows 1024] [--cols 8192]

The hosts are those of a testbed (testbed/README.md), with 0.2 ms each way. The processes of each host
are in a control group of their own, which may read and write RATE bytes a second on the disk that
holds DIR. LK23 runs with 20 iterations over six matrices. The page cache is dropped before each run.
The runs of one host and of several alternate. Each is appended to FILE as a JSON line, with

  seconds       the sweep, as `syncline run --json` reports it, and `wall` with the start of MPI
  read, written MiB of the device in each group (blkio.throttle.io_service_bytes)
  device        MiB of the device during the whole run (/proc/diskstats), other programs included

Then the medians are printed, and how many times as fast as the first number of hosts the others are.

Needs root and cgroup v1 with blkio; there only direct I/O is charged to the group that writes, which
is how a streamed sweep writes. A host mounts its own /sys, so the groups are bound to DIR/groups
before the testbed starts. Missing data are created in DIR and kept; results are removed.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CGROUP = "/sys/fs/cgroup/blkio"
TESTBED = os.path.join(ROOT, "testbed", "testbed")
MIB = 1 << 20


def device_of(folder):
    """Returns the whole disk that holds a folder, as (major:minor, name)."""
    number = os.stat(folder).st_dev
    path = os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if os.path.exists(f"{path}/partition"):
        path = os.path.dirname(path)
    with open(f"{path}/dev") as f:
        return f.read().strip(), os.path.basename(path)


def device_mib(name):
    """Returns the MiB read and written so far by a disk."""
    with open("/proc/diskstats") as f:
        for line in f:
            w = line.split()
            if w[2] == name:
                return int(w[5]) / 2048, int(w[9]) / 2048
    sys.exit(f"/proc/diskstats has no {name}")


class Group:
    """The control group of a host."""

    def __init__(self, name, device, rate):
        self.name, self.device, self.path = name, device, f"{CGROUP}/{name}"
        os.makedirs(self.path, exist_ok=True)
        for way in ("read", "write"):
            self.set(f"blkio.throttle.{way}_bps_device", f"{device} {rate}")

    def set(self, name, value):
        try:
            with open(f"{self.path}/{name}", "w") as f:
                f.write(value)
        except OSError as e:
            sys.exit(f"{self.path}/{name}: {e}: needs root and cgroup v1 with blkio")

    def mib(self):
        """Returns the MiB read and written so far by the processes of the group."""
        found = {"Read": 0, "Write": 0}
        with open(f"{self.path}/blkio.throttle.io_service_bytes") as f:
            for line in f:
                w = line.split()
                if w[0] == self.device and w[1] in found:
                    found[w[1]] = int(w[2])
        return found["Read"] / MIB, found["Write"] / MIB

    def remove(self):
        for _ in range(100):
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.05)
        print(f"{self.path} is left: processes are in it", file=sys.stderr)


def testbed(a, *arguments, **options):
    return subprocess.run([TESTBED, "--name", a.name, *map(str, arguments)], text=True, **options)


def run(a, hosts, groups, device, shim):
    """Runs the sweep on this number of hosts; returns a record."""
    output = os.path.join(a.dir, "out.npy")
    # The number of a host ends its name, and 0 is the process that writes it.
    place = f'echo 0 > "{a.dir}/groups/{a.name}-h${{h##*-h}}/cgroup.procs"'
    script = f'h=$(cat /proc/sys/kernel/hostname) && {place} && exec "$@"'
    sweep = [a.syncline, "run", "lk23", os.path.join(a.dir, "data"), "--iterations", str(a.iterations),
             "--output", output, "--quiet", "--json", *a.option]
    subprocess.run(["sync"], check=True)
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3")
    # The pages of the program are not to be charged to the groups.
    with open(a.syncline, "rb") as f:
        while f.read(8 * MIB):
            pass
    before, device_before, start = [g.mib() for g in groups], device_mib(device), time.monotonic()
    done = testbed(a, "run", "--mpi", a.mpi, "--hosts", hosts, "--per-host", 1, "--env", f"SYNCLINE_MPI={shim}",
                   "--env", "SYNCLINE_TIMEOUT=20000", "--timeout", 500, "sh", "-c", script, "sh", *sweep,
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wall, device_after = time.monotonic() - start, device_mib(device)
    if done.returncode:
        sys.exit(f"{hosts} hosts: exit code {done.returncode}: {done.stderr.strip()}")
    report = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    moved = [(g.mib()[0] - b[0], g.mib()[1] - b[1]) for g, b in zip(groups, before)]
    same = subprocess.run(["cmp", "-s", output, os.path.join(a.dir, "right.npy")]).returncode == 0
    os.remove(output)
    if not same:
        sys.exit(f"{hosts} hosts: the result differs from that of one process")
    keep = ("passes", "depth", "threads", "panels", "panel_rows", "sync_seconds", "times", "memory", "peak")
    return {"hosts": hosts, "seconds": report["seconds"], "wall": round(wall, 3),
            "read": [round(r, 1) for r, _ in moved], "written": [round(w, 1) for _, w in moved],
            "device": [round(y - x, 1) for x, y in zip(device_before, device_after)],
            "rows": a.rows, "cols": a.cols, "iterations": a.iterations, "rate": a.rate, "mpi": a.mpi,
            "load": os.getloadavg()[0], **{k: report.get(k) for k in keep}}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dir", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--syncline", default="target/release/syncline")
    p.add_argument("--hosts", default="1,4")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--rows", type=int, default=1024)
    p.add_argument("--cols", type=int, default=8192)
    p.add_argument("--iterations", type=int, default=20)
    p.add_argument("--rate", type=int, default=64 * MIB)
    p.add_argument("--mpi", default="openmpi", choices=["openmpi", "mpich"])
    p.add_argument("--name", default="sweep-blkio", help="of the testbed, and of the groups")
    p.add_argument("--option", action="append", default=[], help="a further option of `syncline run`")
    a = p.parse_args()
    a.dir, a.syncline = os.path.abspath(a.dir), os.path.abspath(a.syncline)
    counts = [int(n) for n in a.hosts.split(",")]
    data, bound = os.path.join(a.dir, "data"), os.path.join(a.dir, "groups")
    os.makedirs(bound, exist_ok=True)
    number, device = device_of(a.dir)
    sweep = [a.syncline, "run", "lk23", data, "--iterations", str(a.iterations), "--quiet"]
    if not os.path.exists(f"{data}/zz.npy"):
        subprocess.run([a.syncline, "gen", "lk23", data, "--rows", str(a.rows), "--cols", str(a.cols)], check=True)
    subprocess.run([*sweep, "--output", f"{a.dir}/right.npy", "--force"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([a.syncline, "mpi", "build", "--mpicc", f"mpicc.{a.mpi}", "--into", f"{a.dir}/shims"], check=True,
                   stdout=subprocess.DEVNULL)
    shim = next(os.path.join(a.dir, "shims", f) for f in os.listdir(f"{a.dir}/shims") if f.endswith(".so"))
    groups, runs = [], {n: [] for n in counts}
    subprocess.run(["mount", "--bind", CGROUP, bound], check=True)
    try:
        groups = [Group(f"{a.name}-h{n}", number, a.rate) for n in range(max(counts))]
        if testbed(a, "up", "--hosts", max(counts), "--delay-us", 200).returncode:
            sys.exit("the testbed does not start")
        with open(a.out, "a") as log:
            for r in range(a.rounds):
                for n in counts:
                    record = {"round": r, **run(a, n, groups, device, shim)}
                    print(json.dumps(record), file=log, flush=True)
                    runs[n].append(record)
                    print(f"round {r}, {n} hosts: {record['seconds']:.2f} s, of the device {record['device']} MiB", file=sys.stderr)
    finally:
        testbed(a, "down")
        for g in groups:
            g.remove()
        subprocess.run(["umount", bound], check=False)
        os.rmdir(bound)
        shutil.rmtree(os.path.join(a.dir, "shims"))
        os.remove(f"{a.dir}/right.npy")
    for key in ("seconds", "wall"):
        medians = {n: statistics.median(r[key] for r in runs[n]) for n in counts}
        first = medians[counts[0]]
        print(f"{key:8}" + "".join(f"  {n} hosts {m:.2f} s ({first / m:.2f} times)" for n, m in medians.items()))
    for n in counts:
        read, written = (statistics.median(sum(r[k]) for r in runs[n]) for k in ("read", "written"))
        print(f"{n} hosts: read {read:.0f} MiB, written {written:.0f} MiB by all groups")


if __name__ == "__main__":
    main()
