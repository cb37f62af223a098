"""Compiled functions, which kernels call for a run of points at once."""

import ctypes
import inspect
import os
import re

import numpy as np

from ._errors import ArgumentError, KernelError
from ._sizes import whole
from ._values import Operand, Value, lifted, operand

#: The type of a compiled function in C.
SIGNATURE = "void (size_t n, const double *const *arguments, double *results, void *context)"

#: The greatest number of arguments.
_MOST = 16


class Function:
    """A function that kernels call: see `syncline.function`.

    A kernel calls it with values. Called with numbers it is not defined: it exists for kernels.
    """

    def __init__(self):
        raise ArgumentError("functions are made by syncline.function")

    def __call__(self, *values):
        """Return the value of the function at a point, in a kernel that is traced."""
        first = next((value for value in values if isinstance(value, Value)), None)
        if first is None:
            raise KernelError(f"{self.name} is called in a kernel, with at least one of its values")
        trace, real = first.trace, np.dtype("float64")
        if len(values) != self.arguments:
            raise trace.error(
                f"{self.name} takes {self.arguments} arguments, but {len(values)} are given"
            )
        given = [operand(trace, value) for value in values]
        if any(isinstance(one, Operand) and one.dtype != real for one in given):
            raise trace.error(f"{self.name} takes float64: convert by .astype('float64')")
        return Value(trace, "call", (self, *(lifted(trace, one, real) for one in given)), real)

    def __repr__(self):
        return f"<syncline function {self.name} of {self.arguments} arguments>"


def function(code, arguments=None, *, name=None, context=0, unchecked=False):
    """Make a function that kernels can call.

    Parameters
    ----------
    code : object
        What computes the results:

        * a function compiled by ``numba.njit``, of numbers: it is compiled once more, for runs;
        * a ``numba.cfunc``, a ``ctypes`` function, a pointer of ``cffi`` or a ``PyCapsule``, of
          type ``void (size_t n, const double *const *arguments, double *results, void *context)``:
          it computes ``n`` results from ``n`` values of each argument;
        * any other callable of numbers, which is called point by point, and slowly.
    arguments : int, optional
        The number of arguments; needed where ``code`` does not tell.
    name : str, optional
        The name in descriptions [default: that of ``code``].
    context : int, optional
        The address that is passed as ``context``.
    unchecked : bool, optional
        Take a ctypes or capsule function whose type is not declared.

    Returns
    -------
    Function
        It is called in kernels, with values of type float64.

    Raises
    ------
    KernelError
        If the type of the function is another one.

    Notes
    -----
    The function must be pure: threads call it, for points in any order. A compiled one must return,
    must not raise, and must not touch the interpreter. One of ``numba.njit`` is compiled with the
    error model of numpy, in which 1 / 0 is infinite. A result must not depend on the other points
    of a run.

    Examples
    --------
    >>> import math, numpy as np, syncline
    >>> growth = syncline.function(lambda u: 0.5 * u * math.exp(-u), arguments=1)
    >>> def step(u):
    ...     return u + growth(u)
    >>> grown = syncline.sweep(step, np.ones((2, 2)), iterations=1)
    >>> float(grown[0, 0]) == 1 + 0.5 * math.exp(-1)
    True
    """
    given = name or _name_of(code)
    if not isinstance(given, str) or not given.isidentifier():
        raise KernelError(f"{given!r} is no name of a function: give one by name=")
    for make in (_numba_cfunc, _numba_jit, _ctypes, _cffi, _capsule):
        found = make(code, arguments, context, unchecked, given)
        if found is not None:
            return _checked(given, *found)
    if not callable(code):
        raise KernelError(f"{type(code).__name__} is no function")
    if arguments is None:
        try:
            arguments = len(inspect.signature(code).parameters)
        except (TypeError, ValueError):
            raise KernelError(f"give the number of arguments of {given}: arguments=") from None
    return _checked(given, arguments, code, code)


def _checked(name, arguments, code, keep):
    if arguments is None:
        raise KernelError(f"give the number of arguments of {name}: arguments=")
    if not 1 <= whole("arguments", -(1 << 31), arguments) <= _MOST:
        raise KernelError(f"{name} has {arguments} arguments: a function has 1 to {_MOST}")
    return made(name, arguments, code, keep)


def made(name, arguments, code, keep):
    """Return a function whose code is known to be of the right type; it is what `keep` computes."""
    function = object.__new__(Function)
    function.name, function.arguments = name, arguments
    function._code, function._keep = code, keep
    return function


def identity(function):
    """Return what a function is at this moment, and why that cannot be told, or `None`."""
    # Here: what it imports takes a while.
    from ._fingerprint import Unknown, fingerprint

    try:
        return f"{function.name} {fingerprint(function._keep)}", None
    except Unknown as error:
        # A text that no other function has.
        return f"{function.name} {os.urandom(8).hex()}", str(error)


