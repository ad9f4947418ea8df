"""Temporal operators of formulas, each written down once; whatever else is known of one follows from here.

They are those of metric temporal logic (Koymans, *Specifying real-time properties with metric temporal logic*, 1990)
as DatalogMTL has them (Brandt et al., *Querying log data with metric temporal logic*, 2018). The kernel does one of
five things, so an operator that does one of them is a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

DILATE, ERODE, LAST, SINCE, UNTIL = range(5)
"""Kernels of operators on intervals: extend by the reach; shrink by the reach; keep those of a length; combine two,
looking back; combine two, looking ahead."""


class Place(Enum):
    """The position of an operator."""

    BEFORE = "before one formula, with how far it reaches"
    BETWEEN = "between two, with how far it reaches"
    BEHIND = "behind one, with the least length"


@dataclass(frozen=True, slots=True)
class TemporalOperator:
    """An operator by its word. `kernel`: what it does; `ahead`: whether it looks ahead; `mirror`: what looks the other
    way as far; `of_head`: what it makes of the formula where a head carries it, None: no head does. `example`: how it
    is used."""

    word: str
    place: Place
    kernel: int
    example: str
    ahead: bool = False
    mirror: str | None = None
    of_head: str | None = None

    @property
    def inputs(self) -> int:
        """The number of its operands."""
        return 2 if self.place is Place.BETWEEN else 1

    @property
    def throughout(self) -> bool:
        """True if it compares one value at several times, so that values must be distinguished."""
        return self.kernel in (ERODE, LAST)

    @property
    def keeps(self) -> bool:
        """True if a tuple that has held still counts for as long as the operator reaches back."""
        return self.kernel == DILATE and not self.ahead

    def same_way(self, kernel: int) -> TemporalOperator:
        """The operator over one formula that does this and looks the same way."""
        return next(
            each
            for each in TEMPORAL.values()
            if each.kernel == kernel and each.ahead == self.ahead and each.place is Place.BEFORE
        )


_ROWS = (
    TemporalOperator("ONCE", Place.BEFORE, DILATE, "ONCE[0, 10 min] signal(V)", mirror="EVENTUALLY"),
    TemporalOperator(
        "HISTORICALLY",
        Place.BEFORE,
        ERODE,
        "HISTORICALLY[0, 10 min] slow(V)",
        mirror="ALWAYS",
        of_head="EVENTUALLY",
    ),
    TemporalOperator("SINCE", Place.BETWEEN, SINCE, "slow(V) SINCE[0, 1 h] alarm(V)", mirror="UNTIL"),
    TemporalOperator("EVENTUALLY", Place.BEFORE, DILATE, "EVENTUALLY[0, 10 min] alarm(V)", True, "ONCE"),
    TemporalOperator("ALWAYS", Place.BEFORE, ERODE, "ALWAYS[0, 10 min] slow(V)", True, "HISTORICALLY", "ONCE"),
    TemporalOperator("UNTIL", Place.BETWEEN, UNTIL, "slow(V) UNTIL[0, 1 h] alarm(V)", True, "SINCE"),
    TemporalOperator("LASTING", Place.BEHIND, LAST, "slow(V) LASTING >= 10 min"),
)
TEMPORAL: Mapping[str, TemporalOperator] = {each.word: each for each in _ROWS}


def words(place: Place) -> tuple[str, ...]:
    """The operators that stand there."""
    return tuple(each.word for each in _ROWS if each.place is place)
