"""Find simultaneous occurrences whose order would differ from that of one process: ties after a reshuffle.

Arrival is by (end, start, order), and what is still equal arrives in the order it was made (M2). Between stages rows
keep the order of the bucket that made them; of two that tie and come from different buckets no order is known. Here
is where that can be, and which goals would go by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from cep.plan.copartitioning import EVERYWHERE, KeyColumns
from cep.plan.dependencies import Dependencies

TIME_POINT = ""
"""As an origin: an order that no occurrence has but a time point's."""


class Ties:
    """Facts about a program that do not depend on how it is split.

    `origins`: the inputs from which occurrences have their order, by node and event; `alone`: whether no two
    occurrences with the same end have the same order.
    """

    def __init__(self, dependencies: Dependencies) -> None:
        self.dependencies = dependencies
        plan = dependencies.plan
        self.outside = {name for name in plan.schemas if name in plan.inputs}
        self.origins: dict[str, frozenset[str]] = {name: frozenset({name} & self.outside) for name in plan.schemas}
        self.node_origins: list[frozenset[str]] = []
        while self._trace():
            pass
        self.alone = dict.fromkeys(plan.schemas, True)
        self.node_alone: list[bool] = []
        while self._narrow():
            pass

    def _trace(self) -> bool:
        """A sweep of the least fixpoint; whether it found anything."""
        nothing: frozenset[str] = frozenset()
        self.node_origins = made = []
        for number, properties in enumerate(self.dependencies.properties):
            if properties.event is not None:
                made.append(self.origins[properties.event])
            elif self.dependencies.plan.nodes[number].once():
                made.append(frozenset({TIME_POINT}))
            else:
                made.append(nothing.union(*(made[below] for below in self.completing(number))))
        before = dict(self.origins)
        for head in self.dependencies.plan.heads:
            self.origins[head.event] |= made[head.child]
        return self.origins != before

    def _narrow(self) -> bool:
        """A sweep of the greatest fixpoint; whether it took anything back."""
        plan = self.dependencies.plan
        self.node_alone = made = []
        for number, properties in enumerate(self.dependencies.properties):
            below = self.completing(number)
            if properties.event is not None:
                made.append(self.alone[properties.event])
            elif plan.nodes[number].one_at_once():
                made.append(True)
            else:
                made.append(not properties.multiplies and self.disjoint(below) and all(made[each] for each in below))
        before = dict(self.alone)
        for event, makers in self.dependencies.makers.items():
            sources = [plan.heads[rule].child for rule in makers]
            several = [self.node_origins[child] for child in sources] + [frozenset({event} & self.outside)]
            self.alone[event] = self.alone[event] and all(made[child] for child in sources) and _disjoint(several)
        return self.alone != before

    def completing(self, number: int) -> list[int]:
        """The nodes below from which an occurrence takes its order of arrival (M2)."""
        parts = self.dependencies.plan.nodes[number].parts
        return [parts[part] for part in self.dependencies.properties[number].completes]

    def disjoint(self, nodes: Iterable[int]) -> bool:
        return _disjoint([self.node_origins[number] for number in nodes])


def _disjoint(sets: Sequence[frozenset[str]]) -> bool:
    return sum(map(len, sets)) == len(frozenset[str]().union(*sets))


class UnorderedTies:
    """The same of one stage: `events` it makes that may reach others with ties out of order, and `goals`, each that
    goes by the order of such inputs, with them.

    `inputs`: how each input comes, EVERYWHERE or not; `unsure`: the inputs that come with ties out of order. `places`:
    where the events are that it makes; None where it runs in one partition.
    """

    def __init__(
        self,
        ties: Ties,
        rules: Sequence[int],
        inputs: Mapping[str, bool],
        unsure: frozenset[str],
        places: Mapping[str, KeyColumns] | None,
    ) -> None:
        dependencies, plan = ties.dependencies, ties.dependencies.plan
        self.ties = ties
        made = {plan.heads[rule].event for rule in rules}
        # Of every node the inputs that complete it, and the unsure ones that are in it.
        completers: dict[str, frozenset[str]] = {event: frozenset({event} & inputs.keys()) for event in made}
        tainted: dict[str, frozenset[str]] = dict.fromkeys(made, frozenset())
        numbers = sorted({n for rule in rules for n in dependencies.nodes[rule]})
        self.goals: dict[int, frozenset[str]] = {}
        while True:
            of: dict[int, frozenset[str]] = {}
            taint: dict[int, frozenset[str]] = {}
            for number in numbers:
                node, properties = plan.nodes[number], dependencies.properties[number]
                if properties.event is not None:
                    of[number] = completers.get(properties.event, frozenset({properties.event}))
                    taint[number] = tainted.get(properties.event, frozenset({properties.event} & unsure))
                elif node.once():
                    of[number], taint[number] = frozenset({TIME_POINT}), frozenset()
                else:
                    of[number] = frozenset[str]().union(*(of[below] for below in ties.completing(number)))
                    taint[number] = frozenset[str]().union(*(taint[below] for below in node.parts))
                if taint[number] and node.by_order(dependencies.plan.types(number)):
                    self.goals[number] = taint[number]
            before = dict(completers), dict(tainted)
            for rule in rules:
                head = plan.heads[rule]
                completers[head.event] |= of[head.child]
                tainted[head.event] |= taint[head.child]
            if (completers, tainted) == before:
                break
        self.origins = {
            event: frozenset[str]().union(*(self.source(completer, made) for completer in completers[event]))
            for event in made
        }
        self.tainted = tainted
        self.events = frozenset(
            event
            for event in made
            if tainted[event]
            or (
                places is not None
                and places[event] is not EVERYWHERE
                and not self.known(sorted(completers[event]), made, inputs)
            )
        )

    def known(self, completers: Sequence[str], made: Set[str], inputs: Mapping[str, bool]) -> bool:
        """Return True if tied occurrences are in the same bucket, because each order belongs to one occurrence."""
        one = all(c != TIME_POINT and not inputs[c] and (c in made or self.ties.alone[c]) for c in completers)
        return one and _disjoint([self.source(c, made) for c in completers])

    def source(self, completer: str, made: Set[str]) -> frozenset[str]:
        """The inputs of the program that an input of the stage has its orders from. (What is made here as well comes
        from outside.)"""
        if completer == TIME_POINT or completer in made:
            return frozenset({completer})
        return self.ties.origins[completer]
