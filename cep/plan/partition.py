"""Split a program into stages of rules. A stage runs in one place, or in buckets by a key that all goals of its rules
share.

A stage reads inputs and the results of earlier stages. `Stage.inputs` says how each row is assigned to a bucket. The
results of a stage are complete up to the watermark of its input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Literal

from cep.core.components import components
from cep.core.fluents import author_name
from cep.plan.algebra import Head
from cep.plan.copartitioning import EVERYWHERE, Copartitioned, KeyColumns, SplitFailure, copartition
from cep.plan.dependencies import Dependencies
from cep.plan.order import PlanUnit
from cep.plan.plan import Plan
from cep.plan.ties import Ties, UnorderedTies
from cep.plan.variables import candidates

Route = tuple[int, ...] | Literal["whole", "broadcast", "single"]
"""The assignment of an event's rows to buckets.

- a tuple of positions: by the arguments at these positions
- "whole": by all values of the row
- "broadcast": the row is in every bucket
- "single": there is only one bucket
"""


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why a rule runs in one place.

    `node`: the goal that cannot run in buckets, or None if no single goal is the reason. `text`: the explanation.
    """

    rule: int
    node: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Stage:
    """A group of rules that run together.

    - `number`: the number of the stage, from 1.
    - `keyed`: True if the stage runs in buckets.
    - `rules`: the numbers of the rules.
    - `inputs`: for each event that the rules read, how its rows are assigned to buckets.
    - `outside`: the inputs that the program reads from outside. All other inputs are complete results of earlier
      stages.
    - `outputs`: the events that the rules derive.
    - `merged`: the outputs that several buckets or stages may derive. Their equal occurrences must be merged.
    - `reasons`: the reasons why rules run in one place.
    """

    number: int
    keyed: bool
    rules: tuple[int, ...]
    inputs: Mapping[str, Route]
    outside: frozenset[str]
    outputs: tuple[str, ...]
    merged: frozenset[str]
    reasons: tuple[Reason, ...]


def owner(stages: Iterable[Stage], event: str) -> int:
    """Return the number of the stage that reports on the records of an event. It is the first stage that reads them
    from outside the program."""
    return min(stage.number for stage in stages if event in stage.outside)


def partition(plan: Plan) -> tuple[Stage, ...]:
    """Return the stages of a program. The tuple contains each stage after the stages whose results it reads.

    As many rules as possible run by key, in as few stages as a greedy choice of keys finds. The results equal those of
    a single process. So a rule runs in one place if another stage depends on the order of the rule's simultaneous
    results, because buckets would lose this order. The stages are cached in the plan, because every engine of a stage
    needs them.
    """
    if not plan.stages:
        plan.stages.append(_partition(plan))
    stages: tuple[Stage, ...] = plan.stages[0]
    return stages


def dealt_by_keys(plan: Plan, stages: Iterable[Stage]) -> tuple[Stage, ...]:
    """Assign rows to buckets so that all records that have the same KEY are in one bucket. Return the changed stages.

    A later record can then replace an earlier one. A stage whose rules need another partitioning runs in one bucket.
    """
    dependencies = Dependencies(plan)
    return tuple(_dealt_by_keys(stage, plan, dependencies) for stage in stages)


def _dealt_by_keys(stage: Stage, plan: Plan, dependencies: Dependencies) -> Stage:
    keys = {event: places for event in stage.outside if (places := plan.schemas[event].key_places) is not None}
    ways = {event: stage.inputs[event] for event in keys}
    apart = {event for event, way in ways.items() if isinstance(way, tuple) and not set(way) <= set(keys[event])}
    whole = {event for event, way in ways.items() if way == "whole"}
    if any(map(dependencies.stateful, stage.rules)):
        by_key = {event: keys[event] for event in whole}
        return replace(stage, inputs={**stage.inputs, **by_key}, keyed=stage.keyed and not apart)
    by_key = {event: keys[event] for event in apart | whole}  # stateless rules work with any partitioning
    merged = frozenset(stage.outputs) if apart else stage.merged
    return replace(stage, inputs={**stage.inputs, **by_key}, merged=merged)


