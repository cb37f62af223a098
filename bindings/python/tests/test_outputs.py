"""The outputs of sweeps: which paths are written, and that no result is lost."""

import contextlib
import errno
import os
import pathlib
import shutil
import tempfile

import numpy as np
import pytest
import syncline
import syncline._output
from conftest import mean, same


def two(a, b):
    return a + 1, b + 2


def suffixes():
    """Return the kinds of outputs that can be written here."""
    kinds = [pytest.param(".npy")]
    for suffix, package in ((".zarr", "zarr"), (".tif", "rasterio")):
        kinds.append(pytest.param(suffix, marks=pytest.mark.needs(package)))
    return kinds


@pytest.fixture(autouse=True)
def needed(request):
    for mark in request.node.iter_markers("needs"):
        pytest.importorskip(mark.args[0])


def read(path):
    """Return the array in a file."""
    return np.asarray(syncline.sweep(mean, path, iterations=0))


def untouched(*_):
    raise AssertionError("the sweep has begun")


def refused(told, kernel, *arrays, output, kind=syncline.OutputError, **options):
    """Check that a sweep is refused before it begins."""
    options = {"iterations": 1, "overwrite": True, "progress": untouched} | options
    with pytest.raises(kind, match=told):
        syncline.sweep(kernel, *arrays, output=output, **options)


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def elsewhere(tmp_path):
    """Return a new folder on another file system than the other files of a test."""
    home = "/dev/shm"
    if not os.access(home, os.W_OK) or os.stat(home).st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("no other file system in /dev/shm")
    with tempfile.TemporaryDirectory(dir=home) as folder:
        yield pathlib.Path(folder)


@contextlib.contextmanager
def another_user():
    """Have the rights of a user without any, for a while."""
    groups = os.getgroups()
    try:
        os.setgroups([])
        os.setresgid(65534, 65534, 0)
        os.setresuid(65534, 65534, 0)
    except OSError as error:
        pytest.skip(f"root cannot become another user here: {error}")
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(groups)


@pytest.mark.parametrize("suffix", suffixes())
def test_the_target_of_a_link_is_replaced(tmp_path, u, expected, suffix):
    (tmp_path / "scratch").mkdir()
    target, link = tmp_path / "scratch" / f"o{suffix}", tmp_path / f"link{suffix}"
    syncline.sweep(mean, u, iterations=1, output=target)
    link.symlink_to(target)
    with pytest.raises(syncline.OutputError, match="overwrite=True"):
        syncline.sweep(mean, u, iterations=5, output=link)
    syncline.sweep(mean, u, iterations=5, output=link, overwrite=True)
    assert link.is_symlink() and same(read(target), expected)
    assert sorted(os.listdir(tmp_path)) == [link.name, "scratch"]
    assert os.listdir(tmp_path / "scratch") == [target.name]


@pytest.mark.parametrize("suffix", suffixes())
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_link_to_nothing_is_refused(tmp_path, u, suffix, overwrite):
    link = tmp_path / f"link{suffix}"
    link.symlink_to(tmp_path / f"absent{suffix}")
    with pytest.raises(syncline.OutputError, match="is a link to nothing"):
        syncline.sweep(mean, u, iterations=1, output=link, overwrite=overwrite)
    assert link.is_symlink() and os.listdir(tmp_path) == [link.name]


@pytest.mark.parametrize("suffix", suffixes())
def test_an_input_is_never_the_output(tmp_path, monkeypatch, u, suffix):
    path, other = tmp_path / f"u{suffix}", tmp_path / f"f{suffix}"
    for one in (path, other):
        syncline.sweep(mean, u, iterations=0, output=one)
    link = tmp_path / f"link{suffix}"
    link.symlink_to(path)

    def sum_of(u, f):
        return u + f

    given = [(sum_of, path, other)]
    if suffix == ".npy":
        given.append((sum_of, np.load(path, mmap_mode="r"), np.load(other, mmap_mode="r")))
        os.link(path, tmp_path / "same.npy")
        # A name need not look like one.
        os.link(path, tmp_path / "name")
        monkeypatch.chdir(tmp_path)
        given.append((sum_of, "name", other))
    outputs = [path, other, link, tmp_path / "same.npy"]
    for kernel, field, coefficient in given:
        for output in outputs if suffix == ".npy" else outputs[:3]:
            with pytest.raises(syncline.OutputError, match="is the input"):
                syncline.sweep(
                    kernel, field, coefficient, iterations=1, output=output, overwrite=True
                )
    assert same(read(path), u) and same(read(other), u)


