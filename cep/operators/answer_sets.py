"""Rules that are evaluated as an answer set program: what a solver is given of them, whatever solver that is.

A program of LARS whose negation goes in circles has no, one or several answer streams at a tick (Beck, Eiter, Folie,
*Ticker*, 2017, Definition 4). Its rules are text for the solver; what else they ask comes in as facts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.events import Iri, Value
from cep.operators.holding import KIND
from cep.operators.where import decided
from cep.plan.formula import UNARY, Formula, Lowering, Names, OverOne
from cep.plan.node import Meeting, Node, NodeProperties
from cep.plan.pattern import Pattern, PatternProperties
from cep.rules.pattern_text import Text
from cep.rules.terms import Comparison, Expression

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
class DerivedPredicate:
    """One that the rules derive, in the solver's text `d0`, `d1`, ... `timed`: some rule puts it at ticks, so its atoms
    carry the tick as one more argument."""

    name: str
    arity: int
    timed: bool


@dataclass(frozen=True, slots=True)
class AskedWindow:
    """A time window over what the rules themselves derive, of `ticks` ticks before the last multiple of `step`."""

    ticks: int
    step: int

    def span(self, first: int, now: int) -> tuple[int, int]:
        """Its first and last tick at a tick; none where that is the other way round."""
        last = now // self.step * self.step
        return max(first, last - self.ticks), last


@dataclass(frozen=True, slots=True)
class Calculation:
    """What the rules calculate of values, in the solver's text `@c(number, ..)`: an expression, or whether a comparison
    is true. `types`: of its variables."""

    variables: tuple[str, ...]
    types: tuple[str, ...]
    of: Expression | Comparison
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AnswerSetRules:
    """`text`: the rules. `inputs`: how many columns each relation has that they ask, `i0(..)`, `i1(..)`, ... in the
    text. `windows`: `w0(First, Last)` and so on, `n0` where the tick lies in one, `o0` where it is all of one; `now(N)`
    and `first(F)` are the tick and the first of the stream. `clocked`: whether the text asks these ticks."""

    text: str
    inputs: tuple[int, ...]
    derived: tuple[DerivedPredicate, ...]
    windows: tuple[AskedWindow, ...]
    calculations: tuple[Calculation, ...]
    clocked: bool

    @property
    def follows_ticks(self) -> bool:
        """Whether time alone changes what the rules say."""
        return self.clocked or bool(self.windows)


@dataclass(frozen=True, slots=True)
class AnswerSetTables:
    """How rows are read and written. A row that is asked has the number of its input, then places by type
    (`asked_types`): of each input (`asked`) those of its columns. A row that is given has a number, twice that of its
    predicate, one more of an atom at a tick, or that of a count of answer sets (`COUNTED`); the tick, or the count;
    the number of the answer set, from 1 on, where all are given; and then places likewise. `tick`: microseconds."""

    asked_types: tuple[str, ...]
    asked: tuple[tuple[int, ...], ...]
    given_types: tuple[str, ...]
    given: tuple[tuple[int, ...], ...]
    tick: int


COUNTED = -1
"""The number of the row that says how many answer sets there are."""
GIVEN_FIRST = 3
"""Of a row that is given the columns before its places."""


@dataclass(frozen=True, slots=True)
class AnswerSetFormula(OverOne):
    """The answer sets of rules at each tick. `formula` binds `asks`: a number, then places; it binds `names`: a number,
    a tick, the number of the answer set, then places. `every`: all of them are given. `seconds`: for how long one
    search may go on."""

    formula: Formula
    asks: tuple[str, ...]
    names: tuple[str, ...]
    rules: AnswerSetRules
    tables: AnswerSetTables
    every: bool
    seconds: float | None = field(default=None, compare=False)
    span: Span = field(default=NOWHERE, compare=False)

    def bound(self) -> Names:
        return frozenset(self.names)

    def written(self) -> list[str]:
        return [*self.asks, *self.names]

    def text(self) -> tuple[str, int]:
        return f"answer set of {self.formula.text()[0]}", UNARY

    def asks_whole(self) -> list[tuple[Formula, str, Span]]:
        return [(self.formula, "an answer set", self.span)]

    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        asked = frozenset(self.asks)
        inner = lowering.lowered(self.formula, asked, outside | asked)
        late = lowering.late_of(self.formula)
        made = AnswerSetPattern(
            inner, self.asks, self.names, self.rules, self.tables, self.every, late, None, self.seconds, self.span
        )
        return lowering.projected(made, keep, self)


@dataclass(frozen=True, slots=True)
class AnswerSetPattern(Pattern):
    """The answer sets of rules. `late`: how late the formula is given."""

    formula: Pattern
    asks: tuple[str, ...]
    names: tuple[str, ...]
    rules: AnswerSetRules
    tables: AnswerSetTables
    every: bool
    late: int
    within: int | None = None
    seconds: float | None = field(default=None, compare=False)
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternProperties:
        return PatternProperties((self.formula,), binds=(*self.names, KIND), goal=True)

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        asks, own = (tuple(names.get(name, name) for name in each) for each in (self.asks, self.names))
        return replace(self, formula=self.formula.renamed(names), asks=asks, names=own)

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        child, inner = self.formula.lower(builder, (), None)
        take = tuple(inner[name] for name in self.asks)
        made = AnswerSets(child, take, inner[KIND], self.rules, self.tables, self.every, self.late, self.seconds)
        names = (*self.names, KIND)
        node = builder.add(made, names, self.span)
        places = {name: place for place, name in enumerate(names)}
        return decided(builder, node, places, components, self.span), places

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        return matcher.attempts(self.formula, bound)

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        return reader.extents(self.formula, {})

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, at: int) -> list[Gap]:
        return []


@dataclass(frozen=True, slots=True)
class AnswerSets(Node):
    """Answer sets of rules at each tick. Columns: as `AnswerSetTables` says, then what a change is. `late`: how late
    what is asked, at `take`, is given."""

    child: int
    take: tuple[int, ...]
    kind: int
    rules: AnswerSetRules
    tables: AnswerSetTables
    every: bool
    late: int
    seconds: float | None = field(default=None, compare=False)

    def describe(self) -> NodeProperties:
        return NodeProperties(
            "an answer set",
            "formula",
            remembers=True,
            shows=((),) * (GIVEN_FIRST + len(self.tables.given_types) + 1),
            looks=tuple((0, column) for column in sorted({*self.take, self.kind})),
            completes=(0,),
            meeting=Meeting.GROUPS,
            needs_instant="an answer set",
            multiplies=True,
        )

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        types = ("int",) * GIVEN_FIRST + self.tables.given_types + ("int",)
        return tuple(inference.column(type, False) for type in types)

    def instants(self, parts: Sequence[bool]) -> bool:
        return True

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        names = ", ".join(each.name for each in self.rules.derived)
        return Text(f"answer set ({names}) of {sides[0].text}", 0, True)

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        when = "at every tick" if self.rules.follows_ticks else "when what is asked changes"
        return [
            ("searches", f"{when}, for {'all answer sets' if self.every else 'the one nearest to the last'}"),
            ("remembers", "what is asked, and the last answer set"),
            ("forgets", "what is asked when it ends"),
        ]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.answer_sets import answer_sets_of

        return answer_sets_of(self, builder)


def symbol_text(value: Value) -> str:
    """A constant as the solver's text has it."""
    match value:
        case bool():
            return f"b({int(value)})"
        case int():
            return str(value) if abs(value) < 2**31 else f'l("{value}")'
        case float():
            return symbol_text(int(value)) if value.is_integer() else f'f("{value!r}")'
        case Iri():
            return f"r({_quoted(str(value))})"
        case _:
            return _quoted(str(value))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return f'"{escaped}"'
