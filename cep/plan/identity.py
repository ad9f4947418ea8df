"""Fingerprints of the parts of a plan. A part that is equal in two programs has the same fingerprint in both. So the
state of this part can be kept when one program replaces the other.

Two parts are equal if everything on which they depend is equal. This includes patterns, constants, types, policies,
WITHIN, conditions and the predicates that they use, and the rules and declarations of events.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from typing import Any, cast

from cep.plan.algebra import Rules
from cep.plan.node import PART_FIELDS
from cep.plan.order import PlanUnit, reads
from cep.plan.plan import Plan
from cep.rules.expressions.typed import TypedCall
from cep.rules.terms import Call, Predicate

OF_AREAS = "inside"
"""The name of the function that looks up areas in the background knowledge."""


def identities(plan: Plan, asked: Mapping[str, str]) -> dict[PlanUnit, str]:
    """Return a fingerprint of 16 hexadecimal digits for each node and event of a plan.

    `asked`: the fingerprints of predicates, as `meanings` returns them.
    """
    hashes: dict[PlanUnit, str] = {}
    for group in plan.groups:
        inside = set(group.units) if group.recursive else set[PlanUnit]()
        group_hashes = {unit: _hashed(_rooted(plan, unit, inside, hashes, asked)) for unit in group.units}
        hashes |= group_hashes
    return hashes


def meanings(rules: Rules, facts: Mapping[str, str], knowledge: str | None) -> dict[str, str]:
    """Return a fingerprint for each predicate that conditions may use.

    `facts`: the fingerprint of each table of facts. `knowledge`: one fingerprint for the whole background knowledge.
    """
    own: dict[str, list[str]] = {name: [table] for name, table in facts.items()}
    for rule in rules.statics:
        own.setdefault(rule.name, []).append(spelt(rule))
    for name, graph in rules.asked.items():
        own.setdefault(name, []).append(f"{spelt(graph)} {knowledge}")
    below = {name: {name} for name in own}
    for rule in rules.statics:
        below[rule.name] |= {name for condition in rule.conditions for name in _names(condition) if name in own}
    for via in own:
        for name in own:
            if via in below[name]:
                below[name] |= below[via]
    hashes = {name: _hashed(repr([(used, own[used]) for used in sorted(below[name])])) for name in own}
    return hashes | {"": knowledge or ""}


def spelt(value: Any) -> str:
    """Return an object of the syntax tree or the plan as text. Fields that are ignored when two objects are compared
    are left out.

    Stored states are found by this text. So a class that is renamed keeps its old name in the attribute `spelt_as`.
    """
    if is_dataclass(value) and not isinstance(value, type):
        inner = [
            spelt(getattr(value, field.name))
            for field in fields(value)
            if field.compare and not ("later" in field.metadata and getattr(value, field.name) is None)
        ]
        return f"{getattr(value, 'spelt_as', type(value).__name__)}({', '.join(inner)})"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(spelt, value))})"
    return repr(value)


def _rooted(
    plan: Plan, root: PlanUnit, inside: Set[PlanUnit], known: Mapping[PlanUnit, str], asked: Mapping[str, str]
) -> str:
    """Describe a node or event, together with the other nodes and events of its cycle, as text.

    - `root`: the node or event. It has number 0. The others are numbered in the order of a search that starts there.
    - `inside`: the nodes and events of the cycle.
    - `known`: the fingerprints of nodes and events outside the cycle.
    """
    numbers: dict[PlanUnit, int] = {root: 0}
    waiting = [root]

    def name(unit: PlanUnit) -> str:
        if unit not in inside:
            return known[unit]
        if unit not in numbers:
            numbers[unit] = len(numbers)
            waiting.append(unit)
        return str(numbers[unit])

    return "\n".join(_described(plan, unit, name, asked) for unit in waiting)


def _described(plan: Plan, unit: PlanUnit, name: Callable[[PlanUnit], str], asked: Mapping[str, str]) -> str:
    if isinstance(unit, str):
        heads = [
            (name(head.child), spelt(arguments), _asked(arguments, asked))
            for head, arguments in zip(plan.heads, plan.arguments, strict=True)
            if head.event == unit
        ]
        return repr((spelt(plan.schemas[unit]), unit in plan.inputs, heads))
    node = plan.nodes[unit]
    taken = [name(unit) for unit in reads(node)]
    own = [
        (field.name, spelt(getattr(node, field.name)))
        for field in fields(cast(Any, node))
        if field.name not in PART_FIELDS and field.compare
        # A field added later with a default of None must not change the fingerprints of existing states.
        if not (field.default is None and getattr(node, field.name) is None)
    ]
    return repr((type(node).__name__, own, taken, spelt(plan.columns[unit]), plan.points[unit], _asked(node, asked)))


def _asked(value: Any, asked: Mapping[str, str]) -> list[str]:
    return sorted({asked[""] if name == OF_AREAS else asked.get(name, asked[""]) for name in _names(value)})


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, Predicate):
        yield value.name
    elif isinstance(value, Call | TypedCall) and value.function == OF_AREAS:
        yield OF_AREAS
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _names(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for member in value:
            yield from _names(member)


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
