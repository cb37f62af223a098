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
a variable in .zarr    window by window          a DataArray, of a store of xarray
h5py, netCDF4: a       window by window          a numpy array
variable of a file
``.tif``, ``.vrt``,    window by window          a numpy array
rasterio dataset
masked array           with nodata at its mask   a masked array; on file, one with nodata
=====================  ========================  =========================================

What these say of their numbers is in `_meaning`.

With an output the result is a file, and what is returned views it: a read-only `numpy.memmap`, in a
DataArray if the field was one. A DataArray that goes to a ``.zarr`` is a store of xarray, and comes
back as one that is read when it is used. What is read window by window is written to a temporary
file beside the output first.
"""

import contextlib
import numbers
import os
import pathlib
import warnings

import numpy as np

from . import _geotiff
from ._errors import ArrayError, Error, FileError, MemoryBoundError
from ._files import package
from ._meaning import (
    TO_NUMPY,
    Meaning,
    attributes_of,
    attributes_of_result,
    encoding_of_result,
    of_another_package,
    package_of,
    refuse_masks_in,
)
from ._sources import ZARR, files_of, mapping_of, npy_of
from ._values import DTYPES
from ._windows import COMPARED, check_chunks, windows

#: The packages whose arrays are read in parts.
_LAZY = ("dask", "h5netcdf", "h5py", "netCDF4", "zarr")

#: How an array is made of files that are read by other packages.
_READERS = {
    "xarray.open_dataset(path)[name]": (".nc", ".nc4", ".cdf", ".grib", ".grib2", ".grb", ".grb2"),
    "h5py.File(path)[name], or xarray.open_dataset(path)[name]": (".h5", ".hdf5", ".hdf", ".he5"),
    "numpy.load(path)[name]": (".npz",),
    "numpy.loadtxt(path, delimiter=',')": (".csv",),
    "numpy.loadtxt(path)": (".txt", ".dat", ".tsv"),
    "rasterio.open(path)": (".asc", ".bil", ".hgt", ".img", ".jp2", ".png", ".jpg", ".jpeg"),
    "zarr.open(path)": (".zip",),
}


class Given:
    """An array that a user has given.

    ``nodata`` is the value that means no data, if there is one. ``attributes`` are those of a
    result in its place. ``source`` is what the user has given.
    """

    def __init__(
        self,
        name,
        dtype,
        shape,
        given,
        wrap=None,
        keep=None,
        origin=None,
        nodata=None,
        told=(),
    ):
        self.name, self.dtype, self.shape, self._given = name, dtype, tuple(shape), given
        self.wrap = wrap or (lambda result: result)
        self.keep, self.origin, self.nodata = keep, origin, nodata
        self.attributes, self.source = attributes_of_result(told, nodata, dtype), None

    @property
    def files(self):
        """The files and folders that are read: no output may be one of them."""
        return files_of(self.source)

    @property
    def nbytes(self):
        """The bytes of the elements."""
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize

    @property
    def is_decoded(self):
        """Whether NaN stands for points without data, as the array was decoded by xarray."""
        encoding = getattr(self.origin, "encoding", None) or {}
        return any(encoding.get(key) is not None for key in ("_FillValue", "missing_value"))

    @property
    def is_copied(self):
        """Whether the native part takes a temporary file, which is not there yet."""
        return callable(self._given)

    def given(self):
        """Return what the native part takes: a path, or the type, the dimensions and the bytes."""
        if self.is_copied:
            with _within_memory(self.name):
                self._given = self._given()
        return self._given


class Wanted:
    """What is asked of an array: its name, a type, and the number that the user says is no data.

    With ``is_whole`` that is all that the sweep knows of it, as the kernel is a description. An
    array that is no field may be of bool, a mask: it has 0 and 1 of uint8, and ``is_mask`` is set.
    An array of xarray is aligned with the one that ``first`` was made of, if that is one, too.
    """

    def __init__(self, name, dtype=None, nodata=None, is_whole=False, is_field=True):
        self.name, self.dtype, self.nodata, self.is_whole = name, dtype, nodata, is_whole
        self.is_field, self.is_mask, self.first = is_field, False, None

    def meaning(self, dtype, attributes=(), encoding=()):
        """Return what the numbers of an array of a type mean."""
        if not self.is_field and np.dtype(dtype).kind == "b":
            self.is_mask, self.dtype = True, np.dtype("uint8")
        kind = _type(self.name, dtype if self.dtype is None else self.dtype, dtype)
        told = self.nodata, attributes, encoding, self.is_whole
        return Meaning(self.name, dtype, kind, *told)


def open_array(array, wanted, stage, first=None):
    """Return an array of the user, whatever it is, as `Given`; ``first`` is the first field."""
    wanted.first = first
    try:
        with _within_memory(wanted.name):
            given = _opened(array, wanted, stage)
    except Error:
        raise
    except Exception as error:  # of the package that has made it
        raise _unread(wanted.name, error) from error
    given.source = array
    return given


@contextlib.contextmanager
def _within_memory(name):
    """Turn the error of an array that has no room in memory into one of the package."""
    try:
        yield
    except Error:
        raise  # it is told already
    except MemoryError as error:
        raise MemoryBoundError(f"{name} does not fit into memory: {error}") from error


def _unread(name, error):
    """Return the exception for one of a package that reads an array."""
    kind = FileError if isinstance(error, OSError) else ArrayError
    return kind(f"{name} cannot be read: {type(error).__name__}: {error}")


def _opened(array, wanted, stage):
    name = wanted.name
    if isinstance(array, (str, bytes, os.PathLike)):
        return _of_path(os.fsdecode(array), wanted, stage)
    module = package_of(array)
    if module == "xarray":
        return _of_xarray(array, wanted, stage)
    if module == "rasterio" and hasattr(array, "profile"):
        return _of_tiff(array, array.name, wanted, stage)
    if module in _LAZY:
        return _of_lazy(array, wanted, stage)
    if isinstance(array, np.ma.MaskedArray):
        return _of_masked(array, wanted, stage)
    told = {}
    if not isinstance(array, np.ndarray):
        if isinstance(array, (list, tuple)):
            refuse_masks_in(array, name)
            array = np.asarray(array)
        elif module in TO_NUMPY:
            raise of_another_package(name, array)
        elif hasattr(array, "__array__"):
            told, array = attributes_of(array), np.asanyarray(array)
            if isinstance(array, np.ma.MaskedArray):
                return _of_masked(array, wanted, stage, told)
        else:
            said = f"{name} is no array, but of type {type(array).__name__}"
            is_number = isinstance(array, numbers.Number)
            raise ArrayError(
                f"{said}: a number is a part of the kernel, which may use it as it is"
                if is_number
                else f"{said}{_contents(array)}"
            )
    return _of_numpy(array, wanted, wanted.meaning(array.dtype, told), stage)


def _contents(array):
    """Return the names of the arrays that something has, in words."""
    for names in ("data_vars", "variables", "array_keys", "keys"):
        with contextlib.suppress(Exception):
            found = getattr(array, names)
            found = sorted(map(str, found() if callable(found) else found))
            return f": give one of {', '.join(found)}"
    return ""


def _type(name, dtype, of=None):
    """Return the name of a supported type of elements, in place of that of an array."""
    dtype = np.dtype(dtype)
    if of is not None and np.dtype(of).kind in "mM":
        raise ArrayError(
            f"{name} is of type {of}, times, of which NaT is no number: give the numbers of a unit "
            "as (u - start) / numpy.timedelta64(1, 's')"
        )
    if dtype.name not in DTYPES:
        hint = (
            "use .view('uint8') of a numpy array, or .astype('uint8')"
            if dtype.kind == "b"
            else "convert it by dtype= or .astype(...)"
        )
        raise ArrayError(f"{name} is of type {dtype}, not one of {', '.join(DTYPES)}: {hint}")
    return dtype.name


def _of_numpy(array, wanted, meaning, stage, wrap=None, told=(), origin=None):
    name, shape = wanted.name, array.shape
    if isinstance(array, np.ma.MaskedArray) and meaning.has_mask(array):
        kind, dims = meaning.target.name, _at_least_two(shape)
        _check_shape(name, shape)
        if not stage.holds(array.size * meaning.target.itemsize):
            # With the number in place of its mask it is a copy, which is on file.
            rows = array.reshape(dims)
            facts = {"origin": origin, "nodata": meaning.nodata, "told": told}
            sizes = {"numbers": meaning.numbers, "itemsize": array.itemsize}
            copy = stage.copier(name, dims, kind, rows.__getitem__, _pages(rows), **sizes)
            return Given(name, kind, shape, copy, wrap, **facts)
    array = meaning.numbers(array)
    kind = _type(name, array.dtype if wanted.dtype is None else wanted.dtype)
    if wanted.is_mask and array.dtype.kind == "b":
        array = array.view(kind)
    _check_shape(name, shape)
    mapping = mapping_of(array)
    facts = {"origin": origin, "nodata": meaning.nodata, "told": told}
    path = npy_of(array) if array.dtype == kind else None
    if path is not None and array.ndim > 1:
        return Given(name, kind, shape, path, wrap, array, **facts)
    is_as_needed = array.flags.c_contiguous and array.flags.aligned
    if array.dtype != kind or not array.dtype.isnative or not is_as_needed:
        # Another type or byte order, other strides, or no alignment: one copy. That of a mapped
        # file, and one that would take much of the bound, is on file.
        size = array.size * np.dtype(kind).itemsize
        if mapping is not None or not stage.holds(size):
            array = array.reshape(_at_least_two(shape))
            copy = stage.copier(name, array.shape, kind, array.__getitem__, _pages(array))
            return Given(name, kind, shape, copy, wrap, **facts)
        array = np.require(array, kind, ["C", "A"])
    given = kind, _at_least_two(shape), array.reshape(-1).view(np.uint8)
    return Given(name, kind, shape, given, wrap, array, **facts)


def _pages(array):
    """Return the chunks by which an array that is mapped or in memory is copied.

    Of one in Fortran order the columns are long runs, and of the copy the rows: a square has both.
    """
    is_by_columns = abs(array.strides[0]) < abs(array.strides[-1])
    return (2048 if is_by_columns else 1, *[1] * (array.ndim - 1))


def _of_masked(array, wanted, stage, told=()):
    """Return an array of numpy with a mask; its points have the number that means no data."""
    _check_shape(wanted.name, array.shape)
    told, fill = dict(told), array.fill_value
    is_masked = array.dtype.names is None and np.ma.is_masked(array)
    # Every masked array has a fill value; the default of numpy says nothing.
    if is_masked and wanted.nodata is None and fill != np.ma.default_fill_value(array.dtype):
        told.setdefault("fill_value", fill)
    meaning = wanted.meaning(array.dtype, told)
    # Of what has data no point may be taken for one without.
    is_chosen = is_masked and wanted.nodata is None and meaning.nodata is not None
    if is_chosen and _has(array, array.dtype.type(fill)):
        raise ArrayError(
            f"{wanted.name} has {fill}, the fill value of its mask, among its numbers: set "
            "another fill_value"
        )

    def wrap(result):
        if isinstance(result, np.memmap):
            return result
        nodata = meaning.nodata
        if nodata is None:
            return np.ma.MaskedArray(result)
        mask = result != result if nodata != nodata else result == nodata
        return np.ma.MaskedArray(result, mask=mask, fill_value=nodata)

    return _of_numpy(array, wanted, meaning, stage, wrap)


def _has(array, number):
    """Return whether points of an array with a mask that have data have a number, or NaN."""
    parts = (array[window] for window in windows(array.shape, array.itemsize, most=COMPARED))
    is_nan = number != number
    found = (part != part if is_nan else part == number for part in parts)
    return any(np.ma.filled(one, False).any() for one in found)


def _check_shape(name, shape):
    if len(shape) not in (1, 2, 3):
        raise ArrayError(f"{name} has {len(shape)} dimensions, but sweeps have one, two or three")
    if 0 in shape:
        raise ArrayError(f"{name} has no elements: its shape is {shape}")


def _at_least_two(shape):
    return [1, *shape] if len(shape) == 1 else list(shape)


def _of_path(path, wanted, stage):
    suffix = pathlib.PurePath(path).suffix.lower()
    if suffix in _geotiff.READ:
        with _geotiff.opened(path) as file:
            return _of_tiff(file, path, wanted, stage)
    if suffix == ".zarr" or _is_in_zarr(path):
        return _of_store(path, suffix == ".zarr", wanted, stage)
    reader = next((how for how, suffixes in _READERS.items() if suffix in suffixes), None)
    hint = f": open it by {reader}" if reader else ""
    if os.path.isdir(path):
        raise FileError(f"{path} is a folder, and no file of one array (.npy){hint}")
    try:
        with open(path, "rb") as file:
            magic = file.read(6)
        array = np.load(path, mmap_mode="r") if magic == b"\x93NUMPY" else None
    except (OSError, ValueError, EOFError) as error:
        raise FileError(f"cannot read {path}: {error}") from error
    if array is None:
        what = "is no file of one array (.npy)" if magic else "is empty"
        raise FileError(f"cannot read {path}: it {what}{hint}")
    return _of_numpy(array, wanted, wanted.meaning(array.dtype), stage)


def _is_in_zarr(path):
    """Return whether a path is in a store of zarr, or is one by its contents."""
    if not os.path.isdir(path):
        return any(parent.suffix.lower() == ".zarr" for parent in pathlib.PurePath(path).parents)
    with contextlib.suppress(OSError):
        return not ZARR.isdisjoint(os.listdir(path))
    return False


def _of_store(path, is_root, wanted, stage):
    """Return the array of zarr at a path, or the variable of a store of xarray."""
    zarr = package("zarr", path)
    try:
        node = zarr.open(path, mode="r")
    except Exception as error:
        raise FileError(f"cannot read {path}: {error}") from error
    if isinstance(node, zarr.Group):
        group, name = path, None
    else:
        if is_root or not dimensions_of(node):
            return _of_lazy(node, wanted, stage, path)
        group, name = os.path.split(path.rstrip("/"))
    variables = _variables(group)
    if name is None and not variables:
        # Arrays without names of dimensions are none of xarray.
        arrays = dict(node.arrays())
        if len(arrays) != 1:
            raise _several(path, [*arrays, *node.group_keys()])
        return _of_lazy(*arrays.values(), wanted, stage, path)
    if name is None:
        if len(variables) != 1:
            raise _several(path, list(variables))
        (name,) = variables
    if name not in variables:
        return _of_lazy(node, wanted, stage, path)
    return _of_xarray(variables[name], wanted, stage)


def _several(path, names):
    if not names:
        return FileError(f"{path} is a group of zarr without arrays")
    return FileError(
        f"{path} is a group of zarr with {', '.join(sorted(names))}: give one as "
        f"{path}/{min(names)}, or as xarray.open_zarr(path)[name]"
    )


def _variables(path):
    """Return the variables of a store of xarray that are fields; none if it is no such store."""
    xarray = package("xarray", path)
    options = {"chunks": None, "decode_coords": "all"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of metadata in one place, which a store may lack
            found = xarray.open_zarr(path, **options)
            raw = xarray.open_zarr(path, mask_and_scale=False, **options)
    except Exception:
        return {}
    # What an attribute says of the numbers of a field counts; coordinates are decoded.
    found = found.assign({name: raw.variables[name] for name in found.data_vars})
    return {str(name): found[name] for name in found.data_vars if found[name].ndim in (1, 2, 3)}


def dimensions_of(array):
    """Return the names of the dimensions of an array of zarr, if all have names."""
    names = getattr(array.metadata, "dimension_names", None)
    names = names or array.attrs.get("_ARRAY_DIMENSIONS")
    return list(names) if names and None not in names else None


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


def _of_xarray(array, wanted, stage):
    name = wanted.name
    if not is_data_array(array):
        raise ArrayError(
            f"{name} is a {type(array).__name__}, and no array of xarray{_contents(array)}"
        )
    if wanted.first is not None and is_data_array(wanted.first.origin):
        array = aligned(array, name, wanted.first.origin, wanted.first.name)
    meaning = wanted.meaning(array.dtype, array.attrs, array.encoding)

    def wrap(result):
        made = array.copy(data=result)
        made.attrs = attributes_of_result(array.attrs, meaning.nodata, meaning.target)
        made.encoding = encoding_of_result(array.encoding)
        return made

    facts = {"wrap": wrap, "told": array.attrs, "origin": array}
    if getattr(array.variable, "_in_memory", True) and array.chunks is None:
        return _of_numpy(array.values, wanted, meaning, stage, **facts)
    kind = meaning.target.name
    _check_shape(name, array.shape)
    # Chunks of dask, or those of the file, as far as it tells them.
    chunks = array.chunks
    if chunks is None:
        # These are by name: a part of an array may have fewer dimensions than its file.
        said = array.encoding.get("preferred_chunks") or array.encoding.get("chunksizes") or {}
        said = said if isinstance(said, dict) else dict(zip(array.dims, said))
        chunks = [said.get(dim) or 1 for dim in array.dims]

    def part(window):
        with _without_cache(_variable_of(array)):
            return array.isel(dict(zip(array.dims, window))).data

    read = _reader(meaning, part)
    copy = _copier(stage, meaning, array.shape, read, chunks)
    _check_stored(name, array, array.encoding.get("source"), stage)
    return Given(name, kind, array.shape, copy, nodata=meaning.nodata, **facts)


def _check_stored(name, array, source, stage):
    """Refuse an array of xarray whose file has chunks that the memory does not hold."""
    sizes = array.encoding.get("chunksizes") or array.encoding.get("chunks") or ()
    if all(isinstance(size, int) for size in sizes):
        check_chunks(name, array.dtype.itemsize, sizes, stage.memory)
    if isinstance(source, str) and pathlib.PurePath(source).suffix.lower() in _geotiff.READ:
        with contextlib.suppress(FileError), _geotiff.opened(source) as file:
            _geotiff.check_blocks(file, source, stage.memory)


def _copier(stage, meaning, shape, read, chunks):
    """Return what copies an array that is read window by window; a row gets a second dimension."""
    if len(shape) == 1:
        shape, chunks, line = _at_least_two(shape), (1, *chunks), read

        def read(window):
            return line(window[1:])[None, :]

    facts = {"numbers": meaning.numbers, "itemsize": meaning.dtype.itemsize}
    return stage.copier(meaning.name, shape, meaning.target.name, read, chunks, **facts)


def _reader(meaning, read, path=None):
    """Return what reads a window of an array, which may have a mask; its errors name the array."""

    def array_at(window):
        try:
            part = read(window)
            # Not `numpy.asarray`, which drops the masks of Dask's chunks.
            part = meaning.of_numpy(part.compute() if package_of(part) == "dask" else part)
            expected = tuple(cut.stop - cut.start for cut in window)
            if part.shape != expected:
                raise ValueError(f"there is an array of the shape {part.shape}, not {expected}")
            return part
        except (Error, MemoryError):
            raise
        except Exception as error:
            places = ", ".join(f"{cut.start}:{cut.stop}" for cut in window)
            raise _unread(f"{path or meaning.name}[{places}]", error) from error

    return array_at


def _of_lazy(array, wanted, stage, path=None):
    """Return an array that is read in parts: of zarr, dask, or a file of HDF5 or netCDF."""
    name = wanted.name
    try:
        _ = array.dtype, array.ndim, array.shape
    except Exception as error:  # of a group, or of a file that is closed
        kind = f"{package_of(array)} {type(array).__name__}"
        what = f"{name} is a {kind}, and no array that can be read{_contents(array)}"
        raise ArrayError(what) from error
    told = attributes_of(array)
    meaning = wanted.meaning(array.dtype, told)
    kind = meaning.target.name
    if any(length != length for length in array.shape):
        raise ArrayError(f"{name} has chunks of unknown sizes: u.compute_chunk_sizes() finds them")
    _check_shape(name, array.shape)

    def part(window):
        with _without_cache(array):
            return array[window]

    read = _reader(meaning, part, path)
    facts = {"origin": array, "told": told}
    copy = _copier(stage, meaning, array.shape, read, _chunks_of(array))
    return Given(name, kind, array.shape, copy, nodata=meaning.nodata, **facts)


def _chunks_of(array):
    """Return the chunks of an array of a package that reads in parts.

    dask has the sizes of all chunks along an axis, zarr has one, and files may have none.
    """
    chunks = getattr(array, "chunks", None)
    if chunks is None and callable(getattr(array, "chunking", None)):
        chunks = array.chunking()  # of netCDF4
        chunks = None if isinstance(chunks, str) else chunks
    return tuple(chunks) if chunks else (1,) * array.ndim


@contextlib.contextmanager
def _without_cache(variable):
    """Let a variable of netCDF4 keep no chunk, of which it keeps up to 64 MiB otherwise."""
    before = None
    with contextlib.suppress(AttributeError, RuntimeError):  # of other packages and formats
        before = variable.get_var_chunk_cache()
        variable.set_var_chunk_cache(0, *before[1:])
    try:
        yield
    finally:
        if before is not None:
            with contextlib.suppress(RuntimeError):
                variable.set_var_chunk_cache(*before)


def _variable_of(array):
    """Return the variable of netCDF4 that a lazy array of xarray reads, if it tells."""
    with contextlib.suppress(Exception):
        found = array.variable._data
        while hasattr(found, "array"):
            found = found.array
        return found.get_array(needs_lock=False)
    return None


def _of_tiff(file, path, wanted, stage):
    """Return the band of a file that rasterio has opened."""
    file = _geotiff.GeoTiff(file, path)
    meaning = wanted.meaning(file.dtype, {"nodata": file.nodata})
    kind = meaning.target.name
    read = _reader(meaning, file.read, path)
    file.check(stage)
    copy = _copier(stage, meaning, file.shape, read, file.blocks)
    facts = {"origin": file, "nodata": meaning.nodata, "told": file.attributes}
    return Given(wanted.name, kind, file.shape, copy, **facts)
