"""The windows in which arrays are read that do not fit the memory."""

import contextlib
import itertools
import math
import subprocess
import sys
import textwrap

import hypothesis.strategies as st
import numpy as np
import pytest
import syncline
from conftest import mean, same
from hypothesis import given
from syncline._arrays import Wanted, open_array
from syncline._files import Stage
from syncline._windows import windows


@st.composite
def chunked(draw):
    """Return a shape and the chunks of an array, of one size or of any."""
    shape = draw(st.lists(st.integers(1, 13), min_size=1, max_size=3))
    chunks = []
    for length in shape:
        if draw(st.booleans()):
            chunks.append(draw(st.integers(1, 15)))
            continue
        cuts = draw(st.sets(st.integers(1, length - 1), max_size=3)) if length > 1 else set()
        ends = [0, *sorted(cuts), length]
        chunks.append(tuple(end - first for first, end in itertools.pairwise(ends)))
    return shape, chunks


def ends_of(chunk, length):
    """Return where the chunks of an axis end."""
    if isinstance(chunk, int):
        return {*range(0, length, chunk), length}
    return {0, *itertools.accumulate(chunk)}


@given(chunked(), st.integers(1, 3000))
def test_windows_are_whole_chunks_and_cover_each_point_once(array, most):
    shape, chunks = array
    times = np.zeros(shape, int)
    largest = 1
    for chunk, length in zip(chunks, shape):
        largest *= min(chunk, length) if isinstance(chunk, int) else max(chunk)
    for window in windows(shape, 8, chunks, most):
        times[window] += 1
        lengths = [cut.stop - cut.start for cut in window]
        assert 8 * math.prod(lengths) <= max(most, 8 * largest)
        for cut, chunk, length in zip(window, chunks, shape):
            assert {cut.start, cut.stop} <= ends_of(chunk, length)
    assert (times == 1).all()


@given(chunked(), st.integers(1, 3000), st.sampled_from(["f4", ">i2", "u1", "f8"]))
def test_copies_are_the_array(array, memory, dtype):
    shape, chunks = array
    values = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    with Stage(None, memory) as stage:
        copy = stage.copier("u", shape, "float64", values.__getitem__, chunks)()
        assert same(np.load(copy), values.astype("float64"))


def test_a_chunk_that_the_memory_does_not_hold_is_refused():
    with Stage(None, "64M") as stage:
        stage.copier("u", (9000, 9000), "f4", None, (3000, 3000))
        with pytest.raises(syncline.MemoryBoundError, match="u has chunks of 9000 x 9000"):
            stage.copier("u", (9000, 9000), "f4", None, (9000, 9000))
        with pytest.raises(syncline.MemoryBoundError, match="allow") as told:
            stage.copier("u", (9000, 9000), "f8", None, ((7000, 2000), 4000))
    needed = str(told.value).partition("memory=")[2].partition(",")[0]
    with Stage(None, int(needed)) as stage:
        stage.copier("u", (9000, 9000), "f8", None, ((7000, 2000), 4000))


def test_arrays_that_must_be_converted_are_copied_within_the_bound(tmp_path, rng):
    u = rng.normal(size=(400, 500))
    expected = syncline.sweep(mean, u, iterations=5)
    spread = np.zeros((800, 1000))
    spread[::2, ::2] = u
    np.save(tmp_path / "f.npy", np.asfortranarray(u))
    np.save(tmp_path / "b.npy", u.astype(">f8"))
    paths = [np.load(tmp_path / name, mmap_mode="r") for name in ("f.npy", "b.npy")]
    for array in (np.asfortranarray(u), u.astype(">f8"), spread[::2, ::2], *paths):
        # The first bound has no room for a copy in memory.
        for memory in ("2M", "64M"):
            options = {"memory": memory, "output": tmp_path / "o.npy", "overwrite": True}
            assert same(np.asarray(syncline.sweep(mean, array, iterations=5, **options)), expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.npy", "f.npy", "o.npy"]
    with Stage(None, 1000) as stage:
        line = np.arange(2000.0)[::-1]
        assert same(np.load(open_array(line, Wanted("u"), stage).given()), line[None, :])


KINDS = {
    "columns": "numpy",
    "big-endian": "numpy",
    "tiles": "rasterio",
    "strips": "rasterio",
    "zarr": "zarr",
    "dask": "dask",
}

# Makes the array in another process, so that its memory does not count.
MAKE = """
    import sys
    import warnings
    import numpy as np
    warnings.simplefilter("ignore")
    kind, n = sys.argv[1], int(sys.argv[2])
    def part(at):
        return at, np.random.default_rng(at).random((min(512, n - at), n), "f4")
    rows = [part(at) for at in range(0, n, 512)]
    def mapped(name, **options):
        file = np.lib.format.open_memmap(name, "w+", shape=(n, n), **options)
        for at, part in rows:
            file[at : at + len(part)] = part
        file.flush()
    def tiff(**options):
        import rasterio
        facts = {"driver": "GTiff", "height": n, "width": n, "count": 1, "dtype": "float32"}
        with rasterio.open("u.tif", "w", **facts, **options) as file:
            for at, part in rows:
                file.write(part, 1, window=((at, at + len(part)), (0, n)))
    if kind == "columns":
        mapped("u.npy", dtype="f4", fortran_order=True)
    elif kind == "big-endian":
        mapped("u.npy", dtype=">f4")
    elif kind == "tiles":
        tiff(tiled=True, blockxsize=512, blockysize=512, compress="deflate")
    elif kind == "strips":
        tiff()
    else:
        import zarr
        array = zarr.create_array("u.zarr", shape=(n, n), dtype="f4", chunks=(2048, 2048))
        for at, part in rows:
            array[at : at + len(part)] = part
"""

# Prints by how many MiB the anonymous memory has grown in a sweep.
SWEEP = """
    import sys
    import threading
    import time
    import warnings
    import numpy as np
    import syncline
    warnings.simplefilter("ignore")
    kind, memory = sys.argv[1:]
    def anonymous():
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) >> 10
    given, output = ("u.tif", "o.tif") if kind in ("tiles", "strips") else ("u.npy", "o.npy")
    if kind == "zarr":
        import zarr
        given, output = "u.zarr", "o.zarr"
    elif kind == "dask":
        import dask.array
        # dask.array.from_array would copy a mapped file to memory.
        given = 2 * dask.array.from_zarr("u.zarr") - 1
    elif output == "o.tif":
        import rasterio
    def kernel(u):
        return (u.old.n + u.old.s + u.old.e + u.old.w) / 4
    syncline.sweep(kernel, np.ones((8, 8), "f4"), iterations=1)
    peak, ended, base = 0, threading.Event(), anonymous()
    def watch():
        global peak
        while not ended.wait(0.002):
            peak = max(peak, anonymous())
    thread = threading.Thread(target=watch)
    thread.start()
    syncline.sweep(kernel, given, iterations=3, memory=memory, output=output)
    ended.set()
    thread.join()
    print(peak - base)
"""


@pytest.mark.full("arrays of 256 MiB")
@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_on_memory_holds_for_every_source(tmp_path, kind):
    pytest.importorskip(KINDS[kind])

    def run(text, *args):
        command = [sys.executable, "-c", textwrap.dedent(text), kind, *args]
        ran = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True)
        return ran.stdout

    run(MAKE, "8192")
    grown = int(run(SWEEP, "32M"))
    with contextlib.suppress(OSError):
        print(kind, grown, "MiB")
    # What libraries have of a chunk of 16 MiB, and what the allocator keeps, is not in the bound.
    assert grown <= 32 + 128
