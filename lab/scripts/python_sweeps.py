"""Sweeps in Python: kernels of syncline beside numba's loops and Dask, in turn.

    python3 lab/scripts/python_sweeps.py [--rounds N] [--size N] [--iterations N] [--rust PROGRAM]

Needs the packages syncline and numba; Dask is measured if it is installed. Every result is compared
with numba's sequential loop, bit for bit. Compilation is outside of all times. PROGRAM is the
example `memory_sweep` of syncline-lab, built as the package is: the same sweeps by calls of Rust.
"""

import argparse
import statistics
import subprocess
import time

import numba
import numpy as np
import syncline


@numba.njit
def gauss_seidel(u, iterations):
    u = u.copy()
    for _ in range(iterations):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = u[i, j] + 1.0 * (
                    (u[i - 1, j] + u[i + 1, j] + u[i, j + 1] + u[i, j - 1]) / 4.0 - u[i, j]
                )
    return u


def _heat(u, iterations):
    a, b = u.copy(), u.copy()
    for _ in range(iterations):
        for i in numba.prange(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                b[i, j] = a[i, j] + 0.1 * (
                    a[i - 1, j] + a[i + 1, j] + a[i, j + 1] + a[i, j - 1] - 4 * a[i, j]
                )
        a, b = b, a
    return a


heat, heat_parallel = numba.njit(_heat), numba.njit(parallel=True)(_heat)


@syncline.kernel
def traced(u):
    return u + 1.0 * ((u.n + u.s + u.e + u.w) / 4.0 - u)


DESCRIBED = """
name = "gauss-seidel"
field = "u"
update = "u = u + 1 * ((n + s + e + w) / 4 - u)"
"""


@numba.njit
def point(c, n, s, e, w):
    return c + 1.0 * ((n + s + e + w) / 4.0 - c)


compiled = syncline.function(point)


@syncline.kernel
def batched(u):
    return compiled(u, u.n, u.s, u.e, u.w)


@syncline.kernel
def explicit(u):
    old = u.old
    return u + 0.1 * (old.n + old.s + old.e + old.w - 4 * u)


@numba.njit
def heat_point(c, n, s, e, w):
    return c + 0.1 * (n + s + e + w - 4 * c)


heat_compiled = syncline.function(heat_point, name="heat_point")


@syncline.kernel
def explicit_batched(u):
    old = u.old
    return heat_compiled(u, old.n, old.s, old.e, old.w)


def with_dask(u, iterations):
    import dask.array as da

    def step(block):
        new = block.copy()
        inner = block[1:-1, 1:-1]
        new[1:-1, 1:-1] = inner + 0.1 * (
            block[:-2, 1:-1] + block[2:, 1:-1] + block[1:-1, 2:] + block[1:-1, :-2] - 4 * inner
        )
        return new

    x = da.from_array(u, chunks=(u.shape[0] // 2, u.shape[1] // 2))
    for _ in range(iterations):
        x = x.map_overlap(step, depth=1, boundary="none", trim=True)
    return x.compute(scheduler="threads", num_workers=2)


class Rust:
    """The program of Rust, which runs a sweep for each line."""

    def __init__(self, program, size, iterations):
        self.process = subprocess.Popen(
            [program, str(size), str(iterations)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, kind):
        self.process.stdin.write(f"{kind}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline().split()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--rust")
    args = parser.parse_args()
    u = np.random.default_rng(2).random((args.size, args.size))
    count = args.iterations
    sets = {
        "Gauss-Seidel": {
            "traced": lambda: syncline.sweep(traced, u, iterations=count),
            "described": lambda: syncline.sweep(DESCRIBED, u, iterations=count),
            "batched function": lambda: syncline.sweep(batched, u, iterations=count),
            "numba, sequential": lambda: gauss_seidel(u, count),
        },
        "heat, explicit": {
            "traced": lambda: syncline.sweep(explicit, u, iterations=count),
            "batched function": lambda: syncline.sweep(explicit_batched, u, iterations=count),
            "numba, sequential": lambda: heat(u, count),
            "numba, parallel": lambda: heat_parallel(u, count),
            "dask map_overlap": lambda: with_dask(u, count),
        },
    }
    if args.rust:
        rust = Rust(args.rust, args.size, count)
        sets["Gauss-Seidel"]["described, Rust"] = lambda: rust("gauss-seidel")
        sets["Gauss-Seidel"]["built-in Sor, Rust"] = lambda: rust("sor")
        sets["heat, explicit"]["described, Rust"] = lambda: rust("heat")
    for title, entries in sets.items():
        expected, times = None, {}
        for name, run in list(entries.items()):
            try:
                result = run()
            except ImportError:
                del entries[name]
                continue
            if name == "numba, sequential":
                expected = result
        for number in range(args.rounds):
            names = list(entries)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                begin = time.perf_counter()
                result = entries[name]()
                seconds = time.perf_counter() - begin
                if isinstance(result, float):
                    seconds = result
                else:
                    assert (result == expected).all(), name
                times.setdefault(name, []).append(seconds)
        print(f"{title}, {args.size} x {args.size}, {count} iterations: ns per point and iteration")
        first = statistics.median(times["traced"])
        for name, values in times.items():
            scale = 1e9 / (args.size**2 * count)
            median = statistics.median(values)
            print(
                f"  {name:20} {scale * median:7.3f} ({scale * min(values):.3f} to "
                f"{scale * max(values):.3f})  {median / first:6.2f} of the traced kernel"
            )


if __name__ == "__main__":
    main()
