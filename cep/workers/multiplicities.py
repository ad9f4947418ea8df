"""Multiplicities of rows that several buckets or stages derive. A row exists while at least one of them derives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa

from cep.connectors.arrow_bytes import plain, unplain
from cep.core.schema import ARRIVAL, CHANGE, TIE, Schema
from cep.runtime import snapshot
from cep.runtime.buckets import stacked
from cep.runtime.snapshot import Fetch, SegmentBook, SegmentedState
from cep.workers.row_runs import RowRuns, ends_of

_WAYS = "@ways"
_BEFORE = "@before"
_MOVED = "@moved"
_PLACE = "@place"


class Ways:
    """The rows of some event types that may still be withdrawn, and the multiplicity of each row.

    The tables that its methods take and return have a column `@change`: 1 for an added row, -1 for a withdrawn row. To
    find a changed row, only the stored rows that end at the same time are searched.
    """

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self.schemas = schemas
        self.runs: dict[str, RowRuns] = {}
        self._book = SegmentBook()

    def take(self, event: str, changes: pl.DataFrame) -> pl.DataFrame:
        """Turn changes of multiplicities into rows that appear or disappear.

        If the rows have the column `ARRIVAL`, a later stage reads them. Rows that differ only in their arrival are then
        one row, the first of them. If an added row ties with a later row that stays, the later row is withdrawn and
        added again.
        """
        held = self.runs.setdefault(event, RowRuns())
        signs = changes[CHANGE].cast(pl.Int64).alias(_WAYS)
        before = held.leaving(np.unique(ends_of(changes)))
        parts = [table.with_columns(table[_WAYS].alias(_BEFORE)) for table in before]
        parts.append(changes.drop(CHANGE).with_columns(signs, pl.lit(0, pl.Int64).alias(_BEFORE)))
        every = plain(stacked([part.select(parts[-1].columns) for part in parts])).with_row_index(_PLACE)
        moved, place = pl.col(_WAYS).min() < 0, pl.col(_PLACE)
        places = pl.when(moved).then(place.filter(pl.col(_WAYS) > 0).last()).otherwise(place.first())
        sums = pl.sum(_WAYS), pl.sum(_BEFORE), moved.alias(_MOVED), places.alias(_PLACE)
        counted = every.group_by(pl.exclude(_WAYS, _BEFORE, _PLACE), maintain_order=True).agg(*sums)
        assert not (counted[_WAYS] < 0).any(), "nothing is withdrawn that is not there"
        counted = counted.sort(["end", "start", ARRIVAL, _PLACE] if ARRIVAL in counted.columns else _PLACE)
        held.add(unplain(counted.filter(counted[_WAYS] > 0).drop(_BEFORE, _MOVED, _PLACE)))
        is_, was = (_first(counted, counted[ways] > 0) for ways in (_WAYS, _BEFORE))
        comes = is_ & ~was
        if ARRIVAL in counted.columns:
            changed = counted.with_columns((comes | (is_ & counted[_MOVED])).cast(pl.Int8).alias(_MOVED))
            comes = is_ & (changed.select(pl.col(_MOVED).cum_max().over("end", "start", ARRIVAL)).to_series() > 0)
        rows = counted.drop(_WAYS, _BEFORE, _MOVED, _PLACE)
        halves = ((was & (~is_ | comes), -1), (comes, 1))
        signed = [rows.filter(mask).with_columns(pl.lit(sign, pl.Int8).alias(CHANGE)) for mask, sign in halves]
        return unplain(pl.concat(signed))

    def forget(self, stable: int) -> None:
        """Drop the rows that end at or before `stable` (microseconds), because they are never withdrawn."""
        for event, held in self.runs.items():
            fluent = self.schemas[event].fluent
            held.forget(stable - (0 if fluent is None else fluent.late))
        self.runs = {event: held for event, held in self.runs.items() if held.tables}

    def snapshot(self, program: str) -> SegmentedState:
        """Return the state. Each table is one segment. `program`: the fingerprint of the program."""
        tables_by_event = {event: held.tables for event, held in sorted(self.runs.items()) if held.tables}
        names = [self._book.name(id(t), t, partial(_batch, t)) for tables in tables_by_event.values() for t in tables]
        head = {"tables": [[event, len(tables)] for event, tables in tables_by_event.items()]}
        return SegmentedState(snapshot.save(head, [], program), names, self._book.taken())

    def restore(self, state: bytes, names: Sequence[str], fetch: Fetch, program: str) -> Ways:
        """Restore a state, and return this object. Raises CepError if it is damaged or belongs to another program."""
        header, _ = snapshot.load(state, program)
        with snapshot.restoring():
            rest = iter(names)
            for event, count in header["tables"]:
                mine = [next(rest) for _ in range(count)]
                tables = [_table(snapshot.streamed(fetch(name))) for name in mine]
                self.runs[event] = RowRuns(tables)
                for table, name in zip(tables, mine):
                    self._book.know(id(table), table, name)
        self._book.taken()
        return self


def _first(counted: pl.DataFrame, mask: pl.Series) -> pl.Series:
    """Return `mask` without the rows that differ from an earlier row in `mask` only in their arrival."""
    if ARRIVAL not in counted.columns:
        return mask
    places = mask.arg_true()
    first = counted[places].drop(ARRIVAL, _WAYS, _BEFORE, _MOVED, _PLACE).to_struct().is_first_distinct()
    return pl.Series(np.isin(np.arange(counted.height), places.filter(first).to_numpy()))


def _batch(table: pl.DataFrame) -> pa.RecordBatch:
    return plain(table).rechunk().to_arrow().combine_chunks().to_batches()[0]


def _table(batch: pa.RecordBatch) -> pl.DataFrame:
    frame = pl.from_arrow(pa.Table.from_batches([batch]))
    assert isinstance(frame, pl.DataFrame), "a table is read"
    return unplain(frame)


def added(derived: Mapping[str, pl.DataFrame]) -> dict[str, int]:
    """Return the number of added rows, by event type."""
    return {
        event: int((table[CHANGE] > 0).sum()) if CHANGE in table.columns else table.height
        for event, table in derived.items()
    }


def withdrawn(derived: Mapping[str, pl.DataFrame]) -> dict[str, int]:
    """Return the number of rows that are withdrawn and not added again, by event type."""
    going = {event: table for event, table in derived.items() if (table[CHANGE] < 0).any()}
    counts = {event: int((net(table)[CHANGE] < 0).sum()) for event, table in going.items()}
    return {event: number for event, number in counts.items() if number}


def net(table: pl.DataFrame, whatever: tuple[str, ...] = (TIE, ARRIVAL)) -> pl.DataFrame:
    """Return the changes that remain after opposite changes of equal rows have cancelled each other.

    `whatever`: columns that are dropped first, so that rows may differ in them.
    """
    plain_table = plain(table.drop(whatever, strict=False))
    counted = plain_table.group_by(pl.exclude(CHANGE), maintain_order=True).agg(pl.col(CHANGE).cast(pl.Int64).sum())
    kept = counted.filter(pl.col(CHANGE) != 0)
    return unplain(kept.with_columns(pl.col(CHANGE).sign().cast(pl.Int8)))


def composed(runs: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Compose successive changes of the same event, without their column `TIE`.

    A row that exists before and after all changes is withdrawn and added again if any change moves it. So rows that tie
    end up in the order of the last change.
    """
    table = stacked(runs).drop(TIE)
    rows = plain(table.drop(CHANGE)).to_struct()
    kept = (rows.is_first_distinct() & (table[CHANGE] < 0)) | (rows.is_last_distinct() & (table[CHANGE] > 0))
    return table.filter(kept)
