"""GeoTIFF: what a file says beside its numbers is kept, or refused."""

import contextlib
import os
import resource
import warnings

import numpy as np
import pytest
import syncline
import syncline._geotiff
from conftest import mean, same

rasterio = pytest.importorskip("rasterio")


def written(path, values, **profile):
    """Write a GeoTIFF; return it, open for more."""
    profile |= {"driver": "GTiff", "count": 1, "dtype": values.dtype.name}
    height, width = values.shape
    file = rasterio.open(path, "w", height=height, width=width, **profile)
    file.write(values, 1)
    return file


def written_with_mask(path, values, mask, **profile):
    """Write a GeoTIFF with a mask beside its numbers."""
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), written(path, values, **profile) as file:
        file.write_mask(mask)


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


@pytest.mark.parametrize(
    "step, other, is_there",
    [
        (1e-6, (1e-6, 8.0, 0), False),  # of whole pixels, of a millionth of a degree
        (0.00027778, (0.000287, 0, 0), False),
        (1e-6, (1e-6, 0.001, 0), True),
        (10.0, (10.0, 1e-5, 0), True),  # noise of a tenth of a millimetre
        (10.0, (10.0, 0.02, 0), False),
        (10.0, (-10.0, 0, 0), False),  # flipped
        (10.0, (10.0, 0, 0.01), False),  # turned by a hundredth of a degree
        (10.0, (10.0, 0, 1e-5), True),
        (10.0, (0.0, 0, 0), False),
        (0.0, (0.0, 0, 0), True),  # of no size, but the same
    ],
)
def test_places_are_compared_in_pixels(tmp_path, step, other, is_there):
    from rasterio.transform import Affine

    size, moved, angle = other
    place = Affine(step, 0, 7, 0, -step, 50)
    there = Affine(step, 0, 7 + moved * step, 0, -size, 50 - moved * step)
    there *= Affine.rotation(angle)
    paths = [tmp_path / "u.tif", tmp_path / "f.tif"]
    for path, transform in zip(paths, (place, there)):
        written(path, np.ones((400, 400)), crs="EPSG:4326", transform=transform).close()
    for one, two in (paths, paths[::-1]):
        told = pytest.raises(syncline.ArrayError, match="is not where u is")
        with contextlib.nullcontext() if is_there else told:
            syncline.sweep(lambda u, f: u + f, one, two, iterations=1)


@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
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


