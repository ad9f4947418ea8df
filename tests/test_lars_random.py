"""What LARS programs mean: random ones and those of the papers, by every evaluator that there is."""

from __future__ import annotations

import sys
from random import Random

import pytest

from cep.compile import compile
from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Event
from cep.language.dialects.lars.answer_set_rules import split
from cep.lars import answers
from cep.operators.goals.fluents.answer_set_solver import SolverLimits
from cep.runtime.maximal_intervals import held_of
from tests.lars_answer_sets import by_solver, nearest, nearest_by_solver, program_of, solver_of
from tests.lars_maker import FIXED, INPUTS, Maker, program_text, stream_text
from tests.long import seeds
from tests.reference_lars import Answers, TooMany, by_definition, by_strata, strata, value_text

MANY, FEW = 25, 6
"""Programs a seed, FEW by the engine."""

# Ticker, Example 1: a(x) at 35, a(y) and a(z) at 37, a(x) at 39.
EXAMPLE = [(35, [("a", ("x",))]), (37, [("a", ("y",)), ("a", ("z",))]), (39, [("a", ("x",))]), (41, [])]


def at(answers: Answers) -> dict[int, list[list[str]]]:
    return {now: [sorted(each) for each in every] for now, every in answers}


# --- the papers' examples ---


def test_ticker_example_3() -> None:
    found = at(by_definition(program_of("b(x) :- a(x) in [3]."), EXAMPLE))
    assert found == {now: [["b(x)"]] for now in range(35, 42)}


def test_ticker_example_2() -> None:
    text = "some :- a(x) in [3]. then(T) :- a(y) at T in [3]. last :- a(x) always in [1 #]."
    found = at(by_definition(program_of(text), EXAMPLE))
    assert found[40] == [["some", "then(37)"]]
    assert [now for now, (each,) in found.items() if "last" in each] == [35, 39]


def test_tuple_windows_go_by_arrival() -> None:
    found = at(by_definition(program_of("p(X, T) :- a(X) at T in [2 #]."), EXAMPLE))
    assert found[40] == [["p(x, 39)", "p(z, 37)"]]


def test_ticker_example_5() -> None:
    text = "high at T :- alpha(V) at T in [2], 18 <= V. yes :- high always in [2]."
    stream = [(0, [("alpha", (20,))]), (1, [("alpha", (18,))]), (2, [("alpha", (30,))]), (3, [("alpha", (2,))])]
    found = at(by_definition(program_of(text), stream))
    assert [now for now, (each,) in found.items() if "yes" in each] == [0, 1, 2]
    assert found[2] == [["high", "high@0", "high@1", "yes"]]


def test_ticker_example_13() -> None:
    found = at(by_definition(program_of("b(X) :- a(X) in [2]."), [(0, [("c", ())]), (5, [("a", ("y",))])], last=8))
    assert {now: each for now, each in found.items() if each != [[]]} == {now: [["b(y)"]] for now in (5, 6, 7)}


def test_laser_example_1() -> None:
    text = """
    warning(b1) :- highTemp(b1) in [10].
    error(b2) :- highTemp(b2) always in [3].
    shutdown(b2) :- error(b2).
    """
    stream = [(1, []), (2, [("highTemp", ("b1",)), ("highTemp", ("b2",))]), (3, [("highTemp", ("b2",))])]
    found = at(by_definition(program_of(text), stream, last=15))
    assert {now: each for now, each in found.items() if each != [[]]} == {
        now: [["warning(b1)"]] for now in range(2, 13)
    }


def test_choices_defaults_and_constraints() -> None:
    text = "in(X) :- a(X), not out(X). out(X) :- a(X), not in(X). :- in(x), in(y)."
    stream = [(0, [("a", ("x",)), ("a", ("y",))]), (1, [("a", ("x",))])]
    found = by_definition(program_of(text), stream)
    assert at(found) == {
        0: [["in(x)", "out(y)"], ["in(y)", "out(x)"], ["out(x)", "out(y)"]],
        1: [["in(x)"], ["out(x)"]],
    }
    assert by_solver(program_of(text), stream, 1) == found
    assert at(nearest(found)) == {0: [["in(x)", "out(y)"]], 1: [["in(x)"]]}
    assert by_definition(program_of("p :- a(X), not p."), stream) == [(0, []), (1, [])]


def test_every_point_of_a_window_over_what_depends_on_it() -> None:
    """An answer stream is the least model of its reduct, though `always` looks at itself."""
    text = "p at T :- a at T in [5], not q. q :- p always in [1], not r. r :- not q, p in [1]."
    stream = [(0, [("a", ())]), (1, [("a", ())]), (2, [])]
    found = by_definition(program_of(text), stream, last=3)
    assert by_solver(program_of(text), stream, 3) == found


# --- random programs ---


@pytest.mark.parametrize("seed", seeds(12))
def test_strata_agree_with_the_definition(seed: int) -> None:
    for number in range(seed * MANY, (seed + 1) * MANY):
        maker = Maker(Random(number))
        program, stream = maker.program(), maker.stream(5)
        end = stream[-1][0] + 1
        try:
            expected = by_definition(program, stream, last=end)
        except TooMany:
            continue
        assert by_strata(program, stream, last=end) == expected, (number, program_text(program), stream)


