"""Steps of a machine that are taken back: it is what it was, so that the same again leads to the same."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import pytest

from cep.compile import compiled, divided
from cep.core.errors import CepError
from cep.core.relation import END, Table, concat, empty, rows, slice_until
from cep.core.time import END_OF_TIME, Frontier
from cep.engine import Engine
from cep.events import Event
from cep.operators.goals.contract import Arrays
from cep.operators.goals.store import NEXT, OTHER, SLOT
from cep.runtime.machine import Machine
from tests.keyed_programs import keyed
from tests.long import seeds
from tests.programs import contest, program
from tests.revising_programs import revising_events, revising_program
from tests.test_equivalence import types

Made = dict[str, list[Table]]
stepped = Machine.step


def same(one: list[Arrays], other: list[Arrays]) -> bool:
    """Whether two states are the same, but for keys that no row has, and their numbers."""

    def plain(state: Arrays) -> Arrays:
        if "absent_cold" not in state:
            return state
        cold, absent = state["cold"].copy(), state["absent_cold"].copy()
        cold[:, SLOT], cold[:, OTHER], absent[:, SLOT] = 0, 0, 0
        keys = state["keys"][state["cold"][:, SLOT]]
        return {
            "hot": state["hot"][:, :NEXT],
            "cold": cold,
            "away": state["absent_hot"],
            "absent": absent,
            "keys": keys,
        }

    pairs = ((plain(a), plain(b)) for a, b in zip(one, other, strict=True))
    return all(a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a) for a, b in pairs)


def tried(machine: Machine, inputs: Mapping[str, Table], frontier: Frontier) -> Made:
    """A step whose last instant is taken back, and made again."""
    if frontier.watermark >= END_OF_TIME:
        return stepped(machine, inputs, frontier)
    back = frontier.until(frontier.watermark - 1)
    made = machine.attempt(inputs, frontier, back, True)
    kept, apart = machine.attempts.states, dict(machine.attempts.apart)
    for event, tables in made.items():
        early = [apart[event][0]] if event in apart else [tables[-1][:, : slice_until(tables[-1], back.watermark)]]
        made[event] = [*tables[:-1], *early]
    machine.take_back()
    assert kept is not None and same(kept, machine.needed(back)), "what was kept is what it went back to"
    left = {event: table[:, slice_until(table, back.watermark) :] for event, table in inputs.items()}
    for event, tables in stepped(machine, left, frontier).items():
        made.setdefault(event, []).extend(tables)
    return made


def given(engine: Engine, events: list[Event], rng: random.Random) -> dict[str, list[tuple[int, ...]]]:
    """All that an engine makes, in which time goes on to the end of the last event of each batch."""
    found: dict[str, list[Table]] = {}
    parts, at = engine._parts, 0
    while at < len(events):
        until = at + rng.choice((1, 3, 8))
        while until < len(events) and events[until].end == events[until - 1].end:
            until += 1
        engine.receive(events[at:until])
        for watermark in (events[min(until, len(events)) - 1].end, END_OF_TIME)[: 1 + (until >= len(events))]:
            made = parts.machine.step(parts.buffer.release(watermark), parts.buffer.frontier(watermark))
            for event, tables in made.items():
                found.setdefault(event, []).extend(tables)
        at = until
    tables = {event: concat([empty(len(each[0]) - 4), *each]) for event, each in found.items()}
    return {event: sorted(map(tuple, table.T.tolist())) for event, table in tables.items() if rows(table)}


@pytest.mark.parametrize("seed", seeds(60))
def test_the_last_instant_is_taken_back(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    if seed % 3 == 0:
        text = revising_program(rng)
        events, known = revising_events(rng, text), None
    else:
        drawn = rng.choice([program, contest, keyed, keyed])(rng)
        text, events, known = drawn.text, list(drawn.events), types(drawn.events)
        events = [Event(e.type, e.args, e.start, max(e.start, e.end // 2_000_000 * 2_000_000)) for e in events]
    compiling, running = divided({} if known is None else {"types": known, "max_derivations": 2000})
    try:
        program_ = compiled(text, "<program>", compiling)
    except CepError:
        return  # some of what is drawn is no program
    events = sorted((event for event in events if event.type in program_.plan.inputs), key=lambda event: event.end)
    expected = given(Engine(program_, running), events, random.Random(seed))
    monkeypatch.setattr(Machine, "step", tried)
    assert given(Engine(program_, running), events, random.Random(seed)) == expected, text


def test_time_alone_is_taken_back() -> None:
    text = "event a(x: int) TIME t.\nfluent f(x: int).\ninitiate f(X) <- a(X).\nf(X) ENDS AFTER 0.000005 s."
    machine = Engine.from_text(text)._machine
    table = np.array([[10], [10], [0], [0], [1]], np.int64)
    assert machine.step({"a": table}, Frontier.at(14)) == {}
    before = machine.states()
    ((name, (made,)),) = machine.attempt({}, Frontier.at(15), Frontier.at(14)).items()
    assert name == "f" and made[END].tolist() == [15]
    machine.take_back()
    assert same(machine.states(), before)


def test_what_somebody_else_has_looked_at_is_not_taken_back() -> None:
    machine = Engine.from_text("event a(x: int) TIME t.\nb(X) <- (a(X) SEQ a(X)).")._machine
    table = np.array([[10], [10], [0], [0], [1]], np.int64)
    machine.attempt({"a": table}, Frontier.at(10), Frontier.at(9))
    assert machine.attempts.there
    machine.snapshot()  # goals may move what they hold
    assert not machine.attempts.there
