"""Small tables of a push are admitted together, with the same result as each by itself."""

from __future__ import annotations

from random import Random

import numpy as np
import polars as pl
import pytest

from cep.core.errors import CepError
from cep.engine import Engine
from cep.runtime import admission

TYPES = 12
PROGRAM = "".join(
    f"event e{number}(room: int, temp: float{' in 0..80' if number % 3 == 0 else ''}, name: string?) TIME time.\n"
    f"hot{number}(R, T, N) <- e{number}(R, T, N) WHERE T > {10 * number}.\n"
    f"rise{number}(R, A, B) <- (e{number}(R, A, _) SEQ e{number}(R, B, _) WHERE A < B) WITHIN 40 ms.\n"
    for number in range(TYPES)
)


def _frame(random: Random, odd: bool) -> pl.DataFrame:
    """A table of few rows, some of them without a value, of a wrong type or out of range."""
    height = random.choice((0, 1, 1, 2, 3, 7))
    rooms = [random.choice((1, 2, 3, None) if odd else (1, 2, 3)) for _ in range(height)]
    temps = [random.choice((5.0, 50.0, 99.0, float("inf") if odd else 7.0)) for _ in range(height)]
    columns = {
        "room": pl.Series(rooms, dtype=pl.Int64),
        "temp": pl.Series(temps, dtype=pl.Float64),
        "name": pl.Series([random.choice(("a", "b", None)) for _ in range(height)], dtype=pl.String),
        "time": pl.Series([1000 * random.randrange(100) for _ in range(height)], dtype=pl.Int64),
    }
    kind = random.random() if odd else 1
    if kind < 0.1:
        columns["room"] = columns["room"].cast(pl.String)
    elif kind < 0.2:
        columns["room"] = columns["room"].cast(pl.Float64) + 0.5
    elif kind < 0.3:
        del columns["name"]
    elif kind < 0.4:
        columns = dict(reversed(columns.items()))
    return pl.DataFrame(columns)


def _pushes(seed: int) -> list[dict[str, pl.DataFrame]]:
    random = Random(seed)
    made = []
    for push in range(4):
        names = random.sample([f"e{number}" for number in range(TYPES)], TYPES - 3)
        tables = {name: _frame(random, random.random() < 0.5 * (seed % 3)) for name in names}
        tables = {name: table.with_columns(pl.col("time") + 90_000 * push) for name, table in tables.items()}
        if seed % 2:
            order = list(range(1000 * push, 1000 * push + sum(table.height for table in tables.values())))
            random.shuffle(order)
            for name, table in tables.items():
                own, order = order[: table.height], order[table.height :]
                tables[name] = table.with_columns(pl.Series("@order", own, dtype=pl.Int64))
        made.append(tables)
    return made


def _run(pushes: list[dict[str, pl.DataFrame]], **options: object) -> list[object]:
    engine = Engine.from_text(PROGRAM, **options)  # type: ignore[arg-type]
    given: list[object] = []
    for tables in [*pushes, None]:
        out = engine.close() if tables is None else engine.push(tables)
        given.append({name: table.to_dict(as_series=False) for name, table in out.items()})
        given.append(engine.take_dead())
    return given


@pytest.mark.parametrize("options", [{}, {"lateness": 50_000}, {"explain": True}, {"revise": 60_000}], ids=str)
@pytest.mark.parametrize("seed", range(12))
def test_the_same_as_each_table_by_itself(
    monkeypatch: pytest.MonkeyPatch, seed: int, options: dict[str, object]
) -> None:
    pushes = _pushes(seed)
    together = _run(pushes, **options)
    monkeypatch.setattr(admission, "SMALL", -1)
    assert together == _run(pushes, **options)


def test_they_are_admitted_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine.from_text(PROGRAM)
    columns = pl.DataFrame({"room": [1], "temp": [99.0], "name": ["a"], "time": [1]})
    calls = []
    admitted = type(engine._parts).admitted
    monkeypatch.setattr(type(engine._parts), "admitted", lambda *given: calls.append(given) or admitted(*given))
    engine.push({f"e{number}": columns for number in range(TYPES)})
    assert len(calls) == 2, "those with a range of values are another kind"


@pytest.mark.parametrize(
    ("name", "table", "message"),
    [
        ("e1", {"temp": [1.0], "name": ["a"], "time": [1]}, "no column `room`"),
        ("e1", {"room": [1], "temp": [1.0], "name": ["a"], "time": [1], "@change": [-1]}, "`e1` withdraws another"),
        ("e1", {"room": [1], "temp": [1.0], "name": ["a"], "time": [1], "@order": [3]}, "all tables of a push"),
        ("x", {"room": [1], "temp": [1.0], "name": ["a"], "time": [1]}, "does not read an event `x`"),
    ],
)
def test_a_table_that_cannot_be_taken_is_named(name: str, table: dict[str, list[object]], message: str) -> None:
    engine = Engine.from_text(PROGRAM)
    plain = pl.DataFrame({"room": [1], "temp": [99.0], "name": ["a"], "time": [1]})
    with pytest.raises(CepError, match=message):
        engine.push({"e2": plain, name: pl.DataFrame(table), "e4": plain})
    assert engine.push({"e2": plain}) == {} and not engine.take_dead()


def test_positions_follow_the_order_of_the_tables() -> None:
    engine = Engine.from_text(PROGRAM, explain=True)
    plain = pl.DataFrame({"room": [1, 1], "temp": [99.0, 99.0], "name": ["a", "b"], "time": [1, 1]})
    large = pl.concat([plain] * 600).with_columns(pl.Series("time", np.arange(1200)))
    engine.receive({"e1": plain, "e5": plain, "e2": large, "e4": plain})
    waiting = {name: tables[0][2].tolist() for name, tables in engine._buffer.waiting.items()}
    assert waiting["e1"] == [0, 1] and waiting["e5"] == [2, 3] and waiting["e4"] == [1204, 1205]
    assert waiting["e2"] == list(range(4, 1204))
