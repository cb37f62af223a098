"""Kernels that cannot be traced, called by the interpreter for each point.

The reads of such a kernel are not known before it runs. Those of its source are taken: each name of
a neighbour, and each pair of constant offsets, for every array.
"""

import ast
import inspect
import textwrap

from ._errors import KernelError
from ._functions import _MOST, Function
from ._trace import NEIGHBOURS, RADIUS, parameters, trace


class Point(float):
    """The value of an array at a point, with those of its neighbours."""

    def __new__(cls, kernel, values, index, before=False):
        point = super().__new__(cls, values[kernel.reads.index((index, (0, 0, 0)))])
        point._kernel, point._values, point._index = kernel, values, index
        point._before = before
        return point

    @property
    def old(self):
        """The same before the iteration."""
        return Point(self._kernel, self._values, self._index, before=True)

    def __getattr__(self, name):
        offset = NEIGHBOURS.get(name)
        if offset is None or name.startswith("_"):
            raise AttributeError(f"a point has no neighbour {name!r}")
        return self._at(offset)

    def __getitem__(self, offsets):
        offsets = offsets if isinstance(offsets, tuple) else (offsets,)
        return self._at((0,) * (3 - len(offsets)) + tuple(offsets))

    def _at(self, offset):
        kernel, index = self._kernel, self._index
        if index < kernel.fields and self._before != kernel.before and offset != (0, 0, 0):
            raise KernelError(
                f"{kernel.name} reads values before the iteration (`old`) and updated ones: the "
                "order of the updates would decide the result"
            )
        try:
            return self._values[kernel.reads.index((index, offset))]
        except ValueError:
            raise KernelError(
                f"{kernel.name} reads the neighbour {offset}, which its source does not name as "
                "constants"
            ) from None


class _Plain:
    """A kernel that is called for each point: its arrays, and what it reads of them."""

    def __init__(self, function, names, dimensions, fields):
        self.function, self.fields = function, fields
        self.name = function.__name__ if function.__name__.isidentifier() else "kernel"
        offsets, self.before = _offsets(function, dimensions)
        self.reads = tuple((index, offset) for index in range(len(names)) for offset in offsets)
        self.arrays = range(len(names))

    def call(self, part):
        """Return the function of the values that are read, for the new value of a field."""

        def run(*values):
            result = self.function(*(Point(self, values, index) for index in self.arrays))
            return float(result[part] if self.fields > 1 else result)

        return run


def _offsets(function, dimensions):
    """Return the offsets that the source of a kernel names, and whether it reads old values."""
    code = inspect.unwrap(function).__code__ if hasattr(function, "__code__") else None
    if code is None:
        raise KernelError(f"{function!r} is no function in Python, and cannot be read")
    names = set(code.co_names)
    found = {NEIGHBOURS[name] for name in names & NEIGHBOURS.keys()}
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        tree = ast.Module([], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            try:
                offsets = ast.literal_eval(node.slice)
            except ValueError:
                continue
            offsets = offsets if isinstance(offsets, tuple) else (offsets,)
            if len(offsets) == dimensions and all(
                isinstance(offset, int) and abs(offset) <= RADIUS for offset in offsets
            ):
                found.add((0,) * (3 - dimensions) + offsets)
    return sorted(found | {(0, 0, 0)}), "old" in names


def plain(function, dtypes, dimensions, fields, options):
    """Return the description of a kernel that calls a function in Python for each point."""
    names = parameters(function)
    made = _Plain(function, names, dimensions, fields)
    count = len(made.reads)
    if count > _MOST:
        raise KernelError(
            f"{made.name} reads {count} values, more than the {_MOST} of a function that is called "
            "point by point"
        )
    calls = [
        Function(f"{made.name}_{part}", count, made.call(part), function) for part in range(fields)
    ]

    def kernel(**arrays):
        values = []
        for index, offset in made.reads:
            array = arrays[names[index]]
            read = (array.old if made.before and index < fields else array)._read(offset)
            values.append(read.astype("float64"))
        results = (part(*values) for part in calls)
        results = tuple(result.astype(dtype) for result, dtype in zip(results, dtypes))
        return results if fields > 1 else results[0]

    kernel.__name__ = made.name
    kernel.__signature__ = inspect.signature(function)
    return trace(kernel, dtypes, dimensions, options)
