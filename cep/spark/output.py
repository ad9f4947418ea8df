"""Derived events as files: lines of JSON as a run in one process writes them, or Parquet of typed columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from cep.runtime.buckets import settle
from cep.schema import Schema
from cep.spark.commits import File, Outlet
from cep.spark.garbage import spare
from cep.spark.parcels import unpack
from connectors.writers import arrow, json_lines, typed

_TYPES: Mapping[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us", "UTC"),
    "duration": pa.float64(),
}

Batches = Iterable[pa.RecordBatch]


def write(outlet: Outlet, batches: Batches, name: str, first: bool) -> list[File]:
    """The files of a task that takes these parcels, of such a name. Of several events Parquet is parted: a folder
    `type=...` each. The `first` task writes a file without rows where it has none and there is but one event."""
    spare()
    folder = Path(outlet.folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = settled(batches, outlet.merged)
    if outlet.format == "jsonl":
        return list(_lines(outlet, found, folder / f"{name}.jsonl"))
    return list(_columns(outlet, found, folder, f"{name}.parquet", first))


def _lines(outlet: Outlet, found: Mapping[str, list[pl.DataFrame]], path: Path) -> Iterator[File]:
    if not found:
        return
    with path.open("wb") as file:
        for event, tables in found.items():
            for table in tables:
                file.write(json_lines({event: table}, outlet.schemas, True, False))
    yield File.of(path)


def _columns(
    outlet: Outlet, found: Mapping[str, list[pl.DataFrame]], folder: Path, name: str, first: bool
) -> Iterator[File]:
    layout = Layout(outlet.schemas)
    made = {event: pa.concat_tables(layout.table(event, table) for table in tables) for event, tables in found.items()}
    if first and layout.single and not made:
        made = {event: layout.schema.empty_table() for event in outlet.schemas}
    for event, table in made.items():
        place = folder if layout.single else folder / f"type={event}"
        place.mkdir(exist_ok=True)
        pq.write_table(table, place / name, compression="snappy", use_dictionary=layout.repeating)
        yield File.of(place / name, bare=not table.num_rows)


class Layout:
    """Which column holds which attribute: attributes of one name and type share one, others are called
    `<event>_<attribute>`."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        self.single = len(schemas) == 1
        types: dict[str, set[str]] = {}
        for schema in schemas.values():
            for attribute in schema.attributes:
                types.setdefault(attribute.name, set()).add(attribute.type)
        taken = {"type", "start", "end"}
        self.names: dict[str, dict[str, str]] = {}
        fields = [("start", "time"), ("end", "time")]
        for event, schema in schemas.items():
            self.names[event] = {}
            for attribute in schema.attributes:
                shared = len(types[attribute.name]) == 1 and attribute.name not in taken
                name = attribute.name if self.single or shared else f"{event}_{attribute.name}"
                self.names[event][attribute.name] = name
                if (name, attribute.type) not in fields:
                    fields.append((name, attribute.type))
        self.schema = pa.schema([(name, _TYPES.get(type, pa.string())) for name, type in fields])

    @property
    def repeating(self) -> list[str]:
        """The columns of which a dictionary is worth its while: few times are equal."""
        return [field.name for field in self.schema if not pa.types.is_timestamp(field.type)]

    def table(self, event: str, table: pl.DataFrame) -> pa.Table:
        """The columns of all events, those of others without values."""
        found = typed(table, self._schemas[event]).to_arrow().cast(arrow(self._schemas[event]))
        found = found.rename_columns([self.names[event].get(name, name) for name in found.column_names])
        there = {name: found[name] for name in found.column_names}
        each = [
            there[field.name].cast(field.type) if field.name in there else pa.nulls(table.height, field.type)
            for field in self.schema
        ]
        return pa.Table.from_arrays(each, schema=self.schema)


def settled(batches: Batches, merged: frozenset[str]) -> dict[str, list[pl.DataFrame]]:
    """The tables of the parcels of a partition by event; of `merged` events, each occurrence once."""
    found: dict[str, list[pl.DataFrame]] = {}
    for batch in batches:
        for event, rows in zip(batch.column("event").to_pylist(), batch.column("rows")):
            found.setdefault(event, []).append(unpack(rows.as_py()))
    return {event: [settle(found[event])] if event in merged else found[event] for event in sorted(found)}
