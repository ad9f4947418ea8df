"""The order of evaluation: nodes and events in topological order. Units that depend on each other form a group.

A unit is the number of a node or the name of an event. A cycle of units is a recursion. The engine evaluates it in
slices. A slice contains all occurrences that have the same end time. The order inside a slice depends only on inputs
that are read at the same instant: the left side of a SEQ, negated patterns and patterns that have a deadline read only
earlier slices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cep.core.components import components
from cep.core.errors import CepError, Source, Span
from cep.core.interval_relations import FOLLOWS
from cep.plan.algebra import Head
from cep.plan.node import Node

PlanUnit = int | str


@dataclass(frozen=True, slots=True)
class Group:
    """Units that run together.

    - `recursive`: True if the units form a cycle.
    - `slices`: the parts of a cycle, in the order in which they run at an instant. Each part has a flag. The flag is
      True if the part's units also form a cycle within an instant. Such a part is evaluated in rounds.
    """

    units: tuple[PlanUnit, ...]
    recursive: bool
    slices: tuple[tuple[tuple[PlanUnit, ...], bool], ...] = ()


def order(
    nodes: Sequence[Node], heads: Sequence[Head], spans: Sequence[Span], source: Source
) -> tuple[tuple[Group, ...], list[CepError]]:
    """Return the groups of units in running order, and an error for each goal for which there is no order.

    Such a goal needs all input of an instant, but this input depends on the goal's own result at the same instant.
    """
    makers: dict[str, list[int]] = {}
    for head in heads:
        makers.setdefault(head.event, []).append(head.child)

    def needs(unit: PlanUnit) -> list[PlanUnit]:
        if isinstance(unit, str):
            return list(makers.get(unit, ()))
        return reads(nodes[unit])

    def needs_now(unit: PlanUnit) -> list[PlanUnit]:
        if isinstance(unit, str):
            return needs(unit)
        later = nodes[unit].properties().earlier
        return [other for port, other in enumerate(needs(unit)) if port not in later]

    units: list[PlanUnit] = list(range(len(nodes)))
    read = [event for node in nodes if (event := node.properties().event) is not None]
    events = dict.fromkeys([*read, *(head.event for head in heads)])
    units += list(events)
    groups: list[Group] = []
    errors: list[CepError] = []
    for component in components(units, needs):
        if len(component) == 1 and component[0] not in needs(component[0]):
            groups.append(Group(tuple(component), False))
            continue
        inside = set(component)
        slices = []
        formulas = any(nodes[unit].settles() for unit in component if isinstance(unit, int))
        for part in components(component, lambda u: [n for n in needs_now(u) if n in inside]):  # noqa: B023
            rounds = len(part) > 1 or part[0] in needs_now(part[0])
            slices.append((tuple(part), rounds))
            for unit in part:
                what = nodes[unit].properties().needs_instant if isinstance(unit, int) else None
                if formulas:  # see `cep.plan.delayed_cycles`
                    continue
                if rounds and isinstance(unit, int) and what is not None:
                    errors.append(
                        CepError(
                            f"{what} depends on its own result at the same instant",
                            source,
                            spans[unit],
                            f"let it use only earlier events: put the recursive event on the left of a {FOLLOWS}",
                            "recursion",
                        )
                    )
        groups.append(Group(tuple(component), True, tuple(slices)))
    return tuple(groups), errors


def by_stretches(group: Group, nodes: Sequence[Node]) -> bool:
    """Return True if a cycle can process many instants at once.

    For this, the cycle must have no cycle within an instant, and each of its goals must be able to undo speculative
    steps.
    """
    guessed = (nodes[unit].properties().guessed for unit in group.units if isinstance(unit, int))
    return not any(rounds for _, rounds in group.slices) and all(guessed)


def reads(node: Node) -> list[PlanUnit]:
    """Return the units that a node reads: other nodes, or an event."""
    event = node.properties().event
    return list(node.parts) if event is None else [event]


def settle(
    groups: Sequence[Group], nodes: Sequence[Node], heads: Sequence[Head], grows: Callable[[PlanUnit], bool]
) -> None:
    """Call `grows` with every unit in running order. If it returns True for a unit of a cycle, call it again for the
    units of the cycle that read this unit."""
    readers: dict[PlanUnit, list[PlanUnit]] = {}
    for number, node in enumerate(nodes):
        for child in reads(node):
            readers.setdefault(child, []).append(number)
    for head in heads:
        readers.setdefault(head.child, []).append(head.event)
    for group in groups:
        inside = set(group.units)
        waiting, queue = set(inside), deque(group.units)
        while queue:
            unit = queue.popleft()
            waiting.remove(unit)
            if grows(unit):
                again = dict.fromkeys(other for other in readers.get(unit, ()) if other in inside)
                queue += (other for other in again if other not in waiting)
                waiting.update(again)
