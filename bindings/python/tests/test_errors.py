"""Each exception for a wrong input is of the package, and names the file or the argument."""

import os

import numpy as np
import pytest
import syncline
from conftest import mean


def files(folder, u):
    """Write files that are no arrays; return their names."""
    np.save(folder / "whole.npy", u)
    whole = (folder / "whole.npy").read_bytes()
    np.save(folder / "objects.npy", np.array([[1, None]], object))
    np.save(folder / "number.npy", np.float64(3))
    np.save(folder / "fields.npy", np.zeros((3, 3), "i4,f4"))
    np.savez(folder / "several.npz", u=u)
    contents = {
        "empty.npy": b"",
        "short.npy": whole[:40],
        "truncated.npy": whole[:-1],
        "pickle.npy": b"\x80\x04K\x01.",
        "version.npy": whole[:6] + b"\x09" + whole[7:],
        "no suffix": b"text",
    }
    suffixes = "asc cdf csv grib2 h5 hdf5 he5 img nc nc4 png txt zip"
    contents |= {f"other.{suffix}": b"text" for suffix in suffixes.split()}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    (folder / "folder.npy").mkdir()
    (folder / "loop.npy").symlink_to(folder / "loop.npy")
    made = [*contents, "several.npz", "objects.npy", "folder", "folder.npy", "loop.npy"]
    return [*made, "none.npy", "none/none.npy", "whole.npy/more"]


def test_files_that_are_no_arrays_are_named(tmp_path, u):
    for name in files(tmp_path, u):
        for given in (tmp_path / name, os.fspath(tmp_path / name), os.fsencode(tmp_path / name)):
            with pytest.raises(syncline.FileError, match="cannot read|is a folder") as error:
                syncline.sweep(mean, given, iterations=1)
            assert name in str(error.value)
    for name in ("number.npy", "fields.npy"):
        with pytest.raises(syncline.ArrayError, match="^u "):
            syncline.sweep(mean, tmp_path / name, iterations=1)
    # What to do is what the format needs.
    for name, advice in (
        ("other.nc", "xarray.open_dataset"),
        ("other.grib2", "xarray.open_dataset"),
        ("other.h5", "h5py.File"),
        ("several.npz", "numpy.load"),
        ("other.csv", "numpy.loadtxt"),
        ("other.asc", "rasterio.open"),
    ):
        with pytest.raises(syncline.FileError, match=advice):
            syncline.sweep(mean, tmp_path / name, iterations=1)
    for given in ("", "a\0b.npy", "a\0b"):
        with pytest.raises(syncline.FileError, match="cannot read"):
            syncline.sweep(mean, given, iterations=1)


def test_a_file_without_rights_is_named(tmp_path, u):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    np.save(tmp_path / "u.npy", u)
    (tmp_path / "u.npy").chmod(0)
    with pytest.raises(syncline.FileError, match="u.npy"):
        syncline.sweep(mean, tmp_path / "u.npy", iterations=1)


class Refusing:
    """An array of a package that makes none of numpy, as those on other devices."""

    shape, dtype, ndim = (3, 3), np.dtype("f8"), 2

    def __init__(self, error):
        self.error = error

    def __array__(self, dtype=None, copy=None):
        raise self.error


def arrays(u):
    """Return what is no array of numbers."""
    return {
        "objects": np.array([[object(), 1.0]]),
        "fields": np.zeros((3, 3), "i4,f4"),
        "text": np.array([["a", "b"]]),
        "bytes": np.array([[b"a"]]),
        "void": np.zeros((3, 3), "V4"),
        "times": np.zeros((3, 3), "M8[s]"),
        "durations": np.zeros((3, 3), "m8[s]"),
        "ragged": [[1, 2], [3]],
        "empty": [],
        "strings": ["a", "b"],
        "generator": iter(u),
        "set": {1, 2},
        "none": None,
        "number": 5,
        "memoryview": memoryview(u),
        "refusing": Refusing(TypeError("no implicit conversion")),
        "failing": Refusing(RuntimeError("dense")),
        "masked": np.ma.masked,
        "class": np.ndarray,
        "function": mean,
    }


@pytest.mark.parametrize("kind", arrays(np.ones((2, 2))))
def test_what_is_no_array_is_named(u, kind):
    for options in ({}, {"dtype": "float64"}):
        with pytest.raises(syncline.ArrayError, match="^u "):
            syncline.sweep(mean, arrays(u)[kind], iterations=1, **options)
    with pytest.raises(syncline.ArrayError, match="^f "):
        given = {"f": arrays(u)[kind]}
        syncline.sweep(lambda u, f: u + f, u, given, iterations=1)


def test_the_cause_of_an_error_is_kept(u):
    cause = RuntimeError("the device is gone")
    with pytest.raises(syncline.ArrayError, match="RuntimeError: the device is gone") as error:
        syncline.sweep(mean, Refusing(cause), iterations=1)
    assert error.value.__cause__ is cause
    with pytest.raises(syncline.FileError, match="^u "):
        syncline.sweep(mean, Refusing(OSError(5, "the disk is gone")), iterations=1)
    with pytest.raises(syncline.MemoryBoundError, match="^u "):
        syncline.sweep(mean, Refusing(MemoryError("too large")), iterations=1)
    with pytest.raises(KeyboardInterrupt):
        syncline.sweep(mean, Refusing(KeyboardInterrupt()), iterations=1)


