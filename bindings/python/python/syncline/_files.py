"""Files beside the outputs: temporary folders, windows, and errors with their paths."""

import contextlib
import fcntl
import importlib
import os
import shutil
import tempfile
import time

import numpy as np

from ._errors import ArgumentError, FileError

#: The bytes of a window.
_WINDOW = 64 << 20

#: How the names of folders for temporary files begin.
_PREFIX = ".syncline-"


class Stage:
    """Folders for temporary files, beside the outputs; removed at the end, whatever happens.

    If the process is killed, the next one that has its output there removes them: a file in each of
    them is locked as long as its process lives.
    """

    def __init__(self, output):
        self._home = None if output is None else folder_of(output)
        self._folders, self._locks, self._files = {}, [], 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        interrupt = None
        for folder in self._folders.values():
            # Threads of a library that was interrupted may write for a moment.
            for _ in range(100):
                try:
                    shutil.rmtree(folder, ignore_errors=True)
                    if not os.path.lexists(folder):
                        break
                    time.sleep(0.01)
                except KeyboardInterrupt as error:
                    interrupt = error
        for lock in self._locks:
            lock.close()
        if interrupt is not None:
            raise interrupt

    def beside(self, output, suffix):
        """Return a new temporary path in the folder of an output."""
        return self._new(folder_of(output), suffix)

    def file(self):
        """Return the path of a new temporary file."""
        return self._new(self._home, ".npy")

    def _new(self, home, suffix):
        if home not in self._folders:
            with told("make a folder for temporary files in", home or "the system's folder"):
                _remove_left(home or tempfile.gettempdir())
                folder = self._folders[home] = tempfile.mkdtemp(prefix=_PREFIX, dir=home)
                made = os.path.join(folder, "locking")
                self._locks.append(open(made, "w"))  # noqa: SIM115
                with contextlib.suppress(OSError):  # of file systems without locks
                    fcntl.flock(self._locks[-1], fcntl.LOCK_EX)
                    # Only now: others take what they can lock for left.
                    os.rename(made, os.path.join(folder, "locked"))
        self._files += 1
        return os.path.join(self._folders[home], f"{self._files}{suffix}")

    def copy(self, shape, dtype, read, chunk=1):
        """Write an array to a temporary file, window by window; return its path."""
        path = self.file()
        with told("write", path):
            # Not mapped: mapped pages would count as memory of the process.
            header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "shape": tuple(shape)}
            with open(path, "wb") as file:
                np.lib.format.write_array_header_1_0(file, header | {"fortran_order": False})
                for rows in windows(shape, np.dtype(dtype).itemsize, chunk):
                    part = np.ascontiguousarray(read(rows), dtype).reshape(-1)
                    # In parts, between which signals are handled.
                    for first in range(0, part.size, 1 << 20):
                        part[first : first + (1 << 20)].tofile(file)
        return path


def _remove_left(home):
    """Remove the temporary folders of processes that were killed."""
    for name in os.listdir(home):
        if name.startswith(_PREFIX):
            with contextlib.suppress(OSError):  # it is of another user, or being made
                with open(os.path.join(home, name, "locked"), "r+") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(os.path.join(home, name), ignore_errors=True)


def path_of(name, value):
    """Return a path that a user has given, as text."""
    try:
        path = os.fsdecode(value)
    except TypeError:
        raise ArgumentError(f"{name} is {value!r}, but must be a path") from None
    if "\0" in path:
        raise ArgumentError(f"{name} is {path!r}, which no path can be")
    return path


def folder_of(path):
    """Return the folder of a path."""
    return os.path.dirname(os.path.abspath(path))


def windows(shape, itemsize, chunk=1):
    """Yield slices of the first axis, of a bounded number of bytes, or of `chunk` rows."""
    row = max(1, int(np.prod(shape[1:])) * itemsize)
    # Whole chunks, so that none is read twice.
    step = max(chunk, _WINDOW // row // chunk * chunk)
    for first in range(0, shape[0], step):
        yield slice(first, min(first + step, shape[0]))


@contextlib.contextmanager
def told(action, path):
    """Turn an error of the system into one of the package."""
    try:
        yield
    except FileError:
        raise  # it is told already
    except OSError as error:
        raise FileError(f"cannot {action} {path}: {error}") from error


def package(name, path):
    """Return a package that a file needs."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise FileError(f"{path} needs the package {name}: pip install {name}") from error


def remove(path):
    """Remove a file or a folder, if it is there."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)
