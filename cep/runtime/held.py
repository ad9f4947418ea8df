"""What held, as values: maximal intervals out of what a run gave."""

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
    """The intervals of all fluents among tables as `frames` gives them, sorted by (type, args, start), as far as they
    lie between `start` and `until`, both included."""
    found: list[Held] = []
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
            clipped = _clipped(first, last, bounds, start, until)
            if clipped is not None:
                found.append(Held(name, tuple(column[row] for column in columns), *clipped))
    return sorted(found, key=_place)


def _clipped(
    first: int | None, last: int | None, bounds: str, start: int | None, until: int | None
) -> tuple[int | None, int | None, str] | None:
    """The part of an interval that lies in a stretch; None: nothing of it does."""
    opening, closing = bounds[0], bounds[1]
    if start is not None and (first is None or first < start):
        first, opening = start, "["
    if until is not None and (last is None or last > until):
        last, closing = until, "]"
    if first is not None and last is not None and (first > last or (first == last and opening + closing != "[]")):
        return None
    return first, last, opening + closing


def _place(held: Held) -> tuple[str, tuple[tuple[str, float, str], ...], int]:
    ranks = [
        ("number", float(each), "")
        if isinstance(each, int | float)
        else ("" if each is None else "text", 0.0, str(each))
        for each in held.args
    ]
    return held.type, tuple(ranks), BEGINNING if held.start is None else held.start
