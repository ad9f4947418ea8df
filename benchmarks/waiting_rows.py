"""`python -m benchmarks.waiting_rows`: a SEQ with an inequality, by the number of waiting rows per key.

About one waiting row matches each event. The table has CPU nanoseconds per event with the index (`Y > X + c`), and with
the same condition tested row by row (`Y - X > c`), up to a thousand rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from time import process_time

import numpy as np
import polars as pl

EVENTS, KEYS, ROWS = 200_000, (1, 100), (1, 10, 100, 1_000, 10_000, 100_000)
MOST, MOST_TRIED = 1_000_000, 1_000
"""The greatest number of rows that wait in total, and the greatest number per key for which all pairs are tested."""


def stream(events: int, keys: int) -> dict[str, pl.DataFrame]:
    """Return one event per millisecond, of a random one of two types and a random key."""
    random = np.random.default_rng(1)
    times, types = np.arange(events) * 1000, random.integers(0, 2, events)
    rows = pl.DataFrame(
        {"start": times, "end": times, "id": random.integers(0, keys, events), "value": random.random(events)}
    )
    return {name: rows.filter(pl.lit(types == number)) for number, name in enumerate("ab")}


def measured(rows: int, keys: int, events: int, condition: str) -> tuple[float, int]:
    """Return nanoseconds per event, and the number of pairs. The first half of the stream fills the windows."""
    from cep.engine import Engine

    bound = max(0.0, 1 - (2 / rows) ** 0.5)
    where = condition.format(bound)
    declared = "event a(id: int, value: float) TIME t.\nevent b(id: int, value: float) TIME t.\n"
    rule = f"ab(I, X, Y) <- (a(I, X) SEQ b(I, Y) WHERE {where}) WITHIN {2 * rows * keys} ms.\n"
    engine, table = Engine.from_text(declared + rule), stream(events, keys)
    half = {name: each.filter(pl.col("start") < events // 2 * 1000) for name, each in table.items()}
    rest = {name: each.filter(pl.col("start") >= events // 2 * 1000) for name, each in table.items()}
    engine.push(half)
    began = process_time()
    found = engine.push(rest)
    return (process_time() - began) / (events - events // 2) * 1e9, sum(each.height for each in found.values())


def lines(many: Sequence[int]) -> Iterator[str]:
    """Yield the table, with a line for each number of waiting rows per key."""
    measured(10, 1, 1_000, "Y > X + {}"), measured(10, 1, 1_000, "Y - X > {}")  # compiles
    yield "| waiting rows of one key | one key | 100 keys | one key, row by row |"
    yield "| --: | --: | --: | --: |"
    for rows in many:
        costs = [
            measured(rows, keys, max(EVENTS, 4 * rows * keys), "Y > X + {}")[0] if rows * keys <= MOST else None
            for keys in KEYS
        ]
        costs.append(measured(rows, 1, max(EVENTS, 4 * rows), "Y - X > {}")[0] if rows <= MOST_TRIED else None)
        yield f"| {rows:,} | {' | '.join('' if cost is None else f'{cost:,.0f}' for cost in costs)} |"


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.waiting_rows", description=__doc__)
    options.add_argument("--rows", type=int, nargs="+", default=ROWS, help="rows of a key that wait")
    for line in lines(options.parse_args().rows):
        print(line, flush=True)


if __name__ == "__main__":
    main()
