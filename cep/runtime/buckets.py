"""Distribution of rows to the buckets of a stage, and merging of the buckets' output.

Each bucket has its own engine, `Engine(program, stage=n, lateness=None)`. In a round, the stages run one after the
other. The input rows of a stage are distributed to its buckets (see `cep.runtime.state_by_key.deal_groups`). Each
bucket receives its rows by `push`, even if there are none. Then `advance` moves it to the watermark of the round.

The buckets' output is merged for the stages that read it (`merged_by_arrival`). Output for writing is merged without
duplicates (`merged_identical`). So rows that have the same end leave all stages in the same round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.schema import ARRIVAL, NUMBER, TIE, Schema
from cep.core.value_hashes import hashes
from cep.core.values import Ints, Pool
from cep.plan.partition import Route

PART = 32
"""The limit for frequent keys. A key is frequent if more than one in `PART` rows has it."""

_BINS, _TABLES = 1024, 256
_LONGEST = 80
"""The maximum length of a key in a report, in characters."""


@dataclass(frozen=True, slots=True)
class KeyShares:
    """The most frequent keys of an event type.

    - `by`: the attributes whose values are the key, by which the rows are distributed.
    - `rows`: the number of all rows.
    - `keys`: the number of rows of each frequent key. The keys are written as text, and the most frequent one is first.
      There are fewer than `PART` keys.

    If counts of several tables are added, a key's count may be too small by at most one `PART`-th of all rows. So a key
    that has more than two `PART`-ths of the rows is always included.
    """

    event: str
    by: str
    rows: int
    keys: Mapping[str, int] = field(default_factory=dict)

    def shares(self) -> dict[str, float]:
        """Return each key's share of the rows, by a label such as `room=attic`."""
        return {f"{self.by}={key}": number / self.rows for key, number in self.keys.items()}


def slowdown(share: float, partitions: int) -> float:
    """Return the factor by which one frequent key slows a step down. The factor is 1 if all keys are equally frequent.

    `share`: the key's share of the rows. Each partition runs on its own core. One partition processes all rows of the
    frequent key, and an equal part of the other rows.
    """
    return share * partitions + 1 - share


class KeyCounter:
    """A counter of distributed rows by key, which uses bounded memory."""

    def __init__(self) -> None:
        self._found: list[KeyShares] = []

    def take(
        self,
        event: str,
        by: Sequence[str],
        table: pl.DataFrame,
        hashed: NDArray[np.uint64],
        groups: NDArray[np.int64] | None = None,
    ) -> None:
        """Count rows of an event type that are distributed by the attributes `by`.

        `hashed`: the hash of each row's key. `groups`: the number of rows in each key group (the last ten bits of the
        hash), or None if these numbers are not known.
        """
        if not table.height or not set(by) <= set(table.columns):
            return
        if groups is None:
            groups = np.bincount(_bins(hashed), minlength=_BINS)
        crowded = groups * PART > table.height
        keys: dict[str, int] = {}
        if crowded.any():
            rows = np.flatnonzero(crowded[_bins(hashed)])
            by_hash = pl.DataFrame({"hash": hashed[rows], "row": rows}).group_by("hash").agg(pl.len(), pl.first("row"))
            for number, row in by_hash.filter(pl.col("len") * PART > table.height).select("len", "row").rows():
                name = ", ".join(_text(table[column][row]) for column in by)
                keys[name] = keys.get(name, 0) + number
        self._found.append(KeyShares(event, ", ".join(by), table.height, keys))
        if len(self._found) > _TABLES:
            self._found = list(merged(self._found))

    def counts(self) -> tuple[KeyShares, ...]:
        """Return the counts of the rows since the last call."""
        counts, self._found = merged(self._found), []
        return counts


