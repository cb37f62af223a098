"""What an input says about its numbers is part of it, and what a result says is true."""

import os
import warnings

import numpy as np
import pytest
import syncline
from conftest import mean, same

NONE = -9999.0


def least(u):
    return np.minimum(np.minimum(u.old.n, u.old.s), np.minimum(u.old.e, u.old.w))


def add(u, f):
    return u.old.e + f


@pytest.fixture
def holed(u):
    """Return a field with a hole."""
    u = u.copy()
    u[5:8, 5:9] = NONE
    return u


@pytest.fixture
def right(holed):
    """Return what is right for it."""
    return syncline.sweep(least, holed, iterations=2, nodata=NONE)


# Masks.


def test_a_mask_with_a_fill_value_is_understood(tmp_path, holed, right):
    made = syncline.sweep(least, np.ma.masked_equal(holed, NONE), iterations=2)
    assert isinstance(made, np.ma.MaskedArray) and made.fill_value == NONE
    assert same(made.filled(), right) and np.array_equal(made.mask, holed == NONE)
    # The user's number takes the place of the fill value, and of what is below the mask.
    masked = np.ma.MaskedArray(np.where(holed == NONE, 5.0, holed), holed == NONE)
    for number in (-1e6, np.nan):
        made = syncline.sweep(least, masked, iterations=2, nodata=number)
        assert np.array_equal(made.mask, holed == NONE)
        assert same(made.filled(NONE), right)
    made = syncline.sweep(least, masked, iterations=2, nodata=NONE, output=tmp_path / "o.npy")
    assert type(made) is np.memmap and same(np.asarray(made), right)
    # A type that holds the number, though that of the array does not.
    bytes_of = np.ma.MaskedArray(np.ones((4, 5), np.uint8), np.eye(4, 5, dtype=bool))
    made = syncline.sweep(least, bytes_of, iterations=1, dtype="float32", nodata=-1)
    assert np.array_equal(made.mask, bytes_of.mask) and made.dtype == np.float32


def test_a_mask_of_nothing_may_pass(u, expected):
    for mask in (False, np.zeros(u.shape, bool)):
        made = syncline.sweep(mean, np.ma.MaskedArray(u, mask), iterations=5)
        assert isinstance(made, np.ma.MaskedArray) and same(made.data, expected)
        assert not made.mask.any()
    assert same(syncline.sweep(mean, list(np.ma.MaskedArray(u, False)), iterations=5), expected)


def masked_inputs(u):
    masked = np.ma.masked_less(u, 0)

    class WithMask(np.ndarray):
        mask = np.ones(u.shape, bool)

    class Told:
        def __array__(self, dtype=None, copy=None):
            return masked

    return {
        "masked": masked,
        "rows": list(masked),
        "nested": [[row] for row in masked],
        "subclass": u.view(WithMask),
        "object": Told(),
        "dict": {"u": masked},
        "hard": np.ma.array(masked, hard_mask=True),
        "all": np.ma.masked_all(u.shape),
        "whole numbers": np.ma.masked_less(u.astype(np.int32), 0),
    }


@pytest.mark.parametrize("kind", masked_inputs(np.zeros((2, 2))))
def test_masked_points_without_a_number_are_refused(u, kind):
    given = masked_inputs(u)[kind]
    with pytest.raises(syncline.ArrayError, match=r"^u .*masked points"):
        syncline.sweep(mean, given, iterations=1)
    if kind != "dict":
        with pytest.raises(syncline.ArrayError, match=r"^f .*masked points"):
            syncline.sweep(add, u, {"f": given}, iterations=1)
        with pytest.raises(syncline.ArrayError, match=r"^f .*masked points"):
            syncline.sweep(lambda u, f: (u + f, f), (u, given), iterations=1)


def test_the_fill_value_of_a_mask_must_be_no_number_of_the_field(u):
    masked = np.ma.MaskedArray(u, u < 0, fill_value=u.max())
    with pytest.raises(syncline.ArrayError, match="fill value of its mask, among its numbers"):
        syncline.sweep(mean, masked, iterations=1)


