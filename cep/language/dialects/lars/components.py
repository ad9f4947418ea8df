"""The components of a LARS program in evaluation order, and the cycles through negation among them.

A derived predicate depends on the derived predicates in the bodies of its rules. The dependency is negative under
`not`, and under □ (at every tick of a window). Predicates that depend on each other form one component. A component
without a negative dependency inside has exactly one model. Otherwise it may have none or several, and is solved as an
answer set program. Source: Beck, Eiter and Folie, Ticker (2017), stratification of LARS programs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from cep.core.components import components as strongly_connected
from cep.language.dialects.lars.ast import EVERY, LarsLiteral, LarsProgram, LarsRule


@dataclass(frozen=True, slots=True)
class Cycle:
    """A cycle through negation.

    - `predicates`: the predicates of the cycle. Each predicate depends on the next, and the last one on the first.
    - `rules`: for each predicate, a rule that derives it and reads the next predicate.
    - `literals`: for each rule, its literal over the next predicate. The first literal is negative: it has `not` or
      □.
    """

    predicates: tuple[str, ...]
    rules: tuple[LarsRule, ...]
    literals: tuple[LarsLiteral, ...]


@dataclass(frozen=True, slots=True)
class Component:
    """Derived predicates that depend on each other, in program order, and all their rules.

    `recursive`: True if a predicate depends on itself. `cyclic`: the cycle through negation, or None if there is none.

    Each constraint is a component that has no predicates. Constraints come after all other components.
    """

    predicates: tuple[str, ...]
    rules: tuple[LarsRule, ...]
    recursive: bool
    cyclic: Cycle | None


@dataclass(frozen=True, slots=True)
class _Edge:
    """An edge of the dependency graph: `rule` derives the predicate `head` from the predicate `body`."""

    head: str
    body: str
    rule: LarsRule
    literal: LarsLiteral

    @property
    def negative(self) -> bool:
        return self.literal.negated or self.literal.modality == EVERY


def components(program: LarsProgram) -> tuple[Component, ...]:
    """Return all components of a program. Each one comes after the components on which it depends."""
    derived = program.derived
    rules: dict[str, list[LarsRule]] = {}
    for rule in program.rules:
        if rule.head is not None and rule.head.predicate in derived:
            rules.setdefault(rule.head.predicate, []).append(rule)
    edges = {name: [edge for rule in own for edge in _edges(rule, derived)] for name, own in rules.items()}
    parts: list[Component] = []
    for names in strongly_connected(edges, lambda name: [edge.body for edge in edges[name]]):
        members = set(names)
        inside = [edge for name in names for edge in edges[name] if edge.body in members]
        own_rules = tuple(rule for name in names for rule in rules[name])
        parts.append(Component(tuple(names), own_rules, bool(inside), _cycle(inside)))
    parts += [Component((), (rule,), False, None) for rule in program.rules if rule.head is None]
    return tuple(parts)


def _edges(rule: LarsRule, derived: frozenset[str]) -> Iterator[_Edge]:
    assert rule.head is not None, "constraints derive nothing"
    for element in rule.body:
        if isinstance(element, LarsLiteral) and element.atom.predicate in derived:
            yield _Edge(rule.head.predicate, element.atom.predicate, rule, element)


def _cycle(inside: list[_Edge]) -> Cycle | None:
    """Return a cycle through negation, or None if no edge of a component is negative.

    `inside`: the edges of the component. The result is the shortest cycle that contains the first edge with `not`. If
    no edge has `not`, it contains the first edge with □.
    """
    negative = next((edge for edge in inside if edge.literal.negated), None)
    negative = negative or next((edge for edge in inside if edge.negative), None)
    if negative is None:
        return None
    out: dict[str, list[_Edge]] = {}
    for edge in inside:
        out.setdefault(edge.head, []).append(edge)
    last: dict[str, _Edge | None] = {negative.body: None}  # the edge by which each predicate was first reached
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
