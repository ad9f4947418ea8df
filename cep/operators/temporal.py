"""Temporal operators of formulas: `ONCE[0, 2 s] p`, `p SINCE q`, `p LASTING >= 10 min` and the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.core.interval_sets import INFINITE, Reach
from cep.core.literals import say_duration
from cep.operators.holding import KIND
from cep.operators.where import decided
from cep.plan.node import Meeting, Node, NodeProperties
from cep.plan.pattern import Pattern, PatternProperties
from cep.plan.types import grown
from cep.rules.formulas import FUTURE
from cep.rules.pattern_text import Text

if TYPE_CHECKING:
    from cep.explain.judging import BoundValues
    from cep.explain.matching import Attempt, Matcher
    from cep.operators.build import GoalBuilder
    from cep.operators.goals.contract import Goal
    from cep.plan.binarise import Binariser, Component
    from cep.plan.render import Rendering
    from cep.plan.types import ColumnType, Inference


@dataclass(frozen=True, slots=True)
class TemporalPattern(Pattern):
    """An operator over one formula, or over two of the same variables. `by`: how far it reaches, None of LASTING, which
    asks for `least` microseconds. `lates`: how late the formulas are given."""

    operator: str
    left: Pattern
    right: Pattern | None
    by: Reach | None
    least: int
    lates: tuple[int, ...]
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternProperties:
        both = (self.left,) if self.right is None else (self.left, self.right)
        return PatternProperties(both, through=both, goal=True)

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        right = None if self.right is None else self.right.renamed(names)
        return replace(self, left=self.left.renamed(names), right=right)

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        left, mine = self.left.lower(builder, (), None)
        names = [name for name in sorted(mine, key=mine.__getitem__) if name != KIND]
        take = [tuple(mine[name] for name in (*names, KIND))]
        right = None
        if self.right is not None:
            right, theirs = self.right.lower(builder, (), None)
            take.append(tuple(theirs[name] for name in (*names, KIND)))
        made = Temporal(self.operator, left, right, tuple(take), self.by, self.least, self.lates)
        node = builder.add(made, (*names, KIND), self.span)
        places = {name: place for place, name in enumerate((*names, KIND))}
        return decided(builder, node, places, components, self.span), places

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        return matcher.attempts(self.left if self.right is None else self.right, bound)


@dataclass(frozen=True, slots=True)
class Temporal(Node):
    """The operator over columns: `take`, of each part those that make a tuple, the last says what a change is. Columns:
    the tuple's, then what a change is."""

    operator: str
    left: int
    right: int | None
    take: tuple[tuple[int, ...], ...]
    by: Reach | None
    least: int
    lates: tuple[int, ...]

    def describe(self) -> NodeProperties:
        places = [tuple((part, column) for part, column in enumerate(columns)) for columns in zip(*self.take)]
        first = places[:-1]
        return NodeProperties(
            self.operator,
            "formula",
            remembers=True,
            timed=True,
            shows=(*first, ()),
            looks=places[-1],
            equal=tuple((each[0], each[1]) for each in first) if self.right is not None else (),
            groups=tuple(each[0] for each in first),
            completes=(0,),
            meeting=Meeting.GROUPS if self.right is None else Meeting.PAIRS,
        )

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        left = [inference.columns[self.left][column] for column in self.take[0]]
        if self.right is None:
            return tuple(left)
        for one, other in zip(self.take[0][:-1], self.take[1]):
            inference.meet(number, (self.left, one), (self.right, other))
        right = [inference.columns[self.right][column] for column in self.take[1]]
        pairs = zip(left, right, strict=True)
        return tuple(inference.column(grown(one.type, two.type), one.optional or two.optional) for one, two in pairs)

    def instants(self, parts: Sequence[bool]) -> bool:
        return True

    def unbounded(self) -> tuple[str, str] | None:
        if self.by is None or self.by.high != INFINITE:
            return None
        if self.operator == "ONCE":
            return "this ONCE never forgets: what has held is kept for ever", "`ONCE[0, 1 h]` bounds it"
        return self.known_at_end()

    def known_at_end(self) -> tuple[str, str] | None:
        if self.by is None or self.by.high != INFINITE or self.operator not in FUTURE:
            return None
        word = self.operator
        return f"this {word} is known at the end of the input alone", f"`{word}[0, 1 h]` is known an hour later"

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        if self.right is not None:
            return Text(f"({sides[0].text}) {self.operator} ({sides[1].text})")
        return Text(f"{self.operator} ({sides[0].text})")

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        never = self.by is not None and self.by.high == INFINITE
        reached = self.least if self.by is None else self.by.high // 2
        return [
            ("key", ", ".join(rendering.names[number][:-1]) or "none: there is one"),
            ("remembers", "what follows of it later"),
            ("forgets", "never" if never else f"after {say_duration(reached)}"),
        ]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.temporal import temporal_of

        return temporal_of(self, builder, number)
