"""The operations of each kind of table with transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import pyarrow as pa

from cep.connectors.tables import delta, iceberg
from cep.connectors.tables.names import TableName


class TableKind(Protocol):
    """The functions of its module."""

    def check(self, name: TableName, schema: pa.Schema | None = None) -> None:
        """CepError: rows, of this schema if it is known, cannot be written there."""

    def is_added(self, name: TableName, number: int = 1) -> bool:
        """Return True if the rows to append under the name were appended, up to this number of several in a row."""

    def write(self, name: TableName, rows: Callable[[], pa.RecordBatchReader], number: int = 1) -> None:
        """Replace the rows of a table, or add some under the name, in one commit."""

    def compact(self, name: TableName) -> None:
        """Merge small files, if there are as many as the name says."""


KINDS: Mapping[str, TableKind] = {"delta": delta, "iceberg": iceberg}
