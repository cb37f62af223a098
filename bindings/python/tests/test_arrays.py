"""The arrays that users give: each kind is read as it is, and the result is of that kind."""

import os
import pathlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree

import numpy as np
import pytest
import syncline
import syncline._files
from conftest import mean, same


def with_f(u, f):
    return (u.n + u.w + u.e + u.s) / 4 - f


def test_orders_and_strides_are_converted(u, expected):
    big = u.astype(">f8")
    spread = np.zeros((80, 100))
    spread[::2, ::2] = u
    unaligned = np.frombuffer(b"x" + u.tobytes(), np.uint8)[1:].view(np.float64).reshape(u.shape)
    fixed = u.copy()
    fixed.flags.writeable = False
    for given in (np.asfortranarray(u), big, spread[::2, ::2], unaligned, fixed, u.tolist()):
        assert same(syncline.sweep(mean, given, iterations=5), expected)
    assert same(syncline.sweep(mean, u[::-1], iterations=5), expected[::-1])


def test_the_result_is_an_array_of_its_own(u):
    before = u.copy()
    result = syncline.sweep(mean, u, iterations=1)
    assert not np.shares_memory(result, u) and result.flags.writeable and result.flags.aligned
    result[:] = 7
    assert same(u, before)
    kept = [syncline.sweep(mean, u, iterations=1)[3:5] for _ in range(20)]
    assert all(same(one, kept[0]) for one in kept)


def test_files(tmp_path, u, expected):
    path, output = tmp_path / "u.npy", tmp_path / "result.npy"
    np.save(path, u)
    assert same(syncline.sweep(mean, path, iterations=5), expected)
    assert same(syncline.sweep(mean, str(path), iterations=5, output=str(output)), expected)
    assert sorted(os.listdir(tmp_path)) == ["result.npy", "u.npy"]
    with pytest.raises(syncline.OutputError, match="overwrite=True"):
        syncline.sweep(mean, u, iterations=5, output=output)
    result = syncline.sweep(mean, path, iterations=7, output=output, resume=True)
    assert same(np.load(output), result)
    assert same(np.asarray(result), syncline.sweep(mean, u, iterations=7))
    again = syncline.sweep(mean, path, iterations=5, output=output, overwrite=True)
    assert same(np.asarray(again), expected)


def test_files_in_other_orders(tmp_path, u, expected):
    for number, given in enumerate([np.asfortranarray(u), u.astype(">f8")]):
        path = tmp_path / f"{number}.npy"
        np.save(path, given)
        assert same(syncline.sweep(mean, path, iterations=5), expected)


def test_mapped_files_are_read_from_the_file(tmp_path, u, expected):
    path = tmp_path / "u.npy"
    np.save(path, u)
    output = tmp_path / "o.npy"
    mapped = np.load(path, mmap_mode="r")
    _, report = syncline.sweep(mean, mapped, iterations=5, output=output, full_output=True)
    assert report.bytes_read >= u.nbytes and same(np.load(output), expected)
    # A part, and a private copy with changes, are not what the file has.
    assert same(
        syncline.sweep(mean, mapped[10:], iterations=1), syncline.sweep(mean, u[10:], iterations=1)
    )
    private = np.load(path, mmap_mode="c")
    private[3] = 5
    changed = u.copy()
    changed[3] = 5
    assert same(
        syncline.sweep(mean, private, iterations=5), syncline.sweep(mean, changed, iterations=5)
    )
    shared = np.load(path, mmap_mode="r+")
    shared[3] = 5
    assert same(
        syncline.sweep(mean, shared, iterations=5), syncline.sweep(mean, changed, iterations=5)
    )


def test_coefficients(u, rng):
    f = rng.normal(size=u.shape)
    expected = syncline.sweep(with_f, u, f, iterations=2)
    assert same(syncline.sweep(with_f, u, [f], iterations=2), expected)
    assert same(syncline.sweep(with_f, u, {"f": f}, iterations=2), expected)
    assert same(syncline.sweep(syncline.kernel(with_f), u, {"f": f}, iterations=2), expected)
    with pytest.raises(syncline.ArrayError, match="needs the coefficient f|takes 2 arrays"):
        syncline.sweep(syncline.kernel(with_f), u, {}, iterations=2)
    with pytest.raises(syncline.ArrayError, match="no coefficient g"):
        syncline.sweep(syncline.kernel(with_f), u, {"g": f}, iterations=2)


