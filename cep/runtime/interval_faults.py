"""Checks of the intervals of a fluent's records."""

from __future__ import annotations

from cep.core.fluents import BOUNDS, RECORDS
from cep.core.relation import FIRST, START, Table
from cep.core.schema import Schema
from cep.core.values import MISSING
from cep.rules.conditions.relations import Mask


def interval_faults(table: Table, schema: Schema) -> list[tuple[Mask, str, str]]:
    """Return the faults in the intervals of a fluent's records: each a mask of rows, an error code and a text."""
    if schema.fluent is None or schema.fluent.part != RECORDS:
        return []
    start, (end, bounds) = table[START], table[FIRST + len(schema.attributes) - 3 : FIRST + len(schema.attributes) - 1]
    has_end = end != MISSING
    empty = has_end & (end == start) & (bounds != BOUNDS.index("[]"))
    return [
        (bounds < 0, "bounds", "has other `bounds` than `[]`, `[)`, `(]` or `()`"),
        (has_end & (end < start), "interval", "ends before it starts"),
        (empty, "interval", "holds at no time: it ends where it starts, and an end is open"),
    ]
