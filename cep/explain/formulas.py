"""Evaluate formulas over remembered intervals and occurrences. The result contains the times and values for which a
formula holds, and the reason.

The code follows the definitions of the language, and handles one tuple at a time. It explains single results, and is
too slow to run programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cep.core.interval_sets import INFINITE, Intervals, intersect, subtract
from cep.core.time import END_OF_TIME
from cep.events import Value
from cep.explain.evaluation_windows import WindowExtents
from cep.explain.extents import FormulaExtent as FormulaExtent
from cep.explain.extents import When as When
from cep.explain.extents import set_of as set_of
from cep.explain.extents import when_of as when_of
from cep.explain.judging import BoundValues, Judge, TypedValue
from cep.explain.occurrences import Memory, Occurrence, same
from cep.explain.windows import result_of
from cep.plan.pattern import Pattern
from cep.rules.terms import AggregateResult, Condition, Constant, Variable


class FormulaReader:
    """A reader that computes the extents of a program's formulas."""

    def __init__(self, memory: Memory, judge: Judge) -> None:
        self.memory, self.judge = memory, judge

    def extents(self, pattern: Pattern, bound: BoundValues) -> list[FormulaExtent]:
        """Return the extents of a formula, for all values and times for which it holds.

        `bound`: values that some variables must have.
        """
        self.judge.check_limit()
        return pattern.extents(self, bound)

    # --- what operators ask (`Pattern.extents`) ---

    @property
    def windows(self) -> WindowExtents:
        return WindowExtents(self)

    def of_fluent(self, atom: Pattern, bound: BoundValues) -> list[FormulaExtent]:
        properties = atom.properties()
        assert properties.event is not None, "of a fluent"
        name = self.memory.fluents.of(properties.event)
        now = min(self.memory.engine.watermark, END_OF_TIME)
        known = INFINITE if now == END_OF_TIME else 2 * now

        def codes(occurrence: Occurrence) -> tuple[int, int]:
            first, last = occurrence.codes
            return first, max(first, known) if last == INFINITE else last

        return self._of(atom, name, properties.arguments[:-1], bound, None, codes)

    def of_event(
        self, atom: Pattern, names: Sequence[str], longest: int | None, bound: BoundValues
    ) -> list[FormulaExtent]:
        """Return the extents of the event `atom`. As a formula, an event holds while it occurs.

        - `names`: the variables to keep.
        - `longest`: the greatest duration of an occurrence that counts. None means that only instants count.
        """

        def codes(occurrence: Occurrence) -> tuple[int, int] | None:
            fits = occurrence.end - occurrence.start <= (longest or 0)
            return (2 * occurrence.start, 2 * occurrence.end) if fits else None

        properties = atom.properties()
        assert properties.event is not None, "of an event"
        return self._of(atom, properties.event, properties.arguments, bound, names, codes)

    def solved(self, pattern: Pattern, asked: Pattern, bound: BoundValues) -> list[FormulaExtent]:
        """Return the extents of a pattern whose rows the answer set solver derived.

        `asked`: the pattern whose rows are the solver's input. The extents of this pattern become the parts of the
        result.
        """
        extents = self.extents(asked, {})
        when = tuple(interval for extent in extents for interval in extent.when)
        return [FormulaExtent(pattern, dict(bound), when_of(set_of(when)), tuple((part, False) for part in extents))]

    def _of(
        self,
        atom: Pattern,
        event: str,
        arguments: Sequence[Variable | Constant],
        bound: BoundValues,
        names: Sequence[str] | None,
        codes: Callable[[Occurrence], tuple[int, int] | None],
    ) -> list[FormulaExtent]:
        fixed: dict[int, Value] = {}
        for place, argument in enumerate(arguments):
            if isinstance(argument, Constant):
                fixed[place] = argument.value
            elif argument.name in bound:
                fixed[place] = bound[argument.name][0]
        attributes = self.memory.schemas[event].attributes
        groups: dict[tuple[tuple[str, TypedValue], ...], list[tuple[Occurrence, tuple[int, int]]]] = {}
        for occurrence in self.memory.find(event, fixed, -(2**62), 2**62):
            mine, now = codes(occurrence), dict(bound)
            for argument, value, attribute in zip(arguments, occurrence.args, attributes):
                if isinstance(argument, Variable) and argument.name not in now:
                    now[argument.name] = value, attribute.type
                elif not same(now[argument.name][0] if isinstance(argument, Variable) else argument.value, value):
                    mine = None
            if mine is not None:
                key = tuple((n, v) for n, v in now.items() if names is None or n in names or n in bound)
                groups.setdefault(key, []).append((occurrence, mine))
        return [
            FormulaExtent(atom, dict(key), when_of(set_of([w for _, w in rows])), (), tuple(row for row, _ in rows))
            for key, rows in groups.items()
        ]

    def onto(
        self, formula: Pattern, names: Sequence[str], bound: BoundValues, closed: str | None = None
    ) -> list[FormulaExtent]:
        """Return the extents of a formula, projected to the variables `names`.

        A projected extent holds when the formula holds for at least one combination of the other variables' values.
        `closed`: "begin" adds the first instant to intervals that begin just after it. Any other text adds the last
        instant to intervals that end just before it. None leaves the intervals as they are.
        """
        groups: dict[tuple[tuple[str, TypedValue], ...], list[FormulaExtent]] = {}
        for extent in self.extents(formula, bound):
            key = tuple((n, v) for n, v in sorted(extent.bound.items()) if n in names or n in bound)
            groups.setdefault(key, []).append(extent)
        extents = []
        for key, group in groups.items():
            if len(group) == 1:
                extents.append(replace(group[0], bound=dict(key)))
            else:
                when = when_of(set_of([interval for part in group for interval in part.when]))
                extents.append(FormulaExtent(formula, dict(key), when, tuple((part, False) for part in group)))
        return extents if closed is None else [replace(extent, when=_closed(extent.when, closed)) for extent in extents]

    def together(
        self, formula: Pattern, left: Pattern, right: Pattern, negated: bool, bound: BoundValues
    ) -> list[FormulaExtent]:
        """Return the extents of `left AND right` or, if `negated`, of `left AND NOT right`."""
        extents = []
        for extent in self.extents(left, bound):
            chained = extent.pattern.__class__ is formula.__class__ and extent.pattern.span == formula.span
            parts = extent.parts if chained else ((extent, False),)
            others = self.extents(right, extent.bound)
            mine = set_of(extent.when)
            if negated:
                held = set_of([interval for other in others for interval in other.when])
                when = when_of(subtract(mine, held))
                none = FormulaExtent(right, extent.bound, ())
                extents.append(
                    FormulaExtent(formula, extent.bound, when, (*parts, *((other, True) for other in others or [none])))
                )
                continue
            for other in others:
                when = when_of(intersect(mine, set_of(other.when)))
                extents.append(FormulaExtent(formula, other.bound, when, (*parts, (other, False))))
        return [extent for extent in extents if extent.when]

    def over(
        self, formula: Pattern, inner: Pattern, bound: BoundValues, when: Callable[[Intervals], Intervals]
    ) -> list[FormulaExtent]:
        """Return the extents of an operator over the formula `inner`.

        `when`: a function that takes the times at which `inner` holds, and returns the times at which the operator
        holds.
        """
        extents = [
            FormulaExtent(formula, e.bound, when_of(when(set_of(e.when))), ((e, False),))
            for e in self.extents(inner, bound)
        ]
        return [extent for extent in extents if extent.when]

    def between(
        self,
        formula: Pattern,
        left: Pattern,
        right: Pattern,
        bound: BoundValues,
        when: Callable[[Intervals, Intervals], Intervals],
    ) -> list[FormulaExtent]:
        """Return the extents of an operator over two formulas. The values of all variables come from `right`.

        `when`: a function that takes the times at which `left` and `right` hold, and returns the times at which the
        operator holds.
        """
        extents = []
        for extent in self.extents(right, bound):
            held = [part for other in self.extents(left, extent.bound) for part in _own(other)]
            mine = set_of([interval for other in held for interval in other.when])
            intervals = when_of(when(mine, set_of(extent.when)))
            extents.append(
                FormulaExtent(formula, extent.bound, intervals, (*((other, False) for other in held), (extent, False)))
            )
        return [extent for extent in extents if extent.when]

    def where(
        self, formula: Pattern, inner: Pattern, conditions: Sequence[Condition], bound: BoundValues
    ) -> list[FormulaExtent]:
        """Return the extents of a formula, cut to the times at which its conditions are true.

        Conditions are evaluated once for each period in which the knowledge does not change.
        """
        parts = self.extents(inner, bound)
        extents: dict[tuple[int, tuple[tuple[str, TypedValue], ...]], FormulaExtent] = {}
        for first, last, known in self.judge.versions():
            inside = [(part, when_of(intersect(set_of(part.when), set_of([(first, last)])))) for part in parts]
            inside = [(part, when) for part, when in inside if when]
            for case in self.judge.judge(conditions, [{**part.bound, **known} for part, _ in inside]):
                if case.failed:
                    continue
                part, when = inside[case.origin]
                values = {name: value for name, value in case.bound.items() if name not in known}
                judged = tuple((judgement, case.bound) for judgement in case.judged)
                key = (id(part), tuple(sorted(values.items(), key=lambda pair: pair[0])))
                if key in extents:  # it continues, or holds again, with later knowledge
                    when = when_of(set_of([*extents[key].when, *when]))
                    extents[key] = replace(extents[key], when=when)
                else:
                    extents[key] = FormulaExtent(formula, values, when, ((part, False),), (), judged)
        return list(extents.values())

    def grouped(
        self,
        formula: Pattern,
        inner: Pattern,
        results: Sequence[AggregateResult],
        by: Sequence[str],
        bound: BoundValues,
    ) -> list[FormulaExtent]:
        """Return the extents of an aggregate. For each group, it computes the results over the tuples that hold at the
        same time."""
        groups: dict[tuple[TypedValue, ...], list[FormulaExtent]] = {}
        for extent in self.extents(inner, {name: value for name, value in bound.items() if name in by}):
            groups.setdefault(tuple(extent.bound[name] for name in by), []).append(extent)
        by_key: dict[tuple[tuple[str, TypedValue], ...], tuple[list[tuple[int, int]], dict[int, FormulaExtent]]] = {}
        for key, members in groups.items():
            cuts = sorted({cut for member in members for first, last in member.when for cut in (first, last + 1)})
            for first, beyond in zip(cuts, cuts[1:]):
                self.judge.check_limit()
                inside = [member for member in members if member.holds(first)]
                if not inside:
                    continue
                now = {**bound, **dict(zip(by, key))}
                values = {result.variable: result_of(result, inside, self.judge) for result in results}
                if all(same(now[n][0], v[0]) for n, v in values.items() if n in now):
                    when, parts = by_key.setdefault(tuple({**values, **now}.items()), ([], {}))
                    when.append((first, beyond - 1))
                    parts |= {id(extent): extent for extent in inside}
        return [
            FormulaExtent(formula, dict(key), when_of(set_of(when)), tuple((part, False) for part in parts.values()))
            for key, (when, parts) in by_key.items()
        ]


def _closed(when: Sequence[tuple[int, int]], edge: str) -> tuple[tuple[int, int], ...]:
    """Close intervals at one end.

    If `edge` is "begin", add the first instant to intervals that begin just after it. Otherwise add the last instant to
    intervals that end just before it.
    """
    if edge == "begin":
        return when_of(set_of([(first - (first & 1 and first > -INFINITE), last) for first, last in when]))
    return when_of(set_of([(first, last + (last & 1 and last < INFINITE)) for first, last in when]))


def _own(extent: FormulaExtent) -> list[FormulaExtent]:
    """Return the parts that the author wrote to the left of SINCE.

    The compiler may have added tuples of the right side to the left side; these are omitted.
    """
    mine = [part for part, _ in extent.parts if part.pattern.span == extent.pattern.span]
    return mine or [extent]


def shown(bound: BoundValues) -> dict[str, TypedValue]:
    return {name: value for name, value in bound.items() if "'" not in name and not name.endswith("()")}