def test_several_fields(tmp_path, u):
    @syncline.kernel
    def swap(a, b):
        return b + 1, a

    one, two = syncline.sweep(swap, (u, 2 * u), iterations=1)
    assert same(one, 2 * u + 1) and same(two, u)
    # In any order, as they have names.
    both = syncline.sweep(swap, {"b": 2 * u, "a": u}, iterations=1)
    assert same(both["a"], one) and same(both["b"], two) and list(both) == ["b", "a"]
    # And so have their outputs; those in a list are in the order of the fields.
    given = {"b": 2 * u, "a": u}
    for output in ([tmp_path / "1.npy", tmp_path / "2.npy"], {"a": "2.npy", "b": "1.npy"}):
        if isinstance(output, dict):
            output = {name: tmp_path / path for name, path in output.items()}
        syncline.sweep(swap, given, iterations=1, output=output, overwrite=True)
        assert same(np.load(tmp_path / "1.npy"), two) and same(np.load(tmp_path / "2.npy"), one)
    alone = {"height": tmp_path / "3.npy"}
    assert list(syncline.sweep(mean, {"height": u}, iterations=1, output=alone)) == ["height"]
    for names in (("a", "c"), ("x", "y")):
        with pytest.raises(syncline.ArrayError, match="takes a, b, the fields first, but"):
            syncline.sweep(swap, dict.fromkeys(names, u), iterations=1)
    alone = syncline.sweep(mean, {"height": u}, iterations=5)
    assert same(alone["height"], syncline.sweep(mean, u, iterations=5))
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    on_file = syncline.sweep(swap, (u, 2 * u), iterations=1, output=paths)
    assert same(np.asarray(on_file[0]), one) and same(np.load(paths[1]), two)


def test_xarray(tmp_path, u, expected):
    xarray = pytest.importorskip("xarray")
    coords = {"y": np.arange(40) * 0.5, "x": np.arange(50), "label": ("y", list(range(40)))}
    field = xarray.DataArray(u, coords, ("y", "x"), "height", {"units": "m"})
    result = syncline.sweep(mean, field, iterations=5)
    assert same(result.values, expected)
    assert result.attrs == field.attrs and result.name == "height" and result.dims == ("y", "x")
    assert result.coords.identical(field.coords)
    on_file = syncline.sweep(mean, field, iterations=5, output=tmp_path / "o.npy")
    assert on_file.coords.identical(field.coords) and same(on_file.values, expected)

    @syncline.kernel
    def two(a, b):
        return b, a + b

    made = xarray.Dataset({"b": 2 * field, "a": field}, attrs={"of": "test"})
    swapped = syncline.sweep(two, made, iterations=1)
    assert same(swapped["a"].values, 2 * u) and swapped.attrs == made.attrs


def test_lazy_arrays(tmp_path, u, expected):
    xarray = pytest.importorskip("xarray")
    dask = pytest.importorskip("dask.array")
    parts = dask.from_array(u, chunks=(7, 11))
    assert same(syncline.sweep(mean, parts, iterations=5, output=tmp_path / "a.npy"), expected)
    field = xarray.DataArray(parts, dims=("y", "x"), attrs={"k": 1})
    result = syncline.sweep(mean, field, iterations=5, output=tmp_path / "b.npy")
    assert same(result.values, expected) and result.attrs == {"k": 1}
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "b.npy"]


def test_zarr(tmp_path, u, expected):
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "u.zarr"
    array = zarr.open_array(str(path), mode="w", shape=u.shape, dtype=u.dtype, chunks=(16, 16))
    array[:] = u
    array.attrs["units"] = "m"
    output = tmp_path / "o.zarr"
    assert syncline.sweep(mean, path, iterations=5, output=output) == str(output)
    made = zarr.open_array(str(output), mode="r")
    assert same(made[:], expected) and made.chunks == (16, 16) and made.attrs["units"] == "m"
    assert same(syncline.sweep(mean, array, iterations=5), expected)
    with pytest.raises(syncline.OutputError, match="exists"):
        syncline.sweep(mean, path, iterations=5, output=output)
    syncline.sweep(mean, u, iterations=5, output=output, overwrite=True, chunks=(8, 50))
    assert zarr.open_array(str(output), mode="r").chunks == (8, 50)
    assert sorted(os.listdir(tmp_path)) == ["o.zarr", "u.zarr"]


