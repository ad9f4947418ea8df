"""SEQ under `recent`: the kernel that takes left sides in blocks finds what brute force finds, however many keys there
are, in one push or in many."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from cep.engine import Engine

SECOND = 1_000_000
TEXT = """\
event a(id: int, x: int){time}.
event b(id: int, y: int){time}.
policy recent.
ab(I, X, Y) <- (a(I, X) SEQ b(I, Y)) WITHIN {within} s.
"""


def drawn(random: np.random.Generator, rows: int, keys: int, length: int) -> pl.DataFrame:
    """Random occurrences, many of one time; `x` is a number that no other has."""
    start = np.sort(random.integers(0, 100, rows)) * SECOND
    end = start + random.integers(0, length, rows) * SECOND
    return pl.DataFrame({"start": start, "end": end, "id": random.integers(0, keys, rows), "x": np.arange(rows)})


def brute_force(left: pl.DataFrame, right: pl.DataFrame, within: int) -> list[tuple[int, ...]]:
    found = []
    for begin, now, key, y in right.iter_rows():
        fits = left.filter((pl.col("id") == key) & (pl.col("end") < begin) & (pl.col("start") >= now - within))
        if fits.height:
            first = fits.filter(pl.col("end") == pl.col("end").max()).sort("start", maintain_order=True).row(0)
            found.append((first[0], now, key, first[3], y))
    return found


@pytest.mark.parametrize("length", [1, 6], ids=["points", "intervals"])
@pytest.mark.parametrize("keys", [1, 3, 50])
@pytest.mark.parametrize("pushes", [1, 7])
def test_blocks_of_left_sides_are_as_one_after_the_other(keys: int, length: int, pushes: int) -> None:
    random = np.random.default_rng(keys + length)
    left, right = drawn(random, 300, keys, length), drawn(random, 200, keys, length)
    left = left.unique(["start", "end", "id"], keep="first", maintain_order=True)  # so that ties are the longest's
    text = TEXT.format(time=" TIME t" if length == 1 else "", within=20)
    engine = Engine.from_text(text, lateness=10 * SECOND)
    found: list[tuple[int, ...]] = []
    cuts = [100 * SECOND * n // pushes for n in range(1, pushes)]
    for low, high in zip([-1, *cuts], [*cuts, 200 * SECOND], strict=True):
        part = (pl.col("end") > low) & (pl.col("end") <= high)
        made = engine.push({"a": left.filter(part), "b": right.filter(part).rename({"x": "y"})})
        found += made["ab"].rows() if "ab" in made else []
    last = engine.close()
    found += last["ab"].rows() if "ab" in last else []
    assert sorted(found) == sorted(brute_force(left, right, 20 * SECOND))
    assert [row[1] for row in found] == sorted(row[1] for row in found)


def test_many_pairs_of_one_instant_come_in_order() -> None:
    """More than the kernel puts in order itself: the later the key, the earlier its left side began."""
    keys = np.arange(100)
    left = pl.DataFrame({"start": (100 - keys) * SECOND, "end": (100 - keys) * SECOND, "id": keys, "x": keys})
    right = pl.DataFrame({"start": 200 * SECOND, "end": 200 * SECOND, "id": keys, "y": keys})
    engine = Engine.from_text(TEXT.format(time=" TIME t", within=300))
    tables = [*engine.push({"a": left, "b": right}).values(), *engine.close().values()]
    made = pl.concat(tables)
    assert made["start"].to_list() == [second * SECOND for second in range(1, 101)]
    assert made["x"].to_list() == made["y"].to_list() == list(range(99, -1, -1))
