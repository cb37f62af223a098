"""Operations in the type of what they are for.

``numpy.where(c, 1, 0)`` is int64, and a kernel of uint8 that returns it converts it at the end. A
conversion that is the same before the operation as after it is done before: a kernel of one type
has no conversions, and no operations in other types, which take longer.

* The conversion of a choice is the choice of the conversions.
* Of whole numbers, the low bits of a sum, a difference, a product and a negation are those of the
  same operation on the low bits.
* Whole numbers that another type has as well have the same sum there, if it has that, too. So have
  other operations, and comparisons: these are done in the type of the first field.
* A conversion to a type that has all values of the first one changes nothing that is converted
  next.

An operation is done in another type only if all of its uses want that type, and if all of its
operands can be had in it without a conversion of an operation.
"""

import numpy as np

from ._text import EXACT, nodes_of
from ._values import Condition, Value, operation

#: Operations of whole numbers that are known to be the same in a type that has all of them.
_SAME = ("+", "-", "*", "neg", "abs", "min", "max")


def narrowed(roots):
    """Return the new values of the fields, each operation in the type of what it is for."""
    nodes = nodes_of(roots)
    if len({node.dtype for node in nodes if isinstance(node, Value)}) == 1:
        return roots
    ranges, failed = _ranges(nodes), set()
    while True:
        types = _types(nodes, roots, ranges, failed)
        found = {
            id(node)
            for node in nodes
            if id(node) in types
            and not all(_is_had(arg, types[id(node)], types) for arg in _values_of(node))
        }
        if not found:
            break
        failed |= found
    made = _Made(types)
    return [made.value(root) for root in roots]


def _values_of(node):
    """Return the operands of a node that are values."""
    return [] if node.op == "read" else [arg for arg in node.args if isinstance(arg, Value)]


def _ranges(nodes):
    """Return the least and the greatest value of each whole number, and whether it may wrap."""
    ranges = {}
    for node in nodes:
        if isinstance(node, Value) and node.dtype.kind != "f":
            info = np.iinfo(node.dtype)
            ends = _ends(node, ranges)
            fits = ends is not None and info.min <= min(ends) and max(ends) <= info.max
            least, most = (min(ends), max(ends)) if fits else (int(info.min), int(info.max))
            ranges[id(node)] = least, most, not fits
    return ranges


def _ends(node, ranges):
    """Return numbers of which the least and the greatest bound a value, if none of them wraps."""
    if node.op == "number":
        return node.args
    args = [ranges.get(id(arg)) for arg in _values_of(node)]
    if not args or None in args:
        return None
    (least, most, _), (low, high, _) = args[0], args[-1]
    if node.op == "+":
        return least + low, most + high
    if node.op == "-":
        return least - high, most - low
    if node.op == "*":
        return least * low, least * high, most * low, most * high
    if node.op == "neg":
        return -most, -least
    if node.op == "abs":
        return max(least, -most, 0), max(-least, most)
    if node.op in ("if", "min", "max", "cast"):
        return least, most, low, high
    return None


def _has(dtype, ends):
    """Return whether a type has all whole numbers in a range."""
    if dtype.kind != "f":
        info = np.iinfo(dtype)
        return info.min <= ends[0] and ends[1] <= info.max
    most = EXACT if dtype == np.float64 else 1 << 24
    return -most <= ends[0] and ends[1] <= most


def _types(nodes, roots, ranges, failed):
    """Return the types in which operations can be done, by `id`: what all of their uses want."""
    wanted, types = {id(node): set() for node in nodes}, {}
    for root in roots:
        wanted[id(root)].add(root.dtype)
    # Operands come before operations.
    for node in reversed(nodes):
        dtype = None
        if id(node) not in failed:
            if isinstance(node, Condition):
                dtype = _compared(node, roots[0].dtype, ranges)
            elif len(wanted[id(node)]) == 1:
                [dtype] = wanted[id(node)]
                dtype = dtype if dtype != node.dtype and _can(node, dtype, ranges) else None
        if dtype is not None:
            types[id(node)] = dtype
        elif node.op == "cast":
            dtype = node.dtype
        for arg in _values_of(node):
            wanted[id(arg)].add(arg.dtype if dtype is None else dtype)
    return types


