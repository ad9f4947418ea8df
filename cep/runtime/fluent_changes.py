"""What fluents change, out of the tables of when they begin and end."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from cep.core.fluents import BEFORE, BEGINS, BEGINS_AT, EDGE, EDGES, ENDS, ENDS_AT, KINDS, SINCE_EVER, beside
from cep.core.schema import Schema

Frames = dict[str, pl.DataFrame]
BEGINNINGS = [BEGINS, BEGINS_AT, BEFORE]
_BEGINS, _CLOSED, _CHANGES = (np.zeros(KINDS, np.bool_) for _ in range(3))
_BEGINS[BEGINNINGS] = _CLOSED[[BEGINS_AT, ENDS]] = _CHANGES[[*BEGINNINGS, ENDS, ENDS_AT]] = True
_WORDS, _HALVES = pl.Series(["ends", "begins"]), pl.Series([")", "]", "(", "["])
"""Whether it begins; which half of the bounds a change decides, by whether it begins and whether its end belongs."""


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
    kinds = table[what].to_numpy()
    if not _CHANGES[kinds].all():
        table = table.filter(pl.Series(_CHANGES[kinds]))
        kinds = table[what].to_numpy()
    begins, closed = _BEGINS[kinds], _CLOSED[kinds]
    late = 0 if schema.fluent is None else schema.fluent.late
    end = table["end"].to_numpy()
    time, ever = pl.Series("time", end - late), (end == SINCE_EVER) | (kinds == BEFORE)
    if ever.any():
        time = time.set(pl.Series(ever), None)
    attributes = [table[attribute.name] for attribute in schema.attributes]
    known = {EDGE, "time", "bounds", what, "start", "end", *(each.name for each in attributes)}
    more = [table[name] for name in table.columns if name not in known]
    edge = _WORDS[begins.astype(np.int64)].alias(EDGE)
    bounds = _HALVES[2 * begins.astype(np.int64) + closed].alias("bounds")
    return pl.DataFrame([edge, time, *attributes, bounds, *more])
