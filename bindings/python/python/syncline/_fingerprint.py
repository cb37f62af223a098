"""What identifies a function of Python, so that no run is resumed with another one.

A fingerprint covers the code of a function, its constants and defaults, the values that it
encloses, the globals that it uses, and what these consist of in turn. What it cannot look into,
such as an open file, or a name that is found only at run time, makes the function `Unknown`: better
no fingerprint than one that misses a difference.

=========================================  =====================================================
value                                      what counts
=========================================  =====================================================
numbers, text, bytes, arrays               the value and its type
lists, tuples, dicts, sets                 the elements
functions that are not installed           code, defaults, cells, attributes, globals by name
modules                                    the name; if not installed, what the code uses of it
classes that are not installed             bases and attributes
other objects                              what `pickle` would keep: class, arguments, state
installed and found by their name          the name
=========================================  =====================================================
"""

import builtins
import copyreg
import ctypes
import datetime
import dis
import functools
import hashlib
import importlib.util
import operator
import sys
import sysconfig
import types

import numpy as np

#: Values that are what they are, without names in modules.
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented), range)

#: Globals, and attributes, by which code finds what its text does not name.
_DYNAMIC = {"eval", "exec", "globals", "locals", "vars", "getattr", "__import__", "compile"}
_DYNAMIC |= {"open", "input", "importlib"}
_DYNAMIC_ATTRIBUTES = {"__dict__", "__globals__", "__getattribute__", "__subclasses__", "modules"}
_DYNAMIC_ATTRIBUTES |= {"_getframe", "f_globals", "f_locals", "import_module", "attrgetter"}
_DYNAMIC_ATTRIBUTES |= {"methodcaller", "reload"}

#: The same as values, whatever their names are.
_FINDERS: list = [eval, exec, globals, locals, vars, getattr, __import__, compile, open, input]
_FINDERS += [importlib.import_module, importlib.reload, operator.attrgetter, operator.methodcaller]
_FINDERS += [sys._getframe, sys.modules]

#: Attributes of classes that say nothing of what they compute.
_SILENT = {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__qualname__"}
_SILENT |= {"__firstlineno__", "__static_attributes__", "__abstractmethods__", "_abc_impl"}
_SILENT |= {"__annotate_func__", "__annotations_cache__"}


#: Locks, compiled functions, and the methods of types that are not made in Python.
_OPAQUE: tuple = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    type(datetime.datetime_CAPI),
)

#: The class of the functions of ctypes, which do not tell what they call.
_POINTER = ctypes.CFUNCTYPE(None).__mro__[1]


#: What cannot be looked into, though it may have a pickle.
_BLIND: tuple = (types.GeneratorType, types.FrameType, types.CoroutineType, np.ufunc, _POINTER)


#: The folders of Python's own modules.
_LIBRARY = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib"))


class Unknown(Exception):
    """A value whose contents cannot be told; its text says where it is."""


def fingerprint(function):
    """Return a short text that differs if a function computes something else.

    Raises
    ------
    Unknown
        If the function uses what cannot be looked into.
    """
    found = _Found({})
    found.add(function, getattr(function, "__name__", "it"))
    return found.sum.hexdigest()[:16]


