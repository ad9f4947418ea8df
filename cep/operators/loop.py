"""A recursion that one kernel runs: `x <- x SEQ a ...` beside rules for x that are not recursive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cep.core.relation import Table, empty, rows
from cep.core.time import Frontier
from cep.operators.build import Builder
from cep.operators.goals.arrival import distinct
from cep.operators.goals.contract import Goal
from cep.operators.goals.linear_recursion import chain_of
from cep.plan.order import Group, Unit


@dataclass(frozen=True, slots=True)
class Loop:
    """A recursive event: `make` gives it of its input and the other rules, `chain` all that the recursive rule adds.
    The chain stands for its `join`, whose right side is `right`; `scanned` is the `scan` of the event, which others may
    read."""

    event: str
    make: Goal
    chain: Goal
    reads: tuple[Unit, ...]
    join: Unit
    right: Unit
    scan: Unit
    scanned: Goal

    def step(
        self, inputs: Mapping[str, Table], outputs: dict[Unit, Table], frontier: Frontier, widths: Mapping[Unit, int]
    ) -> int:
        """Add to `outputs` what the event and its scan give; gives how many rows the join made."""
        own = inputs.get(self.event, empty(widths[self.event]))
        base = self.make.step([own, *(outputs[unit] for unit in self.reads)], frontier)
        made = distinct(self.chain.step([base, outputs[self.right]], frontier))
        self.chain.evict(frontier)
        outputs[self.event] = made
        outputs[self.scan] = self.scanned.step([made], frontier)
        return rows(made) - rows(base)


def loop_of(builder: Builder, group: Group) -> Loop | None:
    """The loop that a cycle is, where it has a kernel: of the event, its scan and the join alone."""
    plan = builder.plan
    events = [unit for unit in group.units if isinstance(unit, str)]
    if len(group.units) != 3 or len(events) != 1:
        return None
    event = events[0]
    found = chain_of(builder, event)
    if found is None:
        return None
    chain, join, last = found
    left, right = plan.nodes[join].parts
    if left not in group.units or join not in group.units or right in group.units:
        return None
    bases = [plan.heads[number].child for number in builder.heads[event] if number != last]
    if any(child in group.units for child in bases):
        return None
    make = builder.event(event).without_last()
    return Loop(event, make, chain, tuple(bases), join, right, left, builder.node(left))
