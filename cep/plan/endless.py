"""Cycles that never end at one instant: each round makes values that were not there before.

A cycle inside an instant goes on as long as it makes new occurrences. It ends where each time round starts earlier or
uses something up, where its values come from elsewhere, and where a condition bounds them. Else, once begun, it goes on
until the limit of derivations (decision 2026-11-28, cycles without an end).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cep.core.components import components
from cep.core.errors import CepError, Source, Warning
from cep.core.intervals import FOLLOWS
from cep.plan.algebra import Head
from cep.plan.binarise import Binarised
from cep.plan.node import Node
from cep.plan.order import Group, PlanUnit
from cep.rules.terms import Call, Comparison, Condition, Expression, Variable, condition_variables

Slot = tuple[PlanUnit, int | str]
"""A column of a node, a variable that its conditions bind, or an argument of an event."""
Flow = dict[Slot, dict[Slot, bool]]
"""By slot the slots that its values come from, and whether they are new ones."""

_NEW = frozenset(("+", "-", "*", "**", "concat"))
"""Functions whose values are new in each round."""
_FEW = frozenset(("mod", "/", "//"))
"""Functions whose values soon repeat."""


@dataclass(frozen=True, slots=True)
class EndlessCycle:
    """Units that are a cycle inside an instant, and the slots that get new values each time round."""

    units: frozenset[PlanUnit]
    slots: frozenset[Slot]

    @property
    def numbers(self) -> list[int]:
        """The nodes among them."""
        return sorted(unit for unit in self.units if isinstance(unit, int))

    def head(self, heads: Sequence[Head]) -> Head:
        """The first head that closes it."""
        return next(each for each in heads if each.event in self.units and each.child in self.units)


def endless(groups: Sequence[Group], nodes: Sequence[Node], heads: Sequence[Head]) -> list[EndlessCycle]:
    """The cycles that never end at an instant, once begun."""
    return [
        found
        for group in groups
        for part, rounds in group.slices
        if rounds and not any(nodes[unit].properties().settles for unit in part if isinstance(unit, int))
        for cycle in _lasting(part, nodes, heads)
        if (found := _growing(cycle, nodes, heads)) is not None
    ]


def refused(groups: Sequence[Group], made: Binarised, source: Source) -> list[CepError]:
    """An error for each endless cycle through a goal that pairs, which takes the same partner in each round."""
    errors = []
    for cycle in endless(groups, made.nodes, made.heads):
        joins = [number for number in cycle.numbers if made.nodes[number].properties().kind == "join"]
        if not joins:
            continue
        word, event = made.nodes[joins[0]].properties().word, cycle.head(made.heads).event
        values = [name for place, name in enumerate(made.names[joins[0]]) if (joins[0], place) in cycle.slots]
        bound = f"; or a WHERE that bounds `{values[0]}`" if values else ""
        message = f"this {word} never ends: at one instant it takes the same occurrence again for each new `{event}`"
        hint = f"`{event}(...) {FOLLOWS} ...` takes only what comes after it; or `POLICY chronological`, which uses "
        errors.append(CepError(message, source, made.spans[joins[0]], hint + f"each up{bound}", "recursion"))
    return errors


def warnings(groups: Sequence[Group], made: Binarised, source: Source) -> list[Warning]:
    """A warning for each other endless cycle."""
    found = []
    for cycle in endless(groups, made.nodes, made.heads):
        head = cycle.head(made.heads)
        message = f"`{head.event}` derives itself at the same instant with new values each time, which never ends"
        hint = f"take `{head.event}` on the left of a {FOLLOWS}, or bound its values with a WHERE"
        found.append(Warning(message, source, head.span, hint))
    return found


def _lasting(part: Sequence[PlanUnit], nodes: Sequence[Node], heads: Sequence[Head]) -> Iterator[frozenset[PlanUnit]]:
    """The cycles of a part without those that come to an end by themselves."""
    inside = frozenset(part)

    def needs(unit: PlanUnit) -> list[PlanUnit]:
        return [other for other in _reads(unit, nodes, heads) if other in inside]

    for cycle in components(list(part), needs):
        if len(cycle) > 1:
            yield frozenset(cycle)


def _reads(unit: PlanUnit, nodes: Sequence[Node], heads: Sequence[Head]) -> list[PlanUnit]:
    """Inputs of a unit at its own instant, which it may read again and again."""
    if isinstance(unit, str):
        return [head.child for head in heads if head.event == unit]
    own = nodes[unit].properties()
    if own.event is not None:
        return [own.event]
    return [other for port, other in enumerate(nodes[unit].parts) if port not in (*own.earlier, *own.spends)]


def _growing(cycle: frozenset[PlanUnit], nodes: Sequence[Node], heads: Sequence[Head]) -> EndlessCycle | None:
    """The cycle, if it makes new values each time round that nothing bounds."""
    flow: Flow = {}
    for unit in cycle:
        if isinstance(unit, str):
            for head in heads:
                if head.event == unit and head.child in cycle:
                    for place, argument in enumerate(head.arguments):
                        _add(flow, (unit, place), head.child, _used(argument))
        else:
            _columns(flow, unit, nodes, cycle)
    slots = frozenset(
        slot
        for loop in components(list(flow), lambda slot: [each for each in flow[slot] if each in flow])
        if any(new and other in loop for slot in loop for other, new in flow[slot].items())
        for slot in loop
    )
    if not slots or any(_bounds(unit, nodes, _after(slots, flow)) for unit in cycle if isinstance(unit, int)):
        return None
    return EndlessCycle(cycle, slots)


def _columns(flow: Flow, unit: int, nodes: Sequence[Node], cycle: Collection[PlanUnit]) -> None:
    """Add what the columns of a node come from."""
    own, parts = nodes[unit].properties(), nodes[unit].parts
    elsewhere = {one for pair in own.equal for one in pair if any(parts[part] not in cycle for part, _ in pair)}
    width = len(own.shows) - len(own.binds)
    for column, places in enumerate(own.shows):
        if own.event is not None:
            flow.setdefault((unit, column), {})[own.event, own.takes[column]] = False
        for part, below in places:
            if parts[part] in cycle and (part, below) not in elsewhere:
                flow.setdefault((unit, column), {})[parts[part], below] = False
        if column >= width:
            flow.setdefault((unit, column), {})[_slot(unit, own.binds[column - width])] = False
    for name, (_, value) in _definitions(own.conditions).items():
        _add(flow, _slot(unit, name), unit, _used(value))


def _add(flow: Flow, slot: Slot, unit: int, used: Mapping[str, bool]) -> None:
    """Add that values of a slot come from these variables of a node."""
    for name, new in used.items():
        sources = flow.setdefault(slot, {})
        sources[_slot(unit, name)] = new or sources.get(_slot(unit, name), False)


def _slot(unit: int, name: str) -> Slot:
    """The slot of a canonical variable of a node: a column, or what its conditions bind."""
    return unit, int(name[1:]) if name[0] == "v" else name


def _used(expression: Expression) -> dict[str, bool]:
    """The variables that an expression has its values from, and whether these are new ones."""
    match expression:
        case Variable(name):
            return {name: False}
        case Call(function, arguments) if function not in _FEW:
            used: dict[str, bool] = {}
            for each in arguments:
                for name, new in _used(each).items():
                    used[name] = new or function in _NEW or used.get(name, False)
            return used
        case _:
            return {}


def _definitions(conditions: Iterable[Condition]) -> dict[str, tuple[Condition, Expression]]:
    """By variable the equation that binds it, and its value there."""
    found: dict[str, tuple[Condition, Expression]] = {}
    for condition in conditions:
        if isinstance(condition, Comparison) and condition.operator == "=":
            for side, value in ((condition.left, condition.right), (condition.right, condition.left)):
                if isinstance(side, Variable) and side.name[0] == "w":
                    found.setdefault(side.name, (condition, value))
                    break
    return found


def _after(slots: Iterable[Slot], flow: Flow) -> frozenset[Slot]:
    """The slots and all that have values from them."""
    found, more = frozenset[Slot](), frozenset(slots)
    while more:
        found |= more
        more = frozenset(slot for slot, sources in flow.items() if slot not in found and not found.isdisjoint(sources))
    return found


def _bounds(unit: int, nodes: Sequence[Node], growing: Collection[Slot]) -> bool:
    """Return True if a node may end a cycle: it takes some occurrences only, or asks something of what grows."""
    own = nodes[unit].properties()
    defining = [condition for condition, _ in _definitions(own.conditions).values()]
    asked = (condition for condition in own.conditions if condition not in defining)
    return own.picks or any(_slot(unit, name) in growing for each in asked for name in condition_variables(each))
