"""Stratification of static predicates: their evaluation order, and cycles through `not`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cep.core.components import components
from cep.rules.terms import Predicate, StaticRule


@dataclass(frozen=True, slots=True)
class Stratum:
    """A group of predicates that depend on each other (`recursive`), or a single predicate that does not depend on
    itself."""

    names: tuple[str, ...]
    recursive: bool


Needs = Mapping[str, Sequence[Predicate]]
Cycle = Sequence[tuple[str, Predicate]]


def strata(names: Sequence[str], rules: Mapping[str, Sequence[StaticRule]]) -> tuple[list[Stratum], list[Cycle]]:
    """Return the groups of predicates in evaluation order, and one cycle for each `not` inside a group.

    Each group comes after the groups on which it depends. A cycle is a list of predicates, each with the condition that
    refers to the next predicate.
    """
    known = set(names)
    needs: dict[str, list[Predicate]] = {
        name: [
            condition
            for rule in rules.get(name, ())
            for condition in rule.conditions
            if isinstance(condition, Predicate) and condition.name in known
        ]
        for name in names
    }
    groups: list[Stratum] = []
    cycles: list[Cycle] = []
    for members in components(names, lambda name: [predicate.name for predicate in needs[name]]):
        inside = set(members)
        recursive = any(predicate.name in inside for name in members for predicate in needs[name])
        groups.append(Stratum(tuple(members), recursive))
        for name in groups[-1].names:
            for predicate in needs[name]:
                if predicate.negated and predicate.name in inside:
                    cycles.append([(name, predicate), *_path(predicate.name, name, needs, inside)])
    return groups, cycles


def _path(start: str, goal: str, needs: Needs, inside: set[str]) -> list[tuple[str, Predicate]]:
    """Return a shortest path of dependencies from the predicate `start` to the predicate `goal`. `inside`: the group of
    both."""
    if start == goal:
        return []
    reached_from: dict[str, tuple[str, Predicate]] = {}
    queue = [start]
    for name in queue:
        for predicate in needs[name]:
            if predicate.name in inside and predicate.name != start and predicate.name not in reached_from:
                reached_from[predicate.name] = (name, predicate)
                queue.append(predicate.name)
    path: list[tuple[str, Predicate]] = []
    while goal != start:
        path.append((reached_from[goal][0], reached_from[goal][1]))
        goal = reached_from[goal][0]
    return path[::-1]
