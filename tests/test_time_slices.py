"""A large push of sorted tables is taken slice by slice of time: what comes of it is what comes of it whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from cep.core.errors import CepError
from cep.engine import Engine
from cep.runtime import machine
from cep.runtime.time_slices import time_slices

PROGRAM = """\
event a(id: int, x: int in 0..90) TIME t.
event b(id: int, name: string, y: float?).
policy recent.
ab(I, X, N) <- (a(I, X) SEQ b(I, N, _)) WITHIN 60.
missing(I, X) <- a(I, X) UNLESS b(I, _, _) WITHIN 20.
"""


def tables(rows: int, seed: int) -> dict[str, pl.DataFrame]:
    """Sorted by time, with many rows an instant, and some that are to be refused."""
    random = np.random.default_rng(seed)
    a = np.sort(random.integers(0, rows // 3, rows)) * 1_000_000
    b = np.sort(random.integers(0, rows // 3, rows // 2)) * 1_000_000
    length = random.integers(-1, 3, len(b)) * 1_000_000
    return {
        "a": pl.DataFrame({"start": a, "id": random.integers(0, 5, rows), "x": random.integers(-2, 100, rows)}),
        "b": pl.DataFrame(
            {
                "start": b - length,
                "end": b,
                "id": random.integers(0, 5, len(b)),
                "name": random.choice(["k", "l", "m"], len(b)),
                "y": random.normal(size=len(b)),
            }
        ),
    }


def come_of(pushes: list[dict[str, pl.DataFrame]], **options: Any) -> list[Any]:
    engine = Engine.from_text(PROGRAM, **options)
    found: list[Any] = []
    for push in pushes:
        made = engine.push(push)
        found += [{name: table.rows() for name, table in made.items()}, engine.watermark, engine.take_dead()]
        found += [engine.state_rows, engine._parts.position, engine._buffer.latest]
    found.append({name: table.rows() for name, table in engine.close().items()})
    return found


@pytest.mark.parametrize("lateness", [0, 3_000_000, 10**9, None])
def test_slices_give_what_a_whole_push_gives(lateness: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tables(400, 1), tables(300, 2)
    later = {name: frame.with_columns(pl.col("^start|end$") + 100_000_000) for name, frame in second.items()}
    whole = come_of([first, later], lateness=lateness)
    monkeypatch.setattr(machine, "SLICE", 32)
    engine = Engine.from_text(PROGRAM, lateness=lateness)
    assert (len(time_slices(engine._parts, first)) > 5) == (lateness in (0, 3_000_000))
    sliced = come_of([first, later], lateness=lateness)
    assert sliced == whole
    assert any(row.code == "late" for row in whole[8]) == (lateness in (0, 3_000_000)), "of the second push"
    assert any(row.code == "range" for row in whole[2])


@pytest.mark.parametrize("spoil", ["unsorted", "order", "null", "column", "unknown"])
def test_what_is_not_plainly_sorted_is_taken_whole(spoil: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = tables(400, 3)
    if spoil == "unsorted":
        batch["a"] = batch["a"].reverse()
    elif spoil == "order":
        batch = {name: frame.with_row_index("@order") for name, frame in batch.items()}
    elif spoil == "null":
        batch["b"] = batch["b"].with_columns(end=pl.when(pl.int_range(pl.len()) != 7).then("end"))
    elif spoil == "column":
        batch["b"] = batch["b"].drop("name")
    else:
        batch["c"] = batch["a"]
    monkeypatch.setattr(machine, "SLICE", 32)
    engine = Engine.from_text(PROGRAM)
    assert not time_slices(engine._parts, batch)
    if spoil in ("column", "unknown"):
        with pytest.raises(CepError):
            engine.push(batch)
        assert not engine.broken and engine._parts.position == 0, "nothing has changed"
    else:
        assert engine.push(batch)["ab"].height


def test_a_slice_too_far_in_time_is_refused_and_moves_no_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = {"a": pl.DataFrame({"start": [*range(100), *[2**61] * 100], "id": 1, "x": 2})}
    monkeypatch.setattr(machine, "SLICE", 32)
    engine = Engine.from_text(PROGRAM)
    assert len(time_slices(engine._parts, batch)) > 3
    engine.push(batch)
    assert engine.watermark == 98 and [row.row for row in engine.take_dead()] == list(range(100, 200))
