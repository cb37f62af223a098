"""What identifies a function of Python, so that no run is resumed with another one."""

import functools
import hashlib
import pickle
import types

#: Values that are what they are, without names in modules.
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def fingerprint(function):
    """Return a short text that differs if a function computes something else, as far as it tells.

    It covers the code, the constants, the values that it encloses, and the plain globals and
    functions that it uses. Of compiled functions without a source it covers nothing.
    """
    found = hashlib.sha256()
    _add(found, function, set())
    return found.hexdigest()[:16]


def _add(found, value, seen):
    """Add a value to a hash."""
    # Functions of numba, partial functions, and those with attributes have one inside.
    for name in ("py_func", "_pyfunc", "__wrapped__"):
        inner = getattr(value, name, None)
        if isinstance(inner, types.FunctionType):
            value = inner
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=repr)
    if isinstance(value, (tuple, list)):
        found.update(f"{type(value).__name__} {len(value)}".encode())
        for part in value:
            _add(found, part, seen)
    elif isinstance(value, _PLAIN):
        found.update(f"{type(value).__name__} {value!r};".encode())
    elif id(value) in seen:
        found.update(b"again;")
    elif isinstance(value, types.CodeType):
        seen.add(id(value))
        found.update(value.co_code)
        _add(found, (value.co_names, value.co_consts), seen)
    elif isinstance(value, types.FunctionType):
        seen.add(id(value))
        code = value.__code__
        cells = [_inside(cell) for cell in value.__closure__ or ()]
        used = [value.__globals__.get(name) for name in _names(code)]
        used = [one for one in used if isinstance(one, (*_PLAIN, types.FunctionType))]
        _add(found, [code, cells, value.__defaults__, used], seen)
    elif isinstance(value, types.MethodType):
        _add(found, [value.__func__, value.__self__], seen)
    elif isinstance(value, functools.partial):
        _add(found, [value.func, value.args, sorted(value.keywords.items())], seen)
    else:
        seen.add(id(value))
        try:
            found.update(pickle.dumps(value, 5))
        except Exception:
            found.update(type(value).__qualname__.encode())


def _inside(cell):
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


def _names(code):
    """Return the global names that a code and those inside of it use."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.extend(_names(constant))
    return names