class _Found:
    """A hash of values, and the order in which objects were met first."""

    def __init__(self, seen):
        self.sum, self.seen = hashlib.sha256(), seen

    def tell(self, text):
        self.sum.update(f"{text};".encode("utf-8", "surrogatepass"))

    def add(self, value, where):
        """Add a value, which is at `where` for a reader."""
        if any(value is finder for finder in _FINDERS):
            raise Unknown(f"{where} finds what its text does not name")
        # Functions of numba, and those with a cache, have one of Python inside.
        if type(value).__module__.partition(".")[0] == "numba":
            self.tell(sorted(getattr(value, "targetoptions", {}).items()))
            if not getattr(value, "_can_compile", True):
                self.tell(value.nopython_signatures)
            value = getattr(value, "py_func", getattr(value, "_pyfunc", value))
        if isinstance(value, functools._lru_cache_wrapper):
            value = value.__wrapped__
        if type(value) in _PLAIN:
            return self.tell(f"{type(value).__name__} {value!r}")
        if is_installed(value):
            return self.tell(f"{getattr(value, '__module__', '')} {_name(value)}")
        if id(value) in self.seen:
            return self.tell(f"again {self.seen[id(value)][0]}")
        # The value is kept, so that its number is no other one's.
        self.seen[id(value)] = len(self.seen), value
        self.tell(type(value).__name__)
        if type(value) in _CONTAINERS:
            return _CONTAINERS[type(value)](self, value, where)
        for kinds, add in _KINDS:
            if isinstance(value, kinds):
                return add(self, value, where)
        return self.add_object(value, where)

    def add_all(self, values, where):
        values = list(values)
        self.tell(len(values))
        for value in values:
            self.add(value, where)

    def add_set(self, values, where):
        # Sets, and the keys of dicts, are in another order in each process.
        parts = []
        for value in values:
            part = _Found(dict(self.seen))
            part.add(value, where)
            parts.append(part.sum.hexdigest())
        self.tell(sorted(parts))

    def add_dict(self, values, where):
        self.tell(len(values))
        for key, value in values.items():
            self.add(key, where)
            self.add(value, f"{where}[{key!r:.40}]")

    def add_array(self, array, where):
        if type(array) not in (np.ndarray, np.memmap):
            self.add(type(array), where)
            self.add(getattr(array, "__dict__", None), where)
        self.tell(f"{array.dtype.str} {array.dtype.descr} {array.shape}")
        if array.dtype.hasobject:
            self.add_all(array.ravel().tolist(), where)
        else:
            self.sum.update(np.ascontiguousarray(array).tobytes())

    def add_bytes(self, value, where):
        self.tell(f"{getattr(value, 'format', '')} {len(value)}")
        self.sum.update(bytes(value))

    def add_code(self, code, where):
        self.sum.update(code.co_code)
        self.sum.update(getattr(code, "co_exceptiontable", b""))
        self.tell((code.co_argcount, code.co_kwonlyargcount, code.co_flags))
        self.add_all((code.co_names, code.co_consts), where)

    def add_function(self, function, where):
        self.add(function.__code__, where)
        self.add_all((function.__defaults__, function.__kwdefaults__), f"a default of {where}")
        names = function.__code__.co_freevars
        for name, cell in zip(names, function.__closure__ or ()):
            self.add_used(name, _inside(cell), where)
        self.add_dict(vars(function), where)
        # One that a package has made, such as a wrapper, uses what is installed with it.
        used = () if _is_of_package(function) else _used(function, where)
        for name, value in used:
            self.tell(name)
            self.add_used(name, value, where)

    def add_used(self, name, value, where):
        # What is used of modules is there by its own name.
        if isinstance(value, types.ModuleType):
            self.tell(value.__name__)
        else:
            self.add(value, f"{name} of {where}")

    def add_partial(self, partial, where):
        self.add_all((partial.func, partial.args, partial.keywords), where)

    def add_builtin(self, method, where):
        self.tell(method.__name__)
        self.add(method.__self__, where)

    def add_method(self, method, where):
        self.add_all((method.__func__, method.__self__), where)

    def add_property(self, value, where):
        self.add_all((value.fget, value.fset, value.fdel), where)

    def add_wrapped(self, value, where):
        self.add(value.__func__, where)

    def add_class(self, kind, where):
        self.tell(kind.__qualname__)
        self.add_all(kind.__bases__, where)
        self.add(type(kind), where)
        for name, value in sorted(vars(kind).items()):
            if name not in _SILENT and not isinstance(value, types.GetSetDescriptorType):
                self.tell(name)
                self.add(value, f"{where}.{name}")

    def add_vectorize(self, value, where):
        self.add_all((value.pyfunc, value.otypes, value.signature, value.excluded), where)

    def add_name(self, value, where):
        self.tell(_name(value))

    def add_module(self, module, where):
        raise Unknown(f"{where} is the module {module.__name__}, as a value")

    def add_object(self, value, where):
        """Add what a pickle of the object would have."""
        if isinstance(value, _BLIND):
            raise _unknown(value, where)
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            reduced = reduce(value) if reduce is not None else value.__reduce_ex__(4)
        except Exception as error:
            raise _unknown(value, where) from error
        if isinstance(reduced, str):
            return self.tell(reduced)
        self.add(reduced[0], where)
        self.add_all(reduced[1], where)
        state, items, pairs = (*reduced[2:5], None, None, None)[:3]
        if isinstance(state, dict):
            self.tell("state")
            for name, part in state.items():
                self.add(name, where)
                self.add(part, f"{where}.{name}")
        else:
            self.add(state, where)
        self.add_all(items or (), where)
        self.add_dict(dict(pairs or ()), where)


#: Of exactly these types: others may have attributes and methods of their own.
_CONTAINERS: dict = {
    tuple: _Found.add_all,
    list: _Found.add_all,
    set: _Found.add_set,
    frozenset: _Found.add_set,
    dict: _Found.add_dict,
    types.MappingProxyType: _Found.add_dict,
}

_KINDS: tuple = (
    (np.ndarray, _Found.add_array),
    (np.generic, lambda found, value, where: found.add_array(np.asarray(value), where)),
    ((bytearray, memoryview), _Found.add_bytes),
    (types.CodeType, _Found.add_code),
    (types.FunctionType, _Found.add_function),
    (types.MethodType, _Found.add_method),
    ((types.BuiltinFunctionType, types.MethodWrapperType), _Found.add_builtin),
    (functools.partial, _Found.add_partial),
    (np.vectorize, _Found.add_vectorize),
    (property, _Found.add_property),
    ((staticmethod, classmethod), _Found.add_wrapped),
    (type, _Found.add_class),
    (types.ModuleType, _Found.add_module),
    (types.MemberDescriptorType, _Found.add_name),
)


