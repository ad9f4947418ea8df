"""Merge rows that workers add and withdraw, as a single engine returns them. A row exists while any worker has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from cep.connectors.arrow_bytes import pack, unpack
from cep.core.schema import ARRIVAL, CHANGE, TIE, Schema
from cep.workers.multiplicities import Ways, net
from cep.workers.row_runs import RowRuns


class WithdrawnRows:
    """The multiplicities of rows that may still be withdrawn: as passed between stages, and as returned to callers."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._ways = Ways(schemas), Ways(schemas)

    def handed_on(self, event: str, table: pl.DataFrame) -> pl.DataFrame:
        """Return the changes of an event for a stage that reads it. Several partitions and stages may derive the
        event."""
        return self._ways[0].take(event, table)

    def given(self, event: str, table: pl.DataFrame, several: bool) -> pl.DataFrame:
        """Return the changes of an event, withdrawals first. `several`: several partitions or stages may derive the
        same rows."""
        counted = self._ways[1].take(event, table.drop(ARRIVAL, TIE)) if several else net(table)
        return counted.sort(CHANGE, maintain_order=True)

    def forget(self, stable: int) -> None:
        """Drop the rows that end at or before `stable` (microseconds). They are never withdrawn."""
        for ways in self._ways:
            ways.forget(stable)

    def saved(self) -> Iterator[tuple[int, str, bytes]]:
        """Yield the tables, each with its use (0: between stages, 1: for callers) and its event."""
        for number, ways in enumerate(self._ways):
            for event, held in sorted(ways.runs.items()):
                yield from ((number, event, pack(table)) for table in held.tables)

    def restore(self, saved: Sequence[tuple[int, str, bytes]]) -> None:
        """Restore saved tables."""
        for ways in self._ways:
            ways.runs = {}
        for number, event, table in saved:
            self._ways[number].runs.setdefault(event, RowRuns()).add(unpack(table))
