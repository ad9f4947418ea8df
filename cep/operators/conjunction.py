"""`p AND q` and `p AND NOT q` of formulas: joins and anti-joins of tuples that hold at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.operators.disjunction import Or
from cep.operators.holding import KIND
from cep.operators.where import added
from cep.plan.formula import AND, BETWEEN, Formula, Lowering, Names, OverSeveral, formula_variables, placed
from cep.plan.node import FormulaNode, Meeting, NodeProperties
from cep.plan.pattern import Pattern, PatternProperties
from cep.rules.pattern_text import Text

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
class And(OverSeveral):
    """`p AND q AND NOT r`. `negated`: for each part, True if it follows NOT. The first part never follows NOT."""

    parts: tuple[Formula, ...]
    negated: tuple[bool, ...]
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def positive(self) -> list[Formula]:
        return [part for part, no in zip(self.parts, self.negated, strict=True) if not no]

    @property
    def absent(self) -> list[Formula]:
        return [part for part, no in zip(self.parts, self.negated, strict=True) if no]

    def bound(self) -> Names:
        return frozenset().union(*(part.bound() for part in self.positive))

    def text(self) -> tuple[str, int]:
        pairs = zip(self.parts, self.negated, strict=True)
        return " AND ".join(f"{'NOT ' if no else ''}{placed(part, BETWEEN)}" for part, no in pairs), AND

    def spread(self) -> Formula:
        """Split each part such as `p(X, Y) SINCE q(X)` in two formulas (`tied`), if other parts bind Y.

        The two formulas are joined by OR. In the first one, Y is a value for which p holds. The second one is `q(X)`,
        which holds for any Y.
        """
        parts = [part.spread() for part in self.parts]
        for place, (part, no) in enumerate(zip(parts, self.negated, strict=True)):
            others = [part for n, part in enumerate(parts) if n != place and not self.negated[n]]
            bound = frozenset[str]().union(*(other.bound() for other in others))
            if not part.loose() or not part.loose() <= bound:
                continue
            tied, anyway = part.tied()
            before, behind = parts[:place], parts[place + 1 :]
            if no:
                more = (tied,) if anyway is None else (tied, anyway)
                marks = (*self.negated[:place], *(True for _ in more), *self.negated[place + 1 :])
                return And((*before, *more, *behind), marks, self.span).spread()
            if anyway is None:
                return And((*before, tied, *behind), self.negated, self.span).spread()
            alternatives = (
                And((*before, branch, *behind), self.negated, self.span).spread() for branch in (tied, anyway)
            )
            return Or(tuple(alternatives), self.span)
        return replace(self, parts=tuple(parts))

    def asks_whole(self) -> list[tuple[Formula, str, Span]]:
        return [(part, "NOT", part.span) for part in self.absent]

    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        positive = lowering.apart(self.positive, lambda outer: And(outer, (False,) * len(outer), self.span))
        absent = self.absent
        mine = [part.bound() for part in positive]
        every = self.bound()
        speaks = [frozenset(formula_variables(part)) for part in absent]
        for part, names in zip(absent, speaks, strict=True):
            _safe(lowering, part, names - every, outside)
        asked = keep.union(*speaks)
        pattern: Pattern | None = None
        late, done = 0, frozenset[str]()
        rest = list(range(len(positive)))
        while rest:
            following = next((n for n in rest if pattern is not None and mine[n] & done), rest[0])
            rest.remove(following)
            others = asked.union(*(mine[n] for n in range(len(positive)) if n != following))
            right = lowering.lowered(positive[following], mine[following] & others, outside | others)
            its = lowering.late_of(positive[following])
            pattern = (
                right if pattern is None else ConjunctionPattern(pattern, right, False, (late, its), None, self.span)
            )
            late, done = max(late, its), done | mine[following]
        assert pattern is not None, "the first part is not negated"
        for part in absent:
            right = lowering.lowered(part, part.bound() & every, outside | every)
            its = lowering.late_of(part)
            pattern = ConjunctionPattern(pattern, right, True, (late, its), None, self.span)
            late = max(late, its)
        return lowering.projected(pattern, keep, self)


def _safe(lowering: Lowering, absent: Formula, loose: Names, outside: Names) -> None:
    for name in sorted(loose & outside):
        lowering.error(
            f"`{name}` has no value: in these ANDs it occurs only under NOT",
            absent.span,
            f"use `{name}` in a part without NOT: `p({name}) AND NOT q({name})`; parentheses end a chain of ANDs",
            "unsafe",
        )


@dataclass(frozen=True, slots=True)
class ConjunctionPattern(Pattern):
    """`left AND right`, or `left AND NOT right`. With NOT, `left` must bind all variables of `right`.

    `lates`: the delay of each side in microseconds. At watermark w, the changes of a side up to w minus its delay are
    known.
    """

    left: Pattern
    right: Pattern
    negated: bool
    lates: tuple[int, int]
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternProperties:
        if self.negated:
            return PatternProperties((self.left,), (self.right,), (self.left,), goal=True)
        return PatternProperties((self.left, self.right), through=(self.left, self.right), goal=True)

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        left, mine = self.left.lower(builder, (), None)
        right, theirs = self.right.lower(builder, (), None)
        own = [name for name in sorted(mine, key=mine.__getitem__) if name != KIND]
        key = tuple((mine[name], place) for name, place in theirs.items() if name in mine and name != KIND)
        fresh = [] if self.negated else [name for name in theirs if name not in mine]
        take = tuple(theirs[name] for name in fresh)
        names = (*own, *fresh, KIND)
        node = Conjunction(left, right, key, mine[KIND], theirs[KIND], take, self.negated, self.lates, len(own))
        return added(builder, node, names, components, self.span)

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        return matcher.attempts(self.left, bound)

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        return reader.together(self, self.left, self.right, self.negated, bound)

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, code: int) -> list[Gap]:
        return gaps.together(self.left, self.right, self.negated, bound, code)


@dataclass(frozen=True, slots=True)
class Conjunction(FormulaNode):
    """The node of a conjunction. It outputs pairs of a left and a right tuple that have the same key, while both hold.

    - `key`: pairs of a column of the left side and a column of the right side that must be equal.
    - `negated`: True to output instead each left tuple while no right tuple with the same key holds.
    - `left_kind`, `right_kind`: the column of each side that contains the kind of change.

    Output columns: the left side's columns without the kind, the right side's columns in `take`, then the kind of
    change.
    """

    left: int
    right: int
    key: tuple[tuple[int, int], ...]
    left_kind: int
    right_kind: int
    take: tuple[int, ...]
    negated: bool
    lates: tuple[int, int]
    width: int

    @property
    def own(self) -> list[int]:
        """Return the left side's columns except the kind of change."""
        return [column for column in range(self.width + 1) if column != self.left_kind]

    def describe(self) -> NodeProperties:
        mine = {column: place for place, column in enumerate(self.own)}
        return NodeProperties(
            "AND NOT" if self.negated else "AND",
            "formula",
            remembers=True,
            shows=(*(((0, column),) for column in mine), *(((1, column),) for column in self.take), ()),
            looks=((0, self.left_kind), (1, self.right_kind)),
            equal=() if self.negated else tuple(((0, column), (1, other)) for column, other in self.key),
            negated=1 if self.negated else None,
            forbids=tuple(((1, other), mine[column]) for column, other in self.key) if self.negated else (),
            completes=(0,) if self.negated else (0, 1),
            waits=(0, 1),
            meeting=Meeting.AGAINST if self.negated else Meeting.PAIRS,
            multiplies=True,
            changing=((0, self.left_kind), (1, self.right_kind)),
            constituents=(0,) if self.negated else (0, 1),
        )

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        for column, other in self.key:
            inference.meet(number, (self.left, column), (self.right, other))
        left, right = inference.columns[self.left], inference.columns[self.right]
        return (*(left[c] for c in self.own), *(right[c] for c in self.take), inference.column("int", False))

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        return Text(f"{sides[0].text} AND {'NOT ' if self.negated else ''}{sides[1].text}", 0, True)

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        names = rendering.names[number]
        mine = {column: place for place, column in enumerate(self.own)}
        return [
            ("key", ", ".join(names[mine[column]] for column, _ in self.key) or "none: all that holds"),
            ("remembers", "what holds on both sides"),
            ("forgets", "when it ends"),
        ]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.conjunction import conjunction_of

        return conjunction_of(self, builder, number)
