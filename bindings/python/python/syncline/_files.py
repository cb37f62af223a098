"""Files beside the outputs: temporary folders, and errors with their paths."""

import contextlib
import fcntl
import importlib
import math
import operator
import os
import shutil
import tempfile
import time

import numpy as np

from . import _syncline
from ._allocator import returning
from ._errors import ArgumentError, FileError
from ._sizes import allowed, told_size
from ._windows import bounded_cache, check_chunks, window_bytes, windows

#: The bytes of a piece of a window, which is converted and written at once.
_PIECE = 4 << 20

#: How the names of folders for temporary files begin.
_PREFIX = ".syncline-"


class Stage:
    """Folders for temporary files, beside the outputs; removed at the end, whatever happens.

    If the process is killed, the next one that has its output there removes them: a file in each of
    them names the machine, and is locked as long as its process lives.
    """

    def __init__(self, output, memory=None):
        #: The bytes that may be taken, and those that copies have taken.
        self.memory, self.taken = allowed(memory), 0
        # Beside what a link leads to: that is replaced.
        self._home = None if output is None else folder_of(os.path.realpath(output))
        self._folders, self._locks, self._files, self._left = {}, [], 0, set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        interrupt = None
        for folder in set(self._folders.values()) - self._left:
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
            with contextlib.suppress(OSError):
                lock.close()
        if interrupt is not None:
            raise interrupt

    def check_room(self, copies, results, others=()):
        """Refuse copies and results for which a file system has no room.

        Parameters
        ----------
        copies : int
            The bytes of the copies of inputs.
        results : int
            The bytes of results that are beside them.
        others : sequence of (str, int)
            Folders, and the bytes of results in them.
        """
        home = self._home or tempfile.gettempdir()
        needs = {}
        for folder, *sizes in (home, copies, results), *((path, 0, n) for path, n in others):
            with told("look at", folder):
                needed = needs.setdefault(os.stat(folder).st_dev, [folder, 0, 0])
            needed[1:] = map(operator.add, needed[1:], sizes)
        for folder, *sizes in needs.values():
            with told("look at", folder):
                free = shutil.disk_usage(folder).free
            if free < sum(sizes):
                of = "copies of its inputs", "results"
                parts = [f"{told_size(n)} for {what}" for n, what in zip(sizes, of) if n]
                raise FileError(
                    f"{folder} has {told_size(free)} free, but the sweep needs "
                    f"{' and '.join(parts)} there"
                )

    def keep(self, path, name):
        """Keep a temporary file for the user; return its new path, which begins with a name.

        The path is in the folder that holds the temporary one, so that no byte is copied. If none
        can be had there, the file stays where it is.
        """
        folder = os.path.dirname(path)
        target = os.path.join(os.path.dirname(folder), name)
        kept = _syncline.keep_file(path, target if name.endswith(".npy") else f"{target}.npy")
        if kept is not None:
            return kept
        self._left.add(folder)
        # A later process removes only folders with this file.
        with contextlib.suppress(OSError):
            os.remove(os.path.join(folder, "locked"))
        return path

    def beside(self, output, suffix):
        """Return a new temporary path in the folder of an output."""
        return self._new(os.path.realpath(folder_of(output)), suffix)

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
                    os.write(self._locks[-1].fileno(), "\n".join(machine()).encode())
                    # Only now: others take what they can lock for left.
                    os.rename(made, os.path.join(folder, "locked"))
        self._files += 1
        return os.path.join(self._folders[home], f"{self._files}{suffix}")

    def copier(self, name, shape, dtype, read, chunks=None, numbers=None, itemsize=None):
        """Return a function that writes an array to a temporary file, and returns its path.

        The array is read window by window.

        Parameters
        ----------
        name : str
            The name of the array, for errors.
        shape : sequence of int
            Its shape.
        dtype : dtype
            The type of the elements of the file.
        read : callable
            Returns the window at a tuple of slices.
        chunks : sequence of int or of tuples of int, optional
            How the array is stored: as for `windows`.
        numbers : callable, optional
            Makes numbers of a piece of a window [default: a window has them].
        itemsize : int, optional
            The bytes of an element of a window [default: that of the file].

        Raises
        ------
        MemoryBoundError
            If the memory allowed does not hold a chunk.
        """
        kind = np.dtype(dtype)
        itemsize = itemsize or kind.itemsize
        if chunks is not None:
            check_chunks(name, itemsize, chunks, self.memory)
        return lambda: self._copy(shape, kind, read, chunks, numbers, itemsize)

    def _copy(self, shape, kind, read, chunks, numbers, itemsize):
        path = self.file()
        with told("write", path):
            file = open(path, "wb")  # noqa: SIM115
        with file, returning():
            # Not mapped: mapped pages would count as memory of the process.
            header = {"descr": np.lib.format.dtype_to_descr(kind), "shape": tuple(shape)}
            with told("write", path):
                np.lib.format.write_array_header_1_0(file, header | {"fortran_order": False})
                file.flush()
                start = file.tell()
                file.truncate(start + math.prod(shape) * kind.itemsize)
            for window in windows(shape, itemsize, chunks, self.window):
                with bounded_cache(self.window):
                    part = read(window)
                # By pieces, as a window of another type or without its mask is a copy.
                for piece in windows(part.shape, max(itemsize, kind.itemsize), most=_PIECE):
                    some = part[piece] if numbers is None else numbers(part[piece])
                    some = np.ascontiguousarray(some, kind)
                    cuts = [
                        slice(cut.start + at.start, cut.start + at.stop)
                        for cut, at in zip(window, piece)
                    ]
                    with told("write", path):
                        for at, run in _runs(shape, cuts, some):
                            _write(file.fileno(), run, start + at * kind.itemsize)
                # Before the next window is there.
                del part, some, run
        return path

    @property
    def window(self):
        """The bytes of a window."""
        return window_bytes(self.memory)

    def holds(self, nbytes):
        """Take memory for the copy of an array, if all copies stay in a quarter of the bound."""
        if self.taken + nbytes > self.memory // 4:
            return False
        self.taken += nbytes
        return True


def _runs(shape, window, part):
    """Yield the pieces of a window that are together in the file, and the index of each one."""
    # The last axes that the window has as a whole, and one axis before them, are one piece.
    split = len(shape) - 1
    while split > 0 and part.shape[split] == shape[split]:
        split -= 1
    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    for outer in np.ndindex(part.shape[:split]):
        index = [cut.start + n for cut, n in zip(window, outer)]
        index += [cut.start for cut in window[split:]]
        yield sum(map(operator.mul, index, steps)), part[outer].reshape(-1)


def _write(file, values, at):
    """Write values at a place of a file."""
    values = memoryview(values).cast("B")
    while values:
        # In parts, between which signals are handled.
        done = os.pwrite(file, values[: 8 << 20], at)
        values, at = values[done:], at + done


def machine():
    """Return the name of the host, and what names its system as long as that runs."""
    host = os.uname().nodename
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return host, file.read().strip()
    except OSError:
        return host, host


def _remove_left(home):
    """Remove the temporary folders of processes that were killed.

    Many network file systems lock a file for one host only, so that what can be locked may be in
    use on another one. A container has the locks of its host, and maybe another name.
    """
    host, boot = machine()
    for name in os.listdir(home):
        if name.startswith(_PREFIX):
            # It is of another user, or being made.
            with contextlib.suppress(OSError, ValueError):
                with open(os.path.join(home, name, "locked"), "r+") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    of_host, of_boot = lock.read().split("\n")
                    if of_host == host or of_boot == boot:
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
