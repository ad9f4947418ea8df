"""The operations on tables that have transactions, for each kind of table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import pyarrow as pa

from cep.connectors.tables import delta, iceberg
from cep.connectors.tables.names import TableName


class TableKind(Protocol):
    """The functions that the module for each kind of table provides."""

    def check(self, name: TableName, schema: pa.Schema | None = None) -> None:
        """Raise CepError if rows cannot be written to the table. `schema`: the columns of the rows, or None."""

    def is_added(self, name: TableName, number: int = 1) -> bool:
        """Return True if the table contains a commit under the name `name.append` whose number is at least `number`."""

    def write(self, name: TableName, rows: Callable[[], pa.RecordBatchReader], number: int = 1) -> None:
        """Write rows to a table in one commit, which gets the number `number`.

        If `name.append` is None, the new rows replace the rows of the table. Otherwise, they are added under this name.
        """

    def compact(self, name: TableName) -> None:
        """Merge small files into larger ones if the table has at least `name.compact` files."""


KINDS: Mapping[str, TableKind] = {"delta": delta, "iceberg": iceberg}
