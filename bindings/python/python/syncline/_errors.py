"""The exceptions of the package.

``Error`` is the base of all. Where Python has a class for a kind of error, the exception is one of
that class as well: ``except ValueError`` and ``except OSError`` do what a reader expects.
"""

__all__ = [
    "ArrayError",
    "ConvergenceWarning",
    "Error",
    "FileError",
    "KernelError",
    "MemoryBoundError",
    "OutputError",
    "SlowKernelWarning",
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


class SlowKernelWarning(UserWarning):
    """A kernel is called by the interpreter, point by point."""


class ConvergenceWarning(UserWarning):
    """A sweep has done all its iterations without reaching ``until``."""


# In tracebacks the classes have the names by which users import them.
for _name in __all__:
    globals()[_name].__module__ = "syncline"
