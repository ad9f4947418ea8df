"""A formula that adds an end point to intervals. It has no syntax of its own.

The compiler uses it for a SINCE whose left operand binds variables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.plan.formula import Formula, Lowering, Names, OverOne

if TYPE_CHECKING:
    from cep.plan.pattern import Pattern


@dataclass(frozen=True, slots=True)
class Closure(OverOne):
    """A formula that adds one end point to each interval of the inner `formula`.

    `edge`: the end point that is added, `begin` or `end`.
    """

    formula: Formula
    edge: str
    span: Span = field(default=NOWHERE, compare=False)

    def text(self) -> tuple[str, int]:
        return self.formula.text()

    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        body = lowering.lowered(self.formula, self.formula.bound() & keep, outside)
        return lowering.closed(body, self.edge, self.formula)
