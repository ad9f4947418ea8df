"""Run a program over files and keep all intermediate results, so that its results can be explained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import typer
from polars import DataFrame

from cep.app.knowledge_updates import knowledge_updates
from cep.app.pipeline import Interrupt, Take, flow
from cep.app.served_history import named_place
from cep.connectors.dead_letters import DeadLetters
from cep.connectors.files import read, replay
from cep.connectors.inputs import inputs as find
from cep.connectors.records.batch import Batch
from cep.connectors.records.revised import changes_of, with_changes
from cep.connectors.records.times import ISO
from cep.connectors.why.origins import Origins
from cep.connectors.why.text import Explainer
from cep.connectors.writing.time_format import form
from cep.core.schema import Schema
from cep.core.time import END_OF_TIME
from cep.engine import Engine
from cep.explain.revisions import InputRevisions
from cep.runtime.run_stats import RunStats

if TYPE_CHECKING:
    from cep.knowledge.graph import Knowledge

ALWAYS = 2**62
"""A duration in microseconds that is longer than any input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecords:
    """The files of records that a run reads.

    - `as_they_stand`: True to read the files in their own order, without sorting by time.
    - `updates`: the files that contain changes of the knowledge.
    - `names`: the original name of each file that is a copy.
    """

    inputs: Sequence[str]
    format: str | None
    as_they_stand: bool = False
    updates: Sequence[str] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    def batches(self, schemas: Mapping[str, Schema], changes: bool) -> Iterator[Batch]:
        """Return the records of the files. `changes`: True if records may withdraw or correct earlier records."""
        schemas = with_changes(schemas) if changes else schemas
        records: Iterator[Batch] = (read if self.as_they_stand else replay)(self.inputs, schemas, format=self.format)
        return records

    def times(self, schemas: Mapping[str, Schema], interrupt: Interrupt) -> str | None:
        """Return the format in which the records write times. Returns None if no file shows the format."""
        sources = find(self.inputs, schemas, self.format)
        return interrupt.next(form(sources, schemas) for _ in range(1))

    def run(self, engine: Engine, take: Take) -> tuple[RunStats, str | None]:
        """Run an engine over all records, and pass the results to `take`.

        Returns the statistics of the run, and a text with the position and reason of the first dead letter. The text is
        None if there were no dead letters.
        """
        batches, interrupt, stats = self.batches(engine.inputs, engine.revises), Interrupt(), RunStats()
        if engine.revises:
            batches = changes_of(batches)
        with closing(DeadLetters(None)) as dead_letters, interrupt.listening():
            updates = knowledge_updates(engine, self.updates, None)
            flow(engine, batches, stats, take, dead_letters, interrupt, updates=updates)
        _stop(interrupt)
        return stats, named_place(dead_letters.first_told, self.names)

    def explained(self, engine: Engine, first: Engine | None, asked: str | None = None) -> Explainer:
        """Run an engine over all records, and return an explainer of its results. The engine must remember its rows.

        - `first`: an engine that revises results, or None if no record corrects another one. It processes the records
          first, and `engine` then processes the corrected records.
        - `asked`: the event whose changes are recorded, or None for all events.
        """
        origins, interrupt = Origins(names=self.names), Interrupt()
        batches = origins.noted(self.batches(engine.inputs, first is not None))
        revisions = None
        if first is not None:
            revisions = InputRevisions(first, asked)
            batches = _pieces(revisions, changes_of(batches))

        def take(_: Batch | None, tables: Mapping[str, DataFrame]) -> None:
            if revisions is not None:
                revisions.take(tables)

        with closing(DeadLetters(None)) as dead_letters, interrupt.listening():
            times = self.times(engine.inputs, interrupt)
            updates = knowledge_updates(first or engine, self.updates, None)
            flow(first or engine, batches, RunStats(), take, dead_letters, interrupt, updates=updates)
            if revisions is not None:
                engine.advance_only()  # all records are already there
                engine.receive(revisions.corrected())
                for _ in knowledge_updates(engine, self.updates, None).bring(engine, END_OF_TIME, interrupt):
                    pass
        _stop(interrupt)
        return Explainer(engine, None, origins, times or origins.times or ISO, revisions=revisions)


def knowing(explainer: Explainer, known: Knowledge | None, files: Sequence[str]) -> Explainer:
    """Add the knowledge to an explainer, so that it can explain answers to graph patterns."""
    if known is None:
        return explainer
    from cep.knowledge.provenance import Provenance
    from cep.knowledge.report import prefixes

    return replace(explainer, facts=Provenance(known, prefixes(files)))


def is_corrected(engine: Engine) -> bool:
    """Return True if an input event has a KEY, so that later records may replace earlier records."""
    return any(schema.key is not None for schema in engine.inputs.values())


def _stop(interrupt: Interrupt) -> None:
    if interrupt.signal:
        raise typer.Exit(128 + interrupt.signal)


def _pieces(revisions: InputRevisions, batches: Iterator[Batch]) -> Iterator[Batch]:
    """Split batches so that each record that changes an earlier record gets a separate batch."""
    for batch in batches:
        for tables in revisions.pieces(batch.tables):
            yield replace(batch, tables=tables, dead=[])
