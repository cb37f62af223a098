"""Kernels: what a sweep runs."""

import os
import warnings

import numpy as np

from . import _syncline
from ._errors import ArgumentError, KernelError, SlowKernelWarning
from ._functions import Function, identity
from ._meaning import as_held
from ._plain import plain
from ._sizes import element_type
from ._text import EXACT, written_name
from ._trace import parameters, trace
from ._values import DTYPES, Untraceable

#: The functions that were called by the interpreter, and of which the user has been told.
_told: set = set()

#: What is beyond an edge, in the words of users, as numpy has them, and in those of descriptions.
BOUNDARIES = {
    "none": "fixed",
    "fixed": "fixed",
    "nearest": "clamped",
    "edge": "clamped",
    "reflect": "reflected",
    "mirror": "reflected",
    "periodic": "periodic",
    "wrap": "periodic",
}
_AXES = {1: ("columns",), 2: ("rows", "columns"), 3: ("planes", "rows", "columns")}


class Kernel:
    """The update of a point: see `syncline.kernel`.

    A kernel can be called by another one, as the function that it was made of.
    """

    def __init__(self, function):
        if not callable(function):
            raise KernelError(f"{type(function).__name__} is no function")
        self.function = function
        self.__name__ = getattr(function, "__name__", "kernel")
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        self.parameters = parameters(function)

    def __call__(self, *args, **options):
        return self.function(*args, **options)

    def __repr__(self):
        return f"<syncline kernel {self.__name__}({', '.join(self.parameters)})>"

    def describe(
        self, dtype="float64", dimensions=2, boundary="fixed", nodata=None, directions=None
    ):
        """Return the description of the kernel: a text that the command ``syncline`` runs as well.

        Parameters
        ----------
        dtype : dtype or sequence of dtypes
            The type of all arrays, or of each one; a coefficient may be of bool.
        dimensions : int
            One, two or three.
        boundary, nodata, directions
            As for `syncline.sweep`.

        Returns
        -------
        str
            The text, in TOML.

        Examples
        --------
        >>> import syncline
        >>> @syncline.kernel
        ... def relax(u, f):
        ...     return (u.n + u.s + u.e + u.w - f) / 4
        >>> print(relax.describe())
        name = "relax"
        field = "u"
        coefficients = ["f"]
        update = \"\"\"
        u = (u.n + u.s + u.e + u.w - f) / 4
        \"\"\"
        <BLANKLINE>
        """
        if not isinstance(dimensions, int) or dimensions not in _AXES:
            raise KernelError(f"dimensions is {dimensions!r}, but must be 1, 2 or 3")
        count = len(self.parameters)
        given = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * count
        dtypes = [element_type("dtype", one).name for one in given]
        for one in dtypes:
            if one not in (*DTYPES, "bool"):
                raise KernelError(f"the type {one} is none of {', '.join(DTYPES)}")
        said = options(self.parameters, dimensions, boundary, nodata, directions)
        return trace(self.function, dtypes, dimensions, said).text