def test_masks_of_dask(u, holed, right):
    dask = pytest.importorskip("dask.array")
    xarray = pytest.importorskip("xarray")
    masked = dask.ma.masked_equal(dask.from_array(holed, chunks=(7, 50)), NONE)
    # Not told by the type that Dask has of them, and of some chunks only.
    below = np.roll(holed, 20, 0)
    hidden = dask.from_array(below, chunks=(7, 50)).map_blocks(
        lambda part: np.ma.masked_equal(part, NONE) if (part == NONE).any() else part,
        meta=np.empty((0, 0)),
    )
    below = syncline.sweep(least, below, iterations=2, nodata=NONE)
    for field, expected in (
        (masked, right),
        (hidden, below),
        (xarray.DataArray(hidden, dims=("y", "x")), below),
    ):
        with pytest.raises(syncline.ArrayError, match="u has masked points"):
            syncline.sweep(least, field, iterations=1)
        made = syncline.sweep(least, field, iterations=2, nodata=NONE)
        assert same(np.asarray(made), expected)
    assert same(
        syncline.sweep(least, dask.ma.masked_equal(dask.from_array(holed), 1e9), iterations=2),
        syncline.sweep(least, holed, iterations=2),
    )


# Numbers that mean no data.


@pytest.mark.parametrize(
    "attributes",
    [
        {"_FillValue": NONE},
        {"missing_value": np.array([NONE, NONE])},
        {"nodata": -9999},
        {"fill_value": np.int16(-9999)},
        {"nodatavals": (NONE,)},
        {"_FillValue": NONE, "missing_value": NONE},
        {"_FillValue": NONE, "missing_value": 1e20},
        {"_FillValue": NONE, "scale_factor": 1.0, "add_offset": 0.0},
        {"_FillValue": NONE, "valid_range": [-10.0, 10.0], "actual_range": [0, 1]},
        {"_FillValue": str(NONE)},
    ],
)
def test_attributes_of_a_data_array(tmp_path, holed, right, attributes):
    xarray = pytest.importorskip("xarray")
    field = xarray.DataArray(holed, dims=("y", "x"), attrs=attributes | {"units": "m"}, name="h")
    before = dict(field.attrs)
    for options in ({}, {"nodata": NONE}):
        made = syncline.sweep(least, field, iterations=2, **options)
        assert same(made.values, right) and made.attrs["units"] == "m"
        said = made.attrs.get("_FillValue", made.attrs.get("missing_value"))
        assert np.all(np.asarray(said, float) == NONE)
        assert not {"valid_range", "actual_range", "scale_factor"} & set(made.attrs)
    assert np.all(field.attrs["units"] == before["units"]) and list(field.attrs) == list(before)
    # The result says it to the next sweep.
    assert same(
        syncline.sweep(least, made, iterations=1).values,
        syncline.sweep(least, holed, iterations=3, nodata=NONE),
    )
    assert same(
        syncline.sweep(add, np.zeros_like(holed), field, iterations=0), np.zeros_like(holed)
    )
    sums = syncline.sweep(add, np.zeros_like(holed), field, iterations=1)
    by_number = syncline.sweep(add, np.zeros_like(holed), holed, iterations=1, nodata={"f": NONE})
    assert same(sums, by_number)
    pytest.importorskip("zarr")
    made = syncline.sweep(least, field, iterations=2, output=tmp_path / "o.zarr")
    assert same(made.values, right)
    assert syncline.sweep(least, tmp_path / "o.zarr", iterations=0).identical(made)
    decoded = xarray.open_zarr(tmp_path / "o.zarr")["h"]
    assert np.array_equal(decoded, np.where(right == NONE, np.nan, right), equal_nan=True)


def test_packed_numbers_are_refused(u):
    xarray = pytest.importorskip("xarray")
    for attributes, dtype in (
        ({"scale_factor": 2.0}, "float64"),
        ({"scale_factor": np.array([0.5])}, "int16"),
        ({"add_offset": 273.15}, "float32"),
        ({"scales": (0.1,)}, "int16"),
        ({"_Unsigned": "true"}, "int16"),
        ({"_Unsigned": "false"}, "uint8"),
    ):
        field = xarray.DataArray(u.astype(dtype), dims=("y", "x"), attrs=attributes)
        key = next(iter(attributes))
        with pytest.raises(syncline.ArrayError, match=f"^u has {key}=.*decode_cf"):
            syncline.sweep(mean, field, iterations=1)
    plain = {"scale_factor": 1, "add_offset": np.float32(0), "_Unsigned": "false"}
    field = xarray.DataArray(u.astype("int16"), dims=("y", "x"), attrs=plain)
    assert syncline.sweep(least, field, iterations=1).attrs == {}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("said", [{"_FillValue": -9999.9}, {"missing_value": np.array([-9999.9])}])