def test_a_mapped_file_is_an_input_whatever_the_number_of_its_device(tmp_path, monkeypatch, u):
    path, other = tmp_path / "with a space.npy", tmp_path / "o.npy"
    np.save(path, u)
    mapped = np.load(path, mmap_mode="r")
    # As subvolumes of btrfs have it.
    monkeypatch.setattr(os, "makedev", lambda *_: -1)
    refused("is the input", mean, mapped, output=path)
    np.save(other, u + 1)
    os.replace(other, path)
    # The mapped file has no name any more.
    assert same(np.asarray(syncline.sweep(mean, mapped, iterations=0, output=other)), u)
    syncline.sweep(mean, mapped, iterations=0, output=path, overwrite=True)
    assert same(np.load(path), u)


def test_an_output_does_not_hold_an_input(tmp_path, u):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "o.zarr", mode="w")
    group.create_array("h", data=u)
    for field in (group["h"], zarr.open_array(tmp_path / "o.zarr" / "h", mode="r")):
        with pytest.raises(syncline.OutputError, match="holds the input"):
            syncline.sweep(mean, field, iterations=1, output=tmp_path / "o.zarr", overwrite=True)
    with pytest.raises(syncline.OutputError, match="lies in the input"):
        syncline.sweep(mean, group["h"], iterations=1, output=tmp_path / "o.zarr" / "h" / "x.npy")
    assert same(group["h"][:], u)


def added(u, f):
    return u + f


@pytest.fixture
def store(tmp_path, monkeypatch, u):
    """Return the path of a store of xarray in the current folder; it must stay as it is."""
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    monkeypatch.chdir(tmp_path)
    data = {"q": (("y", "x"), u), "p": (("y", "x"), u + 1), "m": (("y", "x"), u > 0)}
    xarray.Dataset(data).to_zarr("s.zarr", consolidated=False)
    before = xarray.open_zarr("s.zarr", consolidated=False).load()
    yield "s.zarr"
    assert xarray.open_zarr("s.zarr", consolidated=False).load().identical(before)
    assert sorted(os.listdir("s.zarr")) == ["m", "p", "q", "zarr.json"]


def test_a_store_is_not_replaced_while_one_of_its_variables_is_read(store, u):
    import xarray

    os.symlink(store, "l.zarr")
    os.symlink("s.zarr/q", "q.zarr")
    lazy = xarray.open_zarr(store, consolidated=False, chunks=None)
    fields = ["s.zarr/q", "l.zarr/q", "./s.zarr/../s.zarr/q", os.path.abspath("s.zarr/q"), lazy.q]
    fields += [lazy.q.T.transpose("y", "x"), lazy.q[:, ::-1]]
    with contextlib.suppress(ImportError):
        import dask.array

        chunked = xarray.open_zarr(store, consolidated=False, chunks={"x": 10})
        parts = dask.array.from_zarr(store, component="q")
        fields += [chunked.q, 2 * chunked.q.rolling(x=3).mean(), chunked.q.data, parts, parts[::2]]
        fields += [dask.optimize(parts + 1)[0]]
    for field in fields:
        for output in (store, "l.zarr", os.path.abspath(store)):
            refused("holds the input", mean, field, output=output)
        for output in ("s.zarr/r.zarr", "l.zarr/r.zarr", "s.zarr/r.npy", "s.zarr/q/r.zarr"):
            refused("lies in the input", mean, field, output=output)
        refused("is the input", mean, field, output="q.zarr")
    refused("holds the input", added, u, "s.zarr/p", output=store)
    refused("holds the input", added, u, lazy.p, output=store)
    refused("holds the input", lambda u, m: np.where(m, u, 0), u, lazy.m, output=store)
    # What is in memory is no file.
    syncline.sweep(mean, lazy.q.load(), iterations=1, output="r.zarr")
    syncline.sweep(mean, lazy.q.load(), iterations=1, output="r.zarr", overwrite=True)


def test_a_store_of_one_variable_is_not_replaced_while_it_is_read(store, u):
    import xarray

    xarray.Dataset({"q": (("y", "x"), u)}).to_zarr("one.zarr", consolidated=False)
    os.symlink("one.zarr", "link.zarr")
    for field in ("one.zarr", "link.zarr", "one.zarr/"):
        for output in ("one.zarr", "link.zarr", "one.zarr/", "one.zarr/."):
            refused("is the input", mean, field, output=output)
        refused("lies in the input", mean, field, output="one.zarr/r.zarr")
    assert same(np.asarray(xarray.open_zarr("one.zarr", consolidated=False).q), u)


