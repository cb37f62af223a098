"""The symbols that a kernel in Python is called with.

The operations on an `Array` build a graph of `Value`. Each has the type that numpy gives it
(`_numbers`), and its operands are converted to that type. What numpy's functions mean is in
`_ufuncs`.

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

from . import _numbers as numbers
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

DTYPES, REAL = numbers.DTYPES, numbers.REAL

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


def operation(trace, op, args, dtype):
    """Return an operation on values; one on numbers only is a number."""
    args = tuple(arg.now() for arg in args)
    if all(arg.op == "number" for arg in args):
        scalars = [arg.scalar() for arg in args]
        with np.errstate(all="ignore"):
            if op == "cast":
                value = numbers.cast(scalars[0], dtype)
                return number(trace, args[0].args[0], value)
            return number(trace, None, dtype.type(numbers.OPERATIONS[op](*scalars)))
    return Value(trace, op, args, dtype)


def number(trace, given, value):
    """Return a scalar of numpy, which was converted from a given number, as a value."""
    return Value(trace, "number", (numbers.literal(given, value),), value.dtype)


def operand(trace, given):
    """Return an operand: a value, a comparison, or a number as numpy takes it."""
    return given if isinstance(given, Operand) else numbers.number_of(trace, given)


def lifted(trace, given, dtype, convert=numbers.converted):
    """Return an operand as a value of a type."""
    if isinstance(given, Condition):
        one, zero = (number(trace, None, dtype.type(digit)) for digit in (1, 0))
        return choose(given, one, zero)
    if isinstance(given, Value):
        given = given.now()
        return given if given.dtype == dtype else operation(trace, "cast", (given,), dtype)
    return number(trace, given, convert(given, dtype))


def assigned(trace, given, dtype):
    """Return what a kernel returns as its assignment to an element of a type converts it."""
    given = operand(trace, given)
    return lifted(trace, given, dtype, lambda one, to: numbers.assigned(trace, one, to))


def computed(trace, op, function, *given):
    """Return an operation of numpy whose operands get the type of its result."""
    given = [operand(trace, one) for one in given]
    dtype = numbers.supported(trace, numbers.asked(trace, function, *given))
    return operation(trace, op, [lifted(trace, one, dtype) for one in given], dtype)


def choose(condition, then, other):
    """Return one of two values of the same type."""
    op, args = condition.op, condition.args
    if op == "not":
        return choose(args[0], other, then)
    if op == "and":
        return choose(args[0], choose(args[1], then, other), other)
    if op == "or":
        return choose(args[0], then, choose(args[1], then, other))
    return Value(then.trace, "if", (condition, then, other), then.dtype)


def compared(trace, op, left, right):
    """Return a comparison of two operands.

    One of which the result is known reads its operands nevertheless: whether a point lacks a
    neighbour is no matter of the types.
    """
    left, right = operand(trace, left), operand(trace, right)
    if isinstance(left, Condition) and isinstance(right, Condition):
        raise trace.untraceable("comparisons cannot be compared: join them by `&`, `|`, `~`")
    compare = numbers.OPERATIONS[op]
    numbers.asked(trace, compare, left, right)
    for value, given, is_left in ((left, right, True), (right, left, False)):
        if not isinstance(value, Operand) or isinstance(given, Operand):
            continue
        if value.two is not None:
            # Each of the two numbers is compared now.
            condition, *two = value.two
            with np.errstate(all="ignore"):
                then, other = (
                    bool(compare(one, given) if is_left else compare(given, one)) for one in two
                )
            if then == other:
                return condition | ~condition if then else condition & ~condition
            return condition if then else ~condition
        if value.dtype.kind in "iu" and np.asarray(given).dtype.kind in "biu":
            # numpy compares whole numbers of any types by what they are.
            info, whole = np.iinfo(value.dtype), int(given)
            if not info.min <= whole <= info.max:
                least = lifted(trace, info.min, value.dtype)
                always = Condition(trace, ">=", (lifted(trace, value, value.dtype), least), True)
                is_true = compare(0, whole) if is_left else compare(whole, 0)
                return always if is_true else ~always
            given = value.dtype.type(whole)
            left, right = (value, given) if is_left else (given, value)
    types = [one.dtype if isinstance(one, Operand) else one for one in (left, right)]
    dtype = numbers.supported(trace, np.result_type(*types))
    return Condition(trace, op, tuple(lifted(trace, one, dtype) for one in (left, right)))


def divided(trace, symbol, left, right):
    """Return the quotient rounded down, of whole numbers only, or what remains of it."""
    left, right = operand(trace, left), operand(trace, right)
    function = operator.floordiv if symbol == "//" else operator.mod
    dtype = numbers.supported(trace, numbers.asked(trace, function, left, right))
    if dtype.kind == "f" and symbol == "//":
        raise trace.untraceable(
            "`//` has no place in a description: write `/` for real numbers, or numpy.floor"
        )
    left, right = lifted(trace, left, dtype), lifted(trace, right, dtype)
    if symbol == "%":
        # The one of descriptions is numpy's: it has the sign of the divisor.
        return operation(trace, "%", (left, right), dtype)
    # The quotient of descriptions is cut off, and 0 if the divisor is 0.
    whole = operation(trace, "/", (left, right), dtype)
    rest = left - whole * right
    if dtype.kind == "i":
        is_below = ((right > 0) & (rest < 0)) | ((right < 0) & (rest > 0))
        whole = _where(is_below, whole - 1, whole)
    return whole


def _forward(op, function):
    def apply(self, other):
        return computed(self.trace, op, function, self, other)

    return apply


def _backward(op, function):
    def apply(self, other):
        return computed(self.trace, op, function, other, self)

    return apply


def _comparison(op):
    return lambda self, other: compared(self.trace, op, self, other)


def _untraced(symbol):
    def apply(self, *_):
        raise self.trace.untraceable(f"`{symbol}` has no place in a description")

    return apply


class Operand:
    """What has numpy's operations: a value or a comparison."""

    __slots__ = ()
    # numpy's operators leave an operation with an operand to it.
    __array_priority__ = 1000

    @property
    def two(self):
        """The comparison and the two numbers of numpy between which it chooses, or `None`."""
        return None

    __add__, __radd__ = _forward("+", operator.add), _backward("+", operator.add)
    __sub__, __rsub__ = _forward("-", operator.sub), _backward("-", operator.sub)
    __mul__, __rmul__ = _forward("*", operator.mul), _backward("*", operator.mul)
    __truediv__ = _forward("/", operator.truediv)
    __rtruediv__ = _backward("/", operator.truediv)
    __lshift__ = __rlshift__ = _untraced("<<")
    __rshift__ = __rrshift__ = _untraced(">>")
    __matmul__ = __rmatmul__ = _untraced("@")

    def __neg__(self):
        return computed(self.trace, "neg", operator.neg, self)

    def __abs__(self):
        return computed(self.trace, "abs", abs, self)

    __lt__, __le__ = _comparison("<"), _comparison("<=")
    __gt__, __ge__ = _comparison(">"), _comparison(">=")
    __eq__, __ne__ = _comparison("=="), _comparison("!=")

    def __floordiv__(self, other):
        return divided(self.trace, "//", self, other)

    def __rfloordiv__(self, other):
        return divided(self.trace, "//", other, self)

    def __mod__(self, other):
        return divided(self.trace, "%", self, other)

    def __rmod__(self, other):
        return divided(self.trace, "%", other, self)

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def __pow__(self, power):
        trace = self.trace
        power = operand(trace, power)
        if isinstance(power, Operand):
            return self.__rpow__(power)
        dtype = numbers.supported(trace, numbers.asked(trace, operator.pow, self, power))
        value = lifted(trace, self, dtype)
        if dtype.kind == "f" and power not in (0, 1, 2):
            raise trace.untraceable(
                f"a power of {power} has no place in a description: write a product such as "
                "u * u * u, or numpy.sqrt(u)"
            )
        result, power = None, int(power)
        while power:
            if power & 1:
                result = value if result is None else result * value
            power >>= 1
            value = value * value if power else value
        if result is None:
            one = number(trace, None, dtype.type(1))
            # 1 of NaN, too.
            result = choose(Condition(trace, "==", (value, value)), one, one)
        return result

    def __rpow__(self, _):
        raise self.trace.untraceable("a power by a value has no place in a description")

    # What only numbers have.

    def _no_number(self, *_):
        raise self.trace.untraceable(
            "a value of a kernel is no number yet: only + - * / %, comparisons, abs, "
            "numpy.sqrt, floor, isnan, minimum, maximum, clip and where can be traced; "
            "for others see syncline.function"
        )

    __float__ = __int__ = __index__ = __complex__ = __round__ = __trunc__ = _no_number
    __iter__ = __len__ = __contains__ = __call__ = __getitem__ = _no_number

    def __setitem__(self, at, value):
        raise self.trace.error("a kernel cannot assign to its arrays: it returns the new value")

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        raise self.trace.untraceable(
            f"a value of a kernel has no .{name}: neighbours are those of the arrays"
        )

    def astype(self, dtype):
        """Return the value converted to another type."""
        dtype = np.dtype(dtype)
        if dtype.name not in DTYPES:
            raise self.trace.untraceable(f"{dtype} is not one of {', '.join(DTYPES)}")
        return lifted(self.trace, self, dtype)

    def __array_function__(self, function, types, args, options):
        known = FUNCTIONS.get(function.__name__)
        if known is None:
            raise self.trace.untraceable(f"numpy.{function.__name__} cannot be traced")
        return known(self.trace, *args, **options)

    def __array__(self, *_args, **_options):
        raise self.trace.untraceable("a value of a kernel cannot become an array")

    def _ufunc(self, ufunc, method, inputs, options):
        known = UFUNCS.get(ufunc.__name__)
        if method != "__call__" or options or known is None:
            raise self.trace.untraceable(
                f"numpy.{ufunc.__name__} cannot be traced: give it as a compiled function, see "
                "syncline.function"
            )
        return known(self.trace, *inputs)


