"""When a sweep has converged, where values are infinite or NaN."""

import numpy as np
import pytest
import syncline
from conftest import cases, seed


def cost(d, f):
    best = d
    for offset in ((-1, 0), (0, -1), (0, 1), (1, 0)):
        best = np.minimum(best, d[offset] + (f + f[offset]) / 2)
    return best


@pytest.mark.parametrize("far", [1e30, np.inf])
def test_a_distance_behind_walls_converges(far):
    friction = np.random.default_rng(5).random((60, 70)) + 0.1
    friction[20:30, 20:30] = np.inf
    # A part that no way leads to.
    friction[40:, 39:41] = friction[40, 40:] = np.inf
    start = np.full(friction.shape, far)
    start[10, 10] = 0
    ways = ["south-east", "south-west", "north-west", "north-east"]
    result, report = syncline.sweep(
        cost,
        start,
        friction,
        iterations=2000,
        until=0,
        boundary=far,
        directions=ways,
        full_output=True,
    )
    assert report.converged is not None and report.iterations < 100
    assert (result[50:, 50:] == far).all() and result[35, 35] < 100


def plain(u):
    """Return one iteration of the kernel below."""
    new = u.copy()
    new[1:-1] = np.minimum(u[1:-1], np.minimum(u[:-2], u[2:]) + 1)
    return new


def explicit(u):
    return np.minimum(u, np.minimum(u.old[-1, 0], u.old[1, 0]) + 1)


@pytest.mark.filterwarnings("ignore::syncline.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_changes_are_those_of_a_plain_loop(dtype):
    rng = np.random.default_rng(seed(7))
    for _ in range(cases(40)):
        u = rng.integers(0, 50, rng.integers(3, 60, 2)).astype(dtype)
        odd = rng.choice([np.inf, -np.inf, np.nan], u.shape)
        u = np.where(rng.random(u.shape) < rng.choice([0.02, 0.5, 0.95]), odd.astype(dtype), u)
        iterations, changes, before = int(rng.integers(1, 20)), [], u
        for _ in range(iterations):
            after = plain(before)
            with np.errstate(invalid="ignore"):
                change = np.abs(after - before)
            change[(after == before) | (np.isnan(after) & np.isnan(before))] = 0
            changes.append(float(change.max()))
            before = after
        threads = int(rng.integers(1, 4))
        _, report = syncline.sweep(
            explicit,
            u,
            iterations=iterations,
            until=0,
            exact_stop=True,
            threads=threads,
            full_output=True,
        )
        assert np.array_equal(report.residuals, changes[: report.iterations], equal_nan=True)
        first = next((at for at, change in enumerate(changes) if change <= 0), None)
        assert report.converged == first


def test_what_has_not_converged_says_which_points_are_not_finite():
    u = np.zeros((30, 40))
    u[3, 5:9] = np.nan
    told = r"NaN: .*; 28 points of the result are NaN, the first at \[3, 2\]"
    with pytest.warns(syncline.ConvergenceWarning, match=told):
        syncline.sweep(lambda u: (u.old.n + u.old.w + u.old.e) / 3, u, iterations=3, until=1)
    u[:] = 0
    u[0] = np.inf
    told = r"infinite: .*; 160 points of the result are infinite, the first at \[0, 0\]"
    with pytest.warns(syncline.ConvergenceWarning, match=told):
        syncline.sweep(lambda u: u.old.n, u, iterations=3, until=1)
