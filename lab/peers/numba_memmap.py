"""Livermore kernel 23 by numpy.memmap and numba: numba_memmap.py DIR ITERATIONS

Sweeps over a copy of za.npy that stays on disk. Prints the seconds per iteration, without compilation:
first with a cold page cache, then with a warm one."""
import os
import sys
import time

import numba
import numpy as np


@numba.njit
def sweep(za, zr, zb, zu, zv, zz):
    rows, cols = za.shape
    for j in range(1, rows - 1):
        for k in range(1, cols - 1):
            qa = (za[j + 1, k] * zr[j, k] + za[j - 1, k] * zb[j, k] + za[j, k + 1] * zu[j, k]
                  + za[j, k - 1] * zv[j, k] + zz[j, k])
            za[j, k] += 0.175 * (qa - za[j, k])


folder, iterations = sys.argv[1], int(sys.argv[2])
sweep(*[np.ones((4, 4)) for _ in range(6)])
work = os.path.join(folder, f".za.numba.{os.getpid()}")
source = np.load(os.path.join(folder, "za.npy"), mmap_mode="r")
za = np.memmap(work, source.dtype, "w+", shape=source.shape)
try:
    for row in range(0, source.shape[0], 256):
        za[row:row + 256] = source[row:row + 256]
    coefficients = [np.load(os.path.join(folder, f"{n}.npy"), mmap_mode="r") for n in ("zr", "zb", "zu", "zv", "zz")]
    start = time.perf_counter()
    for _ in range(iterations):
        sweep(za, *coefficients)
    za.flush()
    print(f"{(time.perf_counter() - start) / iterations:.6f} s/it")
finally:
    del za
    os.remove(work)
