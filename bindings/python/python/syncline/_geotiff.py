"""GeoTIFF, by rasterio: bands, and what a file says beside their numbers."""

import contextlib
import os

from ._errors import ArrayError, FileError
from ._files import package
from ._windows import bounded_cache, windows

#: Compressions that change numbers.
_LOSSY = ("jpeg", "webp", "jxl")

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
        if MaskFlags.per_dataset in file.mask_flag_enums[0]:
            raise ArrayError(
                f"{path} has a mask beside its numbers: points without data need a number of "
                "their own, its nodata"
            )
        self._file, self.profile = file, dict(file.profile)
        #: What is decoded as a whole.
        self.blocks = file.block_shapes[0]
        self.shape, self.dtype, self.nodata = file.shape, file.dtypes[0], file.nodata
        # The numbers of the result have other statistics.
        of_band = file.tags(1).items()
        of_band = {key: tag for key, tag in of_band if not key.startswith("STATISTICS_")}
        self.tags, self.descriptions = (file.tags(), of_band), file.descriptions
        self.units, self.points, self.rpcs = file.units, file.gcps, file.rpcs
        try:
            self.colours = file.colormap(1)
        except ValueError:
            self.colours = None
        if str(self.profile.get("compress")).lower() in _LOSSY:
            self.profile["compress"] = "deflate"
            self.profile.pop("photometric", None)

    def read(self, window):
        """Return a window, while the file is open."""
        return self._file.read(1, window=window)


@contextlib.contextmanager
def opened(path):
    """Open a GeoTIFF."""
    rasterio = package("rasterio", path)
    try:
        with rasterio.open(path) as file:
            yield GeoTiff(file, path)
    except rasterio.errors.RasterioError as error:
        raise FileError(f"cannot read {path}: {error}") from error


def check(path, field):
    """Make and remove a file without numbers: what it cannot say is an error."""
    with _created(path, field, sparse_ok=True):
        pass
    os.remove(path)


def write(path, result, field, most):
    """Write a result by windows of `most` bytes."""
    with bounded_cache(most), _created(path, field) as file:
        for window in windows(result.shape, result.itemsize, file.block_shapes[0], most):
            file.write(result[window], 1, window=window)


@contextlib.contextmanager
def _created(path, field, **options):
    """Make a file for a field; of a GeoTIFF with all that the file said."""
    import rasterio

    origin = field.origin if isinstance(field.origin, GeoTiff) else None
    height, width = field.shape
    profile = dict(origin.profile) if origin else {}
    profile |= {"driver": "GTiff", "dtype": field.dtype, "count": 1, "nodata": field.nodata}
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
        yield file


def forget(path):
    """Remove what readers have written beside a file that had this path before."""
    for suffix in _SIDECARS:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path + suffix)


def check_place(field, other):
    """Refuse a GeoTIFF whose points are not those of the field, if that is one, too."""
    if not (isinstance(field.origin, GeoTiff) and isinstance(other.origin, GeoTiff)):
        return
    one, two = field.origin.profile, other.origin.profile
    if _control(field.origin) != _control(other.origin):
        raise ArrayError(
            f"{other.name} is not where {field.name} is: they have other ground control points"
        )
    if one["crs"] != two["crs"] or not one["transform"].almost_equals(two["transform"]):
        raise ArrayError(
            f"{other.name} is not where {field.name} is: it has the CRS {two['crs']} and the "
            f"transform {tuple(two['transform'])[:6]}, not {one['crs']} and "
            f"{tuple(one['transform'])[:6]}; rasterio.warp.reproject brings it there"
        )


def _control(origin):
    points, crs = origin.points
    return crs, [(at.row, at.col, at.x, at.y, at.z) for at in points]
