"""Kernels in Python: what is traced, what is refused, and compiled functions."""

import ctypes
import functools
import gc
import math
import os
import subprocess
import sys
import warnings
import weakref

import numpy as np
import pytest
import syncline
from conftest import same


@pytest.fixture
def u(rng):
    return rng.normal(size=(20, 30))


def test_a_description_is_a_text_for_the_command(tmp_path, u):
    @syncline.kernel
    def smooth(u, f, weight=0.25):
        return weight * (u.old.n + u.old[1, 0]) - np.minimum(f, 0.5)

    text = smooth.describe(boundary="nearest")
    assert text == (
        'name = "smooth"\nfield = "u"\ncoefficients = ["f"]\nedges = "clamped"\nupdate = """\n'
        'u = 0.25 * (old.u.n + old.u.s) - min(0.5, f)\n"""\n'
    )
    path = tmp_path / "smooth.toml"
    path.write_text(text)
    f = u[::-1].copy()
    expected = syncline.sweep(smooth, u, f, iterations=4, boundary="nearest")
    assert same(syncline.sweep(path, u, f, iterations=4), expected)
    assert same(syncline.sweep(text, u, f, iterations=4), expected)
    with pytest.raises(syncline.KernelError, match="itself"):
        syncline.sweep(path, u, f, iterations=4, boundary=0)


def test_values_that_are_used_twice_are_written_once():
    @syncline.kernel
    def kernel(u):
        value = u.n
        for _ in range(100):
            value = value * value + u.w
        return value

    text = kernel.describe()
    assert text.count("\n") < 110 and len(text) < 5000


def test_deep_kernels(u):
    def kernel(u, steps):
        value = u.n
        for step in range(steps):
            value = u.w - (value + step) / 2
        return value

    assert np.isfinite(syncline.sweep(lambda u: kernel(u, 60), u, iterations=2)).all()
    with pytest.raises(syncline.KernelError, match="refused"):
        syncline.sweep(lambda u: kernel(u, 5000), u, iterations=2)


@pytest.mark.parametrize(
    "body, told",
    [
        ("u.n if u.n > u.s else u.s", "numpy.where"),
        ("min(u.n, u.s)", "numpy.minimum"),
        ("math.sqrt(u.n)", "numpy.sqrt"),
        ("np.exp(u.n)", "numpy.exp"),
        ("u.n ** 3", "product"),
        ("u.n // 2", "//"),
        ("float(u)", "no number"),
        ("u.x", "no neighbour 'x'"),
        ("u[3, 0]", "at most 2"),
        ("u[1]", "1 offsets"),
        ("u.n + np.ones(3)", "coefficient"),
        ("u.n + 'a'", "str is neither"),
        ("u.n + Fraction(1, 3)", "Fraction is neither .* by float"),
        ("u.n + 1j", "no real number"),
        ("u.n + np.timedelta64(1, 's')", "no real number"),
        ("u.n + np.longdouble(1)", "wider than float64"),
        ("u.n + np.ma.masked", "MaskedConstant is neither"),
        ("u.n + 10**400", "too large"),
        ("(u > 0) + (u > 1)", "a comparison in numpy"),
        ("-(u > 0)", "numpy refuses it"),
        ("(u > 0) & 1", "join comparisons only"),
        ("u.n if (u > 0) == (u < 1) else u", "cannot be compared"),
        ("u.n if (u > 0) < (u < 1) else u", "cannot be compared"),
        ("u << 1", "<<"),
        ("2 >> u", ">>"),
        ("divmod(u, 2)[1]", "//"),
        ("u @ u", "@"),
        ("u & 1", "mask != 0"),
        ("u ** 0.5", "power of 0.5"),
        ("2 ** u", "power by a value"),
        ("np.power(u, 2)", "numpy.power"),
        ("(u + 1).n", "no .n"),
        ("u.real", "no neighbour 'real'"),
        ("(u + 1)[0, 0]", "no number"),
        ("(u + 1)(2)", "no number"),
        ("u(2)", "no number"),
        ("round(u)", "no number"),
        ("math.floor(u)", "no number"),
        ("np.where(u > 0, u, 1 + 1j)", "no real number"),
        ("np.where(u > 0)", "two values"),
        ("np.where(np.ones(3) > 0, u, 1)", "coefficient"),
        ("None", "returns nothing"),
        ("(u, u)", "returns 2 values"),
        ("u.old.n + u.s", "mixes"),
    ],
)
def test_what_cannot_be_traced_is_told_with_its_line(tmp_path, u, body, told):
    path = tmp_path / "its_kernel.py"
    modules = "import math, numpy as np\nfrom fractions import Fraction\n"
    path.write_text(f"{modules}def kernel(u):\n    return {body}\n")
    scope = {}
    exec(compile(path.read_text(), path, "exec"), scope)
    with pytest.raises(syncline.KernelError, match=told) as caught:
        syncline.sweep(syncline.kernel(scope["kernel"]), u, iterations=1)
    if not told.startswith(("returns", "mixes")):
        assert "its_kernel.py, line 4" in str(caught.value)