@pytest.mark.parametrize(
    "give, error, told",
    [
        (lambda u: u.astype(complex), syncline.ArrayError, "complex128"),
        (lambda u: u > 0, syncline.ArrayError, "view"),
        (lambda u: u.astype(object), syncline.ArrayError, "object"),
        (lambda u: u.astype(np.float16), syncline.ArrayError, "float16"),
        (lambda u: u.reshape(2, 2, 5, 100), syncline.ArrayError, "4 dimensions"),
        (lambda u: u[:0], syncline.ArrayError, "no elements"),
        (lambda u: u[3, 3], syncline.ArrayError, "0 dimensions"),
        (lambda u: np.ma.masked_less(u, 0), syncline.ArrayError, "nodata"),
        (lambda u: None, syncline.ArrayError, "NoneType"),
        (lambda u: "nowhere.npy", syncline.FileError, "nowhere.npy"),
        (lambda u: os.fspath(pathlib.Path(__file__)), syncline.FileError, "test_arrays.py"),
    ],
)
def test_wrong_arrays(u, give, error, told):
    with pytest.raises(error, match=told) as caught:
        syncline.sweep(mean, give(u), iterations=1)
    assert isinstance(caught.value, syncline.Error)


def test_wrong_arguments(tmp_path, u):
    def check(error, told, **options):
        with pytest.raises(error, match=told):
            syncline.sweep(mean, u, **{"iterations": 1} | options)

    check(syncline.ArrayError, "takes 1 arrays", coefficients=u)
    check(ValueError, "iterations", iterations=-1)
    check(TypeError, "iterations", iterations=1.5)
    check(ValueError, "until", until=-1)
    check(ValueError, "until", until=float("nan"))
    check(ValueError, "threads", threads=0)
    check(ValueError, "no size", memory="much")
    check(ValueError, "memory", memory=0)
    check(syncline.MemoryBoundError, "output=", memory="1K")
    check(syncline.MemoryBoundError, "buffers", memory=u.nbytes + 1000)
    check(syncline.OutputError, "none of .npy", output=tmp_path / "o.csv")
    check(syncline.OutputError, "no folder", output=tmp_path / "none" / "o.npy")
    check(syncline.OutputError, "output=", resume=True)
    check(syncline.OutputError, "2 outputs", output=[tmp_path / "a.npy", tmp_path / "b.npy"])
    check(syncline.KernelError, "boundary", boundary="nowhere")
    with pytest.raises(syncline.KernelError, match="periodic"):
        syncline.sweep(lambda u: (u.n + u.w) / 2, u, iterations=1, boundary="periodic")
    check(syncline.KernelError, "no axis", boundary={5: 0})
    check(syncline.KernelError, "nodata names", nodata={"v": 0})
    assert os.listdir(tmp_path) == []


def test_shapes_differ(u):
    with pytest.raises(syncline.ArrayError, match="shape"):
        syncline.sweep(with_f, u, u[1:], iterations=1)


def test_types_differ(u):
    f = u.astype("float32")
    made = syncline.sweep(with_f, u, f, iterations=1)
    assert same(made, syncline.sweep(with_f, u, f.astype(float), iterations=1))


def test_a_write_only_folder_fails_with_its_name(tmp_path, u):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    with pytest.raises(syncline.FileError, match=str(tmp_path)):
        syncline.sweep(mean, u, iterations=1, output=tmp_path / "o.npy")


def test_convergence(u):
    with pytest.warns(syncline.ConvergenceWarning, match="after 2 iterations"):
        syncline.sweep(mean, u, iterations=2, until=1e-9)
    _, report = syncline.sweep(mean, u, iterations=10**6, until=1e-3, full_output=True)
    assert report.converged < 10**6 and report.residuals[report.converged] <= 1e-3


def test_progress_and_plan(capsys, u):
    told = []
    syncline.sweep(
        mean,
        np.tile(u, (40, 10)),
        iterations=300,
        progress=lambda done, step, steps: told.append((done, step, steps)),
    )
    assert all(0 <= done <= 1 and 1 <= step <= steps for done, step, steps in told)
    syncline.sweep(mean, u, iterations=3, progress=True)
    assert "100%" in capsys.readouterr().err
    plan = syncline.plan(mean, u, iterations=30, memory="1G")
    assert plan.passes >= 1 and "40 x 50" in repr(plan) and plan.buffers < 1 << 30
    for depth in (1, 30):
        drawn = syncline.plan(mean, u, iterations=30, depth=depth)._repr_svg_()
        assert xml.etree.ElementTree.fromstring(drawn).tag.endswith("svg")

    def fails(*_):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        syncline.sweep(mean, np.tile(u, (40, 40)), iterations=10**7, progress=fails)