def test_a_number_of_no_data_is_compared_as_the_elements_have_it(u, dtype, said):
    xarray = pytest.importorskip("xarray")
    values = np.abs(u.round())
    values[2, 3] = -9999.9
    given = xarray.DataArray(values, attrs=said | {"valid_min": 0.0})
    if dtype == "int32":
        with pytest.raises(syncline.ArrayError, match="does not hold -9999.9"):
            syncline.sweep(mean, given, iterations=1, dtype=dtype)
        return
    made = syncline.sweep(mean, given, iterations=1, dtype=dtype)
    values = values.astype(dtype)
    assert same(made.values, syncline.sweep(mean, values, iterations=1, nodata=-9999.9))
    given[5, 5] = -1
    with pytest.raises(syncline.ArrayError, match="outside of its valid range"):
        syncline.sweep(mean, given, iterations=1, dtype=dtype)


def test_only_what_links_files_of_hdf5_is_no_attribute_of_a_result(tmp_path, u):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(tmp_path / "u.zarr", shape=u.shape, chunks=u.shape, dtype=u.dtype)
    array[:] = u
    kept = {"CLASS_NAMES": "land, sea", "NAMES": "a", "REFERENCE_LISTS": "b"}
    links = {"CLASS": "DIMENSION_SCALE", "NAME": "y", "_NCProperties": "v", "_Netcdf4Dimid": 0}
    array.attrs.update(kept | links)
    syncline.sweep(mean, array, iterations=0, output=tmp_path / "o.zarr")
    assert dict(zarr.open_array(tmp_path / "o.zarr", mode="r").attrs) == kept


def test_what_is_not_understood_is_told(holed):
    xarray = pytest.importorskip("xarray")

    def field(values=holed, **attributes):
        return xarray.DataArray(values, dims=("y", "x"), attrs=attributes)

    for given, told in (
        (field(_FillValue=1e20, missing_value=NONE), "missing_value"),
        (field(missing_value=[1e20, NONE]), "missing_value"),
        (field(valid_range=(-100, 100)), "valid range"),
        (field(valid_min=-100), "valid range"),
        (field(-holed, valid_max=np.float32(100)), "valid range"),
        (field(valid_range=3), "valid_range"),
        (field(_FillValue="none"), "_FillValue"),
        (field(_FillValue=[[1, "x"]]), "_FillValue"),
        (field(missing_value=True), "missing_value"),
    ):
        with pytest.raises(syncline.ArrayError, match=told) as error:
            syncline.sweep(least, given, iterations=1)
        assert str(error.value).startswith("u has ")
    # What the type cannot hold no point has.
    positive = np.abs(holed).astype(np.uint8)
    for number in (NONE, np.nan, 300, 1.5):
        with pytest.warns(syncline.NodataWarning, match=f"_FillValue={number} of u") as caught:
            made = syncline.sweep(least, field(positive, _FillValue=number), iterations=1)
        assert caught[0].filename == __file__
        assert same(made.values, syncline.sweep(least, positive, iterations=1))
        assert made.attrs == {}
    # What the type can hold and that of the sweep cannot would become another number.
    with pytest.raises(syncline.ArrayError, match=r"u cannot become uint8.*_FillValue"):
        syncline.sweep(least, field(_FillValue=NONE), iterations=1, dtype="uint8")
    # Numbers in the type of the elements.
    big = np.where(holed == NONE, 1e20, holed).astype("float32")
    made = syncline.sweep(least, field(big, missing_value=1e20), iterations=2, dtype="float64")
    assert (made.values == float(np.float32(1e20))).sum() == (big == np.float32(1e20)).sum()
    for given in (big, field(big)):
        by_user = syncline.sweep(least, given, iterations=2, dtype="float64", nodata=1e20)
        assert same(np.asarray(by_user), made.values)
    far = np.iinfo(np.int64).min
    whole = np.where(holed == NONE, far, 7)
    with pytest.raises(syncline.ArrayError, match=r"_FillValue.*2\*\*53"):
        syncline.sweep(least, field(whole, _FillValue=far), iterations=1)
    assert syncline.sweep(least, field(whole[10:], _FillValue=far), iterations=1).shape[0] == 30


