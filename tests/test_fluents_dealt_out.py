"""What fluents without a key come to where rules run in buckets: the same as in one engine."""

from __future__ import annotations

import random

import pytest

from cep.core.time import END_OF_TIME
from cep.engine import holds
from cep.events import Event
from cep.runtime.maximal_intervals import held_of
from tests.rounds import Buckets

SECOND = 1_000_000
SINCE_ALONE = """event b(x: int, y: int) TIME time.
event a(x: int) TIME time.
fluent mode() = x: int.
fluent h(x: int, y: int).
initially mode() = 2.
initiate mode() = X <- a(X).
h(X, Y) WHILE b(Y, X) SINCE[0, 1 s] (mode() = X AND mode() = Y).
"""
ONE_VALUE = """event b(x: int, y: int) TIME time.
event a(x: int) TIME time.
fluent begun(x: int).
fluent other(x: int, y: int).
fluent mode() = x: int.
initiate mode() = X <- b(X, _).
initially mode() = 1.
mode() = 2 BECOMES 3 AFTER 4 s RENEWED.
changed(X) <- BEGIN OF mode() = X.
initiate begun(X) <- other(2, X) UNLESS END OF mode() = X WITHIN 2 s.
initiate begun(X) <- changed(X) WHERE mode() = 1.
"""
EVENTS = [("b", (2, 2), 9), ("b", (1, 2), 15), ("a", (1,), 16), ("b", (3, 1), 18), ("a", (3,), 19), ("b", (1, 1), 22)]


@pytest.mark.parametrize("program", [SINCE_ALONE, ONE_VALUE])
@pytest.mark.parametrize("seed", range(4))
def test_as_in_one_engine(program: str, seed: int) -> None:
    buckets = Buckets(program, 3, random.Random(seed))
    events = [Event(name, arguments, t * SECOND, t * SECOND) for name, arguments, t in EVENTS]
    events = [event for event in events if f"event {event.type}(" in program]
    found = []
    for number, event in enumerate(events):
        found += held_of(buckets.round(buckets.tables([(number, event)]), event.end - 1), buckets.schemas, None, None)
    found += held_of(buckets.round({}, END_OF_TIME), buckets.schemas, None, None)
    assert sorted(found, key=str) == sorted(holds(program, events), key=str)
