"""Temporal operators of formulas: `ONCE[0, 2 s] p`, `p SINCE q`, `p LASTING >= 10 min` and others.

Relations between two events, like `DURING`, are in `pair`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.core.fluents import FOREVER
from cep.core.interval_sets import INFINITE, Intervals, Reach, dilate, erode, lasting, reach, since, until
from cep.core.literals import say_duration, write_duration
from cep.core.metric_operators import DILATE, ERODE, TEMPORAL, TemporalOperator
from cep.operators.closure import Closure
from cep.operators.conjunction import And, ConjunctionPattern
from cep.operators.disjunction import Or
from cep.operators.holding import KIND
from cep.operators.where import added
from cep.plan.formula import (
    BETWEEN,
    OR,
    UNARY,
    WHOLE,
    FluentLateness,
    Formula,
    Lowering,
    Names,
    OverOne,
    OverSeveral,
    placed,
)
from cep.plan.node import FormulaNode, Meeting, NodeProperties
from cep.plan.pattern import Pattern, PatternProperties, variables
from cep.plan.types import grown
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
class MetricInterval:
    """The interval `[low, high]` after an operator, in microseconds. If `high` is None, there is no upper bound.

    `bounds`: the two brackets, as text.
    """

    low: int = 0
    high: int | None = None
    bounds: str = "[)"

    @property
    def text(self) -> str:
        if self == MetricInterval():
            return ""
        high = "inf" if self.high is None else write_duration(self.high)
        return f"{self.bounds[0]}{write_duration(self.low)}, {high}{self.bounds[1]}"

    @property
    def farthest(self) -> int:
        """Return the upper bound in microseconds, or FOREVER if there is none."""
        return FOREVER if self.high is None else self.high


@dataclass(frozen=True, slots=True)
class MetricFormula(OverSeveral):
    """A metric temporal operator over one or two formulas."""

    operator: str
    parts: tuple[Formula, ...]
    within: MetricInterval = MetricInterval()
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def row(self) -> TemporalOperator:
        return TEMPORAL[self.operator]

    def bound(self) -> Names:
        return self.parts[-1].bound()

    def text(self) -> tuple[str, int]:
        word = f"{self.operator}{self.within.text}"
        *before, last = (placed(part, UNARY) for part in self.parts)
        return " ".join((*before, word, last)), BETWEEN if before else UNARY

    def late(self, lateness: FluentLateness) -> int:
        inner = OverSeveral.late(self, lateness)
        if not self.row.ahead:
            return inner
        again = len({part.bound() for part in self.parts}) > 1  # the left is joined with `_ever`
        return min(FOREVER, inner + (1 + again) * self.within.farthest)

    def why_late(self) -> str | None:
        return f"`{self.operator}` looks ahead; `{self.row.mirror}` looks back as far" if self.row.ahead else None

    def ahead(self) -> str | None:
        return self.operator if self.row.ahead else None

    def back(self) -> str | None:
        return None if self.row.ahead else self.operator

    def loose(self) -> Names:
        return self.parts[0].bound() - self.parts[-1].bound() if self.row.inputs > 1 else frozenset()

    def tied(self) -> tuple[Formula, Formula | None]:
        """Rewrite `p SINCE q` as `p SINCE r OR q`. Return both operands of the OR.

        Here, `r` holds at a time if q holds at this time, and p holds at this time or from just after it on. For UNTIL,
        p holds at this time or until just before it. The second operand is None if q at the current time is not enough
        for `p SINCE q`.
        """
        left, right = self.parts
        both = And((right, Closure(left, "end" if self.row.ahead else "begin", self.span)), (False, False), right.span)
        now = self.within.low == 0 and self.within.bounds[0] == "["
        return replace(self, parts=(left, both)), right if now else None

    def against_recursion(self, through: Callable[[Formula], bool]) -> list[tuple[str, Span, str]]:
        if not self.loose() or not through(self.parts[0]):
            return []
        name = min(self.loose())
        return [(f"only the left of {self.operator} has `{name}`", self.span, f"use `{name}` on its right, too")]

    def shifted(self, through: Callable[[Formula], bool]) -> Formula:
        """Rewrite `p SINCE[a, b] q` so that it reads the cycle only `a` earlier. This is done if q reads the cycle and
        p does not.

        `through`: a function that returns True if a formula reads the cycle. The rewritten formula holds at t if p
        holds from t - a to t, both excluded, and one of these conditions is true:

        - q holds at t - a, and the bracket before `a` is `[`
        - p and `p SINCE[0, b - a] q`, with the same brackets, hold at t - a
        """
        within, right = self.within, self.parts[-1]
        if self.row.ahead or self.row.inputs == 1 or not within.low or through(self.parts[0]) or not through(right):
            return self
        if any(name.startswith("_") for name in right.bound()):  # `_` must keep one value, which an OR would drop
            return self
        left, then = self.parts[0], right
        if within.high != within.low:
            rest = None if within.high is None else within.high - within.low
            since = MetricFormula(self.operator, self.parts, MetricInterval(0, rest, within.bounds), self.span)
            both = And((left, since), (False, False), self.span)
            then = both if within.bounds[0] == "(" else Or((right, both), self.span)
        word = self.row.same_way(DILATE).word
        ago = MetricFormula(word, (then,), MetricInterval(within.low, within.low, "[]"), self.span)
        held = MetricFormula(self.row.same_way(ERODE).word, (left,), MetricInterval(0, within.low, "()"), self.span)
        return And((held, ago), (False, False), self.span)

    def looks_back(self) -> int:
        return 0 if self.row.ahead or self.row.inputs > 1 else self.within.low

    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        by = reach(self.within.low, self.within.high, self.within.bounds)
        right = self.parts[-1]
        its = lowering.late_of(right)
        if self.row.inputs == 1:
            own = right.bound() if self.row.throughout else right.bound() & keep
            body = lowering.lowered(right, own, outside)
            return lowering.projected(
                TemporalPattern(self.operator, body, None, by, 0, (its,), None, self.span), keep, self
            )
        left = self.parts[0]
        mine, theirs = left.bound(), right.bound()
        for name in sorted(mine - theirs):
            shown = "_" if "'" in name else name
            lowering.error(
                f"`{shown}` is on the left of {self.operator}, but not on its right",
                left.span,
                f"use all of them on its right, or beside it, `(p(X, Y) {self.operator} q(X)) AND r(Y)`; for "
                "`p(X, _)` make a fluent: `some(X) WHILE p(X, _).`",
                "unsafe",
            )
        if mine - theirs:
            return lowering.lowered(right, keep, outside)
        body = lowering.lowered(right, theirs & (keep | mine), outside | mine)
        held = lowering.lowered(left, mine, outside | theirs)
        late = lowering.late_of(left)
        if variables(held) != variables(body):
            # join the left with the tuples that ever hold on the right
            again = self._ever(right)
            ever = lowering.lowered(again, theirs & (keep | mine), outside | mine)
            held = ConjunctionPattern(held, ever, False, (late, lowering.late_of(again)), None, left.span)
            late = max(late, lowering.late_of(again))
            if variables(held) != variables(body):
                held = lowering.narrowed(held, variables(body), late, left.span)
        return lowering.projected(
            TemporalPattern(self.operator, held, body, by, 0, (late, its), None, self.span), keep, self
        )

    def _ever(self, right: Formula) -> Formula:
        whole = MetricInterval(0, self.within.high, "[" + self.within.bounds[1])
        return MetricFormula(self.row.same_way(DILATE).word, (right,), whole, right.span)


def _metric(by: Reach) -> MetricInterval:
    high = None if by.high == INFINITE else by.high + 1 >> 1
    return MetricInterval(
        by.low >> 1, high, ("(" if by.low & 1 else "[") + (")" if high is None or by.high & 1 else "]")
    )


def headed(operator: str, within: MetricInterval, formula: Formula, span: Span) -> MetricFormula:
    """Rewrite an operator before a head as a formula: `ALWAYS[a, b] p WHILE q` becomes `p WHILE ONCE[a, b] q`."""
    head_operator = TEMPORAL[operator].of_head
    assert head_operator is not None, "no other stands before a head"
    return MetricFormula(head_operator, (formula,), within, span)


def ahead_of_heads(operators: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """Yield those operators that, before a head, make the head hold earlier than its formula.

    Each operator is paired with its mirror image: the operator for the other direction of time, or None.
    """
    for word in operators:
        head_operator = TEMPORAL[word].of_head
        if head_operator is not None and TEMPORAL[head_operator].ahead:
            yield word, TEMPORAL[word].mirror


def wherever(operator: str, within: MetricInterval, formula: Formula, *, throughout: bool, span: Span) -> MetricFormula:
    """Return a formula that requires `formula` at some time of an interval or, if `throughout`, at all of its times.

    The interval is in the past if `operator` looks back, and in the future if it looks ahead.
    """
    return MetricFormula(TEMPORAL[operator].same_way(ERODE if throughout else DILATE).word, (formula,), within, span)


@dataclass(frozen=True, slots=True)
class LastingFormula(OverOne):
    """`formula LASTING >= least`, or `> least` if `strictly`. `least` is in microseconds."""

    formula: Formula
    least: int
    strictly: bool = False
    span: Span = field(default=NOWHERE, compare=False)
    operator: str = "LASTING"

    @property
    def length(self) -> int:
        return self.least + self.strictly

    def text(self) -> tuple[str, int]:
        sign = ">" if self.strictly else ">="
        return f"{placed(self.formula, OR)} {self.operator} {sign} {write_duration(self.least)}", WHOLE

    def late(self, lateness: FluentLateness) -> int:
        return OverOne.late(self, lateness) + self.length

    def why_late(self) -> str | None:
        back = TEMPORAL[self.operator].same_way(ERODE).word
        return (
            f"{self.operator} is known only at the end; `{back}[0, {write_duration(self.least)}] p` holds when p has "
            "held so long"
        )

    def against_recursion(self, through: Callable[[Formula], bool]) -> list[tuple[str, Span, str]]:
        back = TEMPORAL[self.operator].same_way(ERODE).word
        return [(f"{self.operator} is known late", self.span, f"`{back}[0, d] p` holds when p has held so long")]

    def long(self) -> tuple[Formula, int] | None:
        return self.formula, self.length

    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        body = lowering.lowered(self.formula, self.formula.bound(), outside)
        late = lowering.late_of(self.formula)
        pattern = TemporalPattern(self.operator, body, None, None, self.length, (late,), None, self.span)
        return lowering.projected(pattern, keep, self)


@dataclass(frozen=True, slots=True)
class TemporalPattern(Pattern):
    """The pattern of an operator over one formula, or over two that have the same variables.

    - `by`: the range of displacements in time over which the operator looks; None for LASTING.
    - `least`: the minimum length of the intervals that LASTING selects, in microseconds.
    - `lates`: the delay of each formula in microseconds. At watermark w, the changes of a formula up to w minus its
      delay are known.
    """

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
        node = Temporal(self.operator, left, right, tuple(take), self.by, self.least, self.lates)
        return added(builder, node, (*names, KIND), components, self.span)

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        return matcher.attempts(self.left if self.right is None else self.right, bound)

    def extents(self, reader: FormulaReader, bound: BoundValues) -> list[FormulaExtent]:
        if self.right is None:
            return reader.over(self, self.left, bound, lambda held: over(self.operator, held, self.by, self.least))
        way = until if TEMPORAL[self.operator].ahead else since
        return reader.between(self, self.left, self.right, bound, lambda p, q: way(p, q, self.by or Reach(0, 0)))

    def lacks(self, gaps: FormulaGaps, bound: BoundValues, code: int) -> list[Gap]:
        if self.right is not None:
            return gaps.since(self, self.left, self.right, TEMPORAL[self.operator].ahead, bound, code)
        if self.by is None:
            return gaps.lasting(self.left, bound, code)
        return gaps.over(self, self.left, TEMPORAL[self.operator].kernel == ERODE, bound, code)

    def reaches(self, first: int, last: int) -> tuple[int, int]:
        by = Reach(0, 0) if self.by is None else self.by if TEMPORAL[self.operator].ahead else self.by.mirrored
        low = -INFINITE if -INFINITE in (first, by.low) else first + by.low
        return low, INFINITE if INFINITE in (last, by.high) else last + by.high


def over(operator: str, held: Intervals, by: Reach | None, least: int) -> Intervals:
    """Return the intervals in which an operator over one formula holds.

    `held`: the intervals of the formula. `by`, `least`: see `TemporalPattern`.
    """
    if by is None:
        return lasting(held, least)
    by = by.mirrored if TEMPORAL[operator].ahead else by
    return erode(held, by) if TEMPORAL[operator].kernel == ERODE else dilate(held, by)


@dataclass(frozen=True, slots=True)
class Temporal(FormulaNode):
    """The node of a temporal operator.

    `take`: for each part, the columns of a tuple, then the column with the kind of change. Output columns: the columns
    of the tuple, then the kind of change.
    """

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
            delay=2 * self.lag,
            shows=(*first, ()),
            looks=places[-1],
            equal=tuple((place[0], place[1]) for place in first) if self.right is not None else (),
            groups=tuple(place[0] for place in first),
            completes=(0,),
            meeting=Meeting.GROUPS if self.right is None else Meeting.PAIRS,
            changing=() if self.right is None else places[-1],
            constituents=(0,) if self.right is None else (1,),
        )

    def timed(self) -> bool:
        return True

    def looks_ahead(self) -> bool:
        return TEMPORAL[self.operator].ahead

    def undivided(self, part: int, text: str) -> str | None:
        return f"the right side of {text} can make it true alone, and has no key" if part == 1 else None

    @property
    def lag(self) -> int:
        alone = self.by is not None and self.right is None and not self.looks_ahead()
        return self.by.low // 2 if alone and self.by is not None else 0

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        left = [inference.columns[self.left][column] for column in self.take[0]]
        if self.right is None:
            return tuple(left)
        for own_column, other in zip(self.take[0][:-1], self.take[1]):
            inference.meet(number, (self.left, own_column), (self.right, other))
        right = [inference.columns[self.right][column] for column in self.take[1]]
        pairs = zip(left, right, strict=True)
        return tuple(inference.column(grown(left.type, two.type), left.optional or two.optional) for left, two in pairs)

    def unbounded(self) -> tuple[str, str] | None:
        if self.by is None or self.by.high != INFINITE:
            return None
        if TEMPORAL[self.operator].keeps:
            word = self.operator
            return f"this {word} never forgets: it keeps all that has held for ever", f"`{word}[0, 1 h]` bounds it"
        return self.known_at_end()

    def known_at_end(self) -> tuple[str, str] | None:
        if self.by is None or self.by.high != INFINITE or not TEMPORAL[self.operator].ahead:
            return None
        word = self.operator
        return f"this {word} is known only at the end of the input", f"`{word}[0, 1 h]` is known an hour later"

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        if self.by is None:
            return Text(f"({sides[0].text}) {self.operator} >= {write_duration(self.least)}")
        word = self.operator + _metric(self.by).text
        if self.right is not None:
            return Text(f"({sides[0].text}) {word} ({sides[1].text})")
        return Text(f"{word} ({sides[0].text})")

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        never = self.by is not None and self.by.high == INFINITE
        reached = self.least if self.by is None else (self.by.high + 1) // 2
        return [
            ("key", ", ".join(rendering.names[number][:-1]) or "none: there is one"),
            ("remembers", "what follows of it later"),
            ("forgets", "never" if never else f"after {say_duration(reached)}"),
        ]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.temporal import temporal_of

        return temporal_of(self, builder, number)
