"""Explain why an event was derived: by which rule and from which constituents, why these were derived in turn, and so
on down to input records."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cep.core.values import Ints
from cep.explain.fluents import FluentNodes
from cep.explain.judging import Judge
from cep.explain.matching import Attempt, Matcher
from cep.explain.nodes import DerivationNode
from cep.explain.occurrences import Memory, Occurrence, same
from cep.explain.question import END
from cep.plan.algebra import Rule
from cep.plan.pattern import levels

MOST = 200
"""The default limit for the number of occurrences in a derivation tree."""
DEEPEST = 20


def derivation(
    memory: Memory,
    judge: Judge,
    occurrence: Occurrence,
    most: int = MOST,
    depth: int = DEEPEST,
    instant: int | None = None,
) -> DerivationNode:
    """Return the derivation tree of an occurrence.

    - `most`: the greatest number of occurrences in the tree.
    - `depth`: the greatest number of levels of rules. The links of a chain (see `DerivationNode`) do not count as
      levels.
    - `instant`: the time of the question, or None.
    """
    return _Deriving(memory, judge, most, instant).node(occurrence, depth)


def fluent_nodes(memory: Memory, judge: Judge, most: int) -> FluentNodes:
    """Return an object that creates the nodes of fluents. `most`: the greatest number of occurrences in a tree."""
    return _Deriving(memory, judge, most).fluents


class _Deriving:
    def __init__(self, memory: Memory, judge: Judge, most: int, instant: int | None = None) -> None:
        self.memory = memory
        self.judge = judge
        self.room = most
        self.seen: set[Occurrence] = set()
        self.fluents = FluentNodes(memory, judge, self, instant)

    def node(self, occurrence: Occurrence, depth: int) -> DerivationNode:
        self.room -= 1
        if self.memory.is_input(occurrence):
            return DerivationNode(occurrence, True)
        if occurrence in self.seen:
            return DerivationNode(occurrence, False, again=True)
        self.seen.add(occurrence)
        if self.memory.fluents.knows(occurrence.event):
            return self.fluents.node(occurrence, depth)
        derived = self.made(occurrence)
        if derived is None:
            records = [
                DerivationNode(record, True) for record in self.memory.records(occurrence.name)[: max(self.room, 0)]
            ]
            self.room -= len(records)
            return DerivationNode(occurrence, False, parts=tuple(records))
        rule, attempt = derived
        before = _earlier(attempt, occurrence)
        parts = self.parts([part for part in attempt.parts if part is not before], depth)
        chain, left_out = ((), 0) if before is None else self.chain(before, depth)
        return self.explained(occurrence, rule, attempt, parts, chain, left_out)

    def parts(self, occurrences: list[Occurrence], depth: int) -> tuple[tuple[DerivationNode, ...], int]:
        nodes: list[DerivationNode] = []
        occurrences = list(dict.fromkeys(occurrences))
        for place, part in enumerate(occurrences):
            if self.room <= 0 or depth <= 0:
                return tuple(nodes), len(occurrences) - place
            nodes.append(self.node(part, depth - 1))
        return tuple(nodes), 0

    def chain(self, latest: Occurrence, depth: int) -> tuple[tuple[DerivationNode, ...], int]:
        """Return the chain of the occurrence `latest`, and the number of occurrences that were left out.

        The chain contains the earlier occurrences of the same event from which `latest` was derived.
        """
        links: list[DerivationNode] = []
        current: Occurrence | None = latest
        while current is not None and self.room > 0 and current not in self.seen:
            self.room -= 1
            self.seen.add(current)
            derived = None if self.memory.is_input(current) else self.made(current)
            if derived is None:
                links.append(DerivationNode(current, self.memory.is_input(current)))
                return tuple(links), 0
            rule, attempt = derived
            before = _earlier(attempt, current)
            parts = self.parts([part for part in attempt.parts if part is not before], depth)
            links.append(self.explained(current, rule, attempt, parts, (), 0))
            current = before
        if current is not None and current in self.seen:
            links.append(DerivationNode(current, False, again=True))
            return tuple(links), 0
        return tuple(links), int(current is not None)

    def explained(
        self,
        occurrence: Occurrence,
        rule: Rule,
        attempt: Attempt,
        parts: tuple[tuple[DerivationNode, ...], int],
        chain: tuple[DerivationNode, ...],
        left_out: int,
    ) -> DerivationNode:
        judged = tuple(self.judge.detailed(condition, bound) for condition, bound in attempt.judged)
        bound = {name: value for name, value in attempt.bound.items() if "'" not in name}
        also = tuple(other_rule for other_rule in self.rules(occurrence, True) if other_rule is not rule)
        more = parts[1] + left_out
        return DerivationNode(
            occurrence, False, rule, bound, judged, attempt.silent, parts[0], chain, left_out=more, also=also
        )

    def rules(self, occurrence: Occurrence, only_own: bool = False) -> list[Rule]:
        """Return the rules that may have derived an occurrence.

        `only_own`: True to return only rules that the lineage names for this occurrence.
        """
        every = self.memory.engine.plan.rules.rules
        own_rules = [every[number] for number in self.memory.rules(occurrence)]
        return own_rules or ([] if only_own else [rule for rule in every if rule.event == occurrence.event])

    def made(self, occurrence: Occurrence) -> tuple[Rule, Attempt] | None:
        """Return the rule that derived an occurrence, and the match of its pattern. Returns None if no match is found.

        To find the match, the rules are matched with the occurrence's constituents. If that fails, the constituents of
        these constituents are added, and so on.
        """
        rules = self.rules(occurrence)
        names: Ints = np.array([occurrence.name], np.int64)
        for level in range(2 + max((levels(rule.body) for rule in rules), default=0)):
            if level:
                grown = np.union1d(names, self.memory.parts(names))
                if len(grown) == len(names):
                    break
                names = grown
            for rule in rules:
                attempt = self._by(rule, occurrence, names)
                if attempt is not None:
                    return rule, attempt
        return None

    def _by(self, rule: Rule, occurrence: Occurrence, names: Ints) -> Attempt | None:
        known: dict[str, list[Occurrence]] = {}

        def find(event: str, fixed: Mapping[int, object]) -> list[Occurrence]:
            if event not in known:
                known[event] = [candidate for candidate in self.memory.named(event, names) if candidate != occurrence]
            return known[event]

        matcher = Matcher(find, self.judge, self.memory.schemas, END, self.memory.fluents.at)
        for attempt in matcher.attempts(rule.body, {}):
            if attempt.failure is not None:
                return None
            if (attempt.start, attempt.end) == (occurrence.start, occurrence.end):
                values = [self.judge.value(argument, attempt.bound) for argument in rule.arguments]
                if all((a is None and b is None) or same(a, b) for (a, _), b in zip(values, occurrence.args)):
                    return attempt
        return None


def _earlier(attempt: Attempt, occurrence: Occurrence) -> Occurrence | None:
    return next((part for part in attempt.parts if part.event == occurrence.event), None)
