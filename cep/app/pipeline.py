"""The run loop. It pushes batches of records through an engine until the input ends or a signal stops it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Protocol, TypeVar

import polars as pl

from cep.app.knowledge_updates import KnowledgeUpdates
from cep.app.watch import Watch
from cep.connectors.clock_skew import TimeJumps, place_of
from cep.connectors.epochs import SmallUnits
from cep.connectors.records.batch import Batch, DeadLetter
from cep.connectors.records.double_hours import Doubtful
from cep.connectors.records.revised import says_changes
from cep.connectors.records.unused_attributes import NeverThere
from cep.core.schema import CHANGE
from cep.core.signals import stops
from cep.core.time import BEGINNING, END_OF_TIME
from cep.engine import Engine
from cep.runtime.encode import RefusedRow
from cep.runtime.report import Report
from cep.runtime.run_stats import RunStats

Piece = TypeVar("Piece")
Take = Callable[[Batch | None, dict[str, pl.DataFrame]], None]
"""A function that receives each batch and the events derived from it. At the end of the input, the batch is None."""


class DeadLetterSink(Protocol):
    """A sink for dead letters: unreadable records, and rows of a batch that the engine rejected."""

    def add(self, records: Iterable[DeadLetter]) -> None: ...

    def reject(self, batch: Batch, refused: Sequence[RefusedRow]) -> None: ...


class Interrupt:
    """Ctrl-C and SIGTERM, treated as requests to stop.

    While the run waits for input, a request takes effect at once (see `cep.core.signals`). Otherwise it takes effect
    after the current batch or, after some seconds, in the middle of the batch. `signal`: the number of the signal, or 0
    if no signal has arrived.
    """

    def __init__(self) -> None:
        self.signal = 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Treat signals as requests to stop, inside a `with` block."""
        with stops.listening(self._request):
            yield

    def next(self, batches: Iterator[Piece]) -> Piece | None:
        """Wait for the next batch of events, or for the next changes of the knowledge, and return it.

        Returns None at the end of the input, or if a signal arrives first.
        """
        try:
            stops.awaiting = True
            return None if self.signal else next(batches, None)
        except KeyboardInterrupt:
            if not self.signal:  # outside of `listening`
                raise
            return None
        finally:
            stops.awaiting = False

    def steps(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Yield the results of an engine's steps.

        If a request to stop has waited for some seconds, it interrupts the current step. Then no further results are
        yielded, and the engine is `broken`.
        """
        while True:
            try:
                with stops.stepping():
                    piece = next(pieces, None)
            except KeyboardInterrupt:
                if not self.signal:
                    raise
                return
            if piece is None:
                return
            yield piece

    def _request(self, number: int) -> None:
        self.signal = number


UNREVISED = "the records have `@change`, but without --revise even records that withdraw others count as events"
"""The message if records withdraw others although the run does not revise results. It is printed once per run."""


def flow(
    engine: Engine,
    batches: Iterator[Batch],
    stats: RunStats,
    take: Take,
    dead_letters: DeadLetterSink,
    interrupt: Interrupt,
    watch: Watch | None = None,
    updates: KnowledgeUpdates | None = None,
) -> None:
    """Push every batch into the engine and advance the engine, until the input ends or a signal arrives.

    - `stats`: the statistics, to which the function adds what the run reads and derives.
    - `take`: a function that receives the derived events.
    - `dead_letters`: the sink for dead letters.
    - `watch`: an object that receives a report of each batch.
    - `updates`: the changes of the knowledge. They advance the engine (see `KnowledgeUpdates.bring`), so that each
      change takes effect at its time.

    If batches have watermarks, no record is late. While no records arrive, event time advances with the clock. A record
    that arrives after such a silence is late if it ends before the new event time.

    The end of the input closes every open window and deadline. A signal does not close them, because more input could
    follow. If a signal interrupted a step (see `Interrupt.steps`), reading stops. The rows of the interrupted batch are
    not counted, and further results of the step are dropped.
    """
    twice, said = stats.twice, stats.remarks  # values from an earlier program
    doubtful, units = Doubtful.of(engine.inputs), SmallUnits.of(engine.inputs)
    never = NeverThere.of(engine.inputs)
    remarks, jumps = dict[str, None](), TimeJumps()
    silent: int | None = None  # the watermark at the beginning of the silence
    updates = updates or KnowledgeUpdates(())
    while (batch := interrupt.next(batches)) is not None:
        began, before = perf_counter(), stats.busy
        if batch.watermark is not None:
            engine.advance_only()  # only batches move the time
        if batch.knowledge:
            updates.take(engine, batch.knowledge)
        engine.receive(batch.tables, in_turn=True)
        if batch.beside:
            engine.pass_by(batch.beside)
        dead_letters.add(batch.dead)
        stats.dead.update(record.code for record in batch.dead)
        refused = engine.take_dead()
        dead_letters.reject(batch, refused)
        stats.dead.update(row.code for row in refused)
        stats.no_records += _no_records(batch)
        stats.unmatched += batch.unmatched
        stats.records += batch.rows + len(batch.dead) - _no_records(batch) + batch.unmatched
        stats.seen |= batch.whole.keys()
        doubtful.take(batch.tables)
        units.take(batch.tables)
        never.take(batch)
        remarks |= dict.fromkeys(batch.remarks)
        if not engine.revises and UNREVISED not in remarks and says_changes(batch):
            remarks[UNREVISED] = None
            stats.remarks = [*stats.remarks, UNREVISED]  # reported now, because the run may have no end
        place = partial(place_of, batch, engine.moving)
        for remark in jumps.take(engine.moving, sum(row.code == "late" for row in refused), place):
            remarks[remark] = None
            stats.remarks = [*stats.remarks, remark]
        stats.with_records.update(block.file for block in batch.blocks if block.holds_records)
        stats.done = batch.bytes_read / batch.total_bytes if batch.total_bytes else None
        if not batch.silence:
            silent, until = None, engine.reached if batch.watermark is None else batch.watermark
        else:
            silent = engine.reached if silent is None else silent
            until = silent if silent == BEGINNING else silent + batch.silence
        counts: Counter[str] = Counter()
        for derived in interrupt.steps(updates.bring(engine, until, interrupt)):
            stats.watermark = engine.watermark
            counts += _count(engine, stats, derived)
            began = stats.spent(began)
            take(batch, derived)
        _record_refused(updates, dead_letters, stats)
        stats.spent(began)
        if engine.broken:
            stats.records -= batch.rows
            remarks[_broken_off(batch.rows)] = None
            break
        stats.batches += 1
        if batch.silence:
            engine.forget()
            stats.state_rows, stats.state_bytes = engine.state_rows, engine.state_bytes
        if watch is not None:
            watch.meter.revision = engine.revision_stats
            watch.batch([_read(batch, engine), _stepped(engine, counts, refused)], stats.busy - before)
    stats.twice = twice + doubtful.counts()
    stats.remarks = list(dict.fromkeys((*said, *remarks, *units.remarks(), *never.remarks())))
    stats.unseen = [name for name in engine.inputs if name not in stats.seen and name not in engine.outputs]
    if not interrupt.signal:
        began, before = perf_counter(), stats.busy
        counts = Counter()
        for derived in interrupt.steps(updates.bring(engine, END_OF_TIME, interrupt)):
            counts += _count(engine, stats, derived)
            began = stats.spent(began)
            take(None, derived)
        stats.spent(began)
        _record_refused(updates, dead_letters, stats)
        if engine.broken:
            stats.remarks = [*stats.remarks, _broken_off(0)]
        elif watch is not None:
            watch.meter.revision = engine.revision_stats
            watch.batch([_stepped(engine, counts, ())], stats.busy - before)
    elif not engine.broken:
        for derived in filter(None, interrupt.steps(engine.outstanding() for _ in range(1))):
            _count(engine, stats, derived)
            take(None, derived)
        if engine.broken:
            text = "workers were still busy with the last batches: some results of these records are not written"
            stats.remarks = [*stats.remarks, text]


def _broken_off(rows: int) -> str:
    if not rows:
        return "semcep did not process the end of the input: results that were still open are not written"
    return f"a batch was left unfinished: {rows:,} of its records are not counted, and some results are not written"


def _record_refused(updates: KnowledgeUpdates, dead_letters: DeadLetterSink, stats: RunStats) -> None:
    dead = updates.take_dead()
    dead_letters.add(dead)
    stats.dead.update(record.code for record in dead)


def _read(batch: Batch, engine: Engine) -> Report:
    read = {event: table.height for event, table in batch.tables.items()}
    dead = Counter(record.code for record in batch.dead)
    latest = engine.latest if any(read.values()) else None
    return Report(read=read, dead=dead, no_records=_no_records(batch), unmatched=batch.unmatched, latest=latest)


def _no_records(batch: Batch) -> int:
    """Count the dead letters that represent a whole file or the rest of a file, instead of a record."""
    return sum(letter.of_file for letter in batch.dead)


def _stepped(engine: Engine, counts: Mapping[str, int], refused: Iterable[RefusedRow]) -> Report:
    return Report.of(
        engine,
        counts,
        late=Counter(row.type for row in refused if row.code == "late"),
        dead=Counter(row.code for row in refused),
    )


def added(derived: Mapping[str, pl.DataFrame]) -> Counter[str]:
    """Count the rows of each derived event type, without withdrawals."""
    counts = {name: (table[CHANGE] > 0).sum() if CHANGE in table else table.height for name, table in derived.items()}
    return Counter({name: int(number) for name, number in counts.items() if number})


def _count(engine: Engine, stats: RunStats, derived: dict[str, pl.DataFrame]) -> Counter[str]:
    alerts = {table for alert in engine.alerts for table in alert.tables}
    counts = added({name: table for name, table in derived.items() if name not in alerts})
    stats.derived.update(counts)
    stats.merged += engine.take_merged().total()
    stats.state_rows, stats.state_bytes = engine.state_rows, engine.state_bytes
    return counts
