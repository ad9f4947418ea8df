"""Defined fluents by brute force, point by point and gap by gap, following only `docs/fluents.md`.

A formula returns, for each binding of its variables, the times at which it holds (`reference_times`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tests.reference_times import Codes, Frame, Reach, every, lasting, since, some

Value = int | str
Tuple = tuple[Value, ...]
Relation = Mapping[Tuple, Codes]
"""For each tuple of arguments (a value last) when it holds."""
Binding = frozenset[tuple[str, Value]]
Held = dict[Binding, Codes]


@dataclass(frozen=True)
class Var:
    """A variable. "_" is one of its own each time: made so with a name that begins with it."""

    name: str


Term = Var | Value


@dataclass(frozen=True)
class Plain:
    """`name(terms)`; `valued`: the last is its value. `within`: of an event with intervals, no longer than that."""

    name: str
    terms: tuple[Term, ...]
    valued: bool = False
    within: int | None = None


@dataclass(frozen=True)
class And:
    """Parts, and which of them are negated."""

    parts: tuple[Formula, ...]
    negated: tuple[bool, ...]


@dataclass(frozen=True)
class Or:
    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class Timed:
    """ONCE, HISTORICALLY, EVENTUALLY, ALWAYS of one part, SINCE and UNTIL of two."""

    operator: str
    reach: Reach
    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class Lasting:
    part: Formula
    least: int
    strictly: bool


@dataclass(frozen=True)
class Where:
    """`left comparison right` of each condition."""

    part: Formula
    conditions: tuple[tuple[Term, str, Term], ...]


@dataclass(frozen=True)
class Asked:
    """`part WHERE known`, or `not` it: what the knowledge says at each time, as `given` has it."""

    part: Formula
    known: Plain
    negated: bool


@dataclass(frozen=True)
class Aggregate:
    """`results`: (variable, function, argument)."""

    part: Formula
    results: tuple[tuple[str, str, str | None], ...]
    by: tuple[str, ...]


Formula = Plain | And | Or | Timed | Lasting | Where | Asked | Aggregate


@dataclass(frozen=True)
class Rule:
    """`boxes head(terms) WHILE formula.`"""

    name: str
    terms: tuple[Term, ...]
    valued: bool
    formula: Formula
    boxes: tuple[tuple[str, Reach], ...] = ()


def defined(
    rules: Sequence[Rule], given: Mapping[str, Relation], trips: Mapping[str, Relation], frame: Frame
) -> dict[str, Relation]:
    """What the rules define, the least of it that is so; those that depend on NOT come in an order in which that is
    known. `trips`: of events with intervals the start and the end, as two values behind the arguments, for `within`."""
    known: dict[str, Relation] = dict(given)
    names = list(dict.fromkeys(rule.name for rule in rules))
    for name in names:
        known[name] = {}
    for group in _groups(rules):
        changed = True
        while changed:
            changed = False
            for rule in [rule for rule in rules if rule.name in group]:
                found = {args: set(codes) for args, codes in known[rule.name].items()}
                for args, codes in _derived(rule, known, trips, frame).items():
                    found.setdefault(args, set()).update(codes)
                made = {args: frozenset(codes) for args, codes in found.items()}
                changed |= made != known[rule.name]
                known[rule.name] = made
    return {name: known[name] for name in names}


def needs(rules: Sequence[Rule]) -> dict[str, set[str]]:
    """Of each fluent those that it depends on."""
    names = list(dict.fromkeys(rule.name for rule in rules))
    found = {name: {n for r in rules if r.name == name for n in plain_names(r.formula)} & set(names) for name in names}
    for _ in names:
        for name in names:
            found[name] |= {far for near in found[name] for far in found[near]}
    return found


def _groups(rules: Sequence[Rule]) -> list[set[str]]:
    """Fluents that depend on each other together, after those they depend on."""
    names = list(dict.fromkeys(rule.name for rule in rules))
    needed = needs(rules)
    groups: list[set[str]] = []
    for name in sorted(names, key=lambda name: len(needed[name] | {name})):
        group = {name} | {other for other in names if other in needed[name] and name in needed[other]}
        if group not in groups:
            groups.append(group)
    return groups


def plain_names(formula: Formula) -> Iterator[str]:
    if isinstance(formula, Plain):
        yield formula.name
    for part in parts_of(formula):
        yield from plain_names(part)


def parts_of(formula: Formula) -> tuple[Formula, ...]:
    match formula:
        case Plain():
            return ()
        case And() | Or() | Timed():
            return formula.parts
        case _:
            return (formula.part,)


def variables(formula: Formula) -> set[str]:
    """Those that it gives values."""
    match formula:
        case Plain(_, terms):
            return {term.name for term in terms if isinstance(term, Var)}
        case And(parts, negated):
            return {name for part, no in zip(parts, negated, strict=True) if not no for name in variables(part)}
        case Or(parts):
            return {name for name in variables(parts[0]) if not name.startswith("_")}
        case Timed():
            return variables(formula.parts[-1])
        case Asked(part, known, negated):
            return variables(part) | (set() if negated else variables(known))
        case Aggregate(_, results, by):
            return {name for name, _, _ in results} | set(by)
        case _:
            return variables(formula.part)


def _derived(
    rule: Rule, known: Mapping[str, Relation], trips: Mapping[str, Relation], frame: Frame
) -> dict[Tuple, Codes]:
    found: dict[Tuple, set[int]] = {}
    for binding, codes in holding(rule.formula, known, trips, frame).items():
        values = dict(binding)
        args = tuple(values[term.name] if isinstance(term, Var) else term for term in rule.terms)
        found.setdefault(args, set()).update(codes)
    made = {args: frozenset(codes) for args, codes in found.items()}
    for operator, reach in reversed(rule.boxes):
        # `ALWAYS[a, b]` in the head: it holds at t if the formula does at some t' from which t is [a, b] on
        ahead = operator == "HISTORICALLY"
        made = {args: some(codes, reach, ahead, frame) for args, codes in made.items()}
    return made


def holding(formula: Formula, known: Mapping[str, Relation], trips: Mapping[str, Relation], frame: Frame) -> Held:
    """For each binding of the formula's variables when it holds."""

    def inner(part: Formula) -> Held:
        return holding(part, known, trips, frame)

    match formula:
        case Plain():
            return _plain(formula, known, trips)
        case And(parts, negated):
            held: Held = {frozenset(): frozenset(frame.codes)}
            for part, no in zip(parts, negated, strict=True):
                if not no:
                    held = _joined(held, inner(part))
            for part, no in zip(parts, negated, strict=True):
                if no:
                    held = _without(held, inner(part))
            return held
        case Or(parts):
            names = variables(formula)
            return _union((_onto(binding, names), codes) for part in parts for binding, codes in inner(part).items())
        case Timed(operator, reach, (part,)):
            ahead = operator in ("EVENTUALLY", "ALWAYS")
            whole = operator in ("HISTORICALLY", "ALWAYS")
            how = every if whole else some
            return _some_of((b, how(codes, reach, ahead, frame)) for b, codes in inner(part).items())
        case Timed(operator, reach, (left, right)):
            lefts, names = inner(left), variables(left)
            return _some_of(
                (b, since(lefts.get(_onto(b, names), frozenset()), codes, reach, operator == "UNTIL", frame))
                for b, codes in inner(right).items()
            )
        case Lasting(part, least, strictly):
            return _some_of((b, lasting(codes, least, strictly, frame)) for b, codes in inner(part).items())
        case Where(part, conditions):
            return {b: codes for b, codes in inner(part).items() if all(_true(dict(b), *each) for each in conditions)}
        case Asked(part, known_then, negated):
            return inner(And((part, known_then), (False, negated)))
        case Aggregate(part, results, by):
            return _aggregated(inner(part), results, by, frame)
    raise AssertionError(formula)


