"""Many records of a fluent: of many tuples, many at one instant, in any pieces, with restores and open ends."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from cep.core.fluents import BOUNDS
from cep.core.interval_sets import coalesce
from cep.engine import Engine

SECOND = 1_000_000
PROGRAM = """\
fluent p(id: int) START start END end.
fluent h(id: int).
h(I) WHILE ONCE[0, 2 s] p(I).
"""


def records(random: np.random.Generator, count: int, keys: int) -> pl.DataFrame:
    """Sorted by start, and on whole seconds, so that many begin and end at once."""
    start = np.sort(random.integers(0, count // 200 + 2, count))
    end = start + random.integers(0, 5, count)
    bounds = np.where(start == end, 3, random.choice((0, 1, 2, 3, 3, 3), count))
    names = pl.Series("bounds", BOUNDS, dtype=pl.String).gather(bounds)
    ids = random.integers(0, keys, count)
    return pl.DataFrame({"id": ids, "start": start * SECOND, "end": end * SECOND, "bounds": names})


def codes(frame: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys, and the codes of starts and ends."""
    bounds = frame["bounds"].replace_strict(list(BOUNDS), list(range(4)), return_dtype=pl.Int64).to_numpy()
    start, end = frame["start"].to_numpy(), frame["end"].to_numpy()
    return frame["id"].to_numpy(), 2 * start + 1 - (bounds & 1), 2 * end - 1 + (bounds >> 1)


def intervals(frames: list[pl.DataFrame]) -> list[tuple[int, int, int]]:
    return sorted(zip(*(column.tolist() for column in codes(pl.concat(frames))), strict=True))


def expected(frame: pl.DataFrame, more: int = 0) -> list[tuple[int, int, int]]:
    key, start, end = codes(frame)
    return list(zip(*(column.tolist() for column in coalesce(key, start, end + 2 * more)), strict=True))


@pytest.mark.parametrize("keys", [3, 40, 3000])
@pytest.mark.parametrize("seed", range(3))
def test_in_any_pieces(seed: int, keys: int) -> None:
    random = np.random.default_rng([seed, keys])
    frame = records(random, 4000, keys)
    engine, found = Engine.from_text(PROGRAM), []
    done = 0
    while done < frame.height:
        count = int(random.choice((1, 30, 700, 3000)))
        found.append(engine.push({"p": frame[done : done + count]}))
        done += count
        if random.random() < 0.2:
            engine = Engine.from_text(PROGRAM).restore(engine.snapshot())
        if random.random() < 0.2:
            engine.forget()
    found.append(engine.close())
    assert intervals([each["p"] for each in found if "p" in each]) == expected(frame)
    assert intervals([each["h"] for each in found if "h" in each]) == expected(frame, 2 * SECOND)
    for each in found:
        for table in each.values():
            assert table["end"].is_sorted()


def test_ends_that_come_later_between_others() -> None:
    """Records without an end are kept otherwise than those with one, and both become each other."""
    engine, found = Engine.from_text(PROGRAM), []
    pieces = [
        [(1, 0, 9, "[]"), (2, 1, 4, "[)")],
        [(3, 5, None, "[]"), (1, 8, 12, "(]")],  # 3 has no end yet
        [(2, 10, 11, "[]")],
        [(3, 5, 14, "[)")],  # now it has
        [(1, 20, 22, "[]"), (3, 21, 23, "()")],
        [(2, 40, 41, "[]")],
    ]
    for piece in pieces:
        frame = pl.DataFrame(piece, schema=["id", "start", "end", "bounds"], orient="row")
        found.append(engine.push({"p": frame.with_columns(pl.col("start", "end").cast(pl.Int64) * SECOND)}))
        engine = Engine.from_text(PROGRAM).restore(engine.snapshot())
    found.append(engine.close())
    made = pl.concat([each["p"] for each in found if "p" in each])
    rows = made.with_columns(pl.col("start", "end") // SECOND).select("id", "start", "end", "bounds").rows()
    assert sorted(rows) == [
        (1, 0, 12, "[]"), (1, 20, 22, "[]"), (2, 1, 4, "[)"), (2, 10, 11, "[]"), (2, 40, 41, "[]"), (3, 5, 14, "[)"),
        (3, 21, 23, "()"),
    ]  # fmt: skip
    assert engine.take_dead() == []
