"""Find where to cut cycles of formulas with NOT, AGGREGATE or event rules, so that each part is known in time.

Such a cycle has a meaning if every way round goes back in time: by the delay of a formula (`ONCE[1 s, 1 s] p`), or
through a fluent that events begin and end, which changes just after them. Without the delayed edges the graph has no
cycle, and `cep.runtime.delayed_cycle` runs it piece by piece.
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
"""The delay of what begins and ends just after what it asks."""


@dataclass(frozen=True, slots=True)
class Lagging:
    """Units of a cycle that lag, `after` by what is just after an event, `back` by a lag of time; `parts`: all others,
    those that are a cycle at one time together, in the order in which they run."""

    after: tuple[PlanUnit, ...]
    back: tuple[PlanUnit, ...]
    parts: tuple[tuple[tuple[PlanUnit, ...], bool], ...]


def lagging(units: Sequence[PlanUnit], nodes: Sequence[Node], needs: Needs) -> Lagging | None:
    """How a cycle runs; None: it is one of formulas that only add, which is found in rounds, or one of events."""

    asked = {unit: nodes[unit].properties() for unit in units if isinstance(unit, int)}
    if not any(of.settles for of in asked.values()):
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
    """Strongly connected parts where nothing is asked by some, each with whether it is a cycle."""

    def asked(unit: PlanUnit) -> Sequence[PlanUnit]:
        return () if unit in without else needs(unit)

    return [(tuple(part), len(part) > 1 or part[0] in asked(part[0])) for part in components(units, asked)]


def wholes(part: Sequence[PlanUnit], nodes: Sequence[Node], needs: Needs) -> Iterator[tuple[int, str]]:
    """The nodes of a part that ask for all of what is in it, and not only for some: with what they are called."""
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
    """Those of them that are formulas: NOT and AGGREGATE."""
    return ((unit, word) for unit, word in wholes(part, nodes, needs) if nodes[unit].properties().kind == "formula")


def refused(
    groups: Sequence[Group], nodes: Sequence[Node], heads: Sequence[Head], spans: Sequence[Span], source: Source
) -> list[CepError]:
    """An error for each cycle of formulas that depends at one time on something of which it asks all."""
    makers: dict[str, list[PlanUnit]] = {}
    for head in heads:
        makers.setdefault(head.event, []).append(head.child)

    def needs(unit: PlanUnit) -> Sequence[PlanUnit]:
        return makers.get(unit, ()) if isinstance(unit, str) else reads(nodes[unit])

    found = []
    for group in groups:
        made = lagging(group.units, nodes, needs) if group.recursive else None
        whole = None if made is None else next(wholes_of_formulas(group.units, nodes, needs), None)
        for part, cycle in () if made is None else made.parts:
            first = next(wholes(part, nodes, needs), None) if cycle else None
            if first is None and cycle and whole is not None:
                found.append(
                    CepError(
                        f"a cycle through {whole[1]} has a way round that does not go back",
                        source,
                        next(spans[unit] for unit in part if isinstance(unit, int)),
                        f"with {whole[1]} on it every way round goes back by some time: `ONCE[1 s, 1 s] p(X)`",
                        "recursion",
                    )
                )
            if first is not None:
                unit, word = first
                found.append(
                    CepError(
                        f"{word} depends on its own result at the same time, through formulas",
                        source,
                        spans[unit],
                        "every way round goes back by some time, `ONCE[1 s, 1 s] p(X)`, or through a fluent that "
                        "events begin and end: `initiate p(X) <- e(X) WHERE q(X).`",
                        "recursion",
                    )
                )
    return found