def _partition(plan: Plan) -> tuple[Stage, ...]:
    dependencies = Dependencies(plan)
    ties = Ties(dependencies)
    forced: dict[int, Reason] = {}
    while True:
        drafts = _Drawing(dependencies, forced).run()
        disordered = _disordered(ties, drafts, forced)
        if not disordered:
            return _stages(dependencies, drafts)
        forced |= disordered


@dataclass(frozen=True, slots=True)
class _Draft:
    """A stage under construction. `places`: the key columns of each event, or None if the stage runs in one place."""

    rules: tuple[int, ...]
    inputs: dict[str, Route]
    places: dict[str, KeyColumns] | None
    reasons: tuple[Reason, ...] = ()


class _Drawing:
    """The search for stages. It adds stages that run by key as long as some rule can run by key. Then it adds a stage
    of rules that cannot run by key, and starts again."""

    def __init__(self, dependencies: Dependencies, forced: Mapping[int, Reason]) -> None:
        self.dependencies = dependencies
        self.heads: tuple[Head, ...] = dependencies.plan.heads
        self.forced = forced
        self.together = {self.heads[rule].event for rule in forced}
        self.remaining = set(range(len(self.heads)))
        self.given = set(dependencies.plan.inputs - dependencies.makers.keys())
        self.taken: set[str] = set()

    def run(self) -> list[_Draft]:
        drafts: list[_Draft] = []
        while self.remaining:
            draft = self.keyed(self.remaining - self.forced.keys(), self.given) or self.single()
            drafts.append(draft)
            self.remaining -= set(draft.rules)
            outputs = {self.heads[rule].event for rule in draft.rules}
            self.taken |= outputs
            self.given |= {event for event in outputs if self.remaining.isdisjoint(self.dependencies.makers[event])}
        return drafts

    # --- keyed ---

    def keyed(self, rules: Set[int], given_events: Set[str]) -> _Draft | None:
        """Draft a stage of all `rules` that can run in buckets together. Return None if no rule can run in buckets.

        `given_events`: the events that are complete before the stage runs.
        """
        drafts = [draft for family in self.families(rules) if (draft := self.family(family, given_events)) is not None]
        if not drafts:
            return None
        inputs = {event: route for draft in drafts for event, route in draft.inputs.items()}
        places = {event: place for draft in drafts for event, place in (draft.places or {}).items()}
        return _Draft(tuple(sorted(rule for draft in drafts for rule in draft.rules)), inputs, places)

    def families(self, rules: Iterable[int]) -> list[list[int]]:
        """Group rules that read or derive common events. Rules in different groups share no event."""
        near: dict[PlanUnit, list[PlanUnit]] = {}
        for rule in sorted(rules):
            near[rule] = [*sorted(self.dependencies.reads[rule]), self.heads[rule].event]
            for event in near[rule]:
                near.setdefault(event, []).append(rule)
        return [
            [unit for unit in component if isinstance(unit, int)] for component in components(near, near.__getitem__)
        ]

    def inputs(self, rules: Iterable[int], given_events: Set[str]) -> set[str]:
        """Return the events that rules read from outside the program or from earlier stages.

        If an event is both derived and an input, the first stage that derives the event also reads its records.
        """
        outputs = ({self.heads[rule].event for rule in rules} & self.dependencies.both) - self.taken
        return {read for rule in rules for read in self.dependencies.reads[rule] if read in given_events} | outputs

    def family(self, rules: list[int], given_events: Set[str]) -> _Draft | None:
        dependencies, inputs = self.dependencies, self.inputs(rules, given_events)
        small = inputs - dependencies.apart

        def tried(held: Mapping[str, int]) -> Copartitioned:
            return copartition(dependencies, rules, held, small - held.keys(), given_events)

        held: dict[str, int] = {}
        best = tried(held)
        choices = candidates(dependencies, rules, inputs)
        ranked = sorted(choices, key=lambda choice: self.worth(tried(choice)), reverse=True)
        chosen: list[dict[str, int]] = []
        for choice in ranked:
            if held.keys().isdisjoint(choice):
                more = tried(held | choice)
                if self.worth(more) > self.worth(best):
                    held, best = held | choice, more
                    chosen.append(choice)
        # Small inputs need not be in every bucket if no rule in buckets depends on them.
        needed = {leaf for rule in self.located(best) for leaf in self.leaves(best, rule)} & (small - held.keys())
        best = copartition(dependencies, rules, held, needed, given_events)
        if not self.located(best):
            return None
        used = self.inputs(best.rules, given_events)
        keys: dict[str, list[int]] = {event: [held[event]] for event in used & held.keys()}
        for choice in chosen:
            mine = used & choice.keys()
            for other in ranked:
                if not mine or not mine <= other.keys() or any(other[event] in keys[event] for event in mine):
                    continue
                finer = copartition(
                    dependencies, best.rules, held | {event: other[event] for event in mine}, needed, given_events
                )
                if finer.rules == best.rules and all(finer.places[e] or not best.places[e] for e in best.places):
                    for event in mine:
                        keys[event].append(other[event])
        routes: dict[str, Route] = {}
        for event in sorted(used):
            routes[event] = "broadcast" if event in needed else tuple(keys[event]) if event in keys else "whole"
        return _Draft(best.rules, routes, dict(best.places))

    def located(self, placement: Copartitioned) -> list[int]:
        """Return the rules whose results differ between buckets. All other rules derive the same in every bucket."""
        return [rule for rule in placement.rules if placement.places[self.heads[rule].event] is not EVERYWHERE]

    def leaves(self, placement: Copartitioned, rule: int) -> Set[str]:
        """Return the inputs of the program on which a rule depends."""
        return frozenset[str]().union(*(placement.leaves.get(read, {read}) for read in self.dependencies.reads[rule]))

    def worth(self, placement: Copartitioned) -> tuple[int, int, int]:
        """Rate a choice of keys as a tuple. A better choice has a greater tuple. The tuple contains three numbers:

        - the number of rules with state that run by key
        - the number of rules whose events have a key
        - the number of all rules that run by key
        """
        located = self.located(placement)
        keyed = sum(bool(placement.places[self.heads[rule].event]) for rule in located)
        return sum(map(self.dependencies.stateful, located)), keyed, len(located)

    # --- in one place ---

    def single(self) -> _Draft:
        """Draft a stage of the remaining rules that cannot run by key. The stage also contains rules that only read
        their results."""
        chosen: list[int] = []
        reasons: list[Reason] = []
        to_come = {event: len(makers) for event, makers in self.dependencies.makers.items()}
        outputs: set[str] = set()
        for unit in self.dependencies.units(self.remaining, self.together):
            own = Counter(self.heads[rule].event for rule in unit)
            mine = {event for event, number in own.items() if to_come[event] == number}
            reads = {read for rule in unit for read in self.dependencies.reads[rule]} - mine
            if not reads <= self.given | outputs:
                continue
            follows = False
            if not (reads <= self.given or self.forced.keys() & set(unit)):
                draft = self.keyed(set(unit), self.given | outputs)
                follows = draft is not None and set(draft.rules) == set(unit)
            if follows and reads & self.given:
                continue  # these rules become a keyed stage of their own later
            chosen += unit
            to_come |= {event: to_come[event] - number for event, number in own.items()}
            outputs |= mine
            if not follows:
                reasons += self.reasons(unit, self.given | outputs)
        assert chosen, "the first of what is left can run now"
        rules = tuple(sorted(chosen))
        inputs: dict[str, Route] = dict.fromkeys(sorted(self.inputs(rules, self.given)), "single")
        return _Draft(rules, inputs, None, tuple(sorted(reasons, key=lambda reason: reason.rule)))

    def reasons(self, unit: tuple[int, ...], given_events: Set[str]) -> list[Reason]:
        """Explain why rules that must be in the same stage cannot run by key. The reasons are those of the choice of
        keys with which most of the rules could run."""
        if mine := [self.forced[rule] for rule in unit if rule in self.forced]:
            return mine
        inputs = self.inputs(unit, given_events)
        small = inputs - self.dependencies.apart
        choices = sorted(candidates(self.dependencies, unit, inputs), key=lambda held: held.keys() <= small)
        ways = [(held, small - held.keys()) for held in choices]
        tries = [copartition(self.dependencies, unit, *way, given_events).failures for way in [*ways, ({}, set[str]())]]
        failed: list[dict[int, SplitFailure]] = [
            {rule: failure for rule, failure in failures.items() if failure.node >= 0} for failures in tries
        ]
        failed = [failures for failures in failed if failures]
        if not failed:
            return [Reason(unit[0], None, "a time point has no key")]
        farthest = max(
            failed, key=lambda failures: (-len(failures), max(failure.node for failure in failures.values()))
        )
        return [Reason(rule, failure.node, failure.reason) for rule, failure in farthest.items()]


