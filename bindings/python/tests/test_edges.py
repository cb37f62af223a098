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


def padded(u, mode, distance):
    number = {"constant_values": 5.0} if mode == "constant" else {}
    return np.pad(u, ((0, 0), (distance, distance)), mode=mode, **number)


@pytest.mark.parametrize("distance", [1, 2])
@pytest.mark.parametrize("here, numpys, scipys, dasks, opencvs", WORDS)
def test_edges_are_called_as_the_table_says(rng, distance, here, numpys, scipys, dasks, opencvs):
    u = rng.normal(size=(6, 7))
    expected = padded(u, numpys, distance)
    if here is not None:
        made = syncline.sweep(KERNELS[distance], u, iterations=1, boundary={1: here})
        assert np.array_equal(made, expected[:, 2 * distance :])
    elif distance == 1:
        made = syncline.sweep(KERNELS[1], u, iterations=1, boundary={1: "nearest"})
        assert np.array_equal(made, expected[:, 2:])
    ndimage = pytest.importorskip("scipy.ndimage")
    weights = np.zeros(2 * distance + 1)
    weights[-1] = 1
    shifted = ndimage.correlate1d(u, weights, axis=1, mode=scipys, cval=5.0)
    assert np.array_equal(shifted, expected[:, 2 * distance :])
    overlap = pytest.importorskip("dask.array.overlap")
    array = pytest.importorskip("dask.array").from_array(u, chunks=u.shape)
    if dasks is not None:
        made = overlap.overlap(array, depth={1: distance}, boundary={1: dasks}).compute()
        assert np.array_equal(made, expected)
    cv2 = pytest.importorskip("cv2")
    made = cv2.copyMakeBorder(u, 0, 0, distance, distance, getattr(cv2, opencvs), value=5.0)
    assert np.array_equal(made, expected)
