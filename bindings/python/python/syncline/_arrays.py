"""The arrays that users give, and the results that they get back.

=====================  ========================  =========================================
given                  read                      the result is
=====================  ========================  =========================================
numpy array            in place, without a copy  a numpy array
numpy.memmap           from its file             a numpy array
path of a ``.npy``     from the file             a numpy array
xarray.DataArray       as its data               a DataArray with coordinates, attributes
xarray, dask: lazy     window by window          the same
zarr array, ``.zarr``  window by window          a numpy array
``.tif``               window by window          a numpy array
=====================  ========================  =========================================

With an output the result is a file, and what is returned views it: a read-only `numpy.memmap`, in a
DataArray if the field was one. A DataArray that goes to a ``.zarr`` is a store of xarray, and comes
back as one that is read when it is used. What is read window by window is written to a temporary
file beside the output first.
"""

import mmap
import numbers
import os
import pathlib

import numpy as np

from . import _geotiff
from ._errors import ArrayError, FileError
from ._files import package
from ._values import DTYPES


class Given:
    """An array that a user has given.

    ``nodata`` is the value that means no data, if there is one. ``files`` are those that are read:
    no output may be one of them.
    """

    nodata = None

    def __init__(self, name, dtype, shape, given, wrap=None, keep=None, origin=None, files=()):
        self.name, self.dtype, self.shape, self._given = name, dtype, tuple(shape), given
        self.wrap = wrap or (lambda result: result)
        self.keep, self.origin, self.files = keep, origin, files

    @property
    def nbytes(self):
        """The bytes of the elements."""
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize

    @property
    def is_copied(self):
        """Whether the native part takes a temporary file, which is not there yet."""
        return callable(self._given)

    def given(self):
        """Return what the native part takes: a path, or the type, the dimensions and the bytes."""
        if self.is_copied:
            self._given = self._given()
        return self._given


def open_array(array, name, stage, dtype=None, is_field=True):
    """Return an array of the user, whatever it is, as `Given`; a mask of bool has 0 and 1."""
    if not is_field and getattr(getattr(array, "dtype", None), "kind", None) == "b":
        array = array.view(np.uint8) if isinstance(array, np.ndarray) else array.astype("uint8")
    if isinstance(array, (str, bytes, os.PathLike)):
        return _of_path(os.fsdecode(array), name, stage, dtype)
    module = type(array).__module__.partition(".")[0]
    if module == "xarray":
        return _of_xarray(array, name, stage, dtype)
    if module in ("dask", "zarr"):
        return _of_lazy(array, name, stage, dtype)
    if isinstance(array, np.ma.MaskedArray):
        raise ArrayError(f"{name} is a masked array: fill it, and say nodata= for the fill value")
    if not isinstance(array, np.ndarray):
        if isinstance(array, (list, tuple)) or hasattr(array, "__array__"):
            array = np.asarray(array)
        else:
            told = f"{name} is no array, but of type {type(array).__name__}"
            is_number = isinstance(array, numbers.Number)
            raise ArrayError(
                f"{told}: a number is a part of the kernel, which may use it as it is"
                if is_number
                else told
            )
    return _of_numpy(array, name, stage, dtype)


def _type(name, dtype):
    """Return the name of a supported type of elements."""
    dtype = np.dtype(dtype)
    if dtype.name not in DTYPES:
        hint = "use .view('uint8')" if dtype.kind == "b" else "convert it by dtype= or .astype(...)"
        raise ArrayError(f"{name} is of type {dtype}, not one of {', '.join(DTYPES)}: {hint}")
    return dtype.name


