"""The files that arrays are read from: no output replaces one of them.

A path, an array of zarr and a dataset of rasterio tell their files. A lazy array of xarray or dask
is a structure of objects of several packages, which is searched for such objects and for the paths
of files. The search ends after a number of objects, and reads no attribute that computes
something. What it does not understand gives no file: the array is copied before an output is
replaced, so that the result is right in any case.
"""

import collections
import contextlib
import functools
import itertools
import mmap
import os
import types

import numpy as np

from ._meaning import package_of

#: The objects that a search looks at.
_MOST = 100_000

#: This many numbers, which lead nowhere, take as long as one object.
_NUMBERS = 16

#: The elements of a container that is searched at once; those of others come last.
_FEW = 1_000

#: The packages whose objects lead to others. Of an object of another one the attributes are looked
#: at, and not those that objects of unknown packages among them have.
_OF_FILES = ("h5netcdf", "h5py", "netCDF4", "rasterio", "zarr")
_OF_GRAPHS = ("builtins", "collections", "dask", "functools", "numpy", "rioxarray", "tlz", "toolz")
_KNOWN = (*_OF_FILES, *_OF_GRAPHS, "xarray")

#: Attributes that lead to other arrays, or tell nothing of where numbers are.
_OTHERS = ("_attrs", "_cache", "_cached_keys", "_meta", "attrs")

#: One of these files is at the top of an array or a group of zarr.
ZARR = frozenset({"zarr.json", ".zarray", ".zgroup"})


def files_of(*sources):
    """Return the files and folders that arrays are read from, as far as these tell them.

    The sources are paths or arrays. An array in a store of zarr gives its own folder and those of
    the groups around it.
    """
    # A path that is given has any name; one that is found looks like a path.
    given = [os.fsdecode(one) for one in sources if isinstance(one, (str, bytes, os.PathLike))]
    found, around = {}, {}
    for path in (*given, *_searched(sources)):
        found[path] = None
        if os.path.isdir(path):
            for one in (os.path.abspath(path), os.path.realpath(path)):
                found.update(dict.fromkeys(_groups_around(one, around)))
    return tuple(found)


def _groups_around(path, known):
    """Return the groups of zarr that hold a path, the inner ones first."""
    groups = []
    while True:
        path = os.path.dirname(path)
        if path not in known:
            known[path] = any(os.path.lexists(os.path.join(path, name)) for name in ZARR)
        if not known[path] or path in groups:
            return groups
        groups.append(path)


def _searched(sources):
    """Yield the files and folders that objects name."""
    # Each with whether an object of an unknown package has it. All are kept, as ids name them.
    queue, last = collections.deque((one, False) for one in sources), collections.deque()
    seen, paths, skipped = {}, set(), 0
    while (queue or last) and len(seen) + skipped // _NUMBERS < _MOST:
        one, is_inner = (queue or last).popleft()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        is_unknown, parts = False, ()
        with contextlib.suppress(Exception):  # of packages that are built in another way
            if isinstance(one, (str, bytes, os.PathLike)):
                path = _path(one)
                if path is not None and path not in paths:
                    paths.add(path)
                    yield path
                    parts = _files_of_raster(path) if path.lower().endswith(".vrt") else ()
            else:
                is_unknown = package_of(one) not in _KNOWN
                parts = () if is_unknown and is_inner else _parts(one)
            into = queue if len(parts) <= _FEW else last
            # Those after them would not be looked at.
            some = list(itertools.islice(parts, max(0, _MOST - len(seen) - len(into))))
            others = [part for part in some if not isinstance(part, (int, float))]
            skipped += len(some) - len(others)
            into.extend((part, is_unknown) for part in others if id(part) not in seen)


def _path(text):
    """Return a text as a path, if it is that of a file or of a folder of zarr."""
    try:
        path = os.fsdecode(text).removeprefix("file://")
        if not path or len(path) > 4096 or not (os.sep in path or "." in path):
            return None
        if os.path.isdir(path):
            is_one = path.endswith(".zarr") or not ZARR.isdisjoint(os.listdir(path))
        else:
            is_one = os.path.isfile(path)
    except (OSError, TypeError, ValueError):
        return None
    return path if is_one else None


