"""Tuples that hold as long as they have a support. A support is an occurrence of an event, an input tuple of a
projection, or a rule that derives the tuple."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.core.fluents import BEFORE, BEGINS, BEGINS_AT, ENDS, ENDS_AT, KINDS
from cep.core.literals import write_duration
from cep.operators.event import Atom, Scan, WholeTable
from cep.operators.holding import KIND
from cep.operators.where import added
from cep.plan.formula import UNARY, WHOLE, FluentLateness, Formula, Lowering, Names, formulas
from cep.plan.node import FormulaNode, Meeting, NodeProperties
from cep.plan.pattern import FormulaPattern, Pattern, PatternProperties
from cep.rules.pattern_text import Text
from cep.rules.printing import print_argument, print_arguments
from cep.rules.terms import Constant, Expression, Variable, fluent_variables

if TYPE_CHECKING:
    from cep.explain.formulas import FormulaExtent, FormulaReader
    from cep.explain.gaps import FormulaGaps, Gap
    from cep.explain.judging import BoundValues
    from cep.operators.build import GoalBuilder
    from cep.operators.goals.contract import Goal
    from cep.plan.binarise import Binariser, Component
    from cep.plan.render import Rendering
    from cep.plan.types import ColumnType, Inference

EDGES = (BEGINS, ENDS, BEFORE, BEGINS_AT, ENDS_AT)
"""The kinds of rows that are changes."""


def kept(names: Mapping[str, str], own: Sequence[str]) -> tuple[str, ...]:
    return tuple(names.get(name, name) for name in own)


@dataclass(frozen=True, slots=True)
class FormulaAtom(Formula):
    """A fluent or event in a formula: `f(X, 3)`, `f(X) = v`, `e(X)`, `e(X) WITHIN d`.

    `within`: the duration d in microseconds. `names`: the attribute names, if arguments are written by name.
    """

    name: str
    arguments: tuple[Expression, ...]
    names: tuple[str, ...] | None = None
    value: Expression | None = None
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def inside(self) -> tuple[Formula, ...]:
        return ()

    def over(self, parts: tuple[Formula, ...]) -> Formula:
        return self

    def written(self) -> list[str]:
        return fluent_variables(self.arguments, self.value)

    def bound(self) -> Names:
        return frozenset(argument.name for argument in (*self.arguments, self.value) if isinstance(argument, Variable))

    def text(self) -> tuple[str, int]:
        text = self.name + print_arguments(self.arguments)
        if self.names is not None:
            pairs = zip(self.names, self.arguments, strict=True)
            text = f"{self.name}({', '.join(f'{key}: {print_argument(argument)}' for key, argument in pairs)})"
        text += "" if self.value is None else f" = {print_argument(self.value)}"
        return (text, UNARY) if self.within is None else (f"{text} WITHIN {write_duration(self.within)}", WHOLE)

    def late(self, lateness: FluentLateness) -> int:
        return lateness.late(self.name) if self.name in lateness.declared else self.within or 0

    def why_late(self) -> str | None:
        if not self.within:
            return None
        return f"`{self.name}` is known only when it ends: use `BEGIN OF` a fluent, or an event for its beginning"

    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        values = tuple(argument for argument in self.arguments if isinstance(argument, Variable | Constant))
        edges = lowering.edges(self.name)
        if edges is None:
            names = tuple(sorted(self.bound() & keep))
            return FormulaEventPattern(Atom(self.name, values, None, self.span), names, self.within, None, self.span)
        return lowering.projected(Atom(edges, (*values, Variable(KIND, self.span)), None, self.span), keep, self)


def formula_atoms(formula: Formula) -> list[FormulaAtom]:
    return [formula for formula in formulas(formula) if isinstance(formula, FormulaAtom)]


@dataclass(frozen=True, slots=True)
class FormulaEventPattern(FormulaPattern):
    """An event in a formula. It holds during its occurrences.

    `names`: the variables of the output. `longest`: the maximum length of an occurrence in microseconds. It is None if
    all occurrences are instants.
    """

    event: Atom
    names: tuple[str, ...]
    longest: int | None = None
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternProperties:
        return PatternProperties((self.event,), binds=(*self.names, KIND), goal=True)

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        event = self.event.renamed(names)
        assert isinstance(event, Atom), "it stays one"
        return replace(self, event=event, names=kept(names, self.names))

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        child, inner = self.event.lower(builder, (), None)
        take = tuple(inner[name] for name in self.names)
        return added(builder, FormulaEvent(child, take, self.longest), (*self.names, KIND), components, self.span)

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        return reader.of_event(self.event, self.names, self.longest, bound)

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, code: int) -> list[Gap]:
        return gaps.of_atom(self.event, bound, code)


@dataclass(frozen=True, slots=True)
class ProjectionPattern(FormulaPattern):
    """The projection of a formula to some of its variables. It holds while the formula holds for at least one value of
    the others.

    - `late`: the delay of the formula in microseconds. At watermark w, its changes up to time w - `late` are known.
    - `delay`: the delay with which output rows are emitted after a change, in microseconds.
    - `closed`: "begin" or "end" to extend each interval by the instant at which it begins or ends. None: intervals
      stay as they are.
    """

    formula: Pattern
    names: tuple[str, ...]
    late: int
    delay: int = 0
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)
    closed: str | None = None

    def describe(self) -> PatternProperties:
        return PatternProperties((self.formula,), binds=(*self.names, KIND), goal=True)

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        return replace(self, formula=self.formula.renamed(names), names=kept(names, self.names))

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        child, inner = self.formula.lower(builder, (), None)
        take = tuple(inner[name] for name in self.names)
        node = Projection(child, take, inner[KIND], self.late, self.delay, self.closed)
        return added(builder, node, (*self.names, KIND), components, self.span)

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        return reader.onto(self.formula, self.names, bound, self.closed)


@dataclass(frozen=True, slots=True)
class ExtentPattern(WholeTable):
    """The pattern of a fluent that formulas define. It reads the formulas' results, and yields the fluent's changes.

    `event`: the table of the results. `names`: the variables of the table's columns. These are the arguments, the
    value, the kind of row, and the number of the rule.
    """

    event: str
    names: tuple[str, ...]
    late: int
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        child = builder.add(Scan(self.event, (), (), tuple(range(len(self.names)))), self.names, self.span)
        own = self.names[:-1]
        node = builder.add(Extent(child, len(own) - 1, self.late), own, self.span)
        return node, {name: place for place, name in enumerate(own)}


class _Counted(FormulaNode):
    """The base class of nodes that count the supports of tuples."""

    __slots__ = ()
    child: int

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        return [("remembers", "how many things support each tuple that holds"), ("forgets", "when it ends")]


def counted(word: str, take: Sequence[int], kind: int | None) -> NodeProperties:
    """Return the properties of a node that counts the supports of each tuple of the columns in `take`.

    `word`: the node's name. `kind`: the column with the kind of change, or None.
    """
    return NodeProperties(
        word,
        "formula",
        remembers=True,
        shows=(*(((0, column),) for column in take), ()),
        looks=() if kind is None else ((0, kind),),
        groups=tuple((0, column) for column in take),
        completes=(0,),
        meeting=Meeting.GROUPS,
    )


@dataclass(frozen=True, slots=True)
class Projection(_Counted):
    """The node of a projection. A tuple of the columns in `take` holds while an input tuple that has these values
    holds.

    `closed`: see `ProjectionPattern`. Output columns: the columns in `take`, then the kind of change.
    """

    child: int
    take: tuple[int, ...]
    kind: int
    late: int
    delay: int = 0
    closed: str | None = None

    def describe(self) -> NodeProperties:
        return replace(counted("WHILE", self.take, self.kind), constituents=(0,))

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        child = inference.columns[self.child]
        return tuple(child[column] for column in (*self.take, self.kind))

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        return sides[0]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.supports import projection_of

        return projection_of(self, builder)


@dataclass(frozen=True, slots=True)
class FormulaEvent(_Counted):
    """The node of an event in a formula. A tuple holds during the occurrences that have the tuple's values.

    `within`: the maximum length of an occurrence. Longer occurrences are dropped. If it is None, all occurrences are
    instants. Output columns: the columns in `take`, then the kind of change.
    """

    child: int
    take: tuple[int, ...]
    within: int | None

    def describe(self) -> NodeProperties:
        return replace(counted("an event in a formula", self.take, None), constituents=(0,))

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        child = inference.columns[self.child]
        return (*(child[column] for column in self.take), inference.column("int", False))

    def refused(self, parts: Sequence[bool]) -> tuple[str, str] | None:
        if self.within is not None or parts[0]:
            return None
        return (
            "a formula cannot contain an event that is not an instant",
            "say how long it lasts at most, `(e(X) WITHIN 1 h)`; or declare it with TIME if it is an instant",
        )

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        return sides[0]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.supports import formula_event_of

        return formula_event_of(self, builder)


@dataclass(frozen=True, slots=True)
class Extent(_Counted):
    """The node of a fluent that formulas define. `width`: the number of the fluent's columns.

    Output columns: the fluent's columns, then the kind of row (see `cep.core.fluents`).
    """

    child: int
    width: int
    late: int

    def describe(self) -> NodeProperties:
        return counted("a fluent", range(self.width), self.width)

    def settles(self) -> bool:
        return True

    def instants(self, parts: Sequence[bool]) -> bool:
        return False

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        return inference.columns[self.child][: self.width + 1]

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        return Text(f"extent of {sides[0].text}")

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.supports import extent_of

        return extent_of(self, builder, number, kinds_read(builder, number, EDGES))


def kinds_read(builder: GoalBuilder, number: int, changes: Sequence[int]) -> list[int]:
    """Return the kinds of a fluent's rows that some reader needs: another node, or the output of the program.

    `number`: the number of the fluent's node. `changes`: the kinds that a scan reads unless the scan selects a single
    kind. In a stage, all kinds are returned, because other stages may read them.
    """
    if builder.plan.origin is not None:
        return list(range(KINDS))
    read = set(changes) if builder.plan.changes or builder.plan.begins else set[int]()
    for event in builder.events_of(number):
        last = len(builder.plan.schemas[event].attributes) - 1
        for place, scan in builder.scans.get(event, ()):
            if place not in builder.unread:
                kinds = [int(constant.value) for column, constant in scan.constants if column == last]
                read.update(kinds or changes)
    return sorted(read)
