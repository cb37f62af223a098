"""Kernels that cannot be traced, called by the interpreter for each point.

The reads of such a kernel are not known before it runs. Those of its source are taken: each name of
a neighbour, and each pair of constant offsets, for every array.
"""

import ast
import inspect
import textwrap

from ._errors import KernelError
from ._functions import _MOST
from ._functions import made as function_of
from ._trace import parameters, trace
from ._values import NEIGHBOURS, RADIUS


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
                f"{kernel.name} reads the neighbour {offset[-kernel.dimensions :]}, which its own "
                "source does not name as constants, such as u.n or u[-1, 0]: what a function reads "
                "that cannot be traced must be known before it runs"
            ) from None


class _Plain:
    """A kernel that is called for each point: its arrays, and what it reads of them."""

    def __init__(self, function, names, dimensions, fields):
        self.function, self.fields, self.dimensions = function, fields, dimensions
        name = getattr(function, "__name__", "")
        self.name = name if name.isidentifier() else "kernel"
        offsets, self.before = _offsets(function, dimensions)
        self.reads = tuple((index, offset) for index in range(len(names)) for offset in offsets)
        self.arrays = range(len(names))

    def call(self, part):
        """Return the function of the values that are read, for the new value of a field."""

        def run(*values):
            result = self.function(*(Point(self, values, index) for index in self.arrays))
            new = result[part] if self.fields > 1 else result
            try:
                return float(new)
            except (TypeError, ValueError) as error:
                raise KernelError(
                    f"{self.name} returns {new!r}, which is no real number"
                ) from error

        return run


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
    plain = _Plain(function, names, dimensions, fields)
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
            read = (array.old if plain.before and index < fields else array)._read(offset)
            values.append(read.astype("float64"))
        results = (part(*values) for part in calls)
        results = tuple(result.astype(dtype) for result, dtype in zip(results, dtypes))
        return results if fields > 1 else results[0]

    kernel.__name__ = plain.name
    kernel.__signature__ = inspect.signature(function)
    return trace(kernel, dtypes, dimensions, options)
