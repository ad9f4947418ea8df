"""LARS where rules run in buckets: the same as in one engine, alone and beside rules of events."""

from __future__ import annotations

from random import Random

import pytest

from cep.compile import compile
from cep.core.time import END_OF_TIME
from cep.engine import Engine
from cep.events import Event
from cep.plan.partition import partition
from cep.runtime.maximal_intervals import held_of
from tests.lars_maker import Maker, program_text
from tests.long import seeds
from tests.rounds import Buckets
from tests.test_lars_and_events_random import Both, told
from tests.test_lars_random import declarations

TICK = 1_000_000


def outcome(tables: list[dict[str, object]], schemas: dict[str, object]) -> list[str]:
    """What was given, as text."""
    found: list[str] = []
    for each in tables:
        shown = {name: table for name, table in each.items() if name in schemas}
        events = {name: table for name, table in shown.items() if schemas[name].fluent is None}
        for name, table in events.items():
            columns = ["start", "end", *(each.name for each in schemas[name].attributes)]
            found += [told(Event(name, row[2:], row[0], row[1])) for row in table.select(columns).rows()]
        fluents = {name: table for name, table in shown.items() if name not in events}
        found += [str(one) for one in held_of(fluents, schemas, None, None)]
    return sorted(found)


def dealt(program: object, events: list[Event], seed: int) -> tuple[list[str], list[str]]:
    """What one engine gives, and what buckets give."""
    whole = Engine(program, lateness=0)
    expected = outcome([whole.push(events), whole.close()], whole.outputs)
    buckets = Buckets(program, 3, Random(seed))
    found = []
    for number, event in enumerate(events):
        found.append(buckets.round(buckets.tables([(number, event)]), event.end - 1))
    found.append(buckets.round({}, END_OF_TIME))
    return expected, outcome(found, whole.outputs)


@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize("seed", seeds(24))
def test_lars_alone(seed: int, cyclic: bool) -> None:
    for number in range(seed * 3, (seed + 1) * 3):
        maker = Maker(Random(9_000 + number), cyclic)
        text = declarations(maker) + program_text(maker.program())
        events = [
            Event(name, values, TICK * tick, TICK * tick) for tick, atoms in maker.stream(6) for name, values in atoms
        ]
        expected, found = dealt(compile(text, dialect="lars"), events, number)
        assert found == expected, (number, text, events)


@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize("seed", seeds(24))
def test_lars_beside_rules_of_events(seed: int, cyclic: bool) -> None:
    for number in range(seed * 3, (seed + 1) * 3):
        both = Both(number, cyclic)
        expected, found = dealt(compile(both.texts), both.events, number)
        assert found == expected, (number, both.texts, both.events)


KEYED = """event reading(room: string, level: int) TIME time.
high(R) :- reading(R, L) in [3], L > 2.
calm(R) :- reading(R, L) in [3], not high(R).
early(R, T) :- reading(R, L) at T in [5], high(R), L < 2.
"""
TUPLES = KEYED + "last(R) :- reading(R, L) in [3 #].\n"
CHOICE = KEYED + "on(R) :- high(R), not off(R).\noff(R) :- high(R), not on(R).\n"


@pytest.mark.parametrize("text, keyed", [(KEYED, True), (TUPLES, False), (CHOICE, False)])
def test_where_rules_run(text: str, keyed: bool) -> None:
    """Rules that join on a key are dealt by it; what is of all rooms together runs in one place."""
    stages = partition(compile(text, dialect="lars").plan)
    assert any(stage.keyed for stage in stages)
    assert all(stage.keyed for stage in stages) == keyed