def test_the_sources_of_a_mosaic_are_inputs(tmp_path, monkeypatch, u):
    rasterio = pytest.importorskip("rasterio")
    monkeypatch.chdir(tmp_path)
    band = '<SourceFilename relativeToVRT="1">{}</SourceFilename><SourceBand>1</SourceBand>'
    text = (
        '<VRTDataset rasterXSize="50" rasterYSize="40"><VRTRasterBand dataType="Float64" band="1">'
        f"<SimpleSource>{band}</SimpleSource></VRTRasterBand></VRTDataset>"
    )
    syncline.sweep(mean, u, iterations=0, output="a.tif")
    for name, source in (("v.vrt", "a.tif"), ("w.vrt", "v.vrt")):
        with open(name, "w") as file:
            file.write(text.format(source))
    before = (tmp_path / "a.tif").read_bytes()
    fields = ["v.vrt", "w.vrt", rasterio.open("v.vrt"), rasterio.open("a.tif")]
    with contextlib.suppress(ImportError):
        import rioxarray

        for options in ({}, {"chunks": {"x": 10}}):
            fields.append(rioxarray.open_rasterio("w.vrt", **options).squeeze("band"))
    for field in fields:
        refused("is the input", mean, field, output="a.tif")
        refused("is the input", added, u, field, output="a.tif")
    assert (tmp_path / "a.tif").read_bytes() == before


def test_files_in_a_graph_are_inputs(tmp_path, u):
    dask = pytest.importorskip("dask")
    pytest.importorskip("dask.array")
    path = tmp_path / "u.npy"
    np.save(path, u)
    mapped = np.load(path, mmap_mode="r")
    delayed = dask.array.from_delayed(dask.delayed(np.load)(str(path)), u.shape, u.dtype)
    blocks = dask.array.ones(u.shape, chunks=(10, 50))
    for field in (
        delayed,
        delayed[::-1] + 1,
        dask.array.map_blocks(lambda block, name: np.load(name)[:10], blocks, path),
        dask.array.map_blocks(lambda block: mapped[:10], blocks),
        np.ma.masked_array(mapped, u > 1, fill_value=-9),
    ):
        refused("is the input", mean, field, output=path)
        # Another path is free.
        syncline.sweep(mean, field, iterations=1, output=tmp_path / "o.npy", overwrite=True)
    assert same(np.load(path), u)


def test_the_search_for_files_takes_no_more_than_it_looks_at(tmp_path, monkeypatch):
    monkeypatch.setattr(syncline._sources, "_MOST", 3000)
    monkeypatch.setattr(syncline._sources, "_FEW", 100)
    path, taken = tmp_path / "u.npy", []
    path.touch()

    class Counted(list):
        def __iter__(self):
            return (taken.append(one) or one for one in super().__iter__())

    many = [Counted(object() for _ in range(2000)) for _ in range(50)]
    assert str(path) in syncline._sources.files_of([many, [str(path)]])
    assert len(taken) <= 2 * 3000
    # Numbers lead nowhere.
    numbers = [list(map(float, range(90))) for _ in range(90)]
    assert str(path) in syncline._sources.files_of([numbers, many[:1], [[[str(path)]]]])


def test_one_output_does_not_lie_in_another(tmp_path, u):
    zarr = pytest.importorskip("zarr")
    zarr.open_group(tmp_path / "o.zarr", mode="w")
    (tmp_path / "link").symlink_to(tmp_path / "o.zarr")
    for inner in ("o.zarr/i.npy", "link/i.npy", "o.zarr/i.zarr"):
        for names in ((inner, "o.zarr"), ("o.zarr", inner)):
            refused("lies in the output", two, (u, u), output=[tmp_path / name for name in names])
    assert os.listdir(tmp_path / "o.zarr") == ["zarr.json"]


@pytest.mark.parametrize("suffix", suffixes())
def test_only_a_folder_is_named_with_a_slash(tmp_path, u, suffix):
    for end in ("/", "//", "/.", "/./"):
        path = f"{tmp_path}/o{suffix}{end}"
        if suffix == ".zarr":
            syncline.sweep(mean, u, iterations=0, output=path, overwrite=True)
            assert same(read(tmp_path / "o.zarr"), u)
        else:
            refused("is the name of a folder", mean, u, output=path)
    assert os.listdir(tmp_path) == ([f"o{suffix}"] if suffix == ".zarr" else [])


