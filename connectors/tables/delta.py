"""Access to Delta tables through the library delta-rs.

Each commit stores an application transaction in the same log entry as its files. The transaction has the name
`semcep:NAME` and a number. After a crash, it shows whether the commit has added its rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from cep.connectors.tables.names import TableName
from cep.core.extras import install_command
from cep.core.storage import stores
from cep.core.storage.failures import explained, is_passing
from cep.core.storage.urls import is_url, url

if TYPE_CHECKING:
    from deltalake import DeltaTable


_PATIENCE = {"timeout": "25s", "retry_timeout": "20s"}
"""The time limit for a request to an object store, and the time limit for all retries of a request. The library's
default for the second one is 3 minutes."""


def table(name: TableName) -> DeltaTable | None:
    """Load the current version of a table. Return None if the table does not exist.

    Raise CepError if the table cannot be read, or if the library is not installed.
    """
    with _explaining(name):
        from deltalake import DeltaTable

        options = _options(name.place)
        if not DeltaTable.is_deltatable(name.place, options):
            return None
        return DeltaTable(name.place, storage_options=options)


def check(name: TableName, schema: pa.Schema | None = None) -> None:
    """Raise CepError if rows with the columns `schema` cannot be written to the table.

    This is the case if `name.place` is a file or a folder with other content. If `name.append` is set and the table
    exists, its columns must also have the same types as in `schema` (see `_fitting`).
    """
    existing = table_at(name)
    if existing is not None and name.append is not None and schema is not None:
        _fitting(name, existing, schema)


def table_at(name: TableName) -> DeltaTable | None:
    """Load the table in the folder `name.place`. Return None if the table does not exist yet.

    Raise CepError if the place is a file or a folder with other content, or if the table cannot be read.
    """
    if not is_url(name.place) and os.path.exists(name.place):
        if not os.path.isdir(name.place):
            raise name.refused(
                "this is a file, but a Delta table is a folder", "use the name of a folder: `delta:folder`"
            )
        if not os.path.isdir(os.path.join(name.place, "_delta_log")) and os.listdir(name.place):
            raise name.refused(
                "the folder has files, but is not a Delta table", "use a folder that is empty or does not exist"
            )
    return table(name)


def _fitting(name: TableName, existing: DeltaTable, schema: pa.Schema) -> None:
    """Raise CepError if a column in `schema` has another type than the column of the same name in the existing table.

    Without this check, the library would convert the new values, for example true to 1.0. Only integers may be added to
    a column of floats.
    """
    known = {field.name: field.type for field in pa.schema(existing.schema().to_arrow())}
    for field in schema:
        old = known.get(field.name, field.type)
        if _kind(old) != _kind(field.type) and (_kind(field.type), _kind(old)) != ("int", "float"):
            hint = "use another table; or leave out `append`, which replaces the rows of the table"
            raise name.refused(
                f"`{field.name}` is {_kind(old)} in the table, but {_kind(field.type)} in this run", hint
            )


def _kind(type: pa.DataType) -> str:
    """Return a name for a column type, for comparisons and error messages. Types that differ only in how they are
    stored have the same name."""
    if pa.types.is_dictionary(type):
        return _kind(type.value_type)
    if pa.types.is_timestamp(type):
        return "time" if type.tz else "time without an offset"
    kinds = {"int": pa.types.is_integer, "float": pa.types.is_floating}
    kind = next((name for name, is_one in kinds.items() if is_one(type)), None)
    return kind or str(type).removeprefix("large_").removesuffix("_view")


def is_added(name: TableName, number: int = 1) -> bool:
    """Return True if the table contains a commit under the name `name.append` whose number is at least `number`."""
    return name.append is not None and added(name, table(name), number)


def added(name: TableName, existing: DeltaTable | None, number: int = 1) -> bool:
    """Return True if a table that has been loaded contains a commit that added rows under the name `name.append`, and
    whose number is `number` or greater."""
    if existing is None or name.append is None:
        return False
    with _explaining(name):
        known = existing.transaction_version(_application(name))
    return known is not None and known >= number


def write(name: TableName, rows: Callable[[], pa.RecordBatchReader], number: int = 1) -> None:
    """Write rows to a table in one commit. If `name.append` is None, the new rows replace the rows of the table.
    Otherwise, they are added under this name.

    Raise CepError if the commit fails, or if another run has added rows under this name.
    """
    from deltalake import CommitProperties, Transaction, write_deltalake

    mine = [] if name.append is None else [Transaction(_application(name), number)]
    existing, batches = table(name), rows()
    if added(name, existing, number):
        raise name.added_meanwhile()
    if existing is not None and name.append is not None:
        _fitting(name, existing, batches.schema)
    if existing is None and not is_url(name.place):
        with _explaining(name):
            os.makedirs(name.place, exist_ok=True)
    with _explaining(name):
        write_deltalake(
            name.place if existing is None else existing,
            batches,
            mode="overwrite" if name.append is None else "append",
            schema_mode=None if existing is None else "overwrite" if name.append is None else "merge",
            storage_options=_options(name.place) if existing is None else None,
            commit_properties=CommitProperties(app_transactions=mine),
        )


def compact(name: TableName) -> None:
    """Merge small files into larger ones if the table has at least `name.compact` files."""
    existing = None if name.compact is None else table(name)
    if existing is not None and name.compact is not None and len(existing.file_uris()) >= name.compact:
        with _explaining(name):
            existing.optimize.compact()


def _application(name: TableName) -> str:
    return f"semcep:{name.append}"


def _options(place: str) -> dict[str, str] | None:
    if not is_url(place):
        return None
    options = dict(_PATIENCE)
    kind = url(place).kind
    if kind == "s3":
        options["conditional_put"] = "etag"  # so that one of two concurrent commits fails
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    elif kind == "gs":
        options |= stores.of_emulator()
        endpoint = os.environ.get("STORAGE_EMULATOR_HOST", "")
    else:
        endpoint = os.environ.get("AZURE_STORAGE_ENDPOINT") or os.environ.get("AZURE_ENDPOINT") or ""
    return options | ({"allow_http": "true"} if endpoint.startswith("http://") else {})


@contextmanager
def _explaining(name: TableName) -> Iterator[None]:
    """Return a context manager that converts the library's errors to CepError."""
    os.environ.setdefault("RUST_LOG", "error")  # otherwise it prints where it searches for credentials
    try:
        from deltalake.exceptions import DeltaError
    except ModuleNotFoundError as error:
        raise name.refused(f"no module {error.name}", install_command("delta")) from None
    try:
        yield
    except (DeltaError, OSError, ValueError, pa.ArrowException) as error:
        first = str(error).partition("\n")[0]
        if is_url(name.place):
            why = explained(OSError(str(error)), url(name.place))
            raise name.refused(why.strerror or first, why.hint, is_passing(str(error))) from None
        raise name.refused(first) from None