#: What numpy's functions mean, by their names: `_ufuncs` fills in both.
UFUNCS: dict = {}
FUNCTIONS: dict = {}


class Value(Operand):
    """A value of a kernel: a read of an array, or an operation on values.

    ``dtype`` is its type.
    """

    __slots__ = ("args", "dtype", "op", "trace")
    __hash__ = object.__hash__

    def __init__(self, trace, op, args, dtype):
        self.trace, self.op, self.args, self.dtype = trace, op, args, dtype

    def __repr__(self):
        return f"<value {self.op} of type {self.dtype}>"

    def now(self):
        """Return the value as an operand, which no later operation changes."""
        return self

    def scalar(self):
        """Return a number as a scalar of numpy."""
        return self.dtype.type(self.args[0])

    def __pos__(self):
        return self.now()

    def _join(self, *_):
        raise self.trace.untraceable(
            "`&`, `|`, `^` and `~` of numbers have no place in a description: write (mask != 0) "
            "for an array that is a mask"
        )

    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = _join

    def __bool__(self):
        raise self.trace.untraceable(
            "whether a value is true is not known while a kernel is traced: write "
            "numpy.where(a < b, x, y) in place of `if`"
        )

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return self._ufunc(ufunc, method, inputs, options)


def _in_place(op, function):
    def apply(self, other):
        return self._changed(op, function, other)

    return apply