def _plain(formula: Plain, known: Mapping[str, Relation], trips: Mapping[str, Relation]) -> Held:
    def rows() -> Iterator[tuple[Binding, Codes]]:
        relation: Iterable[tuple[Tuple, Codes]] = known.get(formula.name, {}).items()
        if formula.within is not None:
            every_trip = trips[formula.name].items()
            relation = [(args[:-2], c) for args, c in every_trip if args[-1] - args[-2] <= formula.within]
        for args, codes in relation:
            values: dict[str, Value] = {}
            fits = True
            for term, value in zip(formula.terms, args, strict=True):
                fits &= (values.setdefault(term.name, value) if isinstance(term, Var) else term) == value
            if fits:
                yield frozenset(values.items()), codes

    return _union(rows())


def _union(rows: Iterable[tuple[Binding, Codes]]) -> Held:
    found: dict[Binding, set[int]] = {}
    for binding, codes in rows:
        found.setdefault(binding, set()).update(codes)
    return {binding: frozenset(codes) for binding, codes in found.items() if codes}


def _some_of(rows: Iterable[tuple[Binding, Codes]]) -> Held:
    return {binding: codes for binding, codes in rows if codes}


def _onto(binding: Binding, names: set[str]) -> Binding:
    return frozenset(pair for pair in binding if pair[0] in names)


def _agree(one: Binding, other: Binding) -> bool:
    values = dict(one)
    return all(values.get(name, value) == value for name, value in other)


def _joined(left: Held, right: Held) -> Held:
    return _some_of(
        (one | other, codes & more)
        for (one, codes), (other, more) in product(left.items(), right.items())
        if _agree(one, other)
    )


def _without(left: Held, right: Held) -> Held:
    def rest(one: Binding, codes: Codes) -> Codes:
        for other, less in right.items():
            if _agree(one, other):
                codes -= less
        return codes

    return _some_of((one, rest(one, codes)) for one, codes in left.items())


def _true(values: Mapping[str, Value], left: Term, comparison: str, right: Term) -> bool:
    a, b = (values[term.name] if isinstance(term, Var) else term for term in (left, right))
    if comparison == "=":
        return a == b
    if comparison == "!=":
        return a != b
    assert isinstance(a, int) and isinstance(b, int)
    return a < b if comparison == "<" else a >= b


def _aggregated(held: Held, results: Sequence[tuple[str, str, str | None]], by: tuple[str, ...], frame: Frame) -> Held:
    found: list[tuple[Binding, Codes]] = []
    for code in frame.codes:
        groups: dict[Binding, list[dict[str, Value]]] = {}
        for binding, codes in held.items():
            if code in codes:
                groups.setdefault(_onto(binding, set(by)), []).append(dict(binding))
        for group, rows in groups.items():
            values = [(name, _value(function, argument, rows)) for name, function, argument in results]
            found.append((group | frozenset(values), frozenset([code])))
    return _union(found)


def _value(function: str, argument: str | None, rows: Sequence[Mapping[str, Value]]) -> int:
    if argument is None:
        return len(rows)
    values = [row[argument] for row in rows]
    if function == "mode":
        most = max(values.count(value) for value in values)
        return min(value for value in values if values.count(value) == most)  # type: ignore[return-value,type-var]
    return {"max": max, "min": min, "sum": sum}[function](values)  # type: ignore[operator, return-value]
