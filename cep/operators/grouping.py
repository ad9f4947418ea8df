"""`p AGGREGATE N = count(), M = max(X) BY A` of formulas: over all tuples of a group that hold at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.operators.holding import KIND
from cep.operators.where import decided
from cep.plan.names import used_variables
from cep.plan.node import Meeting, Node, NodeProperties
from cep.plan.pattern import Pattern, PatternProperties, renamer
from cep.plan.render import places_of
from cep.rules.pattern_text import Text
from cep.rules.terms import AggregateResult, Variable, rename_expression

if TYPE_CHECKING:
    from cep.explain.judging import BoundValues
    from cep.explain.matching import Attempt, Matcher
    from cep.operators.build import GoalBuilder
    from cep.operators.goals.contract import Goal
    from cep.plan.binarise import Binariser, Component
    from cep.plan.render import Rendering
    from cep.plan.types import ColumnType, Inference


@dataclass(frozen=True, slots=True)
class GroupingPattern(Pattern):
    """`formula AGGREGATE results BY by`. `late`: how late the formula is given."""

    formula: Pattern
    results: tuple[AggregateResult, ...]
    by: tuple[Variable, ...]
    late: int
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternProperties:
        arguments = [each.argument for each in self.results if each.argument is not None]
        return PatternProperties(
            (self.formula,),
            binds=(*(each.name for each in self.by), *(each.variable for each in self.results), KIND),
            mentions=(*used_variables(arguments), *self.by),
            goal=True,
        )

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        results = tuple(_renamed(each, names, names.get(each.variable, each.variable)) for each in self.results)
        by = tuple(map(renamer(names), self.by))
        return replace(self, formula=self.formula.renamed(names), by=by, results=results)

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        child, inner = self.formula.lower(builder, (), None)
        columns = {name: f"v{place}" for name, place in inner.items()}
        results = tuple(_renamed(each, columns, f"r{i}") for i, each in enumerate(self.results))
        groups = tuple(dict.fromkeys(each.name for each in self.by))
        names = (*groups, *(each.variable for each in self.results), KIND)
        made = Grouping(child, results, tuple(inner[name] for name in groups), inner[KIND], self.late)
        node = builder.add(made, names, self.span)
        places = {name: place for place, name in enumerate(names)}
        return decided(builder, node, places, components, self.span), places

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        return matcher.attempts(self.formula, bound)


def _renamed(result: AggregateResult, names: Mapping[str, str], variable: str) -> AggregateResult:
    argument = None if result.argument is None else rename_expression(result.argument, names)
    return replace(result, variable=variable, argument=argument)


@dataclass(frozen=True, slots=True)
class Grouping(Node):
    """What the tuples of a group that hold come to. Columns: the `by` columns, then a column a result, then what a
    change is."""

    child: int
    results: tuple[AggregateResult, ...]
    by: tuple[int, ...]
    kind: int
    late: int

    def describe(self) -> NodeProperties:
        arguments = [each.argument for each in self.results if each.argument is not None]
        return NodeProperties(
            "AGGREGATE",
            "formula",
            remembers=True,
            shows=(*(((0, column),) for column in self.by), *(() for _ in self.results), ()),
            looks=tuple((0, column) for column in sorted({*self.by, *places_of(arguments), self.kind})),
            groups=tuple((0, column) for column in self.by),
            completes=(0,),
            meeting=Meeting.GROUPS,
        )

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        child = inference.columns[self.child]
        results = [inference.result(self.child, result) for result in self.results]
        return (*(child[column] for column in self.by), *results, inference.column("int", False))

    def instants(self, parts: Sequence[bool]) -> bool:
        return True

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