def test_only_a_store_is_replaced_and_as_a_whole(tmp_path, u):
    zarr = pytest.importorskip("zarr")
    (tmp_path / "plain.zarr").mkdir()
    (tmp_path / "plain.zarr" / "notes.txt").write_text("of the user")
    refused("none of zarr", mean, u, output=tmp_path / "plain.zarr")
    assert os.listdir(tmp_path / "plain.zarr") == ["notes.txt"]
    group = zarr.open_group(tmp_path / "o.zarr", mode="w")
    group.create_array("h", data=u)
    (tmp_path / "o.zarr" / "notes.txt").write_text("of the user")
    refused("overwrite=True", mean, u, output=tmp_path / "o.zarr", overwrite=False)
    syncline.sweep(mean, u, iterations=0, output=tmp_path / "o.zarr", overwrite=True)
    assert same(zarr.open_array(tmp_path / "o.zarr", mode="r")[:], u)
    assert not {"h", "notes.txt"} & set(os.listdir(tmp_path / "o.zarr"))


def test_what_belongs_to_another_user_is_refused_first(u):
    pytest.importorskip("zarr")
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    told = "cannot be replaced: it belongs to another user"
    # Those of pytest are closed to other users.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        home = pathlib.Path(folder)
        sticky = home / "sticky"
        sticky.mkdir()
        home.chmod(0o777)
        sticky.chmod(0o1777)
        for path in (home / "o.zarr", home / "shared.zarr", sticky / "o.zarr", sticky / "o.npy"):
            syncline.sweep(mean, u, iterations=0, output=path)
        (home / "shared.zarr").chmod(0o777)
        for name in ("o.tif", "other.tif.msk", "mine.npy"):
            shutil.copy(sticky / "o.npy", sticky / name)
        os.chown(sticky / "mine.npy", 65534, 65534)
        with another_user():
            for name in ("o.zarr", "shared.zarr"):
                refused(f"{name} may not|{name}/c may not", mean, u, output=home / name)
            refused(told, mean, u, output=sticky / "o.zarr")
            with contextlib.suppress(ImportError):
                import rasterio  # noqa: F401

                for name in ("o.tif", "other.tif"):
                    refused(told, mean, u, output=sticky / name)
            refused(told, two, (u, u), output=[home / "new.npy", sticky / "o.npy"])
            outputs = [home / "new.npy", sticky / "mine.npy"]
            syncline.sweep(two, (u, u), iterations=1, output=outputs, overwrite=True)
        assert same(np.load(sticky / "mine.npy"), u + 2)
        assert not list(home.glob(".*")) and not list(sticky.glob(".*"))


@pytest.mark.parametrize("suffix", suffixes())
def test_what_the_last_step_needs_is_checked_before_the_first(tmp_path, u, suffix):
    refused("is|name", mean, u, output=tmp_path / ("x" * 300 + suffix))
    refused("bytes, more than 200", mean, u, output=tmp_path / ("x" * 230 + suffix))
    refused("no folder", mean, u, output=tmp_path / "absent" / f"o{suffix}")
    (tmp_path / f"file{suffix}").mkdir()
    if suffix == ".tif":
        refused("directory", mean, u, output=tmp_path / f"file{suffix}")
    if suffix == ".zarr":
        refused("sizes", mean, u, output=tmp_path / "o.zarr", chunks=(5, 5, 5))
        wide = np.lib.stride_tricks.as_strided(u, (9000, 9000), (0, 0))
        with pytest.raises(syncline.MemoryBoundError, match="has chunks of 9000 x 9000"):
            options = {"chunks": (9000, 9000), "memory": "64M", "output": tmp_path / "o.zarr"}
            syncline.sweep(mean, wide, iterations=1, **options)
    assert sorted(os.listdir(tmp_path)) == [f"file{suffix}"]


def test_the_results_of_other_fields_are_not_lost(tmp_path, monkeypatch, u):
    pytest.importorskip("rasterio")
    real = syncline._geotiff.write

    def second(path, result, field, most):
        (full if field.name == "b" else real)(path, result, field, most)

    outputs = [tmp_path / name for name in ("a.tif", "b.tif")]
    for write, left in ((second, 1), (full, 0)):
        monkeypatch.setattr(syncline._geotiff, "write", write)
        with pytest.raises(syncline.FileError, match="the result is in") as told:
            syncline.sweep(two, (u, u), iterations=1, output=outputs)
        assert outputs[0].exists() == bool(left) and not outputs[1].exists()
        kept = sorted(path for path in tmp_path.iterdir() if path.suffix == ".npy")
        assert len(kept) == 2 - left and all(str(path) in str(told.value) for path in kept)
        assert same(np.load(kept[-1]), u + 2)
        for path in tmp_path.iterdir():
            path.unlink()


