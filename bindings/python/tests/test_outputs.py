"""The outputs of sweeps: which paths are written, and that no result is lost."""

import errno
import os

import numpy as np
import pytest
import syncline
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
def test_an_input_is_never_the_output(tmp_path, u, suffix):
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
    outputs = [path, other, link, tmp_path / "same.npy"]
    for kernel, field, coefficient in given:
        for output in outputs if suffix == ".npy" else outputs[:3]:
            with pytest.raises(syncline.OutputError, match="is the input"):
                syncline.sweep(
                    kernel, field, coefficient, iterations=1, output=output, overwrite=True
                )
    assert same(read(path), u) and same(read(other), u)


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


@pytest.mark.parametrize("suffix", suffixes())
def test_what_the_last_step_needs_is_checked_before_the_first(tmp_path, u, suffix):
    def untouched(progress):
        raise AssertionError("the sweep has begun")

    def refused(output, told, **options):
        with pytest.raises(syncline.OutputError, match=told):
            syncline.sweep(mean, u, iterations=5, output=output, progress=untouched, **options)

    refused(tmp_path / ("x" * 300 + suffix), "is|name")
    refused(tmp_path / ("x" * 230 + suffix), "bytes, more than 200")
    refused(tmp_path / "absent" / f"o{suffix}", "no folder")
    (tmp_path / f"file{suffix}").mkdir()
    if suffix == ".tif":
        refused(tmp_path / f"file{suffix}", "directory", overwrite=True)
    if suffix == ".zarr":
        refused(tmp_path / "o.zarr", "sizes", chunks=(5, 5, 5))
        wide = np.lib.stride_tricks.as_strided(u, (9000, 9000), (0, 0))
        with pytest.raises(syncline.MemoryBoundError, match="has chunks of 9000 x 9000"):
            options = {"chunks": (9000, 9000), "memory": "64M", "output": tmp_path / "o.zarr"}
            syncline.sweep(mean, wide, iterations=1, **options)
    assert sorted(os.listdir(tmp_path)) == [f"file{suffix}"]


def test_the_results_of_other_fields_are_not_lost(tmp_path, monkeypatch, u):
    pytest.importorskip("rasterio")
    real = syncline._geotiff.write

    def full(path, result, field, most):
        if field.name == "b":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, result, field, most)

    def every(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    outputs = [tmp_path / name for name in ("a.tif", "b.tif")]
    for write, left in ((full, 1), (every, 0)):
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
