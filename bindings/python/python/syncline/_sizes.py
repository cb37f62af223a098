"""Numbers that users give: sizes of memory, read and told, and whole numbers."""

import operator
import re

from . import _syncline

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}

#: More than any machine has.
_MOST = 1 << 62

#: The share of the available memory that a sweep takes if it is not told.
_SHARE = 0.8


def size(memory):
    """Return a size such as ``"2G"`` in bytes."""
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*([0-9.]+)\s*([KMGT]?)(i?B)?\s*", memory, re.IGNORECASE)
        if match is None:
            raise ValueError(f"{memory!r} is no size: write bytes, or a number with K, M, G or T")
        memory = float(match[1]) * (1 << _UNITS[match[2].upper()])
    memory = int(memory)
    if memory <= 0:
        raise ValueError(f"the memory is {memory} bytes, but must be more than 0")
    return min(memory, _MOST)


def allowed(memory):
    """Return the bytes that a sweep may take, of what the user has said."""
    if memory is not None:
        return size(memory)
    available = _syncline.available_memory()
    return _MOST if available is None else int(available * _SHARE)


def told_size(number):
    """Return a number of bytes in words."""
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if number >= 1 << power:
            return f"{number / (1 << power):.3g} {unit}"
    return f"{number} bytes"


def seconds(name, value):
    """Return a time that a user has given; `None` for one that no program lives to see."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}, but must be a number of seconds") from None
    if not number > 0:
        raise ValueError(f"{name} is {number}, but must be more than 0")
    return number if number < 1e9 else None


def whole(name, least, value, most=(1 << 63) - 1):
    """Return a whole number that a user has given."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, but must be a whole number") from None
    if number < least:
        raise ValueError(f"{name} is {number}, but must be at least {least}")
    if number > most:
        raise ValueError(f"{name} is {number}, but must be at most {most}")
    return number
