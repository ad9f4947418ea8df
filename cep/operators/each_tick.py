"""What holds, tick by tick: each tuple at every evaluation tick as one of its own, with the tick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.operators.holding import KIND
from cep.operators.where import decided
from cep.plan.formula import UNARY, Formula, Lowering, Names, OverOne
from cep.plan.node import Meeting, Node, NodeProperties
from cep.plan.pattern import Pattern, PatternProperties
from cep.rules.pattern_text import Text

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
class EachTickFormula(OverOne):
    """The formula at every evaluation tick, with the tick as the variable `at`. `tick`: microseconds of one."""

    formula: Formula
    at: str
    tick: int
    span: Span = field(default=NOWHERE, compare=False)

    def written(self) -> list[str]:
        return [self.at]

    def bound(self) -> Names:
        return self.formula.bound() | {self.at}

    def text(self) -> tuple[str, int]:
        return f"{self.formula.text()[0]} now, at {self.at}", UNARY

    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        inner = lowering.lowered(self.formula, self.formula.bound() & keep, outside)
        if self.at not in keep:
            return inner
        return EachTickPattern(inner, self.at, self.tick, lowering.late_of(self.formula), None, self.span)


@dataclass(frozen=True, slots=True)
class EachTickPattern(Pattern):
    """A formula tick by tick. `late`: how late it is given."""

    formula: Pattern
    at: str
    tick: int
    late: int
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternProperties:
        return PatternProperties((self.formula,), through=(self.formula,), binds=(self.at,), goal=True)

    def renamed(self, names: dict[str, str]) -> Pattern:  # type: ignore[override]
        return EachTickPattern(
            self.formula.renamed(names), names.get(self.at, self.at), self.tick, self.late, self.within, self.span
        )

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        child, inner = self.formula.lower(builder, (), None)
        names = [name for name in sorted(inner, key=inner.__getitem__) if name != KIND]
        take = tuple(inner[name] for name in (*names, KIND))
        every = (*names, self.at, KIND)
        node = builder.add(EachTick(child, take, self.tick, self.late), every, self.span)
        places = {name: place for place, name in enumerate(every)}
        return decided(builder, node, places, components, self.span), places

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        return matcher.attempts(self.formula, bound)

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        return reader.windows.tick_by_tick(self, self.formula, self.at, self.tick, bound)

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, at: int) -> list[Gap]:
        return gaps.lacks(self.formula, bound, at)


@dataclass(frozen=True, slots=True)
class EachTick(Node):
    """Tuples of a formula, the columns at `take`, the last of which says what a change is, at each tick with the tick.
    Columns: the tuple's, the tick, then what a change is."""

    child: int
    take: tuple[int, ...]
    tick: int
    late: int

    def describe(self) -> NodeProperties:
        places = tuple((0, column) for column in self.take)
        return NodeProperties(
            "each tick",
            "formula",
            remembers=True,
            shows=(*((each,) for each in places[:-1]), (), ()),
            looks=(places[-1],),
            groups=places[:-1],
            completes=(0,),
            meeting=Meeting.GROUPS,
            changing=(places[-1],),
        )

    def unending(self) -> bool:
        return True

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        child = inference.columns[self.child]
        return (*(child[column] for column in self.take[:-1]), *([inference.column("int", False)] * 2))

    def instants(self, parts: Sequence[bool]) -> bool:
        return True

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        return Text(f"({sides[0].text}) now, at {rendering.names[number][-2]}")

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        return [
            ("holds", "tick by tick, each with its number"),
            ("remembers", "what holds"),
            ("forgets", "when it ends"),
        ]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.each_tick import each_tick_of

        return each_tick_of(self, builder)
