"""Snapshots of windows from before their values were in trees of wide nodes are read: `tests/snapshots` holds two that
commit ec13009 made.

`stream(0, 60)` was pushed before them, `stream(60, 140)` and the end of the input are what they go on with.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cep.engine import Engine
from cep.events import Event

FOLDER = Path(__file__).parent / "snapshots"
SECOND = 1_000_000
WINDOWS = ("LAST 7 EVENTS", "LAST 70 EVENTS", "LAST 20 s", "LAST 20 s EVERY 3 s", "EACH 7 s", "SESSION 2 s")
PROGRAM = "event a(k: string, x: float?, s: string?, n: int).\n" + "\n".join(
    f"e{i}(K, A, B, C, D, E, F, G, H) <- a(K, X, S, N) AGGREGATE A = median(X), B = percentile(X, 95), C = mode(S), "
    f"D = mode(X), E = count(distinct S), F = slope(X), G = mode(N), H = sum(X) OVER {window} BY K."
    for i, window in enumerate(WINDOWS)
)


def stream(first: int, last: int) -> list[Event]:
    """Three keys in turn, some values missing, some instants with several events."""
    made = []
    for i in range(first, last):
        x, time = (None if i % 13 == 5 else (i * i % 17) / 4), (i - i % 2 + i // 20 * 3) * SECOND
        made.append(Event("a", (f"k{i % 3}", x, None if i % 11 == 3 else "uvwx"[i * i % 7 % 4], i % 5), time, time))
    return made


def given(*outputs: dict[str, pl.DataFrame]) -> list[tuple[Any, ...]]:
    return [(name, *row) for output in outputs for name, table in output.items() for row in table.iter_rows()]


@pytest.mark.parametrize("name, options", [("windows", {}), ("windows-lineage", {"explain": True})])
def test_a_snapshot_of_windows_of_the_version_before(name: str, options: dict[str, Any]) -> None:
    whole = Engine.from_text(PROGRAM, **options)
    whole.push(stream(0, 60))
    expected = given(whole.push(stream(60, 140)), whole.close())
    engine = Engine.from_text(PROGRAM, **options).restore((FOLDER / f"{name}.snapshot").read_bytes())
    found = given(engine.push(stream(60, 140)), engine.close())
    assert len(expected) > 300 and found == expected
