"""What identifies a function of Python, so that no run is resumed with another one."""

import functools
import hashlib
import pickle
import sys
import types

#: Values that are what they are, without names in modules.
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def fingerprint(function):
    """Return a short text that differs if a function computes something else, as far as it tells.

    It covers the code, the constants and defaults, the values that the function encloses, and the
    globals and attributes of modules that it uses, with their functions. What was installed, and
    compiled functions without a source, count by their names.
    """
    found = hashlib.sha256()
    _add(found, function, {})
    return found.hexdigest()[:16]


def _add(found, value, seen):
    """Add a value to a hash."""
    # Functions of numba have one of Python inside.
    for name in ("py_func", "_pyfunc"):
        inner = getattr(value, name, None)
        if isinstance(inner, types.FunctionType):
            value = inner
    if isinstance(value, _PLAIN):
        found.update(f"{type(value).__name__} {value!r};".encode())
    elif id(value) in seen:
        found.update(b"again;")
    elif isinstance(value, (tuple, list)):
        found.update(f"{type(value).__name__} {len(value)};".encode())
        for part in value:
            _add(found, part, seen)
    elif isinstance(value, (set, frozenset)):
        _add(found, sorted(value, key=repr), seen)
    elif isinstance(value, dict):
        _add(found, sorted(value.items(), key=lambda item: repr(item[0])), seen)
    elif isinstance(value, types.ModuleType):
        found.update(f"module {value.__name__};".encode())
    elif _is_installed(value):
        found.update(f"{getattr(value, '__module__', '')}.{value.__qualname__};".encode())
    else:
        # Kept there, so that its number is no other one's.
        seen[id(value)] = value
        _add_parts(found, value, seen)


def _add_parts(found, value, seen):
    if isinstance(value, types.CodeType):
        found.update(value.co_code)
        _add(found, (value.co_names, value.co_consts), seen)
    elif isinstance(value, types.FunctionType):
        cells = [_inside(cell) for cell in value.__closure__ or ()]
        kept = value.__defaults__, value.__kwdefaults__, value.__dict__
        _add(found, (value.__code__, cells, kept, _globals(value)), seen)
    elif isinstance(value, types.MethodType):
        _add(found, (value.__func__, value.__self__), seen)
    elif isinstance(value, functools.partial):
        _add(found, (value.func, value.args, value.keywords), seen)
    elif isinstance(value, type):
        _add(found, (value.__qualname__, _functions_of(value)), seen)
    else:
        try:
            found.update(pickle.dumps(value, 5))
        except Exception:
            _add(found, getattr(value, "__dict__", None), seen)
        _add(found, type(value), seen)


def _inside(cell):
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


def _globals(function):
    """Return the globals that a function uses, and the attributes of modules among them."""
    names = _names(function.__code__)
    used = [function.__globals__[name] for name in names if name in function.__globals__]
    for module in [one for one in used if isinstance(one, types.ModuleType)]:
        used += [vars(module)[name] for name in names if name in vars(module)]
    return used


def _names(code):
    """Return the global names that a code and those inside of it use."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.extend(_names(constant))
    return names


def _functions_of(kind):
    known = (types.FunctionType, staticmethod, classmethod, property)
    return {name: _plain(one) for name, one in vars(kind).items() if isinstance(one, known)}


def _plain(one):
    return one.fget if isinstance(one, property) else getattr(one, "__func__", one)


def _is_installed(value):
    """Return whether a function or class is of an installed package, or of Python itself."""
    if isinstance(value, types.BuiltinFunctionType):
        return True
    if not isinstance(value, (type, types.FunctionType)):
        # Universal functions of numpy and the like.
        return not hasattr(value, "__dict__") and hasattr(value, "__qualname__")
    name = value.__module__ or ""
    if name == "__main__":
        return False
    file = getattr(sys.modules.get(name), "__file__", None) or ""
    return (
        (name.partition(".")[0] in sys.stdlib_module_names and name != "__main__")
        or "site-packages" in file
        or "dist-packages" in file
    )
