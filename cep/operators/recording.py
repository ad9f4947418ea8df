"""Fluents that are defined by records of intervals. A fluent holds at a time if any of its records covers the time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.operators.event import Scan, WholeTable
from cep.operators.supports import EDGES, kinds_read
from cep.plan.node import Meeting, Node, NodeProperties
from cep.rules.pattern_text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cep.operators.build import GoalBuilder
    from cep.operators.goals.contract import Goal
    from cep.plan.binarise import Binariser, Component
    from cep.plan.render import Rendering
    from cep.plan.types import ColumnType, Inference


@dataclass(frozen=True, slots=True)
class RecordingPattern(WholeTable):
    """The pattern of a fluent's records. It reads the table `event`, and yields the fluent's beginnings and ends.

    `names`: the variables of the arguments, of the value if there is one, and of the kind of row. `final`: True if no
    record can end the interval of another record.
    """

    event: str
    names: tuple[str, ...]
    within: int | None = None
    span: Span = field(default=NOWHERE, compare=False)
    final: bool | None = None

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        width = len(self.names) - 1
        taken = (*self.names[:-1], "end'", "bounds'", "start'")
        child = builder.add(Scan(self.event, (), (), tuple(range(width + 3))), taken, self.span)
        node = builder.add(Recording(child, width, self.final), self.names, self.span)
        return node, {name: place for place, name in enumerate(self.names)}


@dataclass(frozen=True, slots=True)
class Recording(Node):
    """The node of a fluent's records.

    `width`: the number of arguments, including the value. `final`: True if no record can end the interval of another
    record. Input columns: the arguments, the end, the bounds and the start. Output columns: the arguments, and the kind
    of row.
    """

    child: int
    width: int
    final: bool | None = None

    def describe(self) -> NodeProperties:
        return NodeProperties(
            "a fluent",
            "fluent",
            remembers=True,
            shows=(*(((0, column),) for column in range(self.width)), ()),
            looks=tuple((0, self.width + column) for column in range(3)),
            groups=tuple((0, column) for column in range(self.width)),
            completes=(0,),
            meeting=Meeting.GROUPS,
            multiplies=True,
            needs_instant="a fluent",
        )

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        own = inference.columns[self.child][: self.width]
        return (*own, inference.column("int", False))

    def instants(self, parts: Sequence[bool]) -> bool:
        return False

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        return Text(f"intervals of {sides[0].text}")

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        key = ", ".join(rendering.names[number][: self.width])
        return [
            ("key", key or "none: there is one"),
            ("remembers", "what holds"),
            ("forgets", "when it ends"),
        ]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.recording import recording_of

        return recording_of(self, builder, number, kinds_read(builder, number, EDGES))
