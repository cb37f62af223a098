"""Kernels written in Python, traced into descriptions.

A kernel is a function of symbolic arrays (`_values`). It is called once; the operations on its
arguments build a graph, which `_text` writes as a described kernel. No compiler is needed, and the
interpreter takes no part in the sweep.
"""

import inspect

from . import _ufuncs  # noqa: F401, what numpy's functions mean
from ._errors import ArrayError, KernelError
from ._narrow import narrowed
from ._text import Text, compose, function_name, nodes_of, written_name
from ._values import REAL, Array, Mask, Trace, Value, assigned


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
    names, kernel = [], function_name(function)
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise KernelError(
                f"{kernel} takes any number of arguments: name each array of the kernel"
            )
        if parameter.default is parameter.empty:
            names.append(parameter.name)
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise KernelError(f"{kernel} has parameters without names: it is no kernel")
    if not names:
        raise KernelError(f"{kernel} has no parameter: the first one is the field")
    return names


def trace(function, dtypes, dimensions, options=((), {})):
    """Trace a kernel for arrays of these types.

    Parameters
    ----------
    function : callable
        The kernel.
    dtypes : sequence of str
        The type of each array, in the order of the parameters; a coefficient may be of ``bool``,
        which is uint8 in the description.
    dimensions : int
        One, two or three.
    options : tuple
        What the description says beside its update: lines, and tables of lines.
    """
    names, kernel = parameters(function), function_name(function)
    if len(names) != len(dtypes):
        raise ArrayError(
            f"{kernel} takes {len(names)} arrays ({', '.join(names)}), but {len(dtypes)} are given"
        )
    state = Trace(function, dimensions)
    masks = [dtype == "bool" for dtype in dtypes]
    dtypes = ["uint8" if is_mask else dtype for dtype, is_mask in zip(dtypes, masks)]
    arrays = [Array(state, index, dtype) for index, dtype in enumerate(dtypes)]
    given = [Mask(array) if is_mask else array for array, is_mask in zip(arrays, masks)]
    returned = function(**dict(zip(names, given)))
    state.has_returned = True
    results = returned if isinstance(returned, tuple) else (returned,)
    if returned is None:
        raise KernelError(f"{kernel} returns nothing: it returns the new value of its field")
    if not results:
        raise KernelError(f"{kernel} returns an empty tuple: it returns one value for each field")
    if len(results) > len(names):
        raise KernelError(
            f"{kernel} returns {len(results)} values, but takes {len(names)} arrays: it "
            "returns one value for each field"
        )
    if any(masks[: len(results)]):
        raise KernelError(f"a field of {kernel} is of bool: only a coefficient is a mask")
    names = [written_name(name) for name in names]
    try:
        roots = [assigned(state, result, array.dtype) for array, result in zip(arrays, results)]
    except KernelError as error:
        raise KernelError(f"the value that {kernel} returns: {error}") from None
    roots = narrowed(roots)
    fields = len(roots)
    functions = {}
    nodes = nodes_of(roots)
    for node in nodes:
        if node.op == "call":
            called = node.args[0]
            if functions.setdefault(called.name, called) is not called:
                raise KernelError(f"two functions are called {called.name}: give one another name=")
    values = [node for node in nodes if isinstance(node, Value)]
    # Without types, all arrays are float64 or all are float32, and so are the numbers.
    typed = len({*dtypes, *(value.dtype.name for value in values)}) > 1 or dtypes[0] not in REAL
    typed = typed or any(value.op == "cast" for value in values)
    typed = typed or (functions and dtypes[0] != "float64")
    text = Text(names, fields, functions, dimensions, typed)
    text.count(nodes, roots)
    # Operands first: the text of an operation then finds that of its operands.
    for value in values:
        text.is_untyped(value)
        text.write(value)
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
    if any(value.dtype.kind != "f" for value in values):
        options = [*options[0], 'overflow = "wrapping"'], options[1]
    text = compose(function, names, fields, dimensions, functions, lines, options)
    return Traced(text, functions, fields)
