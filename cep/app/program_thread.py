"""A thread that runs a program for a server. The server can stop it between two batches and save its state."""

from __future__ import annotations

import gc
import signal
import threading
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Protocol

import polars as pl

from cep.app.knowledge_updates import KnowledgeUpdates
from cep.app.pipeline import DeadLetterSink, Interrupt, flow
from cep.connectors.journal import Journal, JournalMark
from cep.connectors.records.batch import Batch
from cep.connectors.service import Service
from cep.connectors.serving.fair_lock import FairLock
from cep.core.errors import CepError, lacks_room
from cep.core.logs import Log
from cep.engine import Engine
from cep.runtime.run_stats import RunStats

OFTEN, SELDOM = 1.0, 10.0
"""The minimum and the maximum number of seconds between two snapshots of a program that has live input.

Within these limits, the number depends on how long a snapshot takes.
"""

_SHARE = 20  # the pause between snapshots, in multiples of the time that one takes
_ENDING = 5.0  # seconds that a batch may take to end
_WARM = 20  # batches after which a program has loaded everything that it needs
_HANDED = -1  # the signal that ends a program when another one takes over
_WRITTEN = 5.0  # seconds in which derived events are usually written


class JournaledBatches:
    """An iterator of batches. It writes each batch to the journal, if there is one, before it returns the batch.

    The consumer of the batches holds the `lock` while it processes a batch, and releases it while it waits for the next
    one. After `stopping` is set, the iterator ends.
    """

    def __init__(self, batches: Iterator[Batch], journal: Journal | None = None) -> None:
        self._batches, self._journal = batches, journal
        self.lock = FairLock()
        self.stopping = False
        self._first: list[Batch] = []  # batches for the next consumer
        self._ends = False  # the current consumer receives no more batches
        self._silence = self._before = 0
        self._events: frozenset[str] | None = None  # the events that the program reads; None: all events

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._first and not self._ends:
            return self._taken(self._first.pop(0))
        self.lock.release()
        try:
            batch = next(self._batches)
        finally:
            self.lock.acquire()
        if self._ends:
            self._first.append(batch)
            raise StopIteration
        return self._taken(batch)

    def _taken(self, batch: Batch) -> Batch:
        """Write a batch to the journal, if there is one, and return the batch.

        If the batch reports how long the input was silent, subtract the time before the latest handover.
        """
        self._silence = batch.silence
        if batch.handover is None:
            if not batch.silence:
                self._before = 0
            elif self._before:
                batch = replace(batch, silence=max(1, batch.silence - self._before))
            if self._journal is not None:
                self._journal.add(batch)
            if self._events is not None:
                batch = batch.read_by(self._events)
        if self.stopping:
            raise StopIteration
        return batch

    def read_by(self, events: Iterable[str]) -> None:
        """Restrict the tables of batches to these events.

        The tables of other events are moved to the `beside` of the batch. The journal still contains all records.
        """
        self._events = frozenset(events)

    def hand_over(self, events: Iterable[str]) -> None:
        """End the iteration for this consumer. The next consumer reads `events`. The caller must hold the `lock`."""
        self._before, self._ends = self._silence, True
        self.read_by(events)

    def go_on(self) -> bool:
        """Return True if the iteration has ended because another consumer takes over (`hand_over`)."""
        ended, self._ends = self._ends, False
        return ended

    def close(self) -> None:
        """Close the source after all batches are processed. The caller must not hold the `lock`."""
        if isinstance(self._batches, Generator):
            self._batches.close()


class Follower(Protocol):
    """An observer of a served program. It receives each batch, and the events that the program derived from it."""

    def take(self, batch: Batch | None, derived: Mapping[str, pl.DataFrame]) -> None: ...

    def begin(self, served: Engine) -> None:
        """Continue with another program, which the engine `served` runs."""


