"""The meaning of a LARS program, by brute force. It shares only the syntax tree with the engine.

`by_definition` is Definition 4 of Beck, Eiter and Folie, Ticker (2017). At each tick it tries every set of derived
atoms; the minimal models of their FLP reduct are the answer streams. `by_strata` evaluates programs without a cycle
through negation. It applies rules until nothing is new, so that streams may be longer. Decisions beyond the paper are
in `docs/lars.md`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from cep.language.dialects.lars.ast import (
    AT,
    EVERY,
    NOW,
    LarsLiteral,
    LarsProgram,
    LarsRule,
    TimeWindow,
    TupleWindow,
)
from cep.rules.terms import DIVIDED, Call, Comparison, Constant, Expression, Variable

Value = int | float | str
Atom = tuple[str, tuple[Value, ...]]
Pinned = tuple[str, tuple[Value, ...], int]
"""A derived atom at a tick."""
Binding = dict[str, Value]
Stream = Sequence[tuple[int, Sequence[Atom]]]

COMPARE = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge
}  # fmt: skip
CALCULATE = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "mod": operator.mod,
    "**": operator.pow, "neg": operator.neg, "/": operator.truediv,
    DIVIDED: lambda left, right: left // right if isinstance(left, int) and isinstance(right, int) else left / right,
}  # fmt: skip


class TooMany(Exception):
    """More derived atoms may be true than are tried."""


class Unsafe(Exception):
    """A variable of a rule is bound by nothing."""


@dataclass
class Moment:
    """The input as it is seen at tick `now`: atoms with their ticks in the order of arrival, equal ones of a tick
    once."""

    start: int
    now: int
    arrivals: list[tuple[int, Atom]]
    facts: frozenset[Atom]
    derived: frozenset[str]
    possible: set[Pinned] = field(default_factory=set)
    """The derived atoms that are true, or of which some may be."""
    made: frozenset[str] = frozenset()
    """What rules of events derive, which has no order of arrival: windows of tuples pass over it."""

    def ticks_of(self, literal: LarsLiteral, atom: Atom, binding: Binding) -> tuple[int, int, set[int]]:
        """First and last tick of the literal's window (none where the first is after the last), and at which of its
        ticks the atom is true."""
        first, last, seen = self.seen(literal, atom, binding)
        name, arguments = atom
        if name in self.derived:
            ticks = {tick for other, values, tick in self.possible if other == name and values == arguments}
        else:
            ticks = {tick for tick, each in seen if each == atom}
        unbounded = literal.modality == AT and literal.window is None
        return first, last, {tick for tick in ticks if first <= tick and (tick <= last or unbounded)}

    def seen(self, literal: LarsLiteral, atom: Atom, binding: Binding) -> tuple[int, int, list[tuple[int, Atom]]]:
        match literal.window:
            case None if literal.modality == NOW:
                return self.now, self.now, self.arrivals
            case None:
                return self.start, self.now, self.arrivals
            case TimeWindow(ticks, step):
                last = self.now // step * step
                return max(self.start, last - ticks), last, self.arrivals
            case TupleWindow(count, by):
                came = [each for each in self.arrivals if each[1][0] not in self.made]
                among = [each for each in came if by is None or _alike(literal, each[1], atom, by)]
                kept = among[-count:]
                return kept[0][0] if len(kept) == count else self.start, self.now, kept

    def atoms(self, name: str) -> set[tuple[Value, ...]]:
        if name in self.derived:
            return {arguments for other, arguments, _ in self.possible if other == name}
        return {arguments for _, (other, arguments) in self.arrivals if other == name}


def _alike(literal: LarsLiteral, other: Atom, atom: Atom, by: Iterable[str]) -> bool:
    if other[0] != atom[0] or len(other[1]) != len(atom[1]):
        return False
    names = [each.name if isinstance(each, Variable) else None for each in literal.atom.arguments]
    return all(other[1][names.index(name)] == atom[1][names.index(name)] for name in by)


def value_of(expression: Expression, binding: Binding) -> Value | None:
    """None: a variable has no value yet."""
    match expression:
        case Variable(name):
            return binding.get(name)
        case Constant(value):
            return value
        case Call(function, arguments):
            values = [value_of(each, binding) for each in arguments]
            return None if any(each is None for each in values) else CALCULATE[function](*values)


def unified(patterns: Sequence[Expression], values: Sequence[Value], binding: Binding) -> Binding | None:
    """The binding with what the patterns bind; None: they do not fit."""
    if len(patterns) != len(values):
        return None
    found = dict(binding)
    pairs = zip(patterns, values, strict=True)
    for pattern, value in sorted(pairs, key=lambda each: not isinstance(each[0], Variable)):
        if isinstance(pattern, Variable) and pattern.name == "_":
            continue
        if isinstance(pattern, Variable) and pattern.name not in found:
            found[pattern.name] = value
        elif value_of(pattern, found) != value:
            return None
    return found


def ready(literal: LarsLiteral, binding: Binding) -> bool:
    """Whether all that is calculated in a positive literal can be."""
    own = dict.fromkeys([each.name for each in literal.atom.arguments if isinstance(each, Variable)], 1)
    inside = [each for each in (*literal.atom.arguments, literal.tick) if isinstance(each, Call)]
    return all(value_of(each, {**own, **binding}) is not None for each in inside)


Formula = bool | tuple[bool, frozenset[Pinned]]
"""True or false whatever is derived; or whether all of these are (the first is true), or any of them."""


def found(moment: Moment, literal: LarsLiteral, binding: Binding) -> Iterator[tuple[Binding, Formula]]:
    """The values with which a literal may be true, and when it is; its `not` is not looked at."""
    name = literal.atom.predicate
    fixed = {arguments for other, arguments in moment.facts if other == name} if literal.modality == NOW else set()
    for arguments in sorted(moment.atoms(name) | fixed, key=str):
        bound = unified(literal.atom.arguments, arguments, binding)
        if bound is None:
            continue
        first, last, ticks = moment.ticks_of(literal, (name, arguments), bound)
        pinned = {tick: (name, arguments, tick) for tick in ticks}
        if arguments in fixed:
            yield bound, True
        elif literal.modality == AT:
            for tick in sorted(ticks):
                timed = unified([literal.tick], [tick], bound)
                if timed is not None:
                    yield timed, (True, frozenset({pinned[tick]})) if name in moment.derived else True
        elif literal.modality == EVERY:
            if first <= last and ticks >= set(range(first, last + 1)):
                yield bound, (True, frozenset(pinned.values())) if name in moment.derived else True
        elif ticks:
            yield bound, (False, frozenset(pinned.values())) if name in moment.derived else True


def bodies(
    moment: Moment, rest: Sequence[object], binding: Binding, so_far: list[tuple[Formula, bool]]
) -> Iterator[tuple[Binding, list[tuple[Formula, bool]]]]:
    """Each instance of a body that may be true: its values, and its literals, each with whether it is negated."""
    if not rest:
        yield binding, so_far
        return
    for at, each in enumerate(rest):
        others = [*rest[:at], *rest[at + 1 :]]
        match each:
            case Comparison(sign, left, right):
                one, two = value_of(left, binding), value_of(right, binding)
                if one is not None and two is not None:
                    if COMPARE[sign](one, two):
                        yield from bodies(moment, others, binding, so_far)
                    return
                for variable, value in ((left, two), (right, one)):
                    if sign == "=" and isinstance(variable, Variable) and value is not None:
                        yield from bodies(moment, others, {**binding, variable.name: value}, so_far)
                        return
            case LarsLiteral(negated=False) if ready(each, binding):
                for bound, formula in found(moment, each, binding):
                    yield from bodies(moment, others, bound, [*so_far, (formula, False)])
                return
    negative = [each for each in rest if isinstance(each, LarsLiteral) and each.negated]
    if len(negative) != len(rest) or any(_unbound(each, binding) for each in negative):
        raise Unsafe(rest)
    literals = list(so_far)
    for each in negative:
        ways = [formula for _, formula in found(moment, each, binding)]
        if True in ways:
            return
        literals += [(formula, True) for formula in ways]
    yield binding, literals


def _unbound(literal: LarsLiteral, binding: Binding) -> bool:
    terms = [*literal.atom.arguments, *([] if literal.tick is None else [literal.tick])]
    return any(value_of(each, binding) is None for each in terms if each != Variable("_"))


def head_of(moment: Moment, rule: LarsRule, binding: Binding) -> Pinned | bool:
    """What an instance of a rule derives. True: that holds anyway, or has no place in the timeline; False: a constraint
    allows nothing."""
    if rule.head is None:
        return False
    arguments = tuple(value_of(each, binding) for each in rule.head.arguments)
    tick = moment.now if rule.tick is None else value_of(rule.tick, binding)
    if tick is None or None in arguments:
        raise Unsafe(rule)
    if rule.tick is None and (rule.head.predicate, arguments) in moment.facts:
        return True
    return (rule.head.predicate, arguments, tick) if tick >= moment.start else True


Ground = tuple[Pinned | bool, list[tuple[Formula, bool]]]


def ground(program: LarsProgram, moment: Moment, most: int) -> list[Ground]:
    """The rules' instances of which the body may be true, over all that may be derived. TooMany: it is more."""
    while True:
        instances = []
        for rule in program.rules:
            if not rule.is_fact:
                for binding, body in bodies(moment, rule.body, {}, []):
                    instances.append((head_of(moment, rule, binding), body))
        heads = {head for head, _ in instances if not isinstance(head, bool)}
        if heads <= moment.possible:
            return instances
        moment.possible |= heads
        if len(moment.possible) > most:
            raise TooMany