def _compared(node, dtype, ranges):
    """Return the type if a comparison of whole numbers can be done in it."""
    args = _values_of(node)
    is_other = args and args[0].dtype.kind != "f" and args[0].dtype != dtype
    return dtype if is_other and all(_has(dtype, ranges[id(arg)]) for arg in args) else None


def _can(node, dtype, ranges):
    """Return whether the conversion of an operation is the operation on its conversions."""
    if node.op == "cast":
        return _skips(node, dtype)
    if node.op == "if" or (node.op in ("+", "-", "*", "neg") and _is_cut(node.dtype, dtype)):
        return True
    if node.op not in _SAME or node.dtype.kind == "f" or ranges[id(node)][2]:
        return False
    args = [ranges[id(arg)] for arg in _values_of(node)]
    if dtype.kind == "f" and (
        node.op == "neg" or (node.op == "*" and min(least for least, *_ in args) < 0)
    ):
        # Real numbers have a zero that is negative.
        return False
    return all(_has(dtype, ends) for ends in [ranges[id(node)], *args])


def _is_cut(one, other):
    """Return whether a conversion keeps the low bits of whole numbers, and no others."""
    return one.kind in "iu" and other.kind in "iu" and other.itemsize <= one.itemsize


def _skips(node, dtype):
    """Return whether a value that is converted twice can be converted to the last type at once."""
    first, second = node.args[0].dtype, node.dtype
    if first.kind in "iu" and second.kind == "f":
        # numpy calls int64 to float64 safe, and real numbers are not cut to their low bits.
        return first != np.int64 and np.can_cast(first, second) and dtype.kind == "f"
    return np.can_cast(first, second) or (first.kind in "iu" and _is_cut(second, dtype))


def _is_had(node, dtype, types):
    """Return whether a value can be had in a type without a conversion of an operation."""
    if node.op == "cast":
        return _skips(node, dtype)
    return node.op == "number" or _is_done(node, dtype, types)


def _is_done(node, dtype, types):
    # To numpy, `None` is equal to float64.
    return id(node) in types and types[id(node)] == dtype


class _Made:
    """The values that are made anew: each once for each type."""

    def __init__(self, types):
        self.types, self.known = types, {}

    def value(self, node):
        """Return a value, or a comparison, in its own type."""
        return self.converted(node, node.dtype)

    def converted(self, node, dtype):
        """Return a value in a type."""
        key = id(node), dtype
        if key not in self.known:
            self.known[key] = self._converted(node, dtype)
        return self.known[key]

    def _converted(self, node, dtype):
        op, args = node.op, node.args
        if op in ("read", "number"):
            return node if dtype == node.dtype else operation(node.trace, "cast", (node,), dtype)
        if op == "cast" and (dtype == node.dtype or _skips(node, dtype)):
            return self.converted(args[0], dtype)
        if dtype != node.dtype and not _is_done(node, dtype, self.types):
            return operation(node.trace, "cast", (self.value(node),), dtype)
        if isinstance(node, Condition):
            to = self.types.get(id(node))
        else:
            to = dtype if dtype != node.dtype else None
        made = []
        for arg in args:
            if isinstance(arg, Value):
                arg = self.converted(arg, arg.dtype if to is None else to)
            elif isinstance(arg, Condition):
                arg = self.value(arg)
            made.append(arg)
        if all(one is other for one, other in zip(made, args)):
            return node
        if isinstance(node, Value):
            return Value(node.trace, op, tuple(made), dtype)
        return Condition(node.trace, op, tuple(made))
