"""Names of tables on the command line, such as `delta:folder?append=2026-11-22` and `iceberg:catalog/plant.hot`."""

from __future__ import annotations

import os
from dataclasses import dataclass

from cep.core.errors import UNREACHABLE, CepError
from cep.core.storage.urls import is_url, local_path, url
from cep.core.suggest import did_you_mean

KINDS = ("delta", "iceberg")
OPTIONS = ("append", "compact")


@dataclass(frozen=True, slots=True)
class TableName:
    """The parsed name of a table.

    - `place`: the folder of a Delta table, or `catalog/namespace.table` for an Iceberg table.
    - `append`: the name under which rows are added, or None. Rows are added only once under each name. If it is None,
      new rows replace the rows of the table.
    - `compact`: the number of small files at which they are merged into larger files. It is None if files are never
      merged.
    - `option`: the command-line option in which the user wrote the name.
    """

    kind: str
    place: str
    append: str | None = None
    compact: int | None = None
    option: str = "--output"

    @property
    def text(self) -> str:
        return f"{self.kind}:{self.place}"

    def refused(self, reason: str, hint: str | None = None, passing: bool = False) -> CepError:
        """Return an error about the table. `passing`: True if another attempt may succeed."""
        return CepError(f"{self.option} {self.text}: {reason}", hint=hint, code=UNREACHABLE if passing else "output")

    def added_meanwhile(self) -> CepError:
        return self.refused(f"another run has already added the rows of `{self.append}`", "nothing is added twice")


def is_table(text: str) -> bool:
    """Return True if an input or output names a table that has transactions, and not a file."""
    kind, colon, _ = text.partition(":")
    return bool(colon) and kind in KINDS


def input_table(text: str) -> TableName:
    """Parse the name of an input table. Raise CepError if the name is invalid or has options."""
    named = table_name(text, "--input")
    if named.append is not None or named.compact is not None:
        raise named.refused("an input table has no options")
    return named


def table_name(text: str, option: str = "--output") -> TableName:
    """Parse the name of an output table. Raise CepError if the name is invalid or has an unknown option.

    `option`: the command-line option in which the user wrote the name.
    """
    kind, _, rest = text.partition(":")
    place, _, query = rest.partition("?")
    named = TableName(kind, place, option=option)
    if kind == "delta":
        place = str(url(place)) if is_url(place) else os.path.abspath(local_path(place)) if place else ""
    catalog, slash, table = place.rpartition("/")
    if not place or (kind == "iceberg" and not (catalog and slash and "." in table.strip("."))):
        hint = "`delta:folder`, `delta:s3://bucket/table`" if kind == "delta" else "`iceberg:catalog/namespace.table`"
        raise named.refused("the name of the table is missing or not valid", hint)
    options: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        name, equals, value = part.partition("=")
        if name not in OPTIONS:
            hint = did_you_mean(name, OPTIONS) or f"options are {', '.join(OPTIONS)}"
            raise named.refused(f"`{name}` is not an option", hint)
        if not equals or not value:
            raise named.refused(f"`{name}` has no value", f"`?{name}=...`")
        options[name] = value
    compact = options.get("compact")
    if compact is not None and not (compact.isdecimal() and int(compact) > 1):
        raise named.refused(
            f"`compact={compact}` is not a number of at least 2",
            "use the number of files from which to compact: `?compact=20`",
        )
    return TableName(kind, place, options.get("append"), None if compact is None else int(compact), option)
