"""Answer sets key by key: which programs have keys, and that the answer is that of all at once."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from cep.events import Value
from cep.language.dialects.lars.answer_set_rules import SplitProgram, split
from cep.operators.goals.fluents.answer_set_solver import AnswerSetSolver, Derived, Fact, Found, Grounding, SolverLimits
from cep.rules.answer_set_rules import AnswerSetKeys
from tests.lars_answer_sets import calculator, program_of, solver_of, writer
from tests.long import seeds

CHOSEN = """
get(I, N, M) :- source(I, N, M), not other(I, N, M).
other(I, N, M) :- node(M), get(I, N, K), M != K.
other(I, N, M) :- source(I, N, M), source(I, N, K), quality(M, L), quality(K, H), L < H.
"""
SIDES = "in(X, Y) :- a(X, Y), not out(X, Y). out(X, Y) :- a(X, Y), not in(X, Y)."


def parts_of(text: str) -> SplitProgram:
    parts = split(program_of(text))
    assert parts is not None, "it has a cycle"
    return parts


def keys_of(text: str) -> AnswerSetKeys | None:
    return parts_of(text).rules.keys


def test_what_a_key_is() -> None:
    assert keys_of(CHOSEN) == AnswerSetKeys(((0, 1), (0, 1)), (None, (0, 2), None, (0, 2)))
    assert keys_of(SIDES) == AnswerSetKeys(((0, 1), (0, 1)), (None, (0, 1), (0, 1)))
    # one of X, then, since others of it are asked
    assert keys_of(SIDES + ":- in(X, Y), in(X, Z), Y < Z.") == AnswerSetKeys(((0,), (0,)), (None, (0,), (0,)))


@pytest.mark.parametrize(
    "more",
    [
        ":- in(X, Y), in(Z, Y), X < Z.  :- in(X, Y), in(X, Z), Y < Z.",
        "in(1, 2).",
        "out(X, 1) :- in(X, 2). out(1, X) :- in(2, X).",
        "in(X + 1, Y + 1) :- in(X, Y), b(X).",
        ":- in(_, _), b(X).",
        "some :- in(X, Y). :- not some.",
    ],
)
def test_rules_that_hang_together_have_none(more: str) -> None:
    assert keys_of(SIDES + more) is None


@pytest.mark.parametrize("seed", seeds(24))
def test_by_key_as_at_once(seed: int) -> None:
    random = Random(seed)
    text = random.choice(
        [CHOSEN, SIDES, SIDES + ":- in(X, Y), in(X, Z), Y < Z.", SIDES + ":- in(X, Y), b(X). :- c(1)."]
    )
    parts = parts_of(text + random.choice(["", "c(X) :- a(X, X)."]))
    assert parts.rules.keys is not None
    solver, restored = solver_of(parts), solver_of(parts)
    whole = AnswerSetSolver(
        replace(parts.rules, keys=None), calculator(parts.rules), writer(parts.rules), SolverLimits()
    )
    last: frozenset[Derived] = frozenset()
    facts: set[Fact] = set()
    for tick in range(12):
        for _ in range(random.randrange(6)):
            number = random.randrange(1, len(parts.rules.inputs))
            row: tuple[Value, ...] = tuple(random.randrange(1, 4) for _ in range(parts.rules.inputs[number]))
            facts ^= {(number, row)}
        if random.random() < 0.3:
            restored.become(list(solver.known))
        found = [each.solve(frozenset(facts), last, 0, tick, False) for each in (solver, whole, restored)]
        assert found[0] == found[1] == found[2], (text, facts, last)
        last = found[0].answers[0] if found[0].answers else last


def test_what_has_not_changed_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[frozenset[Derived]] = []
    nearest = Grounding.nearest

    def told(self: Grounding, last: frozenset[Derived], seconds: float | None = None) -> Found:
        searched.append(last)
        return nearest(self, last, seconds)

    monkeypatch.setattr(Grounding, "nearest", told)
    solver = solver_of(parts_of(SIDES))
    facts = frozenset((side, (key, 0)) for key in range(50) for side in (1, 2))
    last = solver.solve(facts, frozenset(), 0, 0, False).answers[0]
    assert len(searched) == 51  # one of what belongs to no key
    searched.clear()
    more = facts | {(1, (7, 1)), (2, (7, 1))}
    found = solver.solve(more, last, 0, 1, False).answers[0]
    assert len(found - last) == 1
    assert len(searched) == 1


WINDOWED = """
in(X) :- a(X), not out(X) in [3] step 2.
out(X) :- a(X), not in(X) always in [1].
"""


def test_rules_that_ask_whether_a_tick_lies_in_a_window_are_grounded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """At every tick the answer is that of a solver which knows nothing from before."""
    grounded: list[int] = []
    begin = Grounding.__post_init__

    def told(self: Grounding) -> None:
        grounded.append(self.now)
        begin(self)

    monkeypatch.setattr(Grounding, "__post_init__", told)
    parts = parts_of(WINDOWED)
    assert parts.rules.windows and not parts.rules.clocked
    solver = solver_of(parts)
    facts = frozenset((number, (key,)) for key in range(4) for number in (1, 2))
    last: frozenset[Derived] = frozenset()
    for tick in range(9):
        found = solver.solve(facts, last, 0, tick, False)
        fresh = solver_of(parts)
        fresh.become(list(solver.known))
        own, grounded[:] = list(grounded), []
        assert fresh.solve(facts, last, 0, tick, False) == found
        assert own == ([0] * 5 if not tick else [])  # a key each, and what belongs to none
        grounded.clear()
        last = found.answers[0] if found.answers else last
