"""Cut cycles of formulas so that they can be evaluated in order of time. These are cycles that contain NOT, AGGREGATE
or event rules.

Such a cycle is well defined if each path around it leads to an earlier time. Two kinds of steps do so:

- A formula with a delay, such as `ONCE[1 s, 1 s] p`.
- A fluent that events begin and end. It changes just after the event.

Without the delayed edges, the graph has no cycle. `cep.runtime.delayed_cycle` evaluates it piece by piece.
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
"""The delay, in half microseconds, of fluents that change just after an event."""


@dataclass(frozen=True, slots=True)
class Lagging:
    """A cycle of units (node numbers and event names) that is cut at its delayed units.

    - `after`: the units whose delay ends just after an event.
    - `back`: the units that have a longer delay.
    - `parts`: the strongly connected components of the other units, in running order. The flag of a component is True
      if it is a cycle.
    """

    after: tuple[PlanUnit, ...]
    back: tuple[PlanUnit, ...]
    parts: tuple[tuple[tuple[PlanUnit, ...], bool], ...]


def lagging(units: Sequence[PlanUnit], nodes: Sequence[Node], needs: Needs) -> Lagging | None:
    """Cut a cycle of units. Return None if it needs no cut.

    Cycles of events need no cut, nor do cycles of formulas that only add results. These are evaluated in rounds.
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
    """Return the strongly connected components of the units. The flag of a component is True if it is a cycle.

    `without`: units whose inputs are ignored.
    """

    def asked(unit: PlanUnit) -> Sequence[PlanUnit]:
        return () if unit in without else needs(unit)

    return [(tuple(part), len(part) > 1 or part[0] in asked(part[0])) for part in components(units, asked)]


def wholes(part: Sequence[PlanUnit], nodes: Sequence[Node], needs: Needs) -> Iterator[tuple[int, str]]:
    """Yield the nodes of a component that need the complete results of another node in it, each with its operator."""
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
    """Yield those nodes that `wholes` returns and that are formulas, such as NOT and AGGREGATE."""
    return ((unit, word) for unit, word in wholes(part, nodes, needs) if nodes[unit].properties().kind == "formula")


def refused(
    groups: Sequence[Group], nodes: Sequence[Node], heads: Sequence[Head], spans: Sequence[Span], source: Source
) -> list[CepError]:
    """Return an error for each cycle of formulas that depends on its own complete result at the same time."""
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
