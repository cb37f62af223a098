"""What glibc keeps of freed memory, which counts as memory of the process.

zarr and Dask decode chunks in several threads. glibc gives each thread an arena, and keeps up to 64
MiB at the end of each that were freed: `malloc_trim` gives back those of the main thread alone. A
block that is mapped by itself is in no arena, and goes back to the system when it is freed. Which
blocks are mapped is one setting of the process. glibc raises it when a mapped block is freed, up to
32 MiB::

    blocks that are mapped           before                in a copy    after
    of the size of                   128 KiB to 32 MiB     1 MiB        32 MiB
    because of                       what was freed        `returning`  the greatest that glibc sets

With chunks of 16 MiB and a bound of 64 MiB the memory of a sweep over ``2 * from_zarr - 1`` grew by
118 to 189 MiB with the setting of glibc, and by 46 to 48 MiB with that of `returning`.
"""

import contextlib
import ctypes
import os
import threading

#: Parameters of ``mallopt``, as in ``malloc.h``.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3

_MAPPED_IN_A_COPY = 1 << 20
_MAPPED_AFTERWARDS = 32 << 20


def _begin():
    global _lock, _copies
    # The handler of a signal may read an array, too.
    _lock, _copies = threading.RLock(), set()


_begin()
# Another thread may have had the lock, or be in a copy.
os.register_at_fork(after_in_child=_begin)


@contextlib.contextmanager
def returning():
    """Have large blocks go back to the system as soon as they are freed, in all threads.

    Users that have set this themselves, in the environment, keep their setting.
    """
    this = object()
    try:
        with _lock:
            _copies.add(this)
            _map_from(_MAPPED_IN_A_COPY)
        yield
    finally:
        # Also after an interrupt before it was added.
        with _lock:
            _copies.discard(this)
            if not _copies:
                _map_from(_MAPPED_AFTERWARDS)


def _map_from(nbytes):
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    for name in ("mmap_threshold", "trim_threshold"):
        if f"MALLOC_{name.upper()}_" in os.environ or f"malloc.{name}" in tunables:
            return
    with contextlib.suppress(AttributeError, OSError):  # of other libraries of C
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, nbytes)
        libc.mallopt(_TRIM_THRESHOLD, 2 * nbytes)
        # What was freed before.
        libc.malloc_trim(0)
