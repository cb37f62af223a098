"""Operations in the type of what they are for.

``numpy.where(c, 1, 0)`` is int64, and a kernel of uint8 that returns it converts it at the end. A
conversion that is the same before the operation as after it is done before: no value is wider than
what is kept of it, and a kernel of one type has no conversions.

* The conversion of a choice is the choice of the conversions.
* Of whole numbers, the low bits of a sum, a difference, a product and a negation are those of the
  same operation on the low bits.
* A conversion to a type that holds all values of the first one changes nothing that is converted
  next.

An operation is done in another type only if all of its uses are conversions to that type, and if
all of its operands can be had in it without a conversion of a wider value.
"""

import numpy as np

from ._text import nodes_of
from ._values import Value, operation


def narrowed(roots):
    """Return the new values of the fields, each operation in the type of what it is for."""
    nodes = nodes_of(roots)
    if not any(node.op == "cast" for node in nodes):
        return roots
    failed = set()
    while True:
        types = _types(nodes, roots, failed)
        found = {
            id(node)
            for node in nodes
            if (dtype := types.get(id(node))) is not None
            and not all(_is_had(arg, dtype, types) for arg in _values_of(node))
        }
        if not found:
            break
        failed |= found
    made = _Made(types)
    return [made.value(root) for root in roots]


def _values_of(node):
    """Return the operands of a node that are values."""
    return [] if node.op == "read" else [arg for arg in node.args if isinstance(arg, Value)]


def _types(nodes, roots, failed):
    """Return the types in which operations can be done, by `id`: what all of their uses want."""
    wanted, types = {id(node): set() for node in nodes}, {}
    for root in roots:
        wanted[id(root)].add(root.dtype)
    # Operands come before operations.
    for node in reversed(nodes):
        dtype = None
        if isinstance(node, Value) and len(wanted[id(node)]) == 1 and id(node) not in failed:
            [dtype] = wanted[id(node)]
            dtype = dtype if dtype != node.dtype and _can(node, dtype) else None
        if dtype is not None:
            types[id(node)] = dtype
        elif node.op == "cast":
            dtype = node.dtype
        for arg in _values_of(node):
            wanted[id(arg)].add(dtype or arg.dtype)
    return types


def _can(node, dtype):
    """Return whether the conversion of an operation is the operation on its conversions."""
    if node.op == "cast":
        return _skips(node, dtype)
    return node.op == "if" or node.op in ("+", "-", "*", "neg") and _is_cut(node.dtype, dtype)


def _is_cut(one, other):
    """Return whether a conversion keeps the low bits of whole numbers, and no others."""
    return one.kind in "iu" and other.kind in "iu" and other.itemsize <= one.itemsize


def _skips(node, dtype):
    """Return whether a value that is converted twice can be converted to the last type at once."""
    first, second = node.args[0].dtype, node.dtype
    if first.kind in "iu" and second.kind == "f":
        # numpy calls int64 to float64 safe, and real numbers are not cut to their low bits.
        return first != np.int64 and np.can_cast(first, second) and dtype.kind == "f"
    return np.can_cast(first, second) or first.kind in "iu" and _is_cut(second, dtype)


def _is_had(node, dtype, types):
    """Return whether a value can be had in a type without a conversion of a wider one."""
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
        if op == "read" or op == "number":
            return node if dtype == node.dtype else operation(node.trace, "cast", (node,), dtype)
        if op == "cast" and (dtype == node.dtype or _skips(node, dtype)):
            return self.converted(args[0], dtype)
        if dtype != node.dtype and not _is_done(node, dtype, self.types):
            return operation(node.trace, "cast", (self.value(node),), dtype)
        made = tuple(
            self.converted(arg, dtype if dtype != node.dtype else arg.dtype)
            if isinstance(arg, Value)
            else self.value(arg)
            if hasattr(arg, "dtype")
            else arg
            for arg in args
        )
        if all(one is other for one, other in zip(made, args)):
            return node
        if isinstance(node, Value):
            return Value(node.trace, op, made, dtype)
        return type(node)(node.trace, op, made)
