"""Process earlier input with the engine of a new program, so that its new rules have the state that they need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from cep.app.knowledge_updates import KnowledgeUpdates
from cep.app.pipeline import Interrupt, flow
from cep.connectors.journal import Journal
from cep.connectors.records.batch import Batch
from cep.core.errors import CepError
from cep.core.schema import ARRIVAL
from cep.core.time import BEGINNING, END_OF_TIME
from cep.engine import Engine
from cep.plan.input_horizon import InputHorizon
from cep.runtime.encode import RefusedRow
from cep.runtime.history import BECAUSE, CONSTITUENTS
from cep.runtime.run_stats import RunStats

MOST = 1 << 16
"""The greatest number of rows in a batch that is joined from smaller batches."""


class NoDeadLetters:
    """A sink that ignores dead letters, because the earlier program has already reported them."""

    def add(self, records: object) -> None: ...

    def reject(self, batch: Batch, refused: Sequence[RefusedRow]) -> None: ...


@dataclass(slots=True)
class OpenRows:
    """A collector of the open intervals of alerts on fluents. An open interval has begun, but not ended.

    `tables`: for each alert, the table of beginnings, the table of ends, and the attributes that identify an interval.
    """

    tables: Sequence[tuple[str, str, tuple[str, ...]]]
    rows: dict[str, dict[tuple[Any, ...], list[pl.DataFrame]]] = field(default_factory=dict)

    def take(self, derived: Mapping[str, pl.DataFrame]) -> None:
        """Update the open intervals by the results of one step."""
        for begins, ends, arguments in self.tables:
            open_rows = self.rows.setdefault(begins, {})
            for table in (derived.get(begins),):
                for number, key in enumerate(_keys(table, arguments)):
                    assert table is not None
                    open_rows.setdefault(key, []).append(table[number : number + 1])
            for key in _keys(derived.get(ends), arguments):
                if key in open_rows:
                    open_rows[key].pop(0)
                    if not open_rows[key]:
                        del open_rows[key]

    def open(self) -> dict[str, pl.DataFrame]:
        """Return the rows of open intervals, by table."""
        open_tables = {}
        for name, rows_by_key in self.rows.items():
            if rows := [row for rows in rows_by_key.values() for row in rows]:
                open_tables[name] = pl.concat(rows)
        return open_tables


def _keys(table: pl.DataFrame | None, arguments: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    if table is not None and table.height:
        yield from zip(table["start"].to_list(), *(table[name].to_list() for name in arguments))


@dataclass(frozen=True, slots=True)
class Warmed:
    """The result of processing earlier input.

    - `state`: the state of the engine.
    - `open`: the open intervals of alerts on fluents, by table.
    - `since`: the time from which the engine has processed all input. If it is None, there was no earlier input.
    """

    state: bytes
    since: int | None
    open: Mapping[str, pl.DataFrame]


def joined(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield the same batches, but join small batches, so that a long history takes fewer steps.

    Batches are joined if their record numbers increase and their columns are the same. The results and the late rows do
    not depend on how the input is divided into batches.
    """
    run: list[Batch] = []
    schemas: dict[str, pl.Schema] = {}
    last, count = -1, 0
    for batch in batches:
        orders = [table[ARRIVAL] for table in batch.tables.values() if table.height]
        first = min((int(order.to_numpy().min()) for order in orders), default=last + 1)
        own = {name: table.schema for name, table in batch.tables.items()}
        alike = all(schemas.get(name, schema) == schema for name, schema in own.items())
        if run and (run[-1].silence or batch.silence or first <= last or not alike or count + batch.rows > MOST):
            yield _one(run)
            run, schemas, last, count = [], {}, -1, 0
        run.append(batch)
        schemas |= own
        count += batch.rows
        last = max((int(order.to_numpy().max()) for order in orders), default=last)
    if run:
        yield _one(run)


def _one(run: Sequence[Batch]) -> Batch:
    if len(run) == 1:
        return run[0]
    names = dict.fromkeys(name for batch in run for name in batch.tables)
    tables = {name: pl.concat([batch.tables[name] for batch in run if name in batch.tables]) for name in names}
    return Batch(tables, [], [])


def warm(engine: Engine, journal: Journal, latest: int, updates: KnowledgeUpdates, stop: Callable[[], int]) -> Warmed:
    """Process the earlier input that an engine needs, as far as the journal contains it.

    - `latest`: the approximate latest end of a record.
    - `updates`: the changes of the knowledge, from the first one on.
    - `stop`: a function that stops the current program, and returns its watermark. It is called near the end. Until
      then, the current program continues.

    At the end, the engine has reached that watermark. Raises CepError if it cannot continue or the input is damaged.
    """
    engine.set_lineage_columns(BECAUSE, CONSTITUENTS)
    horizon, interrupt = InputHorizon.of(engine.plan), Interrupt()
    rows = OpenRows([(alert.table, alert.ends, alert.arguments) for alert in engine.alerts if alert.ends is not None])
    since, reached, read_since, number = END_OF_TIME, BEGINNING, journal.read_since(engine.inputs), 0

    def seen(from_time: int) -> Iterator[Batch]:
        nonlocal since, number
        for beyond, batch in journal.history(number, engine.inputs, from_time):
            number = beyond
            if number > read_since:
                starts = (table["start"] for table in batch.tables.values() if table.height)
                since = min([since, *(int(start.to_numpy().min()) for start in starts)])
            yield batch

    def batches() -> Iterator[Batch]:
        nonlocal reached
        from_time = latest - horizon.length if horizon.bounded and latest > BEGINNING else BEGINNING
        for last in (False, True):
            if last:
                reached = stop()
            yield from joined(seen(from_time))
        interrupt.signal = 1  # the input continues

    def take(batch: Batch | None, derived: Mapping[str, pl.DataFrame]) -> None:
        rows.take(derived)

    flow(engine, batches(), RunStats(), take, NoDeadLetters(), interrupt, updates=updates)
    if engine.watermark < reached:
        for derived in updates.bring(engine, reached, Interrupt()):
            rows.take(derived)
    if engine.watermark > reached:  # with --lateness-by, unread events do not move the time of the current program
        message = "records of events that the current program does not read have a later time than it has reached"
        raise CepError(message, hint="try again when its own records have reached that time", code="ahead")
    return Warmed(engine.snapshot(), None if since == END_OF_TIME else since, rows.open())
