"""Revision by changes of tables: where all operators revise, it keeps the law, and what it keeps is what there is."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from cep.core.errors import CepError
from cep.core.fluents import BEGINS
from cep.core.relation import END, FIRST, IDENTITY, START, Table, empty
from cep.core.time import Frontier
from cep.engine import Engine
from cep.events import Event
from cep.operators.goals.fluents.holding_reviser import HoldingReviser
from cep.operators.goals.fluents.inertia_reviser import InertiaReviser
from cep.operators.goals.keyed_rows import COMES, GOES, KEY, ROW, TIMES, KeyedRows, changes_of, words_of
from cep.runtime.revision import incremental
from cep.runtime.revision.incremental import Incremental
from tests.long import seeds
from tests.revising_programs import revising_events, revising_program, with_keys
from tests.test_revision import check


def incremental_of(engine: Engine) -> Incremental:
    revision = engine._parts.revision
    assert revision is not None and revision.incremental is not None, "all its operators revise"
    return revision.incremental


@pytest.mark.parametrize("seed", seeds(300))
def test_the_law_where_all_operators_revise(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begun at once, or when it pays."""
    rng = random.Random(f"revising {seed}")
    if seed % 4:
        monkeypatch.setattr(incremental, "A_PUSH", 10**6)
    text, keys = with_keys(rng, revising_program(rng))
    incremental_of(Engine.from_text(text, revise=10))
    events = revising_events(rng, text, keys)
    check(text, events, rng, rng.choice((3, 10, 30, 100, 1000)), keys, changes=seed % 3 == 0)


FLUENT = """
event a(k: int, v: int).
fluent f(k: int).
fluent g(k: int) = x: int.
initiate f(K) <- a(K, V) WHERE V > 1.
terminate f(K) <- a(K, V) WHERE V < 1.
initiate g(K) = V <- a(K, V) WHERE f(K).
g(K) = 2 ENDS AFTER 3 s.
"""


def test_rows_are_put_through_as_changes_once_much_has_come_late() -> None:
    engine = Engine.from_text(FLUENT, revise=100_000_000)
    for first in range(1, 9_000, 1_000):
        engine.push([Event("a", (at % 7, at % 3), at * 1_000, at * 1_000) for at in range(first, first + 1_000)])
    changes = incremental_of(engine)
    engine.push([Event("a", (3, 2), 500, 500)])
    assert not changes.begun, "one key is run again"
    engine.push([Event("a", (at % 7, 2), at * 1_000 + 1, at * 1_000 + 1) for at in range(1, 100)])
    assert changes.begun
    before = engine.revision_stats
    engine.push([Event("a", (3, 0), 7_000, 7_000)])
    after = engine.revision_stats
    assert before is not None and after is not None
    assert (after.late - before.late, after.keys_replayed - before.keys_replayed) == (1, 1)


def test_what_is_kept_goes_with_the_window_and_when_nothing_comes_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incremental, "A_PUSH", 10**6)
    engine = Engine.from_text(FLUENT, revise=1_000_000)
    changes, sizes = incremental_of(engine), []
    for at in range(1, 60):
        time = at * 100_000
        late = [Event("a", (at + 5, 2), time - 150_000 + k, time - 150_000 + k) for k in range(3)]
        engine.push([*(Event("a", (at + k, k % 3), time + k, time + k) for k in range(50)), *late])
        sizes.append(changes.nbytes)
    assert changes.begun and max(sizes[30:]) <= 2 * max(sizes[12:20]), "it does not grow"
    for at in range(60, 80):
        time = at * 100_000
        engine.push([Event("a", (at + k, k % 3), time + k, time + k) for k in range(50)])
    assert not changes.begun and changes.nbytes == 0, "nothing was late for longer than the window"


def test_keys_that_burst_in_turn_and_are_silent_then_keep_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incremental, "A_PUSH", 10**6)
    engine = Engine.from_text(FLUENT, revise=1_000_000)
    changes, sizes = incremental_of(engine), []
    for turn in range(60):
        time = turn * 200_000
        late = [Event("a", (turn, 2), time - 250_000 + n, time - 250_000 + n) for n in range(3)]
        engine.push([*(Event("a", (turn, n % 3), time + n, time + n) for n in range(90)), *late])
        sizes.append(changes.nbytes)
    assert changes.begun and max(sizes[30:]) <= 1.25 * max(sizes[15:30]), "5 of 60 keys are in the window"


