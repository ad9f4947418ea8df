"""Explain why a formula does not hold at a time: the parts that are not met, down to fluents and events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from cep.core.interval_sets import INFINITE, subtract
from cep.explain.formulas import FormulaExtent, FormulaReader, When, set_of, shown, when_of
from cep.explain.judging import BoundValues, Judge, Judged, TypedValue
from cep.explain.nodes import Turn
from cep.explain.occurrences import Memory, Occurrence
from cep.plan.pattern import Pattern
from cep.rules.terms import AggregateResult, Condition

if TYPE_CHECKING:
    from cep.explain.refusal import Refusal

NEAREST = 2
"""The number of intervals of a formula that are reported, those closest to the time."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A part of a formula that is not met at `at` (a code of time of `cep.core.interval_sets`), by its `kind`:

    - missing: the fluent or event `pattern` is absent. `before` and `after` are the closest ones, `ended` is the reason
      of the last end, and `because` contains the reasons why rules did not begin or derive it.
    - held: it holds over `when`, but must not.
    - condition: the conditions `judged` are false.
    - never: it holds at no time from `since` to `until` (codes). `when` contains the closest intervals.
    - not always: it must hold at all times from `since` to `until`. `parts` explain the first time at which it does
      not.
    - short: it only holds over `when`, which is not long enough.
    - group: the aggregates have the other `values`.

    An odd `until` is just before the next instant if `open`, otherwise just after the previous one.
    """

    kind: str
    pattern: Pattern
    bound: Mapping[str, TypedValue]
    at: int
    before: Occurrence | None = None
    after: Occurrence | None = None
    when: When = ()
    since: int = 0
    until: int = 0
    judged: tuple[Judged, ...] = ()
    parts: tuple[Gap, ...] = ()
    because: tuple[Refusal, ...] = ()
    ended: Turn | None = None
    values: Mapping[str, TypedValue] | None = None
    open: bool = False


class Nested(Protocol):
    """Explains why a fluent or event is absent."""

    def of_atom(self, atom: Pattern, bound: BoundValues, at: int) -> Gap:
        """Return the gap of a fluent that does not hold at a time, or of an event that does not occur then."""
        ...


class FormulaGaps:
    """Explains the gaps in formulas of a program."""

    def __init__(self, memory: Memory, judge: Judge, nested: Nested) -> None:
        self.judge, self.nested = judge, nested
        self.reader = FormulaReader(memory, judge)

    def lacks(self, pattern: Pattern, bound: BoundValues, at: int) -> list[Gap]:
        """Return the parts of a formula that are not met at a time. Empty if the formula holds for some values."""
        self.judge.check_limit()
        if self.there(pattern, bound, at):
            return []
        return pattern.lacks(self, bound, at)

    def there(self, pattern: Pattern, bound: BoundValues, at: int) -> list[FormulaExtent]:
        """Return the extents of a formula that include a time."""
        return [one for one in self.reader.extents(pattern, bound) if one.holds(at)]

    # --- what operators ask (`Pattern.lacks`) ---

    def of_atom(self, atom: Pattern, bound: BoundValues, at: int) -> list[Gap]:
        """Return the gap of a fluent or an event."""
        return [self.nested.of_atom(atom, bound, at)]

    def together(self, left: Pattern, right: Pattern, negated: bool, bound: BoundValues, at: int) -> list[Gap]:
        """Return the gaps of `left AND right` or, with `negated`, `left AND NOT right`, for the values with the fewest
        gaps."""
        lefts = self.there(left, bound, at)
        if not lefts:
            return [*self.lacks(left, bound, at), *([] if negated else self.lacks(right, bound, at))]
        found: list[list[Gap]] = []
        for one in lefts:
            if negated:
                found.append([self._held(right, each, at) for each in self.there(right, one.bound, at)])
            else:
                found.append(self.lacks(right, one.bound, at))
        return min(found, key=len)

    def _held(self, pattern: Pattern, extent: FormulaExtent, at: int) -> Gap:
        when = tuple(each for each in extent.when if each[0] <= at <= each[1])
        source = next((one for one in extent.sources if one.codes[0] <= at <= one.codes[1]), None)
        return Gap("held", pattern, shown(extent.bound), at, source, when=when)

    def over(self, given: Pattern, inner: Pattern, always: bool, bound: BoundValues, at: int) -> list[Gap]:
        """Return the gap of an operator over one formula, which must hold at some relevant time or, with `always`, at
        all of them."""
        since, until = given.reaches(at, at)
        found = self.reader.extents(inner, bound)
        if not always:
            return [self._never(given, inner, found, bound, at)]
        holes = [when_of(subtract(set_of([(since, until)]), set_of(one.when))) for one in found]
        hole = max((each[0][0] for each in holes if each), default=since)
        hole = max(hole, -INFINITE)
        parts = tuple(self.lacks(inner, bound, hole))
        return [Gap("not always", inner, shown(bound), at, since=since, until=until, parts=parts, open=at % 2 == 0)]

    def _never(
        self, given: Pattern, inner: Pattern, found: Sequence[FormulaExtent], bound: BoundValues, at: int
    ) -> Gap:
        since, until = given.reaches(at, at)
        every = sorted(each for one in found for each in one.when)
        before = [each for each in every if each[1] < since][-NEAREST // 2 :]
        after = [each for each in every if each[0] > until][: NEAREST // 2]
        when = (*before, *after)
        return Gap("never", inner, shown(bound), at, when=when, since=since, until=until, open=at % 2 == 0)

    def since(
        self, given: Pattern, left: Pattern, right: Pattern, future: bool, bound: BoundValues, at: int
    ) -> list[Gap]:
        """Return the gap of `left SINCE right` or, with `future`, `left UNTIL right`."""
        since, until = given.reaches(at, at)
        found = self.reader.extents(right, bound)
        near = [
            (max(first, since), min(last, until), one)
            for one in found
            for first, last in one.when
            if first <= until and last >= since
        ]
        if not near:
            return [self._never(given, right, found, bound, at)]
        first, last, one = min(near, key=lambda each: each[0]) if future else max(near, key=lambda each: each[1])
        # if an end is between two instants, the rest of that gap counts
        now, then = (at, first) if future else (last, at)
        low, high = now + (now % 2 == 0), then - (then % 2 == 0)
        held = set_of([each for other in self.reader.extents(left, one.bound) for each in other.when])
        holes = when_of(subtract(set_of([(low, high)]), held))
        hole = holes[0][0] if holes else at
        parts, open = tuple(self.lacks(left, one.bound, hole)), then % 2 == 0
        return [Gap("not always", left, shown(one.bound), at, since=low, until=high, parts=parts, open=open)]

    def lasting(self, inner: Pattern, bound: BoundValues, at: int) -> list[Gap]:
        """Return the gap of `inner LASTING ..`."""
        there = self.there(inner, bound, at)
        if not there:
            return self.lacks(inner, bound, at)
        when = tuple(each for each in there[0].when if each[0] <= at <= each[1])
        return [Gap("short", inner, shown(there[0].bound), at, when=when)]

    def where(self, inner: Pattern, conditions: Sequence[Condition], bound: BoundValues, at: int) -> list[Gap]:
        """Return the gap of a formula with conditions."""
        there = self.there(inner, bound, at)
        if not there:
            return self.lacks(inner, bound, at)
        known = next(known for first, last, known in self.judge.versions() if first <= at <= last)
        cases = self.judge.judge(conditions, [{**one.bound, **known} for one in there])
        cases = [each for each in cases if each.failed]
        case = min(cases, key=lambda each: len(each.failed))
        failed = tuple(self.judge.detailed(each, case.bound) for each in case.failed)
        return [Gap("condition", inner, shown(case.bound), at, judged=failed)]

    def grouped(
        self, given: Pattern, inner: Pattern, results: Sequence[AggregateResult], by: Sequence[str], bound: BoundValues,
        at: int,
    ) -> list[Gap]:  # fmt: skip
        """Return the gaps of an aggregate over the tuples that hold at a time."""
        groups = {name: value for name, value in bound.items() if name in by}
        if not self.there(inner, groups, at):
            return self.lacks(inner, groups, at)
        names = [each.variable for each in results]
        free = {name: value for name, value in bound.items() if name not in names}
        found = self.there(given, free, at)
        values = {name: found[0].bound[name] for name in names} if found else {}
        return [Gap("group", given, shown(groups), at, values=values)]
