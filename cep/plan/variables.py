"""Which arguments of which events are one variable: the candidates for a key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, product

from cep.plan.algebra import Aggregation, Deadline, Join, Scan, Select, Tick, Union
from cep.plan.dependencies import Dependencies, Slot
from cep.rules.terms import Variable

MOST = 16
"""How many choices are tried where a variable is in several arguments of the same events."""


def candidates(book: Dependencies, rules: Iterable[int], inputs: Iterable[str]) -> list[dict[str, int]]:
    """For each variable that rules share, through their goals and heads, the argument by which it is in each input:
    {event: position}. A variable that an input has in several arguments gives several."""
    classes = _Classes(book)
    for rule in sorted(rules):
        classes.read(rule)
    found: dict[Slot, dict[str, list[int]]] = {}
    for event in sorted(inputs):
        for position in range(len(book.plan.schemas[event].attributes)):
            if (event, position) in classes.parent:
                found.setdefault(classes.root((event, position)), {}).setdefault(event, []).append(position)
    return [
        dict(zip(positions, chosen, strict=True))
        for positions in found.values()
        for chosen in islice(product(*positions.values()), MOST)
    ]


class _Classes:
    """Arguments that are equal wherever rules pair or group their events, in classes (union-find)."""

    def __init__(self, book: Dependencies) -> None:
        self.book = book
        self.plan = book.plan
        self.parent: dict[Slot, Slot] = {}
        self.shown: dict[int, list[Slot | None]] = {}

    def read(self, rule: int) -> None:
        """Take in a rule."""
        for number in self.book.nodes[rule]:
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

    def join(self, one: Slot | None, other: Slot | None) -> None:
        if one is not None and other is not None:
            self.parent.setdefault(one, one)
            self.parent.setdefault(other, other)
            first, second = sorted((self.root(one), self.root(other)))
            self.parent[second] = first

    def node(self, number: int) -> list[Slot | None]:
        """For every column an argument that it shows."""
        match self.plan.nodes[number]:
            case Scan(event, take=take):
                slots: list[Slot | None] = [(event, position) for position in take]
                for slot in slots:
                    self.join(slot, slot)
                return slots
            case Tick():
                return []
            case Select(child, binds=binds):
                return [*self.shown[child], *(None for _ in binds)]
            case Join() as join:
                left, right = self.shown[join.left], self.shown[join.right]
                self.equal(left, right, self.book.pairs(join))
                both = [*left, *(right[column] for column in self.book.own(join))]
                if join.absent is not None:
                    self.equal(self.shown[join.absent], both, self.book.absent_pairs(join))
                return both
            case Union(one, other, order):
                self.equal(self.shown[one], self.shown[other], list(enumerate(order)))
                return self.shown[one]
            case Deadline() as deadline:
                self.equal(self.shown[deadline.left], self.shown[deadline.absent], self.book.held_against(deadline))
                return self.shown[deadline.left]
            case Aggregation(child, results, by=by):
                return [*(self.shown[child][column] for column in by), *(None for _ in results)]

    def equal(
        self, left: Sequence[Slot | None], right: Sequence[Slot | None], pairs: Iterable[tuple[int, int]]
    ) -> None:
        for a, b in pairs:
            self.join(left[a], right[b])
