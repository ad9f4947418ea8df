"""A history run once through all variants of a program: the detections of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from cep.app.pipeline import Interrupt, flow
from cep.backtest.scoring import Key, Times
from cep.engine import Engine
from cep.runtime.options import EngineOptions
from cep.runtime.run_stats import RunStats
from cep.variants import Variants
from connectors.alerts.lifecycle import AlertLifecycle
from connectors.batch import Batch
from connectors.dead_letters import DeadLetters


@dataclass(slots=True)
class History:
    """The result of a pass over a history: for each variant the times of detections by key; the ends of the first and
    the last record; counts of records."""

    detections: list[dict[Key, Times]]
    since: int
    until: int
    stats: RunStats


@dataclass(slots=True)
class _Collected:
    """The detections of variants that share a name."""

    keys: dict[Key, list[Times]] = field(default_factory=dict)

    def add(self, table: pl.DataFrame, key: Sequence[str], lateness: int) -> None:
        if not key:
            self.keys.setdefault((), []).append(table["end"].to_numpy() + lateness)
            return
        for own, part in table.group_by(*key, maintain_order=True):
            self.keys.setdefault(tuple(own), []).append(part["end"].to_numpy() + lateness)

    def times(self) -> dict[Key, Times]:
        return {key: np.sort(np.concatenate(parts)) for key, parts in self.keys.items()}


def detections_of(
    variants: Variants,
    detect: str,
    key: Sequence[str],
    batches: Iterator[Batch],
    interrupt: Interrupt,
    options: EngineOptions,
) -> History:
    """Run a history through variants. `detect`: the event, or the alert whose firing is a detection; `key`: the
    attributes that tell keys apart. A detection's time is when it is known: its end, and the lateness later."""
    engine = Engine(variants.program, options)
    lateness = options.lateness or 0
    alert = bool(variants.alerts[0])
    names = [alerts[detect].name if alert else own[detect] for alerts, own in variants.both]
    found = {name: _Collected() for name in names}
    lifecycle = _lifecycle(engine) if alert else None
    ends: list[tuple[int, int]] = []

    def take(batch: Batch | None, tables: Mapping[str, pl.DataFrame]) -> None:
        for table in () if batch is None else batch.tables.values():
            if table.height:
                column = table["end"].to_numpy()
                ends.append((int(column.min()), int(column.max())))
        if lifecycle is None:
            for name in found.keys() & tables.keys():
                if tables[name].height:
                    found[name].add(tables[name], key, lateness)
            return
        until = engine.watermark if batch is not None else max([engine.latest, *_ends(tables)])
        for change in lifecycle.take(tables, until):
            if change.state == "firing":
                own = pl.DataFrame({"end": [change.time], **{each: [change.values.get(each)] for each in key}})
                found[change.name].add(own, key, lateness)

    stats = RunStats()
    with closing(DeadLetters(None)) as dead_letters:
        flow(engine, batches, stats, take, dead_letters, interrupt)
    times = {name: each.times() for name, each in found.items()}
    since, until = min((first for first, _ in ends), default=0), max((last for _, last in ends), default=0)
    return History([times[name] for name in names], since, until, stats)


def _ends(tables: Mapping[str, pl.DataFrame]) -> list[int]:
    return [int(end) for table in tables.values() if isinstance(end := table["end"].max(), int)]


def _lifecycle(engine: Engine) -> AlertLifecycle:
    schemas = {table: engine.plan.schemas[table] for alert in engine.alerts for table in alert.tables}
    return AlertLifecycle(engine.alerts, schemas, engine.inputs.keys() - engine.outputs.keys(), engine.meanings())
