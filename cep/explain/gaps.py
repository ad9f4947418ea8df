"""Explain why a formula does not hold at a time: the parts that do not hold, down to fluents and events."""

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
"""The number of a formula's intervals that are reported. The intervals closest to the time are chosen."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The reason why a part of a formula does not hold as required at the time `moment`, a code of
    `cep.core.interval_sets`.

    The `kind` says what is wrong:

    - missing: the fluent or event `pattern` is absent. `before` and `after` are its closest occurrences, `ended` is
      the reason of its last end, and `because` explains why rules did not begin or derive it.
    - held: the part holds over `when`, but must not.
    - condition: the conditions `judged` are false.
    - never: the part holds at no time from `since` to `until` (codes). `when` contains the closest intervals.
    - not always: the part must hold at all times from `since` to `until`. `parts` explain the first time at which it
      does not hold.
    - short: the part only holds over `when`, which is not long enough.
    - group: the aggregates have other values, which are in `values`.

    If the code `until` is odd, it lies between two instants. It means just before the second instant if `open` is true,
    and otherwise just after the first instant.
    """

    kind: str
    pattern: Pattern
    bound: Mapping[str, TypedValue]
    moment: int
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
    """An explainer of one part of a formula: a fluent that does not hold, or an event that does not occur."""

    def of_atom(self, atom: Pattern, bound: BoundValues, code: int) -> Gap:
        """Explain why a fluent does not hold at the time `code`, or why an event does not occur then."""
        ...


