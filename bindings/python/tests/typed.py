"""A program of a user, which type checkers must accept as it is."""

import numpy as np
import syncline
from numpy.typing import NDArray


@syncline.kernel
def heat(u):  # type: ignore[no-untyped-def]
    return u + 0.1 * (u.old.n + u.old.s - 2 * u)


def square(x: int) -> int:
    return x * x


def main() -> int:
    plate: NDArray[np.float64] = np.zeros((5, 5))
    warm: NDArray[np.float64] = syncline.sweep(heat, plate, iterations=3)
    _, report = syncline.sweep(heat, "u.npy", iterations=3, output="v.npy", full_output=True)
    passes: int = report.passes + syncline.plan(heat, warm, iterations=9, memory="1G").passes
    with syncline.Pool(2, retries=1) as pool:
        one: int = pool.submit(square, 4).result()
        many: list[int] = list(pool.map(square, range(9), progress=True))
    shared = syncline.empty((3, 4), np.float32)
    return passes + one + len(many) + shared.size
