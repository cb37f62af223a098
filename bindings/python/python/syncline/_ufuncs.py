"""What numpy's functions mean, called with values of a kernel."""

import operator

import numpy as np

from . import _numbers as numbers
from ._values import (
    FUNCTIONS,
    UFUNCS,
    Choice,
    Condition,
    Operand,
    Value,
    choose,
    compared,
    computed,
    divided,
    lifted,
    operand,
    operation,
)


def _unary(op, function):
    return lambda trace, value: computed(trace, op, function, value)


def _binary(op, function):
    return lambda trace, left, right: computed(trace, op, function, left, right)


def _square(trace, value):
    value = operand(trace, value)
    dtype = numbers.supported(trace, numbers.asked(trace, np.square, value))
    value = lifted(trace, value, dtype)
    return operation(trace, "*", (value, value), dtype)


def _floor(trace, value):
    value = operand(trace, value)
    dtype = numbers.supported(trace, numbers.asked(trace, np.floor, value))
    value = lifted(trace, value, dtype)
    return operation(trace, "floor", (value,), dtype) if dtype.kind == "f" else value


def _is_nan(trace, value):
    return compared(trace, "!=", value, value)


def _comparison(op):
    return lambda trace, left, right: compared(trace, op, left, right)


def _least(op, compare, function):
    """Return numpy's minimum or maximum: NaN if either operand is; of two equal ones the second."""

    def of(trace, left, right):
        dtype = left.dtype
        # The `min` of descriptions is its second operand if either is NaN.
        if dtype.kind != "f":
            return operation(trace, op, (left, right), dtype)
        for one, other in ((left, right), (right, left)):
            if one.op == "number" and np.isnan(one.args[0]):
                return one
            if one.op == "number" and (one is left or one.args[0] != 0):
                return operation(trace, op, (one, other), dtype)
        nan = Condition(trace, "!=", (left, left))
        return choose(Condition(trace, compare, (left, right)), left, choose(nan, left, right))

    def make(trace, left, right):
        left, right = operand(trace, left), operand(trace, right)
        dtype = numbers.supported(trace, numbers.asked(trace, function, left, right))
        return of(trace, lifted(trace, left, dtype), lifted(trace, right, dtype))

    make.of = of
    return make


_minimum = _least("min", "<", np.minimum)
_maximum = _least("max", ">", np.maximum)


def _clip(trace, value, least=None, most=None, **options):
    least = options.pop("a_min", options.pop("min", least))
    most = options.pop("a_max", options.pop("max", most))
    if options:
        raise trace.error("numpy.clip takes a value and two bounds")
    value = operand(trace, value)
    bounds = [None if one is None else operand(trace, one) for one in (least, most)]
    dtype = numbers.supported(trace, numbers.asked(trace, np.clip, value, *bounds))
    own = value.dtype if isinstance(value, Operand) else np.asarray(value).dtype
    value = lifted(trace, value, dtype)
    for one, bound, end in zip(bounds, (_maximum, _minimum), ("min", "max")):
        if type(one) is int and own.kind in "iu":
            # numpy takes a number of Python that bounds no value of the type as no bound.
            last = getattr(np.iinfo(own), end)
            one = None if (one <= last if end == "min" else one >= last) else one
        if one is not None:
            value = bound.of(trace, value, lifted(trace, one, dtype))
    return value


def _where(trace, condition, then=None, other=None):
    if then is None or other is None:
        raise trace.error("numpy.where takes a comparison and two values")
    condition = operand(trace, condition)
    if isinstance(condition, Value):
        condition = condition != 0
    then, other = operand(trace, then), operand(trace, other)
    dtype = numbers.asked(trace, lambda one, two: np.where(True, one, two), then, other)
    dtype = numbers.supported(trace, dtype)
    one, two = (lifted(trace, given, dtype, numbers.chosen) for given in (then, other))
    if not isinstance(condition, Condition):
        return Choice(one if condition else two)
    if isinstance(then, Operand) or isinstance(other, Operand):
        return Choice(choose(condition, one, two))
    return Choice(choose(condition, one, two), (condition, one.scalar(), two.scalar()))


UFUNCS.update(
    {
        "add": _binary("+", operator.add),
        "subtract": _binary("-", operator.sub),
        "multiply": _binary("*", operator.mul),
        "divide": _binary("/", operator.truediv),
        "true_divide": _binary("/", operator.truediv),
        "floor_divide": lambda trace, left, right: divided(trace, "//", left, right),
        "remainder": lambda trace, left, right: divided(trace, "%", left, right),
        "negative": _unary("neg", operator.neg),
        "positive": lambda trace, value: +value,
        "absolute": _unary("abs", abs),
        "fabs": _unary("abs", np.fabs),
        "square": _square,
        "sqrt": _unary("sqrt", np.sqrt),
        "floor": _floor,
        "isnan": _is_nan,
        "minimum": _minimum,
        "maximum": _maximum,
        "clip": _clip,
        "less": _comparison("<"),
        "less_equal": _comparison("<="),
        "greater": _comparison(">"),
        "greater_equal": _comparison(">="),
        "equal": _comparison("=="),
        "not_equal": _comparison("!="),
    }
)
FUNCTIONS.update({"where": _where, "clip": _clip})
