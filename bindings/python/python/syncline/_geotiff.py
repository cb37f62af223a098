"""GeoTIFF, by rasterio: bands, and what a file says beside their numbers."""

import contextlib
import math
import os
import warnings

import numpy as np

from ._errors import ArrayError, FileError, GeoreferenceWarning, MemoryBoundError
from ._files import package
from ._meaning import attributes_of, warn
from ._windows import COMPARED, bounded_cache, check_chunks, windows

#: Compressions that change numbers.
_LOSSY = ("jpeg", "webp", "jxl")

#: The suffixes of files that are written, and those of files that are read.
SUFFIXES = (".tif", ".tiff")
READ = (*SUFFIXES, ".vrt")

#: How deeply VRTs are in VRTs, at most, whose sources are looked at.
_DEPTH = 4

#: How far a coordinate may be from where its point is, in pixels.
_UNEVEN = 0.01

#: What readers write beside a file about its numbers: overviews, a mask, statistics.
_SIDECARS = (".ovr", ".msk", ".aux.xml")


class GeoTiff:
    """A file of one band: its place, its nodata, its tags and its description."""

    def __init__(self, file, path):
        from rasterio.enums import MaskFlags

        if file.count != 1:
            raise ArrayError(f"{path} has {file.count} bands, not one")
        scale, offset = file.scales[0], file.offsets[0]
        if (scale, offset) != (1, 0):
            raise ArrayError(
                f"{path} has the scale {scale:g} and the offset {offset:g}, so its numbers are "
                "not its values: convert it, such as by gdal_translate -unscale"
            )
        self._file, self.shape = file, file.shape
        self._is_again = _is_again(file, path)
        self._stored = list(_stored(file, path))
        #: What is decoded as a whole: of a VRT the largest block of it and of its sources.
        self.blocks = max((blocks for _, blocks, _ in self._stored), key=math.prod)
        self._has_mask = MaskFlags.per_dataset in file.mask_flag_enums[0]
        self._path, self.profile = path, dict(file.profile)
        self.dtype, self.nodata = file.dtypes[0], file.nodata
        # The numbers of the result have other statistics.
        of_band = file.tags(1).items()
        of_band = {key: tag for key, tag in of_band if not key.startswith("STATISTICS_")}
        self.tags, self.descriptions = (file.tags(), of_band), file.descriptions
        self.units, self.points, self.rpcs = file.units, file.gcps, file.rpcs
        try:
            self.colours = file.colormap(1)
        except ValueError:
            self.colours = None
        if self.profile["driver"] != "GTiff":
            # Blocks and options are those of another format.
            self.profile = {key: self.profile[key] for key in ("crs", "transform")}
        if str(self.profile.get("compress")).lower() in _LOSSY:
            self.profile["compress"] = "deflate"
            self.profile.pop("photometric", None)

    def check(self, stage):
        """Refuse blocks that the memory cannot hold, and a mask that hides numbers."""
        _check_blocks(self._stored, stage.memory)
        if self._has_mask and self._hides(stage.window):
            raise ArrayError(
                f"{self._path} has a mask beside its numbers, which hides points: points without "
                "data need a number of their own, its nodata, and no other point may have it"
            )

    def _hides(self, most):
        """Return whether the mask beside the numbers hides any that its nodata does not."""
        size = np.dtype(self.dtype).itemsize
        with bounded_cache(most):
            for window in windows(self.shape, size, self.blocks, most):
                hidden = self._file.read_masks(1, window=window) == 0
                if not hidden.any():
                    continue
                some, nodata = self._file.read(1, window=window), self.nodata
                has_none = some != some if nodata != nodata else some == nodata
                if nodata is None or not np.all(has_none[hidden]):
                    return True
        return False

    @property
    def attributes(self):
        """What the file says, in the words of netCDF and of rioxarray."""
        crs, transform = self.profile["crs"], self.profile["transform"]
        said = {
            "_FillValue": self.nodata,
            "units": self.units[0],
            "long_name": self.descriptions[0],
            "crs": crs.to_wkt() if crs else None,
            "transform": None if transform.is_identity else list(transform)[:6],
        }
        return {key: value for key, value in said.items() if value is not None}

    def read(self, window):
        """Return a window."""
        if not self._is_again and not self._file.closed:
            return self._file.read(1, window=window)
        # An open file keeps the last block as it is stored: one that is opened for a window, none.
        with opened(self._path) as file:
            return file.read(1, window=window)


def _is_again(file, path):
    """Return whether a file that is open can be opened by its path again."""
    import rasterio

    with contextlib.suppress(rasterio.errors.RasterioError), rasterio.open(path) as one:
        facts = [(at.driver, at.shape, at.dtypes, at.block_shapes, at.mode) for at in (file, one)]
        return facts[0] == facts[1] and not hasattr(file, "src_dataset")
    return False


