"""GeoTIFF, by rasterio: bands, and what a file says beside their numbers."""

import contextlib

from ._errors import ArrayError, FileError
from ._files import package, windows


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
        self.shape, self.dtype, self.nodata = file.shape, file.dtypes[0], file.nodata
        self.tags, self.descriptions = (file.tags(), file.tags(1)), file.descriptions

    def read(self, rows):
        """Return a window of rows, while the file is open."""
        return self._file.read(1, window=_window(rows, self.shape[1]))


@contextlib.contextmanager
def opened(path):
    """Open a GeoTIFF."""
    rasterio = package("rasterio", path)
    try:
        with rasterio.open(path) as file:
            yield GeoTiff(file, path)
    except rasterio.errors.RasterioError as error:
        raise FileError(f"cannot read {path}: {error}") from error


def write(path, result, field):
    """Write a result; of a field from a GeoTIFF with all that the file said."""
    import rasterio

    origin = field.origin if isinstance(field.origin, GeoTiff) else None
    height, width = result.shape
    profile = dict(origin.profile) if origin else {}
    profile |= {"driver": "GTiff", "dtype": result.dtype.name, "count": 1, "nodata": field.nodata}
    profile |= {"height": height, "width": width, "BIGTIFF": "IF_SAFER"}
    with rasterio.open(path, "w", **profile) as file:
        if origin:
            file.update_tags(**origin.tags[0])
            file.update_tags(1, **origin.tags[1])
            file.descriptions = origin.descriptions
        for rows in windows(result.shape, result.itemsize):
            file.write(result[rows], 1, window=_window(rows, width))


def check_place(field, other):
    """Refuse a GeoTIFF whose points are not those of the field, if that is one, too."""
    if not (isinstance(field.origin, GeoTiff) and isinstance(other.origin, GeoTiff)):
        return
    one, two = field.origin.profile, other.origin.profile
    if one["crs"] != two["crs"] or not one["transform"].almost_equals(two["transform"]):
        raise ArrayError(
            f"{other.name} is not where {field.name} is: it has the CRS {two['crs']} and the "
            f"transform {tuple(two['transform'])[:6]}, not {one['crs']} and "
            f"{tuple(one['transform'])[:6]}; rasterio.warp.reproject brings it there"
        )


def _window(rows, width):
    from rasterio.windows import Window

    return Window(0, rows.start, width, rows.stop - rows.start)
