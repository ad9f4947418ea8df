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

LETTERS = 32
"""The number of letters that a writer may overwrite. The longest number has 24, for example -2.2250738585072014e-308.
Its last digits are written with the whole word that contains them."""
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
_0, _1, _2, _4, _8, _10, _16, _19, _32, _40 = map(np.uint64, (0, 1, 2, 4, 8, 10, 16, 19, 32, 40))
_52, _100, _103, _5243, _10000, _EIGHT = map(np.uint64, (52, 100, 103, 5243, 10000, 10**8))
_BY_100, _BY_10, _ZEROS, _POINT = map(np.uint64, (0x7F0000007F, 0xF000F000F000F, 0x3030303030303030, 0x1E00))
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


def _written_word(typing_context: Any, letters: Any, place: Any, word: Any) -> Any:
    """Define the intrinsic that writes the eight bytes of a word at an offset, the lowest byte first."""
    from llvmlite import ir
    from numba.core import types
    from numba.np import arrayobj

    make_array: Any = arrayobj.make_array

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = make_array(signature.args[0])(context, builder, arguments[0]).data
        target = builder.bitcast(builder.gep(first, [arguments[1]]), ir.IntType(64).as_pointer())
        builder.store(arguments[2], target, align=1)
        return context.get_dummy_value()

    return types.void(letters, types.int64, types.uint64), code


write_word: Callable[[Any, Any, Any], None] = cast(Any, Intrinsic(_written_word))


@njit(_nrt=False, forceinline=True)
def _eight(number):  # type: ignore[no-untyped-def]
    """Return the eight digits of a number below 10 ** 8 as a word of letters, the first digit in the lowest byte.

    Each step divides all parts of the word at once: into two parts of four digits, four of two, and eight of one.
    """
    upper_half = number // _10000
    parts = upper_half | (number - _10000 * upper_half) << _32
    tens = ((parts * _5243) >> _19) & _BY_100  # 5243 / 2 ** 19 is nearly 1 / 100
    parts = tens | (parts - _100 * tens) << _16
    tens = ((parts * _103) >> _10) & _BY_10
    return tens | (parts - _10 * tens) << _8 | _ZEROS


@njit(_nrt=False, forceinline=True)
def _length(number):  # type: ignore[no-untyped-def]
    length = 1
    for i in range(len(_TENS)):
        length += number >= _TENS[i]
    return length


@njit(_nrt=False, forceinline=True)
def _first(letters, start, number, length):  # type: ignore[no-untyped-def]
    write_word(letters, start, _eight(number) >> np.uint64(64 - 8 * length))


@njit(_nrt=False)
def write_digits(letters, start, number, length):  # type: ignore[no-untyped-def]
    """Write a number without a sign at the offset `start`. `length`: the number of its digits. Return the offset after
    it. Letters after the number may get any value."""
    end = start + length
    if number < _EIGHT:
        _first(letters, start, number, length)
        return end
    rest = number // _EIGHT
    if rest < _EIGHT:
        _first(letters, start, rest, length - 8)
    else:
        beginning = rest // _EIGHT
        _first(letters, start, beginning, length - 16)
        write_word(letters, end - 16, _eight(rest - _EIGHT * beginning))
    write_word(letters, end - 8, _eight(number - _EIGHT * rest))
    return end


@njit(_nrt=False)
def write_whole(letters, start, number):  # type: ignore[no-untyped-def]
    """Write a whole number at the offset `start`. Return the offset after it.

    The least int64 is not allowed, because it has no positive counterpart.
    """
    letters[start] = 45  # minus
    size = np.uint64(abs(number))
    return write_digits(letters, start + (number < 0), size, _length(size))


@njit(_nrt=False)
def write_float(letters, start, bits):  # type: ignore[no-untyped-def]
    """Write a finite float at the offset `start`. `bits`: its bits. Return the offset after it."""
    letters[start] = 45
    start += bits < 0
    size = bits & UNSIGNED
    digits, power = (_0, 0) if size == 0 else _shortest(size)
    while power < 0 and digits % _10 == _0:
        digits //= _10
        power += 1
    length = _length(digits)
    point = length + power  # how many digits are before the point
    if not -3 <= point <= 16:
        return _with_exponent(letters, start, write_digits(letters, start, digits, length), point - 1)
    if point <= 0:
        write_word(letters, start, _ZEROS ^ _POINT)
        return write_digits(letters, start + 2 - point, digits, length)
    if power < 0:
        end = write_digits(letters, start + 1, digits, length)
        for i in range(start, start + point):
            letters[i] = letters[i + 1]
        letters[start + point] = 46
        return end
    end = write_digits(letters, start, digits, length)
    for i in range(end, end + power):
        letters[i] = 48
    end += power
    letters[end], letters[end + 1] = 46, 48  # .0
    return end + 2


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
    return write_digits(letters, end + 2, size, max(2, _length(size)))
