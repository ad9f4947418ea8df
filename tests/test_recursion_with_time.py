"""Recursion with temporal operators on the cycle, push by push: what it comes to in one step, and at what cost."""

from __future__ import annotations

import random

import pytest

from cep.engine import Engine, holds
from cep.events import Event
from cep.runtime.delayed_cycle import IntervalRounds
from cep.runtime.maximal_intervals import held_of
from tests.long import seeds

DECLARED = """event add(a: int, b: int) TIME t.
event cut(a: int, b: int) TIME t.
event see(a: int) TIME t.
fluent road(a: int, b: int).
fluent open(a: int).
fluent near(a: int, b: int).
fluent hot(a: int).
initiate road(A, B) <- add(A, B).
terminate road(A, B) <- cut(A, B).
initiate open(A) <- see(A).
open(A) ENDS AFTER 4 s.
"""
RULES = (
    "near(A, B) WHILE road(A, B).\nnear(A, C) WHILE road(A, B) AND ONCE[0 s, 2 s] near(B, C).",
    "near(A, B) WHILE road(A, B).\nnear(A, C) WHILE road(A, B) AND HISTORICALLY[0 s, 1 s] near(B, C).",
    "near(A, B) WHILE road(A, B).\nnear(A, C) WHILE (open(A) SINCE[0 s, 3 s] near(B, C)) AND road(A, B).",
    "hot(A) WHILE see(A).\nhot(A) WHILE road(A, B) AND ONCE[1 s, 2 s] hot(B).",
    "hot(A) WHILE see(A).\nhot(B) WHILE open(B) AND ONCE[0 s, 3 s] (hot(A) AND road(A, B)).",
    "hot(A) WHILE see(A).\nALWAYS[0 s, 2 s) hot(B) WHILE road(A, B) AND hot(A) AND NOT open(B).",
    "near(A, B) WHILE road(A, B) AND ONCE(0 s, 2 s) hot(A).\nhot(A) WHILE see(A).\n"
    "hot(B) WHILE near(A, B) AND HISTORICALLY[0 s, 1 s] open(A).\nhot(A) WHILE open(A) SINCE(0 s, 2 s] hot(A).",
)


def events_of(rng: random.Random) -> list[Event]:
    made = []
    for second in range(rng.choice((20, 35))):
        for _ in range(rng.choice((0, 1, 1, 2))):
            name = rng.choice(("add", "add", "cut", "see", "see"))
            args = tuple(rng.randint(0, 4) for _ in range(1 if name == "see" else 2))
            time = second * 1_000_000 + rng.choice((0, 0, 500_000))
            made.append(Event(name, args, time, time))
    return sorted(made, key=lambda event: event.end)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("seed", seeds(12))
def test_push_by_push(rules: str, seed: int) -> None:
    rng = random.Random(f"{seed} {rules}")
    events, program = events_of(rng), DECLARED + rules
    until = max((event.end for event in events), default=0) + 2_000_000
    engine, found, rest = Engine.from_text(program, until=until), [], events
    while rest:
        count = rng.choice((1, 1, 2, 5))
        batch, rest = rest[:count], rest[count:]
        found += held_of(engine.push(batch), engine.outputs, None, until)
        if rng.random() < 0.1:
            engine = Engine.from_text(program, until=until).restore(engine.snapshot())
    found += held_of(engine.close(), engine.outputs, None, until)
    whole = holds(program, events, until=until)
    assert sorted(map(str, found)) == sorted(map(str, whole)), program


def test_what_no_change_touches_is_not_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    program = DECLARED + RULES[0]
    derived: list[int] = []
    grow = IntervalRounds._grow

    def counted(self: IntervalRounds, *given: object) -> bool:
        found = grow(self, *given)  # type: ignore[arg-type]
        derived.append(sum(len(goal.grown.all().key) for goal in self.fixpoints.values()))  # type: ignore[attr-defined]
        return found

    monkeypatch.setattr(IntervalRounds, "_grow", counted)
    engine = Engine.from_text(program)
    engine.push([Event("add", (n, n + 1), 0, 0) for n in range(0, 600, 3)])
    engine.push([Event("add", (1000, 1001), 5_000_000, 5_000_000)])
    engine.push([Event("add", (1001, 1002), 6_000_000, 6_000_000)])
    derived.clear()
    engine.push([Event("add", (1002, 1003), 7_000_000, 7_000_000)])
    assert derived and max(derived) < 20, "two hundred others hold"
