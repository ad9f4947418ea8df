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
from cep.runtime.family import MEMBER, Inlet
from cep.runtime.fluent_records import closing
from cep.runtime.parts import EngineParts
from cep.runtime.time_slices import SMALL, TimeSlice

NO_INLETS: Mapping[str, Inlet] = {}
EventBatch: TypeAlias = "Mapping[str, pl.DataFrame] | Iterable[Event]"


def receive(parts: EngineParts, batch: EventBatch | TimeSlice, in_turn: bool = False) -> None:
    """Add a batch to the reorder buffer.

    `in_turn`: True to judge the lateness of a row also by the rows before it in the batch.

    Raises CepError if an event type is unknown or a column is missing. The engine is then unchanged.
    """
    tables = admitted(parts, batch, in_turn, True)
    parts.buffer.receive({name: admitted_rows.table for name, admitted_rows in tables.items()})


def admitted(
    parts: EngineParts, batch: EventBatch | TimeSlice, in_turn: bool = False, together: bool = False
) -> dict[str, encode.Admitted]:
    """Return the admitted rows of a batch, by event type. Refused rows become dead letters.

    `in_turn`: as in `receive`. `together`: True to return small tables of a family as one table, under the name of the
    family's inlet (see `cep.runtime.family`).

    Raises CepError if an event type is unknown or a column is missing.
    """
    position, refused = parts.position, len(parts.dead)
    inlets = parts.inlets if together and parts.buffer.clocks is None else {}
    if isinstance(batch, TimeSlice):
        admitted_tables, position = _sliced(parts, batch), batch.end
    elif isinstance(batch, Mapping):
        ordered = any(ARRIVAL in frame.columns for frame in batch.values())
        if ordered and not all(ARRIVAL in frame.columns for frame in batch.values()):
            raise CepError("either all tables of a push have a column `@order` or none", code="column")
        admitted_tables, position = _tables(parts, batch, inlets)
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
            parts.dead += admitted_rows.named(
                [RefusedRow(name, row, "late", encode.late_reason(some, False, by_key(parts))) for row, some in late]
            )
            timely = admitted_rows.table.compress(~mask, axis=1)
            admitted_tables[name] = encode.Admitted(timely, admitted_rows.pushed(~mask), [], admitted_rows.first)
    if isinstance(batch, Mapping) and len(parts.dead) > refused:
        parts.dead[refused:] = by_table(parts.dead[refused:], batch)
    return admitted_tables


def by_table(refused: Iterable[RefusedRow], names: Iterable[str]) -> list[RefusedRow]:
    """Sort refused rows by the position of their table in `names`, the pushed tables. Late rows follow after all other
    rows."""
    places = {name: place for place, name in enumerate(names)}
    return sorted(refused, key=lambda row: (row.code == "late", places[row.type], row.row))


def _late(
    parts: EngineParts, tables: Mapping[str, Table], words: Mapping[str, Ints] | None, in_turn: bool
) -> dict[str, Ints]:
    """Return the lateness of rows in microseconds, by event type.

    A record that closes an open record of a fluent counts as late only if the end of its interval is late.
    """
    buffer = parts.buffer
    recorded = [name for name in tables if name in parts.plan.schemas and may_close(parts.plan, name)]
    before = buffer.clocks if recorded else None
    while True:
        buffer.clocks = buffer.clocks if before is None else before.copy()
        late = late_rows(parts, tables, words, buffer.watermark, 1 + (buffer.lateness or 0), in_turn)
        if not any(closing(parts, name, tables[name], late[name] > 0).any() for name in recorded if name in late):
            return late


def by_key(parts: EngineParts) -> str | None:
    """Return the attribute that identifies the clock of a row (`lateness_by`), or None if all rows share one clock."""
    return None if parts.buffer.clocks is None else parts.buffer.clocks.by


def key_words(
    parts: EngineParts, batch: Mapping[str, pl.DataFrame] | Sequence[Event] | TimeSlice, pushed: Mapping[str, Ints]
) -> dict[str, Ints] | None:
    """Return hashes of the pushed rows' keys, by event type. Returns None if all rows share one clock."""
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
    """Return the lateness of rows in microseconds, for each table that may have late rows.

    A row is late if it ends at or before `passed`, or if it ends at least `back` microseconds before the time of its
    clock. `words`: hashes of the rows' keys if each key has its own clock. If it is None, all rows share one clock,
    which shows the latest end of a row.
    """
    clocks = parts.buffer.clocks
    if clocks is not None and words is not None:
        return clocks.judge(tables, words, passed, back, in_turn)
    return encode.late(tables, passed, None if parts.buffer.lateness is None else back - 1, in_turn)


