"""The temporal operators of formulas. Each operator is one row of a table, from which all its properties follow.

The operators are those of metric temporal logic (Koymans, *Specifying real-time properties with metric temporal logic*,
1990) in the form of DatalogMTL (Brandt et al., *Querying log data with metric temporal logic*, 2018). Each uses one of
five kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

DILATE, ERODE, LAST, SINCE, UNTIL = range(5)
"""The kernels of operators on intervals.

DILATE extends intervals by the operator's range of displacements, and ERODE shrinks them. LAST selects intervals by
length. SINCE and UNTIL combine two sets: SINCE looks back in time, UNTIL ahead.
"""


class Place(Enum):
    """The positions that an operator can have relative to its operands."""

    BEFORE = "before one formula, with how far it reaches"
    BETWEEN = "between two, with how far it reaches"
    BEHIND = "behind one, with the least length"


@dataclass(frozen=True, slots=True)
class TemporalOperator:
    """A temporal operator.

    - `kernel`: the number of its algorithm.
    - `ahead`: True if it looks ahead in time.
    - `mirror`: the operator for the other direction of time.
    - `of_head`: if this operator is in the head of a rule, the rule is rewritten with the operator `of_head` in its
      formula. If it is None, a head cannot have this operator.
    - `example`: its use in a rule.
    """

    word: str
    place: Place
    kernel: int
    example: str
    ahead: bool = False
    mirror: str | None = None
    of_head: str | None = None

    @property
    def inputs(self) -> int:
        """The number of operands."""
        return 2 if self.place is Place.BETWEEN else 1

    @property
    def throughout(self) -> bool:
        """True if a tuple of the operand must hold at several times. The operand must then keep all its variables."""
        return self.kernel in (ERODE, LAST)

    @property
    def keeps(self) -> bool:
        """True if a tuple still satisfies the operator for some time after the tuple's end."""
        return self.kernel == DILATE and not self.ahead

    def same_way(self, kernel: int) -> TemporalOperator:
        """Return the operator that has one operand, uses `kernel`, and looks in the same direction as this one."""
        return next(
            operator
            for operator in TEMPORAL.values()
            if operator.kernel == kernel and operator.ahead == self.ahead and operator.place is Place.BEFORE
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
TEMPORAL: Mapping[str, TemporalOperator] = {operator.word: operator for operator in _ROWS}


def words(place: Place) -> tuple[str, ...]:
    """Return the words of all operators that have this position."""
    return tuple(operator.word for operator in _ROWS if operator.place is place)