def kernel(function):
    """Make a kernel of a function: a decorator.

    The function is called once with symbols for the arrays, and returns the new value of the field
    at a point. Its first parameter is the field, the others are the coefficients; parameters with
    a default are no arrays. A kernel of several fields returns a tuple, and its first parameters
    are those fields.

    ===============  ==================================================================
    ``u``            the value of the point
    ``u.n``          the neighbour to the north; also ``s e w nw ne sw se``, and in three
                     dimensions ``up`` and ``down``
    ``u[-1, 0]``     the same by its offset in rows and columns, up to two away
    ``u.old.n``      its value before the iteration
    ===============  ==================================================================

    The function is called once, so what it draws from a random generator or reads from a clock is
    the same number for all points.

    Points are updated row by row, as by two nested loops: ``u.n`` and ``u.w`` have their new values
    already, as in the Gauss-Seidel method. A kernel that reads only ``u.old`` is explicit, as in
    the method of Jacobi; a kernel must not mix both.

    Values have ``+ - * / %``, powers, comparisons, ``abs``, ``.astype``, ``//`` of whole numbers,
    and numpy's ``sqrt``, ``floor``, ``isnan``, ``minimum``, ``maximum``, ``clip``, ``where``; see
    `syncline.function` for others, also for ``exp``, ``log``, ``sin`` and ``cos``, which numpy
    computes by code of its own: descriptions have them with the last bits of another library. The
    types are those of numpy 2: a number of Python takes the type of the value that it meets, a
    scalar of numpy and an array of no dimensions have their own, two types become the type that
    holds both, and ``numpy.where(c, 1, 0)`` is int64. What a kernel returns is converted to the
    type of the field. An operation whose result has a type that arrays of kernels cannot have, such
    as uint64 or float16, is an error.

    The result has the bits of loops over scalars of numpy, for each type, where numpy promises
    them:

    * A real number that a whole type cannot hold becomes the nearest one that it can, and NaN
      becomes 0; a whole number that the type of the field cannot hold wraps.
    * ``u**2`` is ``u * u``, as of arrays of numpy. A scalar of numpy calls ``pow`` for it, whose
      last bit may be another one. Powers of whole numbers are products; those of real numbers to
      other powers than 0, 1 and 2 are errors.

    Parameters
    ----------
    function : callable
        The function.

    Returns
    -------
    Kernel
        What `syncline.sweep` takes. Errors of the function are told when it is traced, for the
        types of the arrays.

    Examples
    --------
    >>> import numpy as np, syncline
    >>> @syncline.kernel
    ... def heat(u):
    ...     old = u.old
    ...     return u + 0.1 * (old.n + old.s + old.e + old.w - 4 * u)
    >>> plate = np.zeros((5, 5))
    >>> plate[2, 2] = 10
    >>> syncline.sweep(heat, plate, iterations=1)[2]
    array([0., 1., 6., 1., 0.])
    """
    return Kernel(function)


def options(names, dimensions, boundary, nodata, directions):
    """Return what a description says beside its update: lines, and tables of lines."""
    lines, tables = [], {}
    edges = _edges(dimensions, boundary)
    if edges is not None:
        lines.append(f"edges = {edges}")
    if directions is not None:
        given = [directions] if isinstance(directions, str) else directions
        if not isinstance(given, (list, tuple)):
            raise ArgumentError(f"directions is {directions!r}, but must be names of directions")
        lines.append("directions = [" + ", ".join(f'"{one}"' for one in given) + "]")
    if nodata is not None:
        given = nodata if isinstance(nodata, dict) else {names[0]: nodata}
        unknown = [name for name in given if name not in names]
        if unknown:
            raise KernelError(f"nodata names {unknown[0]!r}, but the arrays are {', '.join(names)}")
        tables["nodata"] = [
            f"{written_name(name)} = {_number(value)}" for name, value in given.items()
        ]
    return lines, tables


def real_number(value, of="nodata"):
    """Return a number of Python or numpy that a description can hold as one of Python."""
    given = np.asarray(value)
    # What numpy does not know may be a number nevertheless, such as a large one.
    known = given.dtype.kind if given.dtype.kind != "O" else "i" if type(value) is int else "f"
    try:
        if given.ndim > 0 or known not in "biuf" or isinstance(value, np.ma.MaskedArray):
            raise TypeError
        number = given.item() if given.dtype.kind != "O" else value
        number = float(number) if known == "f" else int(number)
    except (TypeError, ValueError):
        raise KernelError(f"{of} is {value!r}, which is no real number") from None
    if known == "f" and given.dtype.kind == "f" and number != given and not np.isnan(given):
        raise KernelError(f"{of} is {value!r}, which is no number of float64")
    if known != "f" and abs(number) > EXACT:
        raise KernelError(f"{of} is {number}, beyond 2**53, which a description cannot hold")
    return number


def _number(value, of="nodata"):
    """Return a number of Python or numpy as a description writes it."""
    return repr(real_number(value, of))


def _edge(value):
    if isinstance(value, str):
        known = BOUNDARIES.get(value)
        if known is None:
            raise KernelError(
                f"there is no boundary {value!r}: it is a number, or one of {', '.join(BOUNDARIES)}"
            )
        return f'"{known}"'
    return _number(value, "boundary")


