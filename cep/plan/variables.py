"""Candidates for the key of a stage: arguments of different events that contain the same variable."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, product

from cep.plan.dependencies import Dependencies, Slot
from cep.plan.node import PartColumn
from cep.rules.terms import Variable

MOST = 16
"""The maximum number of candidates to try for one variable. A variable has several candidates if it is in several
arguments of the same event."""


def candidates(dependencies: Dependencies, rules: Iterable[int], inputs: Iterable[str]) -> list[dict[str, int]]:
    """Return the candidates for a key. Each candidate is a dictionary {event: position} that says which argument of
    each input contains the key.

    A candidate exists for each variable that rules share. Variables are followed through goals and heads. A variable in
    several arguments of an input yields several candidates.
    """
    classes = _Classes(dependencies)
    for rule in sorted(rules):
        classes.read(rule)
    by_class: dict[Slot, dict[str, list[int]]] = {}
    for event in sorted(inputs):
        for position in range(len(dependencies.plan.schemas[event].attributes)):
            if (event, position) in classes.parent:
                by_class.setdefault(classes.root((event, position)), {}).setdefault(event, []).append(position)
    return [
        dict(zip(positions, chosen, strict=True))
        for positions in by_class.values()
        for chosen in islice(product(*positions.values()), MOST)
    ]


class _Classes:
    """Classes of arguments, as a union-find structure. Two arguments are in one class if their values are equal
    wherever rules pair or group their events."""

    def __init__(self, dependencies: Dependencies) -> None:
        self.dependencies = dependencies
        self.plan = dependencies.plan
        self.parent: dict[Slot, Slot] = {}
        self.shown: dict[int, list[Slot | None]] = {}

    def read(self, rule: int) -> None:
        """Unite the classes of arguments that a rule requires to be equal."""
        for number in self.dependencies.nodes[rule]:
            if number not in self.shown:
                self.shown[number] = self.node(number)
        head = self.plan.heads[rule]
        for position, argument in enumerate(head.arguments):
            if isinstance(argument, Variable) and argument.name[0] == "v":
                self.join(self.shown[head.child][int(argument.name[1:])], (head.event, position))

    def root(self, slot: Slot) -> Slot:
        while self.parent[slot] != slot:
            self.parent[slot] = slot = self.parent[self.parent[slot]]
        return slot

    def join(self, left: Slot | None, other: Slot | None) -> None:
        if left is not None and other is not None:
            self.parent.setdefault(left, left)
            self.parent.setdefault(other, other)
            first, second = sorted((self.root(left), self.root(other)))
            self.parent[second] = first

    def node(self, number: int) -> list[Slot | None]:
        """Return, for each column of a node, an argument of an event whose values the column contains. The entry is
        None for a column that contains no such values."""
        properties, parts = self.dependencies.properties[number], self.plan.nodes[number].parts
        if properties.event is not None:
            slots: list[Slot | None] = [(properties.event, position) for position in self.plan.nodes[number].takes()]
            for slot in slots:
                self.join(slot, slot)
            return slots

        def slot_of(place: PartColumn) -> Slot | None:
            part, column = place
            return self.shown[parts[part]][column]

        for left, other in self.dependencies.pairs(number):
            self.join(slot_of(left), slot_of(other))
        shown: list[Slot | None] = []
        for places in properties.shows:
            shown.append(slot_of(places[0]) if places else None)
            for other in places[1:]:
                self.join(shown[-1], slot_of(other))
        for place, column in self.dependencies.forbidden(number):
            self.join(slot_of(place), shown[column])
        return shown