def test_the_number_of_the_user_comes_first(u, holed, right):
    xarray = pytest.importorskip("xarray")
    field = xarray.DataArray(holed, dims=("y", "x"), attrs={"_FillValue": 7.0, "nodata": 7.0})
    with pytest.warns(syncline.NodataWarning, match=r"nodata=-9999.0 counts for u.*7.0"):
        made = syncline.sweep(least, field, iterations=2, nodata=NONE)
    assert same(made.values, right) and made.attrs == {"_FillValue": NONE}
    # For one array of several the others say it themselves.
    field.attrs = {"_FillValue": NONE}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = syncline.sweep(add, field, u, iterations=1, nodata={"f": 123.0})
        assert same(made.values, syncline.sweep(add, holed, u, iterations=1, nodata=NONE))
    # A description says it itself, or it is told.
    text = 'name = "north"\nfield = "u"\nupdate = "u = old.n + 0"\n'
    with pytest.warns(syncline.NodataWarning, match="description has no .nodata. for u"):
        made = syncline.sweep(text, field, iterations=1)
    assert made.attrs == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = syncline.sweep(f"{text}nodata = {{ u = -9999 }}", field, iterations=1)
    assert (made.values[5:8, 5:9] == NONE).all() and made.attrs == {"_FillValue": NONE}


def test_decoded_numbers_are_values(tmp_path, u):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    numbers = np.arange(72).reshape(8, 9) * 0.5
    field = xarray.DataArray(numbers, dims=("y", "x"), name="t", coords={"y": np.arange(8) / 10})
    field.attrs = {"valid_range": np.array([0, 200], np.uint8)}
    encoding = {"dtype": "uint8", "scale_factor": 0.5, "_FillValue": 255}
    field[3, 4] = np.nan
    field.to_dataset().to_zarr(tmp_path / "in.zarr", encoding={"t": encoding})
    opened = xarray.open_zarr(tmp_path / "in.zarr", chunks=None)["t"]
    for given in (opened, opened.load(), opened.chunk(3)):
        made = syncline.sweep(lambda u: 9 * u + u.old.n + u.old.e, given, iterations=1)
        assert made.encoding == {} and made.attrs == {} and made.dtype == field.dtype
        # NaN is a number that spreads.
        assert np.isnan(made.values[4, 4]) and np.isnan(made.values[3, 3])
        # It is written as it is, though the field was packed.
        path = tmp_path / "out.zarr"
        made.to_dataset(name="t").to_zarr(path, mode="w")
        assert np.array_equal(xarray.open_zarr(path)["t"], made, equal_nan=True)
    assert opened.encoding["scale_factor"] == 0.5
    raw = xarray.open_zarr(tmp_path / "in.zarr", mask_and_scale=False)["t"]
    for given in (raw, tmp_path / "in.zarr"):
        with pytest.raises(syncline.ArrayError, match="scale_factor=0.5"):
            syncline.sweep(least, given, iterations=1)
    # Bounds are those of the packed numbers.
    opened.attrs["valid_range"] = np.array([0, 50], np.uint8)
    with pytest.raises(syncline.ArrayError, match="valid range"):
        syncline.sweep(least, opened, iterations=1)


def test_what_arrays_of_zarr_say(tmp_path, holed, right):
    zarr = pytest.importorskip("zarr")
    xarray = pytest.importorskip("xarray")
    facts = {"shape": holed.shape, "chunks": (16, 16), "dtype": "float64", "overwrite": True}
    path, output = tmp_path / "a.zarr", tmp_path / "o.zarr"
    for form in (2, 3):
        array = zarr.create_array(
            path, zarr_format=form, attributes={"_FillValue": NONE, "actual_range": [0, 1]}, **facts
        )
        array[:] = holed
        for given in (path, array):
            assert same(syncline.sweep(least, given, iterations=2), right)
            syncline.sweep(least, given, iterations=2, output=output, overwrite=True)
            made = zarr.open_array(output, mode="r")
            assert same(made[:], right) and dict(made.attrs) == {"_FillValue": NONE}
            assert same(syncline.sweep(least, output, iterations=0), right)
        # The value of chunks that are not there is a number like another.
        array = zarr.create_array(path, zarr_format=form, fill_value=NONE, **facts)
        array[:] = holed
        assert same(
            syncline.sweep(least, array, iterations=1), syncline.sweep(least, holed, iterations=1)
        )
        # As xarray writes them.
        field = xarray.DataArray(holed, dims=("y", "x"), name="h", attrs={"_FillValue": NONE})
        field.to_dataset().to_zarr(path, zarr_format=form, mode="w", consolidated=False)
        array = zarr.open_group(path)["h"]
        assert same(syncline.sweep(least, array, iterations=2), right)
        syncline.sweep(least, array, iterations=2, output=output, overwrite=True)
        assert same(syncline.sweep(least, output, iterations=0), right)
        assert zarr.open_array(output).metadata.dimension_names == ("y", "x")
    array.attrs["scale_factor"] = 0.1
    with pytest.raises(syncline.ArrayError, match=r"scale_factor=0.1.*decode_cf"):
        syncline.sweep(least, array, iterations=1)


