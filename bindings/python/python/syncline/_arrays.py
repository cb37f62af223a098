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

import contextlib
import errno
import fcntl
import json
import mmap
import numbers
import os
import pathlib
import shutil
import tempfile
import time
import warnings

import numpy as np

from ._errors import ArrayError, FileError, OutputError
from ._sizes import whole
from ._values import DTYPES

#: The bytes of a window.
_WINDOW = 64 << 20

#: How the names of folders for temporary files begin.
_PREFIX = ".syncline-"

#: The name that xarray gives to a variable without one.
_UNNAMED = "__xarray_dataarray_variable__"


class Stage:
    """Folders for temporary files, beside the outputs; removed at the end, whatever happens.

    If the process is killed, the next one that has its output there removes them: a file in each of
    them is locked as long as its process lives.
    """

    def __init__(self, output):
        self._home = None if output is None else _folder(output)
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
        return self._new(_folder(output), suffix)

    def file(self):
        """Return the path of a new temporary file."""
        return self._new(self._home, ".npy")

    def _new(self, home, suffix):
        if home not in self._folders:
            with _told("make a folder for temporary files in", home or "the system's folder"):
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
        with _told("write", path):
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


def _folder(path):
    return os.path.dirname(os.path.abspath(path))


def windows(shape, itemsize, chunk=1):
    """Yield slices of the first axis, of a bounded number of bytes, or of `chunk` rows."""
    row = max(1, int(np.prod(shape[1:])) * itemsize)
    # Whole chunks, so that none is read twice.
    step = max(chunk, _WINDOW // row // chunk * chunk)
    for first in range(0, shape[0], step):
        yield slice(first, min(first + step, shape[0]))


@contextlib.contextmanager
def _told(action, path):
    """Turn an error of the system into one of the package."""
    try:
        yield
    except OSError as error:
        raise FileError(f"cannot {action} {path}: {error}") from error


class Given:
    """An array that a user has given.

    ``given`` is what the native part takes: a path, or the type, the dimensions and the bytes.
    ``nodata`` is the value that means no data, if there is one; ``tags`` are those of a GeoTIFF and
    of its band.
    """

    nodata = None
    tags: tuple = ({}, {})

    def __init__(self, name, dtype, shape, given, wrap=None, keep=None, origin=None):
        self.name, self.dtype, self.shape, self.given = name, dtype, tuple(shape), given
        self.wrap = wrap or (lambda result: result)
        self.keep, self.origin = keep, origin

    @property
    def nbytes(self):
        """The bytes of the elements."""
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize

    @property
    def is_file(self):
        """Whether the elements are on file."""
        return isinstance(self.given, str)


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
    return _of_numpy(array, name, dtype)


def _type(name, dtype):
    """Return the name of a supported type of elements."""
    dtype = np.dtype(dtype)
    if dtype.name not in DTYPES:
        hint = "use .view('uint8')" if dtype.kind == "b" else "convert it by dtype= or .astype(...)"
        raise ArrayError(f"{name} is of type {dtype}, not one of {', '.join(DTYPES)}: {hint}")
    return dtype.name


def _of_numpy(array, name, dtype, wrap=None):
    path = None if dtype is not None and np.dtype(dtype) != array.dtype else _file_of(array)
    if dtype is not None:
        array = array.astype(dtype, copy=False)
    kind = _type(name, array.dtype)
    if array.ndim not in (1, 2, 3):
        raise ArrayError(f"{name} has {array.ndim} dimensions, but sweeps have one, two or three")
    if array.size == 0:
        raise ArrayError(f"{name} has no elements: its shape is {array.shape}")
    if path is not None and array.ndim > 1:
        return Given(name, kind, array.shape, path, wrap, array)
    # Another byte order, other strides, or no alignment: one copy.
    array = np.require(array, array.dtype.newbyteorder("="), ["C", "A"])
    bytes_of = array.reshape(-1).view(np.uint8)
    return Given(name, kind, array.shape, (kind, _at_least_two(array.shape), bytes_of), wrap, array)


def _at_least_two(shape):
    return [1, *shape] if len(shape) == 1 else list(shape)


def _file_of(array):
    """Return the `.npy` file that an array maps as a whole; `None` for other arrays."""
    root = array
    while root is not None and not isinstance(root, np.memmap):
        root = root.base if isinstance(root, np.ndarray) else None
    if root is None or root.filename is None or not isinstance(root._mmap, mmap.mmap):
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
    if not _maps(first, path):
        return None
    if root.mode != "r" and root.mode != "c":
        root.flush()
    # Changes of a private mapping are in memory only.
    return path if root.mode != "c" else None


def _maps(address, path):
    """Return whether the mapping at an address is that of the file which has this path now."""
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
        zarr = _module("zarr", path)
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
    return _of_numpy(array, name, dtype)


def _module(name, path):
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise FileError(f"{path} needs the package {name}: pip install {name}") from error


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
        given = _of_numpy(array.values, name, dtype, wrap)
        given.origin = array
        return given
    kind = _type(name, dtype or array.dtype)
    first = array.dims[0]
    # Chunks of dask, or those of the file, as far as it tells them.
    chunks = array.encoding.get("chunksizes") or array.encoding.get("preferred_chunks")
    chunk = array.chunks[0][0] if array.chunks else 1
    if array.chunks is None and chunks:
        chunk = chunks.get(first, 1) if isinstance(chunks, dict) else chunks[0]
    path = stage.copy(array.shape, kind, lambda rows: array.isel({first: rows}).values, chunk)
    return Given(name, kind, array.shape, path, wrap, origin=array)


def _of_lazy(array, name, stage, dtype):
    """Return an array that is read in parts: of zarr or dask."""
    kind = _type(name, dtype or array.dtype)
    if array.ndim not in (2, 3):
        raise ArrayError(f"{name} has {array.ndim} dimensions, not two or three")
    if any(length != length for length in array.shape):
        raise ArrayError(f"{name} has chunks of unknown sizes: u.compute_chunk_sizes() finds them")
    first = array.chunks[0]  # dask has the sizes of all chunks along an axis, zarr has one
    chunk = first if isinstance(first, int) else first[0]
    path = stage.copy(array.shape, kind, lambda rows: np.asarray(array[rows]), chunk)
    return Given(name, kind, array.shape, path, origin=array)


def _of_tiff(path, name, stage, dtype):
    rasterio = _module("rasterio", path)
    from rasterio.enums import MaskFlags
    from rasterio.windows import Window

    try:
        with rasterio.open(path) as file:
            if file.count != 1:
                raise ArrayError(f"{path} has {file.count} bands, not one")
            scale, offset = file.scales[0], file.offsets[0]
            if (scale, offset) != (1, 0):
                raise ArrayError(
                    f"{path} has the scale {scale:g} and the offset {offset:g}, so its numbers are "
                    "not its values: convert it, such as by gdal_translate -unscale"
                )
            if MaskFlags.per_dataset in file.mask_flag_enums[0]:
                raise ArrayError(
                    f"{path} has a mask beside its numbers: points without data need a number of "
                    "their own, its nodata"
                )
            kind = _type(name, dtype or file.dtypes[0])
            profile, (height, width) = dict(file.profile), file.shape
            profile["descriptions"] = file.descriptions
            tags = file.tags(), file.tags(1)

            def read(rows):
                return file.read(1, window=Window(0, rows.start, width, rows.stop - rows.start))

            staged = stage.copy((height, width), kind, read)
    except rasterio.errors.RasterioError as error:
        raise FileError(f"cannot read {path}: {error}") from error
    given = Given(name, kind, (height, width), staged, origin=profile)
    given.nodata, given.tags = profile.get("nodata"), tags
    return given


def check_place(field, other):
    """Refuse a GeoTIFF whose points are not those of the field, if that is one, too."""
    one, two = field.origin, other.origin
    if not isinstance(one, dict) or not isinstance(two, dict):
        return
    if one["crs"] != two["crs"] or not one["transform"].almost_equals(two["transform"]):
        raise ArrayError(
            f"{other.name} is not where {field.name} is: it has the CRS {two['crs']} and the "
            f"transform {tuple(two['transform'])[:6]}, not {one['crs']} and "
            f"{tuple(one['transform'])[:6]}; rasterio.warp.reproject brings it there"
        )


def _name_in_store(array):
    """Return the name of an array of xarray in a store; that of xarray for one without a name."""
    is_taken = array.name is None or array.name in (*array.coords, *array.dims)
    return _UNNAMED if is_taken else str(array.name)


def _check_in_store(array, dtype):
    """Refuse a name or attributes with which xarray would read something else."""
    import xarray

    name = _name_in_store(array)
    if not name or "/" in name or (name.startswith((".", "__")) and name != _UNNAMED):
        raise ValueError(f"{name!r} is no name of a variable in zarr")
    attributes = {key: _in_json(value) for key, value in array.attrs.items()}
    given = xarray.Dataset({name: ("point", np.zeros(1, dtype), attributes)})
    read = xarray.decode_cf(given)
    variable = read.get(name)
    if variable is None or variable.attrs != attributes or variable.dtype != dtype:
        told = ", ".join(set(attributes) - set(getattr(variable, "attrs", ()))) or "the units"
        raise ValueError(f"xarray would read other values because of the attributes {told}")


def _write_coordinates(array, store):
    """Write the coordinates of an array to a new store; they must be read back as they are."""
    import xarray

    options = {"mode": "w", "consolidated": False, "zarr_format": 3}
    given = array.coords.to_dataset().drop_encoding()
    with warnings.catch_warnings():
        # Names and types that only some readers know: what xarray reads is compared.
        warnings.simplefilter("ignore")
        try:
            given.to_zarr(store, **options)
        except Exception:
            for name, coordinate in given.coords.items():
                try:
                    xarray.Dataset(coords={name: coordinate.variable}).to_zarr(store, **options)
                except Exception as error:
                    raise ValueError(f"the coordinate {name!r}: {error}") from error
            raise
        read = xarray.open_zarr(store, consolidated=False, chunks=None)
    for name, coordinate in given.coords.items():
        if name not in read.coords or not read[name].variable.identical(coordinate.variable):
            raise ValueError(
                f"xarray would read another coordinate {name!r}, because of its name or attributes"
            )


def _in_json(value):
    """Return an attribute as a value that JSON has."""
    value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    json.dumps(value)
    return value


class Output:
    """Where the result of one field goes: a `.npy` file, or another one that is made of it."""

    def __init__(self, path, stage, overwrite, chunks):
        self.path = os.fsdecode(path)
        # A folder may be named with a slash at its end.
        self.path = self.path.rstrip("/") or self.path
        self.suffix = pathlib.PurePath(self.path).suffix.lower()
        self._chunks, self._stage, self._store = None, stage, None
        self._overwrite = overwrite
        if self.suffix not in (".npy", ".zarr", ".tif", ".tiff"):
            raise OutputError(f"the output {self.path} is none of .npy, .zarr and .tif")
        if chunks is not None:
            if self.suffix != ".zarr":
                raise OutputError("chunks= is for an output in .zarr")
            if not isinstance(chunks, (list, tuple)):
                raise TypeError(f"chunks is {chunks!r}, but must be the sizes along all axes")
            self._chunks = tuple(whole("chunks", 1, size) for size in chunks)
        home = _folder(self.path)
        if not os.path.isdir(home):
            raise FileError(f"the folder of the output, {home}, does not exist")
        self.is_npy = self.suffix == ".npy"
        if self.is_npy:
            self.npy = self.path
            return
        _module("zarr" if self.suffix == ".zarr" else "rasterio", self.path)
        if os.path.lexists(self.path) and not overwrite:
            raise OutputError(f"{self.path} exists already: overwrite=True replaces it")
        if self.suffix != ".zarr" and os.path.isdir(self.path):
            raise OutputError(f"{self.path} is a folder")
        self.npy = stage.file()

    @property
    def passes(self):
        """The folder in which complete passes are kept while the sweep runs."""
        return f"{self.npy}.syncline"

    def check(self, field):
        """Refuse a field that cannot go to this file, before anything runs."""
        dimensions = len(field.shape)
        if dimensions == 1:
            raise OutputError("a field of one dimension has no output: give it as u[None, :]")
        if self.suffix in (".tif", ".tiff") and dimensions != 2:
            raise OutputError(f"{self.path}: a GeoTIFF has two dimensions, not {dimensions}")
        if self._chunks is not None and len(self._chunks) != dimensions:
            raise OutputError(f"chunks= has {len(self._chunks)} sizes for {dimensions} dimensions")
        if self.suffix == ".zarr" and is_data_array(field.origin):
            self._store = self._stage.beside(self.path, ".zarr")
            try:
                _check_in_store(field.origin, field.dtype)
                _write_coordinates(field.origin, self._store)
                self._attributes = {key: _in_json(x) for key, x in field.origin.attrs.items()}
            except Exception as error:
                raise OutputError(
                    f"the coordinates and attributes of {field.name} cannot be written to "
                    f"{self.path}: {error}"
                ) from error

    def finish(self, field):
        """Bring the result to its place; return what views it."""
        result = np.load(self.npy, mmap_mode="r")
        if self.is_npy:
            return result
        part = self._stage.beside(self.path, self.suffix)
        write = self._write_zarr if self.suffix == ".zarr" else self._write_tiff
        try:
            write(part, result, field)
            self._replace(part)
        except Exception as error:
            # What has taken hours is not lost because of its last step.
            kept = f"{self.path}.{os.getpid()}.npy"
            os.replace(self.npy, kept)
            told = f"cannot write {self.path}: {error}; the result is in {kept}"
            kind = OutputError if isinstance(error, OutputError) else FileError
            raise kind(told) from error
        if self._store is None:
            return None
        import xarray

        options = {"chunks": None, "consolidated": False, "decode_cf": False}
        store = xarray.open_zarr(self.path, **options)
        # The values are those of the store, and all else is what the user gave.
        return field.origin.copy(data=store[_name_in_store(field.origin)])

    def _replace(self, part):
        """Give a complete result its name; what has the name now is kept until then."""
        aside = None
        try:
            while True:
                try:
                    if os.path.lexists(self.path) and not self._overwrite:
                        raise OutputError("it has come into existence meanwhile")
                    if os.path.isdir(part) and os.path.lexists(self.path):
                        aside = self._stage.beside(self.path, ".old")
                        os.rename(self.path, aside)
                    return os.replace(part, self.path)
                except OutputError:
                    raise
                except FileNotFoundError:
                    # Another process has moved what had the name, unless it is the result itself.
                    if not os.path.lexists(part):
                        raise
                except OSError as error:
                    # Another process was faster.
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise
        except BaseException:
            if aside is not None and os.path.lexists(aside) and not os.path.lexists(self.path):
                os.rename(aside, self.path)
            raise

    def _write_zarr(self, part, result, field):
        import zarr

        origin = field.origin
        chunks = self._chunks or getattr(origin, "chunks", None)
        if chunks is None or not all(isinstance(n, int) for n in chunks):
            chunks = tuple(min(n, 1024) for n in result.shape)
        facts = {"shape": result.shape, "dtype": result.dtype, "chunks": tuple(chunks)}
        if self._store is not None:
            # The coordinates are there: the variable joins them.
            os.replace(self._store, part)
            group = zarr.open_group(part, mode="r+")
            facts["dimension_names"] = [str(dim) for dim in origin.dims]
            to = group.create_array(_name_in_store(origin), **facts)
            to.attrs.update(self._attributes)
        else:
            to = zarr.open_array(part, mode="w", **facts)
            if type(origin).__module__.startswith("zarr"):
                to.attrs.update(dict(origin.attrs))
        for rows in windows(result.shape, result.itemsize, chunks[0]):
            to[rows] = result[rows]
        if self._store is not None:
            with warnings.catch_warnings():
                # That other readers may not know this, which xarray looks for.
                warnings.simplefilter("ignore")
                zarr.consolidate_metadata(part)

    def _write_tiff(self, part, result, field):
        import rasterio
        from rasterio.windows import Window

        profile = dict(field.origin) if isinstance(field.origin, dict) else {}
        descriptions = profile.pop("descriptions", ())
        height, width = result.shape
        profile |= {"driver": "GTiff", "dtype": result.dtype.name, "count": 1}
        profile |= {"height": height, "width": width, "BIGTIFF": "IF_SAFER"}
        profile["nodata"] = field.nodata
        with rasterio.open(part, "w", **profile) as file:
            file.update_tags(**field.tags[0])
            file.update_tags(1, **field.tags[1])
            file.descriptions = descriptions or file.descriptions
            for rows in windows(result.shape, result.itemsize):
                window = Window(0, rows.start, width, rows.stop - rows.start)
                file.write(result[rows], 1, window=window)


def remove(path):
    """Remove a file or a folder, if it is there."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)
