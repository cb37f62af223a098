"""The exceptions of the package.

``Error`` is the base of all. Where Python has a class for a kind of error, the exception is one of
that class as well: ``except ValueError`` and ``except OSError`` do what a reader expects.
"""

import pickle

__all__ = [
    "ArrayError",
    "ConvergenceWarning",
    "Error",
    "FileError",
    "KernelError",
    "MemoryBoundError",
    "OutputError",
    "PoolError",
    "SlowKernelWarning",
    "TaskPicklingError",
    "TaskTimeoutError",
    "WorkerError",
]


class Error(Exception):
    """The base of all exceptions of this package."""


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


class SlowKernelWarning(UserWarning):
    """A kernel is called by the interpreter, point by point, which takes long."""


class ConvergenceWarning(UserWarning):
    """A sweep has done all its iterations without reaching ``until``."""


# In tracebacks the classes have the names by which users import them.
for _name in __all__:
    globals()[_name].__module__ = "syncline"
