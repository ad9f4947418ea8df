"""Dependencies between the rules of a plan: the events that rules read and derive, and the arguments on which goals
join."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cep.core.components import components
from cep.plan.node import Node, PartColumn
from cep.plan.order import PlanUnit
from cep.plan.plan import Plan
from cep.rules.expressions.typed import TICKS
from cep.rules.terms import Comparison, Variable

Slot = tuple[str, int]
"""An argument of an event: the event's name, and the position of the argument."""


class Dependencies:
    """The dependencies of a plan's rules. A rule is identified by its number in the program.

    - `rank`: a number for each rule. A rule has a smaller number than the rules that need it.
    - `nodes`: all nodes of each rule, children before parents.
    - `reads`: the events that each rule reads.
    - `makers`: for each event, the rules that derive it.
    - `both`: the events that rules derive and that are also inputs.
    - `recursive`: the events that depend on themselves.
    - `apart`: the events that some goal joins, compares or groups by one of their arguments.
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
        """Return True if a goal of the rule keeps state."""
        return any(self.properties[n].remembers for n in self.nodes[rule])

    def units(self, rules: Collection[int], together: Collection[str] = ()) -> list[tuple[int, ...]]:
        """Divide rules into groups that must run in the same stage. A group precedes the groups that need its results.

        The rules of a recursion are in one group. For each event in `together`, all rules that derive this event are in
        one group.
        """
        inside = sorted(rules)
        together = self.recursive.union(together)
        makers: dict[str, list[int]] = {}
        for rule in inside:
            makers.setdefault(self.plan.heads[rule].event, []).append(rule)

        def needs(rule: int) -> list[int]:
            event = self.plan.heads[rule].event
            mine = makers[event] if event in together else []
            return mine + [maker for read in sorted(self.reads[rule]) for maker in makers.get(read, ())]

        return [tuple(component) for component in components(inside, needs)]

    def _recursive(self) -> frozenset[str]:
        reads: dict[PlanUnit, list[PlanUnit]] = {event: [] for event in self.makers}
        for event, makers in self.makers.items():
            reads[event] += [read for rule in makers for read in sorted(self.reads[rule]) if read in self.makers]
        cycles = [
            component
            for component in components(reads, reads.__getitem__)
            if len(component) > 1 or component[0] in reads[component[0]]
        ]
        return frozenset(event for cycle in cycles for event in cycle if isinstance(event, str))

    def pairs(self, number: int) -> list[tuple[PartColumn, PartColumn]]:
        """Return pairs of columns of a node's parts that have equal values in every result of the node.

        These are the columns of the join key, and the columns that the WHERE compares with `=`. The WHERE is ignored if
        the node checks it only after it has chosen partners.
        """
        properties = self.properties[number]
        pairs = [
            (left, other)
            for left, other in properties.equal
            if alike(self.type(number, left), self.type(number, other))
        ]
        if properties.selects or not self.plan.nodes[number].asked_first():
            return pairs
        for condition in properties.conditions:
            match condition:
                case Comparison("=", Variable(first_name), Variable(second_name)) if (
                    first_name[0] == second_name[0] == "v"
                ):
                    first, second = sorted(properties.shows[int(name[1:])][0] for name in (first_name, second_name))
                    type = self.type(number, first)
                    if first[0] != second[0] and type == self.type(number, second) != "any":
                        pairs.append((first, second))
                case _:
                    pass
        return pairs

    def forbidden(self, number: int) -> list[tuple[PartColumn, int]]:
        """Return the pairs of columns that a node compares to find negated occurrences: a column of the negated part,
        and a column of the node.

        Only pairs whose types are comparable are returned.
        """
        properties = self.properties[number]
        places = []
        for place, column in properties.forbids:
            if alike(self.type(number, place), self.type(number, properties.shows[column][0])):
                places.append((place, column))
        return places

    def type(self, number: int, place: PartColumn) -> str:
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
        properties, parts = self.properties[number], self.plan.nodes[number].parts
        if properties.event is not None:
            return [(properties.event, self.plan.nodes[number].takes()[column])]
        return [slot for part, below in properties.shows[column] for slot in self._shown(parts[part], below)]


def alike(left: str, two: str) -> bool:
    """Return True if equal values of the two types have the same representation. For example, a number of seconds and a
    duration do not."""
    return left == two or (left not in TICKS and two not in TICKS)


def _below(nodes: Sequence[Node], top: int) -> tuple[int, ...]:
    reached = {top}
    waiting = [top]
    while waiting:
        fresh = [child for child in nodes[waiting.pop()].parts if child not in reached]
        reached.update(fresh)
        waiting += fresh
    return tuple(sorted(reached))
