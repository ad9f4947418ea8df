"""Hot keys: how many of the rows that are dealt have one and the same key, counted in bounded memory.

Rows are counted by a part of their key's hash; only where one part has many are they counted by key. So a stream of
even keys costs one pass over numbers, and what is kept of any other is a few keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

PART = 32
"""A key is counted where it has more than one of so many rows of a table."""

_BINS, _TABLES = 1024, 256
_LONGEST = 80
"""Characters of a key that is told."""


@dataclass(frozen=True, slots=True)
class KeyShares:
    """Of an event whose rows are dealt by the attributes `by`: how many `rows` there were, and how many of them each
    frequent key has (`keys`, by its values as text), the most frequent first, fewer than `PART`.

    Added up over tables, a count is at most one in `PART` of all rows too small; so a key that has more than two in
    `PART` of them is always among these."""

    event: str
    by: str
    rows: int
    keys: Mapping[str, int] = field(default_factory=dict)

    def shares(self) -> dict[str, float]:
        """Of each of these keys, as `room=attic`, its part of the rows."""
        return {f"{self.by}={key}": number / self.rows for key, number in self.keys.items()}


def slowdown(share: float, partitions: int) -> float:
    """How many times as long a step of so many partitions takes, each on a core of its own, as with even keys, where
    one key has this share of the rows: its partition has these, and its part of the others."""
    return share * partitions + 1 - share


class KeyCounter:
    """Counts the rows that are dealt; what it keeps does not grow."""

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
        """Rows of an event that are dealt by these attributes; `hashed`: the hash of each one's key; `groups`: how many
        have each key group (the last ten bits of it), if that is known."""
        if not table.height or not set(by) <= set(table.columns):
            return
        if groups is None:
            groups = np.bincount(_bins(hashed), minlength=_BINS)
        crowded = groups * PART > table.height
        keys: dict[str, int] = {}
        if crowded.any():
            rows = np.flatnonzero(crowded[_bins(hashed)])
            found = pl.DataFrame({"hash": hashed[rows], "row": rows}).group_by("hash").agg(pl.len(), pl.first("row"))
            for number, row in found.filter(pl.col("len") * PART > table.height).select("len", "row").rows():
                name = ", ".join(_text(table[column][row]) for column in by)
                keys[name] = keys.get(name, 0) + number
        self._found.append(KeyShares(event, ", ".join(by), table.height, keys))
        if len(self._found) > _TABLES:
            self._found = list(merged(self._found))

    def counts(self) -> tuple[KeyShares, ...]:
        """All of it since the last call."""
        found, self._found = merged(self._found), []
        return found


def merged(parts: Iterable[KeyShares]) -> tuple[KeyShares, ...]:
    """Counts of several tables, added up: one for each event and way of dealing, by name."""
    rows: dict[tuple[str, str], int] = {}
    keys: dict[tuple[str, str], dict[str, int]] = {}
    for one in parts:
        name = one.event, one.by
        rows[name] = rows.get(name, 0) + one.rows
        mine = keys.setdefault(name, {})
        for key, number in one.keys.items():
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
