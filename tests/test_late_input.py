"""What of a batch came late or withdrew a record, in words."""

from __future__ import annotations

import polars as pl

from cep.connectors.records.late_input import UNKNOWN, late_input
from cep.engine import Engine
from tests.serving import EIGHT

MINUTE = 60_000_000
SCHEMAS = Engine.from_text(
    "event reading(fridge: string, temp: float?, at: time, long: duration, ok: bool) TIME time.\n"
    "x(F) <- reading(F, _, _, _, _)."
).inputs


def told(*rows: tuple[int, float | None, int], latest: int = 0, stable: int = -600) -> str:
    """Of readings: minute after eight, degrees, change."""
    table = pl.DataFrame(
        {
            "start": [EIGHT + minute * MINUTE for minute, _, _ in rows],
            "end": [EIGHT + minute * MINUTE for minute, _, _ in rows],
            "@order": range(len(rows)),
            "fridge": ["milk"] * len(rows),
            "temp": pl.Series([temp for _, temp, _ in rows], dtype=pl.Float64),
            "at": [EIGHT] * len(rows),
            "long": [90 * MINUTE] * len(rows),
            "ok": [True] * len(rows),
            "@change": pl.Series([change for *_, change in rows], dtype=pl.Int8),
        }
    )
    return late_input({"reading": table}, SCHEMAS, EIGHT + latest * MINUTE, EIGHT + stable * MINUTE).told


def test_what_comes_late_is_named_with_how_late_it_was() -> None:
    record = "reading(milk, 4.5, 2024-05-01T08:00:00Z, 1 h 30 min, true) at 2024-05-01T08:00:00Z"
    assert told((0, 4.5, 1), latest=180) == f"{record} came 3 h late, at 2024-05-01T11:00:00Z"
    assert told((5, 4.5, 1), (0, 4.5, 1)) == f"{record} came 5 min late, at 2024-05-01T08:05:00Z"


def test_what_is_withdrawn_is_named_by_what_was_said_of_it() -> None:
    record = "reading(milk, 2024-05-01T08:00:00Z, 1 h 30 min, true) at 2024-05-01T08:05:00Z"
    assert told((5, None, -1)) == f"{record} was withdrawn"


def test_of_several_the_first_is_named_and_what_is_final_is_none_of_them() -> None:
    several = told((5, 4.5, 1), (-1, 4.5, 1), (-2, 4.5, 1), (5, 4.5, -1), (-700, 1.0, 1))
    assert several.startswith("one of 3 records that came late or were withdrawn, the first of them: reading(milk, 4.5")
    assert told((5, 4.5, 1), (-700, 1.0, 1)) == UNKNOWN
