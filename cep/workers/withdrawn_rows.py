"""Merge rows that workers add and withdraw, as one engine returns them: a row exists while any worker has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from cep.connectors.arrow_bytes import pack, unpack
from cep.core.schema import ARRIVAL, CHANGE, TIE, Schema
from cep.workers.multiplicities import Ways, net
from cep.workers.row_runs import RowRuns


class WithdrawnRows:
    """In how many ways rows are made that may still be withdrawn, as stages take them and as they are given."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._ways = Ways(schemas), Ways(schemas)

    def handed_on(self, event: str, table: pl.DataFrame) -> pl.DataFrame:
        """Changes of an event that several partitions and stages may make alike, for a stage that takes it."""
        return self._ways[0].take(event, table)

    def given(self, event: str, table: pl.DataFrame, several: bool) -> pl.DataFrame:
        """The changes of an event, in order: first what is withdrawn. `several` may make it alike."""
        found = self._ways[1].take(event, table.drop(ARRIVAL, TIE)) if several else net(table)
        return found.sort(CHANGE, maintain_order=True)

    def forget(self, stable: int) -> None:
        """Nothing that ends at or before `stable` (microseconds) is withdrawn any more."""
        for each in self._ways:
            each.forget(stable)

    def saved(self) -> Iterator[tuple[int, str, bytes]]:
        """The tables, each with the way it is counted and its event."""
        for number, each in enumerate(self._ways):
            for event, held in sorted(each.runs.items()):
                yield from ((number, event, pack(table)) for table in held.tables)

    def restore(self, saved: Sequence[tuple[int, str, bytes]]) -> None:
        """Take on what was saved."""
        for each in self._ways:
            each.runs = {}
        for number, event, table in saved:
            self._ways[number].runs.setdefault(event, RowRuns()).add(unpack(table))
