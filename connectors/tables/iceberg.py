"""Access to Iceberg tables through the library pyiceberg. Its configuration defines the catalogs.

A commit that adds rows under a name also stores its number in the properties of the table. Properties remain when
snapshots expire. The summary of the snapshot also contains the number, for readers of the table's history.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from cep.connectors.tables.names import TableName
from cep.core.extras import install_command
from cep.core.storage.failures import is_passing

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

TRIES = 10
"""The maximum number of attempts to add rows, which fail if another process changes the table at the same time."""

_PAUSE, _LONGEST = 0.05, 2.0  # the first and the longest pause between tries, in seconds
_SMALL = 1 << 25  # files with fewer bytes are merged
_COMMIT = "semcep.commit"  # a property of a snapshot: the unique name of its commit
_LOCKED = "database is locked"  # the error of a SQLite catalog that another process uses
_RETRIES = "commit.retry.num-retries"
_NEW = {"commit.manifest-merge.enabled": "true", "write.metadata.delete-after-commit.enabled": "true"}
"""The properties of a new table. They limit the amount of metadata, because a stream commits often."""


def table(name: TableName) -> Table | None:
    """Load the current version of a table. Return None if the table does not exist.

    Raise CepError if the table cannot be read, the catalog does not exist, or the library is not installed.
    """
    with _explaining(name):
        catalog, identifier = _catalog(name)
        return catalog.load_table(identifier) if catalog.table_exists(identifier) else None


def check(name: TableName, schema: pa.Schema | None = None) -> None:
    """Raise CepError if the table cannot be read, or its catalog does not exist. Only `write` checks columns."""
    table(name)


def is_added(name: TableName, number: int = 1) -> bool:
    """Return True if the table contains a commit under the name `name.append` whose number is at least `number`."""
    return name.append is not None and _added(name, table(name), number)


def write(name: TableName, rows: Callable[[], pa.RecordBatchReader], number: int = 1) -> None:
    """Write rows to a table in one commit. If `name.append` is None, the new rows replace the rows of the table.
    Otherwise, they are added under this name.

    `rows`: a function that returns the rows. It is called again for each attempt.

    Raise CepError if the commit fails, or if another run has added rows under this name. A commit that replaces rows
    also fails if another process has changed the table at the same time.
    """
    mine, pause = uuid4().hex, _PAUSE
    with _explaining(name):
        from pyiceberg.exceptions import CommitFailedException

        catalog, identifier = _catalog(name)
        for left in reversed(range(TRIES)):
            batches = rows()
            existing = _made(catalog, identifier, batches.schema)
            if any(_summary(snapshot).get(_COMMIT) == mine for snapshot in existing.snapshots()):
                return  # the commit succeeded, and its answer was lost
            if _added(name, existing, number):
                raise name.added_meanwhile()
            try:
                _commit(name, existing, batches, number, mine)
                return
            except CommitFailedException:
                if name.append is None or not left:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST)


def compact(name: TableName) -> None:
    """Merge small files into larger ones if there are at least `name.compact`. The commit does not change any row.

    The files are not merged if the table has partitions, or if another process changes the table at the same time.
    Raise CepError if the merge fails.
    """
    existing = None if name.compact is None else table(name)
    if existing is None or name.compact is None or not existing.spec().is_unpartitioned():
        return
    with _explaining(name):
        from pyiceberg.exceptions import CommitFailedException, ValidationException
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files, schema_to_pyarrow

        small = [
            plan_file
            for plan_file in existing.scan().plan_files()
            if not plan_file.delete_files and _is_small(plan_file.file)
        ]
        if len(small) < name.compact:
            return
        read = ArrowScan(existing.metadata, existing.io, existing.schema(), AlwaysTrue()).to_record_batches(small)
        rows = pa.RecordBatchReader.from_batches(schema_to_pyarrow(existing.schema(), include_field_ids=False), read)
        written = list(_dataframe_to_data_files(existing.metadata, rows, existing.io))
        try:
            with existing.transaction() as changes, changes.update_snapshot().overwrite() as files:
                for task in small:
                    files.delete_data_file(task.file)
                for new in written:
                    files.append_data_file(new)
        except (CommitFailedException, ValidationException):
            for new in written:
                with suppress(OSError):
                    existing.io.delete(new.file_path)


def _made(catalog: Any, identifier: str, schema: pa.Schema) -> Table:
    if not catalog.table_exists(identifier):
        catalog.create_namespace_if_not_exists(identifier.rpartition(".")[0])
        catalog.create_table_if_not_exists(identifier, schema=schema, properties=_NEW)
    existing: Table = catalog.load_table(identifier)
    return existing


def _commit(name: TableName, existing: Table, rows: pa.RecordBatchReader, number: int, mine: str) -> None:
    with existing.update_schema() as update:
        update.union_by_name(rows.schema)
    # Changes only this copy: the library would retry without checking if others have added rows under this name.
    existing.metadata.properties[_RETRIES] = "0"
    content = rows if existing.spec().is_unpartitioned() else rows.read_all()
    with existing.transaction() as changes:
        if name.append is None:
            changes.overwrite(content)
        else:
            added = {_property(name): str(number)}
            changes.append(content, {**added, _COMMIT: mine})
            changes.set_properties(added)


def _added(name: TableName, existing: Table | None, number: int) -> bool:
    known = None if existing is None or name.append is None else existing.properties.get(_property(name))
    return known is not None and int(known) >= number


def _is_small(file: DataFile) -> bool:
    return file.file_size_in_bytes < _SMALL


def _summary(snapshot: Any) -> dict[str, str]:
    return {} if snapshot.summary is None else dict(snapshot.summary.additional_properties)


def _property(name: TableName) -> str:
    return f"semcep.added.{name.append}"


def _catalog(name: TableName) -> tuple[Any, str]:
    from pyiceberg.catalog import load_catalog

    catalog, _, identifier = name.place.rpartition("/")
    return load_catalog(catalog), identifier


@contextmanager
def _explaining(name: TableName) -> Iterator[None]:
    """Return a context manager that converts the library's errors to CepError."""
    try:
        import pyiceberg.exceptions as raised
        from sqlalchemy.exc import SQLAlchemyError
    except ModuleNotFoundError as error:
        raise name.refused(f"no module {error.name}", install_command("iceberg")) from None
    known = [member for member in vars(raised).values() if isinstance(member, type) and issubclass(member, Exception)]
    try:
        yield
    except (*known, SQLAlchemyError, OSError, ValueError, pa.ArrowException) as error:
        first = str(error).partition("\n")[0]
        tried_again = raised.CommitFailedException, raised.CommitStateUnknownException
        away = isinstance(error, (raised.ServerError, raised.ServiceUnavailableError)) or is_passing(str(error))
        if away or _LOCKED in first or isinstance(error, tried_again):
            raise name.refused(first, passing=True) from None
        catalog = name.place.rpartition("/")[0]
        variable = f"PYICEBERG_CATALOG__{catalog.upper()}__URI"
        places = f"`{variable}=sqlite:////data/catalog.db` and `..__WAREHOUSE=file:///data`"
        hint = f"{places}, or ~/.pyiceberg.yaml, say what it is"
        raise name.refused(first, hint if "atalog" in first or "URI" in first else None) from None
