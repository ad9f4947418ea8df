"""Delta and Iceberg tables as inputs. The Parquet files that contain a table's rows are read like other files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from cep.connectors.tables import delta, iceberg
from cep.connectors.tables.names import TableName

if TYPE_CHECKING:
    from deltalake import DeltaTable

_UNREAD = ("deletionVectors", "columnMapping")
"""Unsupported features of Delta tables, with which rows cannot be read from the Parquet files alone."""


def table_files(name: TableName) -> list[str]:
    """Return the Parquet files of the table's current version, sorted by name.

    Raise CepError if the table does not exist or has no rows, or if its rows cannot be read from these files alone.
    """
    files = _of_delta(name) if name.kind == "delta" else _of_iceberg(name)
    if not files:
        raise name.refused("the table has no rows")
    return sorted(unquote(file).removeprefix("file://") for file in files)


def _of_delta(name: TableName) -> list[str]:
    existing: DeltaTable | None = delta.table(name)
    if existing is None:
        raise name.refused("the folder is not a Delta table", "use a folder that contains `_delta_log`")
    features = existing.protocol().reader_features or ()
    for feature in _UNREAD:
        if feature in features:
            raise name.refused(
                f"the table has the feature {feature}, which is not supported", "write it as Parquet files"
            )
    if columns := existing.metadata().partition_columns:
        listed = ", ".join(f"`{column}`" for column in columns)
        raise name.refused(
            f"it is partitioned by {listed}, which its files do not contain", "write it as Parquet files"
        )
    return list(existing.file_uris())


def _of_iceberg(name: TableName) -> list[str]:
    existing: Any = iceberg.table(name)
    if existing is None:
        raise name.refused("there is no such table in the catalog")
    tasks = list(existing.scan().plan_files())
    if any(task.delete_files for task in tasks):
        raise name.refused("the table has deleted rows in its files, which cannot be read", "compact the table")
    return [task.file.file_path for task in tasks]
