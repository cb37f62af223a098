"""Results have the bits of plain loops over scalars of numpy, for random kernels and arrays."""

import numpy as np
import pytest
import syncline
from conftest import OFFSETS, cases, plain_loops, same
from hypothesis import given, settings
from hypothesis import strategies as st

REALS = ["float64", "float32"]
WHOLES = ["uint8", "int16", "uint16", "int32", "int64", "int8", "uint32"]


def trees(depth, whole, arrays):
    """Return random expressions, as nested tuples."""
    number = st.integers(0, 3) if whole else st.sampled_from([0.0, 1.0, 0.25, -1.5, 1e-3, 3])
    leaf = st.one_of(
        st.tuples(st.just("read"), st.integers(0, arrays - 1), st.sampled_from(["", *OFFSETS])),
        st.tuples(st.just("number"), number),
    )
    if depth == 0:
        return leaf
    part = trees(depth - 1, whole, arrays)
    binary = ["+", "-", "*", "%", "min", "max"] + ([] if whole else ["/"])
    unary = ["abs", "neg"] + ([] if whole else ["sqrt", "square", "floor"])
    return st.one_of(
        leaf,
        st.tuples(st.sampled_from(binary), part, part),
        st.tuples(st.sampled_from(unary), part),
        st.tuples(
            st.just("where"),
            st.sampled_from(["<", "<=", "==", "!=", "and", "or", "not", "nan"]),
            part,
            part,
            part,
            part,
        ),
    )


def evaluate(tree, arrays, old):
    op, *args = tree
    if op == "read":
        array = arrays[args[0]]
        if not args[1]:
            return array
        return getattr(array.old if old else array, args[1])
    if op == "number":
        return args[0]
    kind = arrays[0]
    if op == "where":
        compare, *args = args
        a, b, x, y = (lift(evaluate(arg, arrays, old), kind) for arg in args)
        condition = {
            "<": lambda: a < b,
            "<=": lambda: a <= b,
            "==": lambda: a == b,
            "!=": lambda: a != b,
            "and": lambda: (a < b) & (x < y),
            "or": lambda: (a < b) | (x >= y),
            "not": lambda: ~(a > b),
            "nan": lambda: np.isnan(a) | (x < b),
        }[compare]()
        return (
            np.where(condition, x, y)[()]
            if isinstance(condition, np.bool_)
            else np.where(condition, x, y)
        )
    args = [lift(evaluate(arg, arrays, old), kind) for arg in args]
    return {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": lambda a, b: a / b,
        "%": lambda a, b: a % b,
        "min": np.minimum,
        "max": np.maximum,
        "abs": abs,
        "neg": lambda a: -a,
        "sqrt": np.sqrt,
        "floor": np.floor,
        "square": lambda a: a * a,
    }[op](*args)


def lift(value, kind):
    """Return numbers as values of the field's type, as an operation with the field makes them."""
    return kind.dtype.type(value) if type(value) in (int, float) else value


def is_number(tree):
    """Return whether a tree reads no array, so that Python knows its value."""
    return tree[0] != "read" and all(is_number(part) for part in tree if isinstance(part, tuple))


def decided(compare, operands, kind):
    """Return what numbers alone decide of a condition; None if values of arrays matter."""
    a, b, x, y = (
        lift(evaluate(tree, (kind,), False), kind) if is_number(tree) else None for tree in operands
    )

    def known(test, *of):
        return None if any(one is None for one in of) else bool(test(*of))

    less = known(lambda a, b: a < b, a, b)
    match compare:
        case "and":
            parts = less, known(lambda x, y: x < y, x, y)
            return False if False in parts else None if None in parts else True
        case "or" | "nan":
            other = known(lambda x, y: x >= y, x, y)
            if compare == "nan":
                less, other = known(np.isnan, a), known(lambda x, b: x < b, x, b)
            parts = less, other
            return True if True in parts else None if None in parts else False
    tests = {
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        "==": lambda a, b: a == b,
        "!=": lambda a, b: a != b,
        "not": lambda a, b: not a > b,
    }
    return known(tests[compare], a, b)


