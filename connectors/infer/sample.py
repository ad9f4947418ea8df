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

    - `columns`: for each path, one value per event. A missing value is None.
    - `text`: True if the values are text fields of a table.
    - `typed`: for each column that has a type in the file, this type.
    - `left_out`: for each path that no declaration can read, the reason.
    - `remarks`: sentences about other properties of the records, which the user should read.
    - `records`: the number of records.
    - `series`: the path of the list whose elements are events.
    - `positional`: True if the values in a record have positions instead of names.
    - `bound`: True if records have a key `type` that does not name an event type. The user has to bind the file to an
      event type.
    - `when`: the test that selects the records of the event type, or None if all records belong to it.
    - `nameless`: True if the file does not name its columns, so the names of the columns are invented.
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

        A record that withdraws another record may lack attributes, so the sample must not contain it.
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
