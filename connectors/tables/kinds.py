"""The operations for each kind of table with transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import pyarrow as pa

from cep.connectors.tables import delta, iceberg
from cep.connectors.tables.names import TableName


class TableKind(Protocol):
    """The functions that the module of a kind provides."""

    def check(self, name: TableName, schema: pa.Schema | None = None) -> None:
        """Raise CepError if rows cannot be written to the table. `schema`: the schema of the rows, if it is known."""

    def is_added(self, name: TableName, number: int = 1) -> bool:
        """Return True if the table has the rows of commit `number`, or of a later one, under the name `append`."""

    def write(self, name: TableName, rows: Callable[[], pa.RecordBatchReader], number: int = 1) -> None:
        """Replace the rows of a table, or add rows under the name `append` as commit `number`. Both take a single
        commit."""

    def compact(self, name: TableName) -> None:
        """Merge small files if the table has at least `name.compact` of them."""


KINDS: Mapping[str, TableKind] = {"delta": delta, "iceberg": iceberg}
