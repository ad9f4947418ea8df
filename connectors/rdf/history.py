"""What happened, kept for questions: every round's events go to the store, and leave it when they are old."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future

import polars as pl

from cep.runtime.clock import END_OF_TIME
from connectors.rdf import triples
from connectors.rdf.process import StoreProcess
from connectors.rdf.words import Words
from connectors.serving.service import Round, Service

HOUR = 3_600_000_000

Told = Callable[[Sequence[str]], None]
"""Gets the events of which something new can be asked for."""


class History:
    """Fills a store with what a service derives.

    `keep`: microseconds for which an event is kept after its end, by the watermark; None: for ever. `readings`: input
    records go in as well.
    """

    def __init__(
        self, service: Service, store: StoreProcess, words: Words, keep: int | None = None, readings: bool = False
    ) -> None:
        self.store, self.words, self.readings = store, words, readings
        self._service, self._keep = service, keep
        self._swept: int | None = None
        self.trouble: str | None = None
        self._told: list[Told] = []
        service.listen(self._take)

    def begin(self, knowledge: Callable[[], Iterable[str]]) -> None:
        """Knowledge (N-Quads) and rules go in, unless those of this program are there already, with its events."""
        self.store.know(self._service.program, knowledge)
        plan = self._service.engine.plan
        self.store.add(triples.rules(plan, self._service.program, self.words)).result()

    def listen(self, told: Told) -> None:
        """To be told when events can be asked for, from another thread."""
        self._told.append(told)

    def _take(self, one: Round) -> None:
        service = self._service
        oldest = None if self._keep is None or not _finite(one.watermark) else one.watermark - self._keep
        parts, new = [], []
        for tables, schemas, written in (
            (one.inputs if self.readings else {}, service.inputs, triples.readings),
            (one.derived, service.outputs, triples.events),
        ):
            for name, table in tables.items():
                kept = table if oldest is None else table.filter(pl.col("end") >= oldest)
                if kept.height:
                    parts.append(written(kept, schemas[name], self.words))
                    new.append(name)
        if parts:
            self.store.add("".join(parts)).add_done_callback(lambda future: self._tell(future, new))
        if oldest is not None and (self._swept is None or oldest >= self._swept + min(HOUR, self._keep or HOUR)):
            self.store.forget(triples.stamp(oldest))
            self._swept = oldest
        if one.watermark >= END_OF_TIME:
            self.store.settle()

    def _tell(self, future: Future[None], events: Sequence[str]) -> None:
        error = future.exception()
        if error is not None:
            self.trouble = f"events were not stored: {error}"
            return
        for told in self._told:
            told(events)


def _finite(watermark: int) -> bool:
    return abs(watermark) < END_OF_TIME
