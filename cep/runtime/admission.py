"""Admission of a batch to the reorder buffer: rows become occurrences; invalid and late rows become dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import polars as pl

from cep.core.errors import CepError
from cep.core.relation import Table
from cep.core.schema import ARRIVAL, CHANGE, Schema
from cep.core.values import Ints
from cep.events import Event
from cep.plan.event_schemas import may_close
from cep.runtime import encode
from cep.runtime.encode import RefusedRow
from cep.runtime.fluent_records import closing
from cep.runtime.parts import EngineParts
from cep.runtime.time_slices import TimeSlice

SMALL = 1 << 10
"""The maximum number of rows of a table that is admitted together with others."""
EventBatch: TypeAlias = "Mapping[str, pl.DataFrame] | Iterable[Event]"


def receive(parts: EngineParts, batch: EventBatch | TimeSlice, in_turn: bool = False) -> None:
    """Add a batch to the reorder buffer. `in_turn`: earlier rows of the batch can also make a row late.

    Raises CepError if an event is unknown or a column is missing. Nothing has changed then.
    """
    parts.buffer.receive({name: admitted_rows.table for name, admitted_rows in admitted(parts, batch, in_turn).items()})


def admitted(parts: EngineParts, batch: EventBatch | TimeSlice, in_turn: bool = False) -> dict[str, encode.Admitted]:
    """Return the rows of a batch that are admitted; the others become dead letters. Raises CepError as `receive`
    does."""
    position = parts.position
    if isinstance(batch, TimeSlice):
        admitted_tables, position = _sliced(parts, batch), batch.end
    elif isinstance(batch, Mapping):
        ordered = any(ARRIVAL in frame.columns for frame in batch.values())
        if ordered and not all(ARRIVAL in frame.columns for frame in batch.values()):
            raise CepError("either all tables of a push have a column `@order` or none", code="column")
        admitted_tables, position = _tables(parts, batch)
    else:
        batch = list(batch)
        admitted_tables, position = admitted_events(parts, batch)
    parts.position = position
    for admitted_rows in admitted_tables.values():
        parts.dead += admitted_rows.dead
    words = None
    if parts.buffer.clocks is not None:
        words = key_words(parts, batch, {name: rows.pushed(slice(None)) for name, rows in admitted_tables.items()})
    found_late = _late(parts, {name: rows.table for name, rows in admitted_tables.items()}, words, in_turn)
    for name, by in found_late.items():
        mask = by > 0
        if mask.any():
            admitted_rows = admitted_tables[name]
            late = zip(admitted_rows.pushed(mask).tolist(), by[mask].tolist())
            parts.dead += [
                RefusedRow(name, row, "late", encode.late_reason(some, False, by_key(parts))) for row, some in late
            ]
            timely = admitted_rows.table.compress(~mask, axis=1)
            admitted_tables[name] = encode.Admitted(timely, admitted_rows.pushed(~mask), [], admitted_rows.first)
    return admitted_tables


def _late(
    parts: EngineParts, tables: Mapping[str, Table], words: Mapping[str, Ints] | None, in_turn: bool
) -> dict[str, Ints]:
    """Return by how many microseconds rows are late. A record that closes an open record of a fluent counts by its
    end."""
    buffer = parts.buffer
    recorded = [name for name in tables if may_close(parts.plan, name)]
    before = buffer.clocks if recorded else None
    while True:
        buffer.clocks = buffer.clocks if before is None else before.copy()
        late = late_rows(parts, tables, words, buffer.watermark, 1 + (buffer.lateness or 0), in_turn)
        if not any(closing(parts, name, tables[name], late[name] > 0).any() for name in recorded if name in late):
            return late


def by_key(parts: EngineParts) -> str | None:
    """Return the attribute by whose values lateness is judged; None if it is judged for all rows together."""
    return None if parts.buffer.clocks is None else parts.buffer.clocks.by


def key_words(
    parts: EngineParts, batch: Mapping[str, pl.DataFrame] | Sequence[Event] | TimeSlice, pushed: Mapping[str, Ints]
) -> dict[str, Ints] | None:
    """Return hashes of the pushed rows' keys, by event; None if lateness is not judged by key."""
    clocks = parts.buffer.clocks
    if clocks is None or isinstance(batch, TimeSlice):
        return None
    return {name: clocks.words(name, batch, places) for name, places in pushed.items()}