def check_blocks(file, path, memory):
    """Refuse a file with blocks that the memory cannot hold, or with sources that have such."""
    _check_blocks(_stored(file, path), memory)


def _check_blocks(stored, memory):
    for name, blocks, itemsize in stored:
        check_chunks(name, itemsize, blocks, memory)


def _itemsize(dtype):
    try:
        return np.dtype(dtype).itemsize
    except TypeError:  # of GDAL only, such as complex_int16
        return 8


def _stored(file, path):
    """Yield of a file and of its sources the path, the shape of a block and the bytes of a point.

    What cannot be opened is left out: to read it is an error of its own.
    """
    import rasterio

    yield from _stored_in(file, path)
    while getattr(file, "src_dataset", None) is not None:
        file = file.src_dataset
        yield from _stored_in(file, file.name)
    # Level by level, so that each source is opened once.
    seen, level = {file.name}, _sources_in(file)
    for _ in range(_DEPTH):
        below = []
        for source in level:
            if source in seen or source.endswith(_SIDECARS):
                continue
            seen.add(source)
            with contextlib.suppress(rasterio.errors.RasterioError), rasterio.open(source) as one:
                yield from _stored_in(one, source)
                below += _sources_in(one)
        level = below


def _sources_in(file):
    return file.files if file.driver == "VRT" else []


def _stored_in(file, path):
    # Bands that are stored point by point are decoded together.
    is_by_points = file.tags(ns="IMAGE_STRUCTURE").get("INTERLEAVE") == "PIXEL"
    itemsizes = [_itemsize(dtype) for dtype in file.dtypes]
    for blocks, itemsize in set(zip(map(tuple, file.block_shapes), itemsizes)):
        yield path, blocks, sum(itemsizes) if is_by_points else itemsize


@contextlib.contextmanager
def opened(path):
    """Open a GeoTIFF."""
    rasterio = package("rasterio", path)
    try:
        with rasterio.open(path) as file:
            yield file
    except rasterio.errors.RasterioError as error:
        raise FileError(f"cannot read {path}: {error}") from error


def check(path, field, stage):
    """Make and remove a file without numbers: what it cannot say is an error.

    A CRS that it cannot hold is warned of: GDAL writes that to another file, beside it.
    """
    with _created(path, field, stage, sparse_ok=True) as file:
        wanted = file.crs or file.gcps[1]
    forget(path)
    with opened(path) as file:
        is_held = not wanted or _is_same_crs(wanted, file.crs or file.gcps[1])
    os.remove(path)
    if not is_held:
        warn(
            f"the CRS of {field.name} is {wanted}, but a GeoTIFF holds no such CRS: its output has "
            "none, or a part of it",
            GeoreferenceWarning,
        )


def _is_same_crs(one, two):
    """Return whether a CRS is another one; names and the order of axes do not count."""
    import rasterio

    if one == two or not (one and two):
        return one == two
    try:
        text = one.to_proj4()
        # It is empty for those that PROJ.4 does not know.
        return bool(text) and text == two.to_proj4()
    except rasterio.errors.CRSError:
        return False


def write(path, result, field, stage):
    """Write a result by windows."""
    most = stage.window
    with warnings.catch_warnings():
        # The user has been told.
        warnings.simplefilter("ignore", GeoreferenceWarning)
        with bounded_cache(most):
            with _created(path, field, stage) as file:
                for window in windows(result.shape, result.itemsize, file.block_shapes[0], most):
                    file.write(result[window], 1, window=window)
            # Blocks are written until the file is closed, and rasterio tells no error of closing.
            # One that is missing is read as no data.
            with opened(path) as file:
                for window in windows(result.shape, result.itemsize, file.block_shapes[0], most):
                    if not _is_equal(file.read(1, window=window), result[window]):
                        raise FileError("some of its blocks could not be written")


def _is_equal(one, two):
    """Return whether arrays are equal, and both NaN where one is; compared by pieces."""
    pieces = windows(one.shape, one.itemsize, most=COMPARED)
    return all(np.array_equal(one[piece], two[piece], equal_nan=True) for piece in pieces)


