"""Events in a window of ticks, as formulas: `p(X) at T in [5 sec]` of LARS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.core.evaluation_ticks import WindowTicks
from cep.core.literals import say_duration
from cep.operators.event import Atom
from cep.operators.holding import KIND
from cep.operators.supports import FormulaAtom, counted, kept
from cep.operators.where import added
from cep.plan.formula import UNARY, FluentLateness, Formula, Lowering, Names, OverOne
from cep.plan.node import FormulaNode, NodeProperties
from cep.plan.pattern import DelayedPattern, Pattern, PatternProperties
from cep.rules.pattern_text import Text
from cep.rules.terms import Constant, Variable

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


def window_text(window: WindowTicks) -> str:
    """Return the text that describes the ticks in a window."""
    if window.last is None:
        return "at any tick so far"
    if not window.last and window.step == 1:
        return "now"
    step = f" step {say_duration(window.step * window.tick)}" if window.step > 1 else ""
    return f"in [{say_duration(window.last * window.tick)}]{step}"


@dataclass(frozen=True, slots=True)
class WindowedFormula(OverOne):
    """A formula that holds at the ticks whose window contains an occurrence of an event.

    `variable`: the variable that has the tick of the occurrence, or None.
    """

    formula: Formula
    window: WindowTicks
    variable: str | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def written(self) -> list[str]:
        return [] if self.variable is None else [self.variable]

    def bound(self) -> Names:
        return self.formula.bound() | ({self.variable} if self.variable is not None else frozenset())

    def text(self) -> tuple[str, int]:
        at_text = "" if self.variable is None else f"at {self.variable} "
        return f"{self.formula.text()[0]} {at_text}{window_text(self.window)}", UNARY

    def late(self, lateness: FluentLateness) -> int:
        return self.window.late

    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        atom = self.formula
        assert isinstance(atom, FormulaAtom), "an event"
        values = tuple(argument for argument in atom.arguments if isinstance(argument, Variable | Constant))
        names = tuple(sorted(atom.bound() & keep))
        tick = self.variable if self.variable in keep else None
        event = Atom(atom.name, values, None, atom.span)
        return WindowedEventPattern(event, names, tick, self.window, None, self.span)


@dataclass(frozen=True, slots=True)
class WindowedEventPattern(DelayedPattern):
    """The pattern of `WindowedFormula`. It binds `names` and, if `variable` is set, the tick of the occurrence.

    `delay`: the delay with which output rows are emitted after a change, in microseconds.
    """

    event: Atom
    names: tuple[str, ...]
    variable: str | None
    window: WindowTicks
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)
    delay: int = 0

    def known_later(self, delay: int) -> Pattern:
        return replace(self, delay=delay)

    @property
    def _every(self) -> tuple[str, ...]:
        return (*self.names, *([] if self.variable is None else [self.variable]), KIND)

    def describe(self) -> PatternProperties:
        return PatternProperties((self.event,), binds=self._every, goal=True)

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        event = self.event.renamed(names)
        assert isinstance(event, Atom), "it stays one"
        tick = None if self.variable is None else names.get(self.variable, self.variable)
        return replace(self, event=event, names=kept(names, self.names), variable=tick)

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        child, inner = self.event.lower(builder, (), None)
        take = tuple(inner[name] for name in self.names)
        node = WindowedEvent(child, take, self.variable is not None, self.window, self.delay)
        return added(builder, node, self._every, components, self.span)

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        return matcher.attempts(self.event, bound)

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        return reader.windows.in_window(self.event, self.names, self.variable, self.window, bound)

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, code: int) -> list[Gap]:
        return gaps.of_atom(self.event, bound, code)


@dataclass(frozen=True, slots=True)
class WindowedEvent(FormulaNode):
    """The node of an event in a window. A tuple holds while the window contains an occurrence with its values.

    Output columns: the columns in `take`, the tick if `numbered`, then the kind of change.
    """

    child: int
    take: tuple[int, ...]
    numbered: bool
    ticks: WindowTicks
    delay: int = 0

    def describe(self) -> NodeProperties:
        properties = counted("a window", self.take, None)
        return replace(properties, shows=(*properties.shows, *([()] if self.numbered else [])))

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        child = inference.columns[self.child]
        more = [inference.column("int", False)] * (1 + self.numbered)
        return (*(child[column] for column in self.take), *more)

    def unbounded(self) -> tuple[str, str] | None:
        if self.ticks.last is not None:
            return None
        return "the events of all ticks are kept for ever", "a window, `p(X) at T in [1 h]`, bounds it"

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        at_text = f" at {rendering.names[number][len(self.take)]}" if self.numbered else ""
        return Text(f"{sides[0].text}{at_text} {window_text(self.ticks)}")

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        last = self.ticks.last
        if last is None:
            return [("remembers", "what has come, for ever")]
        ticks = "its own tick" if not last else f"tick k for the ticks from k to k + {last}"
        step = "" if self.ticks.step == 1 else f", by the last multiple of {self.ticks.step}"
        return [
            ("holds", f"an event at {ticks}{step}"),
            ("forgets", f"after {say_duration((last + 1) * self.ticks.tick)}"),
        ]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.windowed_event import windowed_event_of

        return windowed_event_of(self, builder)
