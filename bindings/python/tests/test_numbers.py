"""Kernels have the types of numpy: each operation, each kind of operand, each type of field.

The loop over the points, with scalars of numpy, says what is right. What may be refused is derived
from numpy as well: another refusal fails.
"""

import collections
import inspect
import itertools
import operator
import re

import numpy as np
import pytest
import syncline
from conftest import TIER, cases, same, seed

DTYPES = [
    *("float64", "float32", "uint8", "int16", "uint16", "int32", "int64"),
    *("int8", "uint32"),
]

#: What a kernel combines. The first ones need its arrays.
KINDS = {
    "value": lambda u, v: u,
    "other value": lambda u, v: v,
    "where of int": lambda u, v: np.where(u > 2, 100, 0),
    "where of float": lambda u, v: np.where(v > 2, 0.1, 0.3),
    "comparison": lambda u, v: u > v,
    "int": 3,
    "large int": 300,
    "negative int": -2,
    "float": 0.1,
    "bool": True,
    "bool_": np.True_,
    "int8": np.int8(-3),
    "uint8": np.uint8(200),
    "uint16": np.uint16(60000),
    "int32": np.int32(-70000),
    "uint32": np.uint32(5),
    "int64": np.int64(7),
    "wide int64": np.int64(2**62 + 1),
    "uint64": np.uint64(2**63),
    "float16": np.float16(0.1),
    "float32": np.float32(0.1),
    "float64": np.float64(0.1),
    "longdouble": np.longdouble(0.1),
    "complex": 1j,
    "array of no dimensions": np.array(9),
}
#: What no operation takes.
NEVER = {"longdouble": "longdouble", "complex": "complex128"}
OF_ARRAYS = [name for name, kind in KINDS.items() if callable(kind)]

OPERATIONS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "<": operator.lt,
    "==": operator.eq,
    "where": lambda a, b, u: np.where(u > 1, a, b),
    "clip": lambda a, b, u: np.clip(u, a, b),
}

#: Those that take the value of the field as well.
WITH = ("where", "clip")

UNARY = {
    "-": operator.neg,
    "abs": abs,
    "sqrt": np.sqrt,
    "square": np.square,
    "fabs": np.fabs,
    "** 0": lambda x: x**0,
    "** 1": lambda x: x**1,
    "** 3": lambda x: x**3,
    "** int64(5)": lambda x: x ** np.int64(5),
    "~": operator.invert,
    "<< 1": lambda x: x << 1,
}


