"""A program in a thread of its own, for those that serve it: it can be stopped between two batches, and kept."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from time import monotonic
from typing import Any

from cep.app.knowledge_feed import KnowledgeFeed
from cep.app.meter import Meter
from cep.app.pipeline import Interrupt, flow
from cep.core.errors import CepError
from cep.core.logs import Log
from cep.core.time import FARTHEST
from cep.engine import Engine
from cep.runtime.report import Report
from cep.runtime.run_stats import RunStats
from connectors.batch import Batch
from connectors.dead_letters import DeadLetters
from connectors.journal import Journal, Point
from connectors.serving.fair_lock import FairLock
from connectors.serving.service import Round, Service

OFTEN, SELDOM = 1.0, 10.0
"""Seconds between two snapshots of a program that reads live input: as often as it costs little of the time."""

_SHARE = 20  # times as long as a snapshot takes there is none
_ENDING = 10.0  # seconds that a batch may take to end
_WARM = 20  # rounds after which all that a program needs is loaded
_WRITTEN = 5.0  # seconds in which what was derived is mostly written


class JournaledBatches:
    """Batches one at a time, each in the journal, where there is one, before it is given out. Who takes them has the
    `lock` while it works, not while it waits for the next one; none comes any more once they are `held`."""

    def __init__(self, batches: Iterator[Batch], journal: Journal | None = None) -> None:
        self._batches, self._journal = batches, journal
        self.lock = FairLock()
        self.held = False

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        self.lock.release()
        try:
            batch = next(self._batches)
        finally:
            self.lock.acquire()
        if self._journal is not None:
            self._journal.add(batch)
        if self.held:
            raise StopIteration
        return batch

    def close(self) -> None:
        """What was given is worked off, and no more is wanted. Without the `lock`."""
        if isinstance(self._batches, Generator):
            self._batches.close()


class Rest:
    """Between two polls of brokers: whether they may be told that messages need not come again. A program that has
    failed has not worked them off."""

    def __init__(self, journal: Journal | None = None) -> None:
        self.run: Run | None = None
        self._journal = journal

    @property
    def over(self) -> bool:
        return self.run is not None and bool(self.run.interrupt.wished)

    @property
    def kept(self) -> bool:
        return self.run is not None and self.run.error is None

    def place(self, source: str) -> Mapping[int, int]:
        return {} if self._journal is None else self._journal.places.get(source, {})


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """One that was taken at a point of the journal, to be saved when these are done; `cost`: seconds it has taken."""

    blob: bytes
    point: Point
    written: Sequence[Future[None]]
    cost: float


class Run(threading.Thread):
    """The program, in a thread of its own. `failed`: why it ended before its time. `journal`: where it is kept, None:
    nowhere. `rest`: where there are brokers."""

    def __init__(
        self,
        engine: Engine,
        batches: JournaledBatches,
        tally: RunStats,
        service: Service,
        letters: ServedDeadLetters,
        interrupt: Interrupt,
        journal: Journal | None,
        told: Log,
        feed: KnowledgeFeed | None = None,
        rest: Rest | None = None,
    ) -> None:
        super().__init__(name="program", daemon=True)
        self.engine, self.batches, self.tally, self.service = engine, batches, tally, service
        self.letters, self.interrupt, self.journal, self.told = letters, interrupt, journal, told
        self.feed = feed
        self.failed: str | None = None
        self.error: BaseException | None = None
        self._left = False  # at work still when all else had to end
        self._due = monotonic() + OFTEN
        self._taken: _Snapshot | None = None
        self._rest = rest
        if rest is not None:
            rest.run = self

    def run(self) -> None:
        with self.batches.lock:
            self._flow()
        self.batches.close()

    def _flow(self) -> None:
        def take(batch: Batch | None, derived: Any) -> None:
            self.service.take(batch, derived)
            if self.service.rounds == _WARM:
                gc.freeze()  # what was loaded by now is no garbage: looking through it takes 40 ms each time
            if batch is not None and self.journal is not None:
                self._keep(self.journal)

        if self.journal is not None:
            self.engine.snapshot()  # the first one loads kernels, for which nothing is to wait later
        try:
            flow(self.engine, self.batches, self.tally, take, self.letters, self.interrupt, feed=self.feed)
        except BaseException as error:
            if self._left:  # what it works with is closed
                return
            self.error = error
            if isinstance(error, CepError):
                self.failed = str(error).splitlines()[0]
                self.told("failed", str(error), "error", code=error.code)
            else:
                self.failed = f"the program failed: {type(error).__name__}: {error}"
                self.told("failed", self.failed, "error")
        else:
            if not self.interrupt.wished:
                text = f"the input has ended: {self.tally.closing()}; what there is is served until Ctrl-C"
                self.told("input_ended", text, **self.tally.numbers())

    def end(self) -> None:
        """After the batch at hand; what is open stays open, and is kept where there is a place for it."""
        if self.ident is None:
            return
        self.interrupt.wished = self.interrupt.wished or 2
        if self._rest is not None:  # it ends between two polls
            self.join(_ENDING)
        if self.batches.lock.acquire(timeout=0 if self.is_alive() and self._rest is not None else _ENDING):
            self.batches.held = True  # it awaits input, or has ended
            if not self.service.ended and self.error is None:
                self._save()
            self.batches.lock.release()
        else:
            self._left = True
        self.join(0.5)

    def _keep(self, journal: Journal) -> None:
        """Now and then a snapshot is taken, unless the journal has what is not worked off. It is saved when all that
        was derived until then is written; nothing waits for that."""
        began = monotonic()
        taken = self._taken
        if taken is None:
            if began > self._due and journal.whole:
                written = [each() for each in self.service.written]
                self._taken = _Snapshot(self.engine.snapshot(), journal.point(), written, monotonic() - began)
            return
        if all(each.done() for each in taken.written):
            self._taken = None
            if all(each.exception() is None for each in taken.written):
                journal.save(taken.blob, taken.point)
            cost = taken.cost + monotonic() - began
            self._due = monotonic() + min(SELDOM, max(OFTEN, _SHARE * cost))

    def _save(self) -> None:
        """Keep the program as it is, unless there is no place for it, or the journal is still needed: what it has is
        not worked off, or what was derived not written within some seconds."""
        if self.journal is None or not self.journal.whole:
            return
        try:
            for each in [each() for each in self.service.written]:
                each.result(_WRITTEN)
        except Exception:  # the store has failed, or takes too long
            return
        self.journal.save(self.engine.snapshot())


class ServedDeadLetters:
    """Dead letters, those that were late also by event."""

    def __init__(self, letters: DeadLetters) -> None:
        self._letters = letters
        self.late: Counter[str] = Counter()

    def add(self, records: Any) -> None:
        self._letters.add(records)

    def reject(self, batch: Batch, type: str, row: int, code: str, reason: str) -> None:
        if code == "late":
            self.late[type] += 1
        self._letters.reject(batch, type, row, code, reason)

    def close(self) -> None:
        self._letters.close()


def measure(meter: Meter, engine: Engine, one: Round, letters: ServedDeadLetters, dead: Counter[str]) -> None:
    """A round in the numbers for Prometheus."""
    new = dead - meter.dead
    late, letters.late = letters.late, Counter()
    read = {event: table.height for event, table in one.inputs.items()}
    refused = {code: number for code, number in new.items() if code == "late"}
    unread = {code: number for code, number in new.items() if code != "late"}
    meter.take(
        [
            Report(read=read, dead=unread, latest=engine.latest if any(read.values()) else None),
            Report(
                stage=1,
                derived={event: table.height for event, table in one.derived.items()},
                late=late,
                dead=refused,
                counts=one.counts,
                rows=engine.state_rows,
                bytes=engine.state_bytes,
                watermark=one.watermark if -FARTHEST < one.watermark < FARTHEST else None,
            ),
        ],
        0.0,
    )
