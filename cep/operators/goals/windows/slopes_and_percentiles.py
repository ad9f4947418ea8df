"""Partial results of six words, for aggregates that depend on the times of values (slopes, rates and exponentially
weighted means) or on their order (medians, percentiles and modes).

For all other aggregates, this module calls the functions of `partial_aggregates`, which use three of the words. The
sums of a slope are combined as Chan, Golub and LeVeque (1983) combine those of a variance, with times relative to a
time in the window. Weighted means are weighted relative to the youngest value. Medians, percentiles and modes are read
from an `ordered_multiset`.
"""

from __future__ import annotations

import math

import numpy as np

from cep.operators.goals.intrinsics import as_bits, as_float, bare, inside
from cep.operators.goals.keys import NAN
from cep.operators.goals.store import sortable
from cep.operators.goals.windows import ordered_multiset, partial_aggregates
from cep.operators.goals.windows.partial_aggregates import combine, outcome

# These follow the kinds of `partial_aggregates`. MODE is for values that are not floats.
RATE, SLOPE, EWMA, PERCENTILE, MEDIAN, MODE, MODE_FLOAT = range(15, 22)

WORDS = 6
SECOND = 1e6


@inside
def sorts(kind):  # type: ignore[no-untyped-def]
    """Return True if a function needs sorted values, which are stored in a tree."""
    return kind >= PERCENTILE or kind == partial_aggregates.DISTINCT


@inside
def single(kind, value, end, into, row, offset):  # type: ignore[no-untyped-def]
    """Write the partial result of a single value: its count, then words that depend on the function."""
    into[row, offset] = partial_aggregates.lift(kind, value)
    into[row, offset + 1] = value
    for word in range(2, WORDS):
        into[row, offset + word] = 0
    if kind == RATE:  # first value and time, last value and time
        into[row, offset + 2] = end
        into[row, offset + 3] = value
        into[row, offset + 4] = end
    elif kind == SLOPE:  # a time, mean of times relative to it, mean of values, squares of times, products
        into[row, offset + 1] = end
        into[row, offset + 3] = value
    elif kind == EWMA:  # a time, sum of weights relative to it, weighted sum
        into[row, offset + 1] = end
        into[row, offset + 2] = as_bits(1.0)
        into[row, offset + 3] = value


@inside
def join(kind, parameter, older, i, x, younger, j, y, into, row, offset):  # type: ignore[no-untyped-def]
    """Combine an older and a younger partial result. The result may overwrite either of them."""
    n, m = older[i, x], younger[j, y]
    if m == 0:
        for word in range(WORDS):
            into[row, offset + word] = older[i, x + word]
        return
    if n == 0:
        for word in range(WORDS):
            into[row, offset + word] = younger[j, y + word]
        return
    if kind < RATE:
        n, a, b = combine(kind, n, older[i, x + 1], older[i, x + 2], m, younger[j, y + 1], younger[j, y + 2])
        into[row, offset] = n
        into[row, offset + 1] = a
        into[row, offset + 2] = b
    elif kind == RATE:
        first, since, last, until = older[i, x + 1], older[i, x + 2], younger[j, y + 3], younger[j, y + 4]
        into[row, offset] = n + m
        into[row, offset + 1] = first
        into[row, offset + 2] = since
        into[row, offset + 3] = last
        into[row, offset + 4] = until
    elif kind == SLOPE:
        origin = older[i, x + 1]
        time, value = as_float(older[i, x + 2]), as_float(older[i, x + 3])
        d = as_float(younger[j, y + 2]) + (younger[j, y + 1] - origin) / SECOND - time
        e = as_float(younger[j, y + 3]) - value
        share = m / (n + m)
        squares = as_float(older[i, x + 4]) + as_float(younger[j, y + 4]) + d * d * n * share
        products = as_float(older[i, x + 5]) + as_float(younger[j, y + 5]) + d * e * n * share
        into[row, offset] = n + m
        into[row, offset + 1] = origin
        into[row, offset + 2] = as_bits(time + d * share)
        into[row, offset + 3] = as_bits(value + e * share)
        into[row, offset + 4] = as_bits(squares)
        into[row, offset + 5] = as_bits(products)
    else:
        now = younger[j, y + 1]
        fading = 2.0 ** (-((now - older[i, x + 1]) / parameter))
        weights = as_float(older[i, x + 2]) * fading + as_float(younger[j, y + 2])
        summed = as_float(older[i, x + 3]) * fading + as_float(younger[j, y + 3])
        into[row, offset] = n + m
        into[row, offset + 1] = now
        into[row, offset + 2] = as_bits(weights)
        into[row, offset + 3] = as_bits(summed)


@inside
def finite(value):  # type: ignore[no-untyped-def]
    """Return the bits of a number, or NAN if the number is not finite."""
    return as_bits(value + 0.0) if math.isfinite(value) else NAN


@bare
def worth(kind, parameter, cells, row, offset):  # type: ignore[no-untyped-def]
    """Return the bits of the value that a partial result stands for."""
    n = cells[row, offset]
    if kind < RATE:
        return outcome(kind, n, cells[row, offset + 1], cells[row, offset + 2])
    if kind == RATE:
        if n == 0 or cells[row, offset + 4] == cells[row, offset + 2]:
            return NAN
        seconds = (cells[row, offset + 4] - cells[row, offset + 2]) / SECOND
        return finite((as_float(cells[row, offset + 3]) - as_float(cells[row, offset + 1])) / seconds)
    if kind == SLOPE:
        squares = as_float(cells[row, offset + 4])
        if n < 2 or not squares > 0.0:
            return NAN
        return finite(as_float(cells[row, offset + 5]) / squares)
    if n == 0:
        return NAN
    return finite(as_float(cells[row, offset + 3]) / as_float(cells[row, offset + 2]))


@inside
def between(low, high, share):  # type: ignore[no-untyped-def]
    """Interpolate linearly between two numbers, exactly as numpy does."""
    way = high - low
    if not math.isfinite(way):
        return low * (1.0 - share) + high * share
    return high - way * (1.0 - share) if share >= 0.5 else low + way * share


@bare
def of_order(kind, parameter, nodes, root, count):  # type: ignore[no-untyped-def]
    """Return the bits of a percentile of the values in a tree. `count`: the number of values."""
    if root < 0:
        return NAN
    last = count - 1
    place = last * 0.5 if kind == MEDIAN else last * (parameter / 100.0)
    rank = min(last, np.int64(math.floor(place)))
    share = place - rank
    key, after = ordered_multiset.of_rank(nodes, root, rank)
    low = as_float(sortable(key, 1))
    if share <= 0.0 or rank == last:
        return finite(low)
    high = as_float(sortable(after, 1))
    if kind == MEDIAN:
        return finite(low / 2.0 + high / 2.0 if not math.isfinite(low + high) else (low + high) / 2.0)
    return finite(between(low, high, share))
