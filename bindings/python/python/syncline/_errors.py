"""The exceptions of the package.

``Error`` is the base of all. Where Python has a class for a kind of error, the exception is one of
that class as well: ``except ValueError`` and ``except OSError`` do what a reader expects.
"""

import pickle

__all__ = [
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
]


class Error(Exception):
    """The base of all exceptions of this package."""


class ArgumentError(Error, TypeError, ValueError):
    """An argument is of a wrong type, or out of its range; the message names it."""


class KernelError(Error, ValueError):
    """A kernel cannot be traced or called; the message names the line and the reason."""


class ArrayError(Error, ValueError):
    """An array has a type, a shape or an order that the kernel or the sweep does not take."""


class MemoryBoundError(Error, MemoryError):
    """The memory allowed, or the memory of the machine, is not enough. Nothing was run."""


class FileError(Error, OSError):
    """A file cannot be read or written."""


class OutputError(Error, FileExistsError):
    """The output is there already, or an interrupted run has left files beside it."""


class PoolError(Error, RuntimeError):
    """A pool cannot be made or used, or a task was not run."""


class WorkerError(PoolError):
    """The worker of a task has died; the other tasks go on."""


class TaskTimeoutError(PoolError, TimeoutError):
    """A task took longer than the pool allows; its worker was killed."""


class TaskPicklingError(PoolError, pickle.PicklingError):
    """A function, an argument or a result cannot be pickled."""


class GeoreferenceWarning(UserWarning):
    """A GeoTIFF has no CRS or no transform, as the field of its numbers does not tell it."""


class NodataWarning(UserWarning):
    """What an input says means no data is not what the sweep takes for it."""


class SlowKernelWarning(UserWarning):
    """A kernel is called by the interpreter, point by point, which takes long."""


class ConvergenceWarning(UserWarning):
    """A sweep has done all its iterations without reaching ``until``."""


# In tracebacks the classes have the names by which users import them.
for _name in __all__:
    globals()[_name].__module__ = "syncline"