def test_a_snapshot_makes_the_states_anew_that_are_behind_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incremental, "A_PUSH", 10**6)
    engine, looked = Engine.from_text(FLUENT, revise=1_000_000), list[KeyedRows]()
    every = KeyedRows.every
    monkeypatch.setattr(KeyedRows, "every", lambda held: looked.append(held) or every(held))
    for time in range(50_000, 5_000_000, 50_000):
        late = Event("a", (2, time // 50_000 % 3), time - 60_000, time - 60_000)
        engine.push([Event("a", (3, 2), time, time), late])
    engine.snapshot()
    revision = engine._parts.revision
    assert revision is not None and incremental_of(engine).begun and len(revision.stretches) > 4
    before = [list(map(id, each.state.base)) for each in revision.stretches]
    since = revision.stretches[3].since
    engine.push([Event("a", (3, 0), since, since)])
    looked.clear()
    engine.snapshot()
    after = [list(map(id, each.state.base)) for each in revision.stretches]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True] * 3 + [False] * (len(after) - 3)
    assert len(looked) == len({id(each) for each in looked}), "all rows are looked at once, whatever the stretches"


def test_what_was_given_is_netted_when_it_has_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incremental, "A_PUSH", 10**6)
    monkeypatch.setattr(incremental, "FEW", 8)
    compared: list[int] = []
    apart = incremental.apart
    monkeypatch.setattr(
        incremental, "apart", lambda was, now: compared.append(was.shape[1] + now.shape[1]) or apart(was, now)
    )
    engine = Engine.from_text("event a(k: int).\nb(K) <- a(K).", revise=100_000_000)
    engine.push([Event("a", (at,), 10 * at, 10 * at) for at in range(2_000)])
    for at in range(1, 600):
        engine.push([Event("a", (at,), 10 * at + 5, 10 * at + 5)])
    assert incremental_of(engine).begun and 0 < sum(compared) <= 3 * 600


