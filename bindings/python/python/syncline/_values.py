"""The symbols that a kernel in Python is called with.

The operations on an `Array` build a graph of `Value`. An operation on numbers alone is a number, as
numpy computes it.

===============  ==================================================================
``u``            the value of the point
``u.n``          the neighbour to the north; also ``s e w nw ne sw se``, and in three
                 dimensions ``up`` and ``down``
``u[-1, 0]``     the same by its offset in rows and columns, up to two away
``u.old.n``      its value before the iteration
===============  ==================================================================
"""

import inspect
import linecache
import operator
import os
import sys

import numpy as np

from ._errors import KernelError

#: The offsets of the neighbours that have names, in planes, rows and columns.
NEIGHBOURS = {
    "n": (0, -1, 0),
    "s": (0, 1, 0),
    "e": (0, 0, 1),
    "w": (0, 0, -1),
    "nw": (0, -1, -1),
    "ne": (0, -1, 1),
    "sw": (0, 1, -1),
    "se": (0, 1, 1),
    "up": (-1, 0, 0),
    "down": (1, 0, 0),
}

#: The greatest distance of a neighbour along an axis.
RADIUS = 2

#: The types of elements.
DTYPES = ("float64", "float32", "uint8", "int16", "uint16", "int32", "int64")
REAL = DTYPES[:2]

#: What joins comparisons, and how many of them.
_JOINS = ("and", "or", "not")
_MOST_COMPARISONS = 1000

#: The folder of this package, whose frames are not those of a kernel.
_HERE = os.path.dirname(__file__)


class Trace:
    """The state of one call of a kernel: where it is, and its dimensions."""

    def __init__(self, function, dimensions):
        self.dimensions, self.has_returned = dimensions, False
        self.code = getattr(inspect.unwrap(function), "__code__", None)

    def line(self):
        """Return the file, line and text of the kernel that runs now."""
        frame = None if self.has_returned else sys._getframe(1)
        found = None
        while frame is not None:
            if frame.f_code is self.code:
                found = found or frame
                break
            if found is None and os.path.dirname(frame.f_code.co_filename) != _HERE:
                found = frame
            frame = frame.f_back
        if found is None:
            return None
        name, number = found.f_code.co_filename, found.f_lineno
        return name, number, linecache.getline(name, number).strip()

    def error(self, why, kind=KernelError):
        """Return the error for what the kernel does now."""
        at = self.line()
        if at is None:
            return kind(why)
        name, number, text = at
        text = text if len(text) <= 60 else f"{text[:57]}..."
        shown = f": `{text}`" if text else ""
        return kind(f"{name}, line {number}{shown}: {why}")

    def untraceable(self, why):
        """Return the error for what only numbers can do."""
        return self.error(why, Untraceable)


class Untraceable(KernelError):
    """A kernel does what only numbers can do: it runs if it is called for each point."""


def _operation(trace, op, args, dtype):
    """Return an operation on values; one on numbers only is a number, as numpy computes it."""
    if all(isinstance(arg, Value) and arg.op == "number" for arg in args):
        kind = np.dtype(args[0].dtype).type
        numbers = [kind(arg.args[0]) for arg in args]
        with np.errstate(all="ignore"):
            number = np.dtype(dtype).type(_NUMBERS[op](*numbers))
        return Value(trace, "number", (number.item(),), dtype)
    return Value(trace, op, args, dtype)


#: Operations on numbers of numpy.
_NUMBERS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "neg": operator.neg,
    "abs": abs,
    "sqrt": np.sqrt,
    "min": lambda left, right: left if left < right else right,
    "max": lambda left, right: left if left > right else right,
    "cast": lambda value: value,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


