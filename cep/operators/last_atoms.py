"""The last atoms by arrival, as a formula: `p(X) at T in [3 #]` of LARS, a window of tuples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.operators.event import Atom
from cep.operators.holding import KIND
from cep.operators.supports import FormulaAtom, kept
from cep.operators.ticks import TickAtoms
from cep.operators.where import added
from cep.plan.formula import UNARY, FluentLateness, Formula, Lowering, Names, OverSeveral
from cep.plan.node import FormulaNode, Meeting, NodeProperties
from cep.plan.pattern import Pattern, PatternProperties
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


@dataclass(frozen=True, slots=True)
class LastAtomsFormula(OverSeveral):
    """A formula that holds for an event while it is among the last `atoms` of the `arrivals`, in order of arrival.

    Equal occurrences in the same tick count once.

    - `formula`: the event, or None for any of the arrivals.
    - `by`: argument positions. Arrivals with different values in these positions are counted separately. Only used if
      all arrivals are of one event.
    - `variable`: the variable that has the tick of the event, or None.
    - `oldest`: True if the formula holds only while the event is the oldest in the window.
    - `tick`: the length of a tick in microseconds.
    """

    formula: Formula | None
    arrivals: tuple[Formula, ...]
    atoms: int
    by: tuple[int, ...]
    tick: int
    variable: str | None = None
    oldest: bool = False
    span: Span = field(default=NOWHERE, compare=False)

    def inside(self) -> tuple[Formula, ...]:
        return self.arrivals if self.formula is None else (self.formula, *self.arrivals)

    def over(self, parts: tuple[Formula, ...]) -> LastAtomsFormula:
        if self.formula is None:
            return replace(self, arrivals=parts)
        return replace(self, formula=parts[0], arrivals=parts[1:])

    def written(self) -> list[str]:
        return [] if self.variable is None else [self.variable]

    def bound(self) -> Names:
        own = frozenset[str]() if self.formula is None else self.formula.bound()
        return own | (frozenset() if self.variable is None else {self.variable})

    def text(self) -> tuple[str, int]:
        at_text = "" if self.variable is None else f" at {self.variable}"
        return f"{'_' if self.formula is None else self.formula.text()[0]}{at_text} in [{self.atoms} #]", UNARY

    def late(self, lateness: FluentLateness) -> int:
        return self.tick - 1

    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        own = None if self.formula is None else _atom(self.formula)
        names = () if self.formula is None else tuple(sorted(self.formula.bound() & keep))
        tick = self.variable if self.variable in keep or (self.oldest and self.formula is None) else None
        arrivals = tuple(map(_atom, self.arrivals))
        pattern = LastAtomsPattern(
            own, arrivals, names, tick, self.atoms, self.by, self.tick, self.oldest, None, self.span
        )
        return lowering.projected(pattern, keep, self)


def _atom(formula: Formula) -> Atom:
    assert isinstance(formula, FormulaAtom), "an event"
    values = tuple(argument for argument in formula.arguments if isinstance(argument, Variable | Constant))
    return Atom(formula.name, values, None, formula.span)


@dataclass(frozen=True, slots=True)
class LastAtomsPattern(Pattern):
    """The pattern of `LastAtomsFormula`. It binds `names` and, if `variable` is set, the tick of the event."""

    event: Atom | None
    arrivals: tuple[Atom, ...]
    names: tuple[str, ...]
    variable: str | None
    atoms: int
    by: tuple[int, ...]
    tick: int
    oldest: bool
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def _every(self) -> tuple[str, ...]:
        return (*self.names, *([] if self.variable is None else [self.variable]), KIND)

    def describe(self) -> PatternProperties:
        own = self.arrivals if self.event is None else (self.event, *self.arrivals)
        return PatternProperties(own, binds=self._every, goal=True)

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        event = None if self.event is None else self.event.renamed(names)
        tick = None if self.variable is None else names.get(self.variable, self.variable)
        assert event is None or isinstance(event, Atom), "it stays one"
        return replace(self, event=event, names=kept(names, self.names), variable=tick)

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        right = self._arriving(builder)
        left = right
        take: tuple[int, ...] = ()
        if self.event is not None:
            scanned, inner = self.event.lower(builder, (), None)
            left = builder.add(TickAtoms(scanned, self.tick, len(inner)), tuple(inner), self.span)
            take = tuple(inner[name] for name in self.names)
        keys = tuple(inner[name] for name in self._keys) if self.event is not None else ()
        node = LastAtoms(
            left, right, take, self.variable is not None, self.atoms, self.by, self.tick, self.oldest, keys
        )
        return added(builder, node, self._every, components, self.span)

    @property
    def _keys(self) -> list[str]:
        arguments = [] if self.event is None else [self.event.arguments[place] for place in self.by]
        return [argument.name for argument in arguments if isinstance(argument, Variable)]

    def _arriving(self, builder: Binariser) -> int:
        """Return the number of a node that outputs all arrivals. The node has argument columns only if all arrivals are
        of one event."""
        from cep.operators.disjunction import Union

        node: int | None = None
        for atom in self.arrivals:
            scanned, inner = atom.lower(builder, (), None)
            arriving = builder.add(TickAtoms(scanned, self.tick, len(inner)), tuple(inner), self.span)
            node = arriving if node is None else builder.add(Union(node, arriving, (), ()), (), self.span)
        assert node is not None, "an event arrives"
        return node

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        return matcher.attempts(self.event or self.arrivals[0], bound)

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        return reader.windows.among_last(self, bound)

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, code: int) -> list[Gap]:
        return gaps.of_atom(self.event or self.arrivals[0], bound, code)


@dataclass(frozen=True, slots=True)
class LastAtoms(FormulaNode):
    """The node of a window of tuples. A left occurrence holds while it is among the last `atoms` right occurrences.

    Each left occurrence is also a right one.

    - `keys`, `by`: columns of the left and of the right side. A right occurrence counts for a left one only if they are
      equal in these columns.
    - `oldest`: True if a left occurrence holds only while it is the oldest in the window.
    - `numbered`: True to output the tick of the left occurrence.

    Output columns: the left columns in `take`, the tick if `numbered`, then the kind of change.
    """

    left: int
    right: int
    take: tuple[int, ...]
    numbered: bool
    atoms: int
    by: tuple[int, ...]
    tick: int
    oldest: bool
    keys: tuple[int, ...] = field(default=(), compare=False)

    def describe(self) -> NodeProperties:
        more = ((),) * (1 + self.numbered)
        shown = (((0, column),) if column in self.keys else () for column in self.take)
        return NodeProperties(
            "window of tuples",
            "formula",
            remembers=True,
            shows=(*shown, *more),
            looks=(*((0, column) for column in self.take), *((1, column) for column in self.by)),
            groups=(*((0, column) for column in self.keys), *((1, column) for column in self.by)),
            completes=(0,),
            meeting=Meeting.GROUPS,
        )

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        left = inference.columns[self.left]
        more = [inference.column("int", False)] * (1 + self.numbered)
        return (*(left[column] for column in self.take), *more)

    def by_order(self, types: Sequence[str]) -> bool:
        return True

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        at_text = f" at {rendering.names[number][len(self.take)]}" if self.numbered else ""
        return Text(f"{sides[0].text}{at_text} in [{self.atoms} #]")

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        holds = "while it is the oldest of them" if self.oldest else "until so many others have come"
        return [("holds", holds), ("remembers", f"the last {self.atoms} atoms"), ("forgets", "what came before")]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.last_atoms import last_atoms_of

        return last_atoms_of(self, builder)
