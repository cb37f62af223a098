"""What the tests share: how much a run tries, and plain loops, written without the package.

=========  ==================  ========================================  ================  ======
tier       set by              tests                                     random cases      seeds
=========  ==================  ========================================  ================  ======
``quick``  nothing             all but those marked with `full`, `soak`  an eighth, >= 2   fixed
``full``   ``make test-full``  all but those marked with `soak`          as written        fixed
``soak``   ``make soak``       all                                       20 times          random
=========  ==================  ========================================  ================  ======

The variable ``SYNCLINE_TESTS`` names the tier, as for the tests in Rust. A test asks for its number
of cases (`cases`) and for its seed (`seed`); no other code depends on the tier.
"""

import collections
import itertools
import os
import random
import signal
import time

import hypothesis
import numpy as np
import pytest
import syncline

# A shell lets what it starts in the background ignore SIGINT, and so do the programs which that
# starts: no Ctrl-C, and no test of one, would have an effect. Programs that pytest starts get the
# default again.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

TIERS = ("quick", "full", "soak")
TIER = os.environ.get("SYNCLINE_TESTS") or "quick"
if TIER not in TIERS:
    raise pytest.UsageError(f"SYNCLINE_TESTS={TIER}: the tiers are {', '.join(TIERS)}")


def cases(full):
    """Return the number of random cases, kills or rounds of a test that has `full` in that tier."""
    return {"quick": min(max(-(-full // 8), 2), full), "full": full, "soak": 20 * full}[TIER]


def seed(fixed):
    """Return the seed of a test: `fixed`, but a new one in soak. ``SYNCLINE_SEED`` replaces both.

    A test that fails must print its seed.
    """
    given = os.environ.get("SYNCLINE_SEED")
    if given is not None:
        return int(given)
    return random.SystemRandom().randrange(10**9) if TIER == "soak" else fixed


# A failure of soak prints its case, which is not kept in a file. On a busy machine cases are made
# slowly, which is no failure.
for tier in TIERS:
    hypothesis.settings.register_profile(
        tier,
        deadline=None,
        print_blob=True,
        database=None,
        derandomize=tier != "soak",
        max_examples=cases(100),
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
hypothesis.settings.load_profile(TIER)


def pytest_configure(config):
    config.addinivalue_line("markers", "full(why): a test that the quick tier leaves out")
    config.addinivalue_line("markers", "soak(why): a test that only the tier soak has")
    config.addinivalue_line("markers", "needs(package): a test that another package has to be for")


def pytest_collection_modifyitems(items):
    for item in items:
        for tier in TIERS[TIERS.index(TIER) + 1 :]:
            mark = item.get_closest_marker(tier)
            if mark is not None:
                item.add_marker(pytest.mark.skip(reason=f"{tier}: {mark.args[0]}"))


def pytest_terminal_summary(terminalreporter):
    """Print what was skipped, as the tests in Rust do."""
    skipped = terminalreporter.stats.get("skipped", ())
    reasons = collections.Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in skipped
        if isinstance(report.longrepr, tuple)
    )
    for reason, count in sorted(reasons.items()):
        word = "" if reason.startswith(("full: ", "soak: ")) else "skipped: "
        terminalreporter.write_line(f"{word}{reason} ({count} of the tests in Python)")


OFFSETS = {
    "n": (-1, 0),
    "s": (1, 0),
    "e": (0, 1),
    "w": (0, -1),
    "nw": (-1, -1),
    "ne": (-1, 1),
    "sw": (1, -1),
    "se": (1, 1),
}


def _beyond(index, length, boundary):
    """Return the index that stands for one beyond an edge; `None` for a number."""
    if 0 <= index < length:
        return index
    if boundary == "nearest":
        return min(max(index, 0), length - 1)
    if boundary == "reflect":
        index = -index if index < 0 else 2 * (length - 1) - index
        return min(max(index, 0), length - 1)
    if boundary == "periodic":
        return index % length
    return None


class Here:
    """The arrays around a point, as scalars of numpy."""

    def __init__(self, new, old, at, boundary):
        self.new, self.before, self.at, self.boundary = new, old, at, boundary

    def read(self, values, offset):
        offset = (0,) * (values.ndim - len(offset)) + tuple(offset)
        index = []
        for place, step, length, edge in zip(self.at, offset, values.shape, self.boundary):
            found = _beyond(place + step, length, edge)
            if found is None:
                # Only a branch that numbers rule out reads beyond a fixed edge: any value will do.
                return values.dtype.type(0 if isinstance(edge, str) else edge)
            index.append(found)
        return values[tuple(index)]


def _scalar(here):
    """Return the value of an array at a point, with its neighbours as attributes."""
    value = here.read(here.new, (0,) * here.new.ndim)

    class Scalar(type(value)):
        def __getattr__(self, name):
            if name not in OFFSETS:
                raise AttributeError(name)
            return here.read(here.new, OFFSETS[name])

        def __getitem__(self, offset):
            return here.read(here.new, offset)

        @property
        def old(self):
            return _scalar(Here(here.before, here.before, here.at, here.boundary))

    return Scalar(value)


def plain_loops(kernel, fields, coefficients, iterations, reads, boundary="fixed"):
    """Run a kernel by plain loops over scalars of numpy.

    ``reads`` are the offsets that the kernel reads: with a fixed boundary, a point stays if one of
    them is missing.
    """
    fields = [field.copy() for field in fields]
    shape = fields[0].shape
    edges = boundary if isinstance(boundary, tuple) else (boundary,) * len(shape)
    with np.errstate(all="ignore"):
        for _ in range(iterations):
            old = [field.copy() for field in fields]
            for at in itertools.product(*map(range, shape)):
                missing = any(
                    edge == "fixed" and not 0 <= place + step < length
                    for offset in reads
                    for place, step, length, edge in zip(at, offset, shape, edges)
                )
                if missing:
                    continue
                arrays = [Here(new, before, at, edges) for new, before in zip(fields, old)]
                arrays += [Here(array, array, at, edges) for array in coefficients]
                results = kernel(*map(_scalar, arrays))
                results = results if isinstance(results, tuple) else (results,)
                for field, result in zip(fields, results):
                    field[at] = result
    return fields


def same(left, right):
    """Return whether two arrays have the same type, shape and bits, any two NaNs being equal."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.kind != "f":
        return bool((left == right).all())
    bits = f"u{left.itemsize}"
    equal = left.view(bits) == right.view(bits)
    return bool((equal | (np.isnan(left) & np.isnan(right))).all())


def mean(u):
    return (u.old.n + u.old.s + u.old.e + u.old.w) / 4


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def u(rng):
    return rng.normal(size=(40, 50))


@pytest.fixture
def expected(u):
    """Return five iterations of `mean`."""
    return syncline.sweep(mean, u, iterations=5)


#: The seconds after which a wait is a failure.
LIMIT = 100


@pytest.fixture
def pool():
    """Return a pool of two workers."""
    with syncline.Pool(2) as pool:
        yield pool


def there(path):
    """Wait until a file is there."""
    until = time.monotonic() + LIMIT
    while not path.exists():
        assert time.monotonic() < until, f"{path} is missing"
        time.sleep(0.001)


def gone(pid):
    """Wait until a process has ended."""
    until = time.monotonic() + LIMIT
    while True:
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return
        except (FileNotFoundError, ProcessLookupError):
            return
        assert time.monotonic() < until, f"process {pid} is left"
        time.sleep(0.01)
