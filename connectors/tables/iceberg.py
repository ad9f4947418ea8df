"""Iceberg tables, through pyiceberg; its configuration says what a catalog is.

What is added under a name leaves the name among the properties of the table, by the same commit: there it stays when
snapshots expire.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.table_names import TableName

if TYPE_CHECKING:
    from pyiceberg.table import Table


def table(name: TableName) -> Table | None:
    """The table as it is now; None: there is none. CepError: it cannot be read, there is no such catalog, or the
    library is not installed."""
    with _explaining(name):
        catalog, identifier = _catalog(name)
        return catalog.load_table(identifier) if catalog.table_exists(identifier) else None


def added(name: TableName, there: Table | None) -> bool:
    """Whether what is to be added under the name was added."""
    return there is not None and name.append is not None and _property(name) in there.properties


def write(name: TableName, rows: pa.RecordBatchReader) -> None:
    """Replace the rows of a table, or add some under the name, in one commit. CepError: they cannot be, or the table
    was changed by another at the same time."""
    with _explaining(name):
        catalog, identifier = _catalog(name)
        if not catalog.table_exists(identifier):
            catalog.create_namespace_if_not_exists(identifier.rpartition(".")[0])
            catalog.create_table(identifier, schema=rows.schema)
        there = catalog.load_table(identifier)
        if added(name, there):
            raise name.added_meanwhile()
        with there.update_schema() as update:
            update.union_by_name(rows.schema)
        with there.transaction() as changes:
            if name.append is None:
                changes.overwrite(rows.read_all())
            else:
                changes.append(rows.read_all())
                changes.set_properties({_property(name): "added"})


def _property(name: TableName) -> str:
    return f"semcep.added.{name.append}"


def _catalog(name: TableName) -> tuple[Any, str]:
    from pyiceberg.catalog import load_catalog

    catalog, _, identifier = name.place.rpartition("/")
    return load_catalog(catalog), identifier


@contextmanager
def _explaining(name: TableName) -> Iterator[None]:
    """What the library refuses while the block runs is a CepError."""
    try:
        import pyiceberg.exceptions
        from sqlalchemy.exc import SQLAlchemyError
    except ModuleNotFoundError as error:
        raise name.refused(f"no module {error.name}", "pip install 'semcep[iceberg]'") from None
    known = [one for one in vars(pyiceberg.exceptions).values() if isinstance(one, type) and issubclass(one, Exception)]
    try:
        yield
    except (*known, SQLAlchemyError, OSError, ValueError, pa.ArrowException) as error:
        first = str(error).partition("\n")[0]
        catalog = name.place.rpartition("/")[0]
        variable = f"PYICEBERG_CATALOG__{catalog.upper()}__URI"
        places = f"`{variable}=sqlite:////data/catalog.db` and `..__WAREHOUSE=file:///data`"
        hint = f"{places}, or ~/.pyiceberg.yaml, say what it is"
        raise name.refused(first, hint if "atalog" in first or "URI" in first else None) from None