# Stores.


def test_the_store_of_a_result_is_a_field_by_its_path(tmp_path, u):
    xarray = pytest.importorskip("xarray")
    zarr = pytest.importorskip("zarr")
    coords = {"y": np.arange(40) / 2, "label": ("y", np.arange(40)), "time": 7}
    field = xarray.DataArray(u, coords, ("y", "x"), "h", {"units": "m"})
    store = tmp_path / "own.zarr"
    expected = syncline.sweep(mean, field, iterations=2)
    syncline.sweep(mean, field, iterations=2, output=store)
    for path in (store, store / "h", f"{store}/h/"):
        again = syncline.sweep(mean, path, iterations=0)
        assert again.identical(expected)
        made = syncline.sweep(mean, path, iterations=3, output=tmp_path / "2.zarr", overwrite=True)
        assert made.identical(syncline.sweep(mean, field, iterations=5))
    os.rename(store, tmp_path / "renamed")
    assert syncline.sweep(mean, tmp_path / "renamed", iterations=0).identical(expected)
    # Others.
    store = tmp_path / "two.zarr"
    xarray.Dataset({"b": field, "a": 2 * field}).to_zarr(store, consolidated=False)
    with pytest.raises(syncline.FileError, match=rf"{store} is a group .* a, b: give one as"):
        syncline.sweep(mean, store, iterations=0)
    assert same(syncline.sweep(mean, store / "a", iterations=0).values, 2 * u)
    group = zarr.open_group(store)
    with pytest.raises(syncline.ArrayError, match=r"u is a zarr Group.*a, b"):
        syncline.sweep(mean, group, iterations=0)
    with pytest.raises(syncline.ArrayError, match=r"fields ., . are given.*dataset\['.'\]"):
        syncline.sweep(mean, xarray.open_zarr(store, consolidated=False), iterations=0)
    with pytest.raises(syncline.FileError, match="none"):
        syncline.sweep(mean, store / "none", iterations=0)
    # Arrays of a group that have no names of dimensions.
    group = zarr.create_group(tmp_path / "plain.zarr")
    group.create_array("p", shape=u.shape, dtype="f8")[:] = u
    for path in ("plain.zarr", "plain.zarr/p"):
        assert same(syncline.sweep(mean, tmp_path / path, iterations=0), u)
    group.create_array("q", shape=u.shape, dtype="f8")
    with pytest.raises(syncline.FileError, match="p, q"):
        syncline.sweep(mean, tmp_path / "plain.zarr", iterations=0)
    zarr.create_group(tmp_path / "none.zarr")
    with pytest.raises(syncline.FileError, match="without arrays"):
        syncline.sweep(mean, tmp_path / "none.zarr", iterations=0)


# What is read in another way than it looks.


def test_nan_as_the_fill_value_of_a_mask_must_be_no_number_of_the_field(u):
    given = np.ma.MaskedArray(u.copy(), np.zeros(u.shape, bool), fill_value=np.nan)
    given.mask[0, 0] = True
    made = syncline.sweep(least, given, iterations=1)
    assert np.array_equal(made.mask, given.mask)
    given.data[2, 2] = np.nan
    with pytest.raises(syncline.ArrayError, match="nan, the fill value of its mask, among"):
        syncline.sweep(least, given, iterations=1)


