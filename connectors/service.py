"""The service: passes what an engine was given and derived, round by round, to its listeners."""

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
    """One step of the engine: of a batch pushed, or of the end of the input.

    `number` counts from 1. `watermark` in microseconds UTC: nothing that ends at or before it will come any more.
    `inputs`: the records pushed, also those the engine refused: Int64 `start` and `end`, the attributes. `derived`: the
    new occurrences, likewise, then `@id` (cep/core/identity.py) and, with lineage, `because` (JSON). `withdrawn`: those
    of rounds before that are no more, likewise; they go before what is derived comes. `stable`: nothing that ends at or
    before it is ever withdrawn. `position`: so many records were taken, so that in every run over the same input a
    round has the same watermark and position, and a later round later ones. `late`: which of the records pushed may
    have changed what was derived before. `observed`: where that is asked for (`Service.observe`) the records that are
    there now, and `unobserved` those that are no more, as they were; else there are none.
    `read`: how many records were pushed, by event, also those that withdraw others. `handover`: the last triples of the
    program before this one, in its first round.
    `records` and `dead`: so many so far. `counts`: what each goal did in this round. `alerts`: the occurrences that
    ALERT statements tell of, by `Alert.table`, and `recalled` those that are no more. `ended`: no more will come,
    whatever the watermark says.
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
    """Takes what `cep.app.pipeline.flow` gives, in the engine's thread; listeners are called there, one after another.

    `text` is the program's text, `name` that of its file. `rounds`, `last` and `ended` may be read by any thread.
    `written`: of listeners that write later, a future that is done when all until now is written.
    """

    def __init__(
        self, engine: Engine, text: str, name: str, stats: RunStats, cuts: Mapping[str, int] | None = None
    ) -> None:
        """`cuts`: the fluents, and the tables of alerts on fluents, that another program had until a time: what began
        before begins then."""
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
        """Report in each round the records that arrive and are withdrawn, if records can be withdrawn."""
        if self._records is None and self.engine.withdraws:
            self._records = RecordChanges(self.engine)

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return 0 if self.last is None else self.last.number

    def listen(self, listener: RoundListener) -> None:
        """Every round from now on goes to the listener; said before the run begins."""
        assert self.last is None, "a later listener would miss the rounds before it"
        self._listeners.append(listener)

    def take(self, batch: Batch | None, derived: Mapping[str, pl.DataFrame]) -> None:
        """A batch just pushed, None: the end of the input; and what it derived."""
        new = {} if batch is None or batch is self._batch else batch.tables
        if batch is not None and batch is not self._batch and batch.handover is not None:
            both = {name: pl.concat([table, derived[name]]) for name, table in batch.held.items() if name in derived}
            derived = {**derived, **batch.held, **both}
        self._notify(batch, self._new(batch), derived, {name: table.height for name, table in new.items()})

    def identified(self, derived: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
        """Return the tables of derived events that have rows, with `@id`."""
        return {
            name: table
            if ID in table.columns
            else identified(self._cut(name, table), self.outputs[name], self.meanings[name])
            for name, table in derived.items()
            if table.height and name in self.outputs
        }

    def _cut(self, name: str, table: pl.DataFrame) -> pl.DataFrame:
        """The rows of a table, none of which begins before the program did."""
        time = self.cuts.get(name)
        if time is None or not (table["start"] < time).any():
            return table
        return table.with_columns(pl.col("start").clip(time), pl.col("end").clip(time))

    def _apart(self, derived: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
        """Return the tables that do not hold derived events."""
        return {
            name: _without(self._cut(name, table), BECAUSE, CONSTITUENTS)
            for name, table in derived.items()
            if table.height and name not in self.outputs
        }

    def _new(self, batch: Batch | None) -> dict[str, pl.DataFrame]:
        """Return the contents of a batch the first time that it comes; it may be processed in several steps."""
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
        one = Round(
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
            listener(one)
        self._batch, self.last, self.ended = batch, one, batch is None


def _signed(derived: Mapping[str, pl.DataFrame]) -> tuple[dict[str, pl.DataFrame], dict[str, pl.DataFrame]]:
    """Rows that are withdrawn, and rows that come."""
    gone, come = {}, {}
    for name, table in derived.items():
        if CHANGE not in table.columns:
            come[name] = table
            continue
        rows, comes = _without(table, CHANGE), table[CHANGE].to_numpy() > 0
        if comes.all():  # as mostly: to filter a table of a few rows takes longer than all else
            come[name] = rows
            continue
        gone[name], come[name] = rows.filter(~comes), rows.filter(comes)
    return gone, come


def _coming(table: pl.DataFrame) -> pl.DataFrame:
    """The records that come, not those that withdraw others."""
    if CHANGE in table.columns:
        table = _without(table.filter(pl.col(CHANGE) > 0), CHANGE)
    return _without(table, ARRIVAL)


def _without(table: pl.DataFrame, *names: str) -> pl.DataFrame:
    """The table without these columns, of which it may have none. (`DataFrame.drop` begins a query.)"""
    rest = table.clone()
    for name in names:
        if name in rest.columns:
            rest.drop_in_place(name)
    return rest


class Relay(Service):
    """Publishes what was derived elsewhere, in the same way: batches hold it, and an engine over them (`alert_engine`,
    of stage 0) derives only the occurrences of alerts. `engine` is the whole program; it does not run, and has the time
    of `alert_engine`."""

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
