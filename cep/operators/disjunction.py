"""`L OR R`, of patterns and of formulas. Both sides bind the same variables, and the output has the rows of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.operators.where import added, of_parts, split
from cep.plan.binarise import Component
from cep.plan.formula import BETWEEN, OR, Formula, Lowering, Names, OverSeveral, placed
from cep.plan.lint.ranges import Ranges, Searcher
from cep.plan.node import Meeting, Node, NodeProperties
from cep.plan.pattern import Pattern, PatternProperties, mentioned, variables
from cep.plan.types import grown
from cep.rules import pattern_text
from cep.rules.pattern_text import Text

if TYPE_CHECKING:
    from cep.explain.formulas import FormulaExtent, FormulaReader
    from cep.explain.gaps import FormulaGaps, Gap
    from cep.explain.judging import BoundValues
    from cep.explain.matching import Attempt, Matcher
    from cep.operators.build import GoalBuilder
    from cep.operators.goals.contract import Goal
    from cep.plan.binarise import Binariser
    from cep.plan.render import Rendering
    from cep.plan.safety import Checker
    from cep.plan.types import ColumnType, Inference


@dataclass(frozen=True, slots=True)
class Or(OverSeveral):
    """`p OR q OR r` of formulas."""

    parts: tuple[Formula, ...]
    span: Span = field(default=NOWHERE, compare=False)

    def bound(self) -> Names:
        return frozenset.intersection(*(part.bound() for part in self.parts)) - {"_"}  # each `_` is a separate variable

    def text(self) -> tuple[str, int]:
        return " OR ".join(placed(part, BETWEEN) for part in self.parts), OR

    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        shared = frozenset.intersection(*(part.bound() for part in self.parts))  # names generated for `_` never are
        mine = [frozenset(name for name in part.bound() if "'" not in name) | shared for part in self.parts]
        every = frozenset[str]().union(*mine)
        for part, names in zip(self.parts, mine, strict=True):
            if names != every:
                missing = ", ".join(f"`{name}`" for name in sorted(every - names))
                lowering.error(
                    f"both sides of an OR must bind the same variables: this one lacks {missing}",
                    part.span,
                    "use `_` for what only one side has, or two rules of the same fluent",
                    "unsafe",
                )
        own = every & keep
        parts = lowering.apart(self.parts, lambda outer: Or(outer, self.span))
        pattern, *others = [lowering.lowered(part, own, outside) for part in parts]
        for right in others:
            pattern = Either(pattern, right, None, self.span)
        return lowering.narrowed(pattern, own, max(map(lowering.late_of, parts)), self.span)


@dataclass(frozen=True, slots=True)
class Either(Pattern):
    """`left OR right` of patterns."""

    left: Pattern
    right: Pattern
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternProperties:
        return PatternProperties((self.left, self.right), through=(self.left,), alternatives=True)

    def belongs_below(self, component: Component) -> bool:
        return of_parts(component)

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        down, here = split(components)
        left, places = self.left.lower(builder, down, bounded)
        right, right_places = self.right.lower(builder, down, bounded)
        shared = tuple(v for v in places if v in right_places)  # times used by `held` belong to one side only
        own = None if len(shared) == len(places) else tuple(places[v] for v in shared)
        return added(builder, Union(left, right, tuple(right_places[v] for v in shared), own), shared, here, self.span)

    def check(self, checker: Checker, outside: frozenset[str]) -> None:
        left, right = (checker.written(variables(side)) for side in (self.left, self.right))
        if left == right:
            return
        lacks = [(side, sorted(other - own)) for side, own, other in (("left", left, right), ("right", right, left))]
        missing = ", ".join(f"the {side} one lacks {checker.listed(names)}" for side, names in lacks if names)
        written = [variable.name for variable in (*mentioned(checker.rule.body), *checker.head_variables)]
        if left - right and right - left:
            hint = "use one name for the same value on both sides, and `_` for what only one side has"
        elif all(written.count(name) == 1 for name in left ^ right):
            hint = "use `_` for what only one side has"
        else:
            hint = "write two rules with the same head, one for each side"
        checker.error(f"both sides of an OR must bind the same variables: {missing}", self.span, hint)

    def ranges(self, searcher: Searcher) -> Ranges:
        for side in (self.left, self.right):
            side.ranges(searcher)
        return {}

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        return [*matcher.attempts(self.left, bound), *matcher.attempts(self.right, bound)]

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        return [*reader.extents(self.left, bound), *reader.extents(self.right, bound)]

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, code: int) -> list[Gap]:
        return [*gaps.lacks(self.left, bound, code), *gaps.lacks(self.right, bound, code)]


@dataclass(frozen=True, slots=True)
class Union(Node):
    """The node of OR, which outputs the occurrences of both sides.

    `left_columns`: the left side's columns that are output. None means all of them, in order. `right_columns`: the
    right side's columns, in the order of the left ones.
    """

    left: int
    right: int
    right_columns: tuple[int, ...]
    left_columns: tuple[int, ...] | None = None

    def pairs(self) -> list[tuple[int, int]]:
        """Return, for each output column, the columns of the left and of the right side that it combines."""
        own = range(len(self.right_columns)) if self.left_columns is None else self.left_columns
        return list(zip(own, self.right_columns, strict=True))

    def describe(self) -> NodeProperties:
        shows = tuple(((0, column), (1, other)) for column, other in self.pairs())
        return NodeProperties(
            "OR",
            "union",
            shows=shows,
            completes=(0, 1),
            meeting=Meeting.EITHER,
            guessed=True,
            keeps_equal=(0, 1),
            uncounted=(0, 1),
            constituents=(0, 1),
        )

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        left, right = inference.columns[self.left], inference.columns[self.right]
        pairs = [(left[column], right[other]) for column, other in self.pairs()]
        return tuple(inference.column(grown(left.type, two.type), left.optional or two.optional) for left, two in pairs)

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        return pattern_text.joined(sides[0], "OR", sides[1])

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.relational import union_of

        return union_of(self, builder, number)
