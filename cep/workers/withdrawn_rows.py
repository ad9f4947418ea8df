"""Merge rows that workers add and withdraw, so that the result equals that of a single engine.

A row exists while any worker has derived and not withdrawn it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from cep.connectors.arrow_bytes import pack, unpack
from cep.core.schema import ARRIVAL, CHANGE, TIE, Schema
from cep.workers.multiplicities import Ways, net
from cep.workers.row_runs import RowRuns


class WithdrawnRows:
    """The multiplicities of rows that may still be withdrawn, counted twice: for later stages, and for callers."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._ways = Ways(schemas), Ways(schemas)

    def handed_on(self, event: str, table: pl.DataFrame) -> pl.DataFrame:
        """Return the changes of an event's rows for a later stage. `table`: the changes from all partitions and
        stages."""
        return self._ways[0].take(event, table)

    def given(self, event: str, table: pl.DataFrame, several: bool) -> pl.DataFrame:
        """Return the changes of an event's rows for the caller of the engine, with withdrawals first.

        `table`: the changes from all partitions and stages. `several`: True if several of them may derive the same row.
        """
        counted = self._ways[1].take(event, table.drop(ARRIVAL, TIE)) if several else net(table)
        return counted.sort(CHANGE, maintain_order=True)

    def forget(self, stable: int) -> None:
        """Drop the rows that end at or before `stable` (microseconds), because they are never withdrawn."""
        for ways in self._ways:
            ways.forget(stable)

    def saved(self) -> Iterator[tuple[int, str, bytes]]:
        """Yield the stored tables. Each is paired with its use (0: for later stages, 1: for callers) and its event."""
        for number, ways in enumerate(self._ways):
            for event, held in sorted(ways.runs.items()):
                yield from ((number, event, pack(table)) for table in held.tables)

    def restore(self, saved: Sequence[tuple[int, str, bytes]]) -> None:
        """Restore the tables that `saved` has yielded."""
        for ways in self._ways:
            ways.runs = {}
        for number, event, table in saved:
            self._ways[number].runs.setdefault(event, RowRuns()).add(unpack(table))
