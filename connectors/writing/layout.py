"""The column layout of a file or table that contains several types of derived events."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pyarrow as pa

from cep.connectors.writing.writers import arrow, time_columns, typed
from cep.core.schema import Schema

_TYPES: Mapping[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us", "UTC"),
    "duration": pa.float64(),
}

BOUNDS = "bounds"
"""The column that contains the bounds of a fluent's intervals, such as `[)`."""
TIMES = ("start", "end", "time")
"""The columns that contain times: `start` and `end` of events and intervals, `time` of beginnings and ends."""


class ParquetLayout:
    """The columns of a Parquet file that contains several event types.

    An attribute has a column with the attribute's name. Event types that have an attribute of the same name and the
    same type share this column. If the types differ, or if the name is reserved for another column, each event type has
    its own column `<event>_<attribute>`.
    """

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        self.single = len(schemas) == 1
        types: dict[str, set[str]] = {}
        for schema in schemas.values():
            for attribute in schema.attributes:
                types.setdefault(attribute.name, set()).add(attribute.type)
        taken = {"type", "start", "end", BOUNDS}
        self.names: dict[str, dict[str, str]] = {}
        first = dict.fromkeys(name for schema in schemas.values() for name in time_columns(schema))
        fields = [(name, "time" if name in TIMES else "string") for name in first]
        for event, schema in schemas.items():
            self.names[event] = {}
            for attribute in schema.attributes:
                shared = len(types[attribute.name]) == 1 and attribute.name not in taken
                name = attribute.name if self.single or shared else f"{event}_{attribute.name}"
                self.names[event][attribute.name] = name
                if (name, attribute.type) not in fields:
                    fields.append((name, attribute.type))
        if any(schema.fluent is not None for schema in schemas.values()):
            fields.append((BOUNDS, "string"))
        self.schema = pa.schema([(name, _TYPES.get(type, pa.string())) for name, type in fields])

    def table(self, event: str, table: pl.DataFrame) -> pa.Table:
        """Return a copy of an event type's table that also has the columns of other event types, filled with null."""
        arrow_table = typed(table, self._schemas[event]).to_arrow().cast(arrow(self._schemas[event]))
        arrow_table = arrow_table.rename_columns(
            [self.names[event].get(name, name) for name in arrow_table.column_names]
        )
        columns = {name: arrow_table[name] for name in arrow_table.column_names}
        arranged = [
            columns[field.name].cast(field.type) if field.name in columns else pa.nulls(table.height, field.type)
            for field in self.schema
        ]
        return pa.Table.from_arrays(arranged, schema=self.schema)