def _edges(dimensions, boundary):
    """Return what is beyond the edges, as the value of `edges`; `None` for fixed ones."""
    axes = _AXES[dimensions]
    if boundary is None:
        boundary = "fixed"
    if isinstance(boundary, (list, tuple)):
        boundary = dict(enumerate(boundary))
    if not isinstance(boundary, dict):
        edge = _edge(boundary)
        if dimensions == 1 and edge != '"fixed"':
            return f"{{ columns = {edge} }}"
        return None if edge == '"fixed"' else edge
    edges = {}
    for axis, value in boundary.items():
        if isinstance(axis, int) and -dimensions <= axis < dimensions:
            axis = axes[axis]
        if axis not in axes:
            raise KernelError(f"there is no axis {axis!r}: they are 0 to {dimensions - 1}")
        edges[axis] = _edge(value)
    inside = ", ".join(f"{axis} = {edge}" for axis, edge in edges.items())
    return f"{{ {inside} }}"


def _check_boundary(boundary, dtypes):
    """Refuse a number beyond the edges that would be infinite in the type of a field."""
    given = boundary.values() if isinstance(boundary, dict) else boundary
    for value in given if isinstance(boundary, (dict, list, tuple)) else [boundary]:
        if value is None or isinstance(value, str):
            continue
        for dtype in map(np.dtype, dtypes):
            if dtype.kind == "f" and as_held(real_number(value, "boundary"), dtype) is None:
                raise KernelError(f"boundary is {value!r}, which {dtype} cannot hold")


class Ready:
    """A kernel for arrays of known types.

    ``interpreted`` says that it holds the interpreter lock while it computes, and ``unknown`` why
    another run cannot be known to have the same functions.
    """

    def __init__(self, native, keep=None, interpreted=False, unknown=None):
        self.native, self._keep, self.interpreted = native, keep, interpreted
        self.unknown = unknown


def _native(traced):
    identities = {name: identity(function) for name, function in traced.functions.items()}
    functions = [
        (name, function._code, identities[name][0]) for name, function in traced.functions.items()
    ]
    try:
        native = _syncline.Kernel.described(traced.text, functions)
    except KernelError as error:
        raise KernelError(f"the kernel, traced into a description, is refused: {error}") from None
    interpreted = any(callable(code) for _, code, _ in functions)
    unknown = [why for _, why in identities.values() if why is not None]
    return Ready(native, traced, interpreted, "; ".join(unknown) or None)


def names_of(kernel):
    """Return the names of the arrays of a kernel, the fields first."""
    if isinstance(kernel, (str, os.PathLike)):
        native = _of_text(kernel).native
        return [*native.fields, *native.coefficients]
    if isinstance(kernel, Function):
        raise KernelError(
            f"{kernel.name} is a function of numbers: call it in a kernel, which says what it reads"
        )
    if not callable(kernel):
        raise KernelError(
            f"{type(kernel).__name__} is no kernel: give a function, or the path of a description"
        )
    return kernel.parameters if isinstance(kernel, Kernel) else parameters(kernel)


def prepare(kernel, dtypes, fields, dimensions, boundary, nodata, directions):
    """Return a kernel for arrays of these types, of which the first `fields` are fields."""
    chosen = boundary is not None or nodata is not None or directions is not None
    if isinstance(kernel, (str, os.PathLike)):
        if chosen:
            raise KernelError("the description says its boundary, nodata and directions itself")
        return _of_text(kernel)
    made = kernel if isinstance(kernel, Kernel) else None
    function = made.function if made else kernel
    names = parameters(function)
    said = options(names, dimensions, boundary, nodata, directions)
    _check_boundary(boundary, dtypes[:fields])
    try:
        traced = trace(function, dtypes, dimensions, said)
    except Untraceable as error:
        if made is not None:
            raise KernelError(str(error)) from None
        cause = error
    else:
        return _native(traced)
    ready = _native(plain(function, dtypes, dimensions, fields, said))
    if function not in _told:
        _told.add(function)
        warnings.warn(
            f"{getattr(function, '__name__', 'the kernel')} is called by the interpreter for each "
            f"point, some hundred times slower than a traced kernel: {cause}",
            SlowKernelWarning,
            stacklevel=4,
        )
    return ready


def _of_text(kernel):
    path = os.fspath(kernel)
    if isinstance(path, str) and "\n" in path:
        return Ready(_syncline.Kernel.described(path, []))
    from ._errors import FileError

    if not os.path.splitext(path)[1]:
        raise KernelError(
            f"{path!r} is no kernel: give a function, or the path of a description (.toml)"
        )
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"cannot read the description {path}: {error}") from error
    return Ready(_syncline.Kernel.described(text, []))
