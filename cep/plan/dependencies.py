"""The events that rules read and derive, and the arguments by which their goals separate them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cep.core.components import components
from cep.plan.node import Node, PartColumn
from cep.plan.order import PlanUnit
from cep.plan.plan import Plan
from cep.rules.expressions.typed import TICKS
from cep.rules.terms import Comparison, Variable

Slot = tuple[str, int]
"""An argument of an event: its name, the position."""


class Dependencies:
    """Rules go by their number in the program.

    `rank`: of each rule, a number so that needed ones come first; `nodes`: all that it needs, children first; `reads`:
    the events it takes. `makers`: the rules of each derived event; `both`: derived events that also come from outside;
    `recursive`: those that go back to themselves; `apart`: the events that some goal joins, holds against each other or
    groups by an argument of theirs.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.nodes = [_below(plan.nodes, head.child) for head in plan.heads]
        self.properties = [node.properties() for node in plan.nodes]
        self.reads = [
            frozenset(event for n in nodes if (event := self.properties[n].event) is not None) for nodes in self.nodes
        ]
        self.makers: dict[str, list[int]] = {}
        for rule, head in enumerate(plan.heads):
            self.makers.setdefault(head.event, []).append(rule)
        self.both = frozenset(name for name in self.makers if name in plan.inputs)
        self.recursive = self._recursive()
        order = [rule for unit in self.units(range(len(plan.heads))) for rule in unit]
        self.rank = {rule: rank for rank, rule in enumerate(order)}
        self.apart = frozenset(event for number in range(len(plan.nodes)) for event, _ in self._apart(number))

    def stateful(self, rule: int) -> bool:
        """Return True if a goal of the rule has state."""
        return any(self.properties[n].remembers for n in self.nodes[rule])

    def units(self, rules: Collection[int], together: Collection[str] = ()) -> list[tuple[int, ...]]:
        """Rules that stay together, needed ones first: those of a recursion, and of each event of `together`."""
        inside = sorted(rules)
        together = self.recursive.union(together)
        makers: dict[str, list[int]] = {}
        for rule in inside:
            makers.setdefault(self.plan.heads[rule].event, []).append(rule)

        def needs(rule: int) -> list[int]:
            event = self.plan.heads[rule].event
            mine = makers[event] if event in together else []
            return mine + [maker for read in sorted(self.reads[rule]) for maker in makers.get(read, ())]

        return [tuple(found) for found in components(inside, needs)]

    def _recursive(self) -> frozenset[str]:
        reads: dict[PlanUnit, list[PlanUnit]] = {event: [] for event in self.makers}
        for event, makers in self.makers.items():
            reads[event] += [read for rule in makers for read in sorted(self.reads[rule]) if read in self.makers]
        cycles = [
            found for found in components(reads, reads.__getitem__) if len(found) > 1 or found[0] in reads[found[0]]
        ]
        return frozenset(event for found in cycles for event in found if isinstance(event, str))

    def pairs(self, number: int) -> list[tuple[PartColumn, PartColumn]]:
        """The places of a node's parts that are equal, and equal as values, in all that it gives: the key, and what the
        WHERE says is equal, where that is asked before a pair is chosen."""
        properties = self.properties[number]
        found = [
            (one, other) for one, other in properties.equal if alike(self.type(number, one), self.type(number, other))
        ]
        if properties.selects or not self.plan.nodes[number].asked_first():
            return found
        for condition in properties.conditions:
            match condition:
                case Comparison("=", Variable(one), Variable(two)) if one[0] == two[0] == "v":
                    first, second = sorted((properties.shows[int(one[1:])][0], properties.shows[int(two[1:])][0]))
                    type = self.type(number, first)
                    if first[0] != second[0] and type == self.type(number, second) != "any":
                        found.append((first, second))
                case _:
                    pass
        return found

    def forbidden(self, number: int) -> list[tuple[PartColumn, int]]:
        """The places of what is absent, and the columns of the node, that are equal as values where the one forbids the
        other."""
        properties = self.properties[number]
        found = []
        for place, column in properties.forbids:
            if alike(self.type(number, place), self.type(number, properties.shows[column][0])):
                found.append((place, column))
        return found

    def type(self, number: int, place: PartColumn) -> str:
        """The type of a place of a node's parts."""
        part, column = place
        return self.plan.columns[self.plan.nodes[number].parts[part]][column].type

    def _apart(self, number: int) -> list[Slot]:
        properties, parts = self.properties[number], self.plan.nodes[number].parts
        places: list[PartColumn] = []
        if properties.equal or not properties.selects:
            places += [place for pair in self.pairs(number) for place in pair]
        for place, column in self.forbidden(number):
            places += [place] if properties.equal or len(parts) > 2 else [place, properties.shows[column][0]]
        places += properties.groups
        return [slot for part, column in places for slot in self._shown(parts[part], column)]

    def _shown(self, number: int, column: int) -> list[Slot]:
        """The arguments of events that a column shows."""
        properties, parts = self.properties[number], self.plan.nodes[number].parts
        if properties.event is not None:
            return [(properties.event, self.plan.nodes[number].takes()[column])]
        return [slot for part, below in properties.shows[column] for slot in self._shown(parts[part], below)]


def alike(one: str, two: str) -> bool:
    """Return True if equal values of the two types have equal representations, unlike seconds and times."""
    return one == two or (one not in TICKS and two not in TICKS)


def _below(nodes: Sequence[Node], top: int) -> tuple[int, ...]:
    found = {top}
    waiting = [top]
    while waiting:
        fresh = [child for child in nodes[waiting.pop()].parts if child not in found]
        found.update(fresh)
        waiting += fresh
    return tuple(sorted(found))