def test_a_plain_function_works_slowly_and_says_so_once(u):
    def steeper(u, f):
        if abs(u.old.n) > abs(u.old.s):
            return u.old.n + f
        return u.old.s - u.old[0, 1]

    f = u * 2
    with pytest.warns(syncline.SlowKernelWarning, match="line .*numpy.where"):
        result = syncline.sweep(steeper, u, f, iterations=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(syncline.sweep(steeper, u, f, iterations=3), result)
    assert same(
        result,
        syncline.sweep(
            lambda u, f: np.where(abs(u.old.n) > abs(u.old.s), u.old.n + f, u.old.s - u.old[0, 1]),
            u,
            f,
            iterations=3,
        ),
    )


@pytest.mark.filterwarnings("ignore::syncline.SlowKernelWarning")
def test_the_exception_of_a_plain_function_ends_the_sweep(u):
    def fails(u):
        if u.n > 1e9:
            return u.s
        raise ZeroDivisionError("here")

    with pytest.raises(ZeroDivisionError, match="here"):
        syncline.sweep(fails, u, iterations=3)

    def mixes(u):
        return u.n if u.old.s > 0 else u.s

    with pytest.raises(syncline.KernelError, match="order of the updates"):
        syncline.sweep(mixes, u, iterations=3)

    def text(u):
        return "x" if u.n > 0 else "y"

    for wrong, told in ((text, "'[xy]'"), (lambda u: complex(u.n - 9.0) ** 0.5, r"\(.*j\)")):
        with pytest.raises(syncline.KernelError, match=f"returns {told}, which is no real number"):
            syncline.sweep(wrong, u, iterations=3)


def test_whole_numbers_wrap_and_have_real_quotients():
    u = np.full((3, 3), 250, np.uint8)
    assert syncline.sweep(lambda u: u.old.n + 10, u, iterations=1)[1, 1] == 4
    for halve in (lambda u: u / 2, lambda u: (u.astype(float) / 2).astype("uint8")):
        assert (syncline.sweep(halve, u, iterations=1) == 125).all()
    assert (syncline.sweep(lambda u: 1 / (u - 250), u, iterations=1) == 255).all(), "infinite"
    for body in (lambda u: u + 300, lambda u: np.minimum(u, 300), lambda u: 300):
        with pytest.raises(syncline.KernelError, match="cannot hold 300"):
            syncline.sweep(body, u, iterations=1)
    with pytest.raises(syncline.KernelError, match="float16 in numpy"):
        syncline.sweep(lambda u: np.sqrt(u), u, iterations=1)


NUMBERS = "void (size_t n, const double *const *arguments, double *results, void *context)"


def reference(u):
    return syncline.sweep(lambda u: u.n * u.n + u.w, u, iterations=3)


def apply(function, u):
    return syncline.sweep(lambda u: function(u.n, u.w), u, iterations=3)


def in_ctypes(declared=True):
    pointer = ctypes.POINTER(ctypes.c_double)
    types = [ctypes.c_size_t, ctypes.POINTER(pointer), pointer, ctypes.c_void_p]
    if not declared:
        types[0] = ctypes.c_int

    @ctypes.CFUNCTYPE(None, *types)
    def run(n, arguments, results, context):
        for i in range(n):
            results[i] = arguments[0][i] * arguments[0][i] + arguments[1][i]

    return run


def test_ctypes(u):
    function = syncline.function(in_ctypes(), 2, name="square")
    assert same(apply(function, u), reference(u))
    with pytest.raises(syncline.KernelError, match="it must be void"):
        syncline.function(in_ctypes(declared=False), 2, name="square")
    with pytest.raises(syncline.KernelError, match="not declared"):
        syncline.function(ctypes.CDLL(None).qsort, 2)
    with pytest.raises(syncline.KernelError, match="number of arguments"):
        syncline.function(in_ctypes(), name="square")
    with pytest.raises(syncline.KernelError, match="takes 2 arguments, but 1"):
        syncline.sweep(lambda u: function(u.n), u, iterations=1)
    with pytest.raises(syncline.KernelError, match="1 to 16"):
        syncline.function(in_ctypes(), 17, name="square")


def test_numba(u):
    numba = pytest.importorskip("numba")
    types = numba.types

    @numba.njit
    def square(a, b):
        return a * a + b

    assert same(apply(syncline.function(square), u), reference(u))
    reals = types.CPointer(types.float64)

    @numba.cfunc(types.void(types.uintp, types.CPointer(reals), reals, types.voidptr))
    def run(n, arguments, results, context):
        a, b = numba.carray(arguments[0], n), numba.carray(arguments[1], n)
        out = numba.carray(results, n)
        for i in range(n):
            out[i] = a[i] * a[i] + b[i]

    assert same(apply(syncline.function(run, 2), u), reference(u))

    @numba.cfunc("float64(float64)")
    def other(a):
        return a

    with pytest.raises(syncline.KernelError, match="is compiled for"):
        syncline.function(other, 1)
    with pytest.raises(syncline.KernelError, match="has 2 arguments"):
        syncline.function(square, 3)


def test_cffi(u):
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()

    @ffi.callback("void(size_t, double **, double *, void *)")
    def run(n, arguments, results, context):
        for i in range(n):
            results[i] = arguments[0][i] * arguments[0][i] + arguments[1][i]

    assert same(apply(syncline.function(run, 2, name="square"), u), reference(u))

    @ffi.callback("double(double)")
    def other(a):
        return a

    with pytest.raises(syncline.KernelError, match="it must be"):
        syncline.function(other, 1, name="other")


def test_capsules(u):
    run = in_ctypes()
    address = ctypes.cast(run, ctypes.c_void_p).value
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    name = NUMBERS.encode()
    assert same(apply(syncline.function(new(address, name, None), 2), u), reference(u))
    wrong = b"double (double)"
    with pytest.raises(syncline.KernelError, match="is named"):
        syncline.function(new(address, wrong, None), 2)
    assert same(
        apply(syncline.function(new(address, wrong, None), 2, unchecked=True), u), reference(u)
    )


def test_functions_in_python(u):
    function = syncline.function(lambda a, b: a * a + b)
    assert same(apply(function, u), reference(u))
    fails = syncline.function(lambda a, b: 1 / 0, name="fails")
    with pytest.raises(ZeroDivisionError):
        apply(fails, u)
    with pytest.raises(syncline.KernelError, match="called in a kernel"):
        function(1.0, 2.0)
    with pytest.raises(syncline.KernelError, match="two functions"):
        other = syncline.function(lambda a: math.exp(a), name="function")
        syncline.sweep(lambda u: other(u.n) + function(u.n, u.w), u, iterations=1)
    with pytest.raises(syncline.KernelError, match="astype"):
        syncline.sweep(lambda u: function(u.n, u.w), u.astype("float32"), iterations=1)
    small = u.astype("float32")
    result = syncline.sweep(
        lambda u: function(u.n.astype(float), u.w.astype(float)).astype("float32"),
        small,
        iterations=1,
    )
    wide = small.astype(float)
    assert result[1, 1] == np.float32(wide[0, 1] * wide[0, 1] + wide[1, 0])


def test_nothing_is_kept(u):
    class Code:
        def __call__(self, a):
            return a + 1

    code = Code()
    gone = weakref.ref(code)

    def use(function):
        for _ in range(50):
            syncline.sweep(lambda u: function(u.n), u, iterations=1)

    before = sys.getrefcount(u)
    use(syncline.function(code, 1, name="code"))
    assert sys.getrefcount(u) == before
    del code
    gc.collect()
    assert gone() is None


def test_nodata_and_directions(u):
    u[3, 4] = -9999
    result = syncline.sweep(lambda u: (u.old.n + u.old.s) / 2, u, iterations=3, nodata=-9999)
    assert result[3, 4] == -9999 and abs(result).max() == 9999 and (abs(result) > 100).sum() == 1
    one = syncline.sweep(lambda u: u.n + u.w, u, iterations=1, directions="south-east")
    other = syncline.sweep(
        lambda u: u.s + u.e, u[::-1, ::-1], iterations=1, directions="north-west"
    )
    assert same(one, other[::-1, ::-1])
    assert same(
        one, syncline.sweep(lambda u: u.n + u.w, u, iterations=1, directions=["south-east"])
    )


def test_directions_of_three_dimensions():
    u = np.random.default_rng(3).random((5, 6, 7))
    names = [
        f"{plane}-{row}-{col}"
        for plane in ("down", "up")
        for row in ("south", "north")
        for col in ("east", "west")
    ]
    for name in names:
        # The same sweep over the array as this direction sees it.
        turned = tuple(
            slice(None, None, 1 if word in name else -1) for word in ("down", "south", "east")
        )
        k, j, i = (one.step or 1 for one in turned)

        def along(u, k=k, j=j, i=i):
            return (u[-k, 0, 0] + u[0, -j, 0] * 2 - u[0, 0, i] * 3) / 4

        expected = syncline.sweep(
            lambda u: (u[-1, 0, 0] + u[0, -1, 0] * 2 - u[0, 0, 1] * 3) / 4, u[turned], iterations=2
        )
        result = syncline.sweep(along, u, iterations=2, directions=name)
        assert same(expected, result[turned]), name
    both = syncline.sweep(
        lambda u: u.up + u.down, u, iterations=4, directions=["down-south-east", "up-north-west"]
    )
    assert not same(both, syncline.sweep(lambda u: u.up + u.down, u, iterations=4))
    with pytest.raises(syncline.KernelError, match="is `down-south-east` or `up-south-east` meant"):
        syncline.sweep(lambda u: u.up, u, iterations=1, directions="south-east")


@pytest.mark.filterwarnings("ignore::syncline.SlowKernelWarning")
def test_a_plain_function_reads_only_its_arrays(u):
    table = {(0, 1): 1.0}

    def kernel(u):
        old = u.old
        return old.w + math.e + table[0, 1] if u > 0 else old.w

    result = syncline.sweep(kernel, u, iterations=1)
    expected = u.copy()
    expected[:, 1:] = np.where(u[:, 1:] > 0, u[:, :-1] + math.e + 1, u[:, :-1])
    assert np.allclose(result, expected) and (result[:, 0] == u[:, 0]).all()


def test_names_of_arrays_and_temporaries(u):
    def kernel(t1, t2, e, old):
        values = [(t1.n + n) * (t2 + e) for n in range(30)]
        return sum((value * value for value in values), old)

    arrays = [u / 10, u / 7, u / 5]
    result = syncline.sweep(kernel, u, arrays, iterations=1, nodata={"e": -1e300, "old": -3.5e38})
    values = [(u[:-1] + n) * (arrays[0][1:] + arrays[1][1:]) for n in range(30)]
    assert np.allclose(syncline.sweep(kernel, u, arrays, iterations=0), u)
    first = sum((value[0] * value[0] for value in values), arrays[2][1])
    assert same(result[1], first)


def test_casts_of_arrays_of_one_type(u):
    u = np.rint(10 * u)
    result = syncline.sweep(
        lambda u: u + u.old.n.astype("int32").astype("float64"), u, iterations=1
    )
    assert same(result[1:], u[1:] + u[:-1])


def test_functions_are_made_by_one_way():
    with pytest.raises(TypeError):
        syncline.Function("f", 1, (1, 0), None)

    class Pair(tuple):
        def __call__(self, x):
            return x + 1

    function = syncline.function(Pair((1, 2)), 1, name="pair")
    assert syncline.sweep(lambda u: function(u), np.zeros((2, 2)), iterations=1)[1, 1] == 1


def test_a_compiled_function_that_divides_by_zero():
    numba = pytest.importorskip("numba")
    inverse = syncline.function(numba.njit(lambda x: 1 / x), name="inverse")
    result = syncline.sweep(lambda u: inverse(u), np.array([[0.0, 2.0]]), iterations=1)
    assert result.tolist() == [[np.inf, 0.5]]


def test_masks_are_arrays_of_bool_or_numbers(u):
    mask = u > np.median(u)
    for given in (mask, mask.view(np.uint8)):
        made = syncline.sweep(lambda u, mask: np.where(mask, 2 * u, u), u, given, iterations=1)
        assert np.array_equal(made, np.where(mask, 2 * u, u))
    made = syncline.sweep(
        lambda u, mask: np.where((mask != 0) & (u > 0.9), 2 * u, u), u, mask, iterations=1
    )
    assert np.array_equal(made, np.where(mask & (u > 0.9), 2 * u, u))
    joined = lambda u, mask: np.where(mask & (u > 0), u, 1)  # noqa: E731
    turned = lambda u, mask: np.where(~mask, u, 1)  # noqa: E731
    for kernel, expected in (
        (joined, np.where(mask & (u > 0), u, 1)),
        (turned, np.where(~mask, u, 1)),
    ):
        assert same(syncline.sweep(kernel, u, mask, iterations=1), expected)
        # Those of a mask of numbers are operations on bits.
        with pytest.raises(syncline.KernelError, match="mask != 0"):
            syncline.sweep(syncline.kernel(kernel), u, mask.view(np.uint8), iterations=1)
    with pytest.raises(syncline.ArrayError, match="bool"):
        syncline.sweep(lambda mask: mask * 1, mask, iterations=1)


def test_coefficients_by_name_have_any_order(tmp_path, u):
    def kernel(u, a, b):
        return u + a - 2 * b

    a, b = np.full_like(u, 5), np.full_like(u, 7)
    expected = syncline.sweep(kernel, u, (a, b), iterations=1)
    given = {"b": b, "a": a}
    assert np.array_equal(syncline.sweep(kernel, u, given, iterations=1), expected)
    path = tmp_path / "kernel.toml"
    path.write_text(syncline.kernel(kernel).describe())
    assert np.array_equal(syncline.sweep(path, u, given, iterations=1), expected)
    with pytest.raises(syncline.ArrayError, match="b missing"):
        syncline.sweep(kernel, u, a, iterations=1)
    with pytest.raises(syncline.ArrayError, match="part of the kernel"):
        syncline.sweep(kernel, u, (a, 2.0), iterations=1)


@pytest.mark.filterwarnings("ignore::syncline.SlowKernelWarning")
def test_a_run_is_not_resumed_with_another_function(tmp_path, u):
    output = tmp_path / "o.npy"

    def run(factor, iterations, traced=True):
        scale = syncline.function(lambda v: factor * v)

        def kernel(u):
            return scale(u)

        def plain(u):
            return factor * float(u)

        return syncline.sweep(
            kernel if traced else plain, u, iterations=iterations, output=output, resume=True
        )

    for traced in (True, False):
        output.unlink(missing_ok=True)
        first = run(2.0, 1, traced).copy()
        assert np.array_equal(run(2.0, 2, traced), 2 * first)
        with pytest.raises(syncline.OutputError):
            run(3.0, 3, traced)
        assert np.array_equal(np.load(output), 2 * first)

    # What a function uses counts as it is when the sweep begins.
    output, scale = tmp_path / "l.npy", 2.0
    late = syncline.function(lambda v: scale * v)
    syncline.sweep(lambda u: late(u), u, iterations=1, output=output, resume=True)
    scale = 3.0
    with pytest.raises(syncline.OutputError):
        syncline.sweep(lambda u: late(u), u, iterations=2, output=output, resume=True)

    def dynamic(u):
        return float(getattr(u, "north"[0]))

    with pytest.raises(syncline.OutputError, match="dynamic uses getattr"):
        syncline.sweep(dynamic, u, iterations=1, output=tmp_path / "n.npy", resume=True)
    assert not (tmp_path / "n.npy").exists()


CHANGED = "D.g = lambda s: 2"
TUPLE = """
import typing
X = 1
class P(typing.NamedTuple):
    a: float
    def rate(self): return self.a * X
"""
ENUM = "import enum\nclass E(enum.Enum):\n a = 1\n b = 2\n"
DATA = "import dataclasses\n@dataclasses.dataclass\nclass D:\n v: int = 0\n"
PACKAGE = """
import sys, types
pk = sys.modules["pk"] = types.ModuleType("pk")
pk.mod = sys.modules["pk.mod"] = types.ModuleType("pk.mod")
pk.__path__, pk.mod.k = [], 1
"""


def test_what_a_function_is():
    from syncline._fingerprint import Unknown, fingerprint

    def made(by, names=frozenset({"a", "b"})):
        def inner(x):
            return x + by if "a" in {"a", "b"} else helper(x)

        return inner

    assert fingerprint(made(1)) == fingerprint(made(1)) != fingerprint(made(2))
    assert fingerprint(lambda x: x + 1) != fingerprint(lambda x: x + 2)
    # What differs: the first is the text of a program, the second another one.
    for one, other in (
        ("limits = (1, 2)\ndef f(x): return limits", "limits = (1, 3)"),
        ("limits = {'a': 1}\ndef f(x): return limits", "limits = {'a': 2}"),
        ("import numpy as np\nk = np.float32(1)\ndef f(x): return k", "k = np.float32(2)"),
        ("import numpy as np\nk = np.ones(3)\ndef f(x): return k", "k = np.zeros(3)"),
        ("import types\nm = types.ModuleType('m')\nm.k = 1\ndef f(x): return m.k", "m.k = 2"),
        ("def f(x, *, k=1): pass", "f.__kwdefaults__ = {'k': 2}"),
        ("class C:\n def __call__(self, x): return 1\nf = C()", "C.__call__ = lambda s, x: 2"),
        ("def g(x): return 1\ndef f(x): return g(x)", "def g(x): return 2"),
        ("import functools\nf = functools.partial(max, 1)", "f = functools.partial(max, 2)"),
        ("class C:\n k = 1\ndef f(x): return C.k * x", "C.k = 2"),
        ("class B:\n def k(s): return 1\nclass C(B): pass\nf = C().k", "B.k = lambda s: 2"),
        (f"{ENUM}k = E.a\ndef f(x): return k", "k = E.b"),
        (f"{DATA}k = D(1)\ndef f(x): return k.v", "k = D(2)"),
        (f"{DATA}k = D(1)\ndef f(x): return k.v", "D.__call__ = lambda s: 3"),
        ("import functools\n@functools.cache\ndef f(x): return k\nk = 1", "k = 2"),
        # What a package has made of a function has the name of that function.
        ("import numpy as np\nk = 1\n@np.errstate(all='ignore')\ndef f(x): return k", "k = 2"),
        ("import contextlib as c\nk = 1\n@c.contextmanager\ndef f(x): yield k", "k = 2"),
        ("import math as m\ndef f(x): return m.remainder(x, 3)", "import numpy as m"),
        ("k = {1: 2}.get\ndef f(x): return k(x)", "k = {1: 3}.get"),
        ("import numpy as np\nk = 1\nf = np.vectorize(lambda x: k)", "k = 2"),
        ("import numpy as np\nk = np.array([1, 'a'], object)\ndef f(x): return k", "k[0] = 2"),
        (f"{PACKAGE}import pk.mod\ndef f(x): return pk.mod.k", "pk.mod.k = 2"),
        (
            "import types\nm = types.ModuleType('code')\nm.__file__ = 'code.py'\nm.k = 1\n"
            "import sys\nsys.modules['code'] = m\ndef f(x): return m.k",
            "m.k = 2",
        ),
        (f"{PACKAGE}def f(x):\n from pk.mod import k\n return k", "pk.mod.k = 2"),
        (f"{PACKAGE}def f(x):\n import pk.mod as m\n return m.k", "pk.mod.k = 2"),
        ("k = memoryview(bytearray(b'ab'))\ndef f(x): return k[0]", "k[0] = 1"),
        ("def g(x): return 1\ndef h(x): return 2\nk = [g, h, g]\ndef f(x): return k", "k[2] = h"),
        ("k = {}\nk['k'] = k\ndef f(x): return k", "k['l'] = 1"),
        ("k = {'a', 'b'}\ndef f(x): return k", "k = {'a', 'c'}"),
        (f"{TUPLE}k = P(1)\ndef f(x): return k.rate()", "X = 2"),
        (
            "import collections as c\nX = 1\nk = c.deque([lambda: X])\ndef f(x): return k",
            "X = 2",
        ),
        ("class D(dict):\n def g(s): return 1\nk = D()\ndef f(x): return k.g()", CHANGED),
        ("class D(list): pass\nk = D()\nk.v = 1\ndef f(x): return k.v", "k.v = 2"),
        ("import functools, math\nX = 1\n@functools.wraps(math.exp)\ndef f(x): return X", "X = 2"),
        ("import decimal\nk = decimal.Decimal(1)\ndef f(x): return k", "k = decimal.Decimal(2)"),
    ):
        scope = {"__name__": "__main__"}
        exec(one, scope)
        before = fingerprint(scope["f"])
        assert fingerprint(scope["f"]) == before, one
        exec(other, scope)
        assert fingerprint(scope["f"]) != before, other
    sys.modules.pop("code", None)
    sys.modules.pop("pk", None)
    sys.modules.pop("pk.mod", None)
    # What cannot be looked into is no function that is known again.
    for unknown, where in (
        ("k = open('/dev/null')\ndef f(x): return k", "k of f is a TextIOWrapper"),
        ("def f(x): return getattr(x, 'real')", "f uses getattr"),
        ("class C: pass\nc = C()\nc.k = (i for i in '')\ndef f(x): return c", "c of f.k is a gen"),
        (f"{PACKAGE}def f(x, m=pk.mod): return m.k", "default of f is the module pk.mod"),
        (f"{PACKAGE}d = {{1: pk.mod}}\ndef f(x): return d[1].k", "module pk.mod"),
        (
            f"{PACKAGE}import pk.mod\ng = len\ndef f(x): return g(pk.mod)",
            "pk.mod as a value",
        ),
        (f"{PACKAGE}g = len\ndef f(x): return g(pk)", "module pk in a way"),
        ("import numpy as np\nf = np.frompyfunc(lambda x: x, 1, 1)", "is a ufunc"),
        ("g = getattr\ndef f(x): return g(x, 'real')", "g of f finds"),
        ("import sys\ndef f(x): return sys.modules['m'].k", "f uses modules"),
        ("import operator as o\ndef f(x): return o.attrgetter('k')(x)", "f uses attrgetter"),
        ("def f(x):\n import importlib\n return importlib.import_module('m').k", "import_module"),
    ):
        scope = {"__name__": "__main__"}
        exec(unknown, scope)
        with pytest.raises(Unknown, match=where):
            fingerprint(scope["f"])
    program = (
        "from syncline._fingerprint import fingerprint as f\n"
        "import threading\n"
        "lock, limit = threading.Lock(), 3\n"
        "class C: pass\n"
        "c = C()\n"
        "c.words = {'d', 'e', 'f'}\n"
        "def g(x): return x in {'a', 'b', 'c'} and lock and limit and c\n"
        "def h(x, n={'k': 1}): return g(x)\n"
        "print(f(h), f(lock))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert len(told) == 1, "the same in each process"
    changed = subprocess.run(
        [sys.executable, "-c", program.replace("= threading.Lock(), 3", "= threading.Lock(), 4")],
        capture_output=True,
        check=True,
    ).stdout
    assert changed not in told


def helper(x):
    return x


def test_wrong_kernels_are_told(u):
    with pytest.raises(syncline.KernelError, match="abs"):
        syncline.sweep(abs, u, iterations=1)
    with pytest.raises(syncline.KernelError, match="empty tuple"):
        syncline.sweep(lambda u: (), u, iterations=1)
    kernel = syncline.kernel(lambda u: u * 1)
    for options in ({"dimensions": 7}, {"dtype": "f2"}):
        with pytest.raises(syncline.KernelError, match="dimensions|type"):
            kernel.describe(**options)
    with pytest.raises(TypeError, match="directions"):
        syncline.sweep(kernel, u, iterations=1, directions=5)

    def nested(u):
        condition = u > 0
        for level in range(40):
            condition = (condition & (u < level)) | (condition & (u > level))
        return np.where(condition, u, 1)

    with pytest.raises(syncline.KernelError, match="comparisons"):
        syncline.sweep(nested, u, iterations=1)


def test_short_axes_are_reflected_as_numpy_pads_them():
    for rows in (1, 2, 3):
        field = np.arange(3.0 * rows).reshape(rows, 3)
        for offset in (-2, -1, 1, 2):
            made = syncline.sweep(
                lambda u, at=offset: u.old[at, 0], field, iterations=1, boundary="reflect"
            )
            padded = np.pad(field, ((2, 2), (0, 0)), mode="reflect")
            assert np.array_equal(made, padded[2 + offset : 2 + offset + rows]), (rows, offset)


@pytest.mark.filterwarnings("ignore::syncline.SlowKernelWarning")
def test_a_plain_function_has_all_of_a_scalar():
    u = np.arange(20, dtype=np.int16).reshape(4, 5) * 50

    def to_bytes(u):
        return u.astype("u8")

    def halves(u):
        return u.item() // 2 + u.old.w.bit_count()

    with pytest.warns(syncline.SlowKernelWarning):
        made = syncline.sweep(to_bytes, u, iterations=1)
    assert same(made, u.astype("u8").astype(np.int16))
    with pytest.warns(syncline.SlowKernelWarning):
        made = syncline.sweep(halves, u, iterations=1)
    right = u.copy()
    right[:, 1:] = u[:, 1:] // 2 + np.bitwise_count(u[:, :-1])
    assert same(made, right)
    with pytest.raises(syncline.KernelError, match="no neighbour 'north'"):
        syncline.sweep(lambda u: u.north, u, iterations=1)


def test_a_plain_lambda_reads_what_it_names_itself(u):
    # fmt: off
    both = [lambda u: u.old.n if u > 0.5 else u + 0.1, lambda u: u.old.s if u > 0.5 else u + 0.2]
    # fmt: on

    def south(u):
        return u.old.s if u > 0.5 else u + 0.2

    expected = syncline.sweep(south, u, iterations=3)
    assert np.array_equal(syncline.sweep(both[1], u, iterations=3), expected)
    assert (syncline.sweep(both[1], u, iterations=1)[0] != u[0]).all(), "no row above is read"

    def table(u):
        return {True: u.n, False: u.s}[u > 0.5]

    with pytest.raises(syncline.KernelError, match="no key"):
        syncline.kernel(table).describe()
    by_table = syncline.sweep(table, u, iterations=2)
    by_if = syncline.sweep(lambda u: u.n if u > 0.5 else u.s, u, iterations=2)
    assert np.array_equal(by_table, by_if)
    with pytest.raises(syncline.KernelError, match="cannot be read"):
        syncline.sweep(functools.partial(lambda k, u: u.n if u > k else u.s, 0.5), u, iterations=1)

    def north(u):
        return u.n

    with pytest.raises(syncline.KernelError, match=r"\(-1, 0\), which its own"):
        syncline.sweep(lambda u: north(u) if u > 0 else u.s, u, iterations=1)
