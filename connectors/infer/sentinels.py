"""Numbers that stand for a missing value, such as `-999` far from all other values."""

from __future__ import annotations

from collections.abc import Sequence

ALWAYS = (-999, -9999, -99999, -999999, -999.9, -9999.9, -999.99, -9999.99, -99.99)
"""Numbers that almost certainly mean "missing" if no other value is near them."""
PERHAPS = (-99, -99.9, 99, 999, 9999, 99999, 999999, 999.9, 9999.9)
"""Numbers that mean "missing" if their distance from the other values exceeds the spread of these."""


def sentinels(numbers: Sequence[int | float]) -> tuple[int | float, ...]:
    """Return the sentinel values of a column in ascending order, whole numbers as integers."""
    values = sorted(set(numbers))
    found: list[int | float] = []
    for one in [each for each in values if each in ALWAYS]:
        others = [each for each in values if each != one and each not in ALWAYS]
        if others and one < others[0] - abs(one) / 2:
            found.append(one)
    rest = [each for each in values if each not in found]
    for one in [each for each in (rest[0], rest[-1]) if each in PERHAPS] if len(rest) > 2 else []:
        others = [each for each in rest if each != one]
        if min(abs(each - one) for each in others) > others[-1] - others[0]:
            found.append(one)
            rest = others
    return tuple(int(one) if one == int(one) else one for one in sorted(set(found)))