def late_rows(
    parts: EngineParts,
    tables: Mapping[str, Table],
    words: Mapping[str, Ints] | None,
    passed: int,
    back: int,
    in_turn: bool,
) -> dict[str, Ints]:
    """Return by how many microseconds rows are late, for those tables that may have late rows.

    A row is late if it ends at or before `passed`, or if it ends `back` or more before the current time. With `words`,
    the current time is that of the row's key.
    """
    clocks = parts.buffer.clocks
    if clocks is not None and words is not None:
        return clocks.judge(tables, words, passed, back, in_turn)
    return encode.late(tables, passed, None if parts.buffer.lateness is None else back - 1, in_turn)


def _tables(parts: EngineParts, batch: Mapping[str, pl.DataFrame]) -> tuple[dict[str, encode.Admitted], int]:
    small, admitted, position = small_tables(parts, batch), {}, parts.position
    for name, frame in batch.items():
        if name not in small and _withdraws(frame):
            message = f"a row of the table of `{name}` withdraws another, but the engine does not revise"
            raise CepError(
                message, hint="use an engine with `revise`, or leave out the column `@change`", code="column"
            )
        admitted[name] = small.get(name) or parts.admitted(encode.PushedColumns.of(frame), parts.schema(name), position)
        position += frame.height
    return admitted, position


def _withdraws(frame: pl.DataFrame) -> bool:
    return CHANGE in frame.columns and bool((frame[CHANGE].cast(pl.Int64, strict=False) == -1).any())


def small_tables(parts: EngineParts, batch: Mapping[str, pl.DataFrame]) -> dict[str, encode.Admitted]:
    """Admit small tables of a push, as one table per set of attributes, because the cost per table exceeds that per
    row.

    Tables that cannot be concatenated, or that are not admitted as a whole, are omitted from the result.
    """
    groups: dict[str, list[tuple[str, pl.DataFrame, int]]] = {}
    position = parts.position
    for name, frame in batch.items() if len(batch) > 1 else ():
        height = frame.height
        if height <= SMALL and (like := parts.alike.get(name)) is not None:
            groups.setdefault(like, []).append((name, frame, position))
        position += height
    admitted: dict[str, encode.Admitted] = {}
    for like, tables in groups.items():
        if len(tables) == 1:
            continue
        heights = [frame.height for _, frame, _ in tables]
        starts = np.array([start for _, _, start in tables]) - np.cumsum([0, *heights[:-1]])
        try:
            whole = pl.concat([frame for _, frame, _ in tables])
            if not _withdraws(whole):
                positions = np.repeat(starts, heights) + np.arange(whole.height)
                admitted_rows = parts.admitted(encode.PushedColumns.of(whole), parts.schema(like), positions)
                admitted |= admitted_rows.divided([name for name, _, _ in tables], heights)
        except (CepError, pl.exceptions.PolarsError):
            continue
    return admitted


def _sliced(parts: EngineParts, piece: TimeSlice) -> dict[str, encode.Admitted]:
    return {
        name: parts.admitted(columns, parts.schema(name), piece.positions[name])
        for name, columns in piece.tables.items()
    }


def admitted_events(parts: EngineParts, batch: Iterable[Event]) -> tuple[dict[str, encode.Admitted], int]:
    """Admit events that are Python values. Return them by event name, and the input position that follows the last
    one."""
    by_type: dict[str, list[tuple[int, Event]]] = {}
    for place, event in enumerate(batch):
        by_type.setdefault(event.type, []).append((place, event))
    admitted, position, named = {}, parts.position, parts.history is not None
    for name, events in by_type.items():
        admitted[name] = encode.admit_events(events, parts.schema(name), parts.pool, parts.position, named)
        position += len(events)
    return admitted, position


def as_declared(event: Event, schema: Schema) -> Event:
    """Convert the numbers of an event to texts where a dialect without types declares texts."""
    types = [attribute.type for attribute in schema.attributes[: len(event.args)]]
    if len(types) != len(event.args):
        return event
    values = tuple(
        str(value) if type == "string" and isinstance(value, int | float) else value
        for value, type in zip(event.args, types, strict=True)
    )
    return replace(event, args=values)
