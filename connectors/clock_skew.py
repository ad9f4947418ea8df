"""Detection of wrong clocks: records ahead of this machine's clock, and jumps of the latest event time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import polars as pl

from cep.connectors.records.batch import Batch, DeadLetter
from cep.connectors.records.times import SECOND, iso
from cep.core.literals import say_duration
from cep.core.time import END_OF_TIME

MINUTE = 60_000_000
DAY = 24 * 60 * MINUTE
"""The minimum jump of the latest event time that can cause a warning, in microseconds."""

CODE = "ahead"
"""The code of the dead letters for records whose time is ahead of the clock."""


def without_ahead(batch: Batch, limit: int | None, now: int | None = None) -> Batch:
    """Turn records that are more than `limit` microseconds ahead of `now` into dead letters. If `limit` is None, return
    the batch unchanged.

    `now`: a time in microseconds, by default the time of this machine's clock. The time of a record is its end, or its
    start if it has no end. Records are checked when they arrive, but not when they are read from the journal.
    """
    if limit is None:
        return batch
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
    """Return the reason for a dead letter whose record has a time that is ahead of the clock."""
    far, clock = say_duration(-((now - time) // SECOND) * SECOND), iso(now // SECOND * SECOND)
    return f"{iso(time)} is {far} ahead of the clock ({clock}), more than {say_duration(limit)}: a clock is wrong"


REMEDY = "if so, stop, mend or remove the record, and run again from the start (on Spark with a new --checkpoint)"
"""The advice in a warning about a record that was accepted although its time may be wrong."""


def place_of(batch: Batch, end: int | None) -> str | None:
    """Return `file:line` of a record in the batch whose end is `end`. Return None if there is no such record."""
    for name, table in batch.tables.items():
        rows = (table["end"] == end).arg_true()
        if len(rows) and batch.blocks:
            file, line = batch.place_of(name, rows[0])
            return f"{'standard input' if file == '-' else file}:{line}"
    return None


def _said(time: int, place: str | None) -> str:
    return iso(time) if place is None else f"{iso(time)} ({place})"


def _say(ticks: int) -> str:
    return say_duration((ticks + MINUTE // 2) // MINUTE * MINUTE)


class TimeJumps:
    """A detector of wrong clocks. It issues two kinds of warnings, each at most once:

    - The latest event time is more than a day ahead of the clock.
    - The latest event time has jumped by more than a day between two batches, and records after the jump are late.
    """

    def __init__(self) -> None:
        self._latest: int | None = None
        self._jump: tuple[int, str] | None = None
        self._reported: set[str] = set()

    def take(self, latest: int | None, late: int, place: Callable[[], str | None]) -> Iterator[str]:
        """Yield the warnings that a batch causes.

        - `latest`: the latest event time so far.
        - `late`: the number of late records in the batch.
        - `place`: a function that returns the file and line of the record that has the latest time. It returns None if
          this record is not in the batch.
        """
        if latest is None or abs(latest) >= END_OF_TIME:
            return
        now = time.time_ns() // 1000
        if late and self._jump is not None:
            by, to = self._jump
            text = f"the times of the input have jumped by {_say(by)}, to {to}, and records that came after the jump"
            yield from self._once("late", f"{text} are late: a clock may be wrong; {REMEDY}")
        if latest > now + DAY:
            where = place() if "ahead" not in self._reported and self._rises(latest) else None
            far = _say(latest - now)
            yield from self._once(
                "ahead",
                f"{_said(latest, where)} is {far} ahead of the clock, and is the latest time from now on: if the clock "
                f"that wrote it is wrong, records that come after it may be late; {REMEDY}",
            )
        if self._latest is not None and latest - self._latest > DAY:
            self._jump = latest - self._latest, _said(latest, place())
        self._latest = latest if self._latest is None else max(self._latest, latest)

    def _rises(self, latest: int) -> bool:
        return self._latest is None or latest > self._latest

    def _once(self, kind: str, text: str) -> Iterator[str]:
        if kind not in self._reported:
            self._reported.add(kind)
            yield text
