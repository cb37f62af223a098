"""Kernels that cannot be traced, called by the interpreter for each point.

The reads of such a kernel are not known before it runs. Those of its source are taken: each name of
a neighbour, and each pair of constant offsets, for every array.
"""

import ast
import inspect
import textwrap

import numpy as np

from . import _numbers as numbers
from ._errors import KernelError
from ._functions import _MOST
from ._functions import made as function_of
from ._text import EXACT
from ._trace import parameters, trace
from ._values import NEIGHBOURS, RADIUS, Mask


class Point:
    """The value of an array at a point, with those of its neighbours: a scalar of numpy."""

    @property
    def old(self):
        """The same before the iteration."""
        kernel, values, index, _ = self._of
        return kernel.point(values, index, before=True)

    def __getitem__(self, offsets):
        offsets = offsets if isinstance(offsets, tuple) else (offsets,)
        return self._at((0,) * (3 - len(offsets)) + tuple(offsets))

    def _at(self, offset):
        kernel, values, index, before = self._of
        if index < kernel.fields and before != kernel.before and offset != (0, 0, 0):
            raise kernel.error(
                "reads values before the iteration (`old`) and updated ones: the order of the "
                "updates would decide the result"
            )
        at = kernel.places.get((index, offset))
        if at is None:
            raise kernel.error(
                f"reads the neighbour {offset[-kernel.dimensions :]}, which its own source does "
                "not name as constants, such as u.n or u[-1, 0]: what a function reads that cannot "
                "be traced must be known before it runs"
            )
        return kernel.scalars[index](values[at])


def _neighbour(offset):
    return property(lambda point: point._at(offset))


def _point_class(dtype):
    """Return the class of the scalars of a type that have neighbours."""
    # numpy finds the type of a scalar by its first base.
    return type("Point", (dtype.type, Point), {"__getitem__": Point.__getitem__})


for _name, _offset in NEIGHBOURS.items():
    setattr(Point, _name, _neighbour(_offset))


class Flag(Point, np.lib.mixins.NDArrayOperatorsMixin):
    """The value of a coefficient of bool, of whose type numpy allows no other class."""

    def __init__(self, value):
        self.value = np.bool_(value)

    def __bool__(self):
        return bool(self.value)

    def __int__(self):
        return int(self.value)

    def __float__(self):
        return float(self.value)

    __index__ = __int__

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.value, dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        inputs = (one.value if isinstance(one, Flag) else one for one in inputs)
        return getattr(ufunc, method)(*inputs, **options)