def _tables(
    parts: EngineParts, batch: Mapping[str, pl.DataFrame], inlets: Mapping[str, Inlet]
) -> tuple[dict[str, encode.Admitted], int]:
    small, position = small_tables(parts, batch, inlets), parts.position
    together = {name for admitted_rows in small.values() for name in admitted_rows.owners}
    admitted = {name: admitted_rows for name, admitted_rows in small.items() if admitted_rows.owners}
    for name, frame in batch.items():
        if name in small:
            admitted[name] = small[name]
        elif name not in together:
            if _withdraws(frame):
                message = f"a row of the table of `{name}` withdraws another, but the engine does not revise"
                raise CepError(
                    message, hint="use an engine with `revise`, or leave out the column `@change`", code="column"
                )
            admitted[name] = parts.admitted(encode.PushedColumns.of(frame), parts.schema(name), position)
        position += frame.height
    return admitted, position


def _withdraws(frame: pl.DataFrame) -> bool:
    return CHANGE in frame.columns and bool((frame[CHANGE].cast(pl.Int64, strict=False) == -1).any())


def small_tables(
    parts: EngineParts, batch: Mapping[str, pl.DataFrame], inlets: Mapping[str, Inlet] = NO_INLETS
) -> dict[str, encode.Admitted]:
    """Admit the small tables of a push, combined into one table per set of attributes.

    The result omits tables that cannot be concatenated, and tables with a row that does not match its schema. `inlets`:
    for event types whose rules run as one family, the input table that they share. The tables of all these types are
    returned as one table, under the inlet's name.
    """
    groups: dict[str, list[tuple[str, pl.DataFrame, int]]] = {}
    position = parts.position
    for name, frame in batch.items() if len(batch) > 1 else ():
        height = frame.height
        like = inlets[name][0].name if name in inlets else parts.alike.get(name)
        if height <= SMALL and like is not None:
            groups.setdefault(like, []).append((name, frame, position))
        position += height
    admitted: dict[str, encode.Admitted] = {}
    for like, tables in groups.items():
        if len(tables) == 1:
            continue
        names, frames, positions = zip(*tables, strict=True)
        heights = [frame.height for frame in frames]
        starts = np.cumsum([0, *heights])
        try:
            whole = pl.concat(frames)
            if _withdraws(whole):
                continue
            columns = encode.PushedColumns.of(whole)
            places = np.repeat(np.array(positions) - starts[:-1], heights) + np.arange(whole.height)
            if names[0] in inlets:
                columns = columns.joined(MEMBER, np.repeat([inlets[name][1] for name in names], heights))
                admitted_rows = parts.admitted(columns, inlets[names[0]][0], places)
                admitted_rows.owners, admitted_rows.starts = names, starts
                admitted_rows.dead = admitted_rows.named(admitted_rows.dead)
                admitted[like] = admitted_rows
            else:
                admitted |= parts.admitted(columns, parts.schema(like), places).divided(names, heights)
        except (CepError, pl.exceptions.PolarsError):
            continue
    return admitted


def _sliced(parts: EngineParts, piece: TimeSlice) -> dict[str, encode.Admitted]:
    return {
        name: parts.admitted(columns, parts.schema(name), piece.positions[name])
        for name, columns in piece.tables.items()
    }


def admitted_events(parts: EngineParts, batch: Iterable[Event]) -> tuple[dict[str, encode.Admitted], int]:
    """Admit events that are Python values. Return the occurrences by event type, and the next free input position."""
    by_type: dict[str, list[tuple[int, Event]]] = {}
    for place, event in enumerate(batch):
        by_type.setdefault(event.type, []).append((place, event))
    admitted, position, named = {}, parts.position, parts.history is not None
    for name, events in by_type.items():
        admitted[name] = encode.admit_events(events, parts.schema(name), parts.pool, parts.position, named)
        position += len(events)
    return admitted, position


def as_declared(event: Event, schema: Schema) -> Event:
    """Convert an event's numbers to texts where the schema declares the type `string`. Schemas of dialects without
    types do this."""
    types = [attribute.type for attribute in schema.attributes[: len(event.args)]]
    if len(types) != len(event.args):
        return event
    values = tuple(
        str(value) if type == "string" and isinstance(value, int | float) else value
        for value, type in zip(event.args, types, strict=True)
    )
    return replace(event, args=values)
