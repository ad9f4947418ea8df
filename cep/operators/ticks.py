"""Formulas about ticks: a time point, the first tick of a stream, and the tuples that hold at each tick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.core.fluents import SINCE_EVER
from cep.operators.disjunction import Either
from cep.operators.event import Atom
from cep.operators.holding import KIND
from cep.operators.supports import FormulaAtom
from cep.operators.where import added, decided
from cep.plan.formula import UNARY, WHOLE, FluentLateness, Formula, Lowering, Names, OverOne, OverSeveral
from cep.plan.node import FormulaNode, Meeting, Node, NodeProperties
from cep.plan.pattern import FormulaPattern, Pattern, PatternProperties
from cep.rules import pattern_text
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
class Point(Pattern):
    """The time point [ticks, ticks], in microseconds."""

    ticks: int
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternProperties:
        return PatternProperties()

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        return decided(builder, builder.add(Tick(self.ticks), (), self.span), {}, components, self.span), {}

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        late = self.ticks - matcher.until
        failure = matcher.failure("open", self, by=late) if late > 0 else None
        return [matcher.attempt(bound, self.ticks, self.ticks, failure=failure)]


@dataclass(frozen=True, slots=True)
class Tick(Node):
    """The node of a time point. It outputs the one occurrence [ticks, ticks], without columns."""

    ticks: int

    def describe(self) -> NodeProperties:
        return NodeProperties("a time point")

    def once(self) -> bool:
        return True

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        return ()

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        return Text("initially") if self.ticks == SINCE_EVER else pattern_text.time_point(self.ticks)

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals import relational

        return relational.TickGoal(self.ticks)


@dataclass(frozen=True, slots=True)
class TickAtoms(Node):
    """The node that outputs only the first of the equal occurrences in a tick.

    `tick`: the length of a tick in microseconds.
    """

    child: int
    tick: int
    width: int = field(default=0, compare=False)

    def describe(self) -> NodeProperties:
        shows = tuple(((0, column),) for column in range(self.width))
        return NodeProperties(
            "a tick",
            "filter",
            remembers=True,
            completes=(0,),
            meeting=Meeting.GROUPS,
            selects=True,
            constituents=(0,),
            shows=shows,
            groups=tuple((0, column) for column in range(self.width)),
        )

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        return tuple(inference.columns[self.child])

    def by_order(self, types: Sequence[str]) -> bool:
        return True

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        return sides[0]

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        return [("remembers", "the atoms of the tick"), ("forgets", "at its end")]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.each_tick import tick_atoms_of

        return tick_atoms_of(self, builder)


@dataclass(frozen=True, slots=True)
class FirstTickFormula(OverSeveral):
    """A formula that holds from the first tick in which one of several events occurs.

    - `first`: a tick from which the formula holds even if no event has occurred, or None.
    - `variable`: the variable that has the first tick.
    - `tick`: the length of a tick in microseconds.
    """

    parts: tuple[Formula, ...]
    variable: str
    tick: int
    first: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def written(self) -> list[str]:
        return [self.variable]

    def bound(self) -> Names:
        return frozenset({self.variable})

    def text(self) -> tuple[str, int]:
        return f"from the first tick {self.variable} on", WHOLE

    def late(self, lateness: FluentLateness) -> int:
        return self.tick - 1

    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        events = any_of(self.parts, self.span)
        if self.first is not None:
            events = Either(events, Point(self.first * self.tick, None, self.span), None, self.span)
        return FirstTickPattern(events, self.variable, self.tick, None, self.span)


def any_of(parts: Sequence[Formula], span: Span) -> Pattern:
    """Return a pattern for the occurrences of several events, without their arguments."""
    pattern: Pattern | None = None
    for part in parts:
        assert isinstance(part, FormulaAtom), "an event"
        atom = Atom(part.name, tuple(Variable("_") for _ in part.arguments), None, span)
        pattern = atom if pattern is None else Either(pattern, atom, None, span)
    assert pattern is not None, "there is an event"
    return pattern


@dataclass(frozen=True, slots=True)
class FirstTickPattern(FormulaPattern):
    """The pattern of `FirstTickFormula`. `events`: the pattern of the events."""

    events: Pattern
    variable: str
    tick: int
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternProperties:
        return PatternProperties((self.events,), binds=(self.variable, KIND), goal=True)

    def renamed(self, names: dict[str, str]) -> Pattern:  # type: ignore[override]
        return FirstTickPattern(
            self.events.renamed(names), names.get(self.variable, self.variable), self.tick, self.within, self.span
        )

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        child, _ = self.events.lower(builder, (), None)
        return added(builder, FirstTick(child, self.tick), (self.variable, KIND), components, self.span)

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        return reader.windows.from_first(self, self.events, self.variable, self.tick, bound)

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, code: int) -> list[Gap]:
        return []


@dataclass(frozen=True, slots=True)
class FirstTick(FormulaNode):
    """The node of the first tick. Its output tuple holds from the first occurrence on.

    Output columns: the tick, then the kind of change.
    """

    child: int
    tick: int

    def describe(self) -> NodeProperties:
        return NodeProperties(
            "first tick", "formula", remembers=True, shows=((), ()), completes=(0,), meeting=Meeting.GROUPS
        )

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        return (inference.column("int", False),) * 2

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        return Text("the first tick")

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        return [("remembers", "the tick of the first event")]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.windowed_event import first_tick_of

        return first_tick_of(self, builder)


@dataclass(frozen=True, slots=True)
class EachTickFormula(OverOne):
    """A formula that is evaluated at every tick. It binds `variable` to the tick.

    `tick`: the length of a tick in microseconds.
    """

    formula: Formula
    variable: str
    tick: int
    span: Span = field(default=NOWHERE, compare=False)

    def written(self) -> list[str]:
        return [self.variable]

    def bound(self) -> Names:
        return self.formula.bound() | {self.variable}

    def text(self) -> tuple[str, int]:
        return f"{self.formula.text()[0]} now, at {self.variable}", UNARY

    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        inner = lowering.lowered(self.formula, self.formula.bound() & keep, outside)
        if self.variable not in keep:
            return inner
        return EachTickPattern(inner, self.variable, self.tick, lowering.late_of(self.formula), None, self.span)


@dataclass(frozen=True, slots=True)
class EachTickPattern(FormulaPattern):
    """The pattern of `EachTickFormula`.

    `late`: the delay of the formula in microseconds. At watermark w, its changes up to time w - `late` are known.
    """

    formula: Pattern
    variable: str
    tick: int
    late: int
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternProperties:
        return PatternProperties((self.formula,), through=(self.formula,), binds=(self.variable,), goal=True)

    def renamed(self, names: dict[str, str]) -> Pattern:  # type: ignore[override]
        return EachTickPattern(
            self.formula.renamed(names),
            names.get(self.variable, self.variable),
            self.tick,
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
        node = EachTick(child, take, self.tick, self.late)
        return added(builder, node, (*names, self.variable, KIND), components, self.span)

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        return reader.windows.tick_by_tick(self, self.formula, self.variable, self.tick, bound)


@dataclass(frozen=True, slots=True)
class EachTick(FormulaNode):
    """The node of `EachTickFormula`. It outputs the tuples that hold at each tick.

    `take`: the columns of a tuple, then the column with the kind of change. Output columns: the columns of the tuple,
    the tick, then the kind of change.
    """

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
            shows=(*((place,) for place in places[:-1]), (), ()),
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