class _Plain:
    """A kernel that is called for each point: its arrays, and what it reads of them."""

    def __init__(self, function, dtypes, dimensions, fields):
        self.function, self.fields, self.dimensions = function, fields, dimensions
        name = getattr(function, "__name__", "")
        self.name = name if name.isidentifier() else "kernel"
        self.dtypes = [np.dtype(dtype) for dtype in dtypes]
        # A scalar of numpy with neighbours is one of a class of its own.
        self.points = [Flag if dtype.kind == "b" else _point_class(dtype) for dtype in self.dtypes]
        self.wide = {n for n, dtype in enumerate(self.dtypes) if dtype == np.int64}
        self.scalars = [dtype.type for dtype in self.dtypes]
        for index in self.wide:
            self.scalars[index] = self.whole
        offsets, self.before = _offsets(function, dimensions)
        self.reads = tuple((index, offset) for index in range(len(dtypes)) for offset in offsets)
        self.places = {read: at for at, read in enumerate(self.reads)}
        self.arrays = range(len(dtypes))

    def point(self, values, index, before=False):
        """Return the value of an array at the point of these values."""
        value = values[self.places[index, (0, 0, 0)]]
        if index in self.wide:
            self.whole(value)
        point = self.points[index](value)
        point._of = self, values, index, before
        return point

    def whole(self, value):
        """Return a whole number, which comes as one of float64."""
        if abs(value) >= EXACT:
            raise self.error(
                f"reads {value:.0f} of type int64, which may have been rounded: a function that is "
                "called for each point has whole numbers below 2**53 only"
            )
        return np.int64(value)

    def error(self, why):
        """Return the error for what the function does."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        at = f"{code.co_filename}, line {code.co_firstlineno}: " if code else ""
        return KernelError(f"{at}{self.name} {why}")

    def call(self, part):
        """Return the function of the values that are read, for the new value of a field."""

        def run(*values):
            # As for values of a description, 1 / 0 is infinite.
            with np.errstate(all="ignore"):
                result = self.function(*(self.point(values, index) for index in self.arrays))
                return self.stored(result[part] if self.fields > 1 else result, part)

        return run

    def stored(self, new, part):
        """Return what the function returns as a number of float64 that the field can hold."""
        dtype = self.dtypes[part]
        if isinstance(new, np.floating):
            return float(new)
        number = new if type(new) in numbers.WEAK else np.asarray(new)[()]
        if type(number) in numbers.WEAK:
            stored = numbers.assigned(self, number, dtype)
        elif isinstance(number, np.generic) and number.dtype.kind in "biuf":
            stored = number if number.dtype.kind == "f" else numbers.cast(number, dtype)
        else:
            raise self.error(f"returns {new!r}, which is no real number")
        if stored.dtype == np.int64 and abs(int(stored)) > EXACT:
            raise self.error(f"returns {stored}, which is beyond 2**53")
        return float(stored)


def _offsets(function, dimensions):
    """Return the offsets at which the source of a kernel reads, and whether it reads old values."""
    try:
        tree = _tree(function)
    except (OSError, TypeError):
        raise KernelError(
            f"the source of {function!r} cannot be read, so it is not known what the kernel reads: "
            "write it as a function, in a file or a notebook"
        ) from None
    names = set(parameters(function))
    # Names that stand for an array: `old = u.old`.
    arrays, known = set(names), 0
    while known != len(arrays):
        known = len(arrays)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and _is_array(node.value, arrays):
                arrays.update(target.id for target in node.targets if isinstance(target, ast.Name))
    found, old = {(0, 0, 0)}, False
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_array(node.value, arrays):
            old = old or node.attr == "old"
            if node.attr in NEIGHBOURS:
                found.add(NEIGHBOURS[node.attr])
        elif isinstance(node, ast.Subscript) and _is_array(node.value, arrays):
            try:
                offsets = ast.literal_eval(node.slice)
            except ValueError:
                continue
            offsets = offsets if isinstance(offsets, tuple) else (offsets,)
            if len(offsets) == dimensions and all(
                isinstance(offset, int) and abs(offset) <= RADIUS for offset in offsets
            ):
                found.add((0,) * (3 - dimensions) + offsets)
    return sorted(found), old


def _tree(function):
    """Return the syntax tree of a function."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    lines, _ = inspect.findsource(function if code is None else code)
    try:
        nodes = ast.walk(ast.parse("".join(lines)))
    except SyntaxError:  # of a notebook with commands
        nodes = ()
    found = [node for node in nodes if code is not None and _is_of(node, code)]
    if len(found) > 1:
        raise KernelError(
            f"there are several lambdas in line {code.co_firstlineno} of {code.co_filename}, so it "
            "is not known what the kernel reads: write it as a function"
        )
    return found[0] if found else _parsed(inspect.getsource(function))


def _is_of(node, code):
    """Return whether a code object is that of a lambda or a function in a syntax tree."""
    if not isinstance(node, (ast.Lambda, ast.FunctionDef)):
        return False
    if getattr(node, "name", "<lambda>") != code.co_name:
        return False
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
    if first != code.co_firstlineno:
        return False
    if not isinstance(node, ast.Lambda):
        return True
    # Lambdas of one line differ in where their instructions are, unless that is not recorded.
    end = node.end_lineno, node.end_col_offset
    places = [at for at in code.co_positions() if None not in at and at[2:] != (0, 0)]
    return all((node.lineno, node.col_offset) <= at[::2] and at[1::2] <= end for at in places)


def _parsed(source):
    """Return the syntax tree of a function; of a lambda, what can be parsed of its line."""
    source = textwrap.dedent(source)
    try:
        return ast.parse(source)
    except SyntaxError:
        start = source.find("lambda")
        for end in range(len(source), start, -1) if start >= 0 else ():
            try:
                return ast.parse(f"({source[start:end]})")
            except SyntaxError:
                continue
    return ast.Module([], [])


def _is_array(node, arrays):
    """Return whether an expression is an array of a kernel, or its old values."""
    if isinstance(node, ast.Attribute) and node.attr == "old":
        node = node.value
    return isinstance(node, ast.Name) and node.id in arrays


def plain(function, dtypes, dimensions, fields, options):
    """Return the description of a kernel that calls a function in Python for each point."""
    names = parameters(function)
    plain = _Plain(function, dtypes, dimensions, fields)
    count = len(plain.reads)
    if count > _MOST:
        raise KernelError(
            f"{plain.name} reads {count} values, more than the {_MOST} of a function that is "
            "called point by point"
        )
    calls = [
        function_of(f"{plain.name}_{part}", count, plain.call(part), function)
        for part in range(fields)
    ]

    def kernel(**arrays):
        values = []
        for index, offset in plain.reads:
            array = arrays[names[index]]
            array = array.array if isinstance(array, Mask) else array
            read = (array.old if plain.before and index < fields else array)._read(offset)
            values.append(read.astype("float64"))
        results = (part(*values) for part in calls)
        results = tuple(result.astype(dtype) for result, dtype in zip(results, dtypes))
        return results if fields > 1 else results[0]

    kernel.__name__ = plain.name
    kernel.__signature__ = inspect.signature(function)
    return trace(kernel, dtypes, dimensions, options)
