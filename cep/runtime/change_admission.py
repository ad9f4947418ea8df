"""Admission of a push under revision. A row adds a record, withdraws a record, or becomes a dead letter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl

from cep.core.errors import CepError
from cep.core.relation import END, ORDER, Table, rows
from cep.core.schema import ARRIVAL, CHANGE, Schema
from cep.core.time import BEGINNING, END_OF_TIME
from cep.events import Event
from cep.operators.goals.contract import Bools, Ints
from cep.plan.equal import equal_records
from cep.runtime import encode
from cep.runtime.admission import EventBatch, admitted_events, by_key, key_words, late_rows, small_tables
from cep.runtime.encode import RefusedRow
from cep.runtime.parts import EngineParts
from cep.runtime.revision.input_changes import UNKNOWN, input_changes
from cep.runtime.revision.revision import Revision
from cep.runtime.revision.row_window import RowChanges


@dataclass(slots=True)
class Pushed:
    """Pushed occurrences of one event type, in order of arrival.

    - `withdraws`: a mask of the occurrences that are withdrawals. It is None if there are no withdrawals.
    - `rows`: for each occurrence, the number of its row in the pushed table. It is None if the table's rows are the
      occurrences, in order.
    - `span`: the earliest and the latest end time of an occurrence.
    """

    table: Table
    withdraws: Bools | None
    rows: Ints | None = None
    span: tuple[int, int] = (END_OF_TIME, BEGINNING)

    def __post_init__(self) -> None:
        if rows(self.table):
            self.span = int(self.table[END].min()), int(self.table[END].max())

    @property
    def places(self) -> Ints:
        """Return, for each occurrence, the number of its row in the pushed table."""
        return np.arange(rows(self.table)) if self.rows is None else self.rows

    def pushed(self, places: Ints) -> list[int]:
        """Return the row numbers in the pushed table of the occurrences at the positions `places`."""
        positions: list[int] = self.places[places].tolist()
        return positions


def receive_changes(parts: EngineParts, batch: EventBatch, in_turn: bool = False) -> None:
    """Admit a push of additions and withdrawals.

    `in_turn`: True to judge the lateness of a row also by the rows before it in the batch.

    Raises CepError if an event type is unknown, a column is missing, or a `@change` is invalid. The engine is then
    unchanged.
    """
    revision = parts.revision
    assert revision is not None, "input is revised"
    batch = batch if isinstance(batch, Mapping) else list(batch)
    pushed, parts.position = taken(parts, batch)
    refuse_final(parts, revision, pushed, batch, in_turn)
    for event, arrived in pushed.items():
        if event in (revision.window.handed or ()):
            goes = np.zeros(rows(arrived.table), np.bool_) if arrived.withdraws is None else arrived.withdraws
            revision.take(event, RowChanges(*(arrived.table.compress(mask, axis=1) for mask in (goes, ~goes))))
        elif rows(arrived.table):
            parts.buffer.count(*arrived.span)
            known, key = partial(revision.known, event), parts.plan.schemas[event].key_places
            last, several = revision.last(event), event in equal_records(parts.plan).several
            new = input_changes(arrived.table, arrived.span[0], arrived.withdraws, known, last, key, several)
            reason = "withdraws a record that does not exist"
            parts.dead += [RefusedRow(event, row, UNKNOWN, reason) for row in arrived.pushed(new.unknown)]
            parts.merged[event] += new.merged
            revision.take(event, new.changes, arrived.span if new.changes.coming is arrived.table else None)


def go_on(parts: EngineParts, watermark: int) -> dict[str, RowChanges]:
    """Advance the watermark. Return the new results, and the corrections that late changes cause, by event type."""
    assert parts.revision is not None, "input is revised"
    row_changes = parts.revision.go_on(parts.buffer.frontier(max(watermark, parts.revision.watermark)))
    parts.buffer.watermark = parts.revision.watermark
    return row_changes


def taken(parts: EngineParts, batch: EventBatch) -> tuple[dict[str, Pushed], int]:
    """Convert a push to occurrences by event type. Return them, and the next free input position.

    Rows that do not match the schema become dead letters. Raises CepError if an event type is unknown, a column is
    missing, or a `@change` is invalid.
    """
    if not isinstance(batch, Mapping):
        admitted, position = admitted_events(parts, batch)
        parts.dead += [row for rows in admitted.values() for row in rows.dead]
        return {name: Pushed(rows.table, None, rows.rows) for name, rows in admitted.items()}, position
    small, pushed, position = small_tables(parts, batch), {}, parts.position
    for name, frame in batch.items():
        schema = parts.schema(name)
        withdraws = _withdraws(schema, frame)
        if withdraws is None:
            come = small.get(name) or parts.admitted(encode.PushedColumns.of(frame), schema, position)
            parts.dead += come.dead
            pushed[name] = Pushed(come.table, None, come.rows)
        else:
            pushed[name] = _changes(parts, schema, frame, withdraws, position)
        position += frame.height
    return pushed, position


def _withdraws(schema: Schema, frame: pl.DataFrame) -> Bools | None:
    """Return a mask of the rows that withdraw a record, or None if no row does. Raises CepError if a `@change` is
    invalid."""
    if CHANGE not in frame.columns:
        return None
    changes = frame[CHANGE]
    numbers = changes.cast(pl.Int64, strict=False).fill_null(1)
    if changes.dtype == pl.String or not numbers.is_in([1, -1]).all():
        message = f"`{CHANGE}` of the table of `{schema.name}` must be 1 or -1: 1 adds the row, -1 withdraws it"
        raise CepError(message, hint="use an Int8 column; without it, every row is added", code="column")
    withdraws = numbers.to_numpy() < 0
    return withdraws if withdraws.any() else None


def _changes(parts: EngineParts, schema: Schema, frame: pl.DataFrame, withdraws: Bools, position: int) -> Pushed:
    """Admit a pushed table that contains withdrawals. `withdraws`: a mask of the rows that are withdrawals."""
    if ARRIVAL not in frame.columns:
        frame = frame.with_columns(pl.int_range(position, position + frame.height, eager=True).alias(ARRIVAL))
    parts_ = []
    for mask, kind in ((~withdraws, schema), (withdraws, named_by_key(schema))):
        if not mask.any() and len(mask):
            continue
        places = np.flatnonzero(mask)
        admitted = parts.admitted(encode.PushedColumns.of(frame.drop(CHANGE)[places]), kind, position)
        parts.dead += [replace(row, row=int(places[row.row])) for row in admitted.dead]
        own = places[admitted.pushed(np.ones(rows(admitted.table), np.bool_))]
        parts_.append((admitted.table, own))
    table = np.concatenate([table for table, _ in parts_], axis=1)
    own = np.concatenate([places for _, places in parts_])
    order = np.argsort(table[ORDER], kind="stable")
    return Pushed(table.take(order, axis=1), withdraws[own[order]], own[order])


def named_by_key(schema: Schema) -> Schema:
    """Return the schema for withdrawals of an event type. If the type has a KEY, all other attributes are optional."""
    if schema.key_places is None:
        return schema
    own = set(schema.key_places)
    attributes = tuple(attr if i in own else replace(attr, optional=True) for i, attr in enumerate(schema.attributes))
    return replace(schema, attributes=attributes)


def refuse_final(
    parts: EngineParts,
    revision: Revision,
    pushed: dict[str, Pushed],
    batch: Mapping[str, pl.DataFrame] | Sequence[Event],
    in_turn: bool,
) -> None:
    """Remove rows that end at a time whose results are already final, and add them to the dead letters.

    `pushed`: the occurrences, from which the rows are removed. `batch`: the push to which they belong. `in_turn`: see
    `receive_changes`.
    """
    behind = revision.window.behind + revision.window.length
    words = None
    if parts.buffer.clocks is not None:
        words = key_words(parts, batch, {name: arrived.places for name, arrived in pushed.items()})
    latest = max((rows.span[1] for rows in pushed.values()), default=BEGINNING)
    if words is None and all(rows.span[0] > max(revision.stable, latest - behind) for rows in pushed.values()):
        return
    come = {name: coming.table for name, coming in pushed.items()}
    late = late_rows(parts, come, words, revision.stable, behind, in_turn)
    for name, by in late.items():
        mask = by > 0
        if not mask.any():
            continue
        pushed_rows = pushed[name]
        rows_late = zip(pushed_rows.pushed(np.flatnonzero(mask)), by[mask].tolist())
        parts.dead += [
            RefusedRow(name, row, "late", encode.late_reason(some, True, by_key(parts))) for row, some in rows_late
        ]
        kept = np.flatnonzero(~mask)
        pushed[name] = Pushed(
            pushed_rows.table.take(kept, axis=1),
            None if pushed_rows.withdraws is None else pushed_rows.withdraws[kept],
            kept if pushed_rows.rows is None else pushed_rows.rows[kept],
        )