class Choice(Value):
    """What numpy.where returns: an array of no dimensions in numpy, which ``+=`` changes."""

    __slots__ = ("_now", "two")

    def __init__(self, value, two=None):
        super().__init__(value.trace, value.op, value.args, value.dtype)
        self._now, self.two = value, two

    def now(self):
        return self._now

    def __getitem__(self, at):
        return self._now if at == () else self._no_number()

    def _changed(self, op, function, other):
        made = computed(self.trace, op, function, self, other)
        if not np.can_cast(made.dtype, self.dtype, "same_kind"):
            raise self.trace.error(
                f"numpy.where returns an array, which {op}= cannot change from {self.dtype} to "
                f"{made.dtype}: write x = x {op} y"
            )
        made = lifted(self.trace, made, self.dtype)
        self.op, self.args, self._now, self.two = made.op, made.args, made, None
        return self

    __iadd__, __isub__ = _in_place("+", operator.add), _in_place("-", operator.sub)
    __imul__, __itruediv__ = _in_place("*", operator.mul), _in_place("/", operator.truediv)

    def _unchanged(self, _):
        raise self.trace.error(
            "numpy.where returns an array, which this operator would change: write x = x // y, for "
            "example"
        )

    __ifloordiv__ = __imod__ = __ipow__ = __iand__ = __ior__ = __ixor__ = _unchanged
    __ilshift__ = __irshift__ = __imatmul__ = _unchanged


