"""A formula with its ends: what nobody writes, and the left of SINCE is asked for where it binds variables itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.plan.formula import Formula, Lowering, Names, OverOne

if TYPE_CHECKING:
    from cep.plan.pattern import Pattern


@dataclass(frozen=True, slots=True)
class Closure(OverOne):
    """The formula, and besides the ends at which it begins (`edge` "begin") or ends ("end") without them. Nobody writes
    it: `MetricFormula.tied` asks it for what holds from just after a time on."""

    formula: Formula
    edge: str
    span: Span = field(default=NOWHERE, compare=False)

    def text(self) -> tuple[str, int]:
        return self.formula.text()

    def lowered(self, lowering: Lowering, keep: Names, outside: Names) -> Pattern:
        body = lowering.lowered(self.formula, self.formula.bound() & keep, outside)
        return lowering.closed(body, self.edge, self.formula)
