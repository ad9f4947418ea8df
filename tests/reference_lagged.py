"""Formulas that define a fluent by itself through NOT and AGGREGATE, by brute force, code by code.

Every cycle through such an operator refers to the past. So the facts at a code follow from those at earlier codes, and
from fluents that are computed first at this code. Nothing holds before the first instant of the input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tests.reference_formulas import (
    Aggregate,
    And,
    Formula,
    Or,
    Plain,
    Relation,
    Rule,
    Timed,
    Tuple,
    Var,
    _derived,
    holding,
    needs,
    parts_of,
    plain_names,
    variables,
)
from tests.reference_times import Frame


def asked_now(formula: Formula) -> Iterator[Formula]:
    """The formulas inside one of which it may ask what holds at the same code."""
    yield formula
    parts = parts_of(formula)
    if isinstance(formula, Timed) and formula.reach.low > 0:
        if len(parts) == 1:
            return
        left, right = parts
        own = any(name.startswith("d") for name in plain_names(left))
        if formula.operator == "SINCE" and not own and not any(name.startswith("_") for name in variables(right)):
            parts = (left,)
    for part in parts:
        yield from asked_now(part)


def names_now(formula: Formula) -> set[str]:
    return {each.name for each in asked_now(formula) if isinstance(each, Plain)}


def goes_back(rule: Rule) -> bool:
    return any(reach.low > 0 for _, reach in rule.boxes)


def now(rules: Sequence[Rule]) -> dict[str, set[str]]:
    """Of each fluent those that it depends on at the same code."""
    names = list(dict.fromkeys(rule.name for rule in rules))
    found: dict[str, set[str]] = {name: set() for name in names}
    for rule in rules:
        if not goes_back(rule):
            found[rule.name] |= names_now(rule.formula) & set(names)
    for _ in names:
        for name in names:
            found[name] |= {far for near in found[name] for far in found[near]}
    return found


def asked_whole(formula: Formula) -> tuple[Formula, ...]:
    if isinstance(formula, Aggregate):
        return (formula.part,)
    if isinstance(formula, And):
        return tuple(part for part, no in zip(formula.parts, formula.negated, strict=True) if no)
    return ()


def every(formula: Formula) -> Iterator[Formula]:
    yield formula
    for part in parts_of(formula):
        yield from every(part)


def runs(rules: Sequence[Rule]) -> bool:
    """Whether some cycle goes through NOT or AGGREGATE, and each such one back."""
    needed, at_once = needs(rules), now(rules)
    through = False
    for rule in rules:
        mutual = {name for name in needed[rule.name] if rule.name in needed[name]}
        through |= any(mutual & set(plain_names(part)) for each in every(rule.formula) for part in asked_whole(each))
        if goes_back(rule):
            continue
        same = {name for name in at_once[rule.name] if rule.name in at_once[name]}
        if any(same & names_now(part) for each in asked_now(rule.formula) for part in asked_whole(each)):
            return False
    return through


def whole_on_cycle(rules: Sequence[Rule]) -> set[str]:
    """The fluents of cycles through NOT or AGGREGATE."""
    needed = needs(rules)
    found: set[str] = set()
    for rule in rules:
        mutual = {name for name in needed[rule.name] if rule.name in needed[name]}
        if any(mutual & set(plain_names(part)) for each in every(rule.formula) for part in asked_whole(each)):
            found |= mutual
    return found


def apart(
    rules: Sequence[Rule], known: Mapping[str, Relation], trips: Mapping[str, Relation], frame: Frame
) -> tuple[list[Rule], dict[str, Relation]]:
    """The rules of one cycle with each formula that asks nothing of it as a fluent, and when these hold: all of the
    frame is known to them."""
    names = {rule.name for rule in rules}
    found: dict[str, Relation] = {}

    def cut(formula: Formula) -> Formula:
        if names.isdisjoint(plain_names(formula)):
            own = sorted(variables(formula))
            held = holding(formula, known, trips, frame).items()
            name = f"'{len(found)}"
            found[name] = {tuple(dict(binding)[each] for each in own): codes for binding, codes in held}
            return Plain(name, tuple(map(Var, own)))
        match formula:
            case Plain():
                return formula
            case And() | Or() | Timed():
                return replace(formula, parts=tuple(map(cut, formula.parts)))
            case _:
                return replace(formula, part=cut(formula.part))

    return [replace(rule, formula=cut(rule.formula)) for rule in rules], found


def defined_by_code(
    rules: Sequence[Rule],
    known: Mapping[str, Relation],
    trips: Mapping[str, Relation],
    frame: Frame,
    first: int,
) -> dict[str, Relation]:
    """What rules of one cycle define, from the code `first` to the end of the frame."""
    names = list(dict.fromkeys(rule.name for rule in rules))
    held: dict[str, dict[Tuple, set[int]]] = {name: {} for name in names}
    order = sorted(names, key=lambda name: len(now(rules)[name] | {name}))

    def seen() -> dict[str, Relation]:
        return {
            **known,
            **{n: {args: frozenset(codes) for args, codes in each.items()} for n, each in held.items()},
        }

    for code in range(first, frame.last + 1):
        until = Frame(frame.first, code)
        done: set[str] = set()
        for name in order:
            if name in done:
                continue
            at_once = now(rules)
            group = {name} | {other for other in at_once[name] if name in at_once[other]}
            done |= group
            changed = True
            while changed:
                changed = False
                for rule in (rule for rule in rules if rule.name in group):
                    for args, codes in _derived(rule, seen(), trips, until).items():
                        mine = held[rule.name].setdefault(args, set())
                        if code in codes and code not in mine:
                            mine.add(code)
                            changed = True
    return {name: {args: frozenset(codes) for args, codes in each.items() if codes} for name, each in held.items()}
