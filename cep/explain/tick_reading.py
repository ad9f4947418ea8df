"""Evaluate bodies of LARS rules at one tick: the values for which they are true, or the literal that fails.

The code follows the definitions of LARS, and handles one atom at a time. It explains single results, and is too slow to
run programs. Derived atoms are read from the engine's memory.

Source: Beck, Eiter and Folie, Ticker (2017), Definitions 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from cep.events import Value
from cep.explain.judging import BoundValues, Judge, Judged
from cep.explain.occurrences import LATEST, Memory, Occurrence, same
from cep.language.dialects.lars.ast import (
    AT,
    EVERY,
    NOW,
    BodyLiteral,
    LarsLiteral,
    LarsProgram,
    TimeWindow,
    TupleWindow,
)
from cep.language.dialects.lars.bodies import variables_of
from cep.language.dialects.lars.relations import at_ticks
from cep.rules.terms import Comparison, Condition, Constant, Expression, Graph, Predicate, Variable

Key = tuple[str, tuple[Value, ...], int]
"""A predicate, its arguments, and a tick."""


@dataclass(frozen=True, slots=True)
class TickAtom:
    """An atom that is true at a tick.

    `occurrence`: the occurrence from which the atom was read, or None if it is a fact of the program.
    """

    predicate: str
    args: tuple[Value, ...]
    tick: int
    source: Occurrence | None = None

    @property
    def key(self) -> Key:
        return self.predicate, self.args, self.tick


@dataclass(frozen=True, slots=True)
class BodyReading:
    """The result of evaluating a rule's body for some values of its variables.

    - `literals`: the true literals, each with the atoms that make it true.
    - `judged`: the true conditions.
    - `failed`: the literal that is not true, or None.
    - `against`: the atoms that make a negated literal false.
    - `lacking`: the conditions that are false.
    """

    bound: BoundValues
    literals: tuple[tuple[LarsLiteral, tuple[TickAtom, ...]], ...] = ()
    judged: tuple[Judged, ...] = ()
    failed: BodyLiteral | None = None
    against: tuple[TickAtom, ...] = ()
    lacking: tuple[Judged, ...] = ()


class TickReading:
    """The atoms that are true at the tick `now` in the answer stream `model`.

    - `solved`: the predicates that a solver derives.
    - `instead`: atoms that are used in place of the atoms that the solver derived. If it is None, use the solver's
      atoms.
    """

    def __init__(
        self,
        memory: Memory,
        judge: Judge,
        program: LarsProgram,
        solved: frozenset[str],
        now: int,
        model: Value = None,
        instead: Sequence[TickAtom] | None = None,
    ) -> None:
        self.memory, self.judge, self.program = memory, judge, program
        self.solved, self.now, self.model, self.instead = solved, now, model, instead
        self.tick = program.tick
        named = {getattr(declaration, "name", "") for declaration in program.declarations}
        asked = {part.atom.predicate for rule in program.rules for part in rule.body if isinstance(part, LarsLiteral)}
        known = (named | asked) - program.derived
        self.events = sorted(name for name in known if name in memory.schemas and memory.schemas[name].fluent is None)
        self.arrived = self._arrivals()
        self.first = self.arrived[0].tick if self.arrived else now
        self._known: dict[str, list[TickAtom]] = {}

    def _arrivals(self) -> list[TickAtom]:
        until = (self.now + 1) * self.tick - 1
        every = [occurrence for name in self.events for occurrence in self.memory.find(name, {}, -LATEST, until)]
        atoms: dict[Key, TickAtom] = {}
        for occurrence in sorted(every, key=lambda arrival: (arrival.end, arrival.order)):
            atom = TickAtom(occurrence.event, occurrence.args, occurrence.end // self.tick, occurrence)
            atoms.setdefault(atom.key, atom)
        return list(atoms.values())

    # --- atoms ---

    def atoms(self, predicate: str) -> list[TickAtom]:
        """Return all known atoms of a predicate, for all ticks."""
        if predicate not in self._known:
            if self.instead is not None and predicate in self.solved:
                atoms = [atom for atom in self.instead if atom.predicate == predicate]
            elif predicate in self.program.derived:
                atoms = [*self._held(predicate, False), *self._held(at_ticks(predicate), True)]
            else:
                atoms = [atom for atom in self.arrived if atom.predicate == predicate]
            self._known[predicate] = list({atom.key: atom for atom in atoms}.values())
        return self._known[predicate]

    def answer(self) -> list[TickAtom]:
        return [atom for name in sorted(self.solved) for atom in self.atoms(name)]

    def _held(self, fluent: str, timed: bool) -> Iterator[TickAtom]:
        schema = self.memory.schemas.get(fluent)
        if schema is None or schema.fluent is None:
            return
        code = 2 * self.now * self.tick
        predicate = fluent.removesuffix(at_ticks("")) if timed else fluent
        for interval in self.memory.fluents.intervals(fluent, {}):
            if not interval.codes[0] <= code <= interval.codes[1]:
                continue
            args = interval.args
            if self.model is not None and predicate in self.solved:
                *args_, model = args
                args = tuple(args_)
                if not same(model, self.model):
                    continue
            tick = self.now
            if timed:
                *args_, instant = args
                args = tuple(args_)
                assert isinstance(instant, int), "ticks are numbers"
                tick = instant
            yield TickAtom(predicate, args, tick, interval)

    # --- literals ---

    def _window(self, literal: LarsLiteral) -> tuple[list[TickAtom], range]:
        """Return the atoms of a literal's predicate that are in its window, and the ticks of the window.

        A window of tuples that has a key must be passed to `_windows` instead.
        """
        every, window = self.atoms(literal.atom.predicate), literal.window
        if literal.modality == NOW:
            return [atom for atom in every if atom.tick == self.now], range(self.now, self.now + 1)
        if isinstance(window, TupleWindow):
            arrived = self.arrived if window.by is None else every
            last = arrived[-window.atoms :]
            since = last[0].tick if len(arrived) >= window.atoms else self.first
            return [atom for atom in last if atom.predicate == literal.atom.predicate], range(since, self.now + 1)
        if not isinstance(window, TimeWindow):
            return every, range(self.first, self.now + 1)
        until = self.now // window.step * window.step
        ticks = range(max(self.first, until - window.ticks), until + 1)
        return [atom for atom in every if atom.tick in ticks], ticks

    def _windows(self, literal: LarsLiteral) -> Iterable[tuple[list[TickAtom], range]]:
        """Return the windows of a literal. Each window has the form that `_window` returns. A window of tuples that has
        a key yields one window per key. Any other literal has a single window."""
        window = literal.window
        if not isinstance(window, TupleWindow) or window.by is None:
            return [self._window(literal)]
        places = [literal.atom.arguments.index(Variable(name)) for name in window.by]
        groups: dict[tuple[Value, ...], list[TickAtom]] = {}
        for atom in self.atoms(literal.atom.predicate):
            groups.setdefault(tuple(atom.args[place] for place in places), []).append(atom)
        windows = []
        for own in groups.values():
            last = own[-window.atoms :]
            since = last[0].tick if len(own) >= window.atoms else self.first
            windows.append((last, range(since, self.now + 1)))
        return windows

    def literal(self, literal: LarsLiteral, bound: BoundValues) -> list[tuple[BoundValues, tuple[TickAtom, ...]]]:
        """Return the values for which a literal is true, and the atoms that make it true.

        If the literal is negated, the `not` is ignored.
        """
        solutions: dict[tuple[object, ...], tuple[BoundValues, tuple[TickAtom, ...]]] = {}
        if literal.modality == NOW:
            for rule in self.program.rules:
                if rule.is_fact and rule.head is not None and rule.head.predicate == literal.atom.predicate:
                    args = tuple(argument.value for argument in rule.head.arguments if isinstance(argument, Constant))
                    now = self._unified(literal, TickAtom(rule.head.predicate, args, self.now), bound)
                    if now is not None:
                        solutions.setdefault(_values(now), (now, ()))
        for atoms, ticks in self._windows(literal):
            if literal.modality == EVERY:
                self._at_every(literal, atoms, ticks, bound, solutions)
                continue
            for atom in reversed(atoms):
                own = self._unified(literal, atom, bound)
                if own is not None:
                    solutions.setdefault(_values(own), (own, (atom,)))
        return list(solutions.values())

    def _at_every(
        self,
        literal: LarsLiteral,
        atoms: Sequence[TickAtom],
        ticks: range,
        bound: BoundValues,
        solutions: dict[tuple[object, ...], tuple[BoundValues, tuple[TickAtom, ...]]],
    ) -> None:
        groups: dict[tuple[Value, ...], list[TickAtom]] = {}
        for atom in atoms:
            groups.setdefault(atom.args, []).append(atom)
        for own in groups.values():
            values = self._unified(literal, own[0], bound)
            if values is not None and ticks and {atom.tick for atom in own} >= set(ticks):
                solutions.setdefault(_values(values), (values, tuple(sorted(own, key=lambda atom: atom.tick))))

    def _unified(self, literal: LarsLiteral, atom: TickAtom, bound: BoundValues) -> BoundValues | None:
        """Return the values of variables for which a literal's atom equals `atom`. Returns None if there are none."""
        now = dict(bound)
        types = self._types(literal.atom.predicate)
        if len(literal.atom.arguments) != len(atom.args):
            return None
        asked = list(zip(literal.atom.arguments, atom.args, types))
        if literal.modality == AT and literal.tick is not None:
            asked.append((literal.tick, atom.tick, "int"))
        for term, value, type in asked:
            if isinstance(term, Variable):
                if term.name == "_":
                    continue
                if term.name not in now:
                    now[term.name] = value, type
                elif not same(now[term.name][0], value):
                    return None
            else:
                wanted = term.value if isinstance(term, Constant) else self.judge.value(term, now)[0]
                if not same(wanted, value):
                    return None
        return now

    def _types(self, predicate: str) -> list[str]:
        for name in (predicate, at_ticks(predicate)):
            if name in self.memory.schemas:
                return [attribute.type for attribute in self.memory.schemas[name].attributes]
        heads = [rule.head for rule in self.program.rules if rule.head is not None and rule.head.predicate == predicate]
        return (
            [argument.type if isinstance(argument, Constant) else "any" for argument in heads[0].arguments]
            if heads
            else []
        )

    # --- bodies ---

    def bodies(self, body: Sequence[BodyLiteral], bound: BoundValues) -> list[BodyReading]:
        """Evaluate the body of a rule.

        A result contains either values for which the whole body is true, or a literal that fails for some values.
        """
        live, done, waiting = [BodyReading(bound)], [], list(body)
        while waiting and live:
            element = self._next(waiting, live[0].bound)
            waiting.remove(element)
            following: list[BodyReading] = []
            for partial in live:
                readings = self._element(element, partial)
                following += [reading for reading in readings if reading.failed is None]
                done += [reading for reading in readings if reading.failed is not None]
            live = following
            self.judge.check_limit()
        return [*live, *done]

    def _next(self, waiting: Sequence[BodyLiteral], bound: BoundValues) -> BodyLiteral:
        """Return the literal to evaluate next.

        Comparisons are evaluated as soon as their variables are known. Literals whose predicates the solver derives are
        evaluated late, and negated literals last.
        """

        def rank(literal: BodyLiteral) -> int:
            if isinstance(literal, Comparison):
                return 0 if _ready(literal, bound) else 5
            if isinstance(literal, LarsLiteral):
                own = literal.atom.predicate in self.solved
                if literal.negated:
                    return 7 if own else 6
                known = (
                    literal.tick is None
                    or isinstance(literal.tick, Variable)
                    or set(variables_of(literal)) <= bound.keys()
                )
                return 3 if own else 1 if known else 4
            return 6 if literal.negated else 2

        return min(waiting, key=rank)

    def _element(self, element: BodyLiteral, so_far: BodyReading) -> list[BodyReading]:
        condition = self._condition(element)
        if condition is not None:
            return self._judged(element, condition, so_far)
        assert isinstance(element, LarsLiteral), "the others are conditions"
        solutions = self.literal(element, so_far.bound)
        if element.negated:
            if not solutions:
                return [replace(so_far, literals=(*so_far.literals, (element, ())))]
            against = tuple(atom for _, atoms in solutions for atom in atoms)
            return [replace(so_far, failed=element, against=against)]
        if not solutions:
            return [replace(so_far, failed=element)]
        return [
            replace(so_far, bound=bound, literals=(*so_far.literals, (element, atoms))) for bound, atoms in solutions
        ]

    def _condition(self, element: BodyLiteral) -> Condition | None:
        """Convert a literal to a condition. Returns None if it is not a comparison, a graph pattern or a static
        predicate."""
        match element:
            case Comparison():
                return element
            case Graph(text, variables, negated=negated):
                names = tuple(Variable(name, element.span) for name in variables)
                return Predicate(text, names, negated, element.span, element)
            case LarsLiteral(atom, modality, negated=negated):
                name = atom.predicate
                own_predicate = name in self.program.derived or name in self.events
                if modality != NOW or own_predicate or name not in self.judge.relations:
                    return None
                return Predicate(name, atom.arguments, negated, element.span)

    def _judged(self, element: BodyLiteral, condition: Condition, so_far: BodyReading) -> list[BodyReading]:
        readings = []
        end = {"end()": ((self.now + 1) * self.tick - 1, "time")}
        for case in self.judge.judge([condition], [{**so_far.bound, **end}]):
            told = tuple(self.judge.detailed(judgement, case.bound) for judgement in case.judged)
            bound = {name: value for name, value in case.bound.items() if name != "end()"}
            if case.failed:
                readings.append(replace(so_far, failed=element, lacking=told))
            else:
                readings.append(replace(so_far, bound=bound, judged=(*so_far.judged, *told)))
        return readings


def _ready(comparison: Comparison, bound: BoundValues) -> bool:
    missing = {name for name in variables_of(comparison) if name not in bound}
    if not missing:
        return True
    sides = ((comparison.left, comparison.right), (comparison.right, comparison.left))
    return comparison.operator == "=" and any(
        isinstance(side, Variable) and missing == {side.name} and side.name not in _names(other)
        for side, other in sides
    )


def _names(expression: Expression) -> set[str]:
    return set(variables_of(Comparison("=", expression, expression)))


def _values(bound: BoundValues) -> tuple[object, ...]:
    return tuple(sorted((name, str(value), type) for name, (value, type) in bound.items()))
