"""Arrays in memory that the workers of a pool map as well."""

import mmap
import os
import weakref

import numpy as np

from . import _worker
from ._errors import ArrayError
from ._sizes import element_type, whole

#: The mappings of this process, by the process and the number of the file.
_mapped: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


class _Memory:
    """A mapping of shared memory, which arrays keep as their base."""

    def __init__(self, fd, nbytes, owner):
        self.fd, self.owner = fd, owner
        self.map = mmap.mmap(fd, max(nbytes, 1), mmap.MAP_SHARED)
        self.inode = os.fstat(fd).st_ino
        self.first = np.frombuffer(self.map, np.uint8).ctypes.data
        if owner == os.getpid():
            weakref.finalize(self.map, _close, fd, owner)
        else:
            os.close(fd)


def _close(fd, owner):
    # A forked child has copies of the descriptors of its own.
    if owner == os.getpid():
        os.close(fd)


class SharedArray(np.ndarray):
    """An array that `empty` made, or a view of one."""

    def __array_finalize__(self, array):
        self._memory = getattr(array, "_memory", None)

    def __array_wrap__(self, array, context=None, return_scalar=False):
        # What is computed is a plain array: it is not in shared memory.
        if array is self or type(self) is not SharedArray:
            return array
        return array[()] if return_scalar else array.view(np.ndarray)

    def __reduce_ex__(self, protocol):
        memory = self._memory
        is_lost = memory is not None and memory.owner == os.getpid() and _worker.is_answering
        # What a task has made here goes with the worker's last reference to it: as a copy.
        if memory is None or is_lost or not self._is_inside(memory):
            return self.view(np.ndarray).__reduce_ex__(protocol)
        offset = self.ctypes.data - memory.first
        place = memory.owner, memory.fd, memory.inode, len(memory.map), offset
        return _attach, (*place, self.shape, self.strides, self.dtype, self.flags.writeable)

    def _is_inside(self, memory):
        low, high = np.lib.array_utils.byte_bounds(self)
        return memory.first <= low and high <= memory.first + len(memory.map)

    def __reduce__(self):
        return self.view(np.ndarray).__reduce__()


def empty(shape, dtype=float):
    """Return an array in memory that goes to the workers of a `Pool` without a copy.

    A worker that gets the array, or a view of it, sees the same memory: what a task writes to it is
    seen by all. Tasks that write the same elements at the same time race.

    Parameters
    ----------
    shape : int or tuple of int
        The shape.
    dtype : dtype, optional
        The type of the elements, which must not be objects.

    Returns
    -------
    SharedArray
        An array of zeros. What is computed of it is a plain `numpy.ndarray`.

    Raises
    ------
    ArrayError
        If the elements are objects.
    MemoryError, OSError
        If there is no room.

    Notes
    -----
    The memory has no name. It is freed when no array of any process refers to it; only the process
    that made it, and its workers, can use it.

    Examples
    --------
    >>> import syncline
    >>> grid = syncline.empty((2, 3))
    >>> grid[0] = 1
    >>> float(grid.sum())
    3.0
    """
    dtype = element_type("dtype", dtype)
    if dtype.hasobject:
        raise ArrayError(f"elements of type {dtype} cannot be in shared memory")
    shape = (shape,) if np.ndim(shape) == 0 else tuple(shape)
    shape = tuple(whole("shape", 0, length) for length in shape)
    nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
    fd = os.memfd_create("syncline", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, max(nbytes, 1))
        memory = _Memory(fd, nbytes, os.getpid())
    except BaseException:
        os.close(fd)
        raise
    return _view(memory, 0, shape, None, dtype, True)


def _view(memory, offset, shape, strides, dtype, writeable):
    array = np.ndarray.__new__(SharedArray, shape, dtype, memory.map, offset, strides)
    array._memory = memory
    array.flags.writeable = writeable
    return array


def _attach(owner, fd, inode, nbytes, offset, shape, strides, dtype, writeable):
    """Return a view of memory that another process, or this one, has made."""
    memory = _mapped.get((owner, fd, inode))
    if memory is None:
        copy = os.open(f"/proc/{owner}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
        if os.fstat(copy).st_ino != inode:
            os.close(copy)
            raise ArrayError("the shared memory of an array is gone: its process has freed it")
        memory = _Memory(copy, nbytes, owner if owner != os.getpid() else -1)
        memory.fd, memory.owner = fd, owner
        _mapped[owner, fd, inode] = memory
    return _view(memory, offset, shape, strides, dtype, writeable)
