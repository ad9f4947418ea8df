"""Run all variants of a program over a history in one pass, and collect the detections of each variant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from cep.app.pipeline import Interrupt, flow
from cep.backtest.nab import Key, Times
from cep.connectors.alerts.lifecycle import AlertLifecycle
from cep.connectors.dead_letters import DeadLetters
from cep.connectors.records.batch import Batch
from cep.engine import Engine
from cep.runtime.options import EngineOptions
from cep.runtime.run_stats import RunStats
from cep.variants import Variants


@dataclass(slots=True)
class History:
    """The result of a pass over a history.

    - `detections`: for each variant, the times of its detections, by key.
    - `since`, `until`: the end of the first record, and the end of the last record.
    - `keys`: the keys that occur in records. It is None if no input event has all attributes of the key.
    - `first_dead`: a description of the first dead letter, or None if there was none.
    """

    detections: list[dict[Key, Times]]
    since: int
    until: int
    stats: RunStats
    keys: set[Key] | None
    first_dead: str | None


@dataclass(slots=True)
class _Collected:
    """A collector of the detections of one variant, as tables of keys and times."""

    key: Sequence[str]
    tables: list[pl.DataFrame] = field(default_factory=list)

    def add(self, table: pl.DataFrame, lateness: int) -> None:
        self.tables.append(table.select(*self.key, pl.col("end") + lateness))

    def times(self) -> dict[Key, Times]:
        if not self.tables:
            return {}
        table = pl.concat(self.tables, how="vertical_relaxed").sort("end")
        if not self.key:
            return {(): table["end"].to_numpy()}
        groups = table.group_by(*self.key, maintain_order=True).agg(pl.col("end"))
        ends = groups["end"].explode().to_numpy()
        cuts = np.cumsum(groups["end"].list.len().to_numpy())[:-1]
        return dict(zip(groups.select(self.key).rows(), np.split(ends, cuts)))


def detections_of(
    variants: Variants,
    detect: str,
    key: Sequence[str],
    batches: Iterator[Batch],
    interrupt: Interrupt,
    options: EngineOptions,
    seen: Callable[[float], None],
) -> History:
    """Run all variants over a history, and collect their detections.

    - `detect`: the event whose occurrences are the detections, or the alert whose firing is a detection.
    - `key`: the attributes of the key.
    - `seen`: a callback that receives the progress, from 0 to 1.

    The time of a detection is its end plus the lateness, because it becomes known only then.
    """
    engine = Engine(variants.program, options)
    lateness = options.lateness or 0
    alert = bool(variants.alerts[0])
    names = [alerts[detect].name if alert else own[detect] for alerts, own in variants.both]
    collected = {name: _Collected(key) for name in names}
    lifecycle = _lifecycle(engine) if alert else None
    ends: list[tuple[int, int]] = []
    having = [
        name
        for name, schema in engine.inputs.items()
        if set(key) <= {attribute.name for attribute in schema.attributes}
    ]
    keys: set[Key] = set()
    stats = RunStats()

    def take(batch: Batch | None, tables: Mapping[str, pl.DataFrame]) -> None:
        seen(stats.done or 0.0 if batch is not None else 1.0)
        for table in () if batch is None else batch.tables.values():
            if table.height:
                column = table["end"].to_numpy()
                ends.append((int(column.min()), int(column.max())))
        for name in having if key else ():
            if batch is not None and name in batch.tables:
                keys.update(batch.tables[name].select(key).unique().rows())
        if lifecycle is None:
            for name in collected.keys() & tables.keys():
                if tables[name].height:
                    collected[name].add(tables[name], lateness)
            return
        until = engine.watermark if batch is not None else max([engine.latest, *_ends(tables)])
        for change in lifecycle.take(tables, until):
            if change.state == "firing":
                own = pl.DataFrame({"end": [change.time], **{column: [change.values.get(column)] for column in key}})
                collected[change.name].add(own, lateness)

    with closing(DeadLetters(None)) as dead_letters:
        flow(engine, batches, stats, take, dead_letters, interrupt)
    times = {name: collector.times() for name, collector in collected.items()}
    since, until = min((first for first, _ in ends), default=0), max((last for _, last in ends), default=0)
    own = keys if key and having else None
    return History([times[name] for name in names], since, until, stats, own, dead_letters.first_told)


def _ends(tables: Mapping[str, pl.DataFrame]) -> list[int]:
    return [int(end) for table in tables.values() if isinstance(end := table["end"].max(), int)]


def _lifecycle(engine: Engine) -> AlertLifecycle:
    schemas = {table: engine.plan.schemas[table] for alert in engine.alerts for table in alert.tables}
    return AlertLifecycle(engine.alerts, schemas, engine.inputs.keys() - engine.outputs.keys(), engine.meanings())
