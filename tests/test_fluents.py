"""Simple fluents against the reference: random programs, events, cuts, restores and keys moved between engines."""

from __future__ import annotations

import random

import pytest

from cep.core.time import END_OF_TIME
from cep.engine import Engine, holds
from cep.events import Event, Held
from cep.plan.partition import partition
from cep.runtime.decode import events_of
from cep.runtime.maximal_intervals import held_of
from cep.runtime.state_by_key import redeal
from tests import reference_fluents as reference
from tests.long import seeds
from tests.reference_fluents import Ask, Due, Model, Tell
from tests.rounds import Buckets


def random_model(rng: random.Random) -> Model:
    fluents, valued = ("f", "g", "h", "w"), frozenset(("g", "w"))
    tells, dues = [], []

    def asks() -> tuple[Ask, ...]:
        found = []
        for fluent in rng.sample(fluents, rng.choice((0, 0, 1, 1, 2))):
            if fluent in valued:
                found.append(Ask(fluent, False, rng.choice((None, 0, 1, 2))))
            else:
                found.append(Ask(fluent, rng.random() < 0.5))
        return tuple(found)

    for place, fluent in enumerate(fluents):
        for verb in ("initiate", "initiate", "terminate", "terminate"):
            value: int | str | None = None
            event = rng.choice("ab")
            if fluent in valued:
                value = rng.choice(("X", "X", 0, 1, "_" if verb == "terminate" else 2))
            only = rng.choice((None, None, 0, 1))
            condition = asks()
            if fluent == "w" and place and rng.random() < 0.3:
                # what happens with another fluent: not on a cycle, so nobody asks `w` in what makes it
                event, only = rng.choice(("BEGIN OF h", "END OF h")), None
                value = rng.choice((0, 1)) if value in ("X", 2) else value
                condition = ()
            tells.append(Tell(verb, fluent, value, event, only, condition))
    if any(" OF " in tell.event for tell in tells):
        tells = [
            Tell(t.verb, t.fluent, t.value, t.event, t.only, tuple(a for a in t.asks if a.fluent != "w")) for t in tells
        ]
    for fluent in fluents:
        renewed = rng.random() < 0.5
        match rng.randrange(4):
            case 0:
                dues.append(Due(fluent, None, rng.randint(1, 9), None, renewed))
            case 1 if fluent in valued:
                dues.append(Due(fluent, 0, rng.randint(1, 9), 1, renewed))
                dues.append(Due(fluent, 1, rng.randint(1, 9), rng.choice((None, 2)), not renewed))
    initial = tuple(
        (f, rng.choice("pq"), rng.randint(0, 2) if f in valued else None) for f in fluents if rng.random() < 0.4
    )
    initial += tuple(("g", "p", rng.randint(0, 2)) for _ in range(rng.randint(0, 2)))
    derived = (("c", "a", asks()), ("d", "b", asks()))
    return Model(fluents, valued, tuple(tells), tuple(dues), tuple(dict.fromkeys(initial)), derived)


def random_records(rng: random.Random, most: int = 40) -> list[tuple[str, str, int, int]]:
    count, span = rng.randint(0, most), rng.choice((10, 40, 120))
    made = [(rng.choice("ab"), rng.choice("pqr"), rng.randint(0, 2), rng.randint(0, span)) for _ in range(count)]
    made += rng.choices(made, k=rng.randint(0, count // 5)) if made else []
    return sorted(made, key=lambda record: record[3])


def expected(model: Model, records: list[tuple[str, str, int, int]]) -> tuple[list[Held], list[Event]]:
    found = reference.run(model, records)
    intervals = [
        Held(f, (k,) if v is None else (k, v), s, e, "()" if e is None else "(]") for f, k, v, s, e in found.intervals
    ]
    events = sorted(
        (Event(n, (k,), t, t) for n, k, t in found.events.elements()), key=lambda e: (e.end, e.start, e.type, e.args)
    )
    return sorted(intervals, key=lambda h: (h.type, h.args, -1 if h.start is None else h.start)), events


def as_events(records: list[tuple[str, str, int, int]]) -> list[Event]:
    return [Event(e, (k, x), t, t) for e, k, x, t in records]


@pytest.mark.parametrize("seed", seeds(150))
def test_what_holds_is_what_the_reference_says_however_the_input_is_cut(seed: int) -> None:
    rng = random.Random(seed)
    model = random_model(rng)
    program = reference.text(model)
    records = random_records(rng)
    intervals, events = expected(model, records)
    assert holds(program, as_events(records)) == intervals, program
    engine = Engine.from_text(program, lateness=0)
    tables: dict[str, list] = {}
    rest = as_events(records)
    while rest:
        count = rng.randint(1, 6)
        if rng.random() < 0.3:
            engine = Engine.from_text(program, lateness=0).restore(engine.snapshot())
        for name, table in engine.push(rest[:count]).items():
            tables.setdefault(name, []).append(table)
        rest = rest[count:]
        if rng.random() < 0.2:
            engine.forget()
    for name, table in engine.close().items():
        tables.setdefault(name, []).append(table)
    assert not engine.close(), "the end comes once"
    each = [{name: table} for name, several in tables.items() for table in several]
    found = [held for one in each for held in held_of(one, engine.plan.schemas, None, None)]
    assert sorted(found, key=lambda h: (h.type, h.args, -1 if h.start is None else h.start)) == intervals
    made = [event for one in each for event in events_of(one, engine.plan.schemas)]
    assert sorted(made, key=lambda e: (e.end, e.start, e.type, e.args)) == events


@pytest.mark.parametrize("seed", seeds(40))
def test_fluents_by_key_in_buckets(seed: int) -> None:
    """Each key in its bucket, engines stopped and restored, keys moved to other buckets."""
    rng = random.Random(1000 + seed)
    model = random_model(rng)
    program = reference.text(model)
    records = random_records(rng)
    intervals, events = expected(model, records)
    buckets = Buckets(program, rng.choice((1, 2, 7)), rng)
    tables: list[dict] = []
    rest = list(enumerate(as_events(records)))
    while rest:
        count = rng.randint(1, 8)
        batch, rest = rest[:count], rest[count:]
        tables.append(buckets.round(buckets.tables(batch), batch[-1][1].end - 1))
        for stage, engines in zip(buckets.stages, buckets.engines, strict=True):
            if stage.keyed and rng.random() < 0.3:
                after = [buckets.engine(stage) for _ in range(rng.randint(1, 4))]
                redeal(engines, after)
                engines[:] = after
    tables.append(buckets.round({}, END_OF_TIME))
    found = [held for each in tables for held in held_of(each, buckets.schemas, None, None)]
    assert sorted(found, key=lambda h: (h.type, h.args, -1 if h.start is None else h.start)) == intervals
    made = [event for each in tables for event in events_of(each, buckets.schemas)]
    assert sorted(made, key=lambda e: (e.end, e.start, e.type, e.args)) == events


def test_a_value_is_no_part_of_the_key() -> None:
    program = """event go(p: string, x: string) TIME time.
fluent location(person: string) = place: string.
initiate location(P) = X <- go(P, X)."""
    (stage,) = partition(Engine.from_text(program).plan)
    assert stage.keyed and stage.inputs == {"go": (0,)}