def _name_of(code):
    name = getattr(code, "__name__", None) or getattr(code, "name", None) or "function"
    name = re.sub(r"\W", "_", str(name)).strip("_") or "function"
    return "function" if name == "lambda" else name


def _numba_cfunc(code, arguments, context, unchecked, name):
    if type(code).__module__.partition(".")[0] != "numba" or not hasattr(code, "native_name"):
        return None
    signature = code._sig
    given = [str(arg) for arg in signature.args]
    wanted = [("uint64", "uintp"), ("float64**",), ("float64*",), ("none*", "voidptr", "void*")]
    fits = len(given) == 4 and all(arg in known for arg, known in zip(given, wanted))
    if not fits or str(signature.return_type) not in ("none", "void"):
        raise KernelError(
            f"{name} is compiled for {signature}, not for void(uintp, CPointer(CPointer(float64)), "
            "CPointer(float64), voidptr), as syncline.function says"
        )
    return arguments, (code.address, context), code


def _numba_jit(code, arguments, context, unchecked, name):
    if not hasattr(code, "py_func") or not hasattr(code, "signatures"):
        return None
    import numba
    from numba import types

    count = len(inspect.signature(code.py_func).parameters)
    if arguments not in (None, count):
        raise KernelError(f"{name} has {count} arguments, not {arguments}")
    values = ", ".join(f"a{i}[point]" for i in range(count))
    arrays = "".join(f"    a{i} = carray(arguments[{i}], n)\n" for i in range(count))
    source = (
        f"def run(n, arguments, results, context):\n{arrays}    out = carray(results, n)\n"
        f"    for point in range(n):\n        out[point] = code({values})\n"
    )
    # Without exceptions: one would end a run in the middle.
    options = {**getattr(code, "targetoptions", {}), "nopython": True, "error_model": "numpy"}
    code = numba.njit(**{k: v for k, v in options.items() if k != "nopython"})(code.py_func)
    scope = {"code": code, "carray": numba.carray}
    exec(source, scope)
    reals = types.CPointer(types.float64)
    signature = types.void(types.uintp, types.CPointer(reals), reals, types.voidptr)
    try:
        run = numba.cfunc(signature)(scope["run"])
    except numba.core.errors.NumbaError as error:
        raise KernelError(f"{name} cannot be compiled for runs of float64") from error
    return count, (run.address, context), (code, run)


def _ctypes(code, arguments, context, unchecked, name):
    if not isinstance(code, ctypes._CFuncPtr):
        return None
    pointer = ctypes.POINTER
    wanted = [
        (ctypes.c_size_t,),
        (pointer(pointer(ctypes.c_double)), ctypes.c_void_p),
        (pointer(ctypes.c_double), ctypes.c_void_p),
        (ctypes.c_void_p,),
    ]
    given = code.argtypes
    if given is None or (code.restype is ctypes.c_int and given is None):
        if not unchecked:
            raise KernelError(
                f"the type of {name} is not declared: set its argtypes and restype, or vouch for "
                f"it by unchecked=True; it is {SIGNATURE}"
            )
    elif len(given) != 4 or any(arg not in known for arg, known in zip(given, wanted)):
        raise KernelError(f"{name} takes {[arg.__name__ for arg in given]}; it must be {SIGNATURE}")
    elif code.restype is not None:
        raise KernelError(f"{name} returns {code.restype.__name__}; it must be {SIGNATURE}")
    address = ctypes.cast(code, ctypes.c_void_p).value
    if not address:
        raise KernelError(f"{name} is a null pointer")
    return arguments, (address, context), code


def _cffi(code, arguments, context, unchecked, name):
    if type(code).__module__ != "_cffi_backend":
        return None
    import cffi

    backend = cffi.FFI()
    ctype = backend.typeof(code)
    if ctype.kind != "function":
        raise KernelError(f"{name} is a {ctype.cname}, not a function")
    given = [arg.cname for arg in ctype.args]
    wanted = [("size_t", "unsigned long", "uintptr_t"), ("double * *",), ("double *",), ("void *",)]
    fits = len(given) == 4 and all(arg in known for arg, known in zip(given, wanted))
    if not fits or ctype.result.cname != "void":
        raise KernelError(f"{name} is {ctype.cname}; it must be {SIGNATURE}")
    return arguments, (int(backend.cast("uintptr_t", code)), context), code


def _capsule(code, arguments, context, unchecked, name):
    if type(code).__name__ != "PyCapsule":
        return None
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    told = api.PyCapsule_GetName(code)
    plain = re.sub(r"\b(const|n|arguments|results|context)\b|\s+", "", (told or b"").decode())
    if plain != "void(size_t,double**,double*,void*)" and not unchecked:
        raise KernelError(
            f"the capsule is named {told!r}: name it {SIGNATURE!r}, or vouch for its type by "
            "unchecked=True"
        )
    return arguments, (api.PyCapsule_GetPointer(code, told), context), code