def _unknown(value, where):
    return Unknown(f"{where} is a {type(value).__name__}, which cannot be looked into")


def _name(value):
    for name in ("__qualname__", "__name__"):
        if isinstance(getattr(value, name, None), str):
            return getattr(value, name)
    return type(value).__name__


def _used(function, where):
    """Return what a function uses by names: globals, imports, and the attributes of modules."""
    text = _Text(function)
    for name in sorted(_DYNAMIC & text.globals):
        own = function.__globals__.get(name, getattr(builtins, name, None))
        if own is None or is_installed(own):
            raise Unknown(f"{where} uses {name}")
    for name in sorted(_DYNAMIC_ATTRIBUTES & text.attributes):
        raise Unknown(f"{where} uses {name}")
    used = {name: function.__globals__[name] for name in text.globals & set(function.__globals__)}
    for name in text.imports:
        if name.partition(".")[0] == "importlib":
            raise Unknown(f"{where} uses importlib")
        used |= {part: sys.modules[part] for part in (name.partition(".")[0], name)}
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    todo = [*used.values(), *(_inside(cell) for _, cell in cells)]
    looked = set()
    while todo:
        module = todo.pop()
        if not isinstance(module, types.ModuleType) or is_installed(module):
            continue
        if module.__name__ in looked:
            continue
        looked.add(module.__name__)
        if "__getattr__" in vars(module) or any(
            used.get(name) is module for name in text.escaping & set(used)
        ):
            raise Unknown(f"{where} uses the module {module.__name__} in a way that is not known")
        for name in (text.attributes | text.globals) & set(vars(module)):
            used[f"{module.__name__}.{name}"] = value = vars(module)[name]
            todo.append(value)
            is_escaping = name in text.escaping and isinstance(value, types.ModuleType)
            if is_escaping and not is_installed(value):
                raise Unknown(f"{where} uses the module {value.__name__} as a value")
    return sorted(used.items(), key=lambda item: item[0])


def _inside(cell):
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


class _Text:
    """The names in a function: of globals, attributes, and modules, which are imported here."""

    def __init__(self, function):
        self.globals, self.attributes, self.imports = set(), set(), []
        # The names of which more than attributes are used.
        self.escaping = set()
        self.package = function.__globals__.get("__package__") or ""
        self.read(function.__code__)

    def read(self, code):
        steps = list(dis.get_instructions(code))
        for at, step in enumerate(steps):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                self.globals.add(step.argval)
            elif step.opname == "IMPORT_NAME":
                level = steps[at - 2].argval
                self.imported(step.argval, level if isinstance(level, int) else 0)
            elif step.argval in code.co_names:
                self.attributes.add(step.argval)
            follows = steps[at + 1].opname if at + 1 < len(steps) else ""
            if not follows.startswith(("LOAD_ATTR", "LOAD_METHOD")) and step.opname.startswith(
                ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD")
            ):
                self.escaping.add(step.argval)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self.read(constant)

    def imported(self, name, level):
        try:
            name = importlib.util.resolve_name("." * level + name, self.package)
            importlib.import_module(name)
        except ImportError:
            return  # the function gets it, too
        self.imports.append(name)


def is_installed(value):
    """Return whether a module, function or class is of an installed package, or of Python."""
    if isinstance(value, types.ModuleType):
        return _is_installed(value.__name__)
    if isinstance(value, types.BuiltinFunctionType):
        owner = value.__self__
        # A method of an object counts as that object, too.
        return owner is None or isinstance(owner, (types.ModuleType, type))
    if isinstance(value, types.FunctionType):
        # A function that another one of the package has made has no such name.
        return _is_of_package(value) and _is_found(value)
    if isinstance(value, type):
        return _is_installed(value.__module__ or "")
    if isinstance(value, np.ufunc):
        homes = [np, sys.modules.get("scipy.special")]
        return any(getattr(home, value.__name__, None) is value for home in homes)
    return isinstance(value, _OPAQUE) or type(value).__module__ in ("_thread", "_cffi_backend")


def _is_of_package(function):
    # Not `__module__`, which wrappers take over.
    return _is_installed(function.__globals__.get("__name__") or "")


def _is_found(function):
    """Return whether a function is what its module has by the name in its text."""
    found = sys.modules.get(function.__globals__.get("__name__"))
    for name in function.__code__.co_qualname.split("."):
        found = vars(found).get(name) if hasattr(found, "__dict__") else None
        found = getattr(found, "__func__", found)
    return found is function


def _is_installed(module):
    if module == "__main__":
        return False
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    if module.partition(".")[0] in sys.stdlib_module_names:
        # A module of a user may have such a name.
        return not file or file.startswith(_LIBRARY)
    return "site-packages" in file or "dist-packages" in file