class Acknowledgements:
    """An object that the reader of a broker's messages asks, between two polls, which messages it may acknowledge.

    If the program has failed, the reader must not acknowledge messages that the program did not process.
    """

    def __init__(self, journal: Journal | None = None) -> None:
        self.run: ProgramThread | None = None
        self._journal = journal

    @property
    def over(self) -> bool:
        return self.run is not None and bool(self.run.interrupt.signal)

    @property
    def kept(self) -> bool:
        return self.run is not None and self.run.error is None

    def place(self, source: str) -> Mapping[int, int]:
        return {} if self._journal is None else self._journal.places.get(source, {})


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A snapshot, and the position of the journal when the snapshot was taken.

    - `written`: the writes of derived events that must finish before the snapshot may be saved.
    - `cost`: the seconds that it took to take the snapshot.
    """

    blob: bytes
    point: JournalMark
    written: Sequence[Future[None]]
    cost: float


class ProgramThread(threading.Thread):
    """A thread that runs a program.

    - `failed`: the reason why the program ended early, or None.
    - `may_pass`: True if the program may succeed after a restart.
    - `on_failure`: a function that is called after a failure.
    - `journal`: the place where input and state are saved, or None.
    - `rest`: the object that acknowledges messages to brokers, or None.
    - `keep_input`: how long before the watermark the journal keeps input.
    - `follower`: an observer that receives all batches and results, or None.
    """

    def __init__(
        self,
        engine: Engine,
        batches: JournaledBatches,
        stats: RunStats,
        service: Service,
        dead_letters: DeadLetterSink,
        interrupt: Interrupt,
        journal: Journal | None,
        log: Log,
        updates: KnowledgeUpdates | None = None,
        rest: Acknowledgements | None = None,
    ) -> None:
        super().__init__(name="program", daemon=True)
        self.engine, self.batches, self.stats, self.service = engine, batches, stats, service
        self.dead_letters, self.interrupt, self.journal, self.log = dead_letters, interrupt, journal, log
        self.updates = updates
        self.failed: str | None = None
        self.error: BaseException | None = None
        self.may_pass = False
        self.on_failure: Callable[[], None] = lambda: None
        self.keep_input: int | None = None
        self.follower: Follower | None = None
        self._told: set[str] = set()
        self._left = False  # still running when the rest of the process had to end
        self._due = monotonic() + OFTEN
        self._taken: _Snapshot | None = None
        self._rest = rest
        if rest is not None:
            rest.run = self

    def run(self) -> None:
        with self.batches.lock:
            self._flow()
            while self.batches.go_on() and self.error is None:
                self.stats.unseen = []  # the next program continues the same input
                self._flow()
        self.batches.close()

    def adopt(self, engine: Engine, service: Service, first: Batch) -> None:
        """Continue with another program. The caller must hold the batches' lock.

        `first`: the first batch for the other program. It is already in the journal.
        """
        if not self.interrupt.signal:  # otherwise the whole run is ending
            self.interrupt.signal, self.interrupt = _HANDED, Interrupt()
        self.engine, self.service, self._taken = engine, service, None
        self.batches.hand_over(engine.inputs)
        service.take(first, {})
        if self.follower is not None:
            self.follower.begin(engine)

    def _flow(self) -> None:
        def take(batch: Batch | None, derived: Any) -> None:
            self.service.take(batch, derived)
            if self.follower is not None:
                self.follower.take(batch, derived)
            if self.service.rounds == _WARM:
                gc.freeze()  # loaded objects stay alive, and each scan of them takes 40 ms
            if batch is not None and self.journal is not None:
                self.journal.processed()
                self._keep(self.journal)
            self._tell_remarks()

        if self.journal is not None:
            self.engine.snapshot()  # the first snapshot loads kernels, which would delay a batch later
        interrupt = self.interrupt
        try:
            flow(self.engine, self.batches, self.stats, take, self.dead_letters, interrupt, updates=self.updates)
        except BaseException as error:
            if not self._left:  # after that, its resources may be closed
                self.fail(error)
        else:
            if not interrupt.signal:
                self._tell_remarks()
                text = f"the input has ended: {self.stats.closing()}; the server answers queries until Ctrl-C"
                self.log("input_ended", text, **self.stats.numbers())

    def fail(self, error: BaseException) -> None:
        """End the program because of an error. Any thread may call this. Only the first error is logged.

        If the disk or memory was full, or the error has the code `failed`, a restart may succeed (`may_pass`).
        """
        if self.error is not None:
            return
        self.error = error
        self.may_pass = lacks_room(error) or (isinstance(error, CepError) and error.code == "failed")
        if isinstance(error, CepError):
            self.failed, text = str(error).splitlines()[0], str(error)
        else:
            self.failed = f"the program failed: {type(error).__name__}: {error}"
            text = "".join((f"{self.failed}\n", *traceback.format_exception(error))).rstrip()
        self.log("failed", text, "error", code=getattr(error, "code", None))
        self.batches.stopping = True
        self.interrupt.signal = self.interrupt.signal or signal.SIGTERM
        self.on_failure()

    def _tell_remarks(self) -> None:
        for remark in self.stats.remarks:
            if remark not in self._told:
                self._told.add(remark)
                self.log("remark", f"warning: {remark}", "warning")

    def end(self) -> None:
        """Stop after the current batch. Open windows and deadlines stay open. If there is a journal, save the state."""
        if self.ident is None:
            return
        self.interrupt.signal = self.interrupt.signal or 2
        if self._rest is not None:  # the thread ends between two polls
            self.join(_ENDING)
        if self.batches.lock.acquire(timeout=0 if self.is_alive() and self._rest is not None else _ENDING):
            self.batches.stopping = True  # the thread waits for input, or has ended
            if not self.service.ended and self.error is None:
                self._save()
            self.batches.lock.release()
        else:
            self._left = True
        self.join(0.5)

    def _keep(self, journal: Journal) -> None:
        """Take a snapshot if the last one is old enough, even while the journal is replayed.

        Processing continues. The snapshot is saved when all results derived before it are stored.
        """
        began = monotonic()
        taken = self._taken
        if taken is None:
            if began > self._due:
                written = [write() for write in self.service.written]
                point = journal.point(self.engine.latest)
                self._taken = _Snapshot(self.engine.snapshot(), point, written, monotonic() - began)
            return
        if all(future.done() for future in taken.written):
            self._taken = None
            if all(future.exception() is None for future in taken.written):
                journal.save(taken.blob, taken.point)
                if self.keep_input is not None:
                    journal.forget_input(taken.point.latest - self.keep_input)
            cost = taken.cost + monotonic() - began
            self._due = monotonic() + min(SELDOM, max(OFTEN, _SHARE * cost))

    def _save(self) -> None:
        """Save the state, if there is a journal.

        First wait until all derived events are stored. If some are still not stored after some seconds, do not save the
        state, because the journal is then still needed.
        """
        if self.journal is None:
            return
        try:
            for future in [write() for write in self.service.written]:
                future.result(_WRITTEN)
        except Exception:  # the store has failed, or takes too long
            return
        self.journal.save(self.engine.snapshot(), self.journal.point(self.engine.latest))
