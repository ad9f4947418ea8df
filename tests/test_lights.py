"""Values that become each other for ever, as those of traffic lights: to the watermark, and at the end of the input to
the latest time in it, or to `until`."""

from __future__ import annotations

import random

import pytest

from cep.core.time import END_OF_TIME
from cep.engine import Engine, holds
from cep.events import Event, Held
from cep.runtime.maximal_intervals import held_of
from tests.rounds import Buckets

SECOND = 1_000_000
LIGHTS = """event on(k: string) TIME t.
event off(k: string) TIME t.
event look(k: string) TIME t.
fluent light(k: string) = colour: string.
initiate light(K) = yellow <- on(K).
light(K) = yellow BECOMES red AFTER 1 s.
light(K) = red BECOMES green AFTER 2 s.
light(K) = green BECOMES red AFTER 3 s.
terminate light(K) = _ <- off(K).
go(K) <- look(K) WHERE light(K) = green.
"""
LENGTHS = {"yellow": ("red", 1), "red": ("green", 2), "green": ("red", 3)}


def expected(rows: list[tuple[str, str, int]], until: int | None) -> list[Held]:
    """By hand, second by second, of lights that are not on when they are put on."""
    latest = max([time for *_, time in rows] + ([] if until is None else [until]))
    made = []
    for key in sorted({key for _, key, _ in rows}):
        mine = sorted((time, name) for name, k, time in rows if k == key and name != "look")
        for start, name in mine:
            if name == "off":
                continue
            end = next((time for time, what in mine if what == "off" and time > start), None)
            since, colour = start, "yellow"
            while True:
                following, length = LENGTHS[colour]
                change = since + length
                if end is not None and end <= change:
                    made.append(Held("light", (key, colour), since, end, "(]"))
                    break
                if colour != "yellow" and change > latest:
                    made.append(Held("light", (key, colour), since, None, "()"))
                    break
                made.append(Held("light", (key, colour), since, change, "(]"))
                since, colour = change, following
    return sorted(
        (Held(h.type, h.args, h.start * SECOND, None if h.end is None else h.end * SECOND, h.bounds) for h in made),
        key=lambda held: (held.args, held.start),
    )


def rows_of(rng: random.Random) -> list[tuple[str, str, int]]:
    rows = []
    for key in "pqr"[: rng.randint(1, 3)]:
        times = sorted(rng.sample(range(40), rng.choice((1, 2, 3, 4))))
        rows += [("off" if n % 2 else "on", key, time) for n, time in enumerate(times)]
    rows += [("look", rng.choice("pqr"), time) for time in rng.sample(range(60), rng.choice((0, 1, 3)))]
    return sorted(rows, key=lambda row: row[2])


@pytest.mark.parametrize("seed", range(20))
def test_lights_change_to_the_end(seed: int) -> None:
    rng = random.Random(f"lights {seed}")
    rows = rows_of(rng)
    until = rng.choice((None, 10, 50, 75))
    asked = None if until is None else until * SECOND
    events = [Event(name, (key,), time * SECOND, time * SECOND) for name, key, time in rows]
    wanted = expected(rows, until)
    engine, found = Engine.from_text(LIGHTS, until=asked), []
    rest = events
    while rest:
        count = rng.randint(1, 4)
        batch, rest = rest[:count], rest[count:]
        found += held_of(engine.push(batch), engine.outputs, None, None)
        if rng.random() < 0.4:
            engine = Engine.from_text(LIGHTS, until=asked).restore(engine.snapshot())
    found += held_of(engine.close(), engine.outputs, None, None)
    assert sorted(found, key=lambda held: (held.args, held.start or 0)) == wanted
    buckets, dealt = Buckets(LIGHTS, 3, rng, until=asked), []
    for number, event in enumerate(events):
        dealt += held_of(buckets.round(buckets.tables([(number, event)]), event.end - 1), buckets.schemas, None, None)
    dealt += held_of(buckets.round({}, END_OF_TIME), buckets.schemas, None, None)
    assert sorted(dealt, key=lambda held: (held.args, held.start or 0)) == wanted


def test_on_a_cycle_of_conditions() -> None:
    program = """event on(k: string) TIME t.
    event press(k: string) TIME t.
    fluent light(k: string) = colour: string.
    fluent wanted(k: string).
    initiate light(K) = red <- on(K) WHERE not wanted(K).
    initiate wanted(K) <- press(K) WHERE light(K) = green.
    light(K) = red BECOMES green AFTER 2 s.
    light(K) = green BECOMES red AFTER 3 s.
    """
    events = [Event(n, ("x",), t * SECOND, t * SECOND) for n, t in (("on", 0), ("press", 1), ("press", 4), ("on", 9))]
    found = {(each.type, *each.args[1:], (each.start or 0) // SECOND): each.end for each in holds(program, events)}
    assert found == {
        ("light", "red", 0): 2 * SECOND, ("light", "green", 2): 5 * SECOND, ("light", "red", 5): 7 * SECOND,
        ("light", "green", 7): None, ("wanted", 4): None,
    }  # fmt: skip


def test_of_rtec() -> None:
    program = """initiatedAt(light(X)=red, T) :- happensAt(on(X), T).
fi(light(X)=red, light(X)=green, 2).
fi(light(X)=green, light(X)=red, 3).
"""
    events = [Event("on", ("x",), 0, 0)]
    found = holds(program, events, dialect="rtec", until=9 * SECOND)
    assert [each.args[-1] for each in sorted(found, key=lambda each: each.start or 0)] == [
        "red",
        "green",
        "red",
        "green",
    ]
