"""Atoms that rules derive for certain ticks, as `b at T`, in a window around each evaluation tick: `b at T in [5 sec]`
of LARS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.core.evaluation_ticks import WindowTicks
from cep.operators.holding import KIND
from cep.operators.where import added
from cep.operators.windowed_event import window_text
from cep.plan.formula import UNARY, Formula, Lowering, Names, OverOne
from cep.plan.node import FormulaNode, Meeting, NodeProperties
from cep.plan.pattern import FormulaPattern, Pattern, PatternProperties
from cep.rules.pattern_text import Text

if TYPE_CHECKING:
    from cep.explain.formulas import FormulaExtent, FormulaReader
    from cep.explain.judging import BoundValues
    from cep.operators.build import GoalBuilder
    from cep.operators.goals.contract import Goal
    from cep.plan.binarise import Binariser, Component
    from cep.plan.render import Rendering
    from cep.plan.types import ColumnType, Inference


@dataclass(frozen=True, slots=True)
class OwnTimesFormula(OverOne):
    """A formula that holds at each evaluation tick whose window contains the tick to which `variable` is bound.

    The inner `formula` binds this variable.
    """

    formula: Formula
    variable: str
    window: WindowTicks
    span: Span = field(default=NOWHERE, compare=False)

    def text(self) -> tuple[str, int]:
        return f"{self.formula.text()[0]} at {self.variable} {window_text(self.window)}", UNARY

    def written(self) -> list[str]:
        return [self.variable]

    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        inner = lowering.lowered(
            self.formula, self.formula.bound() & (keep | {self.variable}), outside | {self.variable}
        )
        pattern = OwnTimesPattern(inner, self.variable, self.window, lowering.late_of(self.formula), None, self.span)
        return lowering.projected(pattern, keep, self)


@dataclass(frozen=True, slots=True)
class OwnTimesPattern(FormulaPattern):
    """The pattern of `OwnTimesFormula`.

    `late`: the delay of the formula in microseconds. At watermark w, its changes up to time w - `late` are known.
    """

    formula: Pattern
    variable: str
    window: WindowTicks
    late: int
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternProperties:
        return PatternProperties((self.formula,), through=(self.formula,), goal=True)

    def renamed(self, names: dict[str, str]) -> Pattern:  # type: ignore[override]
        return OwnTimesPattern(
            self.formula.renamed(names),
            names.get(self.variable, self.variable),
            self.window,
            self.late,
            self.within,
            self.span,
        )

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        child, inner = self.formula.lower(builder, (), None)
        names = [name for name in sorted(inner, key=inner.__getitem__) if name != KIND]
        take = tuple(inner[name] for name in (*names, KIND))
        node = OwnTimes(child, take, names.index(self.variable), self.window, self.late)
        return added(builder, node, (*names, KIND), components, self.span)

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        return reader.windows.between_own_times(self, self.formula, self.variable, self.window, bound)


@dataclass(frozen=True, slots=True)
class OwnTimes(FormulaNode):
    """The node of `OwnTimesFormula`. A tuple holds at the ticks whose window contains the tuple's own tick.

    `tick_column`: the position of the own tick in `take`. Output columns: the columns in `take`; the last one is the
    kind of change.
    """

    child: int
    take: tuple[int, ...]
    tick_column: int
    ticks: WindowTicks
    late: int

    def describe(self) -> NodeProperties:
        places = tuple((0, column) for column in self.take)
        return NodeProperties(
            "a window",
            "formula",
            remembers=True,
            shows=(*((place,) for place in places[:-1]), ()),
            looks=(places[-1], places[self.tick_column]),
            groups=places[:-1],
            completes=(0,),
            meeting=Meeting.GROUPS,
            changing=(places[-1],),
        )

    def timed(self) -> bool:
        return True

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        return tuple(inference.columns[self.child][column] for column in self.take)

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        return Text(f"({sides[0].text}) at {rendering.names[number][self.tick_column]} {window_text(self.ticks)}")

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        return [("remembers", "what holds"), ("forgets", "when it ends")]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.own_times import own_times_of

        return own_times_of(self, builder)
