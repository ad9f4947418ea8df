"""From records to derived events: batches are pushed through an engine until the input or the patience ends."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import polars as pl

from cep.engine import Engine
from cep.progress import Tally
from connectors.batch import Batch, DeadRecord

Take = Callable[[dict[str, pl.DataFrame]], None]
Bury = Callable[[Sequence[DeadRecord]], None]


class Interrupt:
    """Ctrl-C (and SIGTERM) as a wish: granted at once while input is awaited, else when the batch at hand is done.

    `wished` is the signal's number, 0 while there is none. The second wish is granted at once, as Python does.
    """

    def __init__(self) -> None:
        self.wished = 0
        self._awaiting = False

    def _wish(self, number: int, frame: FrameType | None) -> None:
        again, self.wished = self.wished, number
        if self._awaiting or again:
            raise KeyboardInterrupt

    @contextmanager
    def listening(self) -> Iterator[None]:
        """The block's signals are wishes."""
        before: dict[int, Any] = {
            number: signal.signal(number, self._wish) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def next(self, batches: Iterator[Batch]) -> Batch | None:
        """The next batch; None at the end of the input, or when the wish comes first."""
        try:
            self._awaiting = True
            return None if self.wished else next(batches, None)
        except KeyboardInterrupt:
            return None
        finally:
            self._awaiting = False


def flow(engine: Engine, batches: Iterator[Batch], tally: Tally, take: Take, bury: Bury, interrupt: Interrupt) -> None:
    """Push every batch; derived events go to `take`, what is no event to `bury`, counts to `tally`.

    The end of the input closes what is open. An interrupt does not: what it would have come to is not known.
    """
    while (batch := interrupt.next(batches)) is not None:
        derived = engine.push(batch.tables)
        dead = [*batch.dead, *(_refused(batch, one.type, one.row, one.code, one.reason) for one in engine.take_dead())]
        tally.records += batch.rows + len(batch.dead)
        tally.done = batch.bytes_read / batch.total_bytes if batch.total_bytes else None
        _count(engine, tally, derived, dead)
        bury(dead)
        take(derived)
    if not interrupt.wished:
        derived = engine.close()
        _count(engine, tally, derived, [])
        take(derived)


def _refused(batch: Batch, type: str, row: int, code: str, reason: str) -> DeadRecord:
    file, line, text = batch.origin(type, row)
    return DeadRecord(file, line, reason, code, text)


def _count(engine: Engine, tally: Tally, derived: dict[str, pl.DataFrame], dead: Sequence[DeadRecord]) -> None:
    tally.derived.update({type: table.height for type, table in derived.items() if table.height})
    tally.dead.update(record.code for record in dead)
    tally.watermark = engine.watermark
    tally.state_rows = engine.state_rows
    tally.state_bytes = engine.state_bytes
