"""`python -m benchmarks.sizing`: bytes of state per key, in memory and in a snapshot."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from cep.engine import Engine

EVENTS = "event a(id: int, x: int) TIME time. event b(id: int, x: int) TIME time.\n"
PROGRAMS = {
    "SEQ": "ab(I, X, Y) <- (a(I, X) SEQ b(I, Y)) WITHIN 1 h.",
    "SEQ, policy recent": "policy recent. ab(I, X, Y) <- a(I, X) SEQ b(I, Y).",
    "UNLESS": "quiet(I, X) <- a(I, X) UNLESS b(I, _) WITHIN 1 h.",
    "sum of the last hour": "s(I, S) <- a(I, X) AGGREGATE S = sum(X) OVER LAST 1 h BY I.",
    "sum of the last 10": "s(I, S) <- a(I, X) AGGREGATE S = sum(X) OVER LAST 10 EVENTS BY I.",
}
KEYS = 100_000


def measured(rule: str, waiting: int, text: bool) -> tuple[int, int, int]:
    """Return three sizes of the state while `waiting` events wait for each of `KEYS` keys: its rows, its bytes in
    memory, and its bytes in a snapshot."""
    events = EVENTS.replace("id: int", "id: string") if text else EVENTS
    engine = Engine.from_text(events + rule, lateness=None)
    keys = np.tile(np.arange(KEYS), waiting)
    ids = pl.Series([f"station-{key:06}" for key in keys]) if text else pl.Series(keys)
    times = np.arange(len(keys), dtype=np.int64) * 1000
    engine.push({"a": pl.DataFrame({"time": times, "id": ids, "x": keys % 100})})
    engine.advance(int(times[-1]))
    return engine.state_rows, engine.state_bytes, len(engine.snapshot())


def lines() -> Iterator[str]:
    yield "| state of | key | events | kept events | bytes in memory | bytes on disk |"
    yield "|---|---|--:|--:|--:|--:|"
    for name, rule in PROGRAMS.items():
        for waiting, text in ((1, False), (10, False), (1, True)):
            rows, size, stored = measured(rule, waiting, text)
            kind = "14 letters" if text else "int"
            yield f"| {name} | {kind} | {waiting} | {rows / KEYS:,.0f} | {size / KEYS:,.0f} | {stored / KEYS:,.0f} |"


if __name__ == "__main__":
    for line in lines():
        print(line, flush=True)
