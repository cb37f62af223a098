"""Syncline: parallel tasks wait exactly as long as their data demand.

* `sweep` updates every point of an array, many times, inside a memory bound: of arrays in memory,
  on disk and larger than memory, from numpy, xarray, zarr or GeoTIFF. `kernel` makes the update of
  a function in Python, `function` takes compiled ones.
* ``python -m syncline`` is the command.

>>> import numpy as np, syncline
>>> def heat(u):
...     return u + 0.1 * (u.old.n + u.old.s + u.old.e + u.old.w - 4 * u)
>>> plate = np.zeros((1000, 1000))
>>> plate[0] = 100
>>> warm = syncline.sweep(heat, plate, iterations=100)
"""

from ._errors import (
    ArrayError,
    ConvergenceWarning,
    Error,
    FileError,
    KernelError,
    MemoryBoundError,
    OutputError,
    SlowKernelWarning,
)
from ._functions import Function, function
from ._kernel import Kernel, kernel
from ._sweep import Plan, Report, plan, sweep

__version__ = "0.1.0"

__all__ = [
    "ArrayError",
    "ConvergenceWarning",
    "Error",
    "FileError",
    "Function",
    "Kernel",
    "KernelError",
    "MemoryBoundError",
    "OutputError",
    "Plan",
    "Report",
    "SlowKernelWarning",
    "function",
    "kernel",
    "plan",
    "sweep",
]
