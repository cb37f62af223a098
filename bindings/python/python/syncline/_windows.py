"""Windows: the boxes in which an array that does not fit the memory is read and written.

A file is stored in chunks, and a chunk is decoded as a whole whatever is read of it. So a window is
a box of whole chunks: each chunk is decoded once. It grows along the last axis first, as the bytes
of a row are together in a ``.npy``::

    chunks of a file        windows of at most 4 chunks
    +--+--+--+--+--+        +-----------+--+
    |  |  |  |  |  |        |     0     | 1|
    +--+--+--+--+--+        +-----------+--+
    |  |  |  |  |  |        |     2     | 3|
    +--+--+--+--+--+        +-----------+--+
"""

import contextlib
import itertools
import math
import sys

from ._errors import MemoryBoundError
from ._sizes import told_size

#: The bytes of a window, at most, where the memory is not the bound and chunks are no larger.
LARGEST = 64 << 20

#: The bytes of a window of an array in memory that is compared with numbers.
COMPARED = 4 << 20

#: What a library has of a chunk while it reads or writes it: its bytes in the file, the decoded
#: chunk, and the window that it is copied to.
_COPIES = 3

#: The bytes beyond the bound that libraries may take for a chunk. Each of them takes some anyway.
_SPARE = 128 << 20


def window_bytes(memory):
    """Return the bytes of a window under a bound on memory."""
    return min(LARGEST, max(1, memory // (_COPIES + 1)))


def windows(shape, itemsize, chunks=None, most=LARGEST):
    """Yield tuples of slices that cover an array.

    Parameters
    ----------
    shape : sequence of int
        The shape of the array.
    itemsize : int
        The bytes of an element.
    chunks : sequence of int or of tuples of int, optional
        For each axis the size of all chunks, or the sizes of each [default: single elements].
    most : int
        The bytes of a window, at most; one chunk if that is larger.
    """
    chunks = (1,) * len(shape) if chunks is None else chunks
    sizes = [_largest(chunk, length) for chunk, length in zip(chunks, shape)]
    cuts = [None] * len(shape)
    for axis in reversed(range(len(shape))):
        others = itemsize * math.prod(sizes[:axis]) * math.prod(sizes[axis + 1 :])
        cuts[axis] = list(_cuts(shape[axis], chunks[axis], most // others))
        sizes[axis] = max(cut.stop - cut.start for cut in cuts[axis])
    yield from itertools.product(*cuts)


def _largest(chunk, length):
    return min(chunk, length) if isinstance(chunk, int) else max(chunk)


def _cuts(length, chunk, most):
    """Yield slices of an axis that are whole chunks: as many as `most` elements hold, or one."""
    if isinstance(chunk, int):
        step = max(1, most // chunk) * chunk
        for first in range(0, length, step):
            yield slice(first, min(first + step, length))
        return
    first = end = 0
    # Of Dask, whose chunks may be empty.
    for size in filter(None, chunk):
        if end > first and end + size - first > most:
            yield slice(first, end)
            first = end
        end += size
    yield slice(first, end)


def check_chunks(name, itemsize, chunks, memory):
    """Refuse chunks that the memory cannot hold while they are read or written.

    A chunk that is larger than its array is decoded as a whole.
    """
    sizes = [chunk if isinstance(chunk, int) else max(chunk) for chunk in chunks]
    needed = _COPIES * itemsize * math.prod(sizes)
    if needed > memory + _SPARE:
        raise MemoryBoundError(
            f"{name} has chunks of {' x '.join(map(str, sizes))}, and to read or write one takes "
            f"{told_size(needed)}, but the memory allowed is {told_size(memory)}: allow "
            f"memory={needed}, or store it in smaller chunks"
        )


@contextlib.contextmanager
def bounded_cache(nbytes):
    """Bound the cache of blocks that GDAL has in common for all files, if GDAL is in use.

    It is a twentieth of the memory of the machine otherwise.
    """
    rasterio = sys.modules.get("rasterio")
    if rasterio is None:
        yield
        return
    with rasterio.Env(GDAL_CACHEMAX=nbytes):
        yield