def test_room_is_checked_before_anything_is_read(tmp_path, u):
    zarr = pytest.importorskip("zarr")
    # Sixteen times what the file system has, without a chunk.
    rows = 16 * os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize // (8 << 10)
    field = zarr.create_array(
        tmp_path / "u.zarr", shape=(rows, 1 << 10), chunks=(1 << 10, 1 << 10), dtype="f8"
    )
    for output in (tmp_path / "o.npy", tmp_path / "o.zarr"):
        with pytest.raises(syncline.FileError, match="free, but the sweep needs"):
            syncline.sweep(mean, field, iterations=1, output=output, memory="256M")
    assert os.listdir(tmp_path) == ["u.zarr"]


def test_room_is_checked_where_each_result_goes(tmp_path, monkeypatch, elsewhere, u):
    pytest.importorskip("rasterio")
    usage = shutil.disk_usage

    def little(path):
        found = usage(path)
        is_there = os.stat(path).st_dev == os.stat(elsewhere).st_dev
        return found._replace(free=u.nbytes - 1) if is_there else found

    monkeypatch.setattr(shutil, "disk_usage", little)
    target = elsewhere / "r.tif"
    target.touch()
    (tmp_path / "l.tif").symlink_to(target)
    told = f"{elsewhere} has .* free, but the sweep needs .* for results there"
    for outputs in (
        [target],
        [tmp_path / "l.tif"],
        [tmp_path / "a.npy", elsewhere / "b.npy"],
        [elsewhere / "a.npy", tmp_path / "b.npy"],
        [tmp_path / "a.npy", target],
    ):
        kernel, field = (mean, u) if len(outputs) == 1 else (two, (u, u))
        refused(told, kernel, field, output=outputs, kind=syncline.FileError)
    assert os.listdir(tmp_path) == ["l.tif"] and os.listdir(elsewhere) == ["r.tif"]


def kept_by(error):
    """Return the path that an error names, of a result that could not be written."""
    return str(error.value).rpartition("the result is in ")[2]


def test_the_target_of_a_link_is_on_another_file_system(
    tmp_path, monkeypatch, elsewhere, u, expected
):
    pytest.importorskip("rasterio")
    target, link = elsewhere / "r.tif", tmp_path / "l.tif"
    target.touch()
    link.symlink_to(target)
    options = {"iterations": 5, "output": link, "overwrite": True}
    syncline.sweep(mean, u, **options)
    assert same(read(target), expected) and link.is_symlink()
    monkeypatch.setattr(syncline._geotiff, "write", full)
    with pytest.raises(syncline.FileError, match="No space left on device") as error:
        syncline.sweep(mean, u, **options)
    assert same(np.load(kept_by(error)), expected)
    assert len(os.listdir(elsewhere)) == 2 and os.listdir(tmp_path) == ["l.tif"]


def test_no_result_is_lost_on_another_file_system(tmp_path, monkeypatch, elsewhere, u):
    outputs = [tmp_path / "a.npy", elsewhere / "b.npy"]
    syncline.sweep(two, (u, u), iterations=1, output=outputs)
    assert same(np.load(outputs[0]), u + 1) and same(np.load(outputs[1]), u + 2)
    real = shutil.copyfile

    def copyfile(source, target):
        (full if os.fspath(target).startswith(str(elsewhere)) else real)(source, target)

    monkeypatch.setattr(shutil, "copyfile", copyfile)
    with pytest.raises(syncline.FileError, match=r"cannot write .*/b\.npy: .*No space") as error:
        syncline.sweep(two, (u, u), iterations=2, output=outputs, overwrite=True)
    assert same(np.load(outputs[0]), u + 1 + 1) and same(np.load(outputs[1]), u + 2)
    assert same(np.load(kept_by(error)), u + 2 + 2)


