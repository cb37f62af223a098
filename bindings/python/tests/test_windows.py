"""The windows in which arrays are read that do not fit the memory."""

import contextlib
import importlib.util
import itertools
import math
import os
import subprocess
import sys
import textwrap
import weakref

import hypothesis.strategies as st
import numpy as np
import pytest
import syncline
import syncline._allocator
import syncline._geotiff
import syncline._windows
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
        empty = draw(st.lists(st.just(0), max_size=2))
        cuts = draw(st.sets(st.integers(1, length - 1), max_size=3)) if length > 1 else set()
        ends = [0, *sorted(cuts), length]
        # Dask has empty chunks where a selection has left nothing.
        chunks.append((*empty, *(end - first for first, end in itertools.pairwise(ends)), *empty))
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


@pytest.mark.parametrize("dtype", ["f4", ">f4"])
def test_a_window_is_gone_before_the_next_one_is_read(dtype):
    alive = []

    def read(window):
        assert all(part() is None for part in alive)
        part = np.ones([cut.stop - cut.start for cut in window], dtype)
        alive.append(weakref.ref(part))
        return part

    with Stage(None, "1M") as stage:
        copy = stage.copier("u", (512, 700), "f4", read, (100, 100))()
        assert len(alive) > 4 and (np.load(copy) == 1).all()


@pytest.mark.parametrize("kind", ["masked", "dask", "zarr"])
def test_a_copy_that_the_memory_has_no_room_for_is_an_error_of_the_package(
    monkeypatch, tmp_path, rng, kind
):
    u = rng.normal(size=(400, 500))
    given = np.ma.MaskedArray(u, u > 1, fill_value=-1)
    if kind != "masked":
        given = pytest.importorskip(kind + ".array" * (kind == "dask"))
        given = given.from_array(u) if kind == "dask" else given.array(u, chunks=(100, 100))

    def full(*_):
        raise MemoryError("unable to allocate")

    monkeypatch.setattr(syncline._meaning.Meaning, "numbers", full)
    with pytest.raises(syncline.MemoryBoundError, match="u does not fit into memory: unable"):
        syncline.sweep(mean, given, iterations=1, memory="4M", output=tmp_path / "o.npy")
    assert not os.listdir(tmp_path)


def test_a_chunk_that_is_larger_than_its_array_counts_as_a_whole():
    with Stage(None, "64M") as stage:
        with pytest.raises(syncline.MemoryBoundError, match="9000 x 9000"):
            stage.copier("u", (10, 9000), "f4", None, (9000, 9000))


def test_elements_of_the_file_count_and_not_those_that_they_become():
    with Stage(None, "64M") as stage:
        with pytest.raises(syncline.MemoryBoundError, match="allow"):
            stage.copier("u", (4000, 4000), "u1", None, (4000, 4000), itemsize=8)


@pytest.fixture
def strict(monkeypatch):
    """Let a chunk have no memory beyond the bound, so that small ones are refused."""
    monkeypatch.setattr(syncline._windows, "_SPARE", 0)


def refuses(array, chunks, memory="100K"):
    """Return whether a sweep over an array is refused because of its chunks, and says which."""
    with pytest.raises(syncline.MemoryBoundError, match=rf"^\S+ has chunks of {chunks}, and"):
        syncline.sweep(mean, array, iterations=1, memory=memory)
    return True


def test_chunks_of_netcdf4_count(tmp_path, rng, strict):
    netCDF4 = pytest.importorskip("netCDF4")
    values = rng.normal(size=(200, 300))
    with netCDF4.Dataset(tmp_path / "u.nc", "w") as file:
        file.createDimension("y", 200)
        file.createDimension("x", 300)
        for name, facts in {"u": {"chunksizes": (200, 300)}, "v": {"contiguous": True}}.items():
            file.createVariable(name, "f8", ("y", "x"), **facts)[:] = values
    expected = syncline.sweep(mean, values, iterations=1)
    with netCDF4.Dataset(tmp_path / "u.nc") as file:
        assert refuses(file["u"], "200 x 300")
        cache = file["u"].get_var_chunk_cache()
        assert same(syncline.sweep(mean, file["u"], iterations=1, memory="4M"), expected)
        assert same(syncline.sweep(mean, file["v"], iterations=1, memory="4M"), expected)
        assert file["u"].get_var_chunk_cache() == cache
    legacy = pytest.importorskip("h5netcdf.legacyapi")
    with legacy.Dataset(tmp_path / "u.nc") as file:
        assert refuses(file["u"], "200 x 300")
        assert same(syncline.sweep(mean, file["v"], iterations=1, memory="4M"), expected)


