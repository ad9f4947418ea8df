"""The preparation of patterns in the reference interpreter.

It finds their variables, expands TIMES, and decides where each condition of a WHERE is tested.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from tests import reference_tree as p
from tests.reference_values import uses_interval, variables


def mentioned(pattern: Any) -> set[str]:
    """All named variables in a pattern, local ones included."""
    own = set(variables(pattern.arguments)) if isinstance(pattern, p.Atom) else uses(pattern)
    return own.union(*map(mentioned, pattern.parts()))


def uses(pattern: Any) -> set[str]:
    """The variables that an operator or a clause itself mentions."""
    match pattern:
        case p.Where():
            return set(variables(pattern.conditions))
        case p.Policy():
            return {pattern.choice.by} if pattern.choice.by else set()
        case p.Operator():
            return pattern.uses()
    return set()


def binds(pattern: Any) -> set[str]:
    """The variables a pattern hands up."""
    match pattern:
        case p.Atom() | p.Point():
            return mentioned(pattern)
        case p.Pair(operator="or" | "cnot"):
            return binds(pattern.left)
        case p.Not():
            return binds(pattern.left) | binds(pattern.right)
        case p.Where():
            return binds(pattern.pattern) | uses(pattern)
        case p.Operator():
            return pattern.binds([binds(part) for part in pattern.parts()])
    return set().union(*map(binds, pattern.parts()))


def expand(pattern: Any, outside: set[str]) -> None:
    """Put the chain p SEQ p SEQ ... into each TIMES; what is not used `outside` becomes each copy's own."""
    for part in pattern.parts():
        others = (mentioned(other) for other in pattern.parts() if other is not part)
        expand(part, outside.union(uses(pattern), *others))
    if isinstance(pattern, p.Times):
        local = mentioned(pattern.pattern) - outside
        copies = [
            rename(copy.deepcopy(pattern.pattern), {name: f"{name}#{i}" for name in local})
            for i in range(pattern.count)
        ]
        chain = copies[0]
        for each in copies[1:]:
            chain = p.Pair("seq", chain, each)
        pattern.pattern = chain


def rename(thing: Any, names: dict[str, str]) -> Any:
    """The same pattern, condition or expression with other variables."""
    if isinstance(thing, p.Var):
        return p.Var(names.get(thing.name, thing.name))
    if isinstance(thing, tuple | list):
        return type(thing)(rename(part, names) for part in thing)
    if isinstance(thing, p.Or):
        local = tuple(names.get(name, name) for name in thing.local)
        return p.Or(rename(thing.alternatives, names), local)
    if isinstance(thing, p.Choice):
        return replace(thing, by=names.get(thing.by or "", thing.by))
    if hasattr(thing, "__dataclass_fields__") and not isinstance(thing, p.Const | p.Ticks):
        return replace(thing, **{name: rename(getattr(thing, name), names) for name in thing.__dataclass_fields__})
    return thing


def place(pattern: Any) -> None:
    """Hand each component of each WHERE to the patterns that decide it (decision M4)."""
    for part in pattern.parts():
        place(part)
    if isinstance(pattern, p.Where):
        below = binds(pattern.pattern)
        found = components(pattern.conditions, below)
        for component in found:
            used = set(variables(component)) & below
            push(component, used, pattern.pattern, stay=not used or any(map(uses_interval, component)))
        # What binds nothing has been decided; only answers are still to be enumerated.
        pattern.conditions = tuple(c for component in found if set(variables(component)) - below for c in component)


def components(conditions: tuple[Any, ...], below: set[str]) -> list[tuple[Any, ...]]:
    """Conditions that share a variable which only the WHERE binds stand together."""
    groups: list[tuple[set[str], list[Any]]] = []
    for condition in conditions:
        own, together = set(variables(condition)) - below, [condition]
        for group in [group for group in groups if group[0] & own]:
            groups.remove(group)
            own, together = own | group[0], group[1] + together
        groups.append((own, together))
    return [tuple(together) for _, together in groups]


def push(component: tuple[Any, ...], used: set[str], pattern: Any, stay: bool) -> None:
    match pattern:
        case p.Within() | p.Policy():
            push(component, used, pattern.pattern, stay)
        case p.Where() if used <= binds(pattern.pattern):
            push(component, used, pattern.pattern, stay)
        case p.Operator(decides=str(part)) if not stay:
            push(component, used, getattr(pattern, part), stay)
        case p.Pair(operator="cnot") if not stay:
            push_inside_cnot(component, used, pattern)
        case p.Pair() | p.Not() if not stay and (used <= binds(pattern.left) or used <= binds(pattern.right)):
            for side in (pattern.left, pattern.right):
                if used <= binds(side):
                    push(component, used, side, stay)
        case _:
            pattern.filters.append(component)


def push_inside_cnot(component: tuple[Any, ...], used: set[str], pattern: p.Pair) -> None:
    """As for NOT(X).[L, R]: to L or R if one will do, else to the whole, absence included."""
    sequence = pattern.left
    while isinstance(sequence, p.Within | p.Policy):
        sequence = sequence.pattern
    sides = [side for side in (sequence.left, sequence.right) if used <= binds(side)]
    for side in sides:
        push(component, used, side, stay=False)
    if not sides:
        pattern.filters.append(component)
