"""Arithmetic and comparisons of columns that contain values of several types."""

from __future__ import annotations

from collections.abc import Callable
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

import numpy as np

from cep.core.values import MISSING, STRING, Ints, Pool
from cep.rules.expressions.functions import (
    FLOAT_COLUMNS,
    INT_COLUMNS,
    Operand,
    absent,
    finite,
    round_to,
    ticks_of_seconds,
    to_float,
    to_int,
)


class Mixed(NamedTuple):
    """A column of type `any`, split by the types of its values.

    - `integer`: the values that are ints. In all other rows, MISSING.
    - `number`: the values that are numbers, as floats. In all other rows, NaN.
    - `code`: the codes of all values in the pool. It is None if all values are numbers that arithmetic has calculated.
    """

    integer: Operand
    number: Operand
    code: Operand | None


def opened(codes: Operand, pool: Pool) -> Mixed:
    return Mixed(pool.integers(codes), pool.numbers(codes), codes)


def from_typed(column: Operand, type: str, pool: Pool) -> Mixed:
    """Convert a column of the type `type` to a `Mixed` column. Times and durations become numbers of seconds."""
    if type in ("string", "iri"):
        return Mixed(np.int64(MISSING), np.float64(np.nan), column)
    if type == "bool":
        return Mixed(np.int64(MISSING), np.float64(np.nan), pool.encode_bools(column))
    if type == "int":
        return Mixed(column, to_float(column), None)
    if type == "float":
        return _number(column)
    whole = np.where(np.remainder(column, 1_000_000) == 0, np.floor_divide(column, 1_000_000), MISSING)
    whole = np.where(absent(column), MISSING, whole)
    return Mixed(whole, np.where(absent(whole), to_float(column) / 1e6, to_float(whole)), None)


def _number(column: Operand) -> Mixed:
    whole = np.where(np.trunc(column) == column, to_int(column), MISSING)
    return Mixed(whole, column, None)


def boxed(mixed: Mixed, pool: Pool) -> Ints:
    """Return the pool's codes for the values of a mixed column."""
    if mixed.code is not None:
        return mixed.code  # type: ignore[no-any-return]
    whole = np.atleast_1d(mixed.integer)
    codes = pool.encode_ints(whole)
    rest = np.flatnonzero(absent(whole) & ~np.isnan(mixed.number))
    if len(rest):
        codes[rest] = pool.encode_floats(np.atleast_1d(mixed.number)[rest])
    return codes if np.ndim(mixed.integer) else codes[0]


def arithmetic(function: str) -> Callable[..., Mixed]:
    """Return the implementation of one of `+ - * // mod neg abs min max` for whole columns.

    The result for ints is an int, and the result for other numbers is a float. It is missing if a value is not a
    number. `min` and `max` return one of their arguments unchanged.
    """
    if function in ("min", "max"):
        return extreme("<=" if function == "min" else ">=")
    of_ints, of_floats = INT_COLUMNS[function], FLOAT_COLUMNS[function]

    def apply(*columns: Mixed) -> Mixed:
        ints = of_ints(*(column.integer for column in columns))
        whole = ~absent(columns[0].integer)
        for column in columns[1:]:
            whole = whole & ~absent(column.integer)
        floats = _number(of_floats(*(column.number for column in columns)))
        return Mixed(np.where(whole, ints, floats.integer), np.where(whole, to_float(ints), floats.number), None)

    return apply


def extreme(order: str) -> Callable[[Mixed, Mixed], Mixed]:
    """Return the implementation of `min` for two mixed columns if `order` is `<=`, or of `max` if `order` is `>=`."""

    def apply(a: Mixed, b: Mixed) -> Mixed:
        first = in_order(order, a, b)
        present = ~np.isnan(a.number) & ~np.isnan(b.number)
        integer = np.where(present, np.where(first, a.integer, b.integer), MISSING)
        return Mixed(integer, np.where(present, np.where(first, a.number, b.number), np.nan), None)

    return apply


def power(column: Mixed, exponent: Operand) -> Mixed:
    """Raise values to a power. `exponent`: a whole number that is not negative."""
    ints = INT_COLUMNS["**"](column.integer, exponent)
    floats = _number(FLOAT_COLUMNS["**"](column.number, np.float64(exponent)))
    whole = ~absent(column.integer)
    return Mixed(np.where(whole, ints, floats.integer), np.where(whole, to_float(ints), floats.number), None)