def _of_numpy(array, name, stage, dtype, wrap=None):
    path = None if dtype is not None and np.dtype(dtype) != array.dtype else _file_of(array)
    kind = _type(name, array.dtype if dtype is None else dtype)
    if array.ndim not in (1, 2, 3):
        raise ArrayError(f"{name} has {array.ndim} dimensions, but sweeps have one, two or three")
    if array.size == 0:
        raise ArrayError(f"{name} has no elements: its shape is {array.shape}")
    mapping = _mapping_of(array)
    files = () if mapping is None or not _maps(mapping) else (os.fspath(mapping.filename),)
    if path is not None and array.ndim > 1:
        return Given(name, kind, array.shape, path, wrap, array, files=files)
    shape, is_as_needed = array.shape, array.flags.c_contiguous and array.flags.aligned
    if array.dtype != kind or not array.dtype.isnative or not is_as_needed:
        # Another type or byte order, other strides, or no alignment: one copy. That of a mapped
        # file, and one that would take much of the bound, is on file.
        size = array.size * np.dtype(kind).itemsize
        if mapping is not None or not stage.holds(size):
            array = array.reshape(_at_least_two(shape))
            copy = stage.copier(name, array.shape, kind, array.__getitem__, _pages(array))
            return Given(name, kind, shape, copy, wrap, files=files)
        array = np.require(array, kind, ["C", "A"])
    given = kind, _at_least_two(shape), array.reshape(-1).view(np.uint8)
    return Given(name, kind, shape, given, wrap, array, files=files)


def _pages(array):
    """Return the chunks by which an array that is mapped or in memory is copied.

    Of one in Fortran order the columns are long runs, and of the copy the rows: a square has both.
    """
    is_by_columns = abs(array.strides[0]) < abs(array.strides[-1])
    return (2048 if is_by_columns else 1, *[1] * (array.ndim - 1))


def _at_least_two(shape):
    return [1, *shape] if len(shape) == 1 else list(shape)


def _mapping_of(array):
    """Return the mapped file that an array is a view of; `None` for an array in memory."""
    while array is not None and not isinstance(array, np.memmap):
        array = array.base if isinstance(array, np.ndarray) else None
    if array is None or array.filename is None or not isinstance(array._mmap, mmap.mmap):
        return None
    return array


def _file_of(array):
    """Return the `.npy` file that an array maps as a whole; `None` for other arrays."""
    root = _mapping_of(array)
    if root is None:
        return None
    if not array.flags.c_contiguous or array.dtype.byteorder == ">":
        return None
    path = os.fspath(root.filename)
    try:
        with open(path, "rb") as file:
            version = np.lib.format.read_magic(file)
            if version == (1, 0):
                header = np.lib.format.read_array_header_1_0(file)
            else:
                header = np.lib.format.read_array_header_2_0(file)
            start = file.tell()
    except (OSError, ValueError):
        return None
    first = np.frombuffer(root._mmap, np.uint8).ctypes.data
    # The mapping begins at a multiple of the granularity before the data.
    mapped = start - start % mmap.ALLOCATIONGRANULARITY
    if header != (array.shape, False, array.dtype) or array.ctypes.data - first + mapped != start:
        return None
    # Another file may have the name by now.
    if not _maps(root):
        return None
    if root.mode != "r" and root.mode != "c":
        root.flush()
    # Changes of a private mapping are in memory only.
    return path if root.mode != "c" else None


def _maps(mapping):
    """Return whether a mapping is that of the file which has its path now."""
    address = np.frombuffer(mapping._mmap, np.uint8).ctypes.data
    path = os.fspath(mapping.filename)
    try:
        found = os.stat(path)
        with open("/proc/self/maps") as maps:
            for line in maps:
                span, _, _, device, inode = line.split(maxsplit=5)[:5]
                low, high = (int(end, 16) for end in span.split("-"))
                if low <= address < high:
                    major, minor = (int(part, 16) for part in device.split(":"))
                    there = os.makedev(major, minor), int(inode)
                    return there == (found.st_dev, found.st_ino)
    except (OSError, ValueError):
        return False
    return False


