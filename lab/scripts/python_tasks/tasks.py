"""What the workers of the compared pools run."""

import time


def preload():
    import numpy  # noqa: F401


def nothing(_=None):
    return None


def brief(_):
    end = time.perf_counter() + 1e-3
    while time.perf_counter() < end:
        pass


def double(array):
    return 2 * array
