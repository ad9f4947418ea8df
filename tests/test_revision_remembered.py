"""Where input is revised: what fluents hold is given when it begins, and what is remembered is what came to be."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import pytest

from cep.compile import compiled, divided
from cep.core.errors import CepError
from cep.core.identity import identified
from cep.engine import Engine
from cep.events import Event
from cep.explain.occurrences import LATEST, Memory
from tests.keyed_programs import keyed
from tests.long import seeds
from tests.programs import contest, iteration, program, recursion, window
from tests.test_equivalence import types
from tests.test_formulas import FEATURES, random_case
from tests.test_revision import Change, Known, tables

FOR_EVER = 2**60
Held = dict[str, tuple[object, ...]]


def take(held: Held, made: dict[str, pl.DataFrame], engine: Engine) -> None:
    """What a push gives, by `@id`: of one the last that was added is there."""
    for name, table in made.items():
        own = [each.name for each in engine.outputs[name].attributes]
        for row in table.iter_rows(named=True):
            if row["@change"] < 0:
                assert row["@id"] in held, "what is withdrawn was there"
                del held[row["@id"]]
            else:
                held[row["@id"]] = (name, row["start"], row["end"], *(row[each] for each in own))


def in_order(engine: Engine, made: dict[str, pl.DataFrame], held: Held) -> None:
    """The same of an engine that has all in order."""
    meanings = engine.meanings()
    for name, table in made.items():
        table = identified(table, engine.outputs[name], meanings[name])
        own = [each.name for each in engine.outputs[name].attributes]
        for row in table.iter_rows(named=True):
            held[row["@id"]] = (name, row["start"], row["end"], *(row[each] for each in own))


def remembered(engine: Engine) -> dict[str, Counter[tuple[object, ...]]]:
    """What an engine remembers, by event and table: times and arguments, and where it can be told what records it
    comes from."""
    memory = Memory(engine)
    assert engine.history is not None
    found = {}
    for name in (*engine.plan.inputs, *engine.plan.derived, *engine.history.transitions):
        rows: Counter[tuple[object, ...]] = Counter()
        for one in memory.find(name, {}, -LATEST, LATEST):
            roots = sorted((each.event, each.end, repr(each.args)) for each in memory.records(one.name))
            rows[one.start, one.end, one.args, one.bounds, tuple(roots)] += 1
        found[name] = rows
    return {name: rows for name, rows in found.items() if rows}


def check(text: str, events: Sequence[Event], rng: random.Random, length: int, **options: object) -> int:
    """Push events late, twice, withdrawn; gives how many rows were withdrawn."""
    compiling, running = divided(options)
    why = rng.random() < 0.7
    running = replace(running, begins=True, explain=why, remember=FOR_EVER if why else None)
    revising, restored = replace(running, revise=length), False
    engine = Engine(compiled(text, "<program>", compiling), revising)
    events = [event for event in events if event.type in engine.inputs]
    if rng.random() < 0.7:
        events = rng.sample(events, len(events))
    changes: list[Change] = []
    for number, event in enumerate(events):
        changes.append((event, 1))
        if rng.random() < 0.3:
            changes.append((rng.choice(events[: number + 1]), -1))
    known, held, withdrawn, at = Known(length, ()), Held(), 0, 0
    while at < len(changes):
        piece = list(enumerate(changes))[at : at + rng.choice((1, 2, 5))]
        at += len(piece)
        for position, change in piece:
            known.take(position, change)
        if rng.random() < 0.05:  # what is remembered beyond what waits is not kept
            engine, restored = Engine(compiled(text, "<program>", compiling), revising).restore(engine.snapshot()), True
        engine.receive(tables(engine, piece), in_turn=True)
        found = engine.advance(engine.reached)
        withdrawn += sum((table["@change"] < 0).sum() for table in found.values())
        take(held, found, engine)
        engine.take_dead()
        if known.latest == -(2**62) or rng.random() < 0.6:
            continue
        other, truth = Engine(compiled(text, "<program>", compiling), replace(running, lateness=None)), Held()
        known.into(other)
        in_order(other, other.advance(known.latest), truth)
        assert held == truth, (text, changes[:at])
        if why and not restored:
            assert remembered(engine) == remembered(other), (text, changes[:at])
    return withdrawn


@pytest.mark.parametrize("seed", seeds(60))
def test_of_events_that_is_remembered_which_is_there(seed: int) -> None:
    rng = random.Random(f"remembered {seed}")
    made = rng.choice([program, iteration, recursion, contest, window, keyed, keyed, keyed])(rng)
    known = types(made.events)
    try:
        Engine.from_text(made.text, types=known)
        check(made.text, made.events[:12], rng, rng.choice((0, 3, 20)) * 1_000_000, types=known, max_derivations=2000)
    except CepError as error:
        assert error.code == "recursion" or "<program>" in str(error), error


@pytest.mark.parametrize("seed", seeds(48))
def test_fluents_are_told_when_they_begin_and_what_is_remembered_is_there(seed: int) -> None:
    rng = random.Random(f"remembered {seed}")
    case = random_case(rng, FEATURES, rng.randint(0, 2), rng.randint(1, 3))
    check(case.program, case.events[:14], rng, rng.choice((0, 3, 10, 100)))
