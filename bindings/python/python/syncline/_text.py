"""The text of a traced kernel: the language of described kernels of the command ``syncline``.

A value that is used more than once has a name, and is computed once. So has a part of an expression
that nests too deep for the language.
"""

import math

from ._values import DTYPES, NEIGHBOURS, Condition, Value

_NAMES = {offset: name for name, offset in NEIGHBOURS.items()}

#: Names that mean something in a description, and cannot be those of arrays.
_TYPES = {*DTYPES, "bool", "float16"}
_RESERVED = {*NEIGHBOURS, *_TYPES, "old", "new", "if", "abs", "min", "max", "sqrt"}

#: The number up to which all whole numbers are float64.
EXACT = 1 << 53

#: The depth of an expression from which on a part of it gets a name: descriptions nest 64 deep.
_DEEP = 24


def function_name(function):
    """Return the name of a kernel for messages."""
    return getattr(function, "__name__", type(function).__name__)


def written_name(name):
    """Return the name of an array in a description."""
    return f"{name}_" if name in _RESERVED else name


def operands(node):
    """Return the values and comparisons of which an operation is made."""
    if node.op == "read":
        return []
    return [arg for arg in node.args if isinstance(arg, (Value, Condition))]


def nodes_of(roots):
    """Return all values and comparisons, operands before operations."""
    ordered, seen, stack = [], set(), [(root, False) for root in reversed(roots)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            ordered.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((arg, False) for arg in reversed(operands(node)))
    return ordered


class Text:
    """The text of an update, with names for values that are used more than once."""

    def __init__(self, names, fields, functions, dimensions, typed):
        self.names, self.fields, self.functions = names, fields, functions
        self.planes, self.typed = dimensions > 2, typed
        self.lines, self.known, self.named = [], {}, 0
        self.keys, self.uses = {}, {}

    def key(self, node):
        """Return the number of a value; equal values have the same one."""
        found = self.keys.get(id(node))
        if found is None:
            if isinstance(node, (Value, Condition)):
                parts = tuple(self.key(arg) for arg in node.args)
                content = (node.op, getattr(node, "dtype", None), parts)
            else:
                content = (type(node).__name__, repr(node))
            # The node is kept with its number, so that its `id` stays its own.
            found = self.known.setdefault(("content", content), len(self.known))
            self.keys[id(node)] = found
            self.known.setdefault(("node", id(node)), node)
        return found

    def count(self, nodes, roots):
        """Count the uses of each operation; operands come before operations in `nodes`."""
        counted = set()
        for node in nodes:
            if (key := self.key(node)) not in counted:
                counted.add(key)
                for arg in operands(node):
                    self.uses[self.key(arg)] = self.uses.get(self.key(arg), 0) + 1
        for root in roots:
            self.uses[self.key(root)] = self.uses.get(self.key(root), 0) + 1

    def name(self, text):
        """Give a text a name of its own."""
        self.named += 1
        while f"t{self.named}" in (*self.names, *self.functions):
            self.named += 1
        self.lines.append(f"t{self.named} = {text}")
        return f"t{self.named}"

    def write(self, node, least=0):
        """Return a value as text that binds at least as strongly as `least`."""
        key = self.key(node)
        if ("text", key) in self.known:
            text, strength, depth = self.known["text", key]
        else:
            text, strength, depth = self.plain(node)
            named = self.uses.get(key, 0) > 1 or depth > _DEEP
            if named and isinstance(node, Value) and node.op not in ("read", "number"):
                text, strength, depth = self.name(text), 4, 0
            self.known["text", key] = text, strength, depth
        self.depth = depth + 1
        return text if strength >= least else f"({text})"

    def plain(self, node):
        """Return the text of a value, how strongly it binds, and how deep it is."""
        op, args = node.op, node.args
        if op == "number":
            return self.number(args[0], node.dtype)
        if op == "read":
            return self.read(*args), 4, 0
        deepest = 0

        def part(arg, least):
            nonlocal deepest
            text = self.write(arg, least)
            deepest = max(deepest, self.depth)
            return text

        if op in "+-":
            text, strength = f"{part(args[0], 1)} {op} {part(args[1], 2)}", 1
        elif op in "*/%":
            text, strength = f"{part(args[0], 2)} {op} {part(args[1], 3)}", 2
        elif op == "neg":
            text, strength = f"-{part(args[0], 3)}", 3
        elif op == "if":
            condition, then, other = args
            left, right = (part(arg, 1) for arg in condition.args)
            if self.typed and all(map(self.is_untyped, condition.args)):
                left = f"{condition.args[0].dtype}({left})"
            then, other = part(then, 1), part(other, 1)
            text, strength = f"if({left} {condition.op} {right}, {then}, {other})", 4
        else:
            name = op
            if op == "cast":
                name = node.dtype
            elif op == "call":
                name, args = args[0].name, args[1:]
            inside = ", ".join(part(arg, 1) for arg in args)
            if op == "cast" and self.is_untyped(args[0]):
                inside = f"{args[0].dtype}({inside})"
            text, strength = f"{name}({inside})", 4
        return text, strength, deepest

    def is_untyped(self, node):
        """Return whether a text has no type of its own: it is made of numbers only.

        In a description such a text takes the type of what it is combined with.
        """
        if node.op in ("read", "cast", "call"):
            return False
        found = self.known.get(("untyped", self.key(node)))
        if found is None:
            args = node.args[1:] if node.op == "if" else node.args
            found = node.op == "number" or all(map(self.is_untyped, args))
            self.known["untyped", self.key(node)] = found
        return found

    @staticmethod
    def number(number, dtype):
        if dtype.kind != "f" and abs(number) > EXACT:
            # A description has numbers of float64, which are no longer all whole ones there.
            high, low = divmod(number, 1 << 32)
            return f"int64({high}) * {1 << 32} + {low}", 1, 1
        if isinstance(number, float) and not math.isfinite(number):
            name = "nan" if math.isnan(number) else "infinity"
            negative = number < 0
            return (f"-{name}_" if negative else f"{name}_"), 3 if negative else 4, 0
        negative = math.copysign(1, number) < 0
        return repr(number), 3 if negative else 4, 0

    def read(self, index, offset, before):
        array = self.names[index]
        before = "old." if before and index < self.fields else ""
        if offset == (0, 0, 0):
            return array
        if offset in _NAMES:
            return f"{before}{array}.{_NAMES[offset]}"
        inside = offset if self.planes else offset[1:]
        return f"{before}{array}[{', '.join(map(str, inside))}]"


def compose(function, names, fields, dimensions, functions, lines, options):
    """Return the whole description."""
    quoted = [f'"{name}"' for name in names]
    head = [f'name = "{function_name(function)}"'.replace("<lambda>", "lambda")]
    if fields == 1:
        head.append(f"field = {quoted[0]}")
    else:
        head.append(f"fields = [{', '.join(quoted[:fields])}]")
    if quoted[fields:]:
        head.append(f"coefficients = [{', '.join(quoted[fields:])}]")
    if dimensions > 2:
        head.append("dimensions = 3")
    if functions:
        head.append("functions = [" + ", ".join(f'"{name}"' for name in functions) + "]")
    more, tables = options
    head.extend(more)
    body = ['update = """', *lines, '"""']
    tables = dict(tables)
    constants = [name for name in ("nan", "infinity") if any(f"{name}_" in line for line in lines)]
    if constants:
        tables["constants"] = [f"{name}_ = {name[:3]}" for name in constants]
    rest = (line for name, lines in tables.items() for line in (f"[{name}]", *lines))
    return "\n".join([*head, *body, *rest, ""])