@contextlib.contextmanager
def _created(path, field, stage, **options):
    """Make a file for a field, with all that its own file said, or with its place."""
    import rasterio

    origin = field.origin if isinstance(field.origin, GeoTiff) else None
    height, width = field.shape
    profile = dict(origin.profile) if origin else place_of(field)
    nodata = field.nodata
    if nodata is None and field.is_decoded and np.dtype(field.dtype).kind == "f":
        nodata = np.nan
    blocks = profile.get("blockysize", 1), profile.get("blockxsize", width)
    try:
        check_chunks(path, np.dtype(field.dtype).itemsize, blocks, stage.memory)
    except MemoryBoundError:
        # Other blocks than those of the source: GDAL writes small strips.
        for key in ("blockxsize", "blockysize", "tiled"):
            profile.pop(key, None)
    profile |= {"driver": "GTiff", "dtype": field.dtype, "count": 1, "nodata": nodata}
    profile |= {"height": height, "width": width, "BIGTIFF": "IF_SAFER", **options}
    with rasterio.open(path, "w", **profile) as file:
        if origin:
            file.update_tags(**origin.tags[0])
            file.update_tags(1, **origin.tags[1])
            file.descriptions, file.units = origin.descriptions, origin.units
            if origin.points[0]:
                file.gcps = origin.points
            if origin.rpcs is not None:
                file.rpcs = origin.rpcs
            if origin.colours is not None and field.dtype in ("uint8", "uint16"):
                file.write_colormap(1, origin.colours)
        else:
            _describe(file, field.attributes)
        yield file


def beside(path):
    """Return the files beside a path in which readers keep what they know of its numbers."""
    return [path + suffix for suffix in _SIDECARS if os.path.lexists(path + suffix)]


def forget(path):
    """Remove what readers have written beside a file that had this path before."""
    for one in beside(path):
        with contextlib.suppress(FileNotFoundError):
            os.remove(one)


def check_place(field, other):
    """Refuse a GeoTIFF whose points are not those of the field, if that is one, too."""
    if not (isinstance(field.origin, GeoTiff) and isinstance(other.origin, GeoTiff)):
        return
    one, two = field.origin.profile, other.origin.profile
    if _control(field.origin) != _control(other.origin):
        raise ArrayError(
            f"{other.name} is not where {field.name} is: they have other ground control points"
        )
    height, width = field.shape
    rows, columns = np.array([0, 0, height, height]), np.array([0, width, 0, width])
    x, y = _placed(two["transform"], rows, columns)
    is_there = one["transform"] == two["transform"]
    is_there |= _are_at(one["transform"], rows, columns, x, y)
    if one["crs"] != two["crs"] or not is_there:
        raise ArrayError(
            f"{other.name} is not where {field.name} is: it has the CRS {two['crs']} and the "
            f"transform {tuple(two['transform'])[:6]}, not {one['crs']} and "
            f"{tuple(one['transform'])[:6]}; rasterio.warp.reproject brings it there"
        )


def _placed(transform, rows, columns):
    """Return the coordinates that a transform gives to points of a raster."""
    a, b, c, d, e, f = transform[:6]
    return a * columns + b * rows + c, d * columns + e * rows + f


def _are_at(transform, rows, columns, x, y):
    """Return whether coordinates are those of points of a raster, to a small part of a pixel."""
    if transform.is_degenerate:
        return False
    across, down = _placed(~transform, y, x)
    return bool(np.all(np.maximum(abs(across - columns), abs(down - rows)) <= _UNEVEN))


def _control(origin):
    points, crs = origin.points
    return crs, [(at.row, at.col, at.x, at.y, at.z) for at in points]


#: The names of coordinates along columns, and along rows.
_ACROSS = ("x", "lon", "longitude", "easting", "projection_x_coordinate", "X")
_DOWN = ("y", "lat", "latitude", "northing", "projection_y_coordinate", "Y")


def place_of(field):
    """Return the CRS and the transform of a field of xarray or zarr, as far as it tells them.

    What it tells and a GeoTIFF cannot hold is warned of.
    """
    array = field.origin
    if array is None:
        return {}
    attributes, coordinates = attributes_of(array), getattr(array, "coords", {})
    mapping, crs = _mapping(field.name, array, attributes, coordinates)
    transform = _six(mapping.get("GeoTransform"), is_gdal=True) or _six(attributes.get("transform"))
    # xarray makes up coordinates that are not there.
    dims = getattr(array, "dims", ())
    there = dict(coordinates.items())
    axes = [there.get(dim) for dim in dims]
    if any(_is(axis, names) for axis, names in zip(axes, (_ACROSS, _DOWN))):
        warn(
            f"{field.name} has the axes {array.dims[0]} and {array.dims[1]}, of which a GeoTIFF "
            "has the second one first: its output has no CRS and no transform; transpose it",
            GeoreferenceWarning,
        )
        return {}
    if all(_is(axis, names) for axis, names in zip(axes, (_DOWN, _ACROSS))) or crs is not None:
        transform = _checked(field.name, axes, transform)
    # A part of an array of zarr is one of numpy, and has no attributes.
    may_be_part = hasattr(array, "coords") and all(axis is None for axis in axes)
    if transform is not None and may_be_part:
        transform = _confirmed(field.name, there, dims, transform)
    return {key: one for key, one in (("crs", crs), ("transform", transform)) if one is not None}


