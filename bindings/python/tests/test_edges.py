"""The words for edges, compared with those of other packages, which use the same ones otherwise."""

import numpy as np
import pytest
import syncline

#: The boundary here, and in numpy.pad, scipy.ndimage, dask.array.overlap and OpenCV.
WORDS = [
    ("nearest", "edge", "nearest", "nearest", "BORDER_REPLICATE"),
    ("edge", "edge", "nearest", "nearest", "BORDER_REPLICATE"),
    ("reflect", "reflect", "mirror", None, "BORDER_REFLECT_101"),
    ("mirror", "reflect", "mirror", None, "BORDER_REFLECT_101"),
    ("periodic", "wrap", "grid-wrap", "periodic", "BORDER_WRAP"),
    ("wrap", "wrap", "grid-wrap", "periodic", "BORDER_WRAP"),
    (5.0, "constant", "constant", 5.0, "BORDER_CONSTANT"),
    # What the others call reflection with the edge itself.
    (None, "symmetric", "reflect", "reflect", "BORDER_REFLECT"),
]
KERNELS = {1: lambda u: u.old[0, 1], 2: lambda u: u.old[0, 2]}
ROW = np.random.default_rng(7).normal(size=(3, 7))


def padded(mode, distance):
    """Return the row with what `numpy.pad` says is beyond its ends."""
    number = {"constant_values": 5.0} if mode == "constant" else {}
    return np.pad(ROW, ((0, 0), (distance, distance)), mode=mode, **number)


@pytest.mark.parametrize("distance", [1, 2])
@pytest.mark.parametrize("here, numpys", [(row[0] or "nearest", row[1]) for row in WORDS])
def test_edges_are_those_of_numpy(distance, here, numpys):
    if numpys == "symmetric" and distance == 2:
        # The row 1 2 3 goes on with 3 2, which is no edge here.
        numpys = "edge"
    made = syncline.sweep(KERNELS[distance], ROW, iterations=1, boundary={1: here})
    assert np.array_equal(made, padded(numpys, distance)[:, 2 * distance :])


@pytest.mark.parametrize("iterations, depth", [(1, None), (4, 1), (9, 4), (23, 23)])
def test_a_torus_is_that_of_numpy(iterations, depth):
    expected = field = np.random.default_rng(8).normal(size=(5, 7))

    def spread(u):
        return (u.old.n + u.old.s + u.old.w + u.old.e) / 4

    for _ in range(iterations):
        north, south = np.roll(expected, 1, 0), np.roll(expected, -1, 0)
        west, east = np.roll(expected, 1, 1), np.roll(expected, -1, 1)
        expected = (north + south + west + east) / 4
    made = syncline.sweep(spread, field, iterations=iterations, boundary="wrap", depth=depth)
    assert np.array_equal(made, expected)


def test_periodic_planes_are_those_of_numpy():
    field = np.random.default_rng(9).normal(size=(4, 3, 5))
    made = syncline.sweep(
        lambda u: u.old[-1, 0, 0] - u.old[1, 0, 0], field, iterations=2, boundary={0: "wrap"}
    )
    for _ in range(2):
        field = np.roll(field, 1, 0) - np.roll(field, -1, 0)
    assert np.array_equal(made, field)


@pytest.mark.parametrize("numpys, scipys", [(row[1], row[2]) for row in WORDS])
def test_edges_of_scipy(numpys, scipys):
    ndimage = pytest.importorskip("scipy.ndimage")
    for distance in KERNELS:
        weights = np.zeros(2 * distance + 1)
        weights[-1] = 1
        made = ndimage.correlate1d(ROW, weights, axis=1, mode=scipys, cval=5.0)
        assert np.array_equal(made, padded(numpys, distance)[:, 2 * distance :])


@pytest.mark.parametrize("numpys, dasks", [(row[1], row[3]) for row in WORDS if row[3]])
def test_edges_of_dask(numpys, dasks):
    overlap = pytest.importorskip("dask.array.overlap").overlap
    array = pytest.importorskip("dask.array").from_array(ROW, chunks=ROW.shape)
    for distance in KERNELS:
        made = overlap(array, depth={1: distance}, boundary={1: dasks}).compute()
        assert np.array_equal(made, padded(numpys, distance))


@pytest.mark.parametrize("numpys, opencvs", [(row[1], row[4]) for row in WORDS])
def test_edges_of_opencv(numpys, opencvs):
    cv2 = pytest.importorskip("cv2")
    for distance in KERNELS:
        border = 0, 0, distance, distance
        made = cv2.copyMakeBorder(ROW, *border, getattr(cv2, opencvs), value=5.0)
        assert np.array_equal(made, padded(numpys, distance))
