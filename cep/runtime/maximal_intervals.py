"""Maximal intervals of fluents, computed from the output of a whole run."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from cep.core.fluents import HOLDS
from cep.core.schema import Schema
from cep.core.time import BEGINNING
from cep.events import Held, Iri, Value


def held_of(
    tables: Mapping[str, pl.DataFrame], schemas: Mapping[str, Schema], start: int | None, until: int | None
) -> list[Held]:
    """Return the intervals of all fluents in frames (see `cep.runtime.decode.frames`), sorted by (type, args, start).

    Intervals are clipped to the time from `start` to `until`, both included. If one of them is None, there is no limit
    on that side.
    """
    tables = clipped(tables, schemas, start, until)
    held_intervals: list[Held] = []
    for name, table in tables.items():
        schema = schemas[name]
        if schema.fluent is None or schema.fluent.part != HOLDS:
            continue
        columns: list[list[Value]] = [table[attribute.name].to_list() for attribute in schema.attributes]
        for column, attribute in zip(columns, schema.attributes):
            if attribute.type == "iri":
                column[:] = [None if value is None else Iri(str(value)) for value in column]
        ends = zip(table["start"].to_list(), table["end"].to_list(), table["bounds"].to_list(), strict=True)
        for row, (first, last, bounds) in enumerate(ends):
            held_intervals.append(Held(name, tuple(column[row] for column in columns), first, last, bounds))
    return sorted(held_intervals, key=_place)


def clipped(
    tables: Mapping[str, pl.DataFrame], schemas: Mapping[str, Schema], start: int | None, until: int | None
) -> dict[str, pl.DataFrame]:
    """Restrict frames (see `cep.runtime.decode.frames`) to the time from `start` to `until`, both included.

    Both are in microseconds. If one of them is None, there is no limit on that side. Intervals of fluents are cut.
    Events are kept if they end in that time.
    """
    if start is None and until is None:
        return dict(tables)
    clipped_tables = {}
    for name, table in tables.items():
        fluent = schemas[name].fluent
        if fluent is None or fluent.part != HOLDS:
            within = [pl.col("end") >= start] if start is not None else []
            within += [pl.col("end") <= until] if until is not None else []
            clipped_tables[name] = table.filter(*within)
            continue
        first, last, opening, closing = pl.col("start"), pl.col("end"), pl.col("bounds").str.head(1), pl.col("bounds")
        closing = closing.str.tail(1)
        if start is not None:
            before = first.is_null() | (first < start)
            first, opening = (
                pl.when(before).then(start).otherwise(first),
                pl.when(before).then(pl.lit("[")).otherwise(opening),
            )
        if until is not None:
            after = last.is_null() | (last > until)
            last, closing = (
                pl.when(after).then(until).otherwise(last),
                pl.when(after).then(pl.lit("]")).otherwise(closing),
            )
        clipped_table = table.with_columns(first.alias("start"), last.alias("end"), (opening + closing).alias("bounds"))
        empty = (pl.col("start") > pl.col("end")) | ((pl.col("start") == pl.col("end")) & (pl.col("bounds") != "[]"))
        clipped_tables[name] = clipped_table.filter(~empty.fill_null(False))
    return clipped_tables


def _place(held: Held) -> tuple[str, tuple[tuple[str, float, str], ...], int]:
    ranks = [
        ("number", float(arg), "") if isinstance(arg, int | float) else ("" if arg is None else "text", 0.0, str(arg))
        for arg in held.args
    ]
    return held.type, tuple(ranks), BEGINNING if held.start is None else held.start
