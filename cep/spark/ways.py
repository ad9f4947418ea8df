"""In how many ways rows are made: what several buckets or stages make is there until none of them does any more."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pyarrow as pa

from cep.core.schema import ARRIVAL, CHANGE, TIE, Schema
from cep.runtime import snapshot
from cep.runtime.buckets import stacked
from connectors.arrow_bytes import plain, unplain

_WAYS = "@ways"
_BEFORE = "@before"


class Ways:
    """Of some events the rows that may still be withdrawn, each with the number of ways in which it was made. What it
    takes and gives has `@change`: 1, a row is added, -1, it is withdrawn."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        """`schemas`: of the events, or of more."""
        self.schemas = schemas
        self.tables: dict[str, pl.DataFrame] = {}

    def take(self, event: str, changes: pl.DataFrame) -> pl.DataFrame:
        """What these changes of ways change of what is there."""
        signs = changes[CHANGE].cast(pl.Int64).alias(_WAYS)
        parts = [changes.drop(CHANGE).with_columns(signs, pl.lit(0, pl.Int64).alias(_BEFORE))]
        if event in self.tables:
            before = self.tables[event]
            parts.insert(0, before.with_columns(before[_WAYS].alias(_BEFORE)))
        every = plain(stacked(parts))
        counted = every.group_by(pl.exclude(_WAYS, _BEFORE), maintain_order=True).agg(pl.sum(_WAYS), pl.sum(_BEFORE))
        is_, was = counted[_WAYS] > 0, counted[_BEFORE] > 0
        assert not (counted[_WAYS] < 0).any(), "nothing is withdrawn that is not there"
        self.tables[event] = unplain(counted.filter(is_).drop(_BEFORE))
        sign = pl.when(pl.col(_WAYS) > 0).then(1).otherwise(-1).cast(pl.Int8).alias(CHANGE)
        return unplain(counted.filter(is_ != was).with_columns(sign).drop(_WAYS, _BEFORE))

    def forget(self, stable: int) -> None:
        """Drop what ends at or before `stable` (microseconds), and so is never withdrawn."""
        for event, table in self.tables.items():
            fluent = self.schemas[event].fluent
            late = 0 if fluent is None else fluent.late
            end = table["end" if "end" in table.columns else "time"]
            self.tables[event] = table.filter((end + late > stable).fill_null(True))
        self.tables = {event: table for event, table in self.tables.items() if table.height}

    def snapshot(self, program: str) -> bytes:
        """The state; `program`: what it is of."""
        there = {event: plain(table) for event, table in sorted(self.tables.items()) if table.height}
        batches = [table.rechunk().to_arrow().combine_chunks().to_batches()[0] for table in there.values()]
        return snapshot.save({"events": list(there)}, batches, program)

    def restore(self, state: bytes, program: str) -> Ways:
        """Take on a state; gives itself. CepError: it is of another program, or damaged."""
        header, batches = snapshot.load(state, program)
        for event, batch in zip(header["events"], batches, strict=True):
            found = pl.from_arrow(pa.Table.from_batches([batch]))
            assert isinstance(found, pl.DataFrame), "a table is read"
            self.tables[event] = unplain(found)
        return self


def net(table: pl.DataFrame, whatever: tuple[str, ...] = (TIE, ARRIVAL)) -> pl.DataFrame:
    """Changes without those that take each other back; rows that differ but in `whatever` are the same, and what they
    have there is left out."""
    found = plain(table.drop(whatever, strict=False))
    counted = found.group_by(pl.exclude(CHANGE), maintain_order=True).agg(pl.col(CHANGE).cast(pl.Int64).sum())
    kept = counted.filter(pl.col(CHANGE) != 0)
    return unplain(kept.with_columns(pl.col(CHANGE).sign().cast(pl.Int8)))
