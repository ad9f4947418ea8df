"""`p AGGREGATE A = avg(W) OVER LAST 5 EVENTS BY K`: aggregates over windows of a pattern's occurrences.

A sliding window has a result whenever an occurrence enters it. Any other window has one result, when it ends.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from cep.core.errors import NOWHERE, Span
from cep.core.literals import say_duration, write_duration
from cep.core.suggest import did_you_mean
from cep.operators.where import bounded_by, decided
from cep.plan.binarise import Component
from cep.plan.horizon import Horizon
from cep.plan.lint.ranges import Ranges, Searcher
from cep.plan.names import author_names, used_variables
from cep.plan.node import Lasting, Meeting, Node, NodeProperties
from cep.plan.pattern import Omission, Pattern, PatternProperties, renamer, variables
from cep.plan.render import counted, places_of
from cep.plan.rule_edits import ENDLESS, WINDOW, changed_durations
from cep.rules import pattern_text
from cep.rules.pattern_text import Text
from cep.rules.printing import count_named, duration_named
from cep.rules.terms import AggregateResult, Variable, arguments_of, rename_result
from cep.rules.window_forms import DAY, Over

if TYPE_CHECKING:
    from cep.explain.judging import BoundValues
    from cep.explain.matching import Attempt, Matcher
    from cep.operators.build import GoalBuilder
    from cep.operators.goals.contract import Goal
    from cep.plan.binarise import Binariser
    from cep.plan.render import Rendering
    from cep.plan.safety import Checker
    from cep.plan.types import ColumnType, Inference

LONGER = DAY
"""The maximum time in microseconds by which a window of local time can exceed its nominal length. Clocks have been set
back by up to a day."""

COMMUTES = ("count", "min", "max", "median", "percentile", "mode")
"""Functions whose result does not depend on the order of the values. Sums of integers do not depend on it either."""

RATES = ("slope", "rate", "ewma")
"""Functions of values and times, whose partial results depend on the order of all earlier rows."""

SORTED = ("median", "percentile", "mode")
"""Functions that need every value in the window."""


AGGREGATE = "AGGREGATE"


@dataclass(frozen=True, slots=True)
class Window(Pattern):
    """`pattern AGGREGATE results OVER LAST events|duration BY by`.

    `over`: the form of the windows, or None for windows of the form LAST.
    """

    pattern: Pattern
    results: tuple[AggregateResult, ...]
    events: int | None
    duration: int | None
    by: tuple[Variable, ...]
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)
    over: Over | None = None

    def describe(self) -> PatternProperties:
        names = [Variable(result.variable, result.span) for result in self.results]
        return PatternProperties(
            (self.pattern,),
            binds=(*(v.name for v in self.by), *(r.variable for r in self.results)),
            mentions=(*used_variables(arguments_of(self.results)), *self.by, *names),
            results=self.results,
            duration=_reach(self.duration, self.over),
            goal=True,
            word=AGGREGATE,
        )

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        other = renamer(names)
        results = tuple(
            rename_result(result, names, names.get(result.variable, result.variable)) for result in self.results
        )
        return replace(self, pattern=self.pattern.renamed(names), by=tuple(map(other, self.by)), results=results)

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        child, inner = self.pattern.lower(builder, (), None)
        names = {v: f"v{place}" for v, place in inner.items()}
        results = tuple(rename_result(result, names, f"r{i}") for i, result in enumerate(self.results))
        places: dict[str, int] = {}
        for v in self.by:
            places.setdefault(v.name, len(places))
        by = tuple(inner[v] for v in places)
        for result in self.results:
            places[result.variable] = len(places)
        node = Aggregation(child, results, self.events, self.duration, by, self.over)
        number = bounded_by(builder, builder.add(node, tuple(places), self.span), places, self)
        return decided(builder, number, places, components, self.span), places

    def check(self, checker: Checker, outside: frozenset[str]) -> None:
        bound = variables(self.pattern)
        for variable in [*used_variables(arguments_of(self.results)), *self.by]:
            if variable.name not in bound:
                known = sorted(checker.written(bound))
                checker.error(
                    f"`{variable.name}` is not bound by the aggregated pattern",
                    variable.span,
                    did_you_mean(variable.name, known) or f"it binds {checker.listed(known) or 'nothing'}",
                )
        names: set[str] = set()
        for result in self.results:
            if result.variable in bound or result.variable in names:
                what = "another result" if result.variable in names else "the aggregated pattern"
                checker.error(
                    f"`{result.variable}` has a value already, from {what}",
                    result.span,
                    "use a new variable for each result",
                )
            names.add(result.variable)

    def shortest(self) -> tuple[int, str] | None:
        if self.over is None or self.over.form == "every" or self.over.zone is not None:
            return None
        session = self.over.form == "session"
        length = self.over.length if session else self.over.length - 1
        return length, f"the {'SESSION' if session else 'window'} alone lasts {write_duration(self.over.length)}"

    def ranges(self, searcher: Searcher) -> Ranges:
        groups = {variable.name for variable in self.by}
        return {name: known for name, known in self.pattern.ranges(searcher).items() if name in groups}

    def omissions(self) -> Iterator[Omission]:
        if self.over is None and self.events is not None:
            left = replace(self, events=ENDLESS)
            yield left, self.span, WINDOW, f"LAST {count_named(self.events)} EVENTS"
        elif self.over is None and self.duration is not None:
            yield replace(self, duration=ENDLESS), self.span, WINDOW, f"LAST {duration_named(self.duration)}"

    def changes(self) -> Iterator[tuple[Pattern, str]]:
        if self.events is not None:
            for count in (self.events - 1, self.events + 1):
                if count > 0:
                    text = f"LAST {count_named(self.events)} EVENTS as LAST {count} EVENTS"
                    yield replace(self, events=count), text
        else:
            for ticks, told in changed_durations(self.duration or 0):
                yield replace(self, duration=ticks), f"{told} the window of {duration_named(self.duration or 0)}"

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        groups = {variable.name for variable in self.by}
        inner = matcher.attempts(self.pattern, {name: value for name, value in bound.items() if name in groups})
        whole = [attempt for attempt in inner if attempt.failure is None]
        by = [variable.name for variable in self.by]
        attempts = matcher.windows(self, whole, bound, by, self.members_at, self.results)
        failed = [replace(attempt, bound=bound) for attempt in inner if attempt.failure]
        return attempts or failed or [matcher.missing(self.pattern, bound)]

    def members_at(self, ends: Sequence[int]) -> Iterator[tuple[slice, int | None, int]]:
        """Yield the members of each window that has a result, for one group of occurrences.

        `ends`: the ends of the group's occurrences in ascending order. Each item is a tuple of three values: the
        window's members as a slice of `ends`, the beginning of the window, and the end of the window. The beginning is
        None if the window begins with its first member.
        """
        over = self.over
        if over is None or over.form == "every":
            times = list(dict.fromkeys(ends))
            if over is not None:
                step, longest = over.length, self.duration or 0
                times = sorted({time for end in ends for time in range(end + -end % step, end + longest, step)})
            for now in times:
                until = bisect_right(ends, now)
                since = 0 if self.duration is None else bisect_right(ends, now - self.duration)
                yield slice(since if self.events is None else max(since, until - self.events), until), None, now
        elif over.form == "session":
            breaks = [index for index in range(1, len(ends)) if ends[index] - ends[index - 1] > over.length]
            for first, last in zip([0, *breaks], [*breaks, len(ends)]):
                yield slice(first, last), None, ends[last - 1] + over.length
        else:
            from cep.operators.goals.windows.sliding_aggregate import bounds_of

            starts, lasts = bounds_of(over)(np.array(ends, np.int64))
            for start, now in dict.fromkeys(zip(starts.tolist(), lasts.tolist())):
                yield slice(bisect_left(ends, start), bisect_right(ends, now)), start, now


def _reach(duration: int | None, over: Over | None) -> int | None:
    """Return how long an occurrence can stay in its window, in microseconds.

    In a session, this time counts from the session's latest member.
    """
    if over is None:
        return duration
    if over.form == "every":
        return (duration or 0) + over.length
    return over.length + (LONGER if over.zone is not None else 0)


@dataclass(frozen=True, slots=True)
class Aggregation(Node):
    """The node of a windowed aggregate. Output columns: the `by` columns, then one column per result."""

    child: int
    results: tuple[AggregateResult, ...]
    events: int | None
    duration: int | None
    by: tuple[int, ...]
    over: Over | None = None

    def describe(self) -> NodeProperties:
        return NodeProperties(
            AGGREGATE,
            "window",
            remembers=True,
            shows=(*(((0, column),) for column in self.by), *(() for _ in self.results)),
            looks=tuple((0, column) for column in sorted({*self.by, *places_of(arguments_of(self.results))})),
            groups=tuple((0, column) for column in self.by),
            by=True,
            completes=(0,),
            waits=(0,),
            lasting=Lasting.AS_LONGEST if self.events == 1 else Lasting.MORE,
            meeting=Meeting.GROUPS,
            distinct=True,
            needs_instant="an aggregate",
        )

    def one_at_once(self) -> bool:
        return not self.by

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        child = inference.columns[self.child]
        columns = [inference.column(child[c].type, False) for c in self.by]
        return (*columns, *(inference.result(self.child, result) for result in self.results))

    def instants(self, parts: Sequence[bool]) -> bool:
        return self.events == 1 and parts[0]

    def horizon(self, parts: Sequence[bool]) -> Horizon:
        return Horizon(_reach(self.duration, self.over), events=self.events)

    def memory(self, types: Sequence[str]) -> int | None:
        plain = not any(result.function in (*SORTED, *RATES) for result in self.results)
        return self.duration if self.over is None and (plain or not self.by_order(types)) else None

    def window(self) -> int | None:
        return self.over.length if self.over is not None and self.over.form == "each" else self.duration

    def by_order(self, types: Sequence[str]) -> bool:
        if self.events is not None:  # the order decides which are the last; only their number does not depend on it
            return not all(result.function == "count" and result.argument is None for result in self.results)
        return not all(
            result.function in COMMUTES or (result.function == "sum" and type in ("int", "duration"))
            for result, type in zip(self.results, types[len(self.by) :], strict=True)
        )

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        names = rendering.names[number]
        inner = author_names((), rendering.below(number)[0], rendering.source)
        results = [
            rename_result(result, inner, name) for result, name in zip(self.results, names[len(self.by) :], strict=True)
        ]
        groups = names[: len(self.by)]
        return pattern_text.aggregate(sides[0], results, self.events, self.duration, self.over, groups)

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        kept = f"{sides[0]} in the window"
        if (
            self.over is not None
            and self.over.form != "every"
            and not any(r.distinct or r.function in SORTED for r in self.results)
        ):
            kept = "one running result a group"
        return [
            ("group", ", ".join(rendering.names[number][: len(self.by)]) or "none: one window for all"),
            ("remembers", kept),
            ("forgets", self._forgets()),
        ]

    def _forgets(self) -> str:
        if self.over is not None and self.over.form == "each":
            return "when its window is over"
        if self.over is not None and self.over.form == "session":
            return f"when its group has no event for {say_duration(self.over.length)}"
        if self.over is not None:
            return f"at the next multiple of {say_duration(self.over.length)} after {say_duration(self.duration or 0)}"
        if self.duration is not None:
            return f"after {say_duration(self.duration)}"
        return f"when {counted(self.events or 0, 'newer one')} of its group came"

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.windows.sliding_aggregate import window_of

        return window_of(self, builder, number)
