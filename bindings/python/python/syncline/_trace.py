"""Kernels written in Python, traced into descriptions.

A kernel is a function of symbolic arrays. It is called once; the operations on its arguments build
a graph of `Value`, which `describe` writes as the text of a described kernel: the language of the
command ``syncline``. No compiler is needed, and the interpreter takes no part in the sweep.

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
import math
import operator
import sys

import numpy as np

from ._errors import ArrayError, KernelError

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
_NAMES = {offset: name for name, offset in NEIGHBOURS.items()}

#: The greatest distance of a neighbour along an axis.
RADIUS = 2

#: The types of elements.
DTYPES = ("float64", "float32", "uint8", "int16", "uint16", "int32", "int64")
REAL = DTYPES[:2]

#: Names that mean something in a description, and cannot be those of arrays.
_RESERVED = {*NEIGHBOURS, *DTYPES, "old", "new", "if", "abs", "min", "max", "sqrt"}

#: The depth of an expression from which on a part of it gets a name: descriptions nest 64 deep.
_DEEP = 24


class Trace:
    """The state of one call of a kernel: where it is, and its dimensions."""

    def __init__(self, function, dimensions):
        self.dimensions = dimensions
        self.code = inspect.unwrap(function).__code__ if callable(function) else None

    def line(self):
        """Return the file, line and text of the kernel that runs now."""
        frame = sys._getframe(1)
        here = __file__
        found = None
        while frame is not None:
            if frame.f_code is self.code:
                found = found or frame
                break
            if found is None and frame.f_code.co_filename != here:
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

    __rfloordiv__ = __mod__ = __rmod__ = __floordiv__

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

    __slots__ = ("args", "op", "trace")
    __array_priority__ = 1000

    def __init__(self, trace, op, args):
        self.trace, self.op, self.args = trace, op, args

    def __and__(self, other):
        return Condition(self.trace, "and", (self, other))

    def __or__(self, other):
        return Condition(self.trace, "or", (self, other))

    def __invert__(self):
        return Condition(self.trace, "not", (self,))

    __hash__ = object.__hash__

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
    if not isinstance(condition, Condition):
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


class _Text:
    """The text of an update, with names for values that are used more than once."""

    def __init__(self, names, fields, functions, dimensions, typed):
        self.names, self.fields, self.functions = names, fields, functions
        self.planes, self.typed = dimensions > 2, typed
        self.lines, self.known, self.named = [], {}, 0
        self.keys, self.uses = {}, {}

    def key(self, node):
        """Return the number of a value; equal values have the same one."""
        found = self.keys.get(id(node))
        if found is None:
            if isinstance(node, (Value, Condition)):
                parts = tuple(self.key(arg) for arg in node.args)
                content = (node.op, getattr(node, "dtype", None), parts)
            else:
                content = (type(node).__name__, repr(node))
            # The node is kept with its number, so that its `id` stays its own.
            found = self.known.setdefault(("content", content), len(self.known))
            self.keys[id(node)] = found
            self.known.setdefault(("node", id(node)), node)
        return found

    def count(self, nodes, roots):
        """Count the uses of each operation; operands come before operations in `nodes`."""
        counted = set()
        for node in nodes:
            if (key := self.key(node)) not in counted:
                counted.add(key)
                for arg in _operands(node):
                    self.uses[self.key(arg)] = self.uses.get(self.key(arg), 0) + 1
        for root in roots:
            self.uses[self.key(root)] = self.uses.get(self.key(root), 0) + 1

    def name(self, text):
        """Give a text a name of its own."""
        self.named += 1
        while f"t{self.named}" in (*self.names, *self.functions):
            self.named += 1
        self.lines.append(f"t{self.named} = {text}")
        return f"t{self.named}"

    def write(self, node, least=0):
        """Return a value as text that binds at least as strongly as `least`."""
        key = self.key(node)
        if ("text", key) in self.known:
            text, strength, depth = self.known["text", key]
        else:
            text, strength, depth = self.plain(node)
            named = self.uses.get(key, 0) > 1 or depth > _DEEP
            if named and isinstance(node, Value) and node.op not in ("read", "number"):
                text, strength, depth = self.name(text), 4, 0
            self.known["text", key] = text, strength, depth
        self.depth = depth + 1
        return text if strength >= least else f"({text})"

    def plain(self, node):
        """Return the text of a value, how strongly it binds, and how deep it is."""
        op, args = node.op, node.args
        if op == "number":
            return self.number(args[0])
        if op == "read":
            return self.read(*args), 4, 0
        deepest = 0

        def part(arg, least):
            nonlocal deepest
            text = self.write(arg, least)
            deepest = max(deepest, self.depth)
            return text

        if op in "+-":
            text, strength = f"{part(args[0], 1)} {op} {part(args[1], 2)}", 1
        elif op in "*/":
            text, strength = f"{part(args[0], 2)} {op} {part(args[1], 3)}", 2
        elif op == "neg":
            text, strength = f"-{part(args[0], 3)}", 3
        elif op == "if":
            condition, then, other = args
            left, right = (part(arg, 1) for arg in condition.args)
            if self.typed and all(map(self.is_untyped, condition.args)):
                left = f"{condition.args[0].dtype}({left})"
            then, other = part(then, 1), part(other, 1)
            text, strength = f"if({left} {condition.op} {right}, {then}, {other})", 4
        else:
            name = op
            if op == "cast":
                name = node.dtype
            elif op == "call":
                name, args = args[0].name, args[1:]
            inside = ", ".join(part(arg, 1) for arg in args)
            if op == "cast" and self.is_untyped(args[0]):
                inside = f"{args[0].dtype}({inside})"
            text, strength = f"{name}({inside})", 4
        return text, strength, deepest

    def is_untyped(self, node):
        """Return whether a text has no type of its own: it is made of numbers only.

        In a description such a text takes the type of what it is combined with.
        """
        if node.op in ("read", "cast", "call"):
            return False
        found = self.known.get(("untyped", self.key(node)))
        if found is None:
            args = node.args[1:] if node.op == "if" else node.args
            found = node.op == "number" or all(map(self.is_untyped, args))
            self.known["untyped", self.key(node)] = found
        return found

    @staticmethod
    def number(number):
        if isinstance(number, float) and not math.isfinite(number):
            name = "nan" if math.isnan(number) else "infinity"
            negative = number < 0
            return (f"-{name}_" if negative else f"{name}_"), 3 if negative else 4, 0
        negative = math.copysign(1, number) < 0
        return repr(number), 3 if negative else 4, 0

    def read(self, index, offset, before):
        array = self.names[index]
        before = "old." if before and index < self.fields else ""
        if offset == (0, 0, 0):
            return array
        if offset in _NAMES:
            return f"{before}{array}.{_NAMES[offset]}"
        inside = offset if self.planes else offset[1:]
        return f"{before}{array}[{', '.join(map(str, inside))}]"


class Traced:
    """A traced kernel: its text, its functions, and the number of its fields."""

    def __init__(self, text, functions, fields):
        self.text, self.functions, self.fields = text, functions, fields


def parameters(function):
    """Return the names of the parameters of a kernel that are arrays: those without a default."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise KernelError(f"{function!r} has no parameters that could be read") from error
    names = []
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise KernelError(
                f"{_name(function)} takes any number of arguments: name each array of the kernel"
            )
        if parameter.default is parameter.empty:
            names.append(parameter.name)
    if not names:
        raise KernelError(f"{_name(function)} has no parameter: the first one is the field")
    return names


