"""The files of results.

A result is a `.npy` file, which the native part writes, or one that is made of it: a GeoTIFF, an
array of zarr, or a store of xarray with the coordinates and attributes of the field. A file has its
name only when it is complete.
"""

import contextlib
import errno
import json
import math
import os
import pathlib
import shutil
import warnings

import numpy as np

from . import _geotiff, _syncline
from ._arrays import dimensions_of, is_data_array
from ._errors import ArgumentError, FileError, MemoryBoundError, OutputError
from ._files import folder_of, package, told
from ._meaning import NODATA, in_zarr
from ._sizes import whole
from ._sources import ZARR
from ._windows import check_chunks, windows

#: The name that xarray gives to a variable without one.
_UNNAMED = "__xarray_dataarray_variable__"


def _name_in_store(array):
    """Return the name of an array of xarray in a store; that of xarray for one without a name."""
    is_taken = array.name is None or array.name in (*array.coords, *array.dims)
    return _UNNAMED if is_taken else str(array.name)


def _check_in_store(array, attributes, dtype):
    """Refuse a name or attributes with which xarray would read something else."""
    import xarray

    name = _name_in_store(array)
    if not name or "/" in name or (name.startswith((".", "__")) and name != _UNNAMED):
        raise ValueError(f"{name!r} is no name of a variable in zarr")
    given = xarray.Dataset({name: ("point", np.zeros(1, dtype), attributes)})
    read = xarray.decode_cf(given)
    variable = read.get(name)
    if variable is None or variable.attrs != attributes or variable.dtype != dtype:
        why = ", ".join(set(attributes) - set(getattr(variable, "attrs", ()))) or "the units"
        raise ValueError(f"xarray would read other values because of the attributes {why}")


def _write_coordinates(array, store):
    """Write the coordinates of an array to a new store; they must be read back as they are."""
    import xarray

    options = {"mode": "w", "consolidated": False, "zarr_format": 3}
    given = array.coords.to_dataset().drop_encoding()
    for name, coordinate in given.coords.items():
        # A number that no point has says nothing; xarray itself has written NaN here.
        for key in NODATA[:2]:
            if key in coordinate.attrs and _is_absent(coordinate.attrs[key], coordinate.values):
                given[name].attrs.pop(key)
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


def _is_absent(value, numbers):
    """Return whether none of the numbers is this one."""
    value = np.asarray(value)
    if value.ndim or value.dtype.kind not in "fiu" or numbers.dtype.kind not in "fiu":
        return False
    return not ((numbers != numbers) if value != value else (numbers == value)).any()


def _in_json(value):
    """Return an attribute as a value that JSON has."""
    value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    json.dumps(value)
    return value


def _of_array(attributes):
    """Return the attributes that an array of zarr can have, which are all that JSON has."""
    kept = {}
    for key, value in attributes.items():
        with contextlib.suppress(TypeError, ValueError):
            value = _in_json(value)
            # JSON has no word for these; zarr writes such.
            is_real = isinstance(value, float) and not math.isfinite(value)
            kept[key] = json.dumps(value) if is_real else value
    return kept


def _is_foreign(folder):
    """Return whether a folder holds something that is not of zarr."""
    with told("read", folder):
        try:
            known = os.stat(folder)
            inside = set(os.listdir(folder))
            # Another sweep may have put its result in the place of this folder meanwhile.
            is_there = os.path.samestat(known, os.stat(folder))
        except FileNotFoundError:
            return False
    return is_there and bool(inside) and not inside & ZARR


