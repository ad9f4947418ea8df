"""`p AGGREGATE N = count(), M = max(X) BY A` of formulas: aggregates over the tuples of a group that hold at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.core.suggest import did_you_mean
from cep.operators.holding import KIND
from cep.operators.where import added
from cep.plan.formula import OR, WHOLE, Formula, Lowering, Names, OverOne, placed
from cep.plan.names import used_variables
from cep.plan.node import FormulaNode, Meeting, NodeProperties
from cep.plan.pattern import FormulaPattern, Pattern, PatternProperties, renamer
from cep.plan.render import places_of
from cep.rules.pattern_text import Text
from cep.rules.printing import print_expression, print_result
from cep.rules.terms import AggregateResult, Variable, arguments_of, expression_variables, rename_result

if TYPE_CHECKING:
    from cep.explain.formulas import FormulaExtent, FormulaReader
    from cep.explain.gaps import FormulaGaps, Gap
    from cep.explain.judging import BoundValues
    from cep.operators.build import GoalBuilder
    from cep.operators.goals.contract import Goal
    from cep.plan.binarise import Binariser, Component
    from cep.plan.render import Rendering
    from cep.plan.types import ColumnType, Inference


_EARLIEST = {"first": "min", "last": "max"}
"""For some aggregates that depend on the order of time, an aggregate that does not, for the hint of the error
message."""
_TRENDS = ("slope", "rate", "ewma")
"""Aggregates of how values change over time."""


@dataclass(frozen=True, slots=True)
class AggregatedFormula(OverOne):
    """`formula AGGREGATE results BY variables`."""

    formula: Formula
    results: tuple[AggregateResult, ...]
    by: tuple[Variable, ...]
    span: Span = field(default=NOWHERE, compare=False)

    def written(self) -> list[str]:
        names: list[str] = []
        for result in self.results:
            names.append(result.variable)
            names += [] if result.argument is None else expression_variables(result.argument)
        return [*names, *(variable.name for variable in self.by)]

    def bound(self) -> Names:
        return frozenset((*(variable.name for variable in self.by), *(result.variable for result in self.results)))

    def text(self) -> tuple[str, int]:
        groups = f" BY {', '.join(variable.name for variable in self.by)}" if self.by else ""
        return f"{placed(self.formula, OR)} AGGREGATE {', '.join(map(print_result, self.results))}{groups}", WHOLE

    def asks_whole(self) -> list[tuple[Formula, str, Span]]:
        return [(self.formula, "AGGREGATE", self.span)]

    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        inner = self.formula.bound()
        self._check(lowering, inner)
        body = lowering.lowered(self.formula, inner, outside | inner)
        late = lowering.late_of(self.formula)
        return lowering.projected(GroupingPattern(body, self.results, self.by, late, None, self.span), keep, self)

    def _check(self, lowering: Lowering, inner: Names) -> None:
        known = sorted(name for name in inner if "'" not in name)

        def unbound(name: str, span: Span) -> None:
            hint = did_you_mean(name, known) or f"it binds {', '.join(known) or 'nothing'}"
            lowering.error(f"`{name}` is not bound by the aggregated formula", span, hint, "unsafe")

        for result in self.results:
            self._of_one_time(lowering, result)
            if result.variable in inner or [result.variable for result in self.results].count(result.variable) > 1:
                lowering.error(
                    f"`{result.variable}` has a value already", result.span, "use a new variable for each result"
                )
            for name in [] if result.argument is None else expression_variables(result.argument):
                if name not in inner:
                    unbound(name, result.span)
        for variable in self.by:
            if variable.name not in inner:
                unbound(variable.name, variable.span)

    def _of_one_time(self, lowering: Lowering, result: AggregateResult) -> None:
        """Report an aggregate that depends on order in time, because all its tuples hold at the same time."""
        function = result.function
        if function not in _EARLIEST and function not in _TRENDS:
            return
        of = "" if result.argument is None else print_expression(result.argument)
        call = print_result(result).partition(" = ")[2]
        window = f"use a rule of events with a window: `.. AGGREGATE {result.variable} = {call} OVER LAST 1 h`"
        if function in _TRENDS:
            message = (
                f"`{function}` describes how values change over time, but this aggregate is over values at one time"
            )
            lowering.error(message, result.span, window)
        else:
            message = f"`{function}` needs values in the order of time, but this aggregate is over values at one time"
            hint = f"`{_EARLIEST[function]}({of})`, or `mode({of})`, the most frequent value; {window}"
            lowering.error(message, result.span, hint)


@dataclass(frozen=True, slots=True)
class GroupingPattern(FormulaPattern):
    """`formula AGGREGATE results BY by`.

    `late`: the delay of the formula in microseconds. At watermark w, its changes up to time w - `late` are known.
    """

    formula: Pattern
    results: tuple[AggregateResult, ...]
    by: tuple[Variable, ...]
    late: int
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternProperties:
        return PatternProperties(
            (self.formula,),
            binds=(*(variable.name for variable in self.by), *(result.variable for result in self.results), KIND),
            mentions=(*used_variables(arguments_of(self.results)), *self.by),
            goal=True,
        )

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        results = tuple(
            rename_result(result, names, names.get(result.variable, result.variable)) for result in self.results
        )
        by = tuple(map(renamer(names), self.by))
        return replace(self, formula=self.formula.renamed(names), by=by, results=results)

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        child, inner = self.formula.lower(builder, (), None)
        columns = {name: f"v{place}" for name, place in inner.items()}
        results = tuple(rename_result(result, columns, f"r{i}") for i, result in enumerate(self.results))
        groups = tuple(dict.fromkeys(variable.name for variable in self.by))
        names = (*groups, *(result.variable for result in self.results), KIND)
        node = Grouping(child, results, tuple(inner[name] for name in groups), inner[KIND], self.late)
        return added(builder, node, names, components, self.span)

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        return reader.grouped(self, self.formula, self.results, [variable.name for variable in self.by], bound)

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, code: int) -> list[Gap]:
        groups = [variable.name for variable in self.by]
        return gaps.grouped(self, self.formula, self.results, groups, bound, code)


@dataclass(frozen=True, slots=True)
class Grouping(FormulaNode):
    """The node of an aggregate over the tuples of a group that hold at a time.

    Output columns: the `by` columns, one column per result, then the kind of change.
    """

    child: int
    results: tuple[AggregateResult, ...]
    by: tuple[int, ...]
    kind: int
    late: int

    def describe(self) -> NodeProperties:
        looked = {*self.by, *places_of(arguments_of(self.results)), self.kind}
        return NodeProperties(
            "AGGREGATE",
            "formula",
            remembers=True,
            shows=(*(((0, column),) for column in self.by), *(() for _ in self.results), ()),
            looks=tuple((0, column) for column in sorted(looked)),
            groups=tuple((0, column) for column in self.by),
            by=True,
            completes=(0,),
            meeting=Meeting.GROUPS,
            needs_instant="AGGREGATE",
        )

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        child = inference.columns[self.child]
        results = [inference.result(self.child, result) for result in self.results]
        return (*(child[column] for column in self.by), *results, inference.column("int", False))

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        names = rendering.names[number]
        functions = zip(self.results, names[len(self.by) :])
        listed = ", ".join(f"{name} = {result.function}(..)" for result, name in functions)
        groups = f" BY {', '.join(names[: len(self.by)])}" if self.by else ""
        return Text(f"{sides[0].text} AGGREGATE {listed}{groups}", 0, True)

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        return [
            ("group", ", ".join(rendering.names[number][: len(self.by)]) or "none: one for all"),
            ("remembers", "what holds"),
            ("forgets", "when it ends"),
        ]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.grouping import grouping_of

        return grouping_of(self, builder)
