"""LARS programs evaluated by the solver alone. The reference evaluates the parts without a cycle, tick by tick."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cep.core.errors import Source
from cep.events import Value
from cep.language.dialects.lars.answer_set_rules import ASKED, SplitProgram, split
from cep.language.dialects.lars.ast import LarsProgram
from cep.language.dialects.lars.reader import read
from cep.operators.goals.fluents.answer_set_solver import AnswerSetSolver, Derived, Fact, SolverLimits
from cep.rules.answer_set_rules import AnswerSetRules
from cep.rules.terms import Comparison
from tests.reference_lars import (
    COMPARE,
    Answers,
    Moment,
    Stream,
    atom_text,
    moments,
    only_answer,
    strata,
    told,
    value_of,
)


def program_of(text: str) -> LarsProgram:
    return read(Source(text))


@dataclass(frozen=True)
class Asked:
    """A tick: what the solver is given at it, and what the rest of the program derives."""

    moment: Moment
    facts: frozenset[Fact]
    rest: frozenset[str]


def solver_of(parts: SplitProgram, limits: SolverLimits | None = None) -> AnswerSetSolver:
    return AnswerSetSolver(parts.rules, calculator(parts.rules), writer(parts.rules), limits or SolverLimits())


def calculator(rules: AnswerSetRules) -> Callable[[int, tuple[Value, ...]], Value]:
    def calculate(number: int, values: tuple[Value, ...]) -> Value:
        each = rules.calculations[number]
        binding = dict(zip(each.variables, values, strict=True))
        if isinstance(each.of, Comparison):
            return int(COMPARE[each.of.operator](value_of(each.of.left, binding), value_of(each.of.right, binding)))
        return value_of(each.of, binding)

    return calculate


def writer(rules: AnswerSetRules) -> Callable[[Derived], str]:
    def written(each: Derived) -> str:
        atom = atom_text((rules.derived[each[0]].name, each[1]))
        return atom if each[2] is None else f"{atom}@{each[2]}"

    return written


def asked(parts: SplitProgram, stream: Stream, last: int) -> Iterator[Asked]:
    layers = strata(parts.rest)
    assert layers is not None, "what is left has no cycle"
    numbers = {name: number for number, name in enumerate(parts.inputs)}
    for moment in moments(parts.rest, stream, last=last):
        (answer,) = only_answer(layers, moment, 10_000)
        facts = frozenset((numbers[name], values) for name, values, _ in answer if name.startswith(ASKED))
        (texts,) = told(moment, [answer])
        yield Asked(moment, facts, frozenset(each for each in texts if not each.startswith(ASKED)))


def by_solver(program: LarsProgram, stream: Stream, last: int) -> Answers:
    """All answer streams."""
    parts = split(program)
    assert parts is not None, "it has a cycle"
    solver, found = solver_of(parts), []
    for each in asked(parts, stream, last):
        moment = each.moment
        answers = solver.solve(each.facts, frozenset(), moment.start, moment.now, True).answers
        texts = [each.rest | frozenset(map(solver.written, answer)) for answer in answers]
        found.append((moment.now, sorted(texts, key=sorted)))
    return found


def nearest_by_solver(program: LarsProgram, stream: Stream, last: int, limits: SolverLimits | None = None) -> Answers:
    """Of each tick the one nearest to the last."""
    parts = split(program)
    assert parts is not None, "it has a cycle"
    solver, found = solver_of(parts, limits), []
    before: frozenset[Derived] = frozenset()
    for each in asked(parts, stream, last):
        answers = solver.solve(each.facts, before, each.moment.start, each.moment.now, False).answers
        before = answers[0] if answers else before
        found.append((each.moment.now, [each.rest | frozenset(map(solver.written, answer)) for answer in answers]))
    return found


def nearest(answers: Answers) -> Answers:
    """Of all answer streams of each tick the one nearest to the last that was given: the fewest changed, of several the
    least in sorted order."""
    found: Answers = []
    before: frozenset[str] = frozenset()
    for now, every in answers:
        best = min(every, key=lambda answer: (len(answer ^ before), sorted(answer)), default=None)
        before = before if best is None else best
        found.append((now, [] if best is None else [best]))
    return found
