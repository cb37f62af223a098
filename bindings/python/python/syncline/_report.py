"""What a sweep will do, and what it has done: plans, reports and their pictures."""

import math

import numpy as np

from ._sizes import told_size


class Report:
    """What a sweep has done.

    Attributes
    ----------
    iterations : int
        The iterations done, with those of an earlier run.
    passes : int
        The passes over the data.
    depth : int
        The greatest number of iterations in one pass.
    residuals : list of float
        With ``until``: the largest change of a point in each iteration.
    converged : int or None
        With ``until``: the first iteration, from 0, in which no point changed by more.
    resumed : int
        The iterations that an earlier run had done.
    bytes_read, bytes_written : int
        What was read from files, and written to files.
    buffers : int
        The bytes of the buffers.
    threads : int
        The threads that computed.
    seconds : float
        The time of the sweep.
    """

    def __init__(self, facts):
        self.__dict__.update(facts)

    def _repr_svg_(self):
        """Draw the residuals, as a notebook shows them; nothing without ``until``."""
        return _convergence(self.residuals) if len(self.residuals) > 1 else None

    def __repr__(self):
        told = ", ".join(
            f"{name}={value!r}" for name, value in self.__dict__.items() if name != "residuals"
        )
        return f"Report({told})"


class Plan:
    """How a sweep would use its memory: see `syncline.plan`.

    Attributes
    ----------
    depth : int
        The greatest number of iterations in one pass.
    passes : int
        The passes over the data, if no convergence ends the sweep earlier.
    buffers : int
        The bytes of the buffers.
    """

    def __init__(self, facts, shape, dtypes, iterations, memory):
        self.__dict__.update(facts)
        self.shape, self.dtypes, self.iterations, self.memory = shape, dtypes, iterations, memory

    def _repr_svg_(self):
        """Draw the passes over the rows, as a notebook shows them."""
        return _passes(self)

    def __repr__(self):
        shape = " x ".join(map(str, self.shape))
        return (
            f"Plan: {self.iterations} iterations over {shape} in {self.passes} "
            f"pass{'es' * (self.passes != 1)} of up to {self.depth}, with buffers of "
            f"{told_size(self.buffers)} of {told_size(self.memory)}"
        )


def _passes(plan):
    """Return a picture of a plan: rows from top to bottom, passes from left to right.

    In each pass a window slides down over the data; each line in it is an iteration.
    """
    shown = min(plan.passes, 8)
    width, height, left, top = 92, 120, 70, 34
    lines = []
    for number in range(shown):
        x = left + number * width
        lines.append(
            f'<rect x="{x}" y="{top}" width="{width - 16}" height="{height}" class="data"/>'
            f'<rect x="{x}" y="{top + 40}" width="{width - 16}" height="34" class="window"/>'
        )
        done = min(plan.depth, plan.iterations - number * plan.depth)
        for line in range(min(done, 6)):
            y = top + 44 + line * 5
            lines.append(
                f'<path d="M{x + 4} {y + 26 - 5 * line} L{x + width - 20} {y}" class="step"/>'
            )
        lines.append(
            f'<text x="{x}" y="{top + height + 16}">pass {number + 1}: {done} iterations</text>'
            f'<path d="M{x - 6} {top + 8} v{height - 22} l-3 -6 m3 6 l3 -6" class="step"/>'
        )
    if shown < plan.passes:
        lines.append(
            f'<text x="{left + shown * width}" y="{top + 60}">and {plan.passes - shown} more</text>'
        )
    shape = " x ".join(map(str, plan.shape))
    wide = max(460, left + (shown + (shown < plan.passes)) * width)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{top + height + 30}" '
        f'viewBox="0 0 {wide} {top + height + 30}" font-family="sans-serif" font-size="11">'
        "<style>.data{fill:#dfe7f1}.window{fill:#f5b041}.step{stroke:#34495e;fill:none}</style>"
        f'<text x="4" y="16">{plan.iterations} iterations over {shape}, '
        f"buffers of {told_size(plan.buffers)} (the window)</text>"
        f'<text x="4" y="{top + 12}">first row</text><text x="4" y="{top + height}">last row</text>'
        f"{''.join(lines)}</svg>"
    )


def _convergence(residuals):
    """Return a picture of the largest change in each iteration, on a logarithmic scale."""
    changes = [(at, math.log10(x)) for at, x in enumerate(residuals, 1) if 0 < x < math.inf]
    if len(changes) < 2:
        return None
    width, height, left, top = 460, 180, 60, 28
    low = math.floor(min(y for _, y in changes))
    high = max(math.ceil(max(y for _, y in changes)), low + 1)
    count = len(residuals)

    def place(at, y):
        return (
            left + (width - left - 16) * (at - 1) / (count - 1),
            top + (height - top - 26) * (high - y) / (high - low),
        )

    lines = []
    step = -(-(high - low) // 6)
    for power in range(high, low - 1, -step):
        x, y = place(1, power)
        lines.append(
            f'<path d="M{x:.1f} {y:.1f} H{width - 16}" class="grid"/>'
            f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">1e{power}</text>'
        )
    # Of many iterations in one column of the picture, the extremes.
    columns = {}
    for at, y in changes:
        x, y = place(at, y)
        first, last = columns.get(round(x), (y, y))
        columns[round(x)] = min(first, y), max(last, y)
    points = " ".join(
        f"{x},{y:.1f}" for x, ys in sorted(columns.items()) for y in dict.fromkeys(ys)
    )
    lines.append(f'<polyline points="{points}" class="line"/>')
    lines.append(
        f'<text x="{left}" y="{height - 6}">1</text>'
        f'<text x="{width - 16}" y="{height - 6}" text-anchor="end">iteration {count}</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">'
        "<style>.grid{stroke:#dfe7f1}.line{fill:none;stroke:#34495e;stroke-width:1.5}</style>"
        f'<text x="4" y="16">largest change of a point in each iteration</text>'
        f"{''.join(lines)}</svg>"
    )


def not_finite(result, change):
    """Return what a largest change that is not finite says, and the points of results to look at.

    `result` is what `sweep` returns. Paths, and arrays that are not in memory, are left out.
    """
    if math.isnan(change):
        told, kind, is_such = (
            "NaN: a point became NaN, or ceased to be NaN, in the last one",
            "NaN",
            np.isnan,
        )
    else:
        told = "infinite: a point became infinite, or finite, in the last one"
        kind, is_such = "infinite", np.isinf
    if hasattr(result, "items"):
        named = [(f" of {name}", one) for name, one in result.items()]
    elif isinstance(result, tuple):
        named = [(f" of {number}", one) for number, one in enumerate(result)]
    else:
        named = [("", result)]
    for name, one in named:
        array = one if isinstance(one, np.ndarray) else getattr(one, "data", None)
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
            continue
        count, first = 0, None
        # Some rows at a time: an array may be on file.
        step = max(1, (1 << 20) // max(1, array[:1].size))
        for begin in range(0, len(array), step):
            such = is_such(array[begin : begin + step])
            if first is None and such.any():
                at = [int(i) for i in np.unravel_index(such.argmax(), such.shape)]
                first = [begin + at[0], *at[1:]]
            count += int(such.sum())
        told += f"; {count} points of the result{name} are {kind}"
        told += f", the first at {first}" if first else ""
    return told
