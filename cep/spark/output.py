"""Derived events as rows of a file sink: lines of JSON as a run in one process writes them, or typed columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from cep.runtime.buckets import settle
from cep.schema import Schema
from cep.spark.garbage import spare
from cep.spark.parcels import WORLD, unpack
from cep.spark.program import Program
from connectors.writers import arrow, json_lines, typed

_TYPES: Mapping[str, DataType] = {
    "int": LongType(),
    "float": DoubleType(),
    "bool": BooleanType(),
    "time": TimestampType(),
    "duration": DoubleType(),
}
_PIECE = 1 << 16  # rows of a batch that goes to Spark

Batches = Iterable[pa.RecordBatch]


def lines(parcels: DataFrame, program: Program) -> DataFrame:
    """A column `value` of lines of JSON, several in one row."""

    def made(batches: Batches) -> Iterator[pa.RecordBatch]:
        for event, table in settled(batches, program):
            for piece in table.iter_slices(_PIECE):
                text = json_lines({event: piece}, program.schemas, True, False)
                yield pa.RecordBatch.from_arrays([pa.array([text[:-1].decode()], pa.string())], ["value"])

    return _world(parcels, program).mapInArrow(made, "value string")


def columns(parcels: DataFrame, program: Program, wanted: Sequence[str]) -> DataFrame:
    """A column an attribute. Of several events: `type`, by which files are parted, and the columns of all of them."""
    layout = Layout({event: program.schemas[event] for event in wanted})
    return _world(parcels, program).mapInArrow(layout.maker(program), layout.schema)


def encodings(made: DataFrame) -> dict[str, str]:
    """Options of the sink: times have no dictionary in Parquet, since few are equal and looking for them takes long."""
    times = [field.name for field in made.schema if field.dataType == TimestampType()]
    return {f"parquet.enable.dictionary#{name}": "false" for name in times}


class Layout:
    """Which column holds which attribute: attributes of one name and type share one, others are called
    `<event>_<attribute>`."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
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
        made = [StructField(name, _TYPES.get(type, StringType())) for name, type in fields]
        self.schema = StructType(made if self.single else [StructField("type", StringType()), *made])

    def maker(self, program: Program) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
        from pyspark.sql.pandas.types import to_arrow_schema

        wanted, single, names = to_arrow_schema(self.schema, timezone="UTC"), self.single, self.names

        def made(batches: Batches) -> Iterator[pa.RecordBatch]:
            for event, table in settled(batches, program):
                schema = program.schemas[event]
                found = typed(table, schema).to_arrow().cast(arrow(schema))
                found = found.rename_columns([names[event].get(name, name) for name in found.column_names])
                there = {name: found[name] for name in found.column_names}
                if not single:
                    there["type"] = pa.array([event] * table.height, pa.string())
                each = [
                    there[field.name].cast(field.type) if field.name in there else pa.nulls(table.height, field.type)
                    for field in wanted
                ]
                yield from pa.Table.from_arrays(each, schema=wanted).to_batches(max_chunksize=_PIECE)

        return made


def settled(batches: Batches, program: Program) -> Iterator[tuple[str, pl.DataFrame]]:
    """The tables of the parcels of a partition; of events that several buckets may make, each occurrence once."""
    spare()
    merged: dict[str, list[pl.DataFrame]] = {}
    for batch in batches:
        for event, rows in zip(batch.column("event").to_pylist(), batch.column("rows")):
            table = unpack(rows.as_py())
            if event in program.merged:
                merged.setdefault(event, []).append(table)
            else:
                yield event, table
    for event in sorted(merged):
        yield event, settle(merged[event])


def _world(parcels: DataFrame, program: Program) -> DataFrame:
    found = parcels.filter(f"stage = {WORLD}").select("key", "event", "rows")
    return found.repartition("key") if program.merged else found