def _mapping(name, array, attributes, coordinates):
    """Return the attributes of a grid mapping, and the CRS that they tell."""
    import rasterio

    encoding = getattr(array, "encoding", None) or {}
    said = encoding.get("grid_mapping", attributes.get("grid_mapping"))
    word = str(said or "spatial_ref").split()[0].rstrip(":")
    mapping = dict(coordinates[word].attrs) if word in coordinates else {}
    text = mapping.get("crs_wkt") or mapping.get("spatial_ref") or attributes.get("crs")
    try:
        if text is None and "grid_mapping_name" in mapping:
            import pyproj

            text = pyproj.CRS.from_cf(mapping).to_wkt()
        if text is not None:
            return mapping, rasterio.crs.CRS.from_user_input(text)
    except Exception as error:  # of packages for maps
        warn(
            f"the CRS of {name} is not told by {word}, so its output has none: {error}",
            GeoreferenceWarning,
        )
    else:
        if said is not None:
            warn(
                f"{name} has the grid mapping {word}, which is not among its coordinates or tells "
                "no CRS, so its output has none: open it with decode_coords='all'",
                GeoreferenceWarning,
            )
    return mapping, None


def _six(said, is_gdal=False):
    """Return a transform of six numbers, in the order of GDAL or of rasterio."""
    from rasterio.transform import Affine

    try:
        numbers = [float(one) for one in (said.split() if isinstance(said, str) else said)][:6]
        made = Affine.from_gdal(*numbers) if is_gdal else Affine(*numbers)
    except (TypeError, ValueError):
        return None
    return None if made.is_identity else made


def _is(axis, names):
    """Return whether a coordinate has one of these names."""
    if axis is None or axis.ndim != 1:
        return False
    said = (axis.name, axis.attrs.get("standard_name"), axis.attrs.get("axis"))
    return any(one in names for one in said)


def _checked(name, axes, transform):
    """Return the transform that the coordinates have; the one that is told if they are the same."""
    from rasterio.transform import Affine

    if len(axes) != 2 or any(axis is None or axis.dtype.kind not in "fiu" for axis in axes):
        return transform
    down, across = (np.asarray(axis, float) for axis in axes)
    if transform is not None and transform.b == transform.d == 0:
        rows, columns = np.arange(len(down)) + 0.5, np.arange(len(across)) + 0.5
        is_down = _are_at(transform, rows, columns[:1], across[:1], down)
        if is_down and _are_at(transform, rows[:1], columns, across, down[:1]):
            return transform
    steps, told = [], (transform.e, transform.a) if transform is not None else (0, 0)
    for dim, values, alone in zip(("rows", "columns"), (down, across), told):
        step = (values[-1] - values[0]) / (len(values) - 1) if len(values) > 1 else alone
        even = values[0] + step * np.arange(len(values))
        if not step or not (abs(values - even) <= _UNEVEN * abs(step)).all():
            warn(
                f"the coordinate of the {dim} of {name} has no equal steps, so the output has no "
                "transform",
                GeoreferenceWarning,
            )
            return None
        steps.append(float(step))
    dy, dx = steps
    return Affine(dx, 0, float(across[0]) - dx / 2, 0, dy, float(down[0]) - dy / 2)


def _confirmed(name, coordinates, dims, transform):
    """Return a transform that is told of an array without coordinates along its axes.

    A rotated picture has coordinates of two dimensions. A part of an array has kept the transform
    of the whole.
    """
    across, down = (coordinates.get(one) for one in ("xc", "yc"))
    if across is not None and down is not None and across.dims == down.dims == tuple(dims):
        height, width = across.shape
        rows, columns = np.array([0, 0, height - 1, height - 1]), np.array([0, width - 1] * 2)
        x, y = (np.array([float(one[at]) for at in zip(rows, columns)]) for one in (across, down))
        if _are_at(transform, rows + 0.5, columns + 0.5, x, y):
            return transform
        warn(
            f"the transform of {name} is not that of its coordinates xc and yc, so the output has "
            f"none: {name} is a part of another array",
            GeoreferenceWarning,
        )
        return None
    warn(
        f"{name} has a transform, but no coordinates along its axes that confirm it: that of the "
        "output is wrong if this is a part of another array",
        GeoreferenceWarning,
    )
    return transform


def _describe(file, attributes):
    """Write the attributes for which a band has a place of its own."""
    for key, place in (("units", "units"), ("long_name", "descriptions")):
        if isinstance(attributes.get(key), str):
            setattr(file, place, (attributes[key],))
    if file.crs and "AREA_OR_POINT" in attributes:
        file.update_tags(AREA_OR_POINT=str(attributes["AREA_OR_POINT"]))