def _disordered(ties: Ties, drafts: list[_Draft], forced: Mapping[int, Reason]) -> dict[int, Reason]:
    """Return the rules that must run in one place, because some goal depends on the order of their results and buckets
    would lose this order."""
    dependencies, plan = ties.dependencies, ties.dependencies.plan
    unsure: set[str] = set()
    tainted: dict[str, frozenset[str]] = {}
    parts: dict[str, list[frozenset[str]]] = {}
    reasons: dict[int, Reason] = {}
    for draft in drafts:
        inputs = {event: route == "broadcast" for event, route in draft.inputs.items()}
        mixed = UnorderedTies(ties, draft.rules, inputs, frozenset(unsure & inputs.keys()), draft.places)
        for node, events in mixed.goals.items():
            waiting = sorted(events)
            blamed: set[str] = set()
            while waiting:
                event = waiting.pop()
                makers = [rule for rule in dependencies.makers[event] if rule not in forced]
                for rule in makers:
                    name = author_name(event)
                    text = f"{_whose(plan, node)} goes by the order of simultaneous `{name}`, which buckets would lose"
                    reasons.setdefault(rule, Reason(rule, None, text))
                blamed.add(event)
                assert makers or tainted.get(event), "what is made in one place has an order"
                if not makers:
                    waiting += sorted(tainted.get(event, frozenset()) - blamed)
        unsure |= mixed.events
        for event, origins in sorted(mixed.origins.items()):
            if any(origins & part for part in parts.get(event, ())):
                unsure.add(event)
            parts.setdefault(event, []).append(origins)
            tainted[event] = tainted.get(event, frozenset()) | mixed.tainted[event]
    return reasons


def _whose(plan: Plan, node: int) -> str:
    rule = plan.rules.rules[min(plan.users[node])]
    return f"`{rule.label}`" if rule.label is not None else plan.source.line_name(rule.span.line)


def _stages(dependencies: Dependencies, drafts: list[_Draft]) -> tuple[Stage, ...]:
    output_events = [
        tuple(dict.fromkeys(dependencies.plan.heads[rule].event for rule in draft.rules)) for draft in drafts
    ]
    makers = Counter(event for events in output_events for event in events)
    stages: list[Stage] = []
    for number, (draft, outputs) in enumerate(zip(drafts, output_events, strict=True), 1):
        outside = frozenset(event for event in draft.inputs if event not in dependencies.makers or event in outputs)
        scattered = {event for event, place in (draft.places or {}).items() if not place}
        merged = frozenset(event for event in outputs if makers[event] > 1 or event in scattered)
        keyed = draft.places is not None
        stages.append(Stage(number, keyed, draft.rules, draft.inputs, outside, outputs, merged, draft.reasons))
    return tuple(stages)
