"""From records to derived events: batches are pushed through an engine until the input or the patience ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Protocol, TypeVar

import polars as pl

from cep.app.knowledge_feed import KnowledgeFeed
from cep.app.watch import Watch
from cep.core.signals import stops
from cep.core.time import BEGINNING, END_OF_TIME
from cep.engine import Engine
from cep.runtime.encode import RefusedRow
from cep.runtime.report import Report
from cep.runtime.run_stats import RunStats
from connectors.batch import Batch, DeadLetter

Piece = TypeVar("Piece")
Take = Callable[[Batch | None, dict[str, pl.DataFrame]], None]
"""Gets the batch just pushed, None at the end of the input, and the new derived events."""


class DeadLetterSink(Protocol):
    """Where records go that are no events: what could not be read, and what the engine refused of a batch."""

    def add(self, records: Iterable[DeadLetter]) -> None: ...

    def reject(self, batch: Batch, type: str, row: int, code: str, reason: str) -> None: ...


class Interrupt:
    """Ctrl-C (and SIGTERM) as a wish: granted while input is awaited, between two pieces of it
    (`cep.core.signals`), else when the batch at hand is done.

    `wished` is the signal's number, 0 while there is none.
    """

    def __init__(self) -> None:
        self.wished = 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """The signals that come while the block runs are wishes."""
        with stops.listening(self._wish):
            yield

    def next(self, batches: Iterator[Piece]) -> Piece | None:
        """The next batch, of events or of changes; None at the end of the input, or when the wish comes first."""
        try:
            stops.awaiting = True
            return None if self.wished else next(batches, None)
        except KeyboardInterrupt:
            if not self.wished:  # nobody is listening
                raise
            return None
        finally:
            stops.awaiting = False

    def _wish(self, number: int) -> None:
        self.wished = number


def flow(
    engine: Engine,
    batches: Iterator[Batch],
    tally: RunStats,
    take: Take,
    letters: DeadLetterSink,
    interrupt: Interrupt,
    watch: Watch | None = None,
    feed: KnowledgeFeed | None = None,
) -> None:
    """Push every batch; derived events go to `take`, what is no event to `letters`, counts to `tally`, and
    where there is a `watch` a report of each batch there. Changes of the knowledge come from the `feed`.

    Where the batches say how far time has come, nothing is late. In a silence time goes on as the clock does, from
    where it had come: what ends before and comes later is late. The end of the input closes what is open. An interrupt
    does not: what was still to come is not known.
    """
    seen: set[str] = set()
    silent: int | None = None  # how far time had come when the silence began
    feed = feed or KnowledgeFeed(())
    while (batch := interrupt.next(batches)) is not None:
        began = perf_counter()
        if batch.watermark is not None:
            engine.advance_only()  # the batches alone move the time
        engine.receive(batch.tables)
        letters.add(batch.dead)
        tally.dead.update(record.code for record in batch.dead)
        refused = engine.take_dead()
        for dead in refused:
            letters.reject(batch, dead.type, dead.row, dead.code, dead.reason)
            tally.dead[dead.code] += 1
        tally.records += batch.rows + len(batch.dead)
        seen |= batch.tables.keys()
        tally.held.update(block.file for block in batch.blocks if block.count)
        tally.done = batch.bytes_read / batch.total_bytes if batch.total_bytes else None
        if not batch.silence:
            silent, until = None, engine.reached if batch.watermark is None else batch.watermark
        else:
            silent = engine.reached if silent is None else silent
            until = silent if silent == BEGINNING else silent + batch.silence
        made: Counter[str] = Counter()
        for derived in feed.bring(engine, until, interrupt):
            tally.watermark = engine.watermark
            made += _count(engine, tally, derived)
            take(batch, derived)
        _bury(feed, letters, tally)
        tally.batches += 1
        if batch.silence:
            engine.forget()
            tally.state_rows, tally.state_bytes = engine.state_rows, engine.state_bytes
        if watch is not None:
            watch.batch([_read(batch, engine), _stepped(engine, made, refused)], perf_counter() - began)
    tally.unseen = [name for name in engine.inputs if name not in seen and name not in engine.outputs]
    if not interrupt.wished:
        began = perf_counter()
        made = Counter()
        for derived in feed.bring(engine, END_OF_TIME, interrupt):
            made += _count(engine, tally, derived)
            take(None, derived)
        _bury(feed, letters, tally)
        if watch is not None:
            watch.batch([_stepped(engine, made, ())], perf_counter() - began)


def _bury(feed: KnowledgeFeed, letters: DeadLetterSink, tally: RunStats) -> None:
    dead = feed.take_dead()
    letters.add(dead)
    tally.dead.update(record.code for record in dead)


def _read(batch: Batch, engine: Engine) -> Report:
    """What was read."""
    read = {event: table.height for event, table in batch.tables.items()}
    dead = Counter(record.code for record in batch.dead)
    return Report(read=read, dead=dead, latest=engine.latest if any(read.values()) else None)


def _stepped(engine: Engine, made: Mapping[str, int], refused: Iterable[RefusedRow]) -> Report:
    """What the engine made of it."""
    return Report.of(
        engine,
        made,
        late=Counter(one.type for one in refused if one.code == "late"),
        dead=Counter(one.code for one in refused),
    )


def _count(engine: Engine, tally: RunStats, derived: dict[str, pl.DataFrame]) -> Counter[str]:
    made = Counter({type: table.height for type, table in derived.items() if table.height})
    tally.derived.update(made)
    tally.state_rows, tally.state_bytes = engine.state_rows, engine.state_bytes
    return made
