"""Find simultaneous occurrences whose order is lost when the results of buckets are merged.

Occurrences arrive in the order of (end, start, order). Occurrences tie if all three are equal. In a single process,
tied occurrences arrive in the order in which they were derived. Between stages, rows keep the order of the bucket that
derived them, but the order of tied rows from different buckets is unknown. This module finds such rows, and the goals
whose results depend on their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from cep.plan.copartitioning import EVERYWHERE, KeyColumns
from cep.plan.dependencies import Dependencies

TIME_POINT = ""
"""A name that stands for fixed points in time, if the order of an event's occurrences comes from such points."""


class Ties:
    """The order of a program's occurrences, as far as it does not depend on the split into stages.

    - `origins`: for each event, the inputs from which its occurrences inherit their order.
    - `node_origins`: for each node, the inputs from which its results inherit their order.
    - `alone`: for each event, True if occurrences that have the same end always differ in their order.
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
        """Extend `origins` by one pass over all rules. Return True if anything changed. The caller repeats this until
        nothing changes."""
        nothing: frozenset[str] = frozenset()
        self.node_origins = origins = []
        for number, properties in enumerate(self.dependencies.properties):
            if properties.event is not None:
                origins.append(self.origins[properties.event])
            elif self.dependencies.plan.nodes[number].once():
                origins.append(frozenset({TIME_POINT}))
            else:
                origins.append(nothing.union(*(origins[below] for below in self.completing(number))))
        before = dict(self.origins)
        for head in self.dependencies.plan.heads:
            self.origins[head.event] |= origins[head.child]
        return self.origins != before

    def _narrow(self) -> bool:
        """Set entries of `alone` to False by one pass over all rules. Return True if anything changed. The caller
        repeats this until nothing changes."""
        plan = self.dependencies.plan
        self.node_alone = alone = []
        for number, properties in enumerate(self.dependencies.properties):
            below = self.completing(number)
            if properties.event is not None:
                alone.append(self.alone[properties.event])
            elif plan.nodes[number].one_at_once():
                alone.append(True)
            else:
                alone.append(not properties.multiplies and self.disjoint(below) and all(alone[part] for part in below))
        before = dict(self.alone)
        for event, makers in self.dependencies.makers.items():
            sources = [plan.heads[rule].child for rule in makers]
            several = [self.node_origins[child] for child in sources] + [frozenset({event} & self.outside)]
            self.alone[event] = self.alone[event] and all(alone[child] for child in sources) and _disjoint(several)
        return self.alone != before

    def completing(self, number: int) -> list[int]:
        """Return the parts of a node from which the node's results inherit their order of arrival."""
        parts = self.dependencies.plan.nodes[number].parts
        return [parts[part] for part in self.dependencies.properties[number].completes]

    def disjoint(self, nodes: Iterable[int]) -> bool:
        return _disjoint([self.node_origins[number] for number in nodes])


def _disjoint(sets: Sequence[frozenset[str]]) -> bool:
    return sum(map(len, sets)) == len(frozenset[str]().union(*sets))


class UnorderedTies:
    """The tied occurrences of one stage whose order is unknown.

    Parameters:

    - `rules`: the rules of the stage.
    - `inputs`: for each input, True if every bucket receives it.
    - `unsure`: the inputs that may have ties of unknown order.
    - `places`: the key columns of the derived events, or None if the stage runs in one place.

    Results:

    - `events`: the derived events that may pass ties of unknown order to other stages.
    - `goals`: the nodes that depend on the order of their input, each with those of its inputs that may have ties
      of unknown order.
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
        outputs = {plan.heads[rule].event for rule in rules}
        # `of`: the inputs that complete each node. `taint`: the unsure inputs that it depends on.
        completers: dict[str, frozenset[str]] = {event: frozenset({event} & inputs.keys()) for event in outputs}
        tainted: dict[str, frozenset[str]] = dict.fromkeys(outputs, frozenset())
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
            event: frozenset[str]().union(*(self.source(completer, outputs) for completer in completers[event]))
            for event in outputs
        }
        self.tainted = tainted
        self.events = frozenset(
            event
            for event in outputs
            if tainted[event]
            or (
                places is not None
                and places[event] is not EVERYWHERE
                and not self.known(sorted(completers[event]), outputs, inputs)
            )
        )

    def known(self, completers: Sequence[str], outputs: Set[str], inputs: Mapping[str, bool]) -> bool:
        """Return True if occurrences with the same order are always in the same bucket. This is so if all of them
        depend on the same input occurrence.

        `completers`: the inputs from which they inherit their order.
        """
        single = all(c != TIME_POINT and not inputs[c] and (c in outputs or self.ties.alone[c]) for c in completers)
        return single and _disjoint([self.source(c, outputs) for c in completers])

    def source(self, completer: str, outputs: Set[str]) -> frozenset[str]:
        """Return the inputs of the program from which `completer`, an input of the stage, inherits its order.

        If the stage also derives `completer`, return `completer` itself.
        """
        if completer == TIME_POINT or completer in outputs:
            return frozenset({completer})
        return self.ties.origins[completer]
