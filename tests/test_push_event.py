"""One event pushed: the same as a push of it, in every mode."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from cep import Engine as Dealt
from cep.engine import Engine
from cep.events import Event, Iri, Value
from tests.long import seeds

SECOND = 1_000_000
PROGRAM = """
event reading(room: string, temp: float in 0..100, place: iri?, on: bool?) TIME time.
event alarm(room: string, level: int).
hot(R, T) <- reading(R, T, _, _) WHERE T > 50.
rise(R, A, B) <- (reading(R, A, _, _) SEQ reading(R, B, _, _) WHERE B > A) WITHIN 5 s.
answer(R, L) <- reading(R, _, _, true) SEQ alarm(R, L) WITHIN 9 s.
quiet(R) <- reading(R, _, _, _) UNLESS alarm(R, _) WITHIN 4 s.
"""
KEYED = PROGRAM.replace("TIME time", "TIME time KEY room")
MODES: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": (PROGRAM, {}),
    "lateness": (PROGRAM, {"lateness": 2 * SECOND}),
    "explain": (PROGRAM, {"explain": True}),
    "revise": (PROGRAM, {"revise": 6 * SECOND}),
    "key": (KEYED, {"revise": 6 * SECOND}),
}
Pushed = tuple[str, tuple[Value, ...], int, int]


def pushed(random: Random) -> list[Pushed]:
    found: list[Pushed] = []
    time = 0
    for _ in range(60):
        time += random.choice([0, SECOND, SECOND // 2, -3 * SECOND])
        room = random.choice(["a", "b", "c"])
        if random.random() < 0.3:
            found.append(("alarm", (room, random.choice([1, 2.0, 2.5, True, None, 2**63])), time, time + SECOND))
            continue
        temp = random.choice([1, 20.5, 70, 99.9, 100.5, None, float("nan"), float("inf"), "x", True, 10**400])
        place = random.choice([None, Iri("http://a/b"), "text"])
        values: tuple[Value, ...] = (random.choice([room, room, None, 3]), temp, place, random.choice([True, None, 1]))
        found.append(("reading", values[: random.choice([4, 4, 4, 3])], time, time + random.choice([0, 0, 0, SECOND])))
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", seeds(8))
def test_an_event_is_a_push_of_one(seed: int, mode: str) -> None:
    text, options = MODES[mode]
    one, other = Engine.from_text(text, **options), Engine.from_text(text, **options)
    for number, (type, values, start, end) in enumerate(pushed(Random(seed))):
        given = one.push_event(type, values, start, end) if end > start else one.push_event(type, values, start)
        wanted = other.push([Event(type, values, start, end)])
        assert {name: table.rows() for name, table in given.items()} == {n: t.rows() for n, t in wanted.items()}
        assert one.take_dead() == other.take_dead()
        assert one.watermark == other.watermark
        if number % 20 == 19:
            one = Engine.from_text(text, **options).restore(other.snapshot())
    assert {n: t.rows() for n, t in one.close().items()} == {n: t.rows() for n, t in other.close().items()}


def test_workers_are_given_an_event() -> None:
    events = [each for each in pushed(Random(1)) if len(each[1]) == 4 or each[0] == "alarm"]
    alone, dealt = Engine.from_text(PROGRAM, lateness=0), Dealt.from_text(PROGRAM, workers=2)
    try:
        for each in events:
            given, wanted = dealt.inner.push_event(*each), alone.push_event(*each)
            assert {n: t.rows() for n, t in given.items()} == {n: t.rows() for n, t in wanted.items()}
            assert dealt.inner.take_dead() == alone.take_dead()
    finally:
        dealt.stop()


def test_what_an_event_is_not() -> None:
    engine = Engine.from_text(PROGRAM)
    for values, reason in (
        (("a", 1.0, None), "must have 4 arguments"),
        ((3, 1.0, None, None), "`room` is not a string"),
        (("a", "x", None, None), "`temp` is not a number"),
        (("a", 200, None, None), "`temp` is outside its range 0..100"),
        ((None, 1.0, None, None), "`room` is missing"),
        (("a", 1.0, "text", None), "`place` is not an IRI"),
        (("a", 1.0, None, 1), "`on` is not true or false"),
    ):
        assert engine.push_event("reading", values, 0) == {}
        (dead,) = engine.take_dead()
        assert (dead.type, dead.row, dead.reason) == ("reading", 0, reason)
    with pytest.raises(ValueError, match="before it starts"):
        engine.push_event("alarm", ("a", 1), 5, 3)