def _of_path(path, name, stage, dtype):
    suffix = pathlib.PurePath(path).suffix.lower()
    if suffix == ".zarr":
        zarr = package("zarr", path)
        try:
            array = zarr.open_array(path, mode="r")
        except Exception as error:
            raise FileError(f"cannot read {path}: {error}") from error
        return _of_lazy(array, name, stage, dtype)
    if suffix in (".tif", ".tiff"):
        return _of_tiff(path, name, stage, dtype)
    try:
        array = np.load(path, mmap_mode="r")
    except (OSError, ValueError) as error:
        raise FileError(f"cannot read {path}: {error}") from error
    if not isinstance(array, np.ndarray):
        raise FileError(f"{path} is no file of one array (.npy)")
    return _of_numpy(array, name, stage, dtype)


def is_data_array(array):
    """Return whether an array is one of xarray, with dimensions that have names."""
    return type(array).__module__.partition(".")[0] == "xarray" and hasattr(array, "variable")


def aligned(array, name, field, of):
    """Return an array of xarray with the dimensions in the order of those of the field.

    What has other coordinates is refused: its points are not those of the field.
    """
    if set(array.dims) != set(field.dims):
        raise ArrayError(
            f"{name} has the dimensions {array.dims}, but {of} has {field.dims}: expand it by "
            "xarray.broadcast_like, or rename them"
        )
    for dim in field.dims:
        if dim in array.indexes and dim in field.indexes:
            one, other = array.indexes[dim], field.indexes[dim]
            if not one.equals(other):
                raise ArrayError(
                    f"the coordinate {dim} of {name} is not that of {of}: align them by "
                    "xarray.align, or reindex_like"
                )
    return array if array.dims == field.dims else array.transpose(*field.dims)


def _of_xarray(array, name, stage, dtype):
    if not is_data_array(array):
        raise ArrayError(f"{name} is a {type(array).__name__}: give one of its variables")

    def wrap(result):
        return array.copy(data=result)

    if getattr(array.variable, "_in_memory", True) and array.chunks is None:
        given = _of_numpy(array.values, name, stage, dtype, wrap)
        given.origin = array
        return given
    kind = _type(name, dtype or array.dtype)
    # Chunks of dask, or those of the file, as far as it tells them.
    chunks = array.chunks
    if chunks is None:
        said = array.encoding.get("chunksizes") or array.encoding.get("preferred_chunks") or {}
        said = said if isinstance(said, dict) else dict(zip(array.dims, said))
        chunks = [said.get(dim) or 1 for dim in array.dims]

    def read(window):
        return array.isel(dict(zip(array.dims, window))).values

    copy = stage.copier(name, array.shape, kind, read, chunks)
    source = array.encoding.get("source")
    files = (source,) if isinstance(source, str) else ()
    return Given(name, kind, array.shape, copy, wrap, origin=array, files=files)


def _of_lazy(array, name, stage, dtype):
    """Return an array that is read in parts: of zarr or dask."""
    kind = _type(name, dtype or array.dtype)
    if array.ndim not in (2, 3):
        raise ArrayError(f"{name} has {array.ndim} dimensions, not two or three")
    if any(length != length for length in array.shape):
        raise ArrayError(f"{name} has chunks of unknown sizes: u.compute_chunk_sizes() finds them")
    # dask has the sizes of all chunks along an axis, zarr has one.
    copy = stage.copier(name, array.shape, kind, lambda at: np.asarray(array[at]), array.chunks)
    # Of zarr, where its files are, as far as it says so.
    place = getattr(getattr(array, "store_path", None), "store", None)
    root = getattr(place, "root", None)
    files = () if root is None else (os.path.join(os.fspath(root), array.store_path.path),)
    return Given(name, kind, array.shape, copy, origin=array, files=files)


def _of_tiff(path, name, stage, dtype):
    with _geotiff.opened(path) as file:
        kind = _type(name, dtype or file.dtype)

    def read():
        with _geotiff.opened(path) as again:
            return stage.copier(name, again.shape, kind, again.read, again.blocks)()

    given = Given(name, kind, file.shape, read, origin=file, files=(path,))
    given.nodata = file.nodata
    return given
