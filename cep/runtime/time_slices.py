"""Division of a large push into slices of time. A slice is converted just before it runs, so that it stays in the
processor's cache.

Only tables that are sorted by time are divided. They are divided at the same instants at which the machine would divide
them. So the output, the refused rows, the positions and the watermark are the same as without division.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.schema import ARRIVAL, CHANGE
from cep.core.time import FARTHEST
from cep.runtime import machine
from cep.runtime.encode import PushedColumns
from cep.runtime.parts import EngineParts

SMALL = 1 << 10
"""The maximum number of rows of a small table. Small tables of a push are admitted together."""


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """The part of a push that lies in one slice of time.

    - `tables`: the rows of the slice, by event.
    - `since`: the time after which all rows of the slice end. Rows that end earlier are in earlier slices.
    - `positions`: by event, the input position of the slice's first row.
    - `end`: the input position after all rows of the push.
    """

    tables: Mapping[str, PushedColumns]
    positions: Mapping[str, int]
    end: int
    since: int


def time_slices(parts: EngineParts, batch: object) -> list[TimeSlice]:
    """Divide a push into slices of time. Returns an empty list if the push is small or cannot be divided."""
    if parts.history is not None or parts.buffer.clocks is not None:
        return []
    if parts.buffer.lateness is None or not isinstance(batch, Mapping):
        return []
    total = sum(frame.height for frame in batch.values())
    if total <= 2 * machine.SLICE or (parts.inlets and total <= SMALL * len(batch)):
        return []  # the small tables of a family are admitted together
    whole = {name: PushedColumns.of(frame) for name, frame in batch.items()}
    ends: dict[str, NDArray[np.int64]] = {}
    for name, columns in whole.items():
        times = _ends(columns)
        if times is None or not _complete(parts, name, columns) or not pl.Series(times).is_sorted():
            return []
        ends[name] = times
    latest = max(int(times[-1]) for times in ends.values() if len(times))
    reached = min(latest, FARTHEST) - parts.buffer.lateness - 1
    largest = max(ends.values(), key=len)
    stride = max(1, len(largest) * machine.SLICE // total)
    cuts = [int(cut) for cut in np.unique(largest[stride - 1 :: stride]) if parts.buffer.watermark < cut <= reached]
    if not cuts:
        return []
    first, position = {}, parts.position
    for name, frame in batch.items():
        first[name], position = position, position + frame.height
    slices: list[TimeSlice] = []
    done = dict.fromkeys(batch, 0)
    for number in range(len(cuts) + 1):
        stops = {
            name: int(np.searchsorted(times, cuts[number], side="right")) if number < len(cuts) else len(times)
            for name, times in ends.items()
        }
        tables = {name: columns.between(done[name], stops[name]) for name, columns in whole.items()}
        positions = {name: first[name] + done[name] for name in batch}
        since = cuts[number - 1] if number else parts.buffer.watermark
        slices.append(TimeSlice(tables, positions, position, since))
        done = stops
    return slices


def _complete(parts: EngineParts, name: str, columns: PushedColumns) -> bool:
    schema = parts.plan.schemas.get(name)
    if schema is None or name not in parts.plan.inputs or not ("start" in columns or "time" in columns):
        return False
    return all(attribute.name in columns for attribute in schema.attributes)


def _ends(columns: PushedColumns) -> NDArray[np.int64] | None:
    name = next((name for name in ("end", "start", "time") if name in columns), "")
    return None if ARRIVAL in columns or CHANGE in columns else columns.integers.get(name)
