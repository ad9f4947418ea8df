"""Merge the rows of one event from all partitions into one table. Both the parts and the result are in order of
arrival."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from cep.connectors.writing.unordered_rows import WrittenRows, together
from cep.core.kernels import njit
from cep.core.schema import ARRIVAL
from cep.core.time import BEGINNING, END_OF_TIME
from cep.core.values import Ints
from cep.runtime.buckets import stacked
from cep.workers.packing import NUMBERS


def in_order(parts: Sequence[pl.DataFrame], *without: str) -> pl.DataFrame:
    """Merge tables whose rows are in order of arrival, that is, sorted by end, start and `@order`.

    Equal rows keep the order of the tables. `without`: the columns to omit.
    """
    parts = [part for part in parts if part.height] or parts[:1]
    names = [name for name in parts[0].columns if name not in without]
    if len(parts) == 1:
        return _like(parts, pl.DataFrame([parts[0][name] for name in names]), None)
    end = np.concatenate([_values(part["end"], END_OF_TIME) for part in parts])
    start = np.concatenate([_values(part["start"], BEGINNING) for part in parts])
    arrival = np.concatenate([_values(part[ARRIVAL]) for part in parts])
    order, sorted_ = merge_order(end, start, arrival, np.cumsum([0, *(part.height for part in parts)]))
    if not sorted_:
        order = np.lexsort([arrival, start, end])
    whole = {"end": end, "start": start}
    columns, places = [], None
    for name in names:
        pieces = [part[name] for part in parts]
        numbers = len({column.dtype for column in pieces}) == 1 and pieces[0].dtype in NUMBERS
        if numbers and not any(column.null_count() for column in pieces):
            values = whole[name] if name in whole else np.concatenate([column.to_numpy() for column in pieces])
            columns.append(pl.Series(name, values[order]))
        else:
            places = pl.Series(order) if places is None else places
            columns.append(stacked([column.to_frame() for column in pieces])[name].gather(places))
    return _like(parts, pl.DataFrame(columns), order)


def _like(parts: Sequence[pl.DataFrame], ordered: pl.DataFrame, order: Ints | None) -> pl.DataFrame:
    """Return the merged table. If the parts are `WrittenRows`, it also has their output text.

    `order`: the row numbers of the merged table, counted through all parts. It is None if there is only one part.
    """
    if not isinstance(parts[0], WrittenRows):
        return ordered
    texts, orders = together(parts)
    rows = orders[0] if len(orders) == 1 else np.concatenate(orders)
    return WrittenRows.of(ordered, texts, rows if order is None else rows[order])


def _values(series: pl.Series, infinite: int = 0) -> Ints:
    return (series.fill_null(infinite) if series.null_count() else series).to_numpy()


@njit()
def merge_order(end, start, arrival, bounds):  # type: ignore[no-untyped-def]
    """Merge parts that are each sorted by (end, start, arrival). Part p has the rows from bounds[p] to bounds[p + 1].

    Returns the row numbers in the merged order, and True if every part was sorted. If a part is not sorted, the row
    numbers are not valid. Equal rows are in the order of the parts.
    """
    count = bounds.shape[0] - 1
    positions, stops = bounds[:count].copy(), bounds[1:]
    order = np.empty(end.shape[0], np.int64)
    for place in range(order.shape[0]):
        best = -1
        for part in range(count):
            row = positions[part]
            if row == stops[part]:
                continue
            if best >= 0:
                other = positions[best]
                if end[row] != end[other]:
                    if end[row] > end[other]:
                        continue
                elif start[row] != start[other]:
                    if start[row] > start[other]:
                        continue
                elif arrival[row] >= arrival[other]:
                    continue
            best = part
        row = positions[best]
        if row > bounds[best]:
            before = row - 1
            if end[row] < end[before]:
                return order, False
            later = start[row] > start[before] or (start[row] == start[before] and arrival[row] >= arrival[before])
            if end[row] == end[before] and not later:
                return order, False
        order[place] = row
        positions[best] += 1
    return order, True
