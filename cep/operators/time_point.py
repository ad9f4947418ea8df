"""A time as a pattern, `2026-01-01`: the one occurrence at that instant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.core.fluents import SINCE_EVER
from cep.operators.where import decided
from cep.plan.node import Node, NodeProperties
from cep.plan.pattern import Pattern, PatternProperties
from cep.rules import pattern_text
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
class Point(Pattern):
    """The time point [ticks, ticks], in microseconds."""

    ticks: int
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternProperties:
        return PatternProperties()

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        return decided(builder, builder.add(Tick(self.ticks), (), self.span), {}, components, self.span), {}

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        late = self.ticks - matcher.until
        failure = matcher.failure("open", self, by=late) if late > 0 else None
        return [matcher.attempt(bound, self.ticks, self.ticks, failure=failure)]


@dataclass(frozen=True, slots=True)
class Tick(Node):
    """The one occurrence [ticks, ticks], without columns."""

    ticks: int

    def describe(self) -> NodeProperties:
        return NodeProperties("a time point")

    def once(self) -> bool:
        return True

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        return ()

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        return Text("initially") if self.ticks == SINCE_EVER else pattern_text.time_point(self.ticks)

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals import relational

        return relational.TickGoal(self.ticks)
