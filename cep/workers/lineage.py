"""Tables that have columns of lineage, in the form in which stages return them (see `cep.runtime.history`)."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import polars as pl

from cep.connectors.arrow_bytes import plain
from cep.core.schema import ARRIVAL, TIE
from cep.runtime.history import BECAUSE, CONSTITUENTS, places_in, told, told_constituents, with_rules

_ROW = "@row"
_TOLD = {BECAUSE: told, CONSTITUENTS: told_constituents}


def made_one(table: pl.DataFrame) -> pl.DataFrame:
    """Merge rows that are equal except for their position and constituents.

    The merged row is the first of these rows, with its position and constituents, as in a single engine. Rows at the
    same position are ordered by the arrival of their input records. The merged row gets the rules of all these rows.
    """
    own = plain(table).select(pl.exclude(ARRIVAL, TIE, *_TOLD))
    numbers = own.with_row_index(_ROW).select(pl.first(_ROW).over(own.columns)).to_series()
    first = numbers == pl.int_range(table.height, eager=True)
    if not first.all():
        equal = numbers.is_duplicated().arg_true()
        columns = [column.gather(equal).to_list() for column in (numbers, table[ARRIVAL], table[BECAUSE])]
        columns[2] = list(map(places_in, columns[2]))
        order = np.arange(table.height)
        by_number = sorted(zip(columns[0], equal.to_list(), strict=True))
        order[[row for _, row in by_number]] = [row for *_, row in sorted(zip(*columns, equal.to_list(), strict=True))]
        table = table[order]
    if CONSTITUENTS in table.columns and not first.all():
        grouped = table.select(CONSTITUENTS, numbers.alias(_ROW)).group_by(_ROW).agg(CONSTITUENTS)
        rules = dict(zip(grouped[_ROW].to_list(), map(with_rules, grouped[CONSTITUENTS].to_list())))
        table = table.with_columns(pl.Series(CONSTITUENTS, [rules[number] for number in numbers.to_list()], pl.String))
    return table.filter(first)


def as_told(table: pl.DataFrame, columns: Collection[str]) -> pl.DataFrame:
    """Convert the lineage of a table to the form that a single engine returns. `columns`: the columns of lineage to
    return."""
    told_columns = [
        pl.Series(name, map(_TOLD[name], table[name].to_list()), pl.String)
        for name in _TOLD
        if name in table.columns and name in columns
    ]
    return table.drop([name for name in _TOLD if name not in columns], strict=False).with_columns(told_columns)
