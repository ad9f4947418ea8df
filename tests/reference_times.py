"""The operators of metric time by brute force, following only `docs/fluents.md`.

Times are codes: 2t is the microsecond t, 2t + 1 the time between it and the next one. All ends are whole microseconds.
So a fact that holds somewhere between two of them holds everywhere between them, and one time in the middle represents
all. Displacements are tried in quarters of microseconds; the code c is the quarter 2c.

Everything between `first` and `last` of a frame is examined. Outside, facts are the same as at its ends. So a frame
must be as wide as the input and all ranges of operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

Codes = frozenset[int]


@dataclass(frozen=True)
class Reach:
    """`<low, high>`; `high` None: infinite."""

    low: int
    high: int | None
    bounds: str


@dataclass(frozen=True)
class Frame:
    first: int
    last: int

    @property
    def codes(self) -> range:
        return range(self.first, self.last + 1)

    @property
    def far(self) -> int:
        """Quarters from anywhere in it to outside."""
        return 2 * (self.last - self.first + 4)

    def inside(self, code: int) -> int:
        """The code of the frame that says what holds at one."""
        return min(max(code, self.first), self.last)


def _code(quarter: int) -> int:
    return 2 * (quarter // 4) + (quarter % 4 > 0)


@cache
def _gaps(reach: Reach, far: int) -> tuple[int, ...]:
    """The displacements of a reach, in quarters; one without end goes that far."""
    high = far if reach.high is None else 4 * reach.high
    opened, closed = reach.bounds
    return tuple(
        gap
        for gap in range(4 * reach.low, high + 1)
        if (gap > 4 * reach.low or opened == "[") and (gap < high or reach.high is None or closed == "]")
    )


@cache
def _places(reach: Reach, ahead: bool, odd: int, far: int) -> tuple[int, ...]:
    """What lies in the reach of a code: differences of codes."""
    sign = 1 if ahead else -1
    return tuple(sorted({_code(2 * odd + sign * gap) - odd for gap in _gaps(reach, far)}))


def some(codes: Codes, reach: Reach, ahead: bool, frame: Frame) -> Codes:
    return frozenset(
        code
        for code in frame.codes
        if any(frame.inside(code + place) in codes for place in _places(reach, ahead, code % 2, frame.far))
    )


def every(codes: Codes, reach: Reach, ahead: bool, frame: Frame) -> Codes:
    return frozenset(
        code
        for code in frame.codes
        if all(frame.inside(code + place) in codes for place in _places(reach, ahead, code % 2, frame.far))
    )


def since(left: Codes, right: Codes, reach: Reach, ahead: bool, frame: Frame) -> Codes:
    gaps = _gaps(reach, frame.far)

    def holds(code: int) -> bool:
        at = 2 * code
        for gap in range(gaps[-1] + 1):
            place = at + gap if ahead else at - gap
            if gap:  # the time from the last place to this one lies in a gap
                lower = place - 1 if ahead else place
                if frame.inside(2 * (lower // 4) + 1) not in left:
                    return False
            if gaps[0] <= gap and frame.inside(_code(place)) in right:
                return True
            if gap and frame.inside(_code(place)) not in left:
                return False
        return False

    return frozenset(code for code in frame.codes if holds(code))


def stretches(codes: Codes) -> list[tuple[int, int]]:
    """The maximal intervals, as first and last codes."""
    return [
        (code, next(last for last in range(code, max(codes) + 1) if last + 1 not in codes))
        for code in sorted(codes)
        if code - 1 not in codes
    ]


def lasting(codes: Codes, least: int, strictly: bool, frame: Frame) -> Codes:
    found: set[int] = set()
    for first, last in stretches(codes):
        length = (last + last % 2 - (first - first % 2)) // 2
        endless = first == frame.first or last == frame.last
        if endless or length > least or (length == least and not strictly):
            found.update(range(first, last + 1))
    return frozenset(found)
