"""What numpy does with the types of an operation and with its numbers.

numpy itself is asked, with a one in place of each value of a kernel: its rules (NEP 50) have no
second copy here. An ``int``, ``float`` or ``bool`` of Python takes the type of the value that it
meets; a scalar of numpy, or an array of no dimensions, has its own type.
"""

import numbers
import operator

import numpy as np

#: The types of elements.
DTYPES = (
    "float64",
    "float32",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "int64",
    "int8",
    "uint32",
)
REAL = DTYPES[:2]

#: The types of Python whose numbers take the type of what they meet.
WEAK = (int, float, bool)


def number_of(trace, given):
    """Return what is no value of a kernel as numpy takes it: a number of Python or of numpy."""
    if type(given) in WEAK:
        return given
    kind = type(given).__name__
    is_array = type(given) in (np.ndarray, np.memmap)
    if not is_array and not isinstance(given, (np.generic, int, float, complex, np.ndarray)):
        # What is none of numpy's may stand for one, such as an array of xarray.
        is_array = hasattr(given, "__array__")
    if isinstance(given, (np.generic, int, float, complex)) or is_array:
        given = np.asarray(given)[()]
    if isinstance(given, np.ndarray) and given.ndim > 0:
        raise trace.error(
            "an array is used as a value: make it a parameter of the kernel, and pass it as a "
            "coefficient"
        )
    if not isinstance(given, np.generic) or given.dtype.kind in "SUOV":
        hint = ": convert it by float(...)" if isinstance(given, numbers.Number) else ""
        raise trace.error(f"{kind} is neither a value nor a number of Python or numpy{hint}")
    if given.dtype.kind not in "biuf":
        raise trace.error(f"{given!r} is no real number")
    if given.dtype.kind == "f" and given.itemsize > 8:
        raise trace.error(f"{given!r} is wider than float64: convert it by float(...)")
    return given


def asked(trace, function, *operands):
    """Return the type of numpy's result for these operands, or refuse what numpy refuses."""
    given = [getattr(one, "dtype", None) for one in operands]
    ones = [
        one if isinstance(one, np.generic) or dtype is None else dtype.type(1)
        for one, dtype in zip(operands, given)
    ]
    try:
        with np.errstate(all="ignore"):
            return np.asarray(function(*ones)).dtype
    except OverflowError as error:
        whole = next((one for one in operands if type(one) is int), None)
        held = next((dtype for dtype in given if dtype is not None), "a value")
        raise trace.error(f"{held} cannot hold {whole}, as in numpy: {error}") from None
    except (TypeError, ValueError) as error:
        raise trace.error(f"numpy refuses it: {error}") from None


def supported(trace, dtype):
    """Return a type of a result if values may have it."""
    if dtype.kind == "b":
        raise trace.error("the result is a comparison in numpy: join comparisons by `&`, `|`, `~`")
    if dtype.name not in DTYPES:
        raise trace.error(
            f"the result is {dtype.name} in numpy, which is not one of {', '.join(DTYPES)}: "
            "convert an operand by .astype(...), or a number by float(...) or int(...)"
        )
    return dtype


def literal(given, value):
    """Return the number of Python that a description writes for a scalar of numpy.

    The number from which it was converted is kept where it is rounded to the same one.
    """
    if value.dtype.kind != "f":
        return int(value)
    if type(given) in WEAK:
        with np.errstate(all="ignore"):
            again = value.dtype.type(np.float64(given))
        if again.tobytes() == value.tobytes():
            return int(given) if type(given) is bool else given
    return value.item()


def converted(given, dtype):
    """Return a number as numpy's operations convert it to the type of their result."""
    with np.errstate(all="ignore"):
        if type(given) not in WEAK:
            return np.asarray(given).astype(dtype)[()]
        # The sum with the zero that changes no number converts a number of Python.
        zero = dtype.type(-0.0 if dtype.kind == "f" else 0)
        return zero + given


def chosen(given, dtype):
    """Return a number as numpy.where converts it, which wraps whole numbers."""
    with np.errstate(all="ignore"):
        return np.where(True, given, dtype.type(1))[()]


def assigned(trace, given, dtype):
    """Return a number as its assignment to an element converts it."""
    if type(given) not in WEAK:
        return cast(given, dtype)
    place = np.zeros(1, dtype)
    try:
        with np.errstate(all="ignore"):
            place[0] = given
    except (OverflowError, ValueError) as error:
        raise trace.error(f"{dtype} cannot hold {given}, as in numpy: {error}") from None
    return place[0]


def cast(value, dtype):
    """Return a scalar of numpy converted to another type, as a cast in a description does it."""
    with np.errstate(all="ignore"):
        if value.dtype.kind == "f" and dtype.kind in "iu":
            if np.isnan(value):
                return dtype.type(0)
            info = np.iinfo(dtype)
            if np.isinf(value):
                return dtype.type(info.max if value > 0 else info.min)
            return dtype.type(min(max(int(value), info.min), info.max))
        return value.astype(dtype)


def quotient(left, right):
    """Return the quotient of two scalars as ``/`` of descriptions: of whole ones it is cut off."""
    if left.dtype.kind == "f":
        return left / right
    if right == 0:
        return left.dtype.type(0)
    a, b = int(left), int(right)
    whole = abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b))
    info = np.iinfo(left.dtype)
    return left.dtype.type((whole - info.min) % (1 << info.bits) + info.min)


#: Operations of descriptions, on scalars of one type.
OPERATIONS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": quotient,
    "%": np.remainder,
    "neg": operator.neg,
    "abs": abs,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "min": lambda left, right: left if left < right else right,
    "max": lambda left, right: left if right < left else right,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