def test_chunks_that_cannot_be_read_are_named(tmp_path, u):
    dask = pytest.importorskip("dask.array")
    zarr = pytest.importorskip("zarr")
    xarray = pytest.importorskip("xarray")

    def fails(part):
        raise ZeroDivisionError("of a chunk")

    lazy = dask.from_array(u, chunks=(10, 50)).map_blocks(fails, meta=np.empty((0, 0)))
    for given in (lazy, xarray.DataArray(lazy, dims=("y", "x"))):
        with pytest.raises(syncline.ArrayError, match=r"^u\[0:40, 0:50\].*of a chunk") as error:
            syncline.sweep(mean, given, iterations=1)
        assert isinstance(error.value.__cause__, ZeroDivisionError)
    shape = dask.from_array(u).map_blocks(lambda part: part[:3], meta=np.empty((0, 0)))
    with pytest.raises(syncline.ArrayError, match=r"^u\[0:40.*shape \(3, 50\)"):
        syncline.sweep(mean, shape, iterations=1)
    path = tmp_path / "u.zarr"
    array = zarr.create_array(path, shape=u.shape, chunks=(10, 50), dtype="f8")
    array[:] = u
    (path / "c" / "2" / "0").write_bytes(b"no chunk")
    for given, name in ((path, path), (array, r"u\[")):
        with pytest.raises(syncline.Error, match=f"^{name}.*cannot be read"):
            syncline.sweep(mean, given, iterations=1)
    (path / "zarr.json").write_text("{}")
    with pytest.raises(syncline.FileError, match=str(path)):
        syncline.sweep(mean, path, iterations=1)


def test_arrays_of_other_packages_are_named(u):
    xarray = pytest.importorskip("xarray")
    for package, make, told in (
        ("pint", lambda pint: pint.UnitRegistry().Quantity(u, "m"), "dequantify"),
        ("sparse", lambda sparse: sparse.COO.from_numpy(u), "todense"),
    ):
        try:
            module = __import__(package)
        except ImportError:
            continue
        for given in (make(module), xarray.DataArray(make(module), dims=("y", "x"))):
            with pytest.raises(syncline.ArrayError, match=f"^u .*{package}.*{told}"):
                syncline.sweep(mean, given, iterations=1)


OPTIONS = [
    *(("iterations", value) for value in ("a", None, 1.5, -1, 1 << 70)),
    *(("until", value) for value in ("x", object(), 1j, -1, float("nan"), [1])),
    *(("memory", value) for value in ("lots", "1.2.3G", object(), float("nan"), -1, 0, 1j)),
    *(("threads", value) for value in (-1, 0, "a", 1.5)),
    *(("depth", value) for value in (-1, 0, "a")),
    *(("output", value) for value in (5, object(), [None], 1.5, "a\0.npy", [["a.npy"]])),
    *(("nodata", value) for value in ("a", object(), 1j, {"u": None}, {"u": [1, 2]}, 10**400)),
    *(("boundary", value) for value in (object(), "x", 1j, [object()])),
    *(("axis", value) for value in ({"a": 1}, {9: 1})),
    *(("directions", value) for value in (5, object())),
    *(("dtype", value) for value in ("nonsense", object())),
    *(("progress", value) for value in (5, "yes")),
    ("chunks", 5),
]


@pytest.mark.parametrize("name, value", OPTIONS)
def test_wrong_options_are_named(tmp_path, u, name, value):
    option = "boundary" if name == "axis" else name
    options = {"iterations": 1, option: value}
    if name == "chunks":
        pytest.importorskip("zarr")
        options["output"] = tmp_path / "o.zarr"
    with pytest.raises(syncline.Error, match=name) as error:
        syncline.sweep(mean, u, **options)
    assert isinstance(error.value, ValueError)
    if name != "progress":
        with pytest.raises(syncline.Error, match=name):
            syncline.plan(mean, u, **options)
    assert os.listdir(tmp_path) == []


def test_wrong_calls_are_errors_of_the_package(u):
    for fields in ({}, (), (u, u), {"a": u, "b": u}):
        with pytest.raises(syncline.ArrayError, match="u"):
            syncline.sweep(mean, fields, iterations=1)
    for coefficients in (5, [u], {"f": u}, "f.npy", object()):
        with pytest.raises(syncline.ArrayError):
            syncline.sweep(mean, u, coefficients, iterations=1)
    with pytest.raises(syncline.OutputError, match="chunks"):
        syncline.sweep(mean, u, iterations=1, chunks=(8, 8))
    with pytest.raises(syncline.Error, match="unknown"):
        syncline.plan(mean, u, iterations=1, unknown=3)
    with pytest.raises(syncline.Error, match="dtype"):
        syncline.empty(3, "nonsense")
    with pytest.raises(syncline.Error, match="shape"):
        syncline.empty("a")
    for dtype in ("nonsense", 5, object()):
        with pytest.raises(syncline.Error, match="dtype"):
            syncline.kernel(mean).describe(dtype)
    with pytest.raises(syncline.Error, match="dimensions"):
        syncline.kernel(mean).describe(dimensions=[2])
    for path in (5, object()):
        with pytest.raises(syncline.Error, match="path"):
            syncline.trace(path)
        with pytest.raises(syncline.Error, match="trace"):
            syncline.report(path)
    with pytest.raises(syncline.Error, match="arguments"):
        syncline.function(lambda x: x, arguments="a")
    with pytest.raises(syncline.Error, match="name"):
        syncline.function(lambda x: x, name=5)
    for name, value in (
        ("max_workers", "a"),
        ("max_workers", 0),
        ("memory", "much"),
        ("timeout", "long"),
        ("retries", -1),
        ("initializer", 5),
        ("worker_memory", 1),
    ):
        with pytest.raises(syncline.Error, match=name):
            syncline.Pool(**{name: value})
