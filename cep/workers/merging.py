"""What partitions give of one event, each in order of arrival, as one table in that order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from cep.core.kernels import njit
from cep.core.schema import ARRIVAL
from cep.core.time import BEGINNING, END_OF_TIME
from cep.core.values import Ints
from cep.runtime.buckets import stacked
from cep.workers.packing import NUMBERS


def in_order(parts: Sequence[pl.DataFrame], *without: str) -> pl.DataFrame:
    """The rows of tables, each in order of arrival, in that order: by end, start and `@order`, and what ties, part by
    part; `without` some of their columns."""
    parts = [part for part in parts if part.height] or parts[:1]
    if len(parts) == 1:
        return parts[0].drop(without)
    table = stacked(parts)
    start, end = _values(table["start"], BEGINNING), _values(table["end"], END_OF_TIME)
    arrival = _values(table[ARRIVAL])
    order, sorted_ = merge_order(end, start, arrival, np.cumsum([0, *(part.height for part in parts)]))
    if not sorted_:
        order = np.lexsort((arrival, start, end))
    known = {"start": start, "end": end}
    columns, places = [], None
    for series in table.get_columns():
        if series.name in without:
            continue
        if series.dtype in NUMBERS and not series.null_count():
            values = known[series.name] if series.name in known else series.to_numpy()
            columns.append(pl.Series(series.name, np.take(values, order)))
        else:
            places = pl.Series(order) if places is None else places
            columns.append(series.gather(places))
    return pl.DataFrame(columns)


def _values(series: pl.Series, infinite: int = 0) -> Ints:
    """Times; `infinite`: where one is missing."""
    return (series.fill_null(infinite) if series.null_count() else series).to_numpy()


@njit(linear=True, cache=True)
def merge_order(end, start, arrival, bounds):  # type: ignore[no-untyped-def]
    """The rows by (end, start, arrival), what ties by its part, where part p is from bounds[p] to bounds[p + 1]; and
    whether each part is in that order, without which the rows are not. Each row has a place."""
    count = bounds.shape[0] - 1
    at, stops = bounds[:count].copy(), bounds[1:]
    order = np.empty(end.shape[0], np.int64)
    for place in range(order.shape[0]):
        best = -1
        for part in range(count):
            row = at[part]
            if row == stops[part]:
                continue
            if best >= 0:
                other = at[best]
                if end[row] != end[other]:
                    if end[row] > end[other]:
                        continue
                elif start[row] != start[other]:
                    if start[row] > start[other]:
                        continue
                elif arrival[row] >= arrival[other]:
                    continue
            best = part
        row = at[best]
        if row > bounds[best]:
            before = row - 1
            if end[row] < end[before]:
                return order, False
            later = start[row] > start[before] or (start[row] == start[before] and arrival[row] >= arrival[before])
            if end[row] == end[before] and not later:
                return order, False
        order[place] = row
        at[best] += 1
    return order, True
