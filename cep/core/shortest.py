"""Numbers as text in kernels, in the form of `repr` and JSON. Floats have the shortest digits that read back as the
same float.

The digits of floats are computed by Schubfach (R. Giulietti, "The Schubfach way to render doubles", 2020). It
multiplies a float by the power of ten that leaves the necessary number of digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from cep.core.kernels import Intrinsic, njit

LETTERS = 24
"""The number of letters in the longest number, for example -2.2250738585072014e-308."""
ENDLESS = 0x7FF0000000000000
"""The bits of the infinite float. Greater bits mean NaN."""
UNSIGNED = 2**63 - 1
"""A mask of all bits except the sign."""

_LEAST, _MOST = -292, 324


def _power(ten: int) -> tuple[int, int]:
    """Return the upper and the lower half of the 128 bits of a power of ten. The power is rounded up and shifted so
    that its first bit is set."""
    shift = 127 - (ten * 1741647 >> 19)  # the power's logarithm to base 2, as in the paper
    above, below = 10 ** max(ten, 0) << max(shift, 0), 10 ** max(-ten, 0) << max(-shift, 0)
    upper, lower = divmod(-(-above // below), 2**64)
    return int(upper), int(lower)


_POWERS = np.array([_power(ten) for ten in range(_LEAST, _MOST + 1)], np.uint64)
_TENS = np.array([10**power for power in range(1, 19)], np.uint64)

# Kernels treat an integer as signed unless it is declared unsigned.
_0, _1, _2, _4, _10, _40 = map(np.uint64, (0, 1, 2, 4, 10, 40))
_48, _52, _100 = map(np.uint64, (48, 52, 100))
_FRACTION = np.uint64(2**52 - 1)


def _upper(typing_context: Any, first: Any, other: Any) -> Any:
    """Define the intrinsic that returns the upper 64 bits of a product. numba has no type for the whole product."""
    from llvmlite import ir
    from numba.core import types

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(argument, wide) for argument in arguments))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), code


# Kernels call it as a function with values. The code above receives the types of these values.
upper: Callable[[Any, Any], Any] = cast(Any, Intrinsic(_upper))


@njit(_nrt=False, forceinline=True)
def _to_odd(power, by):  # type: ignore[no-untyped-def]
    """Return `by` times a power of ten, without the last 128 bits of the product. The result is made odd if these bits
    are not zero.

    Powers are rounded up. So the bits count as zero if their upper half is 0 or 1.
    """
    lower = _POWERS[power, 0] * by
    total = lower + upper(_POWERS[power, 1], by)
    carried = _1 if total < lower else _0
    return (upper(_POWERS[power, 0], by) + carried) | (_1 if total > _1 else _0)


@njit(_nrt=False)
def _shortest(bits):  # type: ignore[no-untyped-def]
    """Return the shortest digits of a positive float, and the power of ten by which they must be multiplied.

    The names are those of the paper. All numbers between `low` and `high` read back as the float, and `middle` is
    nearest to it. All three count quarters of the last digit.
    """
    fraction, exponent = np.uint64(bits) & _FRACTION, (bits >> 52) - 1075
    near = fraction == _0 and exponent > -1074  # the next lower float is nearer than the next higher one
    c = fraction | (_1 << _52)
    if exponent == -1075:  # a subnormal float
        c, exponent = fraction, -1074
    if -52 <= exponent <= 0 and c & ((_1 << np.uint64(-exponent)) - _1) == _0:
        return c >> np.uint64(-exponent), 0  # a whole number
    odd = c & _1
    k = (exponent * 1262611 - (524031 if near else 0)) >> 22
    ten = -k - _LEAST
    shift = np.uint64(exponent + ((-k * 1741647) >> 19) + 1)
    low = _to_odd(ten, (_4 * c - (_1 if near else _2)) << shift) + odd
    middle = _to_odd(ten, (_4 * c) << shift)
    high = _to_odd(ten, (_4 * c + _2) << shift) - odd
    digits = middle // _4
    fewer = digits // _10
    below, above = low <= _40 * fewer, _40 * fewer + _40 <= high
    if below != above:
        return fewer + (_1 if above else _0), k + 1
    below, above = low <= _4 * digits, _4 * digits + _4 <= high
    if below != above:
        return digits + (_1 if above else _0), k
    half = _4 * digits + _2
    up = middle > half or (middle == half and digits & _1 == _1)
    return digits + (_1 if up else _0), k


@njit(_nrt=False)
def write_digits(letters, start, number):  # type: ignore[no-untyped-def]
    """Write a number without a sign at the offset `start`. Return the offset after it. No writer in this module writes
    more than LETTERS letters."""
    end = start + 1
    for i in range(len(_TENS)):
        end += number >= _TENS[i]
    place = end
    while number >= _100:
        rest = number // _100
        two = number - _100 * rest
        letters[place - 1], letters[place - 2] = _48 + two % _10, _48 + two // _10
        number = rest
        place -= 2
    letters[place - 1] = _48 + number % _10
    if number >= _10:
        letters[place - 2] = _48 + number // _10
    return end


@njit(_nrt=False)
def write_whole(letters, start, number):  # type: ignore[no-untyped-def]
    """Write a whole number at the offset `start`. Return the offset after it.

    The least int64 is not allowed, because it has no positive counterpart.
    """
    if number < 0:
        letters[start] = 45  # minus
        return write_digits(letters, start + 1, np.uint64(-number))
    return write_digits(letters, start, np.uint64(number))


@njit(_nrt=False)
def write_float(letters, start, bits):  # type: ignore[no-untyped-def]
    """Write a finite float at the offset `start`. `bits`: its bits. Return the offset after it."""
    if bits < 0:
        letters[start] = 45
        start += 1
    size = bits & UNSIGNED
    digits, power = (_0, 0) if size == 0 else _shortest(size)
    while power < 0 and digits % _10 == _0:
        digits //= _10
        power += 1
    end = write_digits(letters, start, digits)
    point = end + power
    if not -3 <= point - start <= 16:
        return _with_exponent(letters, start, end, point - start - 1)
    for i in range(end, point):
        letters[i] = 48
    if power >= 0:
        letters[point], letters[point + 1] = 46, 48  # .0
        return point + 2
    before = max(start, point)  # the digits before the point stay in place
    moved = 1 if point > start else 2 + start - point
    for i in range(end - 1, before - 1, -1):
        letters[i + moved] = letters[i]
    for i in range(before, before + moved):
        letters[i] = 48
    letters[before + (0 if point > start else 1)] = 46
    return end + moved


@njit(_nrt=False)
def _with_exponent(letters, start, end, exponent):  # type: ignore[no-untyped-def]
    """Insert a point after the first of the digits between `start` and `end`, and append an exponent. Return the offset
    after it."""
    while end > start + 1 and letters[end - 1] == 48:
        end -= 1
    if end > start + 1:
        for i in range(end - 1, start, -1):
            letters[i + 1] = letters[i]
        letters[start + 1] = 46
        end += 1
    letters[end], letters[end + 1] = 101, 45 if exponent < 0 else 43  # e, and the sign
    size = np.uint64(abs(exponent))
    if size < _10:
        letters[end + 2] = 48
        return write_digits(letters, end + 3, size)
    return write_digits(letters, end + 2, size)