def test_a_mapped_file_that_was_replaced(tmp_path, u):
    path = tmp_path / "u.npy"
    np.save(path, u)
    mapped = np.load(path, mmap_mode="r")
    expected = syncline.sweep(mean, u, iterations=2)
    np.save(tmp_path / "other.npy", expected)
    os.replace(tmp_path / "other.npy", path)
    assert same(syncline.sweep(mean, mapped, iterations=2), expected)
    # The file that has the name now is no input.
    syncline.sweep(mean, mapped, iterations=1, output=path, overwrite=True)
    assert same(np.load(path), syncline.sweep(mean, u, iterations=1))


def test_outputs_that_cannot_be_are_refused_at_once(tmp_path, u):
    def refuse(field, output, told, **options):
        with pytest.raises(syncline.OutputError, match=told):
            syncline.sweep(lambda u: u, field, iterations=1, output=tmp_path / output, **options)

    refuse(u[0], "o.npy", "one dimension")
    if rasterio_is_here():
        refuse(np.zeros((3, 4, 5)), "o.tif", "two dimensions")
    pytest.importorskip("zarr")
    refuse(u, "o.zarr", "1 sizes", chunks=(5,))
    assert os.listdir(tmp_path) == []


def rasterio_is_here():
    try:
        import rasterio  # noqa: F401
    except ImportError:
        return False
    return True


def test_arrays_of_xarray_are_aligned_by_their_dimensions(tmp_path, u):
    xarray = pytest.importorskip("xarray")
    rows, columns = map(np.arange, u.shape)
    field = xarray.DataArray(u, dims=("y", "x"), coords={"y": rows, "x": columns})
    weights = xarray.DataArray(
        np.arange(u.size).reshape(u.shape) / 7, dims=("y", "x"), coords=field.coords
    )

    def kernel(u, c):
        return u + c

    expected = syncline.sweep(kernel, field, weights, iterations=1)
    assert np.array_equal(expected, u + weights.values)
    turned = syncline.sweep(kernel, field, weights.transpose("x", "y"), iterations=1)
    assert np.array_equal(turned, expected)
    for wrong, told in (
        (weights.isel(y=slice(None, None, -1)), "coordinate y"),
        (weights.rename(x="z"), "dimensions"),
        (weights[0], "dimensions"),
    ):
        with pytest.raises(syncline.ArrayError, match=told):
            syncline.sweep(kernel, field, wrong, iterations=1)
    pytest.importorskip("zarr")
    names = iter("abcdefgh")

    def stored(array):
        path = str(tmp_path / f"{next(names)}.zarr")
        array.rename("w").to_dataset().to_zarr(path, consolidated=False)
        return path

    # By their paths, too: what counts is what was opened.
    turned, flipped = stored(weights.T), stored(weights[::-1])
    for first in (field, stored(field)):
        for fits in (turned, f"{turned}/w", weights.T):
            assert np.array_equal(syncline.sweep(kernel, first, fits, iterations=1), expected)
        for wrong in (flipped, f"{flipped}/w", weights[::-1]):
            with pytest.raises(syncline.ArrayError, match="coordinate y of c is not that of u"):
                syncline.sweep(kernel, first, wrong, iterations=1)
    made = syncline.sweep(lambda u, v: (u + v, v + u), (field, turned), iterations=1)[1]
    assert made.dims == ("y", "x") and np.array_equal(made, expected)
    # What has no coordinates fits, and so does a plain array.
    for fits in (weights.drop_vars(["x", "y"]), weights.values):
        assert np.array_equal(syncline.sweep(kernel, field, fits, iterations=1), expected)


