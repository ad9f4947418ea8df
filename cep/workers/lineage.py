"""Tables that have columns of lineage, in the form in which stages return them (see `cep.runtime.history`)."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import polars as pl

from cep.connectors.arrow_bytes import plain
from cep.core.schema import ARRIVAL, TIE
from cep.operators.goals.lineage import Places
from cep.runtime.history import BECAUSE, CONSTITUENTS, places_in, told, told_constituents, united

_ROW = "@row"
_TOLD = {BECAUSE: told, CONSTITUENTS: told_constituents}


def made_one(table: pl.DataFrame) -> pl.DataFrame:
    """Merge rows that are equal except for their position and constituents.

    The merged row is the first of these rows, with its position and constituents, as in a single engine. Rows at the
    same position are ordered by the arrival of their input records. If several come from the same records, the merged
    row gets the constituents of all of them. It gets the rules of all rows.
    """
    own = plain(table).select(pl.exclude(ARRIVAL, TIE, *_TOLD))
    numbers = own.with_row_index(_ROW).select(pl.first(_ROW).over(own.columns)).to_series()
    first = numbers == pl.int_range(table.height, eager=True)
    if first.all():
        return table
    equal = numbers.is_duplicated().arg_true()
    columns = [column.gather(equal).to_list() for column in (numbers, table[ARRIVAL], table[BECAUSE])]
    by_number: dict[int, list[tuple[int, Places, int]]] = {}
    for number, arrival, because, row in zip(*columns, equal.to_list(), strict=True):
        by_number.setdefault(number, []).append((arrival, places_in(because), row))
    kept = np.arange(table.height)
    for number, candidates in by_number.items():
        candidates.sort()
        kept[number] = candidates[0][2]
    rows = table[kept]
    if CONSTITUENTS in table.columns:
        texts = table[CONSTITUENTS].to_list()
        made_of = rows[CONSTITUENTS].to_list()
        for number, candidates in by_number.items():
            same = [texts[row] for *place, row in candidates if place == [*candidates[0][:2]]]
            made_of[number] = united([texts[row] for *_, row in candidates], same)
        rows = rows.with_columns(pl.Series(CONSTITUENTS, made_of, pl.String))
    return rows.filter(first)


def as_told(table: pl.DataFrame, columns: Collection[str]) -> pl.DataFrame:
    """Convert the lineage of a table to the form that a single engine returns. `columns`: the columns of lineage to
    return."""
    told_columns = [
        pl.Series(name, map(_TOLD[name], table[name].to_list()), pl.String)
        for name in _TOLD
        if name in table.columns and name in columns
    ]
    return table.drop([name for name in _TOLD if name not in columns], strict=False).with_columns(told_columns)