def test_chunks_of_a_file_behind_those_of_dask_count(tmp_path, rng, strict):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    pytest.importorskip("dask")
    values = rng.normal(size=(2, 200, 300))
    made = xarray.Dataset({"u": (("y", "x"), values[0]), "w": (("t", "y", "x"), values)})
    encoding = {"u": {"chunksizes": (200, 300)}, "w": {"chunksizes": values.shape}}
    made.to_netcdf(tmp_path / "u.nc", engine="h5netcdf", encoding=encoding)
    with xarray.open_dataset(tmp_path / "u.nc", engine="h5netcdf", chunks={}) as file:
        assert refuses(file["u"].chunk(y=10), "200 x 300")
    with xarray.open_dataset(tmp_path / "u.nc", engine="h5netcdf") as file:
        # What is left of a chunk is decoded with the rest of it.
        assert refuses(file["u"][:4], "200 x 300")
        assert refuses(file["w"][0], "2 x 200 x 300", "2M")


def virtual(path, source, width, band=1):
    """Write a VRT, of which GDAL says that it has blocks of 128 x 128."""
    span = f'xOff="0" yOff="0" xSize="{width}" ySize="{width}"'
    path.write_text(
        f'<VRTDataset rasterXSize="{width}" rasterYSize="{width}">'
        '<VRTRasterBand dataType="Float32" band="1"><SimpleSource>'
        f'<SourceFilename relativeToVRT="1">{source}</SourceFilename>'
        f"<SourceBand>{band}</SourceBand><SrcRect {span}/><DstRect {span}/>"
        "</SimpleSource></VRTRasterBand></VRTDataset>"
    )
    return path


