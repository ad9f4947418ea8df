"""The first tick of a stream, from which on its timeline goes: the tick of the first event of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.operators.either import Either
from cep.operators.event import Atom
from cep.operators.holding import KIND
from cep.operators.supports import FormulaAtom
from cep.operators.time_point import Point
from cep.operators.where import decided
from cep.plan.formula import WHOLE, FluentLateness, Formula, Lowering, Names, OverSeveral
from cep.plan.node import Meeting, Node, NodeProperties
from cep.plan.pattern import Pattern, PatternProperties
from cep.rules.pattern_text import Text
from cep.rules.terms import Variable

if TYPE_CHECKING:
    from cep.explain.formulas import FormulaExtent, FormulaReader
    from cep.explain.gaps import FormulaGaps, Gap
    from cep.explain.judging import BoundValues
    from cep.explain.matching import Attempt, Matcher
    from cep.operators.build import GoalBuilder
    from cep.operators.goals.contract import Goal
    from cep.plan.binarise import Binariser, Component
    from cep.plan.render import Rendering
    from cep.plan.types import ColumnType, Inference


@dataclass(frozen=True, slots=True)
class FirstTickFormula(OverSeveral):
    """From the tick `at` of the first of several events on, or from the tick `first`, if that is earlier. `tick`:
    microseconds."""

    parts: tuple[Formula, ...]
    at: str
    tick: int
    first: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def written(self) -> list[str]:
        return [self.at]

    def bound(self) -> Names:
        return frozenset({self.at})

    def text(self) -> tuple[str, int]:
        return f"from the first tick {self.at} on", WHOLE

    def late(self, lateness: FluentLateness) -> int:
        return self.tick - 1

    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        events = any_of(self.parts, self.span)
        if self.first is not None:
            events = Either(events, Point(self.first * self.tick, None, self.span), None, self.span)
        return FirstTickPattern(events, self.at, self.tick, None, self.span)


def any_of(parts: Sequence[Formula], span: Span) -> Pattern:
    """Occurrences of several events, without what they are of."""
    made: Pattern | None = None
    for part in parts:
        assert isinstance(part, FormulaAtom), "an event"
        one = Atom(part.name, tuple(Variable("_") for _ in part.arguments), None, span)
        made = one if made is None else Either(made, one, None, span)
    assert made is not None, "there is an event"
    return made


@dataclass(frozen=True, slots=True)
class FirstTickPattern(Pattern):
    """From the tick `at` of the first of some occurrences on."""

    events: Pattern
    at: str
    tick: int
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternProperties:
        return PatternProperties((self.events,), binds=(self.at, KIND), goal=True)

    def renamed(self, names: dict[str, str]) -> Pattern:  # type: ignore[override]
        return FirstTickPattern(
            self.events.renamed(names), names.get(self.at, self.at), self.tick, self.within, self.span
        )

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        child, _ = self.events.lower(builder, (), None)
        node = builder.add(FirstTick(child, self.tick), (self.at, KIND), self.span)
        places = {self.at: 0, KIND: 1}
        return decided(builder, node, places, components, self.span), places

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        return matcher.attempts(self.events, bound)

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        return reader.windows.from_first(self, self.events, self.at, self.tick, bound)

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, at: int) -> list[Gap]:
        return []


@dataclass(frozen=True, slots=True)
class FirstTick(Node):
    """The tick of the first occurrence, from which on it holds. Columns: it, then what a change is."""

    child: int
    tick: int

    def describe(self) -> NodeProperties:
        return NodeProperties(
            "first tick", "formula", remembers=True, shows=((), ()), completes=(0,), meeting=Meeting.GROUPS
        )

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        return (inference.column("int", False),) * 2

    def instants(self, parts: Sequence[bool]) -> bool:
        return True

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        return Text("the first tick")

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        return [("remembers", "the tick of the first event")]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.first_tick import first_tick_of

        return first_tick_of(self, builder)