def written_name(name):
    """Return the name of an array in a description."""
    return f"{name}_" if name in _RESERVED else name


def _name(function):
    return getattr(function, "__name__", type(function).__name__)


def trace(function, dtypes, dimensions, options=((), {})):
    """Trace a kernel for arrays of these types.

    Parameters
    ----------
    function : callable
        The kernel.
    dtypes : sequence of str
        The type of each array, in the order of the parameters.
    dimensions : int
        One, two or three.
    options : tuple
        What the description says beside its update: lines, and tables of lines.
    """
    names = parameters(function)
    if len(names) != len(dtypes):
        raise ArrayError(
            f"{_name(function)} takes {len(names)} arrays ({', '.join(names)}), but {len(dtypes)} "
            "are given"
        )
    state = Trace(function, dimensions)
    arrays = [Array(state, index, dtype) for index, dtype in enumerate(dtypes)]
    returned = function(**dict(zip(names, arrays)))
    results = returned if isinstance(returned, tuple) else (returned,)
    if returned is None:
        raise KernelError(
            f"{_name(function)} returns nothing: it returns the new value of its field"
        )
    if len(results) > len(names):
        raise KernelError(
            f"{_name(function)} returns {len(results)} values, but takes {len(names)} arrays: it "
            "returns one value for each field"
        )
    names = [written_name(name) for name in names]
    try:
        roots = [array._lift(result, array.dtype) for array, result in zip(arrays, results)]
    except KernelError as error:
        raise KernelError(f"the value that {_name(function)} returns: {error}") from None
    fields = len(roots)
    functions = {}
    nodes = _nodes(roots)
    for node in nodes:
        if node.op == "call":
            called = node.args[0]
            if functions.setdefault(called.name, called) is not called:
                raise KernelError(f"two functions are called {called.name}: give one another name=")
    # Without types, all arrays are float64 or all are float32.
    typed = len(set(dtypes)) > 1 or dtypes[0] not in REAL or (functions and dtypes[0] != "float64")
    typed = typed or any(node.op == "cast" for node in nodes)
    text = _Text(names, fields, functions, dimensions, typed)
    text.count(nodes, roots)
    # Operands first: the text of an operation then finds that of its operands.
    for node in nodes:
        if isinstance(node, Value):
            text.is_untyped(node)
            text.write(node)
    # After its assignment a field has its new value, so all new values are computed before.
    written = [text.write(root) for root in roots]
    if fields > 1:
        written = [
            value if value.isidentifier() and value not in names else text.name(value)
            for value in written
        ]
    lines = [*text.lines, *(f"{name} = {value}" for name, value in zip(names, written))]
    if typed:
        types = [f'{name} = "{dtype}"' for name, dtype in zip(names, dtypes)]
        options = options[0], {**options[1], "types": types}
    if any(getattr(node, "dtype", REAL[0]) not in REAL for node in nodes):
        options = [*options[0], 'overflow = "wrapping"'], options[1]
    text = _compose(function, names, fields, dimensions, functions, lines, options)
    return Traced(text, functions, fields)