def _parts(one):
    """Return what an object is made of, as a collection: other objects, and paths."""
    if isinstance(one, np.ndarray):
        mapping = mapping_of(one)
        if mapping is not None:
            return [mapping.filename] if maps(mapping) else []
        return one.reshape(-1)[:_MOST].tolist() if one.dtype.kind in "OSU" else []
    if isinstance(one, (dict, types.MappingProxyType)):
        return one.values()
    if isinstance(one, (list, tuple, set, frozenset, collections.deque)):
        return one
    if isinstance(one, functools.partial):
        return [one.func, one.args, one.keywords]
    if isinstance(one, types.MethodType):
        return [one.__self__]
    if isinstance(one, types.FunctionType):
        cells = [cell.cell_contents for cell in one.__closure__ or ()]
        return [*cells, one.__defaults__, one.__kwdefaults__]
    if isinstance(one, (type, types.ModuleType)):
        return []
    package = package_of(one)
    if package == "zarr":
        return _place_in_store(one)
    if package in ("h5netcdf", "h5py", "netCDF4"):
        return _file_of_variable(one)
    if package == "rasterio":
        with contextlib.suppress(Exception):
            return [one.name, getattr(one, "src_dataset", None), *one.files]
        return [one.name]
    if package == "xarray" and hasattr(one, "variable") and hasattr(one, "coords"):
        parts = []
        for variable in (one.variable, *(one.variable for one in one.coords.values())):
            parts.append(variable._data)
            if not getattr(variable, "_in_memory", True):
                parts.append(variable.encoding.get("source"))
        return parts
    return _attributes(one)


def _attributes(one):
    """Return the attributes that an object has, without those that it computes."""
    names = set(getattr(one, "__dict__", ()))
    for kind in type(one).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names.update((slots,) if isinstance(slots, str) else slots)
    found = []
    for name in names.difference(_OTHERS):
        with contextlib.suppress(AttributeError):
            found.append(object.__getattribute__(one, name))
    return found


def _place_in_store(array):
    """Return the folder of an array of zarr, if its store is one of files."""
    place = getattr(array, "store_path", None)
    store = getattr(place if place is not None else array, "store", None)
    for _ in range(4):  # of stores that wrap others
        store = getattr(store, "_store", store)
    root, files = getattr(store, "root", None), getattr(store, "fs", None)
    if root is None:
        root = getattr(store, "path", None)
    protocol = getattr(getattr(files, "sync_fs", files), "protocol", "file")
    if root is None or "file" not in ((protocol,) if isinstance(protocol, str) else protocol):
        return []
    inside = getattr(place if place is not None else array, "path", "")
    if os.path.isfile(root):
        return [root]
    return [os.path.join(os.fspath(root), inside)]


def _file_of_variable(array):
    """Return the file of a variable of HDF5 or netCDF."""
    if hasattr(array, "group") and hasattr(array, "ncattrs"):
        return [array.group().filepath()]
    holder = getattr(array, "file", None) or getattr(array, "_root", None)
    return [getattr(holder, "filename", None)]


def _files_of_raster(path):
    """Return the files from which a raster is made, by its path."""
    with contextlib.suppress(Exception):
        import rasterio

        with rasterio.open(path) as file:
            return file.files
    return []


def mapping_of(array):
    """Return the mapped file that an array is a view of; `None` for an array in memory."""
    while array is not None and not isinstance(array, np.memmap):
        array = array.base if isinstance(array, np.ndarray) else None
    if array is None or array.filename is None or not isinstance(array._mmap, mmap.mmap):
        return None
    return array


def maps(mapping):
    """Return whether a mapping is that of the file which has its path now."""
    address = np.frombuffer(mapping._mmap, np.uint8).ctypes.data
    path = os.fspath(mapping.filename)
    try:
        found = os.stat(path)
        with open("/proc/self/maps") as lines:
            for line in lines:
                span, _, _, device, inode, *name = line.rstrip("\n").split(maxsplit=5)
                low, high = (int(end, 16) for end in span.split("-"))
                if low <= address < high:
                    major, minor = (int(part, 16) for part in device.split(":"))
                    # Subvolumes of btrfs have other numbers here; a name may be that of a new file.
                    is_there = os.makedev(major, minor) == found.st_dev
                    is_there |= name == [os.path.realpath(path)]
                    return is_there and int(inode) == found.st_ino
    except (OSError, ValueError):
        return False
    return False


def npy_of(array):
    """Return the `.npy` file that an array maps as a whole; `None` for other arrays."""
    root = mapping_of(array)
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
    if not maps(root):
        return None
    if root.mode != "r" and root.mode != "c":
        root.flush()
    # Changes of a private mapping are in memory only.
    return path if root.mode != "c" else None
