"""The parts of a LARS program in the order in which they are evaluated, and which of them go round through negation.

A derived predicate depends on those derived that stand in the bodies of its rules: negatively under `not` and where an
atom is asked at every point of a window (□). Predicates that depend on each other are one component. Without a negative
dependency inside, a component has exactly one model; with one it may have none or several, and is an answer set
program. Source: Beck, Eiter and Folie, Ticker (2017), stratification of LARS programs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from cep.core.components import components as strongly_connected
from cep.language.dialects.lars.ast import EVERY, LarsLiteral, LarsProgram, LarsRule


@dataclass(frozen=True, slots=True)
class Cycle:
    """A way round through negation. `rules`: the first derives the first of `predicates` from the second, and so on;
    the last derives the last from the first. `literals`: what each of them asks of the next; the first is the negative
    one: under `not`, or at every point of a window."""

    predicates: tuple[str, ...]
    rules: tuple[LarsRule, ...]
    literals: tuple[LarsLiteral, ...]


@dataclass(frozen=True, slots=True)
class Component:
    """Derived predicates that depend on each other, in the order in which the program has them, and all their rules.
    `recursive`: one depends on itself or on another that does on it. `cyclic`: why it is not stratified; None: it is.

    Constraints are components without predicates, behind all others.
    """

    predicates: tuple[str, ...]
    rules: tuple[LarsRule, ...]
    recursive: bool
    cyclic: Cycle | None


@dataclass(frozen=True, slots=True)
class _Edge:
    """An edge of the dependency graph: a rule derives `head` from `body`."""

    head: str
    body: str
    rule: LarsRule
    literal: LarsLiteral

    @property
    def negative(self) -> bool:
        return self.literal.negated or self.literal.modality == EVERY


def components(program: LarsProgram) -> tuple[Component, ...]:
    """All components, each behind those that it depends on."""
    derived = program.derived
    rules: dict[str, list[LarsRule]] = {}
    for rule in program.rules:
        if rule.head is not None and rule.head.predicate in derived:
            rules.setdefault(rule.head.predicate, []).append(rule)
    edges = {name: [edge for rule in own for edge in _edges(rule, derived)] for name, own in rules.items()}
    found: list[Component] = []
    for names in strongly_connected(edges, lambda name: [edge.body for edge in edges[name]]):
        members = set(names)
        inside = [edge for name in names for edge in edges[name] if edge.body in members]
        own_rules = tuple(rule for name in names for rule in rules[name])
        found.append(Component(tuple(names), own_rules, bool(inside), _cycle(inside)))
    found += [Component((), (rule,), False, None) for rule in program.rules if rule.head is None]
    return tuple(found)


def _edges(rule: LarsRule, derived: frozenset[str]) -> Iterator[_Edge]:
    assert rule.head is not None, "constraints derive nothing"
    for each in rule.body:
        if isinstance(each, LarsLiteral) and each.atom.predicate in derived:
            yield _Edge(rule.head.predicate, each.atom.predicate, rule, each)


def _cycle(inside: list[_Edge]) -> Cycle | None:
    """The shortest way round with the first `not` of a component, or else the first □; None: it has neither."""
    negative = next((edge for edge in inside if edge.literal.negated), None)
    negative = negative or next((edge for edge in inside if edge.negative), None)
    if negative is None:
        return None
    out: dict[str, list[_Edge]] = {}
    for edge in inside:
        out.setdefault(edge.head, []).append(edge)
    last: dict[str, _Edge | None] = {negative.body: None}  # the edge by which each predicate is reached first
    waiting = deque([negative.body])
    while negative.head not in last:
        for edge in out.get(waiting.popleft(), ()):
            if edge.body not in last:
                last[edge.body] = edge
                waiting.append(edge.body)
    way: list[_Edge] = []
    step = last[negative.head]
    while step is not None:
        way.append(step)
        step = last[step.head]
    round = (negative, *reversed(way))
    return Cycle(
        tuple(edge.head for edge in round), tuple(edge.rule for edge in round), tuple(edge.literal for edge in round)
    )
