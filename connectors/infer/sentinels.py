"""Detection of sentinels. A sentinel is a number that means "missing", such as `-999` in a column of values near 20."""

from __future__ import annotations

from collections.abc import Sequence

ALWAYS = (-999, -9999, -99999, -999999, -999.9, -9999.9, -999.99, -9999.99, -99.99)
"""Numbers that mean "missing" if all other values of the column are much greater. The difference must be more than half
of the number's absolute value."""
PERHAPS = (-99, -99.9, 99, 999, 9999, 99999, 999999, 999.9, 9999.9)
"""Numbers that mean "missing" if they are far below or far above all other values of the column. The distance must be
greater than the difference between the largest and the smallest of the other values."""


def sentinels(numbers: Sequence[int | float]) -> tuple[int | float, ...]:
    """Return the numbers in a column that mean "missing", in ascending order. Whole numbers are integers."""
    values = sorted(set(numbers))
    markers: list[int | float] = []
    for number in [value for value in values if value in ALWAYS]:
        others = [value for value in values if value != number and value not in ALWAYS]
        if others and number < others[0] - abs(number) / 2:
            markers.append(number)
    rest = [value for value in values if value not in markers]
    for number in [bound for bound in (rest[0], rest[-1]) if bound in PERHAPS] if len(rest) > 2 else []:
        others = [other for other in rest if other != number]
        if min(abs(other - number) for other in others) > others[-1] - others[0]:
            markers.append(number)
            rest = others
    return tuple(int(marker) if marker == int(marker) else marker for marker in sorted(set(markers)))
