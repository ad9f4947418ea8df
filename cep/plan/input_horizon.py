"""The length of the past input that an engine must read to derive the same results as from all input."""

from __future__ import annotations

from dataclasses import dataclass

from cep.plan.horizon import horizon
from cep.plan.order import PlanUnit, reads
from cep.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class InputHorizon:
    """The greatest age of input that can still affect later results.

    `length`: this age in microseconds. `bounded`: False if some rules may need all input. `length` then applies only to
    the other rules.
    """

    length: int
    bounded: bool

    @classmethod
    def of(cls, plan: Plan) -> InputHorizon:
        """Return the longest horizon of a program's rules. If a rule reads the results of another rule, the horizons of
        both are added."""
        horizons = _horizons(plan).values()
        return cls(
            max((horizon.length for horizon in horizons), default=0), all(horizon.bounded for horizon in horizons)
        )

    @classmethod
    def of_rules(cls, plan: Plan) -> list[InputHorizon]:
        horizons = _horizons(plan)
        return [horizons[head.child] for head in plan.heads]


def _horizons(plan: Plan) -> dict[PlanUnit, InputHorizon]:
    """Return the horizon of each node and each derived event."""
    horizons: dict[PlanUnit, InputHorizon] = {}
    heads: dict[str, list[int]] = {}
    for head in plan.heads:
        heads.setdefault(head.event, []).append(head.child)
    for group in plan.groups:
        for unit in group.units:
            read = heads.get(unit, []) if isinstance(unit, str) else reads(plan.nodes[unit])
            own, exact = (0, True) if isinstance(unit, str) else _length(plan, unit)
            below = [horizons[part] for part in read if part in horizons]
            horizons[unit] = InputHorizon(
                own + max((horizon.length for horizon in below), default=0),
                exact and not group.recursive and all(horizon.bounded for horizon in below),
            )
    return horizons


def _length(plan: Plan, unit: int) -> tuple[int, bool]:
    """Return the number of microseconds for which a node keeps its input, and True. If results may depend on older
    input, return False instead of True."""
    node = plan.nodes[unit]
    if not node.properties().remembers:
        return 0, True
    if (length := node.memory(plan.types(unit))) is not None:
        return length, True
    keeps = horizon(node, plan.points)
    return (0 if keeps is None else keeps.lasting or 0), False
