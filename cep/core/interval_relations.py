"""Relations between two intervals. Each relation is defined once, by bounds. All its other properties follow from these
bounds.

A relation holds between L = [a, b] and R = [c, d] if the differences of their ends lie within bounds. So it is a simple
temporal problem (Dechter, Meiri, Pearl, *Temporal constraint networks*, 1991). Its implications, for instance which
side ends last, are shortest paths. Relations that Allen (1983) named have his names. The interval of a pair is [min(a,
c), max(b, d)].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

A, B, C, D = range(4)
"""The ends of the two intervals: L = [A, B], R = [C, D]."""
UNBOUNDED = 2**62
"""The value of a bound that does not limit anything: more microseconds than the difference of any two times."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound on the distance between two of the ends A, B, C, D: `low <= later - earlier <= high` in microseconds."""

    earlier: int
    later: int
    low: int = -UNBOUNDED
    high: int = UNBOUNDED


def before(earlier: int, later: int) -> Bound:
    """Return the bound that requires one end to be strictly before another. Times are whole microseconds."""
    return Bound(earlier, later, 1)


def at_once(first: int, other: int) -> Bound:
    """Return the bound that requires `first` and `other`, two of the ends A, B, C, D, to be the same instant."""
    return Bound(first, other, 0, 0)


LEFT_INSTANT, RIGHT_INSTANT = at_once(A, B), at_once(C, D)


@dataclass(frozen=True, slots=True)
class IntervalRelation:
    """A named relation between two intervals.

    - `example`: its use in a rule.
    - `of_instant`: the reason why one of the sides cannot be an instant, and what the author probably meant. If it is
      None, both sides can be instants.
    """

    name: str
    bounds: tuple[Bound, ...]
    example: str
    of_instant: tuple[str, str] | None = field(default=None, compare=False)

    def implies(self, fact: Bound, *known: Bound) -> bool:
        """Return True if each pair that satisfies the relation and the bounds `known` also satisfies `fact`.

        Return False if no such pair exists.
        """
        low, high = _spread((*self.bounds, *known), fact.earlier, fact.later)
        return low <= high and fact.low <= low and high <= fact.high

    def possible(self, *known: Bound) -> bool:
        """Return True if a pair exists that satisfies the relation and the bounds `known`."""
        low, high = _spread((*self.bounds, *known), A, A)
        return low <= high

    def misses(self, a: int, b: int, c: int, d: int) -> int | None:
        """Return how far the intervals [a, b] and [c, d] are from satisfying the relation, or None if they satisfy it.

        The result is a sum in microseconds. For each bound of the relation that the intervals violate, it contains the
        distance to this bound. A strict bound counts as an inclusive one.
        """
        ends = (a, b, c, d)
        gaps = [(ends[bound.later] - ends[bound.earlier], bound) for bound in self.bounds]
        if all(bound.low <= gap <= bound.high for gap, bound in gaps):
            return None
        return sum(max(0, (0 if bound.low == 1 else bound.low) - gap, gap - bound.high) for gap, bound in gaps)

    # --- what follows for a goal ---

    @property
    def right_completes(self) -> bool:
        """True if the right side always ends strictly after the left side, so only left sides wait for partners."""
        return self.implies(before(B, D))

    @property
    def completing(self) -> tuple[int, ...]:
        """The sides (0: left, 1: right) that can end last and so complete a match."""
        if self.right_completes:
            return (1,)
        return (0,) if self.implies(before(D, B)) else (0, 1)

    def ends_together(self, *known: Bound) -> bool:
        """Return True if both sides end at the same instant in each pair that satisfies the relation and `known`."""
        return self.implies(at_once(B, D), *known)

    @property
    def right_waits_an_instant(self) -> bool:
        """True if no left side ends after its right side."""
        return self.implies(Bound(B, D, 0))

    @property
    def left_waits_an_instant(self) -> bool:
        """True if no right side ends after its left side."""
        return self.implies(Bound(D, B, 0))

    def meets_again(self, side: int) -> bool:
        """Return True if, in every match, the relation still holds when the match's interval replaces the interval of
        its part on `side` (0: left, 1: right)."""
        start, end = (A, B) if side == 0 else (C, D)
        for first in ((A, C), (C, A)):
            for last in ((B, D), (D, B)):  # the pair starts with first[0] and ends with last[1]
                case = Bound(*first, 0), Bound(*last, 0)
                ends = {start: first[0], end: last[1]}
                again = (
                    Bound(ends.get(b.earlier, b.earlier), ends.get(b.later, b.later), b.low, b.high)
                    for b in self.bounds
                )
                if self.possible(*case) and not all(self.implies(bound, *case) for bound in again):
                    return False
        return True

    @property
    def reach(self) -> int:
        """The longest time from the end of a left side to its partner on the right, if that partner is an instant.
        UNBOUNDED if there is no limit.

        Only valid for relations in which the right side ends last.
        """
        return _spread((*self.bounds, RIGHT_INSTANT), B, D)[1]

    @property
    def gap(self) -> tuple[int, int]:
        """The least and the greatest time from the end of the left side to the start of the right side."""
        return _spread(self.bounds, B, C)

    def instant_if(self, *known: Bound) -> bool:
        """Return True if the interval of each pair that satisfies the relation and the bounds `known` is an instant."""
        return (
            self.implies(at_once(A, B), *known) and self.implies(at_once(B, C), *known) and self.ends_together(*known)
        )