def _operands(node):
    """Return the values and comparisons of which an operation is made."""
    if node.op == "read":
        return []
    return [arg for arg in node.args if isinstance(arg, (Value, Condition))]


def _nodes(roots):
    """Return all values and comparisons, operands before operations."""
    ordered, seen, stack = [], set(), [(root, False) for root in reversed(roots)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            ordered.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((arg, False) for arg in reversed(_operands(node)))
    return ordered


def _compose(function, names, fields, dimensions, functions, lines, options):
    """Return the whole description."""
    quoted = [f'"{name}"' for name in names]
    head = [f'name = "{_name(function)}"'.replace("<lambda>", "lambda")]
    if fields == 1:
        head.append(f"field = {quoted[0]}")
    else:
        head.append(f"fields = [{', '.join(quoted[:fields])}]")
    if quoted[fields:]:
        head.append(f"coefficients = [{', '.join(quoted[fields:])}]")
    if dimensions > 2:
        head.append("dimensions = 3")
    if functions:
        head.append("functions = [" + ", ".join(f'"{name}"' for name in functions) + "]")
    more, tables = options
    head.extend(more)
    body = ['update = """', *lines, '"""']
    tables = dict(tables)
    constants = [name for name in ("nan", "infinity") if any(f"{name}_" in line for line in lines)]
    if constants:
        tables["constants"] = [f"{name}_ = {name[:3]}" for name in constants]
    rest = (line for name, lines in tables.items() for line in (f"[{name}]", *lines))
    return "\n".join([*head, *body, *rest, ""])
