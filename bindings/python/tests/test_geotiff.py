"""GeoTIFF: what a file says beside its numbers is kept, or refused."""

import os
import warnings

import numpy as np
import pytest
import syncline
from conftest import mean, same

rasterio = pytest.importorskip("rasterio")


def written(path, values, **profile):
    """Write a GeoTIFF; return it, open for more."""
    profile |= {"driver": "GTiff", "count": 1, "dtype": values.dtype.name}
    height, width = values.shape
    file = rasterio.open(path, "w", height=height, width=width, **profile)
    file.write(values, 1)
    return file


def test_geotiff_says_what_means_no_data(tmp_path, u):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        profile = {"driver": "GTiff", "height": u.shape[0], "width": u.shape[1], "count": 1}
        with rasterio.open(tmp_path / "u.tif", "w", dtype="float64", nodata=-9, **profile) as file:
            u = u.copy()
            u[2, 3] = -9
            file.write(u, 1)
        made = syncline.sweep(mean, tmp_path / "u.tif", iterations=3)
    assert made[2, 3] == -9
    assert np.array_equal(made, syncline.sweep(mean, u, iterations=3, nodata=-9))


def test_geotiff(tmp_path, u, expected):
    from rasterio.transform import from_origin

    profile = {"driver": "GTiff", "dtype": "float64", "count": 1, "height": 40, "width": 50}
    profile |= {"crs": "EPSG:32633", "transform": from_origin(5, 9, 30, 30)}
    with rasterio.open(tmp_path / "u.tif", "w", **profile) as file:
        file.write(u, 1)
        file.update_tags(author="test")
        file.set_band_description(1, "height")
    path, made = tmp_path / "u.tif", tmp_path / "o.tif"
    syncline.sweep(mean, path, iterations=5, output=made)
    with rasterio.open(made) as file:
        assert same(file.read(1), expected)
        assert file.crs.to_epsg() == 32633 and file.transform == profile["transform"]
        assert file.tags()["author"] == "test" and file.descriptions == ("height",)
        assert file.nodata is None
    assert sorted(os.listdir(tmp_path)) == ["o.tif", "u.tif"]
    # What was taken for no data is so in the result.
    syncline.sweep(mean, path, iterations=5, output=made, overwrite=True, nodata=float(u[0, 0]))
    with rasterio.open(made) as file:
        assert file.nodata == u[0, 0]
    # What has another meaning than its numbers, or is another place.
    other = tmp_path / "other.tif"
    for change in ("scales", "offsets", "mask", "transform"):
        given = profile | (
            {"transform": from_origin(5, 8, 30, 30)} if change == "transform" else {}
        )
        with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(other, "w", **given) as file:
            file.write(u, 1)
            if change == "mask":
                file.write_mask(u > 0.5)
            elif change != "transform":
                setattr(file, change, (2.0,))
        with pytest.raises(syncline.ArrayError, match=change.rstrip("s")):
            syncline.sweep(lambda a, f: a + f, path, other, iterations=1)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_a_file_is_kept_apart_from_its_numbers(tmp_path):
    from rasterio.control import GroundControlPoint

    values = np.arange(64 * 64, dtype=np.uint8).reshape(64, 64)
    points = [GroundControlPoint(row, row, row * 2.0, 5.0) for row in (0, 9, 30)]
    with written(tmp_path / "u.tif", values, compress="jpeg") as file:
        file.gcps = points, rasterio.CRS.from_epsg(32633)
        file.units = ("m",)
        file.update_tags(1, STATISTICS_MAXIMUM="99", kept="yes")
    with rasterio.open(tmp_path / "u.tif") as file:
        values = file.read(1)
    made = tmp_path / "o.tif"
    syncline.sweep(lambda u: u * np.uint8(2), tmp_path / "u.tif", iterations=1, output=made)
    with rasterio.open(made) as file:
        assert np.array_equal(file.read(1), values * np.uint8(2)), "no compression with losses"
        assert [point.x for point in file.gcps[0]] == [0.0, 18.0, 60.0]
        assert file.gcps[1].to_epsg() == 32633 and file.units == ("m",)
        assert "STATISTICS_MAXIMUM" not in file.tags(1) and file.tags(1)["kept"] == "yes"
    with written(tmp_path / "other.tif", values) as file:
        file.gcps = points[:2], rasterio.CRS.from_epsg(32633)
    with pytest.raises(syncline.ArrayError, match="control points"):
        syncline.sweep(lambda a, b: a + b, tmp_path / "u.tif", tmp_path / "other.tif", iterations=1)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_what_lies_beside_a_replaced_file_goes(tmp_path):
    made = str(tmp_path / "o.tif")
    written(made, np.full((64, 64), 7.0)).close()
    for suffix in (".ovr", ".aux.xml", ".msk"):
        (tmp_path / f"o.tif{suffix}").touch()
    (tmp_path / "o.tif.txt").touch()
    syncline.sweep(lambda u: u.old, np.ones((64, 64)), iterations=1, output=made, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["o.tif", "o.tif.txt"]


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_a_dataset_into_geotiff_is_paths_by_name(tmp_path, u):
    xarray = pytest.importorskip("xarray")
    data = xarray.Dataset({"b": (("y", "x"), u + 1), "a": (("y", "x"), u)})
    outputs = {name: str(tmp_path / f"{name}.tif") for name in "ab"}
    made = syncline.sweep(lambda a, b: (a + 1, b + 2), data, iterations=1, output=outputs)
    assert made == outputs
    with rasterio.open(made["b"]) as file:
        assert same(file.read(1), u + 1 + 2)