@cache
def _spread(bounds: tuple[Bound, ...], earlier: int, later: int) -> tuple[int, int]:
    """Return the least and the greatest `later - earlier` that all bounds permit. Return (1, 0) if there is none.

    No interval ends before it starts. Source of the algorithm: Floyd, Warshall (1962).
    """
    most = [[0 if i == j else UNBOUNDED for j in range(4)] for i in range(4)]  # most[i][j]: the maximum of j - i
    for bound in (*bounds, Bound(A, B, 0), Bound(C, D, 0)):
        most[bound.earlier][bound.later] = min(most[bound.earlier][bound.later], bound.high)
        most[bound.later][bound.earlier] = min(most[bound.later][bound.earlier], -bound.low)
    for k in range(4):
        for i in range(4):
            for j in range(4):
                most[i][j] = min(most[i][j], most[i][k] + most[k][j])
    if any(most[i][i] < 0 for i in range(4)):
        return 1, 0
    return -most[later][earlier], most[earlier][later]


_LONGER_RIGHT = ("nothing lies inside it", "the longer one stands on the right")
_NEAR = ("overlaps nothing", "`AND` with a WITHIN for what is near, `DURING` for what lies inside")

RELATIONS: Mapping[str, IntervalRelation] = {
    relation.name: relation
    for relation in (
        IntervalRelation("SEQ", (before(B, C),), "smoke(R) SEQ heat(R)"),
        IntervalRelation("AND", (), "smoke(R) AND heat(R)"),
        IntervalRelation(
            "PAR", (before(A, B), before(C, D), before(A, D), before(C, B)), "smoke(R) PAR heat(R)", _NEAR
        ),
        IntervalRelation("EQUALS", (at_once(A, C), at_once(B, D)), "open(R) EQUALS lit(R)"),
        IntervalRelation("MEETS", (at_once(B, C),), "open(R) MEETS shut(R)"),
        IntervalRelation("OVERLAPS", (before(A, C), before(C, B), before(B, D)), "open(R) OVERLAPS lit(R)", _NEAR),
        IntervalRelation("DURING", (before(C, A), before(B, D)), "alarm(R) DURING fire(R)", _LONGER_RIGHT),
        IntervalRelation("STARTS", (at_once(A, C), before(B, D)), "alarm(R) STARTS fire(R)", _LONGER_RIGHT),
        IntervalRelation("FINISHES", (at_once(B, D), before(C, A)), "alarm(R) FINISHES fire(R)", _LONGER_RIGHT),
    )
}


FOLLOWS = next(name for name, relation in RELATIONS.items() if relation.implies(before(B, C)))
"""The name of the relation in which the left side ends before the right side starts."""


def sequence(low: int, high: int) -> IntervalRelation:
    """Return the relation `SEQ[low, high]`: the right side starts `low` to `high` microseconds after the left one ends.

    The right side starts strictly later, even if `low` is 0.
    """
    return IntervalRelation("SEQ", (Bound(B, C, max(low, 1), high),), RELATIONS["SEQ"].example)


def relation_named(name: str, gap: tuple[int, int] | None = None) -> IntervalRelation:
    """Return a relation by its name. `gap`: the bounds of SEQ in microseconds, or None for SEQ without bounds."""
    return RELATIONS[name] if gap is None else sequence(*gap)