class FormulaGaps:
    """An explainer of formulas that do not hold. It returns their gaps, which are the parts that fail (`Gap`)."""

    def __init__(self, memory: Memory, judge: Judge, nested: Nested) -> None:
        self.judge, self.nested = judge, nested
        self.reader = FormulaReader(memory, judge)

    def lacks(self, pattern: Pattern, bound: BoundValues, code: int) -> list[Gap]:
        """Return the parts of a formula that do not hold at the time `code`. Returns an empty list if the formula holds
        for some values."""
        self.judge.check_limit()
        if self.there(pattern, bound, code):
            return []
        return pattern.lacks(self, bound, code)

    def there(self, pattern: Pattern, bound: BoundValues, code: int) -> list[FormulaExtent]:
        """Return the extents of a formula that include the time `code`."""
        return [extent for extent in self.reader.extents(pattern, bound) if extent.holds(code)]

    # --- what operators ask (`Pattern.lacks`) ---

    def of_atom(self, atom: Pattern, bound: BoundValues, code: int) -> list[Gap]:
        return [self.nested.of_atom(atom, bound, code)]

    def together(self, left: Pattern, right: Pattern, negated: bool, bound: BoundValues, code: int) -> list[Gap]:
        """Return the gaps of `left AND right` or, if `negated`, of `left AND NOT right`.

        If the left side holds for several values of its variables, use the values that leave the fewest gaps.
        """
        lefts = self.there(left, bound, code)
        if not lefts:
            return [*self.lacks(left, bound, code), *([] if negated else self.lacks(right, bound, code))]
        gaps: list[list[Gap]] = []
        for extent in lefts:
            if negated:
                gaps.append([self._held(right, other, code) for other in self.there(right, extent.bound, code)])
            else:
                gaps.append(self.lacks(right, extent.bound, code))
        return min(gaps, key=len)

    def _held(self, pattern: Pattern, extent: FormulaExtent, code: int) -> Gap:
        when = tuple(interval for interval in extent.when if interval[0] <= code <= interval[1])
        source = next((source for source in extent.sources if source.codes[0] <= code <= source.codes[1]), None)
        return Gap("held", pattern, shown(extent.bound), code, source, when=when)

    def over(self, formula: Pattern, inner: Pattern, always: bool, bound: BoundValues, code: int) -> list[Gap]:
        """Return the gaps of an operator over the formula `inner`.

        `always`: True if `inner` must hold at all times that the operator covers; False if one of them is enough.
        """
        since, until = formula.reaches(code, code)
        extents = self.reader.extents(inner, bound)
        if not always:
            return [self._never(formula, inner, extents, bound, code)]
        holes = [when_of(subtract(set_of([(since, until)]), set_of(extent.when))) for extent in extents]
        hole = max((hole[0][0] for hole in holes if hole), default=since)
        hole = max(hole, -INFINITE)
        parts = tuple(self.lacks(inner, bound, hole))
        return [Gap("not always", inner, shown(bound), code, since=since, until=until, parts=parts, open=code % 2 == 0)]

    def _never(
        self, formula: Pattern, inner: Pattern, extents: Sequence[FormulaExtent], bound: BoundValues, code: int
    ) -> Gap:
        since, until = formula.reaches(code, code)
        every = sorted(interval for extent in extents for interval in extent.when)
        before = [interval for interval in every if interval[1] < since][-NEAREST // 2 :]
        after = [interval for interval in every if interval[0] > until][: NEAREST // 2]
        when = (*before, *after)
        return Gap("never", inner, shown(bound), code, when=when, since=since, until=until, open=code % 2 == 0)

    def since(
        self, formula: Pattern, left: Pattern, right: Pattern, future: bool, bound: BoundValues, code: int
    ) -> list[Gap]:
        """Return the gaps of `left SINCE right` or, if `future`, of `left UNTIL right`."""
        since, until = formula.reaches(code, code)
        extents = self.reader.extents(right, bound)
        near = [
            (max(first, since), min(last, until), extent)
            for extent in extents
            for first, last in extent.when
            if first <= until and last >= since
        ]
        if not near:
            return [self._never(formula, right, extents, bound, code)]
        first, last, best = min(near, key=lambda entry: entry[0]) if future else max(near, key=lambda entry: entry[1])
        # if an end is between two instants, the rest of that gap counts
        now, then = (code, first) if future else (last, code)
        low, high = now + (now % 2 == 0), then - (then % 2 == 0)
        held = set_of([interval for other in self.reader.extents(left, best.bound) for interval in other.when])
        holes = when_of(subtract(set_of([(low, high)]), held))
        hole = holes[0][0] if holes else code
        parts, open = tuple(self.lacks(left, best.bound, hole)), then % 2 == 0
        return [Gap("not always", left, shown(best.bound), code, since=low, until=high, parts=parts, open=open)]

    def lasting(self, inner: Pattern, bound: BoundValues, code: int) -> list[Gap]:
        extents = self.there(inner, bound, code)
        if not extents:
            return self.lacks(inner, bound, code)
        when = tuple(interval for interval in extents[0].when if interval[0] <= code <= interval[1])
        return [Gap("short", inner, shown(extents[0].bound), code, when=when)]

    def where(self, inner: Pattern, conditions: Sequence[Condition], bound: BoundValues, code: int) -> list[Gap]:
        extents = self.there(inner, bound, code)
        if not extents:
            return self.lacks(inner, bound, code)
        known = next(known for first, last, known in self.judge.versions() if first <= code <= last)
        cases = self.judge.judge(conditions, [{**extent.bound, **known} for extent in extents])
        cases = [case for case in cases if case.failed]
        case = min(cases, key=lambda candidate: len(candidate.failed))
        failed = tuple(self.judge.detailed(judgement, case.bound) for judgement in case.failed)
        return [Gap("condition", inner, shown(case.bound), code, judged=failed)]

    def grouped(
        self, whole: Pattern, inner: Pattern, results: Sequence[AggregateResult], by: Sequence[str], bound: BoundValues,
        code: int,
    ) -> list[Gap]:  # fmt: skip
        groups = {name: value for name, value in bound.items() if name in by}
        if not self.there(inner, groups, code):
            return self.lacks(inner, groups, code)
        names = [result.variable for result in results]
        free = {name: value for name, value in bound.items() if name not in names}
        extents = self.there(whole, free, code)
        values = {name: extents[0].bound[name] for name in names} if extents else {}
        return [Gap("group", whole, shown(groups), code, values=values)]
