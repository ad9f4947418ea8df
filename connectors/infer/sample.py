"""The first records of an event type, as one column of values per path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from cep.connectors.records.revised import WITHDRAW
from cep.core.schema import CHANGE, RecordFormat, When


@dataclass(slots=True)
class RecordSample:
    """A sample of the records of one event type.

    - `columns`: by path, one value per event; None if it is missing.
    - `text`: True if the values are texts of a table.
    - `typed`: the types of the columns that have a type, by name.
    - `left_out`: the paths that no declaration can read, each with the reason.
    - `remarks`: other things that the user should know.
    - `records`: the number of records.
    - `series`: the path of the list whose elements are events.
    - `positional`: True if the values have positions instead of names.
    - `bound`: True if the records have a `type` that cannot name an event type. The user has to bind the file to one.
    - `when`: the test that selects the records of the event type; None selects all records.
    - `nameless`: True if the names of the columns are invented.
    """

    name: str | None
    count: int = 0
    columns: dict[str, list[Any]] = field(default_factory=dict)
    text: bool = False
    typed: Mapping[str, pa.DataType] = field(default_factory=dict)
    format: RecordFormat | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    unreadable: int = 0
    remarks: list[str] = field(default_factory=list)
    records: int | None = None
    series: str | None = None
    positional: bool = False
    bound: bool = False
    when: When | None = None
    nameless: bool = False

    def without_changes(self) -> None:
        """Remove the column `@change`, which is not an attribute, and the records that withdraw other records.

        A record that withdraws another may lack attributes.
        """
        if (changes := self.columns.pop(CHANGE, None)) is None:
            return
        is_kept = [str(change) not in (WITHDRAW, "-1", "-1.0") for change in changes]
        self.columns = {
            path: [value for value, kept in zip(column, is_kept) if kept] for path, column in self.columns.items()
        }
        self.count = sum(is_kept)
        self.remarks.append(f"`{CHANGE}` is not an attribute: it marks withdrawals, which `cep run --revise` reads")

    def add(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            column = self.columns.get(name)
            if column is None:
                column = self.columns[name] = [None] * self.count
            column.append(value)
        self.count += 1
        for column in self.columns.values():
            if len(column) < self.count:
                column.append(None)