def test_kept_results_have_names_of_their_own(tmp_path, monkeypatch, u):
    pytest.importorskip("rasterio")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    outputs = [tmp_path / name / "o.tif" for name in ("one", "two")]
    monkeypatch.setattr(syncline._geotiff, "write", full)
    with pytest.raises(syncline.FileError) as error:
        syncline.sweep(two, (u, u), iterations=1, output=outputs)
    kept = sorted((tmp_path / "one").iterdir())
    assert len(kept) == 2 and all(str(path) in str(error.value) for path in kept)
    assert {float(np.load(path)[0, 0] - u[0, 0]) for path in kept} == {1, 2}


def interrupted(*_):
    raise KeyboardInterrupt


def test_an_interrupt_of_the_last_step_loses_no_result(tmp_path, monkeypatch, u):
    pytest.importorskip("rasterio")
    monkeypatch.setattr(syncline._geotiff, "write", interrupted)
    outputs = [tmp_path / name for name in ("a.tif", "b.tif")]
    with pytest.raises(KeyboardInterrupt) as error:
        syncline.sweep(two, (u, u), iterations=1, output=outputs)
    kept = [note.rpartition("the result is in ")[2] for note in error.value.__notes__]
    assert [float(np.load(path)[0, 0] - u[0, 0]) for path in kept] == [1, 2]
    assert sorted(map(str, tmp_path.iterdir())) == sorted(kept)


@pytest.mark.parametrize("suffix", suffixes())
def test_a_relative_path_is_that_of_the_folder_in_which_the_sweep_began(
    tmp_path, monkeypatch, u, expected, suffix
):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    path = f"o{suffix}"
    field = u
    with contextlib.suppress(ImportError):
        import xarray

        field = xarray.DataArray(u)
    options = {"output": path, "progress": lambda *_: os.chdir(tmp_path / "other")}
    made = syncline.sweep(mean, field, iterations=5, **options)
    if isinstance(made, str):
        assert made == path
    else:
        assert same(np.asarray(made), expected)
    assert os.listdir() == [] and same(read(tmp_path / path), expected)


def test_a_folder_that_is_gone_is_an_error_at_the_last_step(tmp_path, u):
    home, part = tmp_path / "home", tmp_path / "part"
    home.mkdir()
    part.touch()
    with syncline._files.Stage(part) as stage:
        output = syncline._output.Output(home / "o.npy", stage, True, None)
        home.rmdir()
        with pytest.raises(FileNotFoundError):
            output._replace(str(part))


def test_a_result_stays_where_it_is_if_no_name_can_be_had(tmp_path, monkeypatch, u, expected):
    pytest.importorskip("rasterio")
    monkeypatch.setattr(syncline._geotiff, "write", full)
    monkeypatch.setattr(syncline._files._syncline, "keep_file", lambda path, target: None)
    with pytest.raises(syncline.FileError, match="No space") as error:
        syncline.sweep(mean, u, iterations=5, output=tmp_path / "o.tif")
    monkeypatch.undo()
    # Another run removes no such folder.
    syncline.sweep(mean, u, iterations=1, output=tmp_path / "o.tif")
    assert same(np.load(kept_by(error)), expected)
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".npy")]


@pytest.mark.parametrize("suffix", suffixes())
def test_a_result_that_cannot_be_read_again_is_in_its_place(tmp_path, monkeypatch, u, suffix):
    xarray = pytest.importorskip("xarray")
    monkeypatch.setattr(syncline._output.Output, "_view", full)
    path = tmp_path / f"o{suffix}"
    with pytest.raises(syncline.FileError, match=f"the result is in {path}, but: .*No space"):
        syncline.sweep(mean, xarray.DataArray(u), iterations=0, output=path)
    monkeypatch.undo()
    assert same(read(path), u)


def test_an_error_tells_where_complete_passes_are(tmp_path, rng):
    u, path, passes = rng.normal(size=(300, 400)), tmp_path / "o.npy", tmp_path / "o.npy.syncline"

    def block(*_):
        with contextlib.suppress(FileExistsError):
            if passes.exists() and not path.exists():
                path.mkdir()

    told = ""
    # The callback has to be called between the first pass and the end of the last one.
    for iterations in (20, 80, 320, 1280, 5120):
        options = {"iterations": iterations, "depth": 2, "output": path}
        try:
            syncline.sweep(mean, u, overwrite=True, progress=block, **options)
        except syncline.FileError as error:
            told = str(error)
            break
        path.unlink()
    assert f" is in {passes}" in told and told.endswith(": resume=True goes on from there")
    path.rmdir()
    result, report = syncline.sweep(mean, u, resume=True, full_output=True, **options)
    assert report.resumed
    assert same(np.asarray(result), syncline.sweep(mean, u, iterations=iterations))
