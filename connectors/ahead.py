"""A clock that is wrong: records whose time is ahead of this machine's clock, and times that jump."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from cep.core.literals import say_duration
from cep.core.time import END_OF_TIME
from connectors.batch import Batch, DeadLetter
from connectors.times import SECOND, iso

AHEAD = 5 * 60_000_000
"""Microseconds that a record of live input may be ahead of the clock."""

DAY = 24 * 60 * 60_000_000
"""Microseconds of a jump of time that is worth a warning."""

CODE = "ahead"
"""The code of the dead letters of such records."""


def without_ahead(batch: Batch, now: int | None = None, limit: int = AHEAD) -> Batch:
    """Move records that end, or where they have no end begin, more than `limit` after `now` (by default the clock's
    time) to the dead letters. Done once, when a record comes: what is in the journal is not judged again."""
    now = time.time_ns() // 1000 if now is None else now
    end = pl.col("end").fill_null(END_OF_TIME)
    latest = pl.when(end >= END_OF_TIME).then(pl.col("start")).otherwise(end)
    tables, dead = dict(batch.tables), list[DeadLetter]()
    for name, table in batch.tables.items():
        times = table.select(latest.alias("time")).to_series()
        wrong = times > now + limit
        if not wrong.any():
            continue
        for row in wrong.arg_true().to_list():
            file, line, text = batch.origin(name, row)
            dead.append(DeadLetter(file, line, reason(times[row], now, limit), CODE, text))
        tables[name] = table.filter(~wrong)
    if not dead:
        return batch
    kept = {name: table for name, table in tables.items() if table.height}
    return replace(batch, tables=kept, dead=[*batch.dead, *dead])


def reason(time: int, now: int, limit: int) -> str:
    """Why a record is refused."""
    far, clock = say_duration(-((now - time) // SECOND) * SECOND), iso(now // SECOND * SECOND)
    return f"{iso(time)} is {far} ahead of the clock ({clock}), more than {say_duration(limit)}: a clock is wrong"


class TimeJumps:
    """Warns, once each, that the latest time is more than a day ahead of the clock, and that records are late after
    the latest time has jumped by more than a day from one batch to the next."""

    def __init__(self) -> None:
        self._latest: int | None = None
        self._jump: tuple[int, int] | None = None
        self._reported: set[str] = set()

    def take(self, latest: int | None, late: int) -> Iterator[str]:
        """New warnings, after a batch: the latest end until now, and how many of its records were late."""
        if latest is None or abs(latest) >= END_OF_TIME:
            return
        now = time.time_ns() // 1000
        if late and self._jump is not None:
            by, to = self._jump
            text = f"time has jumped by {say_duration(by // DAY * DAY)}, to {iso(to)}, and records that came after that"
            yield from self._once("late", f"{text} are late: a clock may be wrong; the records of that time say whose")
        if latest > now + DAY:
            far = say_duration((latest - now) // DAY * DAY)
            yield from self._once(
                "ahead",
                f"the latest time is {iso(latest)}, {far} ahead of the clock: if the clock that wrote it is wrong, "
                "records that come after it may be late",
            )
        if self._latest is not None and latest - self._latest > DAY:
            self._jump = latest - self._latest, latest
        self._latest = latest if self._latest is None else max(self._latest, latest)

    def _once(self, kind: str, text: str) -> Iterator[str]:
        if kind not in self._reported:
            self._reported.add(kind)
            yield text
