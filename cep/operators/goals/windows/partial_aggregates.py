"""Partial results of aggregate functions. Values or other partial results are added to them, the oldest first.

A partial result is three words (n, x, y): the number of its values, and two words that depend on the function. Floats
are summed with their rounding errors (two-sum), variances are combined as in Chan, Golub and LeVeque (1983).
"""

from __future__ import annotations

import math

import numpy as np

from cep.core.kernels import njit
from cep.operators.goals.intrinsics import as_bits, as_float
from cep.operators.goals.keys import MISSING, NAN
from cep.operators.goals.store import sortable

(
    COUNT,
    COUNT_VALUES,
    SUM_INT,
    SUM_FLOAT,
    AVG,
    MIN_INT,
    MIN_FLOAT,
    MAX_INT,
    MAX_FLOAT,
    STDDEV,
    FIRST_VALUE,
    LAST_VALUE,
) = range(12)
DISTINCT, FIRST_FLOAT, LAST_FLOAT = 12, 13, 14

EXACT_ROWS = 2**20
"""The number of values from which on a sum of floats may be inexact (see `exact`)."""


@njit(inline="always")
def lift(kind, value):  # type: ignore[no-untyped-def]
    """Return the count in the partial result of a single value: 0 if the value is missing, and 1 otherwise."""
    return 0 if kind != COUNT and (value == MISSING or value == NAN) else 1


@njit(inline="always")
def exact(number):  # type: ignore[no-untyped-def]
    """Return True if a sum of fewer than EXACT_ROWS numbers like this one is exact.

    The numbers are 0 and the floats from 2**-10 to below 2**22. They are multiples of 2**-62. So their sum, together
    with its rounding error, needs 106 bits. The sum is exact in any order, also after subtractions.
    """
    size = abs(number)
    return size == 0.0 or 0.0009765625 <= size < 4194304.0


@njit(inline="always")
def around(x, u):  # type: ignore[no-untyped-def]
    """Return the sum of two integers modulo 2**64.

    It is computed with unsigned integers, because the compiler assumes that signed sums do not overflow.
    """
    return np.int64(np.uint64(x) + np.uint64(u))


@njit(inline="always")
def add_floats(x, y, u, v):  # type: ignore[no-untyped-def]
    """Add two sums of floats, each with its rounding error. All numbers are bits."""
    a = as_float(x)
    b = as_float(u)
    s = a + b
    t = s - a
    low = (a - (s - t)) + (b - t) + as_float(y) + as_float(v)
    high = s + low
    return as_bits(high), as_bits(low - (high - s))


@njit()
def combine(kind, n, x, y, m, u, v):  # type: ignore[no-untyped-def]
    """Combine two partial results: the older one (n, x, y) and the younger one (m, u, v)."""
    if m == 0:
        return n, x, y
    if n == 0:
        return m, u, v
    total = n + m
    if kind == SUM_INT:
        # y counts how often the sum overflowed 64 bits, because it may return into the range.
        s = around(x, u)
        round_trip = 0
        if ((x ^ s) & (u ^ s)) < 0:
            round_trip = 1 if x > 0 else -1
        return total, s, y + v + round_trip
    if kind == SUM_FLOAT or kind == AVG:
        x, y = add_floats(x, y, u, v)
        return total, x, y
    if kind == STDDEV:
        d = as_float(u) - as_float(x)
        mean = as_float(x) + d * (m / total)
        return total, as_bits(mean), as_bits(as_float(y) + as_float(v) + d * d * (n / total) * m)
    if kind == MIN_INT:
        return total, min(x, u), 0
    if kind == MAX_INT:
        return total, max(x, u), 0
    if kind == MIN_FLOAT:
        return total, (x if sortable(x, 1) <= sortable(u, 1) else u), 0
    if kind == MAX_FLOAT:
        return total, (x if sortable(x, 1) > sortable(u, 1) else u), 0
    if kind == FIRST_VALUE or kind == FIRST_FLOAT:
        return total, x, 0
    return total, u, 0


@njit()
def outcome(kind, n, x, y):  # type: ignore[no-untyped-def]
    """Return the bits of the value that a partial result stands for."""
    if kind == COUNT or kind == COUNT_VALUES or kind == DISTINCT:
        return n
    summed = kind == SUM_FLOAT or kind == AVG or kind == STDDEV
    if n == 0 or (kind == STDDEV and n < 2):
        floating = summed or kind == MIN_FLOAT or kind == MAX_FLOAT or kind == FIRST_FLOAT or kind == LAST_FLOAT
        return NAN if floating else MISSING
    if kind == SUM_INT:
        return MISSING if y != 0 else x
    if summed:
        if kind == STDDEV:
            value = math.sqrt(as_float(y) / (n - 1))
        else:
            value = as_float(x) + as_float(y)
            if kind == AVG:
                value = value / n
        return as_bits(value + 0.0) if math.isfinite(value) else NAN
    return x