@pytest.mark.parametrize("name", ["temperature", None])
def test_a_data_array_goes_to_zarr_as_a_whole(tmp_path, u, name):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    field = xarray.DataArray(
        u,
        dims=("y", "x"),
        coords={"y": np.arange(u.shape[0]) / 2, "x": np.arange(u.shape[1]), "time": 7},
        attrs={"units": "K", "count": np.int64(3), "range": np.array([1.5, 2])},
        name=name,
    )
    kept = {"units": "K", "count": 3, "range": [1.5, 2]}
    expected = syncline.sweep(mean, field, iterations=3)
    output = tmp_path / "o.zarr"
    made = syncline.sweep(mean, field, iterations=3, output=output, chunks=(16, 16))
    assert made.identical(expected) and expected.identical(field.copy(data=expected.values))
    found = xarray.open_dataarray(output, engine="zarr", consolidated=False)
    assert np.array_equal(found, expected) and found.name == name and found.attrs == kept
    assert found.dims == field.dims and found.dtype == field.dtype
    assert all(found.coords[key].equals(field.coords[key]) for key in ("y", "x", "time"))
    assert os.listdir(tmp_path) == ["o.zarr"]
    # What cannot be written is told before anything runs.
    for bad in (
        field.assign_attrs(bad=object()),
        field.assign_attrs(units="days since 2000-01-01"),
        field.assign_attrs(coordinates="lat lon"),
        field.rename("a/b"),
        field.rename("../evil"),
    ):
        with pytest.raises(syncline.OutputError, match="cannot be written"):
            syncline.sweep(mean, bad, iterations=3, output=tmp_path / "p.zarr")
    assert os.listdir(tmp_path) == ["o.zarr"]


@pytest.mark.parametrize("resume", [False, True])
def test_an_interrupted_sweep_leaves_nothing_without_resume(tmp_path, u, resume):
    output = tmp_path / "o.npy"
    many = np.tile(u, (20, 1))

    def interrupt(done, step, steps):
        if step > 3:
            raise KeyboardInterrupt

    options = {"depth": 2, "output": output, "resume": resume}
    with pytest.raises(KeyboardInterrupt):
        # As many as the slowest look at the progress leaves unfinished.
        syncline.sweep(mean, many, iterations=10**7, progress=interrupt, **options)
    assert bool(os.listdir(tmp_path)) == resume
    for iterations in (4 * 10**power for power in range(2, 7)):
        try:
            made = syncline.sweep(mean, many, iterations=iterations, **options)
            break
        except syncline.OutputError as error:
            # On a busy machine more are done before the interrupt.
            assert resume and "asked for" in str(error), error
    assert np.array_equal(made, syncline.sweep(mean, many, iterations=iterations))
    assert os.listdir(tmp_path) == ["o.npy"]


def test_an_interrupted_sweep_that_overwrites_leaves_nothing(tmp_path, u):
    output, many = tmp_path / "o.npy", np.tile(u, (20, 4))

    def interrupt(done, step, steps):
        if step > 3:
            raise KeyboardInterrupt

    for options in ({"resume": True}, {"overwrite": True}):
        with pytest.raises(KeyboardInterrupt):
            syncline.sweep(
                mean, many, iterations=10**7, depth=2, output=output, progress=interrupt, **options
            )
        assert bool(os.listdir(tmp_path)) == ("resume" in options)


def test_what_a_killed_run_has_left_goes(tmp_path, u):
    pytest.importorskip("zarr")
    program = (
        "import os, signal, sys, numpy as np, syncline\n"
        "kill = lambda *at: os.kill(os.getpid(), signal.SIGKILL)\n"
        "syncline.sweep(lambda u: u.n + u.s, np.ones((300, 300)), iterations=10**7, depth=2, "
        "output=sys.argv[1], progress=kill)"
    )
    output = tmp_path / "o.zarr"
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program, output], env=path)
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".syncline-")
    with syncline._files.Stage(output) as other:
        used = other.beside(output, ".npy")
        assert os.listdir(tmp_path) == [os.path.basename(os.path.dirname(used))]
        syncline.sweep(mean, u, iterations=1, output=output)
        assert os.path.isdir(os.path.dirname(used)), "it is in use"
    assert os.listdir(tmp_path) == ["o.zarr"]


