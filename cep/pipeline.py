"""From records to derived events: batches are pushed through an engine until the input or the patience ends."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

import polars as pl

from cep.engine import Engine
from cep.progress import Tally
from connectors.batch import Batch, DeadRecord

Take = Callable[[Batch | None, dict[str, pl.DataFrame]], None]
"""Gets the batch just pushed, None at the end of the input, and the new derived events."""


class Letters(Protocol):
    """Where records go that are no events: what could not be read, and what the engine refused of a batch."""

    def add(self, records: Iterable[DeadRecord]) -> None: ...

    def reject(self, batch: Batch, type: str, row: int, code: str, reason: str) -> None: ...


class Interrupt:
    """Ctrl-C (and SIGTERM) as a wish: granted at once while input is awaited, else when the batch at hand is done.

    `wished` is the signal's number, 0 while there is none. A second wish is granted at once.
    """

    def __init__(self) -> None:
        self.wished = 0
        self._awaiting = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """The signals that come while the block runs are wishes."""
        before = [(number, signal.signal(number, self._wish)) for number in (signal.SIGINT, signal.SIGTERM)]
        try:
            yield
        finally:
            for number, handler in before:
                signal.signal(number, handler)

    def next(self, batches: Iterator[Batch]) -> Batch | None:
        """The next batch; None at the end of the input, or when the wish comes first."""
        try:
            self._awaiting = True
            return None if self.wished else next(batches, None)
        except KeyboardInterrupt:
            if not self.wished:  # nobody is listening
                raise
            return None
        finally:
            self._awaiting = False

    def _wish(self, number: int, frame: FrameType | None) -> None:
        again, self.wished = self.wished, number
        if self._awaiting or again:
            raise KeyboardInterrupt


def flow(
    engine: Engine, batches: Iterator[Batch], tally: Tally, take: Take, letters: Letters, interrupt: Interrupt
) -> None:
    """Push every batch; derived events go to `take`, what is no event to `letters`, counts to `tally`.

    Where the batches say how far time has come, nothing is late. A silent batch ends the latest instant: what ends
    then or before and comes later is late. The end of the input closes what is open. An interrupt does not: what was
    still to come is not known.
    """
    seen: set[str] = set()
    while (batch := interrupt.next(batches)) is not None:
        if batch.watermark is not None:
            engine.clock.lateness = None  # the batches alone move the time
        derived = engine.push(batch.tables)
        if batch.watermark is not None:
            assert not any(table.height for table in derived.values()), "nothing is decided before the watermark comes"
            derived = engine.advance(batch.watermark)
        elif batch.silent:
            derived = engine.advance(engine.latest)
        letters.add(batch.dead)
        tally.dead.update(record.code for record in batch.dead)
        for dead in engine.take_dead():
            letters.reject(batch, dead.type, dead.row, dead.code, dead.reason)
            tally.dead[dead.code] += 1
        tally.records += batch.rows + len(batch.dead)
        seen |= batch.tables.keys()
        tally.done = batch.bytes_read / batch.total_bytes if batch.total_bytes else None
        tally.watermark = engine.watermark
        _count(engine, tally, derived)
        take(batch, derived)
    tally.unseen = [name for name in engine.inputs if name not in seen and name not in engine.outputs]
    if not interrupt.wished:
        derived = engine.close()
        _count(engine, tally, derived)
        take(None, derived)


def _count(engine: Engine, tally: Tally, derived: dict[str, pl.DataFrame]) -> None:
    tally.derived.update({type: table.height for type, table in derived.items() if table.height})
    tally.state_rows, tally.state_bytes = engine.state_rows, engine.state_bytes
