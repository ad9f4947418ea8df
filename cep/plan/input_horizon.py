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
        found = _horizons(plan).values()
        return cls(max((each.length for each in found), default=0), all(each.bounded for each in found))

    @classmethod
    def of_rules(cls, plan: Plan) -> list[InputHorizon]:
        """The horizon of each rule, by its number."""
        found = _horizons(plan)
        return [found[head.child] for head in plan.heads]


def _horizons(plan: Plan) -> dict[PlanUnit, InputHorizon]:
    """The horizon of each node and each derived event."""
    found: dict[PlanUnit, InputHorizon] = {}
    heads: dict[str, list[int]] = {}
    for head in plan.heads:
        heads.setdefault(head.event, []).append(head.child)
    for group in plan.groups:
        for unit in group.units:
            read = heads.get(unit, []) if isinstance(unit, str) else reads(plan.nodes[unit])
            own, exact = (0, True) if isinstance(unit, str) else _length(plan, unit)
            below = [found[each] for each in read if each in found]
            found[unit] = InputHorizon(
                own + max((each.length for each in below), default=0),
                exact and not group.recursive and all(each.bounded for each in below),
            )
    return found


def _length(plan: Plan, unit: int) -> tuple[int, bool]:
    """How long a node keeps its input, and False if results may depend on what it had before."""
    node = plan.nodes[unit]
    if not node.properties().remembers:
        return 0, True
    if (length := node.memory(plan.types(unit))) is not None:
        return length, True
    keeps = horizon(node, plan.points)
    return (0 if keeps is None else keeps.lasting or 0), False