@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
def test_what_lies_beside_a_replaced_file_goes(tmp_path):
    made = str(tmp_path / "o.tif")
    written(made, np.full((64, 64), 7.0)).close()
    for suffix in (".ovr", ".aux.xml", ".msk"):
        (tmp_path / f"o.tif{suffix}").touch()
    (tmp_path / "o.tif.txt").touch()
    syncline.sweep(lambda u: u.old, np.ones((64, 64)), iterations=1, output=made, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["o.tif", "o.tif.txt"]


@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
def test_a_dataset_into_geotiff_is_paths_by_name(tmp_path, u):
    xarray = pytest.importorskip("xarray")
    data = xarray.Dataset({"b": (("y", "x"), u + 1), "a": (("y", "x"), u)})
    outputs = {name: str(tmp_path / f"{name}.tif") for name in "ab"}
    made = syncline.sweep(lambda a, b: (a + 1, b + 2), data, iterations=1, output=outputs)
    assert made == outputs
    with rasterio.open(made["b"]) as file:
        assert same(file.read(1), u + 1 + 2)


@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
def test_a_mask_of_a_file_that_hides_nothing_may_pass(tmp_path, u):
    path, output = tmp_path / "u.tif", tmp_path / "o.tif"
    for hidden in (0, 1):
        mask = np.ones(u.shape, bool)
        mask[-1, -1] = not hidden
        written_with_mask(path, u, mask)
        if hidden:
            with pytest.raises(syncline.ArrayError, match="mask beside its numbers"):
                syncline.sweep(mean, path, iterations=1)
        else:
            syncline.sweep(mean, path, iterations=1, output=output)
            with rasterio.open(output) as made:
                assert same(made.read(1), syncline.sweep(mean, u, iterations=1))


@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
@pytest.mark.parametrize("nodata", [-9.0, np.nan])
def test_a_mask_of_a_file_may_say_what_its_nodata_says(tmp_path, u, nodata):
    path = tmp_path / "u.tif"
    u = u.copy()
    u[2, 3] = nodata
    for other in (False, True):
        mask = np.ones(u.shape, bool)
        mask[2, 3], mask[5, 5] = False, not other
        written_with_mask(path, u, mask, nodata=nodata)
        if other:
            with pytest.raises(syncline.ArrayError, match="no other point may have it"):
                syncline.sweep(mean, path, iterations=1)
        else:
            right = syncline.sweep(mean, u, iterations=1, nodata=nodata)
            assert same(syncline.sweep(mean, path, iterations=1), right)


def told(path):
    """Return what a file says of its place and its numbers."""
    with rasterio.open(path) as file:
        return file.crs, file.transform, file.nodata


@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
def test_a_data_array_goes_to_geotiff_with_its_place(tmp_path, u):
    xarray = pytest.importorskip("xarray")
    from rasterio.transform import Affine, from_origin

    place = from_origin(5e5, 6e6, 10.3, 10.7)
    rows, columns = np.arange(40) + 0.5, np.arange(50) + 0.5
    crs = rasterio.CRS.from_epsg(32632)
    said = {"crs_wkt": crs.to_wkt(), "GeoTransform": " ".join(map(str, place.to_gdal()))}
    full = xarray.DataArray(
        u.astype("float32"),
        dims=("y", "x"),
        coords={
            "y": place.f + place.e * rows,
            "x": place.c + place.a * columns,
            "spatial_ref": ((), 0, said),
        },
        attrs={"_FillValue": np.float32(-9999), "scale_factor": 1.0, "add_offset": 0.0}
        | {"units": "m", "long_name": "height", "AREA_OR_POINT": "Point"},
    )
    output = tmp_path / "o.tif"

    def sweep(field, **options):
        path = syncline.sweep(mean, field, iterations=1, output=output, overwrite=True, **options)
        return told(path)

    assert sweep(full) == (crs, place, -9999)
    with rasterio.open(output) as file:
        assert file.units == ("m",) and file.descriptions == ("height",)
        assert file.tags()["AREA_OR_POINT"] == "Point"
    # A part of it, whose coordinates say where it is, though a transform of the whole is told.
    _, part, _ = sweep(full[3:, 4:])
    assert part.almost_equals(place * Affine.translation(4, 3), 1e-6)
    assert sweep(full[:, 4:5])[1].almost_equals(place * Affine.translation(4, 0), 1e-6)
    _, flipped, _ = sweep(full[::-1])
    assert flipped.e > 0 and flipped.almost_equals(
        Affine(place.a, 0, place.c, 0, -place.e, place.f + 40 * place.e), 1e-6
    )
    # What is told where there are no coordinates, such as for rows that are no parallels.
    assert sweep(full.drop_vars(["x", "y"])) == (crs, place, -9999)
    turned = place * Affine.rotation(30)
    other = full.drop_vars(["x", "y"])
    other.spatial_ref.attrs["GeoTransform"] = " ".join(map(str, turned.to_gdal()))
    assert sweep(other)[1].almost_equals(turned)
    # NaN stands for what had no data when it was decoded.
    decoded = full.where(full > 0).drop_attrs()
    assert sweep(decoded)[2] is None
    decoded.encoding = {"_FillValue": -9999.0}
    assert np.isnan(sweep(decoded)[2])
    assert sweep(decoded, nodata=-1)[2] == -1

    # What cannot be said is told.
    with pytest.warns(syncline.GeoreferenceWarning, match="transpose it"):
        assert sweep(full.T)[:2] == (None, Affine.identity())
    with pytest.warns(syncline.GeoreferenceWarning, match="columns of u has no equal steps"):
        uneven = full.assign_coords(x=np.arange(50.0) ** 2)
        assert sweep(uneven)[:2] == (crs, Affine.identity())
    for text in ("nonsense", None):
        other = full.copy()
        other.encoding = {"grid_mapping": "spatial_ref"}
        other.spatial_ref.attrs = {"crs_wkt": text} if text else {}
        with pytest.warns(syncline.GeoreferenceWarning, match="CRS"):
            crs_of, transform, _ = sweep(other)
        assert crs_of is None and transform.almost_equals(place, 1e-6)
    with pytest.warns(syncline.GeoreferenceWarning, match="crs, which is not among"):
        sweep(full.drop_vars("spatial_ref").assign_attrs(grid_mapping="crs"))
    # Axes that are no place are none.
    with warnings.catch_warnings():
        warnings.simplefilter("error", syncline.GeoreferenceWarning)
        series = full.drop_vars("spatial_ref").rename(y="time", x="station")
        assert sweep(series)[:2] == (None, Affine.identity())
        assert sweep(full.drop_vars("spatial_ref"))[0] is None


ROTATED = {
    "grid_mapping_name": "rotated_latitude_longitude",
    "grid_north_pole_latitude": 39.25,
    "grid_north_pole_longitude": -162.0,
}


@pytest.mark.parametrize(
    "said, is_kept",
    [
        (ROTATED, False),
        ({"spatial_ref": "EPSG:8357"}, False),
        # Without names and the order of axes, but the same.
        ({"spatial_ref": "OGC:CRS84"}, True),
        ({"spatial_ref": "+proj=longlat +R=6371229"}, True),
        ({"grid_mapping_name": "latitude_longitude"}, True),
        ({"spatial_ref": "EPSG:32633"}, True),
    ],
)
@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
def test_a_crs_that_a_geotiff_cannot_hold_is_told(tmp_path, u, said, is_kept):
    xarray = pytest.importorskip("xarray")
    if "grid_mapping_name" in said:
        pytest.importorskip("pyproj")
    output = tmp_path / "o.tif"
    coords = {"y": -np.arange(40.0), "x": np.arange(50.0), "spatial_ref": ((), 0, said)}
    warned = pytest.warns(syncline.GeoreferenceWarning, match="holds no such CRS")
    with warnings.catch_warnings() if is_kept else warned:
        if is_kept:
            warnings.simplefilter("error", syncline.GeoreferenceWarning)
        field = xarray.DataArray(u, coords, ("y", "x"))
        syncline.sweep(mean, field, iterations=0, output=output)
    assert os.listdir(tmp_path) == ["o.tif"]
    assert told(output)[0] or not is_kept
    if said is ROTATED:
        # As GDAL writes it, beside the file.
        path = tmp_path / "u.tif"
        crs = pytest.importorskip("pyproj").CRS.from_cf(said).to_wkt()
        written(path, u, crs=crs, transform=rasterio.Affine(1, 0, 5, 0, -1, 7)).close()
        with pytest.warns(syncline.GeoreferenceWarning, match="holds no such CRS"):
            syncline.sweep(mean, path, iterations=0, output=output, overwrite=True)


@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
def test_the_place_of_a_variable_of_netcdf4_is_not_lost_without_a_word(tmp_path, u):
    netCDF4 = pytest.importorskip("netCDF4")
    with netCDF4.Dataset(tmp_path / "u.nc", "w") as file:
        for name, length in zip("yx", u.shape):
            file.createDimension(name, length)
        variable = file.createVariable("u", "f8", ("y", "x"))
        variable[:] = u
        variable.grid_mapping = "crs"
        with pytest.warns(syncline.GeoreferenceWarning, match="grid mapping crs, which is not"):
            syncline.sweep(mean, variable, iterations=0, output=tmp_path / "o.tif")


@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
def test_the_place_goes_by_zarr(tmp_path, u):
    pytest.importorskip("zarr")
    from rasterio.transform import from_origin

    u = u.copy()
    u[3, 4] = -9
    place = {"crs": "EPSG:32633", "transform": from_origin(5, 9, 30, 30)}
    written(tmp_path / "u.tif", u, nodata=-9, **place).close()
    store, output = tmp_path / "o.zarr", tmp_path / "o.tif"
    syncline.sweep(mean, tmp_path / "u.tif", iterations=2, output=store)
    syncline.sweep(mean, store, iterations=1, output=output)
    assert told(output) == told(tmp_path / "u.tif")
    by_path = syncline.sweep(mean, tmp_path / "u.tif", iterations=3)
    with rasterio.open(output) as file:
        assert same(file.read(1), by_path) and by_path[3, 4] == -9


def test_a_grid_mapping_of_any_name_goes_by_zarr(tmp_path, u):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    crs = rasterio.CRS.from_epsg(4326)
    coords = {"lat": 50 - np.arange(40) / 4, "lon": np.arange(50) / 4}
    coords["crs"] = ((), 0, {"crs_wkt": crs.to_wkt()})
    field = xarray.DataArray(u, coords, ("lat", "lon"), "h")
    field.encoding = {"grid_mapping": "crs", "dtype": np.dtype("int16"), "chunksizes": (1, 50)}
    made = syncline.sweep(mean, field, iterations=1, output=tmp_path / "o.zarr")
    assert made.encoding == {"grid_mapping": "crs"}
    assert xarray.open_zarr(tmp_path / "o.zarr")["h"].attrs == {"grid_mapping": "crs"}
    for given in (made, tmp_path / "o.zarr"):
        syncline.sweep(mean, given, iterations=1, output=tmp_path / "o.tif", overwrite=True)
        crs_of, transform, _ = told(tmp_path / "o.tif")
        assert crs_of == crs and tuple(transform)[:6] == (0.25, 0, -0.125, 0, -0.25, 50.125)


@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
def test_one_file_by_whatever_reads_it(tmp_path, u):
    holed = u.astype("float32")
    holed[5:8, 5:9] = -9999
    path, output = tmp_path / "u.tif", tmp_path / "o.tif"
    written(path, holed, nodata=-9999, crs="EPSG:32633").close()
    expected = syncline.sweep(mean, path, iterations=3)
    (tmp_path / "u.vrt").write_text(
        "<VRTDataset rasterXSize='50' rasterYSize='40'><SRS>EPSG:32633</SRS>"
        "<VRTRasterBand dataType='Float32' band='1' blockXSize='50' blockYSize='7'>"
        "<NoDataValue>-9999</NoDataValue><SimpleSource>"
        "<SourceFilename relativeToVRT='1'>u.tif</SourceFilename><SourceBand>1</SourceBand>"
        "</SimpleSource></VRTRasterBand></VRTDataset>"
    )
    with rasterio.open(path) as file:
        masked = file.read(1, masked=True)
        for given in (file, tmp_path / "u.vrt"):
            assert same(syncline.sweep(mean, given, iterations=3), expected)
            syncline.sweep(mean, given, iterations=3, output=output, overwrite=True)
            assert told(output)[0].to_epsg() == 32633 and told(output)[2] == -9999
            with rasterio.open(output) as made:
                assert same(made.read(1), expected) and made.driver == "GTiff"
    assert same(syncline.sweep(mean, masked, iterations=3).filled(), expected)


def test_one_file_by_rioxarray(tmp_path, u):
    rioxarray = pytest.importorskip("rioxarray")
    from rasterio.transform import from_origin

    holed = u.astype("float32")
    holed[5:8, 5:9] = -9999
    path, output, store = tmp_path / "u.tif", tmp_path / "o.tif", tmp_path / "o.zarr"
    place = {"crs": "EPSG:32632", "transform": from_origin(5e5, 6e6, 10.3, 10.7)}
    written(path, holed, nodata=-9999, **place).close()
    expected = syncline.sweep(mean, path, iterations=3)
    for options in ({}, {"chunks": 16}):
        array = rioxarray.open_rasterio(path, **options).squeeze("band", drop=True)
        made = syncline.sweep(mean, array, iterations=3)
        assert same(made.values, expected) and made.rio.nodata == -9999
        syncline.sweep(mean, array, iterations=3, output=output, overwrite=True)
        assert told(output) == told(path)
        syncline.sweep(mean, array, iterations=3, output=store, overwrite=True)
        assert same(syncline.sweep(mean, store, iterations=0).values, expected)
        syncline.sweep(mean, store, iterations=0, output=output, overwrite=True)
        assert told(output) == told(path)
    # A part without coordinates has kept the transform of the whole.
    part = rioxarray.open_rasterio(path).squeeze("band", drop=True)[2:, 3:].drop_vars(["x", "y"])
    with pytest.warns(
        syncline.GeoreferenceWarning, match="no coordinates along its axes"
    ) as told_of:
        syncline.sweep(mean, part, iterations=1, output=output, overwrite=True)
    assert told_of[-1].filename == __file__, "the line of the user"
    masked = rioxarray.open_rasterio(path, masked=True).squeeze("band", drop=True)
    kept = syncline.sweep(mean, masked, iterations=3, nodata=np.nan)
    assert same(kept.fillna(-9999).values, expected)
    spread = syncline.sweep(mean, masked, iterations=3)
    assert np.isnan(spread.values).sum() > 12


def test_a_part_of_a_rotated_picture_has_no_transform_of_the_whole(tmp_path, u):
    rioxarray = pytest.importorskip("rioxarray")
    from rasterio.transform import Affine

    path, output = tmp_path / "u.tif", tmp_path / "o.tif"
    place = Affine(8.0, 3.0, 5e5, 3.0, -8.0, 6e6)
    written(path, u, crs="EPSG:32632", transform=place).close()
    whole = rioxarray.open_rasterio(path).squeeze("band", drop=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", syncline.GeoreferenceWarning)
        syncline.sweep(mean, whole, iterations=1, output=output)
    assert told(output)[1].almost_equals(place)
    with pytest.warns(syncline.GeoreferenceWarning, match="a part of another array"):
        syncline.sweep(mean, whole[1:, 2:], iterations=1, output=output, overwrite=True)
    assert told(output)[1].is_identity


@pytest.mark.parametrize("profile", [{}, {"tiled": True, "blockxsize": 64, "blockysize": 64}])
@pytest.mark.parametrize("packed", [{}, {"compress": "deflate"}])
@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
def test_a_file_that_is_not_whole_is_no_result(tmp_path, monkeypatch, rng, profile, packed):
    path, output = tmp_path / "u.tif", tmp_path / "o.tif"
    u = rng.normal(size=(100, 300))
    # As what is missing is read.
    u[64:, 64:] = np.nan
    written(path, u, nodata=np.nan, **profile, **packed).close()
    syncline.sweep(mean, path, iterations=0, output=output)
    size, real = output.stat().st_size, syncline._geotiff.write
    output.unlink()
    for room in (5000, size // 2, size - 1):

        def write(*args):
            before = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
            try:
                real(*args)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)

        monkeypatch.setattr(syncline._geotiff, "write", write)
        try:
            syncline.sweep(mean, path, iterations=0, output=output)
        except syncline.FileError as error:
            assert "cannot write" in str(error)
            kept = str(error).rpartition("the result is in ")[2]
            assert same(np.load(kept), u) and not output.exists()
        else:
            # Nothing but blocks without data is missing.
            with rasterio.open(output) as file:
                assert room > 5000 and same(file.read(1), u)
            output.unlink()


@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
def test_damaged_files_are_named(tmp_path):
    path = tmp_path / "u.tif"
    noise = np.random.default_rng(0).normal(size=(300, 400))
    written(path, noise, compress="deflate").close()
    whole = path.read_bytes()
    for contents in (b"", b"text", whole[:1000], whole[: len(whole) // 2]):
        path.write_bytes(contents)
        with pytest.raises(syncline.FileError, match=str(path)) as error:
            syncline.sweep(mean, path, iterations=1)
        assert "cannot write" not in str(error.value)
    (tmp_path / "u.vrt").write_text("text")
    with pytest.raises(syncline.FileError, match="u.vrt"):
        syncline.sweep(mean, tmp_path / "u.vrt", iterations=1)
