"""What fluents change, out of the tables of when they begin and end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.fluents import BEFORE, BEGINS, BEGINS_AT, EDGE, EDGES, ENDS, ENDS_AT, KINDS, SINCE_EVER, beside
from cep.core.relation import END, FIRST, Table
from cep.core.schema import Schema
from cep.core.values import Pool
from cep.runtime.decode import DerivedTables, argument_series, frames, table_frame

Frames: TypeAlias = "dict[str, pl.DataFrame]"
Ints = NDArray[np.int64]
BEGINNINGS = [BEGINS, BEGINS_AT, BEFORE]
_BEGINS, _CLOSED = (np.zeros(KINDS, np.int64) for _ in range(2))
_CHANGES = np.zeros(KINDS, np.bool_)
_BEGINS[BEGINNINGS] = _CLOSED[[BEGINS_AT, ENDS]] = 1
_CHANGES[[*BEGINNINGS, ENDS, ENDS_AT]] = True
_WORDS, _HALVES = ("ends", "begins"), (")", "]", "(", "[")
"""Whether it begins; which half of the bounds a change decides, by whether it begins and whether its end belongs."""
FEW = 32
"""Changes: so many are written word by word."""


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


def changes_of(made: DerivedTables, schemas: Mapping[str, Schema], outputs: Mapping[str, Schema], pool: Pool) -> Frames:
    """The same of what a step gives, at once."""

    def as_frame(table: Table, schema: Schema, pool: Pool) -> pl.DataFrame:
        if schema.fluent is None:
            return table_frame(table, schema, pool)
        return _change_frame(table, schema, outputs[schema.fluent.name], pool)

    found = {}
    for name, frame in frames(made, schemas, pool, as_frame).items():
        fluent = schemas[name].fluent
        if fluent is None:
            found[name] = frame
        elif frame.height:
            found[fluent.name] = frame
    return found


def _change_frame(table: Table, schema: Schema, given: Schema, pool: Pool) -> pl.DataFrame:
    """The changes of a fluent of this schema, of a table of when it begins and ends."""
    types = {each.name: (place, each.type) for place, each in enumerate(schema.attributes)}
    what, _ = types[beside("what", [each.name for each in given.attributes])]
    some = _CHANGES[table[FIRST + what]]
    if not some.all():
        table = table[:, some]
    attributes = []
    for each in given.attributes:
        place, type = types[each.name]
        attributes.append(argument_series(table, place, type, pool).alias(each.name))
    return _written(table[FIRST + what], table[END], given, attributes)


def changed(table: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """When a fluent begins and ends as it is written: `@edge`, `time` (null: before all time), the attributes, and of
    `bounds` the half that it decides. `table` is one of `frames`."""
    what = beside("what", [each.name for each in schema.attributes])
    kinds = table[what].to_numpy()
    if not _CHANGES[kinds].all():
        table = table.filter(pl.Series(_CHANGES[kinds]))
        kinds = table[what].to_numpy()
    attributes = [table[attribute.name] for attribute in schema.attributes]
    known = {EDGE, "time", "bounds", what, "start", "end", *(each.name for each in attributes)}
    more = [table[name] for name in table.columns if name not in known]
    return _written(kinds, table["end"].to_numpy(), schema, attributes, more)


def _written(
    kinds: Ints, end: Ints, schema: Schema, attributes: Sequence[pl.Series], more: Sequence[pl.Series] = ()
) -> pl.DataFrame:
    """Changes of these kinds that are known at these times, as they are written."""
    late = 0 if schema.fluent is None else schema.fluent.late
    time, ever = pl.Series("time", end - late if late else end), (end == SINCE_EVER) | (kinds == BEFORE)
    if ever.any():
        time = time.set(pl.Series(ever), None)
    begins = _BEGINS[kinds]
    edge, bounds = _said(EDGE, _WORDS, begins), _said("bounds", _HALVES, 2 * begins + _CLOSED[kinds])
    return pl.DataFrame([edge, time, *attributes, bounds, *more])


def _said(name: str, words: Sequence[str], which: Ints) -> pl.Series:
    """The words of these numbers."""
    if len(which) <= FEW:  # a column of some words takes less than to gather them
        return pl.Series(name, [words[number] for number in which.tolist()], dtype=pl.String)
    return pl.Series(name, words, dtype=pl.String).gather(which)
