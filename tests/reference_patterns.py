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
    match pattern:
        case p.Atom():
            return set(variables(pattern.arguments))
        case p.Point():
            return set()
        case p.Pair():
            return mentioned(pattern.left) | mentioned(pattern.right)
        case p.Not():
            return mentioned(pattern.absent) | mentioned(pattern.left) | mentioned(pattern.right)
        case p.Unless():
            return mentioned(pattern.left) | mentioned(pattern.absent)
        case p.Where():
            return mentioned(pattern.pattern) | set(variables(pattern.conditions))
        case p.Aggregate():
            return mentioned(pattern.pattern) | used_by_aggregate(pattern) | binds(pattern)
        case p.Policy():
            return mentioned(pattern.pattern) | ({pattern.choice.by} if pattern.choice.by else set())
    return mentioned(pattern.pattern)


def used_by_aggregate(pattern: p.Aggregate) -> set[str]:
    return {*pattern.by, *variables(tuple(argument for *_, argument, _ in pattern.results))}


def binds(pattern: Any) -> set[str]:
    """The variables a pattern hands up."""
    match pattern:
        case p.Atom() | p.Point():
            return mentioned(pattern)
        case p.Pair(operator="or" | "cnot") | p.Unless():
            return binds(pattern.left)
        case p.Pair() | p.Not():
            return binds(pattern.left) | binds(pattern.right)
        case p.Where():
            return binds(pattern.pattern) | set(variables(pattern.conditions))
        case p.Aggregate():
            return {*pattern.by, *(variable for variable, *_ in pattern.results)}
    return binds(pattern.pattern)


def expand(pattern: Any, outside: set[str]) -> None:
    """Put the chain p SEQ p SEQ ... into each TIMES; what is not used `outside` becomes each copy's own."""
    match pattern:
        case p.Pair():
            expand(pattern.left, outside | mentioned(pattern.right))
            expand(pattern.right, outside | mentioned(pattern.left))
        case p.Not():
            expand(pattern.absent, outside | mentioned(pattern.left) | mentioned(pattern.right))
            expand(pattern.left, outside | mentioned(pattern.absent) | mentioned(pattern.right))
            expand(pattern.right, outside | mentioned(pattern.absent) | mentioned(pattern.left))
        case p.Unless():
            expand(pattern.left, outside | mentioned(pattern.absent))
            expand(pattern.absent, outside | mentioned(pattern.left))
        case p.Where():
            expand(pattern.pattern, outside | set(variables(pattern.conditions)))
        case p.Aggregate():
            expand(pattern.pattern, outside | used_by_aggregate(pattern))
        case p.Times():
            expand(pattern.pattern, outside)
            local = mentioned(pattern.pattern) - outside
            copies = [
                rename(copy.deepcopy(pattern.pattern), {name: f"{name}#{i}" for name in local})
                for i in range(pattern.count)
            ]
            chain = copies[0]
            for each in copies[1:]:
                chain = p.Pair("seq", chain, each)
            pattern.pattern = chain
        case p.Within():
            expand(pattern.pattern, outside)
        case p.Policy():
            expand(pattern.pattern, outside | ({pattern.choice.by} if pattern.choice.by else set()))


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
    if isinstance(thing, p.Aggregate):
        by = tuple(names.get(name, name) for name in thing.by)
        results = tuple((names.get(v, v), f, d, rename(a, names), n) for v, f, d, a, n in thing.results)
        return replace(thing, pattern=rename(thing.pattern, names), results=results, by=by)
    if isinstance(thing, p.Atom):
        return replace(thing, arguments=rename(thing.arguments, names))
    if hasattr(thing, "__dataclass_fields__") and not isinstance(thing, p.Const | p.Ticks):
        return replace(thing, **{name: rename(getattr(thing, name), names) for name in thing.__dataclass_fields__})
    return thing


def place(pattern: Any) -> None:
    """Hand each component of each WHERE to the patterns that decide it (decision M4)."""
    match pattern:
        case p.Pair():
            place(pattern.left)
            place(pattern.right)
        case p.Not():
            place(pattern.absent)
            place(pattern.left)
            place(pattern.right)
        case p.Unless():
            place(pattern.left)
            place(pattern.absent)
        case p.Where():
            place(pattern.pattern)
            below = binds(pattern.pattern)
            found = components(pattern.conditions, below)
            for component in found:
                used = set(variables(component)) & below
                push(component, used, pattern.pattern, stay=not used or any(map(uses_interval, component)))
            # What binds nothing has been decided; only answers are still to be enumerated.
            pattern.conditions = tuple(c for component in found if set(variables(component)) - below for c in component)
        case p.Within() | p.Policy() | p.Aggregate() | p.Times():
            place(pattern.pattern)


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
        case p.Unless() if not stay:
            push(component, used, pattern.left, stay)
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
