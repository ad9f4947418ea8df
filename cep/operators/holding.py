"""`p WHERE moving(V), location(P) = X, not docked(V)`: fluents that hold at the end of an occurrence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.core.fluents import author_name
from cep.operators.event import Atom
from cep.operators.where import KIND as KIND
from cep.operators.where import added
from cep.plan.lint.ranges import Ranges, Searcher
from cep.plan.node import Meeting, Node, NodeProperties
from cep.plan.pattern import Omission, Pattern, PatternProperties, variables
from cep.plan.rule_edits import ABSENCE, CONDITION
from cep.rules.pattern_text import Text

if TYPE_CHECKING:
    from cep.explain.judging import BoundValues
    from cep.explain.matching import Attempt, Matcher
    from cep.operators.build import GoalBuilder
    from cep.operators.goals.contract import Goal
    from cep.plan.binarise import Binariser, Component
    from cep.plan.render import Rendering
    from cep.plan.types import ColumnType, Inference

ANY = "_'"
"""The prefix of variables that stand for arguments of a fluent that may have any value."""


@dataclass(frozen=True, slots=True)
class HoldingPattern(Pattern):
    """`pattern WHERE fluent`, or `pattern WHERE not fluent`.

    `fluent`: an atom of the table that contains the fluent's beginnings and ends. The atom's last argument is KIND.
    """

    pattern: Pattern
    fluent: Atom
    negated: bool
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternProperties:
        if self.negated:
            return PatternProperties((self.pattern,), (self.fluent,), (self.pattern,), goal=True)
        return PatternProperties((self.pattern, self.fluent), through=(self.pattern, self.fluent), goal=True)

    def omissions(self) -> Iterator[Omission]:
        kind, word = (ABSENCE, "NOT ") if self.negated else (CONDITION, "")
        yield self.pattern, self.span, kind, f"{word}{author_name(self.fluent.event)}"

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        return Pattern.renamed(self, {**names, KIND: KIND})

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        bound = variables(self.pattern)
        through = tuple(c for c in components if c.variables <= bound)
        above = tuple(c for c in components if not c.variables <= bound)
        left, places = self.pattern.lower(builder, through, bounded)
        right, others = self.fluent.lower(builder, (), None)
        key = tuple((places[name], place) for name, place in others.items() if name in places)
        own = (KIND, *(name for name in others if name.startswith(ANY)))
        fresh = [name for name in others if name not in places and name not in own]
        take = () if self.negated else tuple(others[name] for name in fresh)
        names = (*places, *(() if self.negated else fresh))
        return added(builder, self.node(left, right, key, others[KIND], take, places), names, above, self.span)

    def node(
        self,
        left: int,
        right: int,
        key: tuple[tuple[int, int], ...],
        kind: int,
        take: tuple[int, ...],
        places: Mapping[str, int],
    ) -> Node:
        """Create the node.

        - `left`, `right`: the nodes of the pattern and of the fluent.
        - `key`: pairs of a column of `left` and a column of `right` that must be equal.
        - `kind`: the column of `right` with the kind of change. `take`: the columns of `right` that are output.
        - `places`: the column of `left` for each variable.
        """
        return Holding(left, right, key, kind, take, self.negated, len(places))

    def decider(self) -> Pattern:
        return self.pattern.decider()

    def belongs_below(self, component: Component) -> bool:
        return component.variables <= variables(self.pattern) and self.pattern.belongs_below(component)

    def ranges(self, searcher: Searcher) -> Ranges:
        return self.pattern.ranges(searcher)

    def shortest(self) -> tuple[int, str] | None:
        return self.pattern.shortest()

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        return matcher.holding(self.pattern, self.fluent, self.negated, bound)


@dataclass(frozen=True, slots=True)
class Holding(Node):
    """The node that selects occurrences of the left side by a fluent that holds at their end.

    The right side is the fluent. An occurrence is output once for each tuple of the fluent that holds and has the same
    key.

    - `negated`: True to output instead each occurrence at whose end no tuple with the same key holds.
    - `kind`: the column of the right side that tells beginnings from ends.

    Output columns: the left side's `width` columns, then the right side's columns in `take`.
    """

    left: int
    right: int
    key: tuple[tuple[int, int], ...]
    kind: int
    take: tuple[int, ...]
    negated: bool
    width: int = field(default=0, compare=False)

    def describe(self) -> NodeProperties:
        mine = tuple(((0, column),) for column in range(self.width))
        return NodeProperties(
            "not (a fluent)" if self.negated else "a fluent",
            "fluent condition",
            remembers=True,
            shows=(*mine, *(((1, column),) for column in self.take)),
            looks=((1, self.kind),),
            equal=() if self.negated else tuple(((0, mine), (1, other)) for mine, other in self.key),
            negated=1 if self.negated else None,
            forbids=tuple(((1, other), mine) for mine, other in self.key) if self.negated else (),
            earlier=(1,),
            completes=(0,),
            waits=(1,),
            meeting=Meeting.AGAINST if self.negated else Meeting.PAIRS,
            multiplies=bool(self.take),
            changing=((1, self.kind),),
            guessed=True,
            constituents=(0,),
            keeps_equal=(0,),
            uncounted=(0,),
        )

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        for mine, theirs in self.key:
            inference.meet(number, (self.left, mine), (self.right, theirs))
        right = inference.columns[self.right]
        if len(right) <= max((*self.take, 0)):
            return inference.columns[self.left]
        return (*inference.columns[self.left], *(right[column] for column in self.take))

    def instants(self, parts: Sequence[bool]) -> bool:
        return parts[0]

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        return Text(f"{sides[0].text} WHERE {'not ' if self.negated else ''}{sides[1].text}", 0, True)

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        names = rendering.names[number]
        return [
            ("key", ", ".join(names[c] for c, _ in self.key) or "none: all that holds"),
            ("remembers", "what holds"),
            ("forgets", "when it ends"),
        ]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.holding import holding_of

        return holding_of(self, builder)