def reads_of(tree, kind):
    """Return the neighbours that a kernel reads: not those of a branch that numbers rule out."""
    if tree[0] == "read":
        return {tree[2]} - {""}
    parts = [part for part in tree if isinstance(part, tuple)]
    if tree[0] == "where":
        chosen = decided(tree[1], parts, kind)
        if chosen is not None:
            return reads_of(parts[2 if chosen else 3], kind)
    return set().union(*(reads_of(part, kind) for part in parts), set())


@st.composite
def problems(draw):
    whole = draw(st.booleans())
    dtype = draw(st.sampled_from(WHOLES if whole else REALS))
    coefficients, fields = draw(st.integers(0, 2)), draw(st.integers(1, 2))
    shape = (draw(st.integers(1, 9)), draw(st.integers(1, 11)))
    count = fields + coefficients
    forest = tuple(draw(trees(3, whole, count)) for _ in range(fields))
    old = draw(st.booleans())
    boundary = draw(st.sampled_from(["fixed", "nearest", "reflect", 0, 2]))
    if old and draw(st.booleans()):
        first = draw(st.sampled_from([boundary, "periodic"]))
        boundary = (first, "periodic")
    seed = draw(st.integers(0, 2**32 - 1))
    return dtype, fields, coefficients, shape, forest, old, boundary, seed


def make(dtype, shape, count, seed):
    rng = np.random.default_rng(seed)
    if dtype in REALS:
        arrays = [rng.normal(size=shape).astype(dtype) for _ in range(count)]
        for array in arrays:
            array[rng.random(shape) < 0.05] = rng.choice([np.nan, 0.0, -0.0, np.inf])
        return arrays
    info = np.iinfo(dtype)
    return [rng.integers(info.min, info.max, shape, dtype, endpoint=True) for _ in range(count)]


@settings(max_examples=cases(300))
@given(problems(), st.integers(0, 4), st.integers(1, 3), st.sampled_from([None, 1, 2]))
def test_random_kernels(case, iterations, threads, depth):
    dtype, fields, coefficients, shape, forest, old, boundary, seed = case
    arrays = make(dtype, shape, fields + coefficients, seed)
    names = ["a", "b", "c", "d"][: fields + coefficients]

    def body(*given):
        results = tuple(
            lift(evaluate(tree, given, old), field) for tree, field in zip(forest, given)
        )
        return results if fields > 1 else results[0]

    scope = {"body": body}
    exec(f"def kernel({', '.join(names)}): return body({', '.join(names)})", scope)
    offsets = {OFFSETS[name] for tree in forest for name in reads_of(tree, arrays[0])}
    expected = plain_loops(body, arrays[:fields], arrays[fields:], iterations, offsets, boundary)
    result = syncline.sweep(
        syncline.kernel(scope["kernel"]),
        tuple(arrays[:fields]) if fields > 1 else arrays[0],
        arrays[fields:],
        iterations=iterations,
        threads=threads,
        depth=depth,
        boundary=boundary,
    )
    for one, other in zip(result if fields > 1 else [result], expected):
        assert same(one, other)


@pytest.mark.parametrize("dtype", REALS + WHOLES)
@pytest.mark.parametrize("shape", [(7,), (1, 1), (6, 9), (4, 5, 6)])
def test_dimensions(dtype, shape, rng):
    u = (rng.random(shape) * 100).astype(dtype)
    before = u.copy()
    ahead = (0,) * (len(shape) - 1) + (1,)

    def kernel(u):
        return u.old[ahead if len(shape) > 1 else 1] + u

    def plain(u):
        return u.old[ahead] + u

    [expected] = plain_loops(plain, [u], [], 3, [ahead])
    result = syncline.sweep(kernel, u, iterations=3)
    assert same(result, expected) and same(u, before)


def test_numbas_loops(rng):
    numba = pytest.importorskip("numba")

    @numba.njit
    def loops(u, f, iterations):
        for _ in range(iterations):
            for i in range(1, u.shape[0] - 1):
                for j in range(1, u.shape[1] - 1):
                    u[i, j] = 0.25 * (
                        u[i - 1, j] + u[i, j - 1] + u[i, j + 1] + u[i + 1, j] - f[i, j]
                    )

    @syncline.kernel
    def relax(u, f):
        return 0.25 * (u.n + u.w + u.e + u.s - f)

    u, f = rng.normal(size=(2, 130, 171))
    expected = u.copy()
    loops(expected, f, 25)
    assert same(syncline.sweep(relax, u, f, iterations=25, depth=7), expected)
