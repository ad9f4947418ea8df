"""The service. It passes the input and the results of an engine to listeners, once per round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

import polars as pl

from cep.connectors.records.batch import Batch
from cep.connectors.records.late_input import Told, told_of, unknown
from cep.connectors.records.record_changes import RecordChanges
from cep.core.identity import ID, identified
from cep.core.schema import ARRIVAL, CHANGE, Schema
from cep.core.time import BEGINNING
from cep.engine import Engine
from cep.runtime.history import BECAUSE, CONSTITUENTS
from cep.runtime.run_stats import Count, RunStats


@dataclass(frozen=True, slots=True)
class Round:
    """One round of the engine: the step after a batch, or the step at the end of the input.

    Tables of records and occurrences have the columns `start` and `end` (Int64, microseconds) and the attributes.
    Tables of derived events also have `@id` (cep/core/identity.py) and, if lineage is derived, `because` (JSON).

    - `number`: the number of the round. The first round has the number 1.
    - `watermark`: a time (microseconds UTC). All later records end after this time.
    - `stable`: a time. An occurrence that ends at or before this time is never withdrawn.
    - `position`: the number of records processed so far. The same input always yields the same pairs of watermark and
      position. In each round, this pair is greater than in the round before.
    - `ended`: True at the end of the input, whatever the watermark is.
    - `inputs`: the records of the batch, including those that the engine refused.
    - `read`: for each event type, the number of its records in the batch, including those that withdraw other records.
    - `records`, `dead`: the total number of records so far, and the total number of dead letters so far.
    - `late`: a function that describes the records that may have revised earlier results.
    - `observed`, `unobserved`: the records that appeared in this round, and those that disappeared. Both are empty
      unless `Service.observe` was called.
    - `derived`: the new occurrences.
    - `withdrawn`: the occurrences of earlier rounds that this round withdraws, before it adds the new occurrences.
    - `alerts`: the new occurrences of ALERT statements. The keys are `Alert.table`.
    - `recalled`: the withdrawn occurrences of ALERT statements.
    - `counts`: the row counts of each operator in this round.
    - `handover`: the last triples of the previous program, in the first round of a new program. Otherwise None.
    """

    number: int
    watermark: int
    inputs: Mapping[str, pl.DataFrame]
    derived: Mapping[str, pl.DataFrame]
    records: int
    dead: int
    counts: list[Count] = field(default_factory=list)
    alerts: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    ended: bool = False
    withdrawn: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    recalled: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    stable: int = BEGINNING
    position: int = 0
    late: Told = unknown
    observed: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    unobserved: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    read: Mapping[str, int] = field(default_factory=dict)
    handover: str | None = None


RoundListener = Callable[[Round], None]


class Service:
    """A distributor of the results of `cep.app.pipeline.flow`. It calls all listeners one after the other, in the
    thread of the engine.

    - `text`: the text of the program.
    - `name`: the name of the program's file.
    - `written`: functions that listeners have added because they write in the background. Each function returns a
      future, which is done when the listener has written all rounds so far.

    Any thread may read `rounds`, `last` and `ended`.
    """

    def __init__(
        self, engine: Engine, text: str, name: str, stats: RunStats, cuts: Mapping[str, int] | None = None
    ) -> None:
        """Create the service.

        `cuts`: for each fluent or alert table that an earlier program derived, the time at which this program took
        over. If an interval began earlier, listeners receive this time as its beginning.
        """
        self.cuts = dict(cuts or {})
        self.engine = engine
        self.text = text
        self.name = name
        self.meanings: Mapping[str, str] = engine.meanings()
        self.inputs: Mapping[str, Schema] = engine.inputs
        self.outputs: Mapping[str, Schema] = engine.shown
        self.stats = stats
        self.last: Round | None = None
        self.ended = False
        self.written: list[Callable[[], Future[None]]] = []
        self._listeners: list[RoundListener] = []
        self._batch: Batch | None = None
        self._before = engine.latest, engine.stable
        self._late: Told = unknown
        self._records: RecordChanges | None = None

    def observe(self) -> None:
        """Let each round contain the records that appeared and disappeared, if the engine can withdraw records."""
        if self._records is None and self.engine.withdraws:
            self._records = RecordChanges(self.engine)

    @property
    def rounds(self) -> int:
        """The number of rounds so far."""
        return 0 if self.last is None else self.last.number

    def listen(self, listener: RoundListener) -> None:
        """Add a listener. It is called after every round, so it must be added before the first round."""
        assert self.last is None, "a later listener would miss the rounds before it"
        self._listeners.append(listener)

    def take(self, batch: Batch | None, derived: Mapping[str, pl.DataFrame]) -> None:
        """Call the listeners for a new round.

        `batch`: the input of the round, or None at the end of the input. `derived`: the results of the round.
        """
        new = {} if batch is None or batch is self._batch else batch.tables
        if batch is not None and batch is not self._batch and batch.handover is not None:
            both = {name: pl.concat([table, derived[name]]) for name, table in batch.held.items() if name in derived}
            derived = {**derived, **batch.held, **both}
        self._notify(batch, self._new(batch), derived, {name: table.height for name, table in new.items()})

    def identified(self, derived: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
        """Return the tables of derived events, with the column `@id`. Empty tables are left out."""
        return {
            name: table
            if ID in table.columns
            else identified(self._cut(name, table), self.outputs[name], self.meanings[name])
            for name, table in derived.items()
            if table.height and name in self.outputs
        }

    def _cut(self, name: str, table: pl.DataFrame) -> pl.DataFrame:
        """Cut off the part of each interval that an earlier program derived (`cuts`). Intervals that had ended when
        this program took over stay unchanged."""
        time = self.cuts.get(name)
        if time is None or not (table["start"] < time).any():
            return table
        early = (pl.col("start") < time) & (pl.col("end") > time).fill_null(True)
        return table.with_columns(start=pl.when(early).then(time).otherwise("start"))

    def _apart(self, derived: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
        return {
            name: _without(self._cut(name, table), BECAUSE, CONSTITUENTS)
            for name, table in derived.items()
            if table.height and name not in self.outputs
        }

    def _new(self, batch: Batch | None) -> dict[str, pl.DataFrame]:
        """Return the new records of a step: those of the batch in the first step that processes it, and none in further
        steps of the same batch."""
        if batch is None or batch is self._batch:
            return {}
        return {name: _coming(table) for name, table in batch.tables.items()}

    def _notify(
        self,
        batch: Batch | None,
        inputs: Mapping[str, pl.DataFrame],
        derived: Mapping[str, pl.DataFrame],
        read: Mapping[str, int],
    ) -> None:
        engine, stats = self.engine, self.stats
        gone, come = _signed(derived)
        if engine.withdraws and batch is not None and batch is not self._batch:
            self._late = told_of(batch.tables, self.inputs, *self._before)
        unobserved, observed = ({}, {}) if self._records is None else self._records.take()
        self._before = engine.latest, engine.stable
        step_round = Round(
            number=self.rounds + 1,
            watermark=engine.watermark,
            inputs=inputs,
            derived=self.identified(come),
            records=stats.records,
            dead=stats.dead.total(),
            counts=engine.take_counts(),
            alerts=self._apart(come),
            ended=batch is None,
            withdrawn=self.identified(gone),
            recalled=self._apart(gone),
            stable=engine.stable,
            position=engine.position,
            late=self._late,
            observed=observed,
            unobserved=unobserved,
            read=read,
            handover=None if batch is None or batch is self._batch else batch.handover,
        )
        for listener in self._listeners:
            listener(step_round)
        self._batch, self.last, self.ended = batch, step_round, batch is None


def _signed(derived: Mapping[str, pl.DataFrame]) -> tuple[dict[str, pl.DataFrame], dict[str, pl.DataFrame]]:
    """Split each table. Return the tables of withdrawn rows, and the tables of added rows."""
    gone, come = {}, {}
    for name, table in derived.items():
        if CHANGE not in table.columns:
            come[name] = table
            continue
        rows, comes = _without(table, CHANGE), table[CHANGE].to_numpy() > 0
        if comes.all():  # the usual case; filtering a table of a few rows would take longer than everything else
            come[name] = rows
            continue
        gone[name], come[name] = rows.filter(~comes), rows.filter(comes)
    return gone, come


def _coming(table: pl.DataFrame) -> pl.DataFrame:
    """Return the table of records without the records that withdraw other records."""
    if CHANGE in table.columns:
        table = _without(table.filter(pl.col(CHANGE) > 0), CHANGE)
    return _without(table, ARRIVAL)


def _without(table: pl.DataFrame, *names: str) -> pl.DataFrame:
    """Return a copy of the table without the columns `names`. Names that the table lacks are ignored.

    `DataFrame.drop` is not used, because it would start a slow query.
    """
    rest = table.clone()
    for name in names:
        if name in rest.columns:
            rest.drop_in_place(name)
    return rest


class Relay(Service):
    """A service for events that another process has derived. The events arrive in batches, like records.

    `alert_engine`: an engine that derives only the occurrences of alerts from these batches. `engine`: the engine of
    the whole program. It does not process the batches, but its watermark follows that of `alert_engine`.
    """

    def __init__(self, engine: Engine, text: str, name: str, stats: RunStats, alert_engine: Engine) -> None:
        super().__init__(engine, text, name, stats)
        self.alert_engine = alert_engine

    def take(self, batch: Batch | None, derived: Mapping[str, pl.DataFrame]) -> None:
        events = {name: table for name, table in self._new(batch).items() if name in self.outputs}
        if batch is not None and batch is not self._batch:
            events |= batch.held
        self.engine.skip(self.alert_engine.watermark)
        self.stats.derived.update({name: table.height for name, table in events.items()})
        self._notify(batch, {}, {**events, **derived}, {})
