"""Events as atoms of ticks: of those of one tick that are equal the first alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cep.plan.node import Meeting, Node, NodeProperties
from cep.rules.pattern_text import Text

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder
    from cep.operators.goals.contract import Goal
    from cep.plan.render import Rendering
    from cep.plan.types import ColumnType, Inference


@dataclass(frozen=True, slots=True)
class TickAtoms(Node):
    """Occurrences of its part, of those of one tick that are equal the first. `tick`: microseconds; `width`: the
    columns of its part."""

    child: int
    tick: int
    width: int = field(default=0, compare=False)

    def describe(self) -> NodeProperties:
        shows = tuple(((0, column),) for column in range(self.width))
        return NodeProperties(
            "a tick",
            "filter",
            remembers=True,
            completes=(0,),
            meeting=Meeting.GROUPS,
            selects=True,
            shows=shows,
            groups=tuple((0, column) for column in range(self.width)),
        )

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        return tuple(inference.columns[self.child])

    def by_order(self, types: Sequence[str]) -> bool:
        return True

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        return sides[0]

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        return [("remembers", "the atoms of the tick"), ("forgets", "at its end")]

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.fluents.tick_atoms import tick_atoms_of

        return tick_atoms_of(self, builder)
