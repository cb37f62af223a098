"""Pools of processes in Python: syncline.Pool beside those of others, in turn.

    python3 lab/scripts/python_pools.py [--rounds N] [--tasks N] [--json FILE]

Needs the package syncline; joblib and ray are measured if they are installed. Each pool has two
workers that are new interpreters (spawn; loky; Ray's own), and numpy loaded in them, as the manager
has. Cold start is the time from the construction of a pool to the result of its first task.
"""

import argparse
import concurrent.futures as futures
import json
import multiprocessing as mp
import os
import statistics
import sys
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_tasks"))
import tasks

WORKERS = 2
ARRAY = np.random.default_rng(1).random(1 << 20)


class Syncline:
    name = "syncline"

    def __init__(self):
        import syncline

        self.pool = syncline.Pool(WORKERS, initializer=tasks.preload)

    def one(self, f, *args):
        return self.pool.submit(f, *args).result()

    def map(self, f, items):
        return list(self.pool.map(f, items))

    def close(self):
        self.pool.shutdown()


class Futures:
    name = "concurrent.futures"

    def __init__(self):
        context = mp.get_context("spawn")
        self.pool = futures.ProcessPoolExecutor(WORKERS, context, initializer=tasks.preload)

    def one(self, f, *args):
        return self.pool.submit(f, *args).result()

    def map(self, f, items):
        return list(self.pool.map(f, items, chunksize=max(1, len(items) // (4 * WORKERS))))

    def close(self):
        self.pool.shutdown()


class Multiprocessing:
    name = "multiprocessing"

    def __init__(self):
        self.pool = mp.get_context("spawn").Pool(WORKERS, tasks.preload)

    def one(self, f, *args):
        return self.pool.apply(f, args)

    def map(self, f, items):
        return self.pool.map(f, items)

    def close(self):
        self.pool.terminate()
        self.pool.join()


class Loky:
    name = "joblib (loky)"

    def __init__(self):
        from joblib.externals.loky import ProcessPoolExecutor

        self.pool = ProcessPoolExecutor(WORKERS, initializer=tasks.preload)

    def one(self, f, *args):
        return self.pool.submit(f, *args).result()

    def map(self, f, items):
        return list(self.pool.map(f, items, chunksize=max(1, len(items) // (4 * WORKERS))))

    def close(self):
        self.pool.shutdown()


class Ray:
    name = "ray"
    started = False

    def __init__(self):
        import ray

        self.ray = ray
        ray.init(
            num_cpus=WORKERS,
            include_dashboard=False,
            log_to_driver=False,
            runtime_env={"env_vars": {"PYTHONPATH": os.path.dirname(tasks.__file__)}},
        )
        self.known = {}

    def of(self, f):
        if f not in self.known:
            self.known[f] = self.ray.remote(f)
        return self.known[f]

    def one(self, f, *args):
        return self.ray.get(self.of(f).remote(*args))

    def map(self, f, items):
        remote = self.of(f)
        return self.ray.get([remote.remote(item) for item in items])

    def close(self):
        self.ray.shutdown()


def seconds(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def measure(kind, tasks_of, rounds):
    begin = time.perf_counter()
    pool = kind()
    pool.one(tasks.nothing)
    found = {"cold start, ms": [1e3 * (time.perf_counter() - begin)]}
    # All workers are there, and have what they need.
    pool.map(tasks.brief, range(8))
    pool.one(tasks.double, ARRAY)
    for _ in range(rounds):
        found.setdefault("empty, one by one, us", []).append(
            1e6 / tasks_of * seconds(lambda: [pool.one(tasks.nothing) for _ in range(tasks_of)])
        )
        found.setdefault("empty, map, us", []).append(
            1e6 / tasks_of * seconds(lambda: pool.map(tasks.nothing, range(tasks_of)))
        )
        found.setdefault("1000 of 1 ms, map, ms", []).append(
            1e3 * seconds(lambda: pool.map(tasks.brief, range(1000)))
        )
        found.setdefault("8 MiB each way, ms", []).append(
            1e3 / 20 * seconds(lambda: [pool.one(tasks.double, ARRAY) for _ in range(20)])
        )
    pool.close()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--json")
    parser.add_argument("--without", action="append", default=[], help="a pool to leave out")
    args = parser.parse_args()
    kinds = [Syncline, Futures, Multiprocessing, Loky, Ray]
    results = {}
    for number in range(args.rounds):
        order = kinds[number % len(kinds) :] + kinds[: number % len(kinds)]
        for kind in order:
            if kind.name in args.without:
                continue
            try:
                found = measure(kind, args.tasks, 1)
            except ImportError:
                continue
            for what, values in found.items():
                results.setdefault(what, {}).setdefault(kind.name, []).extend(values)
    for what, pools in results.items():
        best = min(statistics.median(v) for name, v in pools.items() if name != "syncline")
        print(what)
        for name, values in pools.items():
            median = statistics.median(values)
            of_best = f"{best / median:6.2f} times as fast as the best other"
            ratio = of_best if name == "syncline" else ""
            print(f"  {name:20} {median:10.2f}  ({min(values):.2f} to {max(values):.2f}) {ratio}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