def answer_streams(program: LarsProgram, moment: Moment, most: int) -> list[frozenset[Pinned]]:
    """Definition 4 at one tick."""
    rules = ground(program, moment, most)
    atoms = sorted(moment.possible, key=str)
    bit = {atom: 1 << at for at, atom in enumerate(atoms)}
    every = np.arange(1 << len(atoms))

    def holds(formula: Formula) -> np.ndarray:
        if isinstance(formula, bool):
            return np.full(len(every), formula)
        mask = sum(bit[each] for each in formula[1])
        return every & mask == mask if formula[0] else every & mask != 0

    body = np.ones((len(rules), len(every)), bool)
    violated = np.zeros((len(rules), len(every)), bool)
    for at, (head, literals) in enumerate(rules):
        for formula, negated in literals:
            body[at] &= holds(formula) != negated
        done = np.full(len(every), head) if isinstance(head, bool) else every & bit[head] != 0
        violated[at] = body[at] & ~done
    models = np.flatnonzero(~violated.any(axis=0))
    answers = []
    for model in models:
        smaller = every[(every & model == every) & (every != model)]
        if violated[np.ix_(body[:, model], smaller)].any(axis=0).all():
            answers.append(frozenset(atom for atom in atoms if bit[atom] & model))
    return answers


def strata(program: LarsProgram) -> list[list[LarsRule]] | None:
    """The rules by components of their heads, what is asked first; constraints last. None: a cycle through `not`."""
    derived = program.derived
    asks: dict[str, set[str]] = {name: set() for name in derived}
    denies: set[tuple[str, str]] = set()
    for rule in program.rules:
        for each in rule.body:
            if rule.head is not None and isinstance(each, LarsLiteral) and each.atom.predicate in derived:
                asks[rule.head.predicate].add(each.atom.predicate)
                if each.negated:
                    denies.add((rule.head.predicate, each.atom.predicate))
    reach = {name: set(others) for name, others in asks.items()}
    for _ in derived:
        for name in derived:
            reach[name] |= {further for other in reach[name] for further in reach[other]}
    if any(name in reach[denied] or name == denied for name, denied in denies):
        return None
    order = sorted(derived, key=lambda name: (len(reach[name] | {name}), sorted(reach[name] | {name})))
    groups: dict[frozenset[str], list[LarsRule]] = {}
    for name in order:
        together = frozenset({name, *(other for other in reach[name] if name in reach[other])})
        rules = groups.setdefault(together, [])
        rules += [rule for rule in program.rules if rule.head is not None and rule.head.predicate == name]
    constraints = [rule for rule in program.rules if rule.head is None]
    return [[rule for rule in rules if not rule.is_fact] for rules in (*groups.values(), constraints)]