def values(dtype):
    """Return points of a type: small ones, and those at the ends of it."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        info = np.finfo(dtype)
        some = [0, 1, 2, 3, -1.5, 0.1, 100, 1e30, info.max, info.tiny, np.inf, -np.inf, np.nan]
        return np.array(some, dtype)
    info = np.iinfo(dtype)
    some = [info.min, info.min + 1, 0, 1, 2, 3, 100, 200, info.max // 2 + 1, info.max - 1, info.max]
    return np.array([x for x in some if x <= info.max] + ([-1, -3] if info.min < 0 else []), dtype)


def stored(result, dtype):
    """Return a result as an element of a type, as numpy assigns it.

    numpy promises nothing of a real number that a whole type cannot hold, and either wraps a whole
    one or refuses it, by the type: the package says what they become.
    """
    place = np.zeros(1, dtype)
    if np.asarray(result).dtype.kind == "f" and place.dtype.kind != "f":
        info = np.iinfo(dtype)
        if np.isnan(result):
            return place
        result = info.max if result > 2.0**64 else info.min if result < -(2.0**64) else int(result)
        result = min(max(result, info.min), info.max)
    with np.errstate(all="ignore"):
        place[0] = np.asarray(result)
    return place


def loop(kernel, u, v):
    """Return the results of a kernel for scalars of numpy, or the exception of the first one."""
    with np.errstate(all="ignore"):
        try:
            return [kernel(a, b) for a, b in zip(u, v)]
        except (TypeError, ValueError, ArithmeticError) as error:
            return error


def may_refuse(op, results, operands, names):
    """Return why an operation may be refused, or `None`: what numpy says of it.

    A kernel has numpy's result, or a type of it that no value has; numpy refuses some itself.
    """
    if isinstance(results, Exception):
        return type(results).__name__
    types = [np.asarray(one).dtype for one in operands]
    kind = np.asarray(results[0]).dtype
    if op in ("<", "=="):
        if "comparison" in names:
            # What is compared with a number is known of both 0 and 1.
            if names == ("comparison", "comparison"):
                return "comparisons compared"
            if {*names} - {*OF_ARRAYS}:
                return NEVER.get({*names}.difference(OF_ARRAYS).pop())
        if all(one.kind in "biu" for one in types):
            return None
        kind = np.result_type(*operands)
    if any(one.kind == "f" and one.itemsize > 8 for one in types):
        return "longdouble"
    if op == "//" and kind.kind == "f":
        return f"{op} of real numbers"
    if kind.kind == "b" and op not in ("<", "==", "~"):
        return "comparison"
    return None if kind.name in DTYPES or kind.kind == "b" else kind.name


def sweep(kernels, u, v):
    """Return the results of kernels, as those of one kernel with a field for each."""
    names = [f"u{n}" for n in range(len(kernels))]

    def kernel(v, **fields):
        results = tuple(one(fields[name], v) for name, one in zip(names, kernels))
        return results if len(results) > 1 else results[0]

    kernel.__signature__ = inspect.Signature(
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in [*names, "v"]
    )
    given = (u,) * len(kernels) if len(kernels) > 1 else u
    made = syncline.sweep(syncline.kernel(kernel), given, v, iterations=1)
    return made if len(kernels) > 1 else [made]


def check(kernels, u, v, counts):
    """Compare kernels with the loop: their bits, or their refusals.

    ``kernels`` are the kernel, why it may be refused, and what to tell of it.
    """
    equal = []
    for kernel, reason, told in kernels:
        try:
            syncline.kernel(kernel).describe([u.dtype, v.dtype], dimensions=1)
        except syncline.KernelError as error:
            assert reason is not None, f"{told}: {error}"
            assert "test_numbers.py, line" in str(error), error
            counts[f"refused: {reason}"] += 1
        else:
            assert reason is None, f"{told} is not refused: {reason}"
            equal.append((kernel, told))
    if not equal:
        return
    for made, (kernel, told) in zip(sweep([kernel for kernel, _ in equal], u, v), equal):
        expected = np.concatenate([stored(one, u.dtype) for one in loop(kernel, u, v)])
        assert same(made, expected), f"{told}: {made} is not {expected} of {u}, {v}"
        counts["equal"] += 1


def arrays(dtype, other):
    """Return the points of a field and of a coefficient."""
    u = values(dtype)
    return u, np.resize(values(other)[::-1], u.shape)


def part_of(name, u, v):
    kind = KINDS[name]
    return kind(u, v) if callable(kind) else kind


def applied(op, names, u, v):
    """Return an operation on operands of these kinds."""
    a, b = (part_of(name, u, v) for name in names)
    result = OPERATIONS[op](a, b, u) if op in WITH else OPERATIONS[op](a, b)
    return np.where(result, 3, 5) if op in ("<", "==") else result


def operations(dtype, other, names, counts):
    """Check all operations on operands of these kinds."""
    u, v = arrays(dtype, other)
    kernels = []
    for op in OPERATIONS:

        def kernel(u, v, op=op):
            return applied(op, names, u, v)

        with np.errstate(all="ignore"):
            operands = [part_of(name, u[0], v[0]) for name in names]
            operands += [u[0]] * (op == "clip")
            reason = may_refuse(op, loop(kernel, u, v), operands, names)
        kernels.append((kernel, reason, f"{dtype}, {other}: {op} of {names}"))
    check(kernels, u, v, counts)


def promoted(count=None):
    """Check combinations, `count` of all pairs of a type and operands, and print the outcomes."""
    pairs = [pair for pair in itertools.product(KINDS, KINDS) if {*pair} & {*OF_ARRAYS}]
    every = list(itertools.product(DTYPES, pairs))
    counts = collections.Counter()
    for at in np.random.default_rng(seed(5)).permutation(len(every))[:count]:
        dtype, names = every[at]
        # The type of the other array: each one in turn.
        operations(dtype, DTYPES[at % len(DTYPES)], names, counts)
    print(f"\n{sum(counts.values())} combinations:", dict(sorted(counts.items())))
    return counts


def test_some_operations_have_the_types_of_numpy():
    counts = promoted(14)
    assert counts["equal"] > sum(counts.values()) / 2


@pytest.mark.full("pairs of operands, with all operations, take a minute")
def test_operations_have_the_types_of_numpy():
    # All pairs of operands and types, in soak, take two minutes.
    counts = promoted(None if TIER == "soak" else 500)
    assert counts["equal"] > sum(counts.values()) / 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_all_types_meet(dtype):
    # All other types in the full tier, and its own.
    for step in range(cases(9)):
        other = DTYPES[(DTYPES.index(dtype) + 1 + step * 2) % len(DTYPES)]
        operations(dtype, other, ("value", "other value"), collections.Counter())


@pytest.mark.parametrize("op", UNARY)
def test_operations_on_one_value(op):
    apply, counts = UNARY[op], collections.Counter()
    for dtype in DTYPES:
        u, v = arrays(dtype, dtype)
        kernels = []
        for name in OF_ARRAYS:

            def kernel(u, v, name=name):
                return apply(part_of(name, u, v))

            results = loop(kernel, u, v)
            kind = None if isinstance(results, Exception) else np.asarray(results[0]).dtype.kind
            with np.errstate(all="ignore"):
                reason = may_refuse(op, results, [part_of(name, u[0], v[0])], (name,))
            # Descriptions have no operations on bits, and of the powers of real numbers none.
            if op == "<< 1" or (op == "~" and name != "comparison"):
                reason = "bits"
            elif op.startswith("** ") and op[3:] not in ("0", "1") and kind == "f":
                reason = "power"
            kernels.append((kernel, reason, f"{dtype}: {op} of {name}"))
        check(kernels, u, v, counts)


def chain(rng, dtype, u, v):
    """Return a random chain of three operations, none of which may be refused."""
    steps = []

    def kernel(u, v):
        result = u
        for op, name, is_left in steps:
            names = (name, "value") if is_left else ("value", name)
            a, b = (result if one == "value" else part_of(one, u, v) for one in names)
            result = OPERATIONS[op](a, b, result) if op in WITH else OPERATIONS[op](a, b)
            if op in ("<", "=="):
                result = np.where(result, 7, -1)
        return result

    while len(steps) < 3:
        op, name = rng.choice([*OPERATIONS]), rng.choice([one for one in KINDS if one != "value"])
        before = loop(kernel, u, v)
        steps.append((str(op), str(name), bool(rng.integers(2))))
        results = loop(kernel, u, v)
        with np.errstate(all="ignore"):
            operands = [before[0], part_of(name, u[0], v[0])]
            if may_refuse(op, results, operands, ("value", name)) is not None:
                steps.pop()
    return kernel, None, f"{dtype}, {v.dtype}: {steps}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_chains_of_operations(dtype):
    rng, counts = np.random.default_rng(seed(3)), collections.Counter()
    for _ in range(cases(16)):
        u, v = arrays(dtype, rng.choice(DTYPES))
        check([chain(rng, dtype, u, v) for _ in range(8)], u, v, counts)
    assert {*counts} == {"equal"}


def plain(kernel, u, *others):
    """Return the sweep of a kernel by loops over scalars of numpy."""
    out = u.copy()
    with np.errstate(all="ignore"):
        for at in np.ndindex(u.shape):
            out[at] = stored(kernel(u[at], *(other[at] for other in others)), u.dtype)[0]
    return out


def agree(kernel, u, *others):
    made = syncline.sweep(kernel, u, others, iterations=1)
    assert same(made, plain(kernel, u, *others))
    return made


def test_limits_of_numpy_have_their_types(rng):
    u8 = np.arange(256, dtype=np.uint8).reshape(16, 16)
    limit = np.array([10, 200]).max()
    agree(lambda u: np.where(u + limit > 250, 1, 0), u8)
    agree(lambda u: np.where(u - np.int64(10) < 0, 0, u), u8)
    agree(lambda u: np.where(np.where(u > 9, 100, 0) * 3 > 255, 1, 0), u8)
    agree(lambda u: np.where(u + np.int64(2**62) + 2**62 < 0, u, 9), u8)
    agree(lambda u: (u + np.int64(-(2**63))) // np.int64(2**60 + 1), u8)
    i16 = (np.arange(256) * 128 - 1).astype(np.int16)
    agree(lambda u: np.where(u * np.int64(2) > 30000, 1, 0), i16)
    f4 = rng.random((16, 16)).astype(np.float32)
    h = np.linspace(0, 1, 11)[1]
    agree(lambda u: u * h + h, f4)
    agree(lambda u: u * np.where(u > 0.5, 0.1, 0.3), f4)
    agree(lambda u: np.where(np.where(u > 0.5, 0.1, 0.3) > np.float32(0.1), u, 0), f4)
    agree(lambda u, v: u * v + v / 3, u8, f4)


def test_loops_of_numba_agree():
    numba = pytest.importorskip("numba")
    u = np.arange(256, dtype=np.uint8).reshape(16, 16)
    limit = np.array([10, 200]).max()

    @numba.njit
    def above(u, limit):
        out = u.copy()
        for i in range(u.shape[0]):
            for j in range(u.shape[1]):
                out[i, j] = 1 if u[i, j] + limit > 250 else 0
        return out

    made = syncline.sweep(lambda u: np.where(u + limit > 250, 1, 0), u, iterations=1)
    assert np.array_equal(made, above(u, limit))


def test_nan_and_zero_as_numbers():
    for dtype in ("float64", "float32"):
        u = values(dtype)
        for bound in (np.nan, np.inf, np.float32(np.nan), 0, 2):
            agree(lambda u, bound=bound: np.minimum(u, bound), u)
            agree(lambda u, bound=bound: np.maximum(bound, u), u)
            agree(lambda u, bound=bound: np.clip(u, bound, 3), u)


def test_bounds_of_clip_that_the_type_cannot_hold():
    for dtype in ("uint8", "int16"):
        u, v = arrays(dtype, "int32")
        agree(lambda u: np.clip(u, -(10**6), 10**6), u)
        agree(lambda u: np.clip(u, None, 10**6), u)
        agree(lambda u, v: np.clip(u, v, 10**6), u, v)
        agree(lambda u, v: np.clip(v, u, 10**6), u, v)
        agree(lambda u: np.clip(5, u, 10**6), u)
        agree(lambda u: np.clip(u, 2.5, np.float32(7)), u)


def test_what_is_known_of_a_comparison():
    u = values("uint8")
    agree(lambda u: np.where((u < 300) & (u > 2), u, 1), u)
    agree(lambda u: np.where((u == -1) | (u > 2), u, 1), u)
    agree(lambda u: np.where((u > 2) ^ (u < np.int64(300)), u, 1), u)
    agree(lambda u: np.where(np.logical_or(u > 2, u > 70000), u, 1), u)
    agree(lambda u: np.where(np.greater(300, u), np.float64(1), u), u)
    agree(lambda u: u if u < 300 else u + 1, u)
    agree(lambda u: np.where(u > 2, 1, 0) == 1, u)
    agree(lambda u: np.where(np.where(u > 2, 1, 0) == np.where(u > 100, 1, 0), 1, 0), u)
    agree(lambda u: (u > 2) * 2 + (u > 100) * u, u)
    agree(lambda u: np.where((u > 2) == True, u, 0), u)  # noqa: E712


def test_what_where_returns_is_changed_in_place():
    def changed(u):
        x = np.where(u > 2, u, 0)
        y, z = x, x * 1
        x += 3
        x *= u
        x -= np.uint8(1)
        return x + y * z

    def real(u):
        x = np.where(u > 2, 0.5, 1.5)
        before = +x
        x /= u
        x += u
        return x * before

    def scalar(u):
        x = np.where(u > 2, u, 0)[()]
        y = x
        x += np.int64(300)
        return x // 2 + y

    for kernel in (changed, real, scalar):
        agree(kernel, values("uint8"))

    def wider(u):
        x = np.where(u > 2, u, 0)
        x += 0.5
        return x

    with pytest.raises(syncline.KernelError, match=r"line .*from uint8 to float64: write x = x"):
        syncline.sweep(wider, values("uint8"), iterations=1)


def test_a_choice_of_numbers_has_the_type_of_the_field():
    def life(cell):
        old = cell.old
        alive = old.nw + old.n + old.ne + old.w + old.e + old.sw + old.s + old.se
        return np.where((alive == 3) | ((alive == 2) & (cell == 1)), 1, 0)

    text = syncline.kernel(life).describe("uint8")
    assert "cell = if(t1 == 3, 1, if(t1 == 2, if(cell == 1, 1, 0), 0))" in text
    assert "int64" not in text
    for dtype in DTYPES[2:]:
        # The low bits of what is computed in int64.
        text = syncline.kernel(lambda u: -(u * np.int64(3) - u.old.n)).describe(dtype)
        assert "int64" not in text or dtype == "int64"
    # What is compared is computed in int64, and stays there.
    text = syncline.kernel(lambda u: np.where(u + np.int64(3) > 5, 1, 0)).describe("uint8")
    assert "if(int64(u) + 3 > 5, 1, 0)" in text
    heat = syncline.kernel(lambda u: u + np.where(u > 0, 1, 0) * np.float64(0.5))
    assert heat.describe().count("float64") == 0
    assert 'u = "float32"' in heat.describe("float32")


def test_what_is_counted_has_the_type_of_the_field():
    def count(u):
        around = [u.old.n, u.old.s, u.old.e, u.old.w]
        alive = sum(np.where(one > u, 1, 0) for one in around)
        return np.where((alive >= 2) & (abs(alive - 3) != 1), u, 0)

    for dtype in DTYPES:
        text = syncline.kernel(count).describe(dtype)
        # A difference may be negative, which a type without a sign does not have.
        others = {"int64"} if dtype.startswith("uint") else set()
        assert {*re.findall(r"u?[a-z]+\d+", text)} & ({*DTYPES} - {dtype}) <= others
        u = values(dtype)
        hundreds = lambda u: np.where(u > 1, 100, 0) * 2 + np.where(u > 2, 100, 0)  # noqa: E731
        agree(lambda u, hundreds=hundreds: np.where(hundreds(u) > 200, 1, 0), u)
        agree(lambda u: np.where(np.where(u > 1, 1, 0) * -1 == 0, u, 1 / (u * (u > 1))), u)
        agree(lambda u: np.where(u > 1, 1, 0) * np.where(u > 2, 0, -1), u)
        agree(lambda u: -np.where(u > 1, 1, 0), u)
        # What wraps in its type does so in each.
        agree(lambda u: (u > 1) - np.uint8(200), u)
        agree(lambda u: np.where((u > 1) * np.int16(200) * np.int16(200) > 0, 1, 0), u)
        agree(lambda u: abs((u > 1) * np.int16(-(2**15))), u)


def test_descriptions_of_several_types_are_those_of_the_command():
    u, v = arrays("float32", "uint8")

    def kernel(u, v):
        return np.where(u > v, u * np.float64(0.1), v + np.int64(2**60))

    text = syncline.kernel(kernel).describe([u.dtype, v.dtype], dimensions=1)
    assert same(syncline.sweep(text, u, v, iterations=1), agree(kernel, u, v))


@pytest.mark.parametrize("dtype", DTYPES)
def test_remainders_and_floors_are_those_of_numpy(dtype):
    u, v = arrays(dtype, "float64" if dtype == "float64" else "int16")
    agree(lambda u, v: u % v, u, v)
    agree(lambda u, v: np.remainder(v, u), u, v)
    agree(lambda u, v: np.floor(u / 3) + np.floor(v), u, v)
    by = 3 if dtype.startswith("uint") else -3
    agree(lambda u, v: np.where(np.isnan(u) | (u > v), v, u % by), u, v)
    text = syncline.kernel(lambda u: np.where(np.isnan(u), 0, np.floor(u) % 2)).describe("float32")
    assert "floor(u) % 2" in text


def test_masks_are_of_bool(rng):
    u = rng.normal(size=(6, 7))
    mask = u > 0
    agree(lambda u, m: u + (m - 1), u, mask)
    agree(lambda u, m: np.where(m & (u > 0.5), u, 1), u, mask)
    agree(lambda u, m: np.where(~m, u, 1) * m + m * 300, u, mask)
    agree(lambda u, m: np.where(m != 0, u, 3), u, mask)
    assert "m.e != 0" in syncline.kernel(lambda u, m: u * m.e).describe(["float64", "bool"])
    with pytest.raises(syncline.KernelError, match="only a coefficient"):
        syncline.kernel(lambda u: u).describe("bool")


@pytest.mark.filterwarnings("ignore::syncline.SlowKernelWarning")
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_function_called_for_each_point_has_scalars_of_numpy(dtype):
    u, v = arrays(dtype, "int16")
    if dtype == "int64":
        u[abs(u.astype(float)) > 2.0**50] = 2**17 + 1
    mask = v > 2

    def shifted(u, v, m):
        return (u << 1) + (m - 1) if u.dtype.kind != "f" else (u**3 + v) * ~m

    def inverse(u, v, m):
        return 1 / u if v > 2 and m else u % 2

    def power(u, v, m):
        return u**0.5 if u.dtype.kind == "f" else u**3 // 5 ^ 1

    def number(u, v, m):
        return int(u) % 7 if u == u and abs(u) < 1e18 else True

    for kernel in (shifted, inverse, power, number):
        agree(kernel, u, v, mask)


@pytest.mark.filterwarnings("ignore::syncline.SlowKernelWarning")
def test_a_function_called_for_each_point_is_told_what_it_cannot_have():
    def shift(u):
        return u << 1

    for wide in (2**53 + 1, -(2**60)):
        with pytest.raises(syncline.KernelError, match=r"line .*shift reads .* int64"):
            syncline.sweep(shift, np.array([wide]), iterations=1)
    with pytest.raises(syncline.KernelError, match="line .*shift returns .* beyond"):
        syncline.sweep(shift, np.array([2**53 - 1]), iterations=1)

    def beyond(u):
        return 300 if u > 3 and u << 1 else u

    with pytest.raises(syncline.KernelError, match="line .*uint8 cannot hold 300"):
        syncline.sweep(beyond, values("uint8"), iterations=1)


def test_numbers_of_numpy_beyond_the_edges():
    u = values("float64")
    for edge in (np.float32(0.1), np.array(0.1), np.int8(-3), np.True_):
        made = syncline.sweep(lambda u: u.old[-1], u, iterations=1, boundary=edge)
        assert same(made, np.pad(u, 1, constant_values=edge)[:-2])
    u = values("uint8")
    made = syncline.sweep(lambda u: u.old[-1], u, iterations=1, boundary=np.int64(7))
    assert same(made, np.pad(u, 1, constant_values=7)[:-2])
    made = syncline.sweep(lambda u: u + 1, u, iterations=1, nodata=np.uint8(255))
    assert same(made, np.where(u == 255, u, u + np.uint8(1)))
    kernel = lambda u: u.old[-1]  # noqa: E731
    for wrong in (1j, np.complex128(1), "5", np.array([1]), np.longdouble(1) / 3, np.ma.masked):
        for options in ({"nodata": wrong}, {"boundary": [wrong]}):
            with pytest.raises(syncline.Error, match="no real number|no number|no boundary"):
                syncline.sweep(kernel, u, iterations=1, **options)
    for wrong in (np.int64(300), np.float64(2.5), -1):
        with pytest.raises(syncline.KernelError, match="uint8 cannot be"):
            syncline.sweep(kernel, u, iterations=1, boundary=wrong)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "float64"])
def test_a_point_without_a_neighbour_stays_whatever_the_types(dtype):
    u = np.arange(20).reshape(4, 5).astype(dtype)
    kernels = [
        lambda u: np.where(u.old.w > 300, u, 7),
        lambda u: np.where(u.old.w < 300, 7, u),
        lambda u: np.where(np.where(u.old.w > 300, 1, 2) > 0, 7, u),
        lambda u: 6 + u.old.w**0,
    ]
    right = np.full_like(u, 7)
    right[:, 0] = u[:, 0]
    for kernel in kernels:
        assert np.array_equal(syncline.sweep(kernel, u, iterations=1), right)