@pytest.mark.parametrize(
    "host, boot, is_left",
    [
        (None, None, False),
        (None, "an earlier boot", False),
        # The locks of many network file systems are local to each host.
        ("another-host", "its boot", True),
        # A container has a name of its own, and the locks of its host.
        ("container", None, False),
        ("", "", True),
    ],
)
def test_only_folders_of_processes_that_are_known_to_be_dead_are_removed(
    tmp_path, host, boot, is_left
):
    mine = syncline._files.machine()
    folder = tmp_path / ".syncline-1"
    folder.mkdir()
    said = "\n".join([mine[0] if host is None else host, mine[1] if boot is None else boot])
    (folder / "locked").write_text(said)
    with syncline._files.Stage(tmp_path / "o.npy") as stage:
        own = pathlib.Path(stage.file()).parent
        assert (own / "locked").read_text().split("\n") == list(mine)
        assert folder.exists() == is_left
        with syncline._files.Stage(tmp_path / "p.npy") as other:
            other.file()
            assert own.exists(), "it is locked"


@pytest.mark.filterwarnings("error")
def test_coordinates_that_xarray_would_change_are_refused(tmp_path):
    xarray, pandas = pytest.importorskip("xarray"), pytest.importorskip("pandas")
    pytest.importorskip("zarr")
    n, output = 6, tmp_path / "o.zarr"
    for name, values, attributes in (
        ("y", np.arange(n) * 0.1, {"scale_factor": 0.1}),
        ("y", np.arange(n), {"units": "days since 2000-01-01"}),
        ("my lat", np.arange(n), {}),
        ("a/b", np.arange(n), {}),
        ("y", pandas.date_range("2020", periods=n, tz="UTC"), {}),
        ("y", pandas.Categorical(list("ababab")), {}),
    ):
        coordinates = {name: ("y", values, attributes)}
        u = xarray.DataArray(np.ones((n, n)), dims=("y", "x"), coords=coordinates, name="t")
        with pytest.raises(syncline.OutputError, match=f"coordinate '{name}'"):
            syncline.sweep(mean, u, iterations=1, output=output)
        assert os.listdir(tmp_path) == []
        back = syncline.sweep(mean, u, iterations=1, output=tmp_path / "o.npy", overwrite=True)
        assert back.coords.equals(u.coords)
        os.remove(tmp_path / "o.npy")
    u = u.assign_coords(y=pandas.date_range("2020", periods=n), k=("x", list("abcdef")))
    made = syncline.sweep(mean, u, iterations=1, output=output)
    assert xarray.open_zarr(output, chunks=None)["t"].identical(made)


def test_plans_leave_no_files(tmp_path, u):
    many = np.tile(u, (20, 4))
    np.save(tmp_path / "u.npy", many)
    for field in (many, tmp_path / "u.npy"):
        for output in (None, tmp_path / "o.npy"):
            options = {"iterations": 40, "memory": "8M", "output": output, "depth": 5}
            planned = syncline.plan(mean, field, **options)
            _, report = syncline.sweep(
                mean, field, full_output=True, overwrite=bool(output), **options
            )
            # Buffers depend on the measured speed of the disk, where there is one.
            assert (planned.depth, planned.passes) == (report.depth, report.passes)
    assert sorted(os.listdir(tmp_path)) == ["o.npy", "u.npy"]


@pytest.mark.parametrize("suffix", [".zarr", ".tif"])
def test_outputs_are_replaced_as_a_whole(tmp_path, u, suffix):
    pytest.importorskip("zarr" if suffix == ".zarr" else "rasterio")
    output, mine = tmp_path / f"o{suffix}", tmp_path / f"o{suffix}.part"
    mine.write_text("precious")
    syncline.sweep(mean, u, iterations=1, output=output)
    old, new = (syncline.sweep(mean, u, iterations=n) for n in (1, 2))
    # Interrupts before and after each step of the replacement.
    for name in ("replace", "rename"):
        for after in (False, True):

            def interrupt(*args, name=name, after=after):
                if after:
                    getattr(os, name)(*args)
                raise KeyboardInterrupt

            class Interrupted:
                def __getattr__(self, asked, name=name, interrupt=interrupt):
                    return interrupt if asked == name else getattr(os, asked)

            with pytest.MonkeyPatch.context() as patch:
                # Not `os` itself, which zarr uses as well.
                patch.setattr(syncline._output, "os", Interrupted())
                try:
                    syncline.sweep(mean, u, iterations=2, output=output, overwrite=True)
                    notes = []
                except KeyboardInterrupt as error:
                    notes = getattr(error, "__notes__", [])
            # Either the result is in its place, or the old one, and the new one is kept.
            for note in notes:
                kept = note.removeprefix("the result is in ")
                assert same(np.load(kept), new)
                os.remove(kept)
            there = syncline.sweep(mean, output, iterations=0)
            assert same(there, old if notes else new)
            assert sorted(os.listdir(tmp_path)) == [output.name, mine.name]
            syncline.sweep(mean, u, iterations=1, output=output, overwrite=True)
    assert mine.read_text() == "precious"


