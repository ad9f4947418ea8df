"""What revision holds is by the window: it does not grow with the stream, whose keys are new ones again and again."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from cep.engine import Engine
from cep.operators.goals.pairs.join import JoinGoal
from cep.operators.goals.state_tables import NumberedState
from cep.runtime.revision import incremental, revision, window_segment
from tests.test_revision import Rows, rows

SECOND = 1_000_000
TEXT = """
event reading(k: int, v: float) TIME t.
fluent high(k: int).
initiate high(K) <- reading(K, V) WHERE V > 0.6.
terminate high(K) <- reading(K, V) WHERE V < 0.5.
rise(K, A, B) <- (reading(K, A) SEQ reading(K, B)) WHERE A < 0.4, B > 0.6 WITHIN 2 s.
"""
WINDOW, STEP, KEYS, LATE = 4 * SECOND, SECOND // 2, 20, 10


def readings(steps: int) -> list[pl.DataFrame]:
    """A push each half second, of keys that are new every second, and end what holds of them before. The first rows
    of each come late, with those of the next."""
    rng = np.random.default_rng(5)
    made = []
    for step in range(steps):
        times = step * STEP + np.sort(rng.choice(STEP, 40, replace=False))
        keys = step // 2 * KEYS + rng.integers(0, KEYS, 40)
        values = rng.random(40).round(3)
        if step % 2:
            keys[-KEYS:], values[-KEYS:] = step // 2 * KEYS + np.arange(KEYS), 0.0
        made.append(pl.DataFrame({"time": times, "k": keys, "v": values}))
    late = [each[:LATE] for each in made]
    return [pl.concat([each[LATE:], *late[max(0, at - 1) : at]]) for at, each in enumerate(made)]


def held(engine: Engine) -> tuple[int, int, int]:
    """Rows and bytes of the window, and keys that have numbers."""
    revised = engine._parts.revision
    assert revised is not None
    return *revised.size, revised.going_back.numbered


@pytest.mark.parametrize("come", ["in order", "late", "late, as changes", "cut"])
def test_what_is_held_is_by_the_window(come: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revision, "KEPT", 16)
    pushes = readings(120)
    every = pl.concat(pushes).sort("time", maintain_order=True)
    if come == "cut":  # whole half seconds, of which a push ends in the midst
        every = every.with_columns(pl.col("time") // STEP * STEP)
    if "late" not in come:
        first = 40 if come == "in order" else 25
        pushes = [every[:first], *(every[at : at + 40] for at in range(first, every.height, 40))]
    engine, sizes, net = Engine.from_text(TEXT, revise=WINDOW), [], Rows()
    monkeypatch.setattr(incremental, "KNOWN", 16)
    monkeypatch.setattr(incremental, "A_ROW", 0)
    monkeypatch.setattr(incremental, "A_PUSH", 10**6 if "changes" in come else 0)
    for table in pushes:
        if come != "cut":
            engine.forget()  # what steps leave for later, so that states are what they need to be
        made = engine.push({"reading": table})
        net.subtract(rows(made, -1))
        net.update(rows(made, 1))
        sizes.append(held(engine))
    assert engine._machine.attempts.there == (come == "cut")
    made = engine.close()
    net.subtract(rows(made, -1))
    net.update(rows(made, 1))
    begun, later = (np.max(part, axis=0) for part in (sizes[:24], sizes[24:]))
    assert (later[:2] <= 1.5 * begun[:2]).all(), (begun, later)
    assert (come in ("late", "cut")) == bool(later[2]), "only what comes late gets numbers, and is run again by stages"
    assert later[2] <= 16 + later[0], "of 1,200 keys that come"
    plain = Engine.from_text(TEXT)
    expected = rows(plain.push({"reading": every}))
    expected.update(rows(plain.close()))
    assert +net == expected


def test_goals_hold_what_their_keys_need_where_each_key_comes_seldom() -> None:
    rng = np.random.default_rng(9)
    keys, engine, sizes = 1000, Engine.from_text(TEXT, revise=WINDOW), []
    for at in range(0, 24_000, 500):
        values, of = rng.random(500).round(3), rng.integers(0, keys, 500)
        engine.push({"reading": pl.DataFrame({"time": (at + np.arange(500)) * SECOND // 1000, "k": of, "v": values})})
        sizes.append((engine.state_rows, engine.state_bytes))
    begun, later = (np.max(part, axis=0) for part in (sizes[8:24], sizes[24:]))
    assert (later <= 1.1 * begun).all(), (begun, later)


@pytest.mark.parametrize("by_key", [True, False], ids=["checkpoints by key", "one of the whole state"])
def test_goals_forget_where_every_push_ends_in_the_midst_of_an_instant(by_key: bool) -> None:
    """Each second comes in two pushes, so each step is one that may be taken back."""
    text = TEXT if by_key else TEXT + "quiet(K) <- reading(K, A) UNLESS reading(K, B) WITHIN 1 s.\n"
    engine, sizes = Engine.from_text(text, revise=1000 * SECOND), []
    for second in range(60):
        keys, values = second * 64 + np.arange(64), np.random.default_rng(second).random(64).round(3)
        for each, said in ((keys, values), (keys - 64, np.zeros(64))):
            engine.push({"reading": pl.DataFrame({"time": second * SECOND, "k": each, "v": said})})
        sizes.append([one.count if isinstance(one, JoinGoal) else one._numbers() for one in goals(engine)])
    assert engine._machine.attempts.there
    assert len(sizes[-1]) >= 2 and np.max(sizes) <= 1500 < 60 * 64 / 2, sizes[::10]


def goals(engine: Engine) -> list[JoinGoal | NumberedState]:
    """Those that hold rows or numbers of keys."""
    return [goal for _, goal in engine._machine._goals() if isinstance(goal, JoinGoal | NumberedState)]


@pytest.mark.parametrize("late", [0, 50])
def test_copies_of_a_large_state_cost_no_more_than_the_rows_of_the_stream(
    late: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state keeps the last rows of 5,000 keys. The stream is 100 windows long."""
    copies: list[int] = []

    def copied(states: list[dict[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
        copies.append(sum(array.nbytes for state in states for array in state.values()))
        return window_segment.copied(states)

    text = """
    event reading(k: int, v: float) TIME t.
    two(K, S) <- reading(K, V) AGGREGATE S = sum(V) OVER LAST 2 EVENTS BY K.
    """
    keys, rows_of_push, pushes = 5_000, 100, 200
    numbers = np.arange(keys + rows_of_push * pushes)
    every = pl.DataFrame({"time": numbers * 10_000, "k": numbers % keys, "v": numbers % 7 / 2})
    monkeypatch.setattr(revision, "copied", copied)
    engine, net = Engine.from_text(text, revise=2 * SECOND), Rows()
    tables = [every[:keys]]
    for first in range(keys, every.height, rows_of_push):
        block = every[first : first + rows_of_push]
        tables += [block[late:], block[:late]] if late else [block]
    for table in tables:
        made = engine.push({"reading": table})
        net.subtract(rows(made, -1))
        net.update(rows(made, 1))
    assert len(copies) > 3
    assert sum(copies) <= 3 * every.height * 6 * 8, "a row of the input has six words"
    made = engine.close()
    net.subtract(rows(made, -1))
    net.update(rows(made, 1))
    plain = Engine.from_text(text)
    expected = rows(plain.push({"reading": every}))
    expected.update(rows(plain.close()))
    assert net == expected


def test_many_results_of_few_rows_leave_although_the_state_is_large() -> None:
    """The state keeps the last rows of 5,000 keys. Of 30 rows, 900 pairs are derived."""
    text = """
    event reading(k: int, v: float) TIME t.
    event q(k: int, l: int) TIME t.
    two(K, S) <- reading(K, V) AGGREGATE S = sum(V) OVER LAST 2 EVENTS BY K.
    p(K, L) <- q(K, _) AND q(_, L) WITHIN 1 s.
    """
    engine, numbers, sizes = Engine.from_text(text, revise=2 * SECOND), np.arange(5_000), []
    engine.push({"reading": pl.DataFrame({"time": numbers * 100, "k": numbers, "v": numbers % 7 / 2})})
    places = np.arange(30)
    for second in range(1, 60):
        times = second * SECOND + 10_000 * places
        engine.push({"q": pl.DataFrame({"time": times, "k": places, "l": places})})
        sizes.append(engine.state_bytes)
    assert max(sizes[30:]) <= 1.1 * max(sizes[10:30]), sizes
