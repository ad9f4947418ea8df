"""Revision where all comes in order, or nearly: what is not looked for is nevertheless right, and so is the rest."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from cep.compile import compiled, divided
from cep.core.errors import CepError
from cep.core.identity import identity_hashes, occurrence_texts
from cep.core.relation import END, FIRST, IDENTITY, ORDER, START, Table
from cep.core.schema import Attribute, Schema
from cep.engine import Engine
from cep.events import Event
from cep.runtime.machine import Machine
from cep.runtime.revision import row_window
from cep.runtime.revision.rerunning import GoingBack
from cep.runtime.revision.row_window import RowWindow
from tests.keyed_programs import keyed
from tests.long import seeds
from tests.programs import contest, program, window
from tests.test_equivalence import types
from tests.test_formulas import FEATURES, random_case
from tests.test_revision import UNSEEN, Change, Known, Rows, named, rows, sets_of, tables


def in_order(text: str, events: list[Event], rng: random.Random, **options: object) -> int:
    """Push events in the order of time, of few times, so that pushes cut instants; gives how many rows go."""
    compiling, running = divided(options)
    program_ = compiled(text, "<program>", compiling)
    running = replace(running, revise=rng.choice((1, 5_000_000)))
    plain = replace(running, revise=None, lateness=None)
    engine = Engine(program_, running)
    events = sorted((event for event in events if event.type in engine.inputs), key=lambda event: event.end)
    changes: list[Change] = []
    for event in events:
        changes.append((event, 1))
        if rng.random() < 0.2:
            changes.append((event, rng.choice((1, -1))))
    names: Rows = Rows()
    known, net, withdrawn, at = Known(running.revise or 0, (), sets_of(engine)), Rows(), 0, 0
    looks = random.Random(text)
    while at < len(changes):
        piece = list(enumerate(changes))[at : at + rng.choice((1, 2, 3))]
        at += len(piece)
        for position, change in piece:
            known.take(position, change)
        made = engine.push(tables(engine, piece))
        net.subtract(rows(made, -1))
        net.update(rows(made, 1))
        names.subtract(named(made, -1))
        names.update(named(made, 1))
        withdrawn += rows(made, -1).total()
        assert set(names.values()) <= {0, 1}, "no row is added twice, and none withdrawn that is not there"
        if looks.random() < UNSEEN and at < len(changes):
            continue
        other = Engine(program_, plain)
        known.into(other)
        assert +net == rows(other.advance(known.latest)), (text, changes[:at])
    return withdrawn


@pytest.mark.parametrize("seed", seeds(36))
def test_the_law_where_pushes_cut_instants(seed: int) -> None:
    rng = random.Random(seed)
    if seed % 4 == 0:
        case = random_case(rng, FEATURES, rng.randint(0, 3), rng.randint(1, 3))
        in_order(case.program, list(case.events), rng, changes=seed % 8 == 0)
        return
    made = rng.choice([program, contest, window, keyed, keyed])(rng)
    try:
        Engine.from_text(made.text, types=types(made.events))
    except CepError:
        return  # some of what is drawn is no program
    events = [replace(event, end=max(event.start, event.end // 3_000_000 * 3_000_000)) for event in made.events]
    in_order(made.text, events, rng, types=types(made.events), max_derivations=2000)


SECOND = 1_000_000
TEXT = """
event reading(k: int, v: float) TIME t.
fluent high(k: int).
initiate high(K) <- reading(K, V) WHERE V > 0.9.
terminate high(K) <- reading(K, V) WHERE V < 0.1.
rise(K, A, B) <- (reading(K, A) SEQ reading(K, B)) WHERE A < 0.2, B > 0.8 WITHIN 10 s.
"""
MANY = "many(K, N) <- (reading(K, _) AGGREGATE N = count() OVER LAST 3 s BY K) WHERE N > 3.\n"
TEXT += MANY


def readings(number: int, keys: int) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    times = np.arange(number) // 50 * SECOND
    return pl.DataFrame({"time": times, "k": rng.integers(0, keys, number), "v": rng.random(number).round(2)})


def net_of(engine: Engine, frame: pl.DataFrame, cuts: list[int]) -> Rows:
    found = Rows()
    for first, last in zip([0, *cuts], [*cuts, frame.height]):
        made = engine.push({"reading": frame[first:last]})
        found.subtract(rows(made, -1))
        found.update(rows(made, 1))
        assert set(found.values()) <= {0, 1}
    made = engine.close()
    found.subtract(rows(made, -1))
    found.update(rows(made, 1))
    return +found


def plain_of(frame: pl.DataFrame, text: str = TEXT) -> Rows:
    engine = Engine.from_text(text)
    found = rows(engine.push({"reading": frame}))
    found.update(rows(engine.close()))
    return found


@pytest.mark.parametrize("text", [TEXT, TEXT.replace(MANY, "")], ids=["with a count", "checkpoints by key"])
@pytest.mark.parametrize("size", [7, 120, 1020])
def test_an_instant_in_pieces_is_run_again_from_just_before_it(
    size: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = Counter[str]()
    taken, revised = Machine.take_back, GoingBack.revise

    def take_back(self: Machine) -> None:
        done["take back"] += 1
        taken(self)

    def revise(self: GoingBack, *of: Any) -> Any:
        done["revise"] += 1
        return revised(self, *of)

    monkeypatch.setattr(Machine, "take_back", take_back)
    monkeypatch.setattr(GoingBack, "revise", revise)
    frame = readings(3000, 40)[: 120 * size]
    engine = Engine.from_text(text, revise=20 * SECOND)
    assert net_of(engine, frame, list(range(size, frame.height, size))) == plain_of(frame, text)
    assert done["revise"] <= 50 // size + 1, "but of the first instant that is cut the machine can take each back"
    assert done["take back"] >= 2 * frame.height // max(size, 50) // 3


def test_rows_out_of_order_within_a_push_are_none_that_are_late() -> None:
    frame = readings(3000, 40)
    rng = np.random.default_rng(5)
    order = np.concatenate([at + rng.permutation(500) for at in range(0, 3000, 500)])
    engine = Engine.from_text(TEXT, revise=100 * SECOND)
    assert net_of(engine, frame[order], list(range(500, 3000, 500))) == plain_of(frame)
    assert engine.take_dead() == []


def test_records_that_come_twice_in_one_push_are_one_that_one_withdrawal_takes() -> None:
    engine = Engine.from_text("event a(x: int) TIME t DISTINCT.\nb(X) <- a(X).", revise=100)
    twice = pl.DataFrame({"time": [10, 10, 20], "x": [1, 1, 2]})
    assert rows(engine.push({"a": twice}), 1).total() == 2
    gone = pl.DataFrame({"time": [10], "x": [1], "@change": pl.Series([-1], dtype=pl.Int8)})
    assert [row[2] for row in engine.push({"a": gone})["b"].select("start", "x", "@change").rows()] == [-1]
    assert engine.push({"a": gone}) == {}
    assert [row.code for row in engine.take_dead()] == ["unknown-withdrawal"]
    assert rows(engine.push({"a": twice[:1]}), 1).total() == 1


def test_of_a_key_the_last_record_of_a_push_counts_where_nothing_is_looked_for() -> None:
    engine = Engine.from_text("event a(k: int, x: int) TIME t KEY k.\nb(K, X) <- a(K, X).", revise=100)
    made = engine.push({"a": pl.DataFrame({"time": [10, 10, 20, 10], "k": [1, 1, 1, 2], "x": [5, 6, 7, 8]})})
    assert sorted(made["b"].select("start", "k", "x").rows()) == [(10, 1, 6), (10, 2, 8), (20, 1, 7)]


# --- the window ---


def occurrences(rng: random.Random, number: int, low: int, high: int) -> Table:
    table = np.zeros((FIRST + 1, number), np.int64)
    ends = [rng.randint(low, high) for _ in range(number)]
    table[END] = sorted(ends) if rng.random() < 0.5 else ends
    table[START] = table[END] - rng.randint(0, 2)
    table[ORDER] = [rng.randint(0, 10**9) for _ in range(number)]
    table[IDENTITY] = table[ORDER]
    table[FIRST] = [rng.randint(0, 3) for _ in range(number)]
    return table


def as_rows(table: Table) -> Counter[tuple[int, ...]]:
    return Counter(map(tuple, table.T.tolist()))


@pytest.mark.parametrize("seed", range(40))
def test_a_window_holds_what_a_list_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_window, "SMALL", 64)  # tables of few rows are joined, others are not
    rng = random.Random(seed)
    held, model, at = RowWindow(1), Counter[tuple[int, ...]](), 0
    for _ in range(40):
        low, high = at + rng.randint(-20, 5), at + rng.randint(6, 30)
        act = rng.choice(["add"] * 4 + ["leaving", "since", "drop", "same", "ending"])
        if act == "add":
            table = occurrences(rng, rng.choice((0, 1, 5, 20, row_window.SMALL)), low, high)
            held.add(table)
            model += as_rows(table)
        elif act == "leaving":
            assert as_rows(held.leaving(low)) == Counter({row: n for row, n in model.items() if row[END] <= low})
            model = Counter({row: n for row, n in model.items() if row[END] > low})
        elif act == "since":
            assert as_rows(held.since(high)) == Counter({row: n for row, n in model.items() if row[END] > high})
            model = Counter({row: n for row, n in model.items() if row[END] <= high})
        elif act == "drop" and model:
            gone = rng.sample(sorted(model), min(len(model), 3))
            held.drop(np.array(gone, np.int64).T.copy())
            for row in gone:
                del model[row]
        elif act == "same":
            asked = occurrences(rng, rng.choice((0, 1, 5, 200)), low, high)
            asked = asked[:, np.argsort(asked[END], kind="stable")]
            alike = {(start, end, value) for start, end, _, _, value in as_rows(asked)}
            assert as_rows(held.same(asked, [START, END, FIRST])) == Counter(
                {row: n for row, n in model.items() if (row[START], row[END], row[FIRST]) in alike}
            )
        else:
            found = held.ending(low, high)
            assert as_rows(found) == Counter({row: n for row, n in model.items() if low < row[END] <= high})
            places = list(zip(found[END].tolist(), found[START].tolist(), found[ORDER].tolist()))
            assert places == sorted(places)
        at += rng.randint(0, 10)
        assert held.size == model.total()
        assert as_rows(held.all()) == model
        assert all(row[END] <= held.last for row in model)


# --- what is written, and what is read ---


def test_ids_of_columns_are_those_of_rows() -> None:
    rng = random.Random(1)
    values = {
        "int": lambda: rng.choice([None, 0, -(2**63) + 1, 2**62, rng.randrange(100)]),
        "float": lambda: rng.choice([None, 0.0, -0.0, 1e-5, 1e-4, 1e16, 9e15, 5e-324, 1e300, rng.random(), math.pi]),
        "string": lambda: rng.choice([None, "", "plain ~!#[]", 'a"b', "back\\slash", "é", "\n", "\x7f", "\U0001f600"]),
        "bool": lambda: rng.choice([None, True, False]),
    }
    kinds = {"int": pl.Int64, "float": pl.Float64, "string": pl.String, "bool": pl.Boolean}
    for number in (0, 3, 15, 16, 400):
        columns = {"start": pl.Series(range(number)), "end": pl.Series([None] * number, dtype=pl.Int64)}
        columns |= {
            name: pl.Series([make() for _ in range(number)], dtype=kinds[name]) for name, make in values.items()
        }
        schema = Schema('na"me', tuple(Attribute(name, name) for name in values), True, False)
        frame = pl.DataFrame(columns)
        texts = [f"{json.dumps(schema.name)} {json.dumps(row)}" for row in frame.rows()]
        assert occurrence_texts(frame, schema) == texts
    assert identity_hashes(texts[:1], "meaning") == identity_hashes([texts[0]], "meaning")


PLAIN = "event reading(k: int, v: float) TIME time.\nhot(K) <- reading(K, V) WHERE V > 30.\n"


def test_a_table_that_withdraws_is_refused_where_nothing_is_revised() -> None:
    table = pl.DataFrame({"time": [1, 2], "k": [1, 1], "v": [40.0, 40.0], "@change": [1, -1]})
    with pytest.raises(
        CepError, match="a row of the table of `reading` withdraws another, but the engine does not revise"
    ):
        Engine.from_text(PLAIN).push({"reading": table})
    assert rows(Engine.from_text(PLAIN).push({"reading": table[:1]})) == Rows()