def test_processes_with_one_output_leave_a_whole_one(tmp_path):
    pytest.importorskip("zarr")
    program = (
        "import numpy as np, syncline\n"
        "for _ in range(15):\n"
        "    syncline.sweep(lambda u: u * 1, np.ones((90, 70)), iterations=1, "
        "output='o.zarr', overwrite=True)"
    )
    ran = [
        subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    for one in ran:
        assert one.communicate(timeout=100)[1] == b"" and one.returncode == 0
    assert np.array_equal(
        syncline.sweep(mean, tmp_path / "o.zarr", iterations=0), np.ones((90, 70))
    )
    assert os.listdir(tmp_path) == ["o.zarr"]


@pytest.mark.parametrize("is_left", [True, False])
def test_an_output_may_be_replaced_while_it_is_looked_at(tmp_path, monkeypatch, u, is_left):
    pytest.importorskip("zarr")
    output = tmp_path / "o.zarr"
    syncline.sweep(mean, u, iterations=1, output=output)
    looked = []

    class Meanwhile:
        def __getattr__(self, name):
            return getattr(os, name)

        def listdir(self, folder):
            # As another process does: first the old one goes, then the new one comes.
            looked.append(folder)
            os.rename(folder, tmp_path / "old.zarr")
            if not is_left:
                return os.listdir(folder)
            shutil.copytree(tmp_path / "old.zarr", folder)
            return ["c"]

    with monkeypatch.context() as patch:
        patch.setattr(syncline._output, "os", Meanwhile())
        syncline.sweep(mean, u, iterations=5, output=output, overwrite=True)
    assert looked == [str(output)]
    assert same(syncline.sweep(mean, output, iterations=0), syncline.sweep(mean, u, iterations=5))


@pytest.mark.parametrize("folder", ["", "other/"])
def test_several_outputs_have_any_names(tmp_path, u, folder):
    def two(a, b):
        return a + b, b

    os.makedirs(tmp_path / "other")
    (tmp_path / "there").write_text("precious")
    (tmp_path / "link.npy").symlink_to(tmp_path / "there")
    outputs = [tmp_path / "link.npy", f"{tmp_path}/{folder}LOUD.NPY"]
    made = syncline.sweep(two, (u, u), iterations=1, output=outputs, overwrite=True)
    for path, values in zip(outputs, (u + u, u)):
        assert same(np.load(path), values)
    assert same(np.asarray(made[0]), u + u) and same(np.asarray(made[1]), u)
    # The target of a link is replaced, not the link.
    assert os.path.islink(outputs[0]) and same(np.load(tmp_path / "there"), u + u)


def test_wrong_outputs_are_told_before_anything_runs(tmp_path, u):
    def two(a, b):
        return a + b, b

    for output in (["s.npy", "./s.npy"], ["s.tif", "s.tif"]):
        with pytest.raises(syncline.OutputError, match="two fields"):
            syncline.sweep(two, (u, u), iterations=1, output=output)
    for chunks in ((0, 2), (1.5, 2), 2):
        with pytest.raises((TypeError, ValueError), match="chunks"):
            syncline.sweep(mean, u, iterations=1, output=tmp_path / "o.zarr", chunks=chunks)
    with pytest.raises(TypeError, match="progress"):
        syncline.sweep(mean, u, iterations=1, progress=5)
    with pytest.raises(ValueError, match="iterations"):
        syncline.sweep(mean, u, iterations=1 << 70)
    assert os.listdir(tmp_path) == []
    syncline.sweep(mean, u, iterations=1, output=os.fsencode(tmp_path / "o.npy"))
    pytest.importorskip("zarr")
    made = syncline.sweep(mean, u, iterations=1, output=f"{tmp_path}/z.zarr/")
    assert made == f"{tmp_path}/z.zarr"


@pytest.mark.parametrize("suffix", [".zarr", ".tif"])
def test_a_result_that_cannot_be_written_is_kept(tmp_path, monkeypatch, u, expected, suffix):
    pytest.importorskip("zarr" if suffix == ".zarr" else "rasterio")
    output = tmp_path / f"o{suffix}"
    is_zarr = suffix == ".zarr"
    owner = syncline._output.Output if is_zarr else syncline._geotiff
    write = "_fill_zarr" if is_zarr else "write"
    real = getattr(owner, write)

    def full(*_):
        raise OSError(28, "No space left on device")

    def taken(*args):
        real(*args)
        output.mkdir()

    for wrong, error in ((full, syncline.FileError), (taken, syncline.OutputError)):
        monkeypatch.setattr(owner, write, wrong)
        with pytest.raises(error, match="cannot write") as told:
            syncline.sweep(mean, u, iterations=5, output=output)
        kept = str(told.value).rpartition("the result is in ")[2]
        assert same(np.load(kept), expected)
        os.remove(kept)
    assert os.listdir(tmp_path) == [output.name] and not os.listdir(output)


@pytest.mark.parametrize("kernel", [mean, lambda u: u + 0.2 * (u.old.n + u.old.s - 2 * u)])
def test_points_without_data_have_not_changed(u, kernel):
    # Whatever the number is that says so.
    u = u.copy()
    reports = []
    for none in (np.nan, -9999.0):
        u[5:9, 4:20] = none
        _, report = syncline.sweep(
            kernel, u, iterations=500, until=0.1, nodata=none, full_output=True
        )
        reports.append((report.residuals, report.converged))
    assert reports[0] == reports[1] and reports[0][1] is not None
    # Where it does not mean that, NaN spreads: each iteration changes points to it.
    u[5, 4] = np.nan
    with pytest.warns(syncline.ConvergenceWarning):
        _, report = syncline.sweep(kernel, u, iterations=3, until=0.1, full_output=True)
    assert np.isnan(report.residuals).all() and report.converged is None


def test_several_outputs_of_any_kind_and_place(tmp_path, u):
    pytest.importorskip("rasterio")

    def two(a, b):
        return a + 1, b + 2

    (tmp_path / "p").mkdir()
    here = os.path.relpath(tmp_path)
    for names in (
        ["x.npy", "y.tif"],
        ["x.tif", "y.npy"],
        ["x.npy", "p/x.npy"],
        ["x.npy", os.path.join(here, "y.npy")],
    ):
        outputs = [name if name.startswith(".") else str(tmp_path / name) for name in names]
        for _ in range(2):
            made = syncline.sweep(two, (u, u), iterations=2, output=outputs, overwrite=True)
            for n, (one, path) in enumerate(zip(made, outputs)):
                read = syncline.sweep(mean, one, iterations=0)
                assert same(read, u + (n + 1) + (n + 1)) and os.path.exists(path)
                assert isinstance(one, np.ndarray) == path.endswith(".npy")
        for path in outputs:
            os.remove(path)
        assert sorted(os.listdir(tmp_path)) == ["p"] and not os.listdir(tmp_path / "p")
    with pytest.raises(syncline.OutputError, match="in one folder"):
        outputs = [tmp_path / "x.npy", tmp_path / "y.tif"]
        syncline.sweep(two, (u, u), iterations=1, output=outputs, resume=True)
    with pytest.raises(syncline.ArrayError, match="a tuple"):
        syncline.sweep(two, [u, u], iterations=1)


def test_a_folder_of_other_files_is_not_replaced(tmp_path, u):
    pytest.importorskip("zarr")
    (tmp_path / "o.zarr").mkdir()
    syncline.sweep(mean, u, iterations=1, output=tmp_path / "o.zarr", overwrite=True)
    syncline.sweep(mean, u, iterations=1, output=tmp_path / "o.zarr", overwrite=True)
    (tmp_path / "p.zarr").mkdir()
    (tmp_path / "p.zarr" / "precious").touch()
    with pytest.raises(syncline.OutputError, match="none of zarr"):
        syncline.sweep(mean, u, iterations=1, output=tmp_path / "p.zarr", overwrite=True)
    assert os.listdir(tmp_path / "p.zarr") == ["precious"]


def test_progress_ends_with_the_whole(u):
    seen = []
    syncline.sweep(mean, u, iterations=5, progress=lambda *at: seen.append(at))
    assert seen[-1] == (1.0, 1, 1)
