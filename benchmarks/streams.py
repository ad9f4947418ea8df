"""Random streams of events from a seed, as polars tables for the engine and as tuples for the Python loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

Row = tuple[Any, ...]
"""An input event of a Python loop: (type, time, *attributes)."""

Rows = dict[str, list[Row]]
"""The input of a Python loop: the events of each type in order of time, like the tables of the engine."""

Batch = dict[str, pl.DataFrame]

HOUR = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Stream:
    """Point events by type, each table sorted by time. Many have equal times, and a few are duplicates."""

    tables: Batch

    def rows(self) -> Rows:
        """Return the events as lists of tuples."""
        lists: Rows = {}
        for name, table in self.tables.items():
            columns = [table[column].to_list() for column in table.columns if column != "end"]
            lists[name] = [(name, *values) for values in zip(*columns)]
        return lists

    def split(self, at: int) -> tuple[Stream, Stream]:
        """Return about the first `at` events, and the rest. Events at the same time stay together."""
        times = np.sort(np.concatenate([table["start"].to_numpy() for table in self.tables.values()]))
        bound = int(times[at]) if at < len(times) else int(times[-1]) + 1
        cuts = {name: int(table["start"].search_sorted(bound)) for name, table in self.tables.items()}
        return (
            Stream({name: table[: cuts[name]] for name, table in self.tables.items()}),
            Stream({name: table[cuts[name] :] for name, table in self.tables.items()}),
        )

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield batches of about `size` events by time, without empty tables. Events at the same time stay together."""
        starts = {name: table["start"].to_numpy() for name, table in self.tables.items()}
        times = np.sort(np.concatenate(list(starts.values())))
        bounds = np.append(times[::size], times[-1] + 1)
        cuts = {name: np.searchsorted(start, bounds) for name, start in starts.items()}
        for number in range(len(bounds) - 1):
            spans = {name: (int(cut[number]), int(cut[number + 1])) for name, cut in cuts.items()}
            yield {name: self.tables[name][low:high] for name, (low, high) in spans.items() if high > low}


def mixed(types: dict[str, str], events: int, keys: int, seed: int, text: bool = False) -> Stream:
    """Return `events` events, a thousand per second, each of a random type. `types`: the value column of each type.

    Each event has an `id` out of `keys` ids (a string if `text` is True), and a value from 0 to 999.
    """
    random = np.random.default_rng(seed)
    times = milliseconds(events, random)
    kinds = random.integers(0, len(types), events)
    ids = random.integers(0, keys, events)
    values = random.integers(0, 1000, events)
    tables: Batch = {}
    for number, (name, value) in enumerate(types.items()):
        chosen = np.flatnonzero(kinds == number)
        table = point_table(times[chosen], {"id": ids[chosen], value: values[chosen]})
        tables[name] = table.with_columns(id=names_of(table["id"])) if text else table
    return Stream(tables)


def kinds(events: int, keys: int, number: int, seed: int) -> Stream:
    """Return `reading(id, kind, x)`, a thousand per second, with one of `number` kinds."""
    random = np.random.default_rng(seed)
    times = milliseconds(events, random)
    columns: dict[str, np.ndarray[Any, Any]] = {
        "id": random.integers(0, keys, events),
        "kind": random.integers(0, number, events),
        "x": random.integers(0, 1000, events),
    }
    return Stream({"reading": point_table(times, columns)})


def weather(events: int, keys: int, seed: int, wind: float = 14) -> Stream:
    """Return `reading(station, wind, visib, temp)`, hourly from each of `keys` stations.

    The weather is a random walk that returns to its mean. About a tenth of the readings, in runs, have wind >= 15,
    visib < 2 and temp <= 34. With a lower mean `wind` there are fewer such readings.
    """
    random = np.random.default_rng(seed)
    hours = -(-events // keys)
    calm = np.empty((hours, keys))
    cold = np.empty((hours, keys))
    storm, frost = random.normal(size=keys), random.normal(size=keys)
    for hour in range(hours):
        storm = 0.93 * storm + 0.37 * random.normal(size=keys)
        frost = 0.99 * frost + 0.14 * random.normal(size=keys)
        calm[hour], cold[hour] = storm, frost
    flat, frosts = calm.ravel()[:events], cold.ravel()[:events]
    place = np.arange(events)
    times = (place // keys) * HOUR + (place % keys) * (HOUR // keys)
    columns: dict[str, np.ndarray[Any, Any]] = {
        "station": place % keys,
        "wind": np.round(np.clip(wind + 6 * flat + random.normal(scale=2, size=events), 0, 100), 2),
        "visib": np.round(np.clip(4 - 4 * flat + random.normal(scale=0.5, size=events), 0, 10), 2),
        "temp": np.round(30 - 12 * frosts, 2),
    }
    return Stream({"reading": point_table(times, columns)})


def milliseconds(events: int, random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return the times of about a thousand events per second, in whole milliseconds like times of a clock."""
    return np.cumsum(random.integers(0, 2000, events)) // 1000 * 1000


def point_table(times: np.ndarray[Any, Any], columns: dict[str, np.ndarray[Any, Any]]) -> pl.DataFrame:
    """Return point events: `start` = `end` = the time, then the attributes."""
    return pl.DataFrame({"start": times, "end": times, **columns})


def names_of(ids: pl.Series) -> pl.Series:
    """Convert each number to a name of eight letters: 17 -> `k0000017`."""
    return "k" + ids.cast(pl.String).str.zfill(7)
