"""What fluents change, out of the tables of when they begin and end."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from cep.core.fluents import BEFORE, BEGINS, BEGINS_AT, EDGE, EDGES, ENDS, ENDS_AT, SINCE_EVER, beside
from cep.core.schema import Schema

Frames = dict[str, pl.DataFrame]
BEGINNINGS = [BEGINS, BEGINS_AT, BEFORE]


def as_changes(found: Frames, schemas: Mapping[str, Schema], outputs: Mapping[str, Schema]) -> Frames:
    """Tables as `frames` gives them, with those of when fluents begin and end under the names of these, as they are
    written. `schemas`: of the tables, `outputs`: of what is given."""
    out = {}
    for name, table in found.items():
        fluent = schemas[name].fluent
        if fluent is None:
            out[name] = table
        elif (made := changed(table, outputs[fluent.name])).height:
            out[fluent.name] = made
    return out


def with_begun(found: Frames, schemas: Mapping[str, Schema], outputs: Mapping[str, Schema]) -> Frames:
    """The same, with the intervals that begin and are not complete before those that are."""
    out = {name: table for name, table in found.items() if not _of_edges(schemas[name])}
    for name, table in found.items():
        fluent = schemas[name].fluent
        if fluent is None or not _of_edges(schemas[name]):
            continue
        what = beside("what", [each.name for each in outputs[fluent.name].attributes])
        begun = table.filter(pl.col(what).is_in(BEGINNINGS))
        start = pl.when(pl.col("start") == SINCE_EVER).then(None).otherwise(pl.col("start"))
        closed = pl.col(what) == BEGINS_AT
        bounds = pl.when(closed).then(pl.lit("[)")).otherwise(pl.lit("()"))
        begun = begun.with_columns(start.alias("start"), pl.lit(None, pl.Int64).alias("end"), bounds.alias("bounds"))
        key = ["start", *(each.name for each in outputs[fluent.name].attributes)]
        whole = out.get(fluent.name)
        if whole is not None:
            begun = begun.join(whole, on=key, how="anti", nulls_equal=True, maintain_order="left")
            begun = pl.concat([begun.select(whole.columns), whole])
        if begun.height:
            out[fluent.name] = begun.drop(what, strict=False)
    return out


def _of_edges(schema: Schema) -> bool:
    return schema.fluent is not None and schema.fluent.part == EDGES


def changed(table: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """When a fluent begins and ends as it is written: `@edge`, `time` (null: before all time), the attributes, and of
    `bounds` the half that it decides. `table` is one of `frames`."""
    what = beside("what", [each.name for each in schema.attributes])
    table = table.filter(pl.col(what).is_in([*BEGINNINGS, ENDS, ENDS_AT]))
    begins = table[what].is_in(BEGINNINGS)
    closed = table[what].is_in([BEGINS_AT, ENDS]).cast(pl.Int64)
    names = pl.DataFrame({"begins": begins, "closed": closed > 0}).select(
        pl.when("begins").then(pl.lit("begins")).otherwise(pl.lit("ends")).alias(EDGE),
        pl.when(pl.col("begins") & pl.col("closed")).then(pl.lit("["))
        .when("begins").then(pl.lit("("))
        .when("closed").then(pl.lit("]"))
        .otherwise(pl.lit(")")).alias("bounds"),
    )  # fmt: skip
    late = 0 if schema.fluent is None else schema.fluent.late
    ever = (table["end"] == SINCE_EVER) | (table[what] == BEFORE)
    time = (table["end"].set(ever, None) - late).alias("time")
    attributes = [table[attribute.name] for attribute in schema.attributes]
    known = {EDGE, "time", "bounds", what, "start", "end", *(each.name for each in attributes)}
    more = [table[name] for name in table.columns if name not in known]
    return pl.DataFrame([names[EDGE], time, *attributes, names["bounds"], *more])