class Output:
    """Where the result of one field goes: a `.npy` file, or another one that is made of it."""

    def __init__(self, path, stage, overwrite, chunks):
        given = self.path = os.fsdecode(path)
        # A folder may be named with a slash at its end.
        while self.path.endswith(("/", "/.")) and self.path.strip("/."):
            self.path = self.path.removesuffix(".").rstrip("/")
        self.suffix = pathlib.PurePath(self.path).suffix.lower()
        self._chunks, self._stage = None, stage
        self._overwrite = overwrite
        if self.suffix not in (".npy", ".zarr", *_geotiff.SUFFIXES):
            raise OutputError(f"the output {self.path} is none of .npy, .zarr and .tif")
        if self.path != given and self.suffix != ".zarr":
            raise OutputError(f"the output {given} is the name of a folder, not of a file")
        if chunks is not None:
            if self.suffix != ".zarr":
                raise OutputError("chunks= is for an output in .zarr")
            if not isinstance(chunks, (list, tuple)):
                raise ArgumentError(f"chunks is {chunks!r}, but must be the sizes along all axes")
            self._chunks = tuple(whole("chunks", 1, size) for size in chunks)
        self._is_folder = self.suffix == ".zarr"
        #: The path that gets the result: not a link, but what it leads to.
        target = _syncline.output_path(self.path, self._is_folder, [])
        self.home = os.path.realpath(folder_of(target))
        # The sweep may call a function that changes the current folder.
        self.target = os.path.join(self.home, os.path.basename(target))
        # Whether all is there but the name.
        self._is_whole = False
        # Whether the native part writes it.
        self.is_direct = self.suffix == ".npy"
        if self.is_direct:
            self.npy = self.target
        else:
            self.detour()

    def detour(self):
        """Have the native part write a temporary file, of which this one is made."""
        self.is_direct = False
        if self.suffix != ".npy":
            package("zarr" if self.suffix == ".zarr" else "rasterio", self.path)
        if os.path.lexists(self.target) and not self._overwrite:
            raise OutputError(f"{self.path} exists already: overwrite=True replaces it")
        if self._is_folder and _is_foreign(self.target):
            raise OutputError(f"{self.path} is a folder, but none of zarr: move it away")
        for path in _geotiff.beside(self.target) if self.suffix in _geotiff.SUFFIXES else ():
            _syncline.check_replaceable(path)
        self.npy = self._stage.file()

    @property
    def passes(self):
        """The folder in which complete passes are kept while the sweep runs."""
        return f"{self.npy}.syncline"

    def check(self, field, inputs):
        """Refuse a field that cannot go to this file, before anything runs.

        ``inputs`` are the files that the sweep reads.
        """
        _syncline.output_path(self.path, self._is_folder, inputs)
        dimensions = len(field.shape)
        if dimensions == 1:
            raise OutputError("a field of one dimension has no output: give it as u[None, :]")
        if self.suffix in _geotiff.SUFFIXES and dimensions != 2:
            raise OutputError(f"{self.path}: a GeoTIFF has two dimensions, not {dimensions}")
        if self._chunks is not None and len(self._chunks) != dimensions:
            raise OutputError(f"chunks= has {len(self._chunks)} sizes for {dimensions} dimensions")
        if self.is_direct:
            return
        self._part = self._stage.beside(self.target, self.suffix)
        if self.suffix == ".npy":
            return
        try:
            if self._is_folder:
                self._create_zarr(field)
            else:
                _geotiff.check(self._part, field, self._stage)
        except MemoryBoundError:
            raise
        except Exception as error:
            what = "coordinates and attributes of " if self._has_store(field) else ""
            raise OutputError(
                f"the {what}{field.name} cannot be written to {self.path}: {error}"
            ) from error

    def finish(self, field):
        """Bring the result to its place; return what views it."""
        if not self.is_direct:
            self._write(field)
        try:
            return self._view(field)
        except Exception as error:
            raise FileError(f"the result is in {self.path}, but: {error}") from error

    def _write(self, field):
        """Make the file of what the native part has written; what cannot be made leaves that."""
        try:
            result = np.load(self.npy, mmap_mode="r")
            if self._is_folder:
                self._fill_zarr(result)
            elif self.suffix == ".npy":
                shutil.copyfile(self.npy, self._part)
            else:
                _geotiff.write(self._part, result, field, self._stage)
            self._is_whole = True
            self._replace(self._part)
        except Exception as error:
            # What has taken hours is not lost because of its last step.
            message = "; ".join([f"cannot write {self.path}: {error}", *self.keep()])
            kind = OutputError if isinstance(error, OutputError) else FileError
            raise kind(message) from error

    def keep(self):
        """Keep what the native part has written for this file; return where, as one sentence.

        There is none if it has written the file itself, or nothing, or if the result has its place.
        """
        if self.is_direct or not os.path.lexists(self.npy):
            return []
        if self._is_whole and not os.path.lexists(self._part):
            return []
        return [f"the result is in {self._stage.keep(self.npy, os.path.basename(self.target))}"]

    def _view(self, field):
        """Return what views the result in its place; `None` for one that only its package reads."""
        if self.suffix == ".npy":
            return np.load(self.target, mmap_mode="r")
        if not self._is_folder:
            _geotiff.forget(self.target)
        if not self._has_store(field):
            return None
        import xarray

        options = {"chunks": None, "consolidated": False, "decode_cf": False}
        store = xarray.open_zarr(self.target, **options)
        # The values are those of the store, and all else is what the user gave.
        return field.wrap(store[_name_in_store(field.origin)])

    def _has_store(self, field):
        """Return whether the output is a store of xarray, with the coordinates of the field."""
        return self._is_folder and is_data_array(field.origin)

    def _replace(self, part):
        """Give a complete result its name; what has the name now is kept until then."""
        aside = None
        try:
            while True:
                try:
                    if os.path.lexists(self.target) and not self._overwrite:
                        raise OutputError("it has come into existence meanwhile")
                    if os.path.isdir(part) and os.path.lexists(self.target):
                        aside = self._stage.beside(self.target, ".old")
                        os.rename(self.target, aside)
                    return os.replace(part, self.target)
                except OutputError:
                    raise
                except FileNotFoundError:
                    # Another process has moved what had the name, unless it is the result itself
                    # or the folder.
                    if not (os.path.lexists(part) and os.path.isdir(self.home)):
                        raise
                except OSError as error:
                    # Another process was faster.
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise
        except BaseException:
            if aside is not None and os.path.lexists(aside) and not os.path.lexists(self.target):
                os.rename(aside, self.target)
            raise

    def _create_zarr(self, field):
        """Make the store, with all but the numbers."""
        import zarr

        origin = field.origin
        chunks = self._chunks or getattr(origin, "chunks", None)
        if chunks is None or not all(isinstance(n, int) for n in chunks):
            chunks = tuple(min(n, 1024) for n in field.shape)
        size = np.dtype(field.dtype).itemsize
        check_chunks(self.path, size, chunks, self._stage.memory)
        facts = {"shape": field.shape, "dtype": field.dtype, "chunks": tuple(chunks)}
        if self._has_store(field):
            attributes = {}
            for key, value in field.attributes.items():
                if key not in NODATA[:2]:
                    try:
                        attributes[key] = _in_json(value)
                    except (TypeError, ValueError) as error:
                        raise ValueError(f"the attribute {key!r}: {error}") from error
            _check_in_store(origin, attributes, field.dtype)
            mapping = origin.encoding.get("grid_mapping")
            if mapping in origin.coords:
                attributes["grid_mapping"] = mapping
            if field.nodata is not None:
                attributes["_FillValue"] = in_zarr(field.nodata, field.dtype)
            _write_coordinates(origin, self._part)
            # The coordinates are there: the variable joins them.
            group = zarr.open_group(self._part, mode="r+")
            facts["dimension_names"] = [str(dim) for dim in origin.dims]
            self._array = group.create_array(_name_in_store(origin), **facts)
            self._array.attrs.update(attributes)
            with warnings.catch_warnings():
                # That other readers may not know this, which xarray looks for.
                warnings.simplefilter("ignore")
                zarr.consolidate_metadata(self._part)
        else:
            attributes = _of_array(field.attributes)
            if type(origin).__module__.startswith("zarr"):
                facts["dimension_names"] = dimensions_of(origin)
                attributes.pop("_ARRAY_DIMENSIONS", None)
            self._array = zarr.open_array(self._part, mode="w", **facts)
            self._array.attrs.update(attributes)

    def _fill_zarr(self, result):
        chunks = self._array.shards or self._array.chunks
        for window in windows(result.shape, result.itemsize, chunks, self._stage.window):
            self._array[window] = result[window]