class Value:
    """A value of a kernel: a read of an array, or an operation on values.

    ``dtype`` is the name of its type.
    """

    __slots__ = ("args", "dtype", "op", "trace")
    # numpy's operators leave an operation with a `Value` to it.
    __array_priority__ = 1000
    __hash__ = object.__hash__

    def __init__(self, trace, op, args, dtype):
        self.trace, self.op, self.args, self.dtype = trace, op, args, dtype

    def __repr__(self):
        return f"<value {self.op} of type {self.dtype}>"

    # Arithmetic.

    def __add__(self, other):
        return self._binary("+", self, other)

    def __radd__(self, other):
        return self._binary("+", other, self)

    def __sub__(self, other):
        return self._binary("-", self, other)

    def __rsub__(self, other):
        return self._binary("-", other, self)

    def __mul__(self, other):
        return self._binary("*", self, other)

    def __rmul__(self, other):
        return self._binary("*", other, self)

    def __truediv__(self, other):
        return self._quotient(self, other)

    def __rtruediv__(self, other):
        return self._quotient(other, self)

    def __neg__(self):
        return _operation(self.trace, "neg", (self,), self.dtype)

    def __pos__(self):
        return self

    def __abs__(self):
        return _operation(self.trace, "abs", (self,), self.dtype)

    def __pow__(self, power):
        if isinstance(power, (Value, Condition)):
            return self.__rpow__(power)
        if power == 2:
            return self * self
        raise self.trace.untraceable(
            f"a power of {power} has no place in a description: write a product such as u * u * u, "
            "or numpy.sqrt(u)"
        )

    def __rpow__(self, _):
        raise self.trace.untraceable("a power by a value has no place in a description")

    def __floordiv__(self, _):
        raise self.trace.untraceable(
            "`//` has no place in a description: write `/` for real numbers"
        )

    __rfloordiv__ = __floordiv__

    def __mod__(self, _):
        raise self.trace.untraceable("`%` has no place in a description")

    __rmod__ = __divmod__ = __rdivmod__ = __mod__

    def __setitem__(self, at, value):
        raise self.trace.error("a kernel cannot assign to its arrays: it returns the new value")

    # Comparisons.

    def __lt__(self, other):
        return self._compare("<", other)

    def __le__(self, other):
        return self._compare("<=", other)

    def __gt__(self, other):
        return self._compare(">", other)

    def __ge__(self, other):
        return self._compare(">=", other)

    def __eq__(self, other):
        return self._compare("==", other)

    def __ne__(self, other):
        return self._compare("!=", other)

    def _join(self, *_):
        raise self.trace.error(
            "`&`, `|` and `~` are for comparisons: write (mask != 0) for an array that is a mask"
        )

    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = _join

    # What only numbers have.

    def __bool__(self):
        raise self.trace.untraceable(
            "whether a value is true is not known while a kernel is traced: write "
            "numpy.where(a < b, x, y) in place of `if`"
        )

    def _no_number(self, *_):
        raise self.trace.untraceable(
            "a value of a kernel is no number yet: only + - * /, comparisons, abs, numpy.sqrt, "
            "minimum, maximum, clip and where can be traced; for others see syncline.function"
        )

    __float__ = __int__ = __index__ = __complex__ = __round__ = __trunc__ = _no_number
    __iter__ = __len__ = __contains__ = _no_number

    def astype(self, dtype):
        """Return the value converted to another type."""
        dtype = np.dtype(dtype).name
        if dtype not in DTYPES:
            raise self.trace.error(f"{dtype} is not one of {', '.join(DTYPES)}")
        return self if dtype == self.dtype else _operation(self.trace, "cast", (self,), dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        known = _UFUNCS.get(ufunc.__name__)
        if method != "__call__" or options or known is None:
            raise self.trace.untraceable(
                f"numpy.{ufunc.__name__} cannot be traced: give it as a compiled function, see "
                "syncline.function"
            )
        return known(self, *inputs)

    def __array_function__(self, function, types, args, options):
        known = _FUNCTIONS.get(function.__name__)
        if known is None:
            raise self.trace.untraceable(f"numpy.{function.__name__} cannot be traced")
        return known(self, *args, **options)

    def __array__(self, *_args, **_options):
        raise self.trace.untraceable("a value of a kernel cannot become an array")

    # The construction of nodes.

    def _lift(self, other, dtype=None):
        """Return a number or a value as a value of this type."""
        dtype = dtype or self.dtype
        if isinstance(other, Value):
            if other.dtype != dtype:
                raise self.trace.error(
                    f"{other.dtype} and {dtype} meet: convert one of them by .astype(...)"
                )
            return other
        if isinstance(other, Condition):
            raise self.trace.error("a comparison is no number: use numpy.where(comparison, 1, 0)")
        if isinstance(other, np.ndarray) and other.ndim > 0:
            raise self.trace.error(
                "an array is used as a value: make it a parameter of the kernel, and pass it as a "
                "coefficient"
            )
        if isinstance(other, (bool, np.bool_)):
            other = int(other)
        try:
            number = operator.index(other)
        except TypeError:
            try:
                number = float(other)
            except (TypeError, ValueError):
                kind = type(other).__name__
                raise self.trace.error(f"{kind} is neither a value nor a number") from None
        if dtype not in REAL:
            if not isinstance(number, int):
                why = f"{dtype} and the number {number} meet: convert by .astype(...)"
                raise self.trace.error(why)
            info = np.iinfo(dtype)
            if not info.min <= number <= info.max:
                raise self.trace.error(f"{dtype} cannot hold {number}")
            if abs(number) > 1 << 53:
                raise self.trace.error(f"{number} is beyond 2**53: pass it as a coefficient")
        return Value(self.trace, "number", (number,), dtype)

    def _binary(self, op, left, right):
        return _operation(self.trace, op, (self._lift(left), self._lift(right)), self.dtype)

    def _quotient(self, left, right):
        if self.dtype not in REAL:
            raise self.trace.error(
                "a quotient of whole numbers is real in numpy: convert by .astype('float64') first"
            )
        return self._binary("/", left, right)

    def _compare(self, op, other):
        return Condition(self.trace, op, (self, self._lift(other)))


class Array(Value):
    """An array of a kernel, which stands for its value at the point."""

    __slots__ = ("before", "index")

    def __init__(self, trace, index, dtype, before=False):
        super().__init__(trace, "read", (index, (0, 0, 0), False), dtype)
        self.index, self.before = index, before

    @property
    def old(self):
        """The same array before the iteration."""
        return Array(self.trace, self.index, self.dtype, before=True)

    def __getattr__(self, name):
        beyond = 3 - self.trace.dimensions
        known = {name: at for name, at in NEIGHBOURS.items() if not any(at[:beyond])}
        if name in known:
            return self._read(known[name])
        if name.startswith("__"):
            raise AttributeError(name)
        raise self.trace.error(
            f"there is no neighbour {name!r} in {self.trace.dimensions} dimension(s): they are "
            f"{', '.join(known)}, or given by offsets, such as u[{', '.join('0' * (3 - beyond))}]"
        )

    def __getitem__(self, offsets):
        if not isinstance(offsets, tuple):
            offsets = (offsets,)
        try:
            offsets = tuple(operator.index(offset) for offset in offsets)
        except TypeError:
            raise self.trace.error("an offset is a whole number of rows and columns") from None
        dimensions = self.trace.dimensions
        if len(offsets) != dimensions:
            raise self.trace.error(f"{len(offsets)} offsets are given for {dimensions} dimensions")
        if any(abs(offset) > RADIUS for offset in offsets):
            raise self.trace.error(f"a neighbour is at most {RADIUS} away along an axis")
        return self._read((0,) * (3 - dimensions) + offsets)

    def _read(self, offset):
        if offset == (0, 0, 0):
            return Value(self.trace, "read", (self.index, offset, False), self.dtype)
        return Value(self.trace, "read", (self.index, offset, self.before), self.dtype)


class Condition:
    """A comparison of values, for `numpy.where`."""

    __slots__ = ("args", "op", "size", "trace")
    __array_priority__ = 1000

    def __init__(self, trace, op, args):
        self.trace, self.op, self.args = trace, op, args
        # The number of comparisons, each of which becomes a branch.
        self.size = sum(getattr(arg, "size", 1) for arg in args) if op in _JOINS else 1
        if self.size > _MOST_COMPARISONS:
            raise trace.error(f"a condition of more than {_MOST_COMPARISONS} comparisons")

    def __and__(self, other):
        return Condition(self.trace, "and", (self, other))

    def __or__(self, other):
        return Condition(self.trace, "or", (self, other))

    def __invert__(self):
        return Condition(self.trace, "not", (self,))

    def __hash__(self):
        raise self.trace.untraceable("a comparison is no key, as it is not known yet")

    def __eq__(self, other):
        raise self.trace.untraceable("comparisons cannot be compared: join them by `&`, `|`, `~`")

    __ne__ = __eq__

    def __bool__(self):
        at = self.trace.line()
        text = at[2] if at else ""
        for name in ("min", "max"):
            if f"{name}(" in text:
                raise self.trace.untraceable(f"write numpy.{name}imum in place of {name}")
        instead = (
            "write `&`, `|` and `~` in place of `and`, `or` and `not`, and numpy.where(a < b, x, y)"
        )
        raise self.trace.untraceable(
            f"whether a comparison is true is not known while a kernel is traced: {instead} in "
            "place of `if`"
        )

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        names = {"logical_and": "and", "logical_or": "or", "logical_not": "not"}
        names |= {"bitwise_and": "and", "bitwise_or": "or", "invert": "not"}
        op = names.get(ufunc.__name__)
        if op is None or method != "__call__" or options:
            raise self.trace.untraceable(f"numpy.{ufunc.__name__} of a comparison cannot be traced")
        return Condition(self.trace, op, inputs)

    def __array_function__(self, function, types, args, options):
        known = _FUNCTIONS.get(function.__name__)
        if known is None:
            raise self.trace.untraceable(f"numpy.{function.__name__} cannot be traced")
        return known(self, *args, **options)


# What numpy's functions mean. The first parameter is the value whose method was called.


def _both(one, left, right):
    """Return two operands, of which at least one is a value, as values."""
    first = left if isinstance(left, Value) else right
    return first._lift(left), first._lift(right)


def _arithmetic(op):
    def make(one, left, right):
        return one._binary(op, *_both(one, left, right))

    return make


def _comparison(op):
    def make(one, left, right):
        return Condition(one.trace, op, _both(one, left, right))

    return make


def _least(op, compare):
    """Return numpy's minimum or maximum: NaN if either operand is; of two equal ones the second."""

    def make(one, left, right):
        left, right = _both(one, left, right)
        trace, dtype = one.trace, left.dtype
        # The `min` of descriptions is its second operand if either is NaN.
        ordered = left.op == "number" or dtype not in REAL
        if ordered:
            return _operation(trace, op, (left, right), dtype)
        if right.op == "number" and right.args[0] != 0:
            return _operation(trace, op, (right, left), dtype)
        nan = Condition(trace, "!=", (left, left))
        return _choose(Condition(trace, compare, (left, right)), left, _choose(nan, left, right))

    return make


def _root(one, value):
    if one.dtype not in REAL:
        raise one.trace.error("the root of a whole number is real: convert by .astype('float64')")
    return _operation(one.trace, "sqrt", (value,), one.dtype)


def _where(one, condition, then=None, other=None):
    if then is None or other is None:
        raise one.trace.error("numpy.where takes a comparison and two values")
    if isinstance(condition, Value):
        condition = condition != 0
    elif not isinstance(condition, Condition):
        raise one.trace.error("the first argument of numpy.where is a comparison, such as u > 0")
    first = next((value for value in (then, other) if isinstance(value, Value)), None)
    if first is None:
        first = next(iter(_values(condition)))
    return _choose(condition, first._lift(then), first._lift(other))


def _values(condition):
    for arg in condition.args:
        yield from (_values(arg) if isinstance(arg, Condition) else (arg,))


def _choose(condition, then, other):
    if not isinstance(condition, Condition):
        raise then.trace.error("`&`, `|` and `~` join comparisons only")
    op, args = condition.op, condition.args
    if op == "not":
        return _choose(args[0], other, then)
    if op == "and":
        return _choose(args[0], _choose(args[1], then, other), other)
    if op == "or":
        return _choose(args[0], then, _choose(args[1], then, other))
    if all(arg.op == "number" for arg in args):
        numbers = (np.dtype(arg.dtype).type(arg.args[0]) for arg in args)
        return then if _NUMBERS[op](*numbers) else other
    return Value(then.trace, "if", (condition, then, other), then.dtype)


_minimum, _maximum = _least("min", "<"), _least("max", ">")


def _clip(one, value, least=None, most=None, **options):
    least = options.pop("a_min", options.pop("min", least))
    most = options.pop("a_max", options.pop("max", most))
    if options:
        raise one.trace.error("numpy.clip takes a value and two bounds")
    value = value if least is None else _maximum(one, value, least)
    return value if most is None else _minimum(one, value, most)


_UFUNCS = {
    "add": _arithmetic("+"),
    "subtract": _arithmetic("-"),
    "multiply": _arithmetic("*"),
    "divide": lambda one, left, right: one._quotient(left, right),
    "true_divide": lambda one, left, right: one._quotient(left, right),
    "negative": lambda one, value: -value,
    "positive": lambda one, value: value,
    "absolute": lambda one, value: abs(value),
    "fabs": lambda one, value: abs(value),
    "square": lambda one, value: value * value,
    "sqrt": _root,
    "minimum": _minimum,
    "maximum": _maximum,
    "clip": _clip,
    "less": _comparison("<"),
    "less_equal": _comparison("<="),
    "greater": _comparison(">"),
    "greater_equal": _comparison(">="),
    "equal": _comparison("=="),
    "not_equal": _comparison("!="),
}
_FUNCTIONS = {"where": _where, "clip": _clip}
