"""Syncline: parallel tasks wait exactly as long as their data demand.

* `sweep` updates every point of an array, many times, inside a memory bound: of arrays in memory,
  on disk and larger than memory, from numpy, xarray, zarr or GeoTIFF. `kernel` makes the update of
  a function in Python, `function` takes compiled ones.
* `Pool` runs functions in worker processes, with the interface of `concurrent.futures`. `empty`
  makes arrays that workers share.
* `trace` records what threads and workers do and wait for; `report` shows what bounds a run.
* ``python -m syncline`` is the command.

>>> import numpy as np, syncline
>>> def heat(u):
...     return u + 0.1 * (u.old.n + u.old.s + u.old.e + u.old.w - 4 * u)
>>> plate = np.zeros((1000, 1000))
>>> plate[0] = 100
>>> warm = syncline.sweep(heat, plate, iterations=100)
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from ._errors import (
        ArgumentError,
        ArrayError,
        ConvergenceWarning,
        Error,
        FileError,
        GeoreferenceWarning,
        KernelError,
        MemoryBoundError,
        NodataWarning,
        OutputError,
        PoolError,
        SlowKernelWarning,
        TaskPicklingError,
        TaskTimeoutError,
        WorkerError,
    )
    from ._functions import Function, function
    from ._futures import Future
    from ._kernel import Kernel, kernel
    from ._pool import Pool
    from ._recording import TraceReport, report, trace
    from ._report import Plan, Report
    from ._shared import SharedArray, empty
    from ._sweep import plan, sweep

__version__ = "0.1.0"

#: Where each name is: modules are imported when a name of theirs is used, as a worker of a pool
#: needs little.
_PLACES = {
    "_errors": (
        "ArgumentError",
        "ArrayError",
        "ConvergenceWarning",
        "Error",
        "FileError",
        "GeoreferenceWarning",
        "KernelError",
        "MemoryBoundError",
        "NodataWarning",
        "OutputError",
        "PoolError",
        "SlowKernelWarning",
        "TaskPicklingError",
        "TaskTimeoutError",
        "WorkerError",
    ),
    "_functions": ("Function", "function"),
    "_kernel": ("Kernel", "kernel"),
    "_pool": ("Future", "Pool"),
    "_recording": ("TraceReport", "report", "trace"),
    "_report": ("Plan", "Report"),
    "_shared": ("SharedArray", "empty"),
    "_sweep": ("plan", "sweep"),
}
_PLACE = {name: module for module, names in _PLACES.items() for name in names}

__all__ = sorted(_PLACE)


def __getattr__(name):
    module = _PLACE.get(name)
    if module is None:
        raise AttributeError(f"module 'syncline' has no attribute {name!r}")
    value = getattr(_importlib.import_module(f"syncline.{module}"), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