@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_beside_a_huge_one_without_data_are_refused(u, sign):
    xarray = pytest.importorskip("xarray")
    largest = sign * np.finfo(np.float32).max
    field = xarray.DataArray(u.astype(np.float32), dims=("y", "x"))
    field[3, 4] = largest
    for said in (sign * 3.4e38, sign * 3.40282e38):
        field.attrs["_FillValue"] = np.float32(said)
        with pytest.raises(syncline.ArrayError, match="nearly the same: say which one as nodata="):
            syncline.sweep(least, field, iterations=1)
    with pytest.warns(syncline.NodataWarning):
        made = syncline.sweep(least, field, iterations=1, nodata=float(largest))
    assert made[3, 4] == largest
    field.attrs["_FillValue"] = largest
    made = syncline.sweep(least, field, iterations=1)
    assert (made.values == largest).sum() == 1


@pytest.mark.parametrize("kind", ["array", "memmap", ".npy", ".zarr", "zarr", "dask", "xarray"])
def test_a_mask_of_bool_is_one_however_it_comes(tmp_path, u, kind):
    mask = u > np.median(u)
    path = tmp_path / "mask.npy"
    np.save(path, mask)
    given = mask
    if kind in (".zarr", "zarr"):
        zarr = pytest.importorskip("zarr")
        given = zarr.open_array(
            tmp_path / "m.zarr", mode="w", shape=u.shape, dtype=bool, chunks=(7, 5)
        )
        given[:] = mask
        given = tmp_path / "m.zarr" if kind == ".zarr" else given
    elif kind == ".npy":
        given = path
    elif kind == "memmap":
        given = np.load(path, mmap_mode="r")
    elif kind == "dask":
        given = pytest.importorskip("dask.array").from_array(mask, chunks=5)
    elif kind == "xarray":
        given = pytest.importorskip("xarray").DataArray(mask)

    def where(u, m):
        return np.where(m, u.old.w, u.old.e)

    right = syncline.sweep(where, u, mask, iterations=2)
    by_bytes = syncline.sweep(
        lambda u, m: np.where(m != 0, u.old.w, u.old.e), u, mask.view(np.uint8), iterations=2
    )
    assert same(right, by_bytes)
    assert same(syncline.sweep(where, u, given, iterations=2), right)


@pytest.mark.parametrize("value", [300.0, -3.0, np.nan, np.inf])
def test_a_number_that_the_type_asked_for_does_not_hold_is_refused(tmp_path, u, value):
    given = np.floor(abs(u))
    given[3, 3] = value
    np.save(tmp_path / "u.npy", given)
    masked = np.ma.MaskedArray(given, np.zeros(u.shape, bool))
    masked[0, 0] = np.ma.masked
    for one in (given, tmp_path / "u.npy", masked):
        with pytest.raises(syncline.ArrayError, match="which uint8 does not hold"):
            syncline.sweep(least, one, iterations=1, dtype="uint8", nodata=0)
    masked[3, 3] = np.ma.masked
    made = syncline.sweep(least, masked, iterations=1, dtype="uint8", nodata=255)
    assert made.mask[3, 3] and made.dtype == np.uint8


def test_a_number_beyond_the_edges_is_one_of_the_type():
    with pytest.raises(syncline.KernelError, match="boundary is 1e\\+300, which float32 cannot"):
        syncline.sweep(least, np.ones((4, 5), np.float32), iterations=1, boundary=1e300)
    for number in (np.inf, 3e38):
        syncline.sweep(least, np.ones((4, 5), np.float32), iterations=1, boundary=number)


def test_coordinates_whose_attributes_say_nothing_go_to_a_store(tmp_path, u):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    rows, columns = map(np.arange, u.shape)
    field = xarray.DataArray(u, {"lat": rows * 1.0, "lon": columns * 1.0}, ("lat", "lon"), "t")
    field.lat.attrs["_FillValue"] = np.nan
    made = syncline.sweep(least, field, iterations=1, output=tmp_path / "o.zarr")
    assert "_FillValue" in field.lat.attrs, "the coordinate of the user stays"
    assert same(made.values, syncline.sweep(least, u, iterations=1))
    read = xarray.open_zarr(tmp_path / "o.zarr", consolidated=False)
    assert np.array_equal(read.lat, rows)
    field.attrs["how"] = b"by hand"
    with pytest.raises(syncline.OutputError, match="the attribute 'how'"):
        syncline.sweep(least, field, iterations=1, output=tmp_path / "p.zarr")
