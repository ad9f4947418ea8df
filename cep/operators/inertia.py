"""Inertia: an initiated fluent holds until something terminates it (Kowalski, Sergot 1986)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.core.fluents import BEFORE, BEGINS, ENDS
from cep.core.literals import say_duration
from cep.operators.event import Scan, WholeTable
from cep.operators.supports import kinds_read
from cep.plan.node import Meeting, Node, NodeProperties
from cep.plan.pattern import FluentDeadline, PatternProperties
from cep.rules.pattern_text import Text
from cep.rules.printing import print_expression

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.goals.contract import Goal
    from cep.plan.binarise import Binariser, Component
    from cep.plan.render import Rendering
    from cep.plan.types import ColumnType, Inference


@dataclass(frozen=True, slots=True)
class InertiaPattern(WholeTable):
    """The pattern of inertia. It reads a table of transitions, and yields the fluent's beginnings and ends.

    `event`: the table's name. `names`: the variables of the table's columns. These columns are the arguments, the value
    if `valued`, and the kind of transition.
    """

    event: str
    names: tuple[str, ...]
    valued: bool
    deadlines: tuple[FluentDeadline, ...]
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)

    def describe(self) -> PatternProperties:
        return replace(WholeTable.describe(self), deadlines=self.deadlines)

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        child = builder.add(Scan(self.event, (), (), tuple(range(len(self.names)))), self.names, self.span)
        keys = len(self.names) - 1 - self.valued
        node = builder.add(Inertia(child, keys, self.valued, self.deadlines), self.names, self.span)
        return node, {name: place for place, name in enumerate(self.names)}


@dataclass(frozen=True, slots=True)
class Inertia(Node):
    """The node of inertia over the transitions of a fluent that has `keys` arguments.

    Output columns: the arguments, the value if `valued`, and the kind of row: BEGINS, ENDS, WHOLE, HELD or BEFORE.
    """

    child: int
    keys: int
    valued: bool
    deadlines: tuple[FluentDeadline, ...]

    def describe(self) -> NodeProperties:
        others = range(self.keys, self.keys + 1 + self.valued)
        return NodeProperties(
            "a fluent",
            "fluent",
            remembers=True,
            shows=(*(((0, column),) for column in range(self.keys)), *(() for _ in others)),
            looks=tuple((0, column) for column in others),
            groups=tuple((0, column) for column in range(self.keys)),
            completes=(0,),
            meeting=Meeting.GROUPS,
            multiplies=True,
            needs_instant="a fluent",
            delay=1,
            distinct=True,
            guessed=True,
            constituents=(0,),
        )

    def unending(self) -> bool:
        return bool(self.endless())

    def endless(self) -> list[FluentDeadline]:
        """Return the deadlines that are part of a cycle. In a cycle, each deadline starts the next one, so that the
        fluent changes forever without any input."""
        return [deadline for deadline in self.deadlines if deadline in self._followers(deadline)]

    def _followers(self, first: FluentDeadline) -> list[FluentDeadline]:
        followers: list[FluentDeadline] = []
        follower: FluentDeadline | None = first
        while follower is not None and follower.becomes is not None:
            value = follower.becomes
            follower = next((other for other in self.deadlines if other.value is None or other.value == value), None)
            if follower is None or follower in followers:
                break
            followers.append(follower)
        return followers

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        return inference.columns[self.child]

    def instants(self, parts: Sequence[bool]) -> bool:
        return False

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        return Text(f"inertia of {sides[0].text}")

    def after(self, texts: Sequence[str]) -> str | None:
        value = texts[self.keys] if self.valued else None
        for deadline in self.deadlines:
            if deadline.value is None or print_expression(deadline.value) == value:
                what = "ENDS" if deadline.becomes is None else f"BECOMES {print_expression(deadline.becomes)}"
                return f"{what} AFTER {say_duration(deadline.duration)}"
        return None

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        key = ", ".join(rendering.names[number][: self.keys])
        after = ", ".join(f"after {say_duration(deadline.duration)}" for deadline in self.deadlines)
        return [
            ("key", key or "none: there is one"),
            ("remembers", "the present value of each key that holds, and since when"),
            ("forgets", f"when it ends{f', {after}' if after else ''}"),
        ]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.inertia import inertia_of

        return inertia_of(self, builder, number, kinds_read(builder, number, (BEGINS, ENDS, BEFORE)))