def only_answer(layers: list[list[LarsRule]], moment: Moment, most: int) -> list[frozenset[Pinned]]:
    """The answer stream of a program in strata at one tick; none if a constraint is broken."""
    for rules in layers:
        while True:
            heads = {
                head_of(moment, rule, binding)
                for rule in rules
                for binding, body in bodies(moment, rule.body, {}, [])
                if not any(negated for _, negated in body)  # what is denied is settled: any of it is true
            }
            if False in heads:
                return []
            new = heads - moment.possible - {True}
            if not new:
                break
            moment.possible |= new
            if len(moment.possible) > most:
                raise TooMany
    return [frozenset(moment.possible)]


def moments(
    program: LarsProgram,
    stream: Stream,
    facts: Iterable[Atom] = (),
    first: int | None = None,
    last: int | None = None,
    made: Iterable[str] = (),
) -> Iterator[Moment]:
    """The input as each tick sees it."""
    own = {
        (rule.head.predicate, tuple(value_of(each, {}) for each in rule.head.arguments))
        for rule in program.rules
        if rule.is_fact and rule.head is not None
    }
    start = first if first is not None else stream[0][0]
    end = last if last is not None else stream[-1][0]
    arrivals = []
    for now in range(start, end + 1):
        for tick, atoms in stream:
            if tick == now:
                assert not {name for name, _ in atoms} & program.derived, "what is derived does not come in"
                arrivals += [(tick, atom) for atom in atoms if (tick, atom) not in arrivals]
                arrivals = list(dict.fromkeys(arrivals))
        given = frozenset({*own, *facts})
        yield Moment(start, now, list(arrivals), given, program.derived, made=frozenset(made))