class Array(Value):
    """An array of a kernel, which stands for its value at the point."""

    __slots__ = ("before", "index")

    def __init__(self, trace, index, dtype, before=False):
        super().__init__(trace, "read", (index, (0, 0, 0), False), np.dtype(dtype))
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
        if hasattr(np.generic, name):
            raise self.trace.untraceable(
                f"there is no neighbour {name!r}: only numbers have .{name}"
            )
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


class Condition(Operand):
    """A comparison of values, for `numpy.where`; as a number it is 1 or 0.

    ``known`` is its result, if all values have the same.
    """

    __slots__ = ("args", "known", "op", "size", "trace")
    dtype = np.dtype(bool)

    def __init__(self, trace, op, args, known=None):
        self.trace, self.op, self.args, self.known = trace, op, args, known
        # The number of comparisons, each of which becomes a branch.
        self.size = sum(arg.size for arg in args) if op in _JOINS else 1
        if self.size > _MOST_COMPARISONS:
            raise trace.error(f"a condition of more than {_MOST_COMPARISONS} comparisons")

    @property
    def two(self):
        return self, np.True_, np.False_

    def __and__(self, other):
        return joined(self.trace, "and", self, other)

    def __or__(self, other):
        return joined(self.trace, "or", self, other)

    def __xor__(self, other):
        return joined(self.trace, "xor", self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self):
        known = None if self.known is None else not self.known
        return Condition(self.trace, "not", (self,), known)

    def __pos__(self):
        return computed(self.trace, "+", operator.pos, self)

    def __hash__(self):
        raise self.trace.untraceable("a comparison is no key, as it is not known yet")

    def __bool__(self):
        if self.known is not None:
            return self.known
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
        names |= {"bitwise_xor": "xor", "logical_xor": "xor"}
        op = names.get(ufunc.__name__)
        if op is None or method != "__call__" or options:
            return self._ufunc(ufunc, method, inputs, options)
        return ~self if op == "not" else joined(self.trace, op, *inputs)


def joined(trace, op, left, right):
    """Return two comparisons joined by `and`, `or` or `xor`; one may be known."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, (bool, np.bool_)):
            if op == "xor":
                return ~other if one else other
            return other if bool(one) == (op == "and") else np.bool_(one)
    if not (isinstance(left, Condition) and isinstance(right, Condition)):
        raise trace.untraceable(
            "`&`, `|` and `^` in a description join comparisons only: write (mask != 0) for an "
            "array that is a mask"
        )
    if op == "xor":
        return (left & ~right) | (~left & right)
    return Condition(trace, op, (left, right))


def _where(condition, then, other):
    """Return one of two values, by a comparison that may be known."""
    if isinstance(condition, np.bool_):
        return then if condition else other
    return choose(condition, then.now(), other.now())


class Mask(Condition):
    """A coefficient of bool, which is 1 or 0 in memory: a comparison of its value at the point."""

    __slots__ = ("array",)

    def __init__(self, array):
        self.array = array
        is_set = compared(array.trace, "!=", array._read((0, 0, 0)), 0)
        super().__init__(array.trace, is_set.op, is_set.args)

    @property
    def old(self):
        """The same: a coefficient has no values before the iteration."""
        return self

    def __getattr__(self, name):
        return getattr(self.array, name) != 0

    def __getitem__(self, offsets):
        return self.array[offsets] != 0
