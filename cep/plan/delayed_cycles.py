"""Cut cycles of formulas that contain NOT, AGGREGATE or event rules, so that they can be evaluated in order of time.

Such a cycle is well defined if each path around the cycle leads to an earlier time. Two kinds of steps lead to an
earlier time:

- A formula with a delay, such as `ONCE[1 s, 1 s] p`.
- A fluent that events initiate and terminate. It changes just after the event.

Without the edges of these steps, the dependency graph has no cycle. `cep.runtime.delayed_cycle` evaluates the cycle in
pieces, one after the other in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from cep.core.components import components
from cep.core.errors import CepError, Source, Span
from cep.plan.algebra import Head
from cep.plan.node import Node
from cep.plan.order import Group, PlanUnit, reads

Needs = Callable[[PlanUnit], Sequence[PlanUnit]]

JUST_AFTER = 1
"""The delay of fluents that events initiate and terminate, in half microseconds. Such a fluent changes just after the
event."""


@dataclass(frozen=True, slots=True)
class Lagging:
    """A cycle in the plan that is cut at its delayed units.

    A unit is a node, named by its number, or an event, named by its name. A delayed unit changes after the time of
    its input.

    - `after`: the units that change just after the time of their input.
    - `back`: the units that have a longer delay.
    - `parts`: the strongly connected components of the other units, in running order. Each component has a flag, which
      is True if the component is a cycle.
    """

    after: tuple[PlanUnit, ...]
    back: tuple[PlanUnit, ...]
    parts: tuple[tuple[tuple[PlanUnit, ...], bool], ...]


def lagging(units: Sequence[PlanUnit], nodes: Sequence[Node], needs: Needs) -> Lagging | None:
    """Cut a cycle of units at its delayed units. Return None if the cycle can be evaluated without a cut.

    This is the case for cycles of events, and for cycles of formulas that only add results. They are evaluated in
    rounds.
    """

    asked = {unit: nodes[unit].properties() for unit in units if isinstance(unit, int)}
    if not any(nodes[unit].settles() for unit in asked):
        return None
    after: set[PlanUnit] = {unit for unit, of in asked.items() if of.delay == JUST_AFTER}
    back: set[PlanUnit] = set()
    for part, cycle in _parts(units, needs, after):
        if cycle and next(wholes(part, nodes, needs), None) is not None:
            back |= {unit for unit in part if unit in asked and asked[unit].delay > JUST_AFTER}
    if not after and not back and next(wholes(units, nodes, needs), None) is None:
        return None
    taken = after | back
    rest = [(part, cycle) for part, cycle in _parts(units, needs, taken) if not taken.intersection(part)]
    return Lagging(tuple(u for u in units if u in after), tuple(u for u in units if u in back), tuple(rest))


def _parts(units: Iterable[PlanUnit], needs: Needs, without: set[PlanUnit]) -> list[tuple[tuple[PlanUnit, ...], bool]]:
    """Return the strongly connected components of the units. With each component, return a flag that is True if the
    component is a cycle.

    `without`: units whose inputs are ignored.
    """

    def asked(unit: PlanUnit) -> Sequence[PlanUnit]:
        return () if unit in without else needs(unit)

    return [(tuple(part), len(part) > 1 or part[0] in asked(part[0])) for part in components(units, asked)]


def wholes(part: Sequence[PlanUnit], nodes: Sequence[Node], needs: Needs) -> Iterator[tuple[int, str]]:
    """Yield the nodes of a component that need the complete results of another unit of the component. With each node,
    yield its operator."""
    inside = set(part)
    for unit in part:
        if isinstance(unit, str):
            continue
        about = nodes[unit].properties()
        asked = needs(unit)
        whole = {*about.earlier, *(() if about.negated is None else (about.negated,))}
        if about.needs_instant is not None:
            whole |= set(range(len(asked)))
        if any(place in whole and other in inside for place, other in enumerate(asked)):
            yield unit, about.needs_instant or about.word


def wholes_of_formulas(part: Sequence[PlanUnit], nodes: Sequence[Node], needs: Needs) -> Iterator[tuple[int, str]]:
    """Yield the formulas among the nodes that `wholes` yields, for example NOT and AGGREGATE."""
    return ((unit, word) for unit, word in wholes(part, nodes, needs) if nodes[unit].properties().kind == "formula")


def refused(
    groups: Sequence[Group], nodes: Sequence[Node], heads: Sequence[Head], spans: Sequence[Span], source: Source
) -> list[CepError]:
    """Return an error for each cycle of formulas that depends on its own complete result at the same time.

    `groups`: the groups of units that run together. Each recursive group is a cycle.
    """
    makers: dict[str, list[PlanUnit]] = {}
    for head in heads:
        makers.setdefault(head.event, []).append(head.child)

    def needs(unit: PlanUnit) -> Sequence[PlanUnit]:
        return makers.get(unit, ()) if isinstance(unit, str) else reads(nodes[unit])

    errors = []
    for group in groups:
        lag = lagging(group.units, nodes, needs) if group.recursive else None
        whole = None if lag is None else next(wholes_of_formulas(group.units, nodes, needs), None)
        for part, cycle in () if lag is None else lag.parts:
            first = next(wholes(part, nodes, needs), None) if cycle else None
            if first is None and cycle and whole is not None:
                errors.append(
                    CepError(
                        f"a cycle through {whole[1]} does not go back in time on every path",
                        source,
                        next(spans[unit] for unit in part if isinstance(unit, int)),
                        f"every path of a cycle with {whole[1]} must go back by some time: `ONCE[1 s, 1 s] p(X)`",
                        "recursion",
                    )
                )
            if first is not None:
                unit, word = first
                errors.append(
                    CepError(
                        f"{word} depends on its own result at the same time, through formulas",
                        source,
                        spans[unit],
                        "every path must go back by some time, `ONCE[1 s, 1 s] p(X)`, or through a fluent that "
                        "events begin and end: `initiate p(X) <- e(X) WHERE q(X).`",
                        "recursion",
                    )
                )
    return errors