@pytest.mark.parametrize("seed", seeds(12))
def test_the_solver_agrees_with_the_definition(seed: int) -> None:
    for number in range(seed * MANY, (seed + 1) * MANY):
        maker = Maker(Random(number), cyclic=True)
        program, stream = maker.program(), maker.stream(5)
        end = stream[-1][0] + 1
        if split(program) is None:
            assert strata(program) is not None, program_text(program)
            continue
        try:
            expected = by_definition(program, stream, last=end)
        except TooMany:
            continue
        told = (number, program_text(program), stream)
        assert by_solver(program, stream, end) == expected, told
        assert nearest_by_solver(program, stream, end) == nearest(expected), told


def test_what_is_written_is_read() -> None:
    for number in range(100):
        program = Maker(Random(number), cyclic=number % 2 == 0).program()
        assert program_of(program_text(program)).rules == program.rules, program_text(program)


@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize("seed", seeds(24))
def test_answers_agree_with_the_definition(seed: int, cyclic: bool) -> None:
    """By the engine, many ticks at once."""
    for number in range(seed * FEW, (seed + 1) * FEW):
        maker = Maker(Random(1_000 + number), cyclic)
        program, stream = maker.program(), maker.stream(5)
        end, text = stream[-1][0] + 2, program_text(program)
        try:
            expected = by_definition(program, stream, last=end)
        except TooMany:
            continue
        assert list(answers(text, stream_text(stream), last=end)) == nearest(expected), (number, text, stream)
        if cyclic:
            assert list(answers(text, stream_text(stream), last=end, models=0)) == expected, (number, text, stream)


@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize("seed", seeds(24))
def test_cuts_and_restores_change_nothing(seed: int, cyclic: bool) -> None:
    for number in range(seed * 3, (seed + 1) * 3):
        random = Random(2_000 + number)
        maker = Maker(random, cyclic)
        text = declarations(maker) + program_text(maker.program())
        events = [
            Event(name, values, 1_000_000 * tick, 1_000_000 * tick)
            for tick, atoms in maker.stream(8)
            for name, values in atoms
        ]
        compiled = compile(text, dialect="lars")
        whole = Engine(compiled, lateness=0)
        expected = [whole.push(events), whole.close()]
        engine = Engine(compiled, lateness=0)
        found, waiting = [], []
        for at, event in enumerate(events):
            if random.random() < 0.2:
                engine = Engine(compiled, lateness=0).restore(engine.snapshot())
            waiting.append(event)
            if at + 1 == len(events) or random.random() < 0.5:
                found.append(engine.push(waiting))
                waiting = []
        found.append(engine.close())
        assert told_by(engine, found) == told_by(whole, expected), (number, text, events)


def declarations(maker: Maker) -> str:
    kind = {int: "int", float: "float", str: "string"}[type(maker.values[0])]
    made = ((name, ", ".join(f"x{at}: {kind}" for at in range(arity))) for name, arity in INPUTS.items())
    value = value_text(maker.values[0])
    facts = (f"{name}({', '.join([value] * arity)}).\n" for name, arity in FIXED.items())
    return "".join((*(f"event {name}({columns}) TIME time.\n" for name, columns in made), *facts))


def told_by(engine: Engine, tables: list) -> list[str]:
    return sorted(str(held) for each in tables for held in held_of(each, engine.outputs, None, None))


# --- limits ---


def test_an_explosion_of_models_is_refused() -> None:
    parts = split(program_of("in(X) :- a(X), not out(X). out(X) :- a(X), not in(X)."))
    assert parts is not None
    solver = solver_of(parts, SolverLimits(most=100))
    facts = frozenset((1 + side, (number,)) for number in range(7) for side in range(2))
    with pytest.raises(CepError) as failed:
        solver.solve(facts, frozenset(), 0, 3, True)
    assert "more than 100 answer streams at tick 3" in str(failed.value)
    assert len(solver.solve(facts, frozenset(), 0, 3, False).answers) == 1


def test_rules_without_an_end_are_told() -> None:
    parts = split(program_of("p(X) :- a(X), not q(X). q(X) :- a(X), not p(X). p(X + 1) :- p(X)."))
    assert parts is not None
    with pytest.raises(CepError) as failed:
        solver_of(parts, SolverLimits(endless=500)).solve(frozenset({(1, (0,)), (2, (0,))}), frozenset(), 0, 0, False)
    assert "this rule never ends" in str(failed.value)


def test_a_limit_on_the_search_gives_some_answer() -> None:
    parts = split(program_of("in(X) :- a(X), not out(X). out(X) :- a(X), not in(X). :- in(X), in(Y), X < Y."))
    assert parts is not None
    facts = frozenset((1 + side, (number,)) for number in range(20) for side in range(2))
    found = [
        solver_of(parts, SolverLimits(conflicts=1)).solve(facts, frozenset(), 0, 0, False).answers for _ in range(2)
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 1


def test_a_solver_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clingo", None)
    parts = split(program_of("p :- a, not q. q :- a, not p."))
    assert parts is not None
    with pytest.raises(CepError) as failed:
        solver_of(parts)
    assert "pip install 'clingo>=" in str(failed.value)
