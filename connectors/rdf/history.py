"""The history of derived occurrences in the store. After each step of the engine, its new occurrences are added, and
expired occurrences are removed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

import polars as pl
import pyoxigraph as ox

from cep.connectors.rdf import triples
from cep.connectors.rdf.derivations import Derivations
from cep.connectors.rdf.store_process import StoreProcess
from cep.connectors.rdf.vocabulary import EventVocabulary
from cep.connectors.rdf.withdrawals import StoreRevision
from cep.connectors.service import Round, Service
from cep.core.identity import ID
from cep.core.time import END_OF_TIME
from cep.knowledge.graph import Knowledge
from cep.knowledge.store_follower import StoreFollower
from cep.runtime.history import BECAUSE, CONSTITUENTS
from cep.succession import Successor

_MINUTE = 60_000_000

StoreObserver = Callable[[Sequence[str] | None], None]
"""A callback for changes in the store. It receives the names of event types that have new or withdrawn occurrences, or
None if the knowledge has changed."""


class StoreListener:
    """A listener that stores the occurrences which a service derives.

    - `keep`: the microseconds from an occurrence's end until it is removed; None keeps all occurrences. The
      watermark is the clock. Occurrences that end in the same minute are removed together, when all of them have
      expired.
    - `readings`: True if input records are stored too.
    - `again`: True if this run derives again everything that earlier runs derived.
    - `keep_history`: True if withdrawn occurrences are kept. Each revision of the results is then stored in its own
      graph.
    """

    def __init__(
        self,
        service: Service,
        store: StoreProcess,
        vocabulary: EventVocabulary,
        keep: int | None = None,
        readings: bool = False,
        again: bool = False,
        keep_history: bool = False,
    ) -> None:
        self.keep_history, self.revises = keep_history, service.engine.withdraws
        self.store, self.vocabulary, self.readings = store, vocabulary, readings
        self._service, self._keep, self._again = service, keep, again
        engine = service.engine
        if readings or engine.explain:  # the events whose origin is described
            service.observe()
        self._derivations = Derivations(engine.plan, service.meanings, vocabulary, frozenset(service.outputs))
        self._former: Derivations | None = None
        if isinstance(engine, Successor) and engine.former is not None:
            former, self._since = engine.former, engine.since
            self._former = Derivations(former.plan, former.meanings(), vocabulary, frozenset(former.shown))
        engine.set_lineage_columns(BECAUSE, CONSTITUENTS)
        self._swept: int | None = None
        self._time = -END_OF_TIME
        self._trouble: str | None = None
        self.troubled: Callable[[str], None] = lambda text: None
        self._loading: Future[None] | None = None
        self._last: Future[None] | None = None
        self._reached, self._reaching = -END_OF_TIME, threading.Lock()
        self._listeners: list[StoreObserver] = []
        self._followed: StoreFollower | None = None
        self._written = store.revised() if self.revises and not again else None
        service.listen(self._take)
        service.written.append(store.written)

    def begin(self, knowledge: Knowledge | None, before: StoreListener | None = None) -> None:
        """Replace the knowledge and the rules in the store, but keep the occurrences. After this call, the store's
        knowledge changes whenever the engine's knowledge changes.

        If this run derives everything again, remove the occurrences of event types whose rules or knowledge have
        changed. The new rules might not derive these occurrences.

        `before`: the listener of the previous program, if it used the same knowledge.
        """
        if before is None:
            filled, name = (ox.Store, "") if knowledge is None else (knowledge.store, knowledge.fingerprint)
            self._loading = self.store.know(name, filled)
        else:
            self._loading = before._loading
        if self._loading is not None:
            self._loading.add_done_callback(lambda future: self._notify(future, "the knowledge was", None))
        meanings = self._service.engine.meanings(known=True)
        activities = {self._derivations.activity(event, []): meanings[event] for event in self._service.engine.outputs}
        self.store.derive(self._derivations.rules(), activities, self._again)
        changes = self._service.engine.changes
        if knowledge is not None and changes is not None:
            self._followed = before._followed if before is not None and before._followed else StoreFollower(knowledge)
            changes.news, changes.anew = [], before is None and bool(changes.applied)
            self._learn()

    @property
    def trouble(self) -> str | None:
        """The reason why the history cannot be queried now. It is None if it can be queried."""
        if self._loading is not None and not self._loading.done():
            return "the knowledge is being loaded"
        return self._trouble

    @property
    def reached(self) -> int:
        """The time up to which the store is final: no occurrence that ends earlier is added or removed."""
        return self._reached

    def listen(self, listener: StoreObserver) -> None:
        """Register an observer. It is called from another thread when new occurrences can be queried."""
        self._listeners.append(listener)

    def _take(self, step_round: Round) -> None:
        service = self._service
        self._learn()
        oldest = None if self._keep is None or not _finite(step_round.watermark) else step_round.watermark - self._keep
        inputs = (step_round.observed if self.revises else step_round.inputs) if self.readings else {}
        records, events = _recent(inputs, oldest), _recent(step_round.derived, oldest)
        parts = [
            triples.reading_triples(table, service.inputs[name], self.vocabulary) for name, table in records.items()
        ]
        parts += self._described(events) if events else []
        parts += [step_round.handover] if step_round.handover else []
        new = [*records, *events]
        come = [id for table in events.values() for id in table[ID].to_list()] if self.revises else []
        if self.revises and (step_round.withdrawn or step_round.unobserved or parts):
            self._last = self._revise(step_round, "".join(parts), come)
            new += [
                name
                for name in (*step_round.withdrawn, *(step_round.unobserved if self.readings else ()))
                if name not in new
            ]
        elif parts:
            self._last = self.store.add("".join(parts))
        if self._last is not None and new:
            self._last.add_done_callback(lambda future: self._notify(future, "events were", new))
        if self._last is None:
            self._reach(step_round.stable)
        else:  # also if there is nothing new: earlier events may still be written
            self._last.add_done_callback(lambda future: self._reach(step_round.stable))
        if oldest is not None and (self._swept is None or oldest // _MINUTE > self._swept):
            self.store.forget(triples.stamp(oldest))
            self._swept = oldest // _MINUTE
        if step_round.watermark >= END_OF_TIME:
            self.store.settle()

    def _described(self, events: Mapping[str, pl.DataFrame]) -> list[str]:
        """Return occurrences and their provenance as triples.

        If the program was changed during the run, the provenance of an occurrence that ended before the change names
        the rules of the former program.
        """
        if self._former is None:
            return [self._derivations.events(events, self._service.outputs)]
        old = pl.col("end") <= self._since
        texts = []
        for derivations, which in ((self._former, old), (self._derivations, old.not_().fill_null(True))):
            tables = {name: some for name, table in events.items() if (some := table.filter(which)).height}
            texts += [derivations.events(tables, self._service.outputs)] if tables else []
        return texts

    def _revise(self, step_round: Round, text: str, come: Sequence[str]) -> Future[None] | None:
        """Remove the withdrawn occurrences of a round from the store, and then add the new ones. Return a future that
        is done when both are written.

        `text`: the triples of the new occurrences. `come`: the ids of the new occurrences. If an earlier run of the
        program has written this round already, write nothing. Then return the future of the last write, or None if
        there was no write.
        """
        reached = step_round.watermark if _finite(step_round.watermark) else self._service.engine.latest
        self._time = max(self._time, reached)
        gone = tuple(id for table in step_round.withdrawn.values() for id in table[ID].to_list())
        records = tuple(
            id
            for name, table in step_round.unobserved.items()
            for id in triples.reading_ids(table, self._service.inputs[name])
        )
        revision = StoreRevision(
            triples.stamp(self._time),
            step_round.position,
            gone,
            tuple(come),
            text.encode(),
            self.keep_history,
            step_round.ended,
            records,
        )
        if not step_round.ended and self._written is not None and revision.place <= self._written:
            return self._last
        return self.store.revise(revision)

    def _reach(self, watermark: int) -> None:
        with self._reaching:
            if self._trouble is None:  # otherwise events will be missing
                self._reached = max(self._reached, watermark)

    def _learn(self) -> None:
        changes = self._service.engine.changes
        if self._followed is None or changes is None or not (changes.news or changes.anew):
            return
        follow = self._followed.begin_again if changes.anew else self._followed.change
        gone, come = follow(changes.applied if changes.anew else changes.news or [])
        changes.news, changes.anew = [], False
        if gone or come:
            self.store.learn(gone, come).add_done_callback(lambda future: self._notify(future, "changes were", None))

    def _notify(self, future: Future[None], what: str, events: Sequence[str] | None) -> None:
        error = future.exception()
        if error is not None:
            first, self._trouble = self._trouble is None, f"{what} not stored: {error}"
            if first:
                self.troubled(self._trouble)
            return
        for listener in self._listeners:
            listener(events)


def _recent(tables: Mapping[str, pl.DataFrame], oldest: int | None) -> dict[str, pl.DataFrame]:
    kept = {}
    for name, table in tables.items():
        least = table["end"].min()
        if oldest is not None and isinstance(least, int) and least < oldest:
            table = table.filter(pl.col("end").fill_null(END_OF_TIME) >= oldest)
        if table.height:
            kept[name] = table
    return kept


def _finite(watermark: int) -> bool:
    return abs(watermark) < END_OF_TIME
