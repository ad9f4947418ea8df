"""Cycles of conditions on fluents, many instants at once: the same as instant by instant, whatever the stretches."""

from __future__ import annotations

import random

import pytest

from cep.engine import Engine
from cep.events import Event, Held
from cep.plan.explain import explain
from cep.runtime import instants
from cep.runtime.decode import events_of
from cep.runtime.instants import Instants
from cep.runtime.maximal_intervals import held_of
from tests.long import seeds

DECLARED = """event a(k: string, l: string, x: int) TIME t.
event b(k: string, l: string, x: int) TIME t.
event told(k: string, x: int).
fluent f(k: string).
fluent g(k: string) = v: int.
fluent h(k: string, l: string).
"""
BODIES = (
    "a(K, L, X)", "b(K, L, X)", "told(K, X)", "(a(K, L, X) SEQ b(L, K, Y) WITHIN 9 ms)",
    "((a(K, L, X) SEQ b(K, M, Y)) POLICY recent)", "(a(K, L, X) AND b(K, M, X))",
)  # fmt: skip
ASKS = (
    "f(K)", "not f(K)", "f(L)", "not f(L)", "g(K) = X", "not (g(K) = X)", "g(L) = 1", "g(K) = V, V < X", "h(K, L)",
    "not h(K, L)", "h(L, M)", "not h(L, K)", "held(f(K), end() - 3 ms)", "not held(g(K) = 1, start())",
)  # fmt: skip
TELLS = (
    "initiate f(K)", "terminate f(K)", "initiate g(K) = X", "initiate g(K) = 1", "terminate g(K) = 1",
    "terminate g(K) = _", "initiate h(K, L)", "terminate h(K, L)", "initiate h(L, K)", "told(K, X)",
)  # fmt: skip


def random_program(rng: random.Random) -> str:
    """Rules at random, most of them asking fluents that they change."""
    lines = []
    for tell in (*TELLS, *rng.choices(TELLS, k=4)):
        bodies = [body for body in BODIES if "L" not in tell or "L" in body]
        bodies = [body for body in bodies if not tell.startswith("told") or "told" not in body]
        body = rng.choice(bodies)
        asks = [ask for ask in ASKS if "L" in body or "L" not in ask]
        asks = [ask for ask in asks if ("SEQ" in body or "AND" in body) or "start()" not in ask]
        chosen = ", ".join(rng.sample(asks, rng.choice((0, 1, 1, 1, 2))))
        lines.append(f"{tell} <- {body}{f' WHERE {chosen}' if chosen else ''}.")
    renewed = rng.choice(("", " RENEWED"))
    lines += rng.sample(
        (
            f"f(K) ENDS AFTER {rng.randint(1, 9)} ms{renewed}.",
            f"h(K, L) ENDS AFTER {rng.randint(1, 30)} ms{renewed}.",
            f"g(K) = 1 BECOMES 2 AFTER {rng.randint(1, 9)} ms{renewed}.",
            "initially f(p).",
            "initially g(q) = 1.",
        ),
        rng.randint(0, 5),
    )
    return DECLARED + "\n".join(lines)


def random_events(rng: random.Random) -> list[Event]:
    keys, span = rng.choice(("p", "pq", "pqrstuvw")), rng.choice((20, 100, 400))
    made = []
    for _ in range(rng.randint(5, 120)):
        t = 1000 * rng.randint(0, span)
        made.append(Event(rng.choice("ab"), (rng.choice(keys), rng.choice(keys), rng.randint(0, 2)), t, t))
    return sorted(made, key=lambda event: event.end)


def given(engine: Engine, tables: dict) -> list[Held | Event]:
    return [*held_of(tables, engine.plan.schemas, None, None), *events_of(tables, engine.plan.schemas)]


def guesses(engine: Engine) -> list[bool]:
    """For each cycle of rows, whether it goes by many instants at once."""
    return [part.guesses for part in engine._parts.machine.parts if isinstance(part, Instants)]


@pytest.mark.parametrize("seed", seeds(150))
def test_many_instants_at_once_are_as_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two engines take the same pushes, and their states are exchanged now and then."""
    rng = random.Random(seed)
    least, few, most = rng.choice(((1, 1, 2), (1, 1, 3), (2, 2, 5), (8, 4, 16)))
    monkeypatch.setattr(instants, "LEAST", least)
    monkeypatch.setattr(instants, "FEW", few)
    monkeypatch.setattr(instants, "MOST", most)
    program, rest = random_program(rng), random_events(rng)

    def engines() -> tuple[Engine, Engine]:
        return tuple(Engine.from_text(program, lateness=0, fast_recursion=fast) for fast in (True, False))  # type: ignore[return-value]

    both = engines()
    assert len(guesses(both[0])) == len(guesses(both[1])), program
    while rest:
        count = rng.choice((1, 5, 40, 200))
        found = [given(engine, engine.push(rest[:count])) for engine in both]
        assert found[0] == found[1], program
        rest = rest[count:]
        if rng.random() < 0.3:
            states = [engine.snapshot() for engine in both]
            both = engines()
            for engine, state in zip(both, reversed(states), strict=True):
                engine.restore(state)
        if rng.random() < 0.2:
            both[0].forget()
    ends = [given(engine, engine.close()) for engine in both]
    assert ends[0] == ends[1], program


def test_a_cycle_of_conditions_on_fluents_goes_by_stretches() -> None:
    program = DECLARED + "initiate f(K) <- a(K, L, X) WHERE not f(L).\nterminate f(K) <- b(K, L, X) WHERE f(K), f(L)."
    assert guesses(Engine.from_text(program)) == [True]
    plan = Engine.from_text(program).plan
    assert "many instants at once, in passes until nothing changes" in " ".join(explain(plan, ()).split())
    assert guesses(Engine.from_text(program, fast_recursion=False)) == [False]


def test_what_keeps_more_than_fluents_goes_instant_by_instant() -> None:
    """A pair waits for its second part: it cannot be taken back."""
    program = DECLARED + "initiate f(K) <- (a(K, L, X) WHERE not f(K)) SEQ b(K, M, X)."
    assert guesses(Engine.from_text(program)) == [False]


def test_with_explanations_it_goes_instant_by_instant() -> None:
    """Occurrences get their names once."""
    program = DECLARED + "initiate f(K) <- a(K, L, X) WHERE not f(L)."
    assert guesses(Engine.from_text(program, explain=True)) == [False]


def test_each_instant_may_follow_from_the_one_before() -> None:
    """One key, whose every event asks what the one before it has done: as many passes as instants."""
    program = DECLARED + "initiate f(K) <- a(K, L, X) WHERE not f(K).\nterminate f(K) <- a(K, L, X) WHERE f(K)."
    engine = Engine.from_text(program, lateness=0)
    found = given(engine, engine.push([Event("a", ("p", "p", 0), t, t) for t in range(1000)]))
    found += given(engine, engine.close())
    assert [(one.start, one.end) for one in found] == [(t, t + 1) for t in range(0, 999, 2)]
