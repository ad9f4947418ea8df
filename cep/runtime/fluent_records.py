"""Conversion of a fluent's records to occurrences.

A record takes effect at its start. A record that closes an open record takes effect at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl

from cep.core.fluents import BOUNDS, OWN_END, RECORD_BOUNDS, RECORD_END, RECORD_START
from cep.core.relation import END, FIRST, START, Table, rows
from cep.core.values import MISSING
from cep.events import Event
from cep.operators.goals.contract import Bools
from cep.runtime.parts import EngineParts

_BOTH = BOUNDS.index("[]")


def as_records(
    batch: Mapping[str, pl.DataFrame] | Iterable[Event], names: Mapping[str, str]
) -> dict[str, pl.DataFrame] | list[Event]:
    """Convert intervals of fluents in a batch to records. `names`: for each fluent, the name of its table of records.

    A table of intervals has the columns `start` and `end`, and optionally `bounds`. A null in `end` means that the
    fluent still holds. Tables that the project's own readers create already consist of records, and remain unchanged.
    """
    if isinstance(batch, Mapping):
        return {names.get(name, name): _recorded(frame) if name in names else frame for name, frame in batch.items()}
    return [
        Event(names[row.type], (*row.args, row.end, _BOTH, None), row.start, row.start) if row.type in names else row
        for row in batch
    ]


def _recorded(frame: pl.DataFrame) -> pl.DataFrame:
    bounds, own = RECORD_BOUNDS, {}
    if RECORD_END not in frame.columns:
        bounds, own = "bounds", {"start": "time", "end": RECORD_END}
    columns = [
        column.alias(own.get(column.name, column.name)) for column in frame.get_columns() if column.name != bounds
    ]
    codes = pl.Series([_BOTH]).new_from_index(0, frame.height)
    if bounds in frame.columns:
        known = frame[bounds].cast(pl.String, strict=False)
        bound_codes = known.replace_strict(list(BOUNDS), list(range(4)), default=-1, return_dtype=pl.Int64)
        codes = bound_codes.set(known.is_null() | (known == ""), _BOTH)
    none = pl.Series([None]).new_from_index(0, frame.height)
    return pl.DataFrame([*columns, codes.alias(RECORD_BOUNDS), none.alias(RECORD_START)])


def as_intervals(records: pl.DataFrame) -> pl.DataFrame:
    """Convert records to intervals with the columns `start`, `end` and `bounds`. A null in `end` means that the fluent
    still holds."""
    bounds = records[RECORD_BOUNDS].replace_strict(list(range(4)), list(BOUNDS), return_dtype=pl.String)
    start = pl.coalesce(pl.col(RECORD_START), pl.col("start"))
    intervals = records.with_columns(start.alias("start"), pl.col(RECORD_END).alias("end"), bounds.alias("bounds"))
    return intervals.drop(RECORD_END, RECORD_BOUNDS, RECORD_START)


def closing(parts: EngineParts, name: str, table: Table, late: Bools) -> Bools:
    """Return a mask of those `late` records that close an open record. The function also changes these records in
    `table`, so that they take effect at their end."""
    end, start = table[OWN_END], table[-1]
    some: Bools = late & (end != MISSING) & (start == MISSING)
    if not some.any():
        return some
    arguments = table[FIRST:OWN_END]
    known = [*_open(parts, name), (arguments[:, end == MISSING], table[START, end == MISSING])]
    rows_ = np.concatenate([np.concatenate([keys, times[None]]) for keys, times in known], axis=1)
    mine = np.concatenate([arguments[:, some], table[START, some][None]])
    both = np.concatenate([rows_, mine], axis=1)
    numbers = np.unique(both, axis=1, return_inverse=True)[1].reshape(-1)
    closes = np.isin(numbers[rows_.shape[1] :], numbers[: rows_.shape[1]])
    some[np.flatnonzero(some)[~closes]] = False
    table[-1, some] = table[START, some]
    table[START, some] = table[END, some] = end[some]
    return some


def _open(parts: EngineParts, name: str) -> list[tuple[Table, Table]]:
    """Return the open records of a fluent that wait in the reorder buffer or are part of a goal's state.

    The result consists of pairs: the arguments of some records, one column per record, and the starts of these records.
    """
    open_intervals = []
    for table in parts.buffer.waiting.get(name, ()):
        still = (table[OWN_END] == MISSING) & (rows(table) > 0)
        open_intervals.append((table[FIRST:OWN_END, still], table[START, still]))
    plan = parts.plan
    for unit, goal in parts.machine.lasting():
        known = goal.known_open()
        if known is None or not isinstance(unit, int):
            continue
        if plan.nodes[plan.nodes[unit].parts[0]].properties().event == name:
            open_intervals.append((known[0].T, known[1]))
    return open_intervals
