"""`L UNLESS X WITHIN q`: occurrences of L that no X with the same key follows within q. Such a result is known q after
the end of L."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.core.literals import say_duration, write_duration
from cep.operators.where import bounded_by, decided, of_parts, split
from cep.plan.binarise import Component
from cep.plan.horizon import Horizon
from cep.plan.lint.ranges import Ranges, Searcher
from cep.plan.node import Lasting, Meeting, Node, NodeProperties
from cep.plan.pattern import Omission, Pattern, PatternProperties, variables
from cep.plan.rule_edits import ABSENCE, changed_durations
from cep.rules import pattern_text
from cep.rules.pattern_text import Text
from cep.rules.printing import duration_named

if TYPE_CHECKING:
    from cep.explain.judging import BoundValues
    from cep.explain.matching import Attempt, Matcher
    from cep.operators.build import GoalBuilder
    from cep.operators.goals.contract import Goal
    from cep.plan.binarise import Binariser
    from cep.plan.render import Rendering
    from cep.plan.types import ColumnType, Inference


@dataclass(frozen=True, slots=True)
class Unless(Pattern):
    """`left UNLESS absent WITHIN duration`. `duration` is in microseconds."""

    left: Pattern
    absent: Pattern
    duration: int
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternProperties:
        return PatternProperties((self.left,), (self.absent,), (self.left,), duration=self.duration, goal=True)

    def belongs_below(self, component: Component) -> bool:
        return of_parts(component)

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        down, here = split(components)
        left, places = self.left.lower(builder, down, self.within)
        absent, absent_places = self.absent.lower(builder, (), None)
        key = tuple((places[v], absent_places[v]) for v in places if v in absent_places)
        node = builder.add(Deadline(left, absent, key, self.duration, len(places)), tuple(places), self.span)
        node = bounded_by(builder, node, places, self)
        return decided(builder, node, places, here, self.span), places

    def ranges(self, searcher: Searcher) -> Ranges:
        if self.within is not None and self.within < self.duration:
            searcher.warn(
                f"this UNLESS never occurs: it takes {say_duration(self.duration)}, "
                f"and the WITHIN around it allows {say_duration(self.within)}",
                self.span,
                "use a longer WITHIN outside, or a shorter one for the UNLESS",
            )
        self.absent.ranges(searcher)
        return self.left.ranges(searcher)

    def shortest(self) -> tuple[int, str] | None:
        return self.duration, f"the UNLESS alone lasts {write_duration(self.duration)}"

    def omissions(self) -> Iterator[Omission]:
        yield self.left, self.span, ABSENCE, "UNLESS"

    def changes(self) -> Iterator[tuple[Pattern, str]]:
        for ticks, told in changed_durations(self.duration):
            yield replace(self, duration=ticks), f"{told} WITHIN {duration_named(self.duration)} of UNLESS"

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        attempts = []
        for left in matcher.attempts(self.left, bound):
            if left.failure is not None:
                attempts.append(left)
                continue
            due = left.end + self.duration
            local = {name: value for name, value in left.bound.items() if name in variables(self.absent)}
            arrivals = [
                other
                for other in matcher.attempts(self.absent, local)
                if other.failure is None and left.end < other.end < due
            ]
            failure = None
            if arrivals:
                first = min(arrivals, key=lambda other: (other.end, other.start))
                near = min(first.end - left.end, due - first.end)
                arrived = first.parts[-1] if first.parts else None
                failure = matcher.failure("came", self, occurrence=arrived, by=near)
            elif due > matcher.until:
                failure = matcher.failure("open", self, by=due - matcher.until)
            silent = (*left.silent, (self.absent, due))
            attempts.append(replace(left, end=due, silent=silent, failure=failure))
        return attempts


@dataclass(frozen=True, slots=True)
class Deadline(Node):
    """The node of `left UNLESS absent WITHIN duration`. Output columns: the `width` columns of the left side.

    `key`: pairs of a column of `left` and a column of `absent` that must be equal.
    """

    left: int
    absent: int
    key: tuple[tuple[int, int], ...]
    duration: int
    width: int = field(default=0, compare=False)

    def describe(self) -> NodeProperties:
        return NodeProperties(
            "UNLESS",
            "deadline",
            remembers=True,
            shows=tuple(((0, column),) for column in range(self.width)),
            negated=1,
            forbids=tuple(((1, absent), left) for left, absent in self.key),
            earlier=(0, 1) if self.duration > 0 else (1,),
            completes=(0,),
            waits=(0,),
            lasting=Lasting.MORE if self.duration else Lasting.AS_LONGEST,
            meeting=Meeting.AGAINST,
            uncounted=(0,),
            constituents=(0,),
        )

    def going_on(self) -> str:
        return (
            "to exclude one in progress, use `p UNLESS (p PAR x) WITHIN q`, for an instant DURING; "
            "see NOT in docs/language.md"
        )

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        for mine, theirs in self.key:
            inference.meet(number, (self.left, mine), (self.absent, theirs))
        return inference.columns[self.left]

    def instants(self, parts: Sequence[bool]) -> bool:
        return False

    def memory(self, types: Sequence[str]) -> int | None:
        return self.duration

    def horizon(self, parts: Sequence[bool]) -> Horizon:
        return Horizon(self.duration)

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        return pattern_text.unless(sides[0], sides[1], self.duration)

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        left, absent = sides
        names = rendering.names[number]
        return [
            ("key", ", ".join(names[c] for c, _ in self.key) or f"none: any {absent} will do"),
            ("remembers", left),
            ("forgets", f"after {say_duration(self.duration)}, or when {absent} comes"),
        ]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.pairs.unless import deadline_of

        return deadline_of(self, builder, number)
