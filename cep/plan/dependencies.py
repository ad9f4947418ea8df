"""What the rules of a plan read and make, and by which arguments their goals keep apart what they read."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cep.plan.algebra import Aggregation, Deadline, Join, Node, Scan, Select, Union, children
from cep.plan.order import Unit, components
from cep.plan.plan import Plan
from cep.rules.terms import Comparison, Variable
from cep.rules.typed import TICKS

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
        self.reads = [
            frozenset(node.event for n in nodes if isinstance(node := plan.nodes[n], Scan)) for nodes in self.nodes
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
        """Whether a rule has a goal that remembers."""
        return any(isinstance(self.plan.nodes[n], Join | Deadline | Aggregation) for n in self.nodes[rule])

    def units(self, rules: Collection[int], together: Collection[str] = ()) -> list[tuple[int, ...]]:
        """Rules that stay together, needed ones first: those of a recursion, and of each event of `together`."""
        inside = sorted(rules)
        together = self.recursive.union(together)
        makers: dict[str, list[Unit]] = {}
        for rule in inside:
            makers.setdefault(self.plan.heads[rule].event, []).append(rule)

        def needs(rule: Unit) -> list[Unit]:
            assert isinstance(rule, int), "units are rules"
            event = self.plan.heads[rule].event
            mine = makers[event] if event in together else []
            return mine + [maker for read in sorted(self.reads[rule]) for maker in makers.get(read, ())]

        return [tuple(unit for unit in found if isinstance(unit, int)) for found in components(inside, needs)]

    def _recursive(self) -> frozenset[str]:
        reads: dict[Unit, list[Unit]] = {event: [] for event in self.makers}
        for event, makers in self.makers.items():
            reads[event] += [read for rule in makers for read in sorted(self.reads[rule]) if read in self.makers]
        cycles = [
            found for found in components(reads, reads.__getitem__) if len(found) > 1 or found[0] in reads[found[0]]
        ]
        return frozenset(event for found in cycles for event in found if isinstance(event, str))

    def pairs(self, join: Join) -> list[tuple[int, int]]:
        """The columns of left and right that are equal, and equal as values, in every pair: the key, and what the WHERE
        says is equal, where that is asked before a pair is chosen."""
        left, right = self.types(join.left), self.types(join.right)
        found = [(a, b) for a, b in join.key if alike(left[a], right[b])]
        if join.policy == "recent":
            return found
        own = self.own(join)
        for condition in join.decide:
            match condition:
                case Comparison("=", Variable(one), Variable(two)) if one[0] == two[0] == "v":
                    a, b = sorted((int(one[1:]), int(two[1:])))
                    if a < join.left_width <= b and left[a] == right[own[b - join.left_width]] != "any":
                        found.append((a, own[b - join.left_width]))
                case _:
                    pass
        return found

    def own(self, join: Join) -> list[int]:
        """The right side's columns that a join has besides its left side's."""
        taken = {b for _, b in join.key}
        return [column for column in range(len(self.plan.columns[join.right])) if column not in taken]

    def absent_pairs(self, join: Join) -> list[tuple[int, int]]:
        """The columns of what is absent and of the join that are equal as values where the one forbids the other."""
        assert join.absent is not None, "asked of a NOT"
        left, right, absent = self.types(join.left), self.types(join.right), self.types(join.absent)
        types = [*left, *(right[column] for column in self.own(join))]
        return [(a, c) for a, c in join.absent_key if alike(absent[a], types[c])]

    def held_against(self, deadline: Deadline) -> list[tuple[int, int]]:
        """The same of an UNLESS: columns of its left side and of what is absent."""
        left, absent = self.types(deadline.left), self.types(deadline.absent)
        return [(a, b) for a, b in deadline.key if alike(left[a], absent[b])]

    def types(self, node: int) -> list[str]:
        return [column.type for column in self.plan.columns[node]]

    def _apart(self, number: int) -> list[Slot]:
        match self.plan.nodes[number]:
            case Join() as join:
                sides = [side for a, b in self.pairs(join) for side in ((join.left, a), (join.right, b))]
                if join.absent is not None:
                    sides += [(join.absent, a) for a, _ in self.absent_pairs(join)]
            case Deadline() as deadline:
                against = self.held_against(deadline)
                sides = [side for a, b in against for side in ((deadline.left, a), (deadline.absent, b))]
            case Aggregation(child, by=by):
                sides = [(child, column) for column in by]
            case _:
                sides = []
        return [slot for side, column in sides for slot in self._shown(side, column)]

    def _shown(self, number: int, column: int) -> list[Slot]:
        """The arguments of events that a column shows."""
        match self.plan.nodes[number]:
            case Scan(event, take=take):
                return [(event, take[column])]
            case Join() as join if column < join.left_width:
                return self._shown(join.left, column)
            case Join() as join:
                return self._shown(join.right, self.own(join)[column - join.left_width])
            case Union(left, right, order):
                return self._shown(left, column) + self._shown(right, order[column])
            case Deadline(left=child):
                return self._shown(child, column)
            case Select(child) if column < len(self.plan.columns[child]):
                return self._shown(child, column)
            case Aggregation(child, by=by) if column < len(by):
                return self._shown(child, by[column])
            case _:
                return []


def alike(one: str, two: str) -> bool:
    """Whether equal values of the two types are equal as they stand: a number of seconds is no time."""
    return one == two or (one not in TICKS and two not in TICKS)


def _below(nodes: Sequence[Node], top: int) -> tuple[int, ...]:
    found = {top}
    waiting = [top]
    while waiting:
        fresh = [child for child in children(nodes[waiting.pop()]) if child not in found]
        found.update(fresh)
        waiting += fresh
    return tuple(sorted(found))
