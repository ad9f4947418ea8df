"""Multiplicities of rows that several buckets or stages derive: a row exists until none of them derives it any more."""

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


class Ways:
    """The rows of some events that may still be withdrawn, each with its multiplicity.

    Tables that it takes and returns have `@change`: 1, a row is added, -1, it is withdrawn. It only looks at rows
    that end when one of the changed rows ends.
    """

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        """`schemas`: of the events, or of more."""
        self.schemas = schemas
        self.runs: dict[str, RowRuns] = {}
        self._book = SegmentBook()

    def take(self, event: str, changes: pl.DataFrame) -> pl.DataFrame:
        """Turn changes in multiplicity into rows that appear or disappear."""
        held = self.runs.setdefault(event, RowRuns())
        signs = changes[CHANGE].cast(pl.Int64).alias(_WAYS)
        before = held.leaving(np.unique(ends_of(changes)))
        parts = [table.with_columns(table[_WAYS].alias(_BEFORE)) for table in before]
        parts.append(changes.drop(CHANGE).with_columns(signs, pl.lit(0, pl.Int64).alias(_BEFORE)))
        every = plain(stacked([part.select(parts[-1].columns) for part in parts]))
        counted = every.group_by(pl.exclude(_WAYS, _BEFORE), maintain_order=True).agg(pl.sum(_WAYS), pl.sum(_BEFORE))
        is_, was = counted[_WAYS] > 0, counted[_BEFORE] > 0
        assert not (counted[_WAYS] < 0).any(), "nothing is withdrawn that is not there"
        held.add(unplain(counted.filter(is_).drop(_BEFORE)))
        sign = pl.when(pl.col(_WAYS) > 0).then(1).otherwise(-1).cast(pl.Int8).alias(CHANGE)
        return unplain(counted.filter(is_ != was).with_columns(sign).drop(_WAYS, _BEFORE))

    def forget(self, stable: int) -> None:
        """Drop what ends at or before `stable` (microseconds), and so is never withdrawn."""
        for event, held in self.runs.items():
            fluent = self.schemas[event].fluent
            held.forget(stable - (0 if fluent is None else fluent.late))
        self.runs = {event: held for event, held in self.runs.items() if held.tables}

    def snapshot(self, program: str) -> SegmentedState:
        """The state, of which a table is a segment; `program`: what it is of."""
        there = {event: held.tables for event, held in sorted(self.runs.items()) if held.tables}
        names = [self._book.name(id(t), t, partial(_batch, t)) for tables in there.values() for t in tables]
        head = {"tables": [[event, len(tables)] for event, tables in there.items()]}
        return SegmentedState(snapshot.save(head, [], program), names, self._book.taken())

    def restore(self, state: bytes, names: Sequence[str], fetch: Fetch, program: str) -> Ways:
        """Take on a state; gives itself. CepError: it is of another program, or damaged."""
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


def _batch(table: pl.DataFrame) -> pa.RecordBatch:
    return plain(table).rechunk().to_arrow().combine_chunks().to_batches()[0]


def _table(batch: pa.RecordBatch) -> pl.DataFrame:
    found = pl.from_arrow(pa.Table.from_batches([batch]))
    assert isinstance(found, pl.DataFrame), "a table is read"
    return unplain(found)


def added(derived: Mapping[str, pl.DataFrame]) -> dict[str, int]:
    """How many rows come, by event."""
    return {
        event: int((table[CHANGE] > 0).sum()) if CHANGE in table.columns else table.height
        for event, table in derived.items()
    }


def withdrawn(derived: Mapping[str, pl.DataFrame]) -> dict[str, int]:
    """How many rows go for good, by event."""
    going = {event: table for event, table in derived.items() if (table[CHANGE] < 0).any()}
    found = {event: int((net(table)[CHANGE] < 0).sum()) for event, table in going.items()}
    return {event: number for event, number in found.items() if number}


def net(table: pl.DataFrame, whatever: tuple[str, ...] = (TIE, ARRIVAL)) -> pl.DataFrame:
    """Changes without those that take each other back; rows that differ but in `whatever` are the same, and what they
    have there is left out."""
    found = plain(table.drop(whatever, strict=False))
    counted = found.group_by(pl.exclude(CHANGE), maintain_order=True).agg(pl.col(CHANGE).cast(pl.Int64).sum())
    kept = counted.filter(pl.col(CHANGE) != 0)
    return unplain(kept.with_columns(pl.col(CHANGE).sign().cast(pl.Int8)))