@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
def test_sources_that_vrts_share_are_opened_once(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    facts = {"driver": "GTiff", "height": 8, "width": 8, "count": 1, "dtype": "float32"}
    rasterio.open(tmp_path / "0-0.tif", "w", **facts).close()
    below = ["0-0.tif"]
    for level in range(1, 6):
        names = [f"{level}-{n}.vrt" for n in range(4)]
        for name in names:
            text = virtual(tmp_path / name, "SOURCE", 8).read_text()
            first, source, last = text.partition(text[text.index("<Sim") : text.index("</VRTR")])
            sources = "".join(source.replace("SOURCE", one) for one in below)
            (tmp_path / name).write_text(first + sources + last)
        below = names
    # The sources of sources, up to some depth.
    for level, count in ((4, 14), (5, 17)):
        path = str(tmp_path / f"{level}-0.vrt")
        with rasterio.open(path) as file:
            found = [name for name, _, _ in syncline._geotiff._stored(file, path)]
        assert len(set(found)) == len(found) == count
        assert str(tmp_path / "0-0.tif") in found or level == 5


def test_blocks_of_what_a_vrt_reads_count(tmp_path, rng, strict):
    rasterio = pytest.importorskip("rasterio")
    from rasterio.vrt import WarpedVRT

    values = rng.random((512, 512), "f4")
    facts = {"driver": "GTiff", "height": 512, "width": 512, "dtype": "float32"}
    facts["transform"] = rasterio.Affine(1, 0, 0, 0, -1, 512)
    facts |= {"tiled": True, "blockxsize": 512, "blockysize": 256}
    with rasterio.open(tmp_path / "u.tif", "w", count=1, **facts) as file:
        file.write(values, 1)
    with rasterio.open(tmp_path / "b.tif", "w", count=4, interleave="pixel", **facts) as file:
        for band in range(1, 5):
            file.write(values * band, band)
    once = virtual(tmp_path / "once.vrt", "u.tif", 512)
    twice = virtual(tmp_path / "twice.vrt", "once.vrt", 512)
    bands = virtual(tmp_path / "bands.vrt", "b.tif", 512, 3)
    assert refuses(once, "256 x 512", "1M") and refuses(twice, "256 x 512", "1M")
    with rasterio.open(once) as file:
        assert refuses(file, "256 x 512", "1M")
    with rasterio.open(tmp_path / "u.tif") as file:
        with WarpedVRT(file, src_crs="EPSG:3857", crs="EPSG:3857") as warped:
            assert refuses(warped, "256 x 512", "1M")
    # The four bands of a block are decoded together.
    assert refuses(bands, "256 x 512", "4M")
    expected = syncline.sweep(mean, 3 * values, iterations=1)
    assert same(syncline.sweep(mean, bands, iterations=1, memory="8M"), expected)
    expected = syncline.sweep(mean, values, iterations=1)
    for path in (once, twice):
        assert same(syncline.sweep(mean, path, iterations=1, memory="8M"), expected)
        with rasterio.open(path) as file:
            assert same(syncline.sweep(mean, file, iterations=1, memory="8M"), expected)
    (tmp_path / "u.tif").unlink()
    with pytest.raises(syncline.FileError, match="twice.vrt"):
        syncline.sweep(mean, twice, iterations=1, memory="8M")


@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
@pytest.mark.parametrize(
    "blocks", [{"blockysize": 512}, {"tiled": True, "blockxsize": 512, "blockysize": 256}]
)
def test_blocks_of_an_output_fit_the_memory(tmp_path, rng, strict, blocks):
    rasterio = pytest.importorskip("rasterio")
    values = (rng.random((512, 512)) * 9).astype("u1")
    facts = {"driver": "GTiff", "height": 512, "width": 512, "count": 1, "compress": "deflate"}
    with rasterio.open(tmp_path / "u.tif", "w", dtype="uint8", **facts, **blocks) as file:
        file.write(values, 1)
    shapes, expected = [], syncline.sweep(mean, values.astype("f8"), iterations=1)
    for memory in ("2M", "64M"):
        # Of the source a block has an eighth of the bytes.
        options = {"dtype": "float64", "memory": memory, "overwrite": True}
        syncline.sweep(mean, tmp_path / "u.tif", iterations=1, output=tmp_path / "o.tif", **options)
        with rasterio.open(tmp_path / "o.tif") as file:
            shapes.append(file.block_shapes[0])
            assert file.compression.name == "deflate"
            assert same(file.read(1), expected)
    given = blocks["blockysize"], blocks.get("blockxsize", 512)
    assert math.prod(shapes[0]) * 8 * 3 <= 2 << 20 and shapes[1] == given


def test_masked_arrays_are_copied_within_the_bound(tmp_path, rng):
    values = rng.normal(size=(400, 500))
    np.save(tmp_path / "u.npy", values)
    mask = rng.random(values.shape) < 0.1
    expected = syncline.sweep(mean, np.ma.MaskedArray(values, mask, fill_value=-1), iterations=3)
    mapped = np.load(tmp_path / "u.npy", mmap_mode="r")
    line = values.reshape(-1)
    for data in (values, mapped, np.asfortranarray(values), line, line[::-1]):
        given = np.ma.MaskedArray(data, mask.reshape(data.shape), fill_value=-1)
        with Stage(None, "4M") as stage:
            opened = open_array(given, Wanted("u"), stage)
            assert opened.is_copied and opened.shape == data.shape
            assert same(np.load(opened.given()), np.atleast_2d(given.filled()))
        if data.ndim == 1:
            continue
        result = syncline.sweep(mean, given, iterations=3, memory="4M")
        assert same(result.data, expected.data) and (result.mask == mask).all()
    with pytest.raises(syncline.ArrayError, match="has masked points"):
        syncline.sweep(mean, np.ma.MaskedArray(values, mask), iterations=1, memory="4M")
    given = np.ma.MaskedArray(np.where(values > 1, -1, values), mask, fill_value=-1)
    with pytest.raises(syncline.ArrayError, match="among its numbers"):
        syncline.sweep(mean, given, iterations=1, memory="4M")


def of_rows(values, path):
    """Yield lazy arrays of one dimension."""
    if importlib.util.find_spec("dask"):
        import dask.array

        yield dask.array.from_array(values, chunks=1000)
    if importlib.util.find_spec("zarr"):
        import zarr

        yield zarr.array(values, chunks=(1000,))
    if importlib.util.find_spec("h5netcdf") and importlib.util.find_spec("xarray"):
        import xarray

        xarray.Dataset({"u": ("x", values)}).to_netcdf(path, engine="h5netcdf")
        yield xarray.open_dataset(path, engine="h5netcdf")["u"]


def test_lazy_arrays_of_one_dimension_are_read_by_windows(tmp_path, rng):
    def step(u, k):
        return k * (u.old[-1] + u.old[1])

    u, k = rng.normal(size=30000), rng.normal(size=30000)
    expected = syncline.sweep(step, u, k, iterations=3)
    for array in of_rows(k, tmp_path / "k.nc"):
        with Stage(None, 20000) as stage:
            opened = open_array(array, Wanted("k"), stage)
            assert opened.is_copied and opened.shape == (30000,)
            assert same(np.load(opened.given()), k[None, :])
        assert same(syncline.sweep(step, u, array, iterations=3, memory="2M"), expected)
    for array in of_rows(u, tmp_path / "u.nc"):
        result = syncline.sweep(step, array, k, iterations=3, memory="2M")
        assert same(np.asarray(result), expected)
        with pytest.raises(syncline.MemoryBoundError, match="the result takes"):
            syncline.sweep(step, array, k, iterations=3, memory=20000)


KINDS = {
    "columns": "numpy",
    "big-endian": "numpy",
    "tiles": "rasterio",
    "strips": "rasterio",
    "zarr": "zarr",
    "dask": "dask",
}

#: Sources with chunks of 64 MiB, to read one of which takes 64 MiB and what is beyond the bound.
LARGE_KINDS = {
    "large tiles": "rasterio",
    "vrt": "rasterio",
    "dataset": "rasterio",
    "netcdf4": "netCDF4",
    "hdf5": "h5py",
    "large zarr": "zarr",
    "masked": "numpy",
}

#: Those that another kind stands for in the full tier, as they are read in the same way.
ALIKE = ("big-endian", "strips", "zarr", "large tiles", "dataset", "hdf5")


def marked(kinds):
    """Return kinds as parameters of a test, of which soak alone has those that are alike."""
    soak = pytest.mark.soak("arrays of 256 MiB that are read like others")
    return [pytest.param(one, marks=soak if one in ALIKE else ()) for one in kinds]


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
    elif kind == "masked":
        mapped("u.npy", dtype="f4")
    elif kind in ("large tiles", "vrt", "dataset"):
        tiff(tiled=True, blockxsize=n // 2, blockysize=n // 2, compress="deflate", zlevel=1)
        span = f'xOff="0" yOff="0" xSize="{n}" ySize="{n}"'
        with open("u.vrt", "w") as file:
            file.write(
                f'<VRTDataset rasterXSize="{n}" rasterYSize="{n}">'
                '<VRTRasterBand dataType="Float32" band="1"><SimpleSource>'
                '<SourceFilename relativeToVRT="1">u.tif</SourceFilename>'
                f"<SourceBand>1</SourceBand><SrcRect {span}/><DstRect {span}/>"
                "</SimpleSource></VRTRasterBand></VRTDataset>"
            )
    elif kind == "netcdf4":
        import netCDF4
        with netCDF4.Dataset("u.nc", "w") as file:
            for dim in "yx":
                file.createDimension(dim, n)
            facts = {"zlib": True, "complevel": 1, "chunksizes": (n // 2, n // 2)}
            made = file.createVariable("u", "f4", ("y", "x"), **facts)
            made[:] = np.concatenate([part for _, part in rows])
    elif kind == "hdf5":
        import h5py
        with h5py.File("u.h5", "w") as file:
            facts = {"chunks": (n // 2, n // 2), "compression": "gzip", "compression_opts": 1}
            file.create_dataset("u", data=np.concatenate([part for _, part in rows]), **facts)
    elif kind == "large zarr":
        import zarr
        array = zarr.create_array("u.zarr", shape=(n, n), dtype="f4", chunks=(n // 2, n // 2))
        array[:] = np.concatenate([part for _, part in rows])
    elif kind == "row":
        import zarr
        array = zarr.create_array("u.zarr", shape=(n * n,), dtype="f4", chunks=(1 << 20,))
        for at, part in rows:
            array[at * n : at * n + part.size] = part.ravel()
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
    elif kind in ("large zarr", "row"):
        import zarr
        given, output = "u.zarr", None if kind == "row" else "o.npy"
    elif kind in ("large tiles", "vrt", "dataset"):
        import rasterio
        given = "u.vrt" if kind == "vrt" else "u.tif"
        given = rasterio.open(given) if kind == "dataset" else given
    elif kind == "netcdf4":
        import netCDF4
        file = netCDF4.Dataset("u.nc")
        given = file["u"]
    elif kind == "hdf5":
        import h5py
        given = h5py.File("u.h5")["u"]
    elif kind == "masked":
        mask = np.zeros((8192, 8192), bool)
        mask[::7] = True
        given = np.ma.MaskedArray(np.load("u.npy", mmap_mode="r"), mask, fill_value=-1)
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
    if kind == "row":
        def kernel(u):
            return (u.old[-1] + u.old[1]) / 2
    try:
        syncline.sweep(kernel, given, iterations=3, memory=memory, output=output)
    except syncline.MemoryBoundError:
        assert kind == "row"
    ended.set()
    thread.join()
    print(peak - base)
"""


def grown_by(folder, kind, memory):
    """Return by how many MiB the anonymous memory has grown in a sweep over 256 MiB."""

    def run(text, *args):
        command = [sys.executable, "-c", textwrap.dedent(text), kind, *args]
        ran = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
        return ran.stdout

    run(MAKE, "8192")
    grown = int(run(SWEEP, memory))
    with contextlib.suppress(OSError):
        print(kind, grown, "MiB")
    return grown


def test_the_allocator_has_its_setting_back_after_the_last_copy(monkeypatch):
    told = []

    class Libc:
        def mallopt(self, parameter, value):
            told.append((parameter, value >> 20))

        def malloc_trim(self, pad):
            pass

    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    monkeypatch.setattr(syncline._allocator.ctypes, "CDLL", lambda name: Libc())
    returning = syncline._allocator.returning
    with pytest.raises(ZeroDivisionError), returning():
        with returning():
            pass
        assert told == 2 * [(-3, 1), (-1, 2)]
        1 / 0
    assert told[4:] == [(-3, 32), (-1, 64)]
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")
    with returning():
        assert len(told) == 6


def test_a_child_of_fork_does_not_wait_for_the_allocators_lock():
    script = """
        import os, signal, threading
        from syncline import _allocator
        thread = threading.Thread(target=_allocator._lock.acquire)
        thread.start()
        thread.join()
        if os.fork() == 0:
            signal.alarm(100)
            with _allocator.returning():
                os._exit(0)
        print(os.wait()[1])
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True
    )
    assert ran.stdout == "0\n"


@pytest.mark.full("arrays of 256 MiB")
@pytest.mark.parametrize("kind", marked(KINDS))
def test_the_bound_on_memory_holds_for_every_source(tmp_path, kind):
    pytest.importorskip(KINDS[kind])
    grown = grown_by(tmp_path, kind, "32M")
    # Three times the chunk of 16 MiB, or the bound, and what the interpreter takes meanwhile.
    assert grown <= 48 + 32


@pytest.mark.full("arrays of 256 MiB")
@pytest.mark.parametrize("kind", marked(LARGE_KINDS))
def test_the_bound_on_memory_holds_for_the_largest_chunks(tmp_path, kind):
    pytest.importorskip(LARGE_KINDS[kind])
    grown = grown_by(tmp_path, kind, "64M")
    # Three times the chunk, and what the allocator keeps; of a masked array no chunks.
    assert grown <= (64 if kind == "masked" else 192) + 32


@pytest.mark.full("arrays of 256 MiB")
def test_a_row_beyond_the_bound_is_refused_before_it_is_read(tmp_path):
    pytest.importorskip("zarr")
    assert grown_by(tmp_path, "row", "64M") <= 32
