"""How much input a program needs to have seen, so that it derives what it would after all of it."""

from __future__ import annotations

from dataclasses import dataclass

from cep.plan.horizon import horizon
from cep.plan.order import PlanUnit, reads
from cep.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class InputHorizon:
    """How long before a time, in microseconds, input can have a part in what is derived later. `bounded`: False where
    some rules may need all of it, and `length` is that of the others."""

    length: int
    bounded: bool

    @classmethod
    def of(cls, plan: Plan) -> InputHorizon:
        """The longest horizon of a program's rules: bounds add up where rules build on others."""
        lengths: dict[PlanUnit, int] = {}
        bounded = True
        heads: dict[str, list[int]] = {}
        for head in plan.heads:
            heads.setdefault(head.event, []).append(head.child)
        for group in plan.groups:
            if group.recursive:
                bounded = False
            for unit in group.units:
                read = heads.get(unit, []) if isinstance(unit, str) else reads(plan.nodes[unit])
                own, exact = (0, True) if isinstance(unit, str) else _length(plan, unit)
                bounded = bounded and exact
                lengths[unit] = own + max((lengths.get(each, 0) for each in read), default=0)
        return cls(max(lengths.values(), default=0), bounded)


def _length(plan: Plan, unit: int) -> tuple[int, bool]:
    """How long a node keeps its input, and False if results may depend on what it had before."""
    node = plan.nodes[unit]
    if not node.properties().remembers:
        return 0, True
    if (length := node.memory(plan.types(unit))) is not None:
        return length, True
    keeps = horizon(node, plan.points)
    return (0 if keeps is None else keeps.lasting or 0), False