def rounded(column: Mixed, digits: Operand) -> Mixed:
    ints = INT_COLUMNS["round"](column.integer, digits)
    floats = _number(round_to(column.number, digits))
    whole = ~absent(column.integer)
    return Mixed(np.where(whole, ints, floats.integer), np.where(whole, to_float(ints), floats.number), None)


def by_kind(function: str) -> Callable[[Mixed], Operand]:
    """Return the implementation of one of `floor ceil round sign` for whole columns. All results are ints."""
    of_int, of_float = INT_COLUMNS[function], FLOAT_COLUMNS[function]
    return lambda column: np.where(absent(column.integer), of_float(column.number), of_int(column.integer))


def to_ticks(column: Mixed) -> Operand:
    """Convert seconds to microseconds."""
    return np.where(absent(column.integer), ticks_of_seconds(finite(column.number)), ticks_of_seconds(column.integer))


def present(column: Mixed) -> Operand:
    is_present = ~np.isnan(column.number)
    return is_present if column.code is None else is_present | ~absent(column.code)


def compare(operator: str, a: Mixed, b: Mixed, pool: Pool) -> Operand:
    """Return a mask of the rows in which a comparison holds.

    Values of different types are unequal, and neither is less than the other.
    """
    if operator in ("=", "!="):
        if a.code is not None and b.code is not None:
            same = np.equal(a.code, b.code)
        else:
            whole = ~absent(a.integer) | ~absent(b.integer)
            same = np.where(whole, np.equal(a.integer, b.integer), np.equal(a.number, b.number))
        return (same if operator == "=" else ~same) & present(a) & present(b)
    holds = in_order(operator, a, b)
    if a.code is not None and b.code is not None:
        rows = (pool.kinds(a.code) == STRING) & (pool.kinds(b.code) == STRING)
        if rows.any():
            left, right = (np.broadcast_to(side, rows.shape)[rows] for side in (a.code, b.code))
            holds[rows] = compare_texts(operator, left, right, pool)
    return holds


def in_order(operator: str, a: Mixed, b: Mixed) -> Operand:
    """Return a mask of the rows in which both values are numbers and satisfy the comparison `operator`. The comparison
    of an int with a float is exact."""
    left, other = ~absent(a.integer), ~absent(b.integer)
    holds: Operand = np.where(
        left & other, ORDERS[operator](a.integer, b.integer), ORDERS[operator](a.number, b.number)
    )
    # An int that is rounded to a float may seem equal to a float beyond 64 bits.
    beyond = np.asarray((left != other) & np.equal(a.number, b.number))
    if beyond.any():
        above = np.where(left, -1.0, 1.0) * np.sign(a.number)  # a positive float beyond 64 bits is the greater value
        holds = np.where(beyond, ORDERS[operator](above, 0.0), holds)
    return holds


ORDERS: dict[str, Callable[[Operand, Operand], Operand]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def compare_texts(operator: str, a: Ints, b: Ints, pool: Pool) -> Operand:
    """Compare texts by `<`, `<=`, `>` or `>=`, in the order of Unicode code points. `a`, `b`: their codes."""
    left, right = pool.decode(np.atleast_1d(a), "string"), pool.decode(np.atleast_1d(b), "string")
    return ORDERS_OF_TEXTS[operator](left, right).fill_null(False).to_numpy()


ORDERS_OF_TEXTS: dict[str, Callable[[Any, Any], Any]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


def compare_int_float(operator: str, a: Ints, b: Operand) -> Operand:
    """Compare ints with floats exactly. The result is False for missing values."""
    rounded = to_float(a)
    result = np.asarray(COMPARISONS_OF_FLOATS[operator](rounded, b))
    close = np.asarray(np.equal(rounded, b) & (np.abs(rounded) >= 2.0**53))
    if close.any():  # rounding the int may hide a difference
        ints, floats = np.broadcast_to(a, close.shape)[close], np.broadcast_to(b, close.shape)[close]
        beyond = floats >= 2.0**63
        exact = np.where(beyond, 0.0, floats).astype(np.int64)
        order = np.where(beyond, -1, np.sign((ints > exact) * 1 - (ints < exact) * 1))
        result = np.array(np.broadcast_to(result, close.shape))
        result[close] = COMPARISONS_OF_FLOATS[operator](order.astype(np.float64), 0.0)
    return result


COMPARISONS_OF_FLOATS: dict[str, Callable[[Operand, Operand], Operand]] = {
    **ORDERS,
    "=": np.equal,
    "!=": lambda a, b: np.not_equal(a, b) & np.equal(a, a) & np.equal(b, b),
}
