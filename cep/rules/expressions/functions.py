"""The built-in functions of expressions: the signatures of all functions, and the implementations of the numeric ones
for whole columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from cep.core.values import MISSING
from cep.rules.expressions.geodesy import distance

Operand = Any
"""A column, or a numpy scalar that stands for a column of equal values."""


@dataclass(frozen=True, slots=True)
class Function:
    """The signature of a built-in function.

    - `takes`: the kind of each parameter. A `?` means optional, and a `*` means that it can be repeated.
    - `gives`: the result type. `same` means the type of the first argument.
    - `says`: a description for users of what the function returns.

    The kinds are float (any number, as a float), number (int or float), size (number or duration), ordered (number,
    time or duration, all of one type), int, string, time, area (WKT or an IRI), unit (an IRI of QUDT), test (a
    condition) and value (anything).
    """

    takes: tuple[str, ...]
    gives: str
    says: str


FUNCTIONS: dict[str, Function] = {
    "abs": Function(("size",), "same", "the size without the sign"),
    "acos": Function(("float",), "float", "arc cosine, in radians"),
    "asin": Function(("float",), "float", "arc sine, in radians"),
    "atan": Function(("float",), "float", "arc tangent, in radians"),
    "atan2": Function(("float", "float"), "float", "`atan2(y, x)`, the angle of a point, in radians"),
    "ceil": Function(("number",), "int", "the next integer at or above"),
    "coalesce": Function(("value", "value", "value*"), "same", "the first that is not missing"),
    "concat": Function(("string", "string*"), "string", "strings one after the other"),
    "contains": Function(("string", "string"), "bool", "`contains(text, part)`"),
    "cos": Function(("float",), "float", "cosine of radians"),
    **{
        name: Function(("time", "string?"), "int", f"{says}, of UTC or `{name}(T, \"Europe/Zurich\")`")
        for name, says in (
            ("hour", "the hour, 0 to 23"), ("minute", "the minute, 0 to 59"), ("second", "the second, 0 to 59"),
            ("day", "the day of the month"), ("weekday", "the day of the week, Monday 1 to Sunday 7"),
            ("month", "the month, 1 to 12"), ("year", "the year"), ("day_of_year", "the day of the year, from 1"),
            ("week", "the week of the year, by ISO 8601"),
        )
    },
    "date_trunc": Function(
        ("string", "time", "string?"), "time", '`date_trunc("hour", T)`: when the hour, day, week .. of a time began'
    ),
    "degrees": Function(("float",), "float", "radians in degrees"),
    "distance": Function(("float",) * 4, "float", "`distance(lat1, long1, lat2, long2)`, in metres on the earth"),
    "ends_with": Function(("string", "string"), "bool", "`ends_with(text, part)`"),
    "extract": Function(
        ("string", "string", "int?"), "string", "`extract(text, regex, n)`: what the n-th group matches, else the first"
    ),
    "exp": Function(("float",), "float", "e to the power of"),
    "float": Function(("value",), "float", "as a float: numbers, texts of numbers, times and durations in seconds"),
    "floor": Function(("number",), "int", "the next integer at or below"),
    "format": Function(("string", "value*"), "string", '`format("{} at {:.1f}", S, T)`: a text with values in it'),
    "if": Function(("test", "value", "value"), "same", "`if(X > 3, a, b)`: a where the condition holds, else b"),
    "inside": Function(("float", "float", "area"), "bool", "`inside(lat, long, area)`: WKT, or a place that is known"),
    "int": Function(("value",), "int", "as an integer, towards zero: numbers, texts of integers, durations in seconds"),
    "iri": Function(("value", "value*"), "iri", "the IRI of a text, or of several values one after the other"),
    "length": Function(("string",), "int", "the number of characters"),
    "local_time": Function(("time", "string"), "duration", "the time of day in a zone, as the duration since midnight"),
    "log": Function(("float", "float?"), "float", "natural logarithm, or `log(x, base)`"),
    "log10": Function(("float",), "float", "logarithm to base 10"),
    "log2": Function(("float",), "float", "logarithm to base 2"),
    "lower": Function(("string",), "string", "in lower case"),
    "matches": Function(("string", "string"), "bool", "`matches(text, regex)`: somewhere, unless `^` or `$` anchor it"),
    "max": Function(("ordered", "ordered", "ordered*"), "same", "the greatest"),
    "min": Function(("ordered", "ordered", "ordered*"), "same", "the least"),
    "pi": Function((), "float", "3.14159..."),
    "radians": Function(("float",), "float", "degrees in radians"),
    "replace": Function(("string", "string", "string"), "string", "`replace(text, part, by)`, every occurrence"),
    "round": Function(("number", "int?"), "int", "to an integer, half to even; `round(x, digits)` to decimal digits"),
    "sign": Function(("size",), "int", "-1, 0 or 1"),
    "sin": Function(("float",), "float", "sine of radians"),
    "split": Function(("string", "string", "int"), "string", "`split(text, \",\", n)`: the n-th part, -1 the last"),
    "sqrt": Function(("float",), "float", "square root"),
    "starts_with": Function(("string", "string"), "bool", "`starts_with(text, part)`"),
    "string": Function(("value",), "string", "as a text"),
    "substring": Function(("string", "int", "int?"), "string", "`substring(text, first, length)`, counted from 1"),
    "tan": Function(("float",), "float", "tangent of radians"),
    "time": Function(("string",), "duration", '`time("22:00")`, a time of day, as the duration since midnight'),
    "trim": Function(("string",), "string", "without white space at both ends"),
    "upper": Function(("string",), "string", "in upper case"),
    "value_in": Function(("float", "unit", "unit"), "float", "`value_in(x, unit:MI, unit:M)`, one unit in another"),
}  # fmt: skip

TESTS = frozenset(name for name, function in FUNCTIONS.items() if function.gives == "bool")
"""The functions that may be used as conditions, also after `not`."""


# --- integers: missing is MISSING, beyond 64 bits becomes missing -----------------------------------------------------


def absent(column: Operand) -> Operand:
    """Return a mask of the missing values in a column of int64."""
    return np.equal(column, MISSING)


def _int(value: Operand, missing: Operand) -> Operand:
    return np.where(missing, MISSING, value)


def add_int(a: Operand, b: Operand) -> Operand:
    total = np.add(a, b)
    return _int(total, (((a ^ total) & (b ^ total)) < 0) | absent(a) | absent(b))


def subtract_int(a: Operand, b: Operand) -> Operand:
    rest = np.subtract(a, b)
    return _int(rest, (((a ^ b) & (a ^ rest)) < 0) | absent(a) | absent(b))


def multiply_int(a: Operand, b: Operand) -> Operand:
    product = np.multiply(a, b)
    # After an overflow, the product is off by at least 2**64, far more than the rounding of the float product.
    beyond = np.abs(np.multiply(a, b, dtype=np.float64, casting="unsafe") - product) > 2.0**60
    return _int(product, beyond | absent(a) | absent(b))


def divide_int(a: Operand, b: Operand) -> Operand:
    return _int(np.floor_divide(a, b), np.equal(b, 0) | absent(a) | absent(b))


def mod_int(a: Operand, b: Operand) -> Operand:
    return _int(np.remainder(a, b), np.equal(b, 0) | absent(a) | absent(b))


def power_int(a: Operand, b: Operand) -> Operand:
    """Return `a ** b`. All values of `a` have the same exponent `b`, which is not negative."""
    exponent = int(b)
    result: Operand = _int(np.ones_like(a), absent(a))
    while exponent:
        if exponent & 1:
            result = multiply_int(result, a)
        exponent >>= 1
        if exponent:
            a = multiply_int(a, a)
    return result


def min_int(a: Operand, b: Operand) -> Operand:
    return np.minimum(a, b)  # MISSING is the smallest int


def max_int(a: Operand, b: Operand) -> Operand:
    return _int(np.maximum(a, b), absent(a) | absent(b))


def sign_int(a: Operand) -> Operand:
    return _int(np.sign(a), absent(a))


def round_int_to(a: Operand, digits: Operand) -> Operand:
    """Round ints as Python's `round` does, half to even: -2 digits round to hundreds. If `digits` is not negative, ints
    stay unchanged."""
    unit = np.where(np.less(digits, 0) & np.greater(digits, -19), 10 ** np.clip(np.negative(digits), 0, 18), 1)
    half, rest = unit // 2, np.remainder(a, unit)
    down = np.subtract(a, rest)
    up = (rest > half) | ((rest == half) & (unit > 1) & (np.remainder(down // unit, 2) == 1))
    rounded = np.where(up, add_int(down, unit), down)
    return _int(np.where(np.less(digits, -18), 0, rounded), absent(a) | absent(digits))


# --- floats: missing is NaN, and so is what is not finite -------------------------------------------------------------


def finite(column: Operand) -> Operand:
    return column * 0.0 + column  # infinities become NaN, -0.0 becomes 0.0


def _finite(function: Callable[..., Operand]) -> Callable[..., Operand]:
    return lambda *columns: finite(function(*columns))


def divide_float(a: Operand, b: Operand) -> Operand:
    return finite(np.divide(a, b))


def power_float(a: Operand, b: Operand) -> Operand:
    return finite(np.where(np.isnan(a) | np.isnan(b), np.nan, np.power(a, b)))


def log_float(a: Operand, base: Operand | None = None) -> Operand:
    return finite(np.log(a) if base is None else np.log(a) / np.log(base))


def to_float(column: Operand) -> Operand:
    return np.where(absent(column), np.nan, column)


def exact_float(column: Operand) -> Operand:
    """Convert ints to floats. The result is missing if no float is equal to the int."""
    floats = to_float(column)
    fits = np.abs(floats) < 2.0**63
    return np.where(fits & np.equal(np.where(fits, floats, 0.0).astype(np.int64), column), floats, np.nan)


def to_int(column: Operand) -> Operand:
    """Convert floats that have whole values to ints. The result is missing if the value does not fit into 64 bits."""
    fits = np.abs(column) < 2.0**63
    return _int(np.where(fits, column, 0.0).astype(np.int64), ~fits)


def whole_float(column: Operand) -> Operand:
    """Convert floats to ints. The result is missing if the float is not whole."""
    return np.where(np.trunc(column) == column, to_int(column), MISSING)


def rounded_exactly(approximate: Operand, exact: Callable[..., int], *operands: Operand) -> Operand:
    """Round to integers, half to even. Use `exact` for rows in which the rounding error of a float could change the
    result.

    `approximate`: the floats to round. `operands`: the columns whose values are the arguments of `exact`, row by row.
    """
    result = to_int(np.rint(approximate))
    size = np.abs(approximate)
    half = np.abs(np.abs(approximate - np.trunc(approximate)) - 0.5)
    doubtful = np.asarray(((half <= 1e-4 + 4e-16 * size) | (size >= 2.0**52)) & np.isfinite(approximate))
    if doubtful.any():
        result = np.array(np.broadcast_to(result, doubtful.shape))
        rows = [np.broadcast_to(operand, doubtful.shape)[doubtful].tolist() for operand in operands]
        values = [exact(*row) for row in zip(*rows)]
        result[doubtful] = [value if abs(value) < 2**63 else MISSING for value in values]
    return result


def ticks_of_seconds(column: Operand) -> Operand:
    """Convert seconds to microseconds, rounded half to even. A float counts as the number that its shortest decimal
    representation shows: 0.1 is exactly one tenth."""
    if column.dtype == np.int64:
        return multiply_int(column, np.int64(1_000_000))
    return rounded_exactly(column * 1e6, lambda number: round(Fraction(repr(number)) * 1_000_000), column)


def to_seconds(column: Operand) -> Operand:
    return to_float(column) / 1e6


def whole_seconds(column: Operand) -> Operand:
    """Convert microseconds to whole seconds, rounded towards zero."""
    size = np.floor_divide(np.abs(column), 1_000_000)
    return _int(np.where(np.less(column, 0), -size, size), absent(column))


def stretch(ticks: Operand, by: Operand) -> Operand:
    """Multiply durations by numbers."""
    if by.dtype == np.int64:
        return multiply_int(ticks, by)
    return rounded_exactly(to_float(ticks) * by, lambda n, x: round(n * Fraction(x)), ticks, by)


def shrink(ticks: Operand, by: Operand) -> Operand:
    """Divide durations by floats, or by durations."""
    if by.dtype == np.int64:
        return divide_float(to_float(ticks), to_float(by))
    return rounded_exactly(to_float(ticks) / by, lambda n, x: round(n / Fraction(x)), ticks, by)


def round_to(column: Operand, digits: Operand) -> Operand:
    """Round floats to decimal digits. As in Python, the exact value of the float decides a tie."""
    scale = 10.0 ** np.clip(digits, -400, 400)
    scaled = column * scale
    result = np.asarray(np.rint(scaled) / scale)
    doubtful = (np.abs(np.abs(scaled - np.trunc(scaled)) - 0.5) < 1e-4) | ~(np.abs(scaled) < 2.0**45)
    doubtful = np.asarray((doubtful | (np.abs(digits) > 22)) & ~np.isnan(column))
    if doubtful.any():
        result = np.array(np.broadcast_to(result, doubtful.shape))
        exact = zip(
            np.broadcast_to(column, doubtful.shape)[doubtful], np.broadcast_to(digits, doubtful.shape)[doubtful]
        )
        result[doubtful] = [round(float(x), max(-400, min(400, int(n)))) for x, n in exact]
    return np.where(absent(digits), np.nan, finite(result))


# --- functions by the type of the first argument ---

INT_COLUMNS: dict[str, Callable[..., Operand]] = {
    "+": add_int, "-": subtract_int, "*": multiply_int, "//": divide_int, "mod": mod_int, "**": power_int,
    "neg": np.negative, "abs": np.abs, "min": min_int, "max": max_int, "sign": sign_int,
    "floor": lambda a: a, "ceil": lambda a: a,
    "round": lambda a, digits=None: a if digits is None else round_int_to(a, digits),
    "int": lambda a: a, "float": to_float, "to_float": to_float,
    "seconds": ticks_of_seconds,
    "exact_float": exact_float,
}  # fmt: skip
"""Implementations of functions for ints. Some of them also apply to times and durations."""

FLOAT_COLUMNS: dict[str, Callable[..., Operand]] = {
    "+": _finite(np.add), "-": _finite(np.subtract), "*": _finite(np.multiply), "/": divide_float,
    "//": _finite(np.floor_divide), "mod": _finite(np.remainder), "**": power_float, "neg": lambda a: 0.0 - a,
    "abs": np.abs, "min": np.minimum, "max": np.maximum, "sqrt": _finite(np.sqrt), "exp": _finite(np.exp),
    "log": log_float, "log10": _finite(np.log10), "log2": _finite(np.log2), "sin": _finite(np.sin),
    "cos": _finite(np.cos), "tan": _finite(np.tan), "asin": _finite(np.arcsin), "acos": _finite(np.arccos),
    "atan": _finite(np.arctan), "atan2": _finite(np.arctan2), "degrees": _finite(np.degrees),
    "radians": _finite(np.radians), "sign": lambda a: to_int(np.sign(a)), "floor": lambda a: to_int(np.floor(a)),
    "ceil": lambda a: to_int(np.ceil(a)), "float": lambda a: a, "int": lambda a: to_int(np.trunc(a)),
    "round": lambda a, digits=None: to_int(np.rint(a)) if digits is None else round_to(a, digits),
    "seconds": ticks_of_seconds, "pi": lambda: np.float64(np.pi), "exact_int": whole_float, "distance": distance,
}  # fmt: skip

TICK_COLUMNS: dict[str, Callable[..., Operand]] = {
    **{name: INT_COLUMNS[name] for name in ("+", "-", "//", "mod", "neg", "abs", "min", "max", "sign")},
    "*": stretch, "/": shrink, "float": to_seconds, "int": whole_seconds,
}  # fmt: skip