@pytest.mark.parametrize("place, pushes", [("window_of", False), ("apart", True)])
def test_an_engine_that_stopped_while_stretches_were_put_right_is_not_gone_on_with(
    place: str, pushes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by Ctrl-C: in a snapshot, or in a push that nets what was given."""
    monkeypatch.setattr(incremental, "A_PUSH", 10**6)
    monkeypatch.setattr(incremental, "FEW", 0)
    engine = Engine.from_text("event a(k: int).\nb(K) <- a(K).\nc(K) <- a(K).", revise=1_000)
    engine.push([Event("a", (at,), 10 * at, 10 * at) for at in range(9)])
    engine.push([Event("a", (3,), 5, 5)])
    calls, real = [], getattr(incremental, place)

    def stops(*given: Any) -> Any:
        calls.append(given)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return real(*given)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        if not pushes:
            engine.push([Event("a", (4,), 6, 6)])
        patch.setattr(incremental, place, stops)
        engine.push([Event("a", (4,), at, at) for at in (6, 16, 26)]) if pushes else engine.snapshot()
    assert incremental_of(engine).begun and len(calls) == 2, "the one event is as it is to be, the other is not"
    for use in (engine.snapshot, engine.close, lambda: engine.push([Event("a", (5,), 7, 7)])):
        with pytest.raises(CepError, match="stopped in the middle of a step"):
            use()


def test_one_that_knows_many_tuples_for_a_row_is_not_begun_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incremental, "A_PUSH", 10**6)
    facts = " ".join(f"low({n})." for n in range(8))
    engine = Engine.from_text(f"event a(k: int).\n{facts}\nd(K, L) <- a(K) WHERE low(L).", revise=100_000_000)
    changes, begun = incremental_of(engine), []
    monkeypatch.setattr(incremental, "KNOWN", 0)
    for at in range(1, 40):
        engine.push([*(Event("a", (10 * at + k,), 1_000 * at + k, 1_000 * at + k) for k in range(10))])
        engine.push([Event("a", (-at,), 1_000 * at - 500, 1_000 * at - 500)])
        begun.append(changes.begun)
    assert sum(begun) >= len(begun) - 6


def test_a_cycle_is_a_region() -> None:
    engine = Engine.from_text("event a(k: int).\nx(K) <- a(K).\nx(K) <- x(K) SEQ a(K).", revise=10)
    assert [len(numbers) for numbers, alone in incremental_of(engine).regions if not alone] == [1]


def table_of(rows: Any, sign: int) -> Table:
    """Rows of keys, a column each, as a table of changes."""
    table: Table = rows[[1, 0, 2, 2, *range(3, len(rows))]].copy()
    table[IDENTITY] = sign
    return table


@pytest.mark.parametrize("seed", seeds(24))
def test_rows_of_keys_are_what_has_come_and_not_gone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kept, model, floor = KeyedRows(5), dict[int, list[tuple[int, ...]]](), -1
    kept.know(6)
    for step in range(20):
        parts = []
        for sign in (GOES, COMES):
            rows = rng.integers(0, (6, 3, 3, 2, 2), (int(rng.integers(0, 20)), 5)).T
            rows = rows[:, rng.integers(0, max(1, rows.shape[1]), rows.shape[1])]  # some are there twice
            rows[0] += 3 * step
            keys = rng.integers(-1, 6, rows.shape[1])
            if sign == GOES:
                there = [(key, row) for key, found in model.items() for row in found if row[0] > floor]
                picked = [there[n] for n in rng.permutation(len(there))[: rng.integers(0, 6)]]
                keys = np.array([key for key, _ in picked], np.int64)
                rows = np.array([row for _, row in picked], np.int64).reshape(-1, 5).T
            for key, row in zip(keys.tolist(), rows.T.tolist(), strict=True):
                if key >= 0 and sign == GOES:
                    model[key].remove(tuple(row))
                elif key >= 0:
                    model.setdefault(key, []).append(tuple(row))
            parts.append((keys, rows, sign))
        table = np.concatenate([table_of(rows, sign) for _, rows, sign in parts], axis=1)
        order = rng.permutation(table.shape[1])  # a table of changes is in no order
        numbers = np.concatenate([keys for keys, _, _ in parts])[order]
        changes = changes_of(np.ascontiguousarray(table[:, order]), numbers, words_of(2), 6)
        net = Counter[tuple[int, ...]]()
        for keys, rows, sign in parts:
            for key, row in zip(keys.tolist(), rows.T.tolist(), strict=True):
                net[key, *row] += sign if key >= 0 else 0
        wanted = sorted([*row, times] for row, times in net.items() if times)
        assert changes[:, [KEY, *range(ROW, ROW + 5), TIMES]].tolist() == wanted, "equal ones are one, by all words"
        kept.change(changes)
        if step % 5 == 4:
            kept.floor = floor = 3 * step - 10
        rows, keys = kept.every()
        assert len(np.unique(np.column_stack([keys, rows[:, :5]]), axis=0)) == len(rows), "each is there once"
        rows, keys = (np.repeat(each, rows[:, 5], axis=0) for each in (rows[:, :5], keys))
        for key in range(6):
            mine = [tuple(row) for row in rows[keys == key].tolist() if row[0] > floor]
            assert mine == sorted(row for row in model.get(key, []) if row[0] > floor)
        after, until = rng.integers(floor, 3 * step + 4, (2, 6))
        wanted = [
            row
            for key in range(6)
            for row in sorted(model.get(key, []))
            if max(floor, after[key]) < row[0] <= until[key]
        ]
        found = kept.ending(np.arange(6), after, until)
        assert [tuple(row) for row in found.tolist() if row[0] > floor] == wanted
        found, pairs = kept.at(np.arange(6), np.full(6, 3 * step + 2))
        for key in range(6):
            wanted = sorted(row for row in model.get(key, []) if row[0] == 3 * step + 2)
            assert sorted(map(tuple, found[pairs == key].tolist())) == wanted


def test_what_goes_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each kernel that puts changes in."""
    monkeypatch.setattr(incremental, "A_PUSH", 10**6)
    kept, row = KeyedRows(3), np.array([[5], [5], [1]])
    kept.know(2)
    kept.change(changes_of(table_of(row, COMES), np.zeros(1, np.int64), words_of(0), 2))
    with pytest.raises(AssertionError, match="what goes was there"):
        kept.change(changes_of(table_of(row, GOES), np.ones(1, np.int64), words_of(0), 2))
    text = "event a(k: int).\nfluent f(k: int).\ninitiate f(K) <- a(K) WHERE K > 0.\nd(K) <- a(K) WHERE f(K)."
    engine = Engine.from_text(text, revise=1_000)
    engine.push([Event("a", (1,), 10, 10)])
    engine.push([Event("a", (1,), 7, 7)])
    found, widths = incremental_of(engine), engine._machine.widths
    tried = []
    for part in found.parts:
        reviser = part.reviser
        for side, unit in enumerate(part.part.takes.units):
            gone = np.zeros((FIRST + widths[unit], 1), np.int64)
            gone[END] = gone[START] = 9
            gone[IDENTITY] = GOES
            if isinstance(reviser, HoldingReviser) and side == 1:
                gone[FIRST + reviser.spec.kind] = BEGINS
            elif not isinstance(reviser, InertiaReviser | HoldingReviser):
                continue
            inputs = [empty(widths[each]) for each in part.part.takes.units]
            inputs[side] = gone
            with pytest.raises(AssertionError, match="what goes was there"):
                reviser.revise(inputs, part.part.goals_by_unit()[0][1], 10, Frontier.at(10))
            tried.append((type(reviser), side))
    assert set(tried) == {(InertiaReviser, 0), (HoldingReviser, 0), (HoldingReviser, 1)}


def test_equal_transitions_are_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incremental, "A_PUSH", 10**6)
    facts = " ".join(f"low({n})." for n in range(40))
    text = f"event a(k: int).\n{facts}\nfluent f(k: int).\ninitiate f(K) <- a(K) WHERE low(L), L > K."
    engine = Engine.from_text(text, revise=1_000)
    engine.push([Event("a", (at % 3,), at, at) for at in range(10, 60)])
    engine.push([Event("a", (1,), at, at) for at in (5, 7)])
    engine.push([Event("a", (2,), at, at) for at in range(10, 60)])
    (reviser,) = (each.reviser for each in incremental_of(engine).parts if isinstance(each.reviser, InertiaReviser))
    assert reviser.rows.count == 52 + 50, "which 40 facts make so many times as many of"
