"""`p AGGREGATE A = avg(W) OVER LAST 5 EVENTS BY K`: a sliding window, and its results whenever something enters it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cep.core.errors import NOWHERE, Span
from cep.core.literals import say_duration
from cep.core.suggest import did_you_mean
from cep.operators.where import bounded_by, decided
from cep.plan.binarise import Component
from cep.plan.horizon import Horizon
from cep.plan.lint.ranges import Ranges, Searcher
from cep.plan.names import author_names, used_variables
from cep.plan.node import Lasting, Meeting, Node, NodeFacts
from cep.plan.pattern import Pattern, PatternFacts, renamer, variables
from cep.plan.render import counted, places_of
from cep.rules import pattern_text
from cep.rules.pattern_text import Text
from cep.rules.terms import AggregateResult, Variable, rename_expression

if TYPE_CHECKING:
    from cep.operators.build import Builder
    from cep.plan.binarise import Builder as Binariser
    from cep.plan.render import Rendering
    from cep.plan.safety import Checker
    from cep.plan.types import Column, Inference

COMMUTES = ("count", "min", "max")
"""Functions whose result does not depend on the order of what they take; nor does a sum of whole numbers."""


@dataclass(frozen=True, slots=True)
class Window(Pattern):
    """`pattern AGGREGATE results OVER LAST events|duration BY by`."""

    pattern: Pattern
    results: tuple[AggregateResult, ...]
    events: int | None
    duration: int | None
    by: tuple[Variable, ...]
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternFacts:
        names = [Variable(result.variable, result.span) for result in self.results]
        return PatternFacts(
            (self.pattern,),
            binds=(*(v.name for v in self.by), *(r.variable for r in self.results)),
            mentions=(*used_variables(self._arguments), *self.by, *names),
            results=self.results,
            duration=self.duration,
            goal=True,
        )

    @property
    def _arguments(self) -> list[Any]:
        return [result.argument for result in self.results if result.argument is not None]

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        other = renamer(names)
        results = tuple(
            replace(
                result,
                variable=names.get(result.variable, result.variable),
                argument=None if result.argument is None else rename_expression(result.argument, names),
            )
            for result in self.results
        )
        return replace(self, pattern=self.pattern.renamed(names), by=tuple(map(other, self.by)), results=results)

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        child, inner = self.pattern.lower(builder, (), None)
        names = {v: f"v{place}" for v, place in inner.items()}
        results = tuple(
            replace(
                result,
                variable=f"r{i}",
                argument=None if result.argument is None else rename_expression(result.argument, names),
            )
            for i, result in enumerate(self.results)
        )
        places: dict[str, int] = {}
        for v in self.by:
            places.setdefault(v.name, len(places))
        by = tuple(inner[v] for v in places)
        for result in self.results:
            places[result.variable] = len(places)
        node = Aggregation(child, results, self.events, self.duration, by)
        number = bounded_by(builder, builder.add(node, tuple(places), self.span), places, self)
        return decided(builder, number, places, components, self.span), places

    def check(self, checker: Checker, outside: frozenset[str]) -> None:
        bound = variables(self.pattern)
        for variable in [*used_variables(self._arguments), *self.by]:
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
                    "a new variable for each result",
                )
            names.add(result.variable)

    def ranges(self, searcher: Searcher) -> Ranges:
        groups = {variable.name for variable in self.by}
        return {name: known for name, known in self.pattern.ranges(searcher).items() if name in groups}

    def attempts(self, matcher: Any, bound: Mapping[str, Any]) -> list[Any]:
        groups = {variable.name for variable in self.by}
        inner = matcher.attempts(self.pattern, {name: value for name, value in bound.items() if name in groups})
        whole = [attempt for attempt in inner if attempt.failure is None]
        made = matcher.windows(whole, bound, [variable.name for variable in self.by], self.members_at, self.results)
        failed = [replace(attempt, bound=bound) for attempt in inner if attempt.failure]
        return made or failed or [matcher.missing(self.pattern, bound)]

    def members_at(self, ends: Sequence[int], now: int) -> slice:
        """Which of a group's occurrences, whose ends these are in order, are in the window at `now`."""
        until = bisect_right(ends, now)
        since = 0 if self.duration is None else bisect_right(ends, now - self.duration)
        return slice(since if self.events is None else max(since, until - self.events), until)


@dataclass(frozen=True, slots=True)
class Aggregation(Node):
    """A sliding window. Columns: the `by` columns, then a column a result."""

    child: int
    results: tuple[AggregateResult, ...]
    events: int | None
    duration: int | None
    by: tuple[int, ...]

    @property
    def _arguments(self) -> list[Any]:
        return [result.argument for result in self.results if result.argument is not None]

    def describe(self) -> NodeFacts:
        return NodeFacts(
            "AGGREGATE",
            "window",
            remembers=True,
            shows=(*(((0, column),) for column in self.by), *(() for _ in self.results)),
            looks=tuple((0, column) for column in sorted({*self.by, *places_of(self._arguments)})),
            groups=tuple((0, column) for column in self.by),
            completes=(0,),
            waits=(0,),
            lasting=Lasting.AS_LONGEST if self.events == 1 else Lasting.MORE,
            meeting=Meeting.GROUPS,
            one_at_once=not self.by,
            needs_instant="an aggregate",
        )

    def columns(self, inference: Inference, number: int) -> tuple[Column, ...]:
        child = inference.columns[self.child]
        columns = [inference.column(child[c].type, False) for c in self.by]
        return (*columns, *(inference.result(self.child, result) for result in self.results))

    def instants(self, parts: Sequence[bool]) -> bool:
        return self.events == 1 and parts[0]

    def horizon(self, parts: Sequence[bool]) -> Horizon:
        return Horizon(self.duration, events=self.events)

    def by_order(self, types: Sequence[str]) -> bool:
        if self.events is not None:  # which of them are the last ones; how many there are does not
            return not all(result.function == "count" and result.argument is None for result in self.results)
        return not all(
            result.function in COMMUTES or (result.function == "sum" and type in ("int", "duration"))
            for result, type in zip(self.results, types[len(self.by) :], strict=True)
        )

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        names = rendering.names[number]
        inner = author_names((), rendering.below(number)[0], rendering.source)
        results = [
            replace(
                result,
                variable=name,
                argument=None if result.argument is None else rename_expression(result.argument, inner),
            )
            for result, name in zip(self.results, names[len(self.by) :], strict=True)
        ]
        return pattern_text.aggregate(sides[0], results, self.events, self.duration, names[: len(self.by)])

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        newer = f"when {counted(self.events or 0, 'newer one')} of its group came"
        return [
            ("group", ", ".join(rendering.names[number][: len(self.by)]) or "none: one window for all"),
            ("remembers", f"{sides[0]} in the window"),
            ("forgets", newer if self.duration is None else f"after {say_duration(self.duration)}"),
        ]

    def goal(self, builder: Builder, number: int) -> Any:
        from cep.operators.goals.aggregate import window_of

        return window_of(self, builder)