def merged(parts: Iterable[KeyShares]) -> tuple[KeyShares, ...]:
    """Add up the counts of several tables. The result has one element per event type and list of attributes, sorted by
    name."""
    rows: dict[tuple[str, str], int] = {}
    keys: dict[tuple[str, str], dict[str, int]] = {}
    for part in parts:
        name = part.event, part.by
        rows[name] = rows.get(name, 0) + part.rows
        mine = keys.setdefault(name, {})
        for key, number in part.keys.items():
            mine[key] = mine.get(key, 0) + number
    return tuple(KeyShares(*name, rows[name], _frequent(keys[name], rows[name])) for name in sorted(rows))


def _bins(hashed: NDArray[np.uint64]) -> NDArray[np.int64]:
    return (hashed & np.uint64(_BINS - 1)).astype(np.int64)


def _frequent(keys: Mapping[str, int], rows: int) -> dict[str, int]:
    ranked = sorted(keys.items(), key=lambda item: (-item[1], item[0]))
    return {key: number for key, number in ranked if number * PART > rows}


def _text(value: object) -> str:
    text = "missing" if value is None else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


PLACE = ["end", "start", ARRIVAL, TIE]
"""The columns by which the rows of one event type from several stages are sorted. The column `tie` only distinguishes
rows of the same round."""


# --- to the buckets ---


def buckets(table: pl.DataFrame, schema: Schema, route: Route, count: int) -> Ints:
    """Return the bucket of each row. `route`: the positions of the arguments that determine the bucket, or `whole` if
    the whole row determines it. `count`: the number of buckets."""
    numbers: Ints = (row_hashes(table, schema, route) % np.uint64(count)).astype(np.int64)
    return numbers


def row_hashes(table: pl.DataFrame, schema: Schema, route: Route) -> NDArray[np.uint64]:
    """Return a hash of each row's key, or of the whole row. The hash determines the row's bucket or key group.

    The hash only depends on values, and is the same in every process and version. Numbers are hashed by value, texts by
    their characters. Rows whose key is missing, or has a value of a wrong type, also get a hash.
    """
    named: list[tuple[str, str]] = [(a.name, a.type) for a in schema.attributes]
    if route == "whole":
        start = "start" if "start" in table.columns else "time"
        named += [(start, "time"), ("end" if "end" in table.columns else start, "time")]
    else:
        assert isinstance(route, tuple), "rows of this route are not dealt by what they are"
        named = [named[position] for position in route]
    known = [(name, type) for name, type in named if name in table.columns]
    if not known:
        return np.zeros(table.height, np.uint64)
    return hashes([table[name] for name, _ in known], [type for _, type in known])


# --- from the buckets ---


def merged_by_arrival(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Merge the buckets' output of one event type in a round, for the stages that read it. The result is sorted by
    arrival.

    Rows that have equal positions keep the order of their buckets.
    """
    table = stacked(parts)
    place = [table[name].to_numpy() for name in reversed(PLACE)]
    return table[np.lexsort(place)].drop(TIE)


def merged_identical(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Merge the output of one event type in a round, from all buckets and stages, for writing.

    Identical occurrences are merged, unless their `@number` differs.
    """
    table = stacked(parts).drop(ARRIVAL, TIE)
    pool = Pool()
    mixed = [name for name in table.columns if table[name].dtype == pl.Object]
    plain = table.with_columns(pl.Series(name, pool.encode(table[name], "any")) for name in mixed)
    return table.filter(plain.select(pl.struct(pl.all()).is_first_distinct()).to_series()).drop(NUMBER, strict=False)


def stacked(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Concatenate tables that have the same columns. A column with several types becomes one of Python objects."""
    if len({tuple(part.dtypes) for part in parts}) == 1:
        return pl.concat(parts)
    columns = []
    for name in parts[0].columns:
        pieces = [part[name] for part in parts]
        types = {series.dtype for series in pieces} - {pl.Null()}
        if len(types) == 1 and pl.Object() not in types:
            columns.append(pl.concat([series.cast(next(iter(types))) for series in pieces]))
        else:
            values = [value for series in pieces for value in series.to_list()]
            columns.append(pl.Series(name, values, dtype=pl.Object))
    return pl.DataFrame(columns)
