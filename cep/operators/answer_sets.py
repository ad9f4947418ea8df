"""The formula, the pattern and the node for LARS rules. These rules are evaluated by answer sets (see
`cep.rules.answer_set_rules`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.operators.holding import KIND
from cep.operators.where import added
from cep.plan.formula import UNARY, Formula, Lowering, Names, OverOne
from cep.plan.node import FormulaNode, Meeting, NodeProperties
from cep.plan.pattern import FormulaPattern, Pattern, PatternProperties
from cep.rules.answer_set_rules import GIVEN_FIRST, AnswerSetRules, AnswerSetTables
from cep.rules.pattern_text import Text

if TYPE_CHECKING:
    from cep.explain.formulas import FormulaExtent, FormulaReader
    from cep.explain.gaps import FormulaGaps, Gap
    from cep.explain.judging import BoundValues
    from cep.operators.build import GoalBuilder
    from cep.operators.goals.contract import Goal
    from cep.plan.binarise import Binariser, Component
    from cep.plan.render import Rendering
    from cep.plan.types import ColumnType, Inference


@dataclass(frozen=True, slots=True)
class AnswerSetFormula(OverOne):
    """A formula for the answer sets of rules at each tick.

    - `asks`: the variables of the input. The first is the number of a fact's predicate, the others are the fact's
      values.
    - `names`: the variables of the output. They are, in this order, the number of a predicate, the tick, the number of
      the answer set, and the values.
    - `every`: True if all answer sets are output, not only one.
    - `seconds`: the time limit of a search.
    """

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
        pattern = AnswerSetPattern(
            inner, self.asks, self.names, self.rules, self.tables, self.every, late, None, self.seconds, self.span
        )
        return lowering.projected(pattern, keep, self)


@dataclass(frozen=True, slots=True)
class AnswerSetPattern(FormulaPattern):
    """The pattern of `AnswerSetFormula`.

    `late`: the delay of the formula in microseconds. At watermark w, its changes up to time w - `late` are known.
    """

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
        asks, own = (tuple(names.get(name, name) for name in group) for group in (self.asks, self.names))
        return replace(self, formula=self.formula.renamed(names), asks=asks, names=own)

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        child, inner = self.formula.lower(builder, (), None)
        take = tuple(inner[name] for name in self.asks)
        node = AnswerSets(child, take, inner[KIND], self.rules, self.tables, self.every, self.late, self.seconds)
        names = (*self.names, KIND)
        return added(builder, node, names, components, self.span)

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        return reader.solved(self, self.formula, bound)

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, code: int) -> list[Gap]:
        return []


@dataclass(frozen=True, slots=True)
class AnswerSets(FormulaNode):
    """The node of `AnswerSetFormula`. Its output columns are those that `AnswerSetTables` describes, then the kind of
    change.

    `take`: the input columns that form a fact. `late`: the delay of the input in microseconds. At watermark w, its
    changes up to time w - `late` are known.
    """

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

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        names = ", ".join(predicate.name for predicate in self.rules.derived)
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