Answers = list[tuple[int, list[frozenset[str]]]]


def by_definition(program: LarsProgram, stream: Stream, *, most: int = 10, **given: object) -> Answers:
    """Tick by tick all answer streams, by Definition 4. TooMany: more than `most` atoms may be derived at a tick."""
    return [(each.now, told(each, answer_streams(program, each, most))) for each in moments(program, stream, **given)]


def by_strata(program: LarsProgram, stream: Stream, *, most: int = 10_000, **given: object) -> Answers:
    """The same of programs without a cycle through `not`."""
    layers = strata(program)
    assert layers is not None, "a cycle through `not`"
    return [(each.now, told(each, only_answer(layers, each, most))) for each in moments(program, stream, **given)]


def told(moment: Moment, answers: Iterable[frozenset[Pinned]]) -> list[frozenset[str]]:
    """As text, facts left out; of several the least in sorted order first."""
    texts = [
        frozenset(
            atom_text((name, values)) + (f"@{tick}" if tick != moment.now else "")
            for name, values, tick in answer
            if (name, values) not in moment.facts
        )
        for answer in answers
    ]
    return sorted(texts, key=sorted)


def atom_text(atom: Atom) -> str:
    """`p(1, a, "A b")`."""
    name, values = atom
    return f"{name}({', '.join(map(value_text, values))})" if values else name


def value_text(value: Value) -> str:
    if isinstance(value, str):
        return value if re.fullmatch(r"[a-z][A-Za-z0-9_]*", value) else f'"{value}"'
    return str(value)
