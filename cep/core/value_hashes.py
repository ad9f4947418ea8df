"""Hashes of values. They depend on the values alone, and are the same in every process and version.

Buckets and key groups are chosen by them. They also order results that time completes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from cep.core.hashtable import mix
from cep.core.kernels import njit
from cep.core.values import MISSING, Floats, Ints, Pool

# The initial value of the hash of a text.
_TEXT = np.uint64(0x3C6EF372FE94F82B)


def hashes(columns: Sequence[pl.Series], types: Sequence[str]) -> NDArray[np.uint64]:
    """Return a hash of each row's values in these columns."""
    hashed = np.zeros(len(columns[0]), np.uint64)
    for series, type in zip(columns, types, strict=True):
        _fold(hashed, hash_words(series, type))
    return hashed


def orders(words: Iterable[Ints], events: Iterable[str], count: int) -> Ints:
    """Return the order of arrival of results that the passing of time completes, such as those of `UNLESS`.

    It is a hash of values, so it does not depend on the order in which records arrive. It is less than -1, so results
    that time completes arrive before time points and records with the same interval.

    - `words`: for each value that distinguishes the results, the column of its `hash_words`. `count`: the number of
      results.
    - `events`: the names of the events that may complete the pattern.
    """
    (origin,) = _texts(pl.Series([" ".join(sorted(events))], dtype=pl.String)).astype(np.uint64)
    hashed = np.full(count, origin)
    for column in words:
        _fold(hashed, column)
    return -2 - (hashed >> np.uint64(2)).astype(np.int64)


class PoolWords:
    """The `hash_words` of a pool's values. Each value is hashed once, until the pool forgets values."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._forget()

    def _forget(self) -> None:
        self._generation = self.pool.generation
        self._words, self._known = np.empty(0, np.int64), np.empty(0, np.bool_)

    def of(self, codes: Ints, type: str) -> Ints:
        """Return the words of a column of codes. `type`: the type of the column."""
        if self._generation != self.pool.generation:
            self._forget()
        if (size := self.pool.capacity) > len(self._words):
            words, known = np.full(size, MISSING), np.zeros(size, np.bool_)
            words[: len(self._words)], known[: len(self._known)] = self._words, self._known
            words[len(self._words) - 1], known[len(self._words) - 1] = MISSING, False
            known[-1] = True  # stands for missing values
            self._words, self._known = words, known
        places = np.maximum(codes, -1)
        if not self._known[places].all():
            new = np.unique(places[~self._known[places]])
            self._words[new], self._known[new] = hash_words(self.pool.decode(new, type), type), True
        return self._words[places]


def hash_words(series: pl.Series, type: str) -> Ints:
    """Return a 64-bit integer for each value of a column. Equal values have equal integers, even if they are stored in
    columns of different types."""
    dtype = series.dtype
    if dtype == pl.Object:
        return _mixed(series.to_list())
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return _texts(series.cast(pl.String))
    if dtype.is_temporal() and dtype != pl.Time:
        ticks = series.cast(pl.Duration("us") if dtype == pl.Duration else pl.Datetime("us")).cast(pl.Int64)
        return _numbers(ticks.cast(pl.Float64) / 1e6) if type == "any" else ticks.fill_null(MISSING).to_numpy()
    if dtype.is_float() or dtype.is_decimal():
        return _numbers(series.cast(pl.Float64))
    if dtype == pl.Int64 and not series.null_count():
        return series.to_numpy()
    if dtype.is_integer() or dtype == pl.Boolean:
        return series.cast(pl.Int64, strict=False).fill_null(MISSING).to_numpy()
    return np.full(len(series), MISSING, np.int64)


def _numbers(series: pl.Series) -> Ints:
    values: Floats = series.fill_null(np.nan).to_numpy()
    finite = np.isfinite(values)
    whole = finite & (np.abs(values) < 2.0**63) & (np.trunc(values) == values)
    words: Ints = np.where(finite, values, 0.0).view(np.int64)
    words = np.where(whole, np.where(whole, values, 0.0).astype(np.int64), words)
    return np.where(finite, words, MISSING)


def _texts(series: pl.Series) -> Ints:
    array = series.to_arrow().cast(pa.large_string())
    _, offsets, characters = array.buffers()
    stops = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(characters, np.uint8) if characters is not None else np.empty(0, np.uint8)
    words: Ints = _spelt(stops, data)
    return np.where(series.is_null().to_numpy(), MISSING, words) if series.null_count() else words


def _mixed(values: Sequence[object]) -> Ints:
    by_kind = pl.DataFrame(
        {
            "text": pl.Series([v if isinstance(v, str) else None for v in values], dtype=pl.String),
            "whole": pl.Series([v if isinstance(v, int) and abs(v) < 2**63 else None for v in values], dtype=pl.Int64),
            "number": pl.Series([v if isinstance(v, float) else None for v in values], dtype=pl.Float64),
        }
    )
    words = [hash_words(by_kind[name], "any") for name in by_kind.columns]
    return np.where(words[0] != MISSING, words[0], np.where(words[1] != MISSING, words[1], words[2]))


@njit()
def _fold(hashed, values):  # type: ignore[no-untyped-def]
    for i in range(hashed.shape[0]):
        hashed[i] = mix(hashed[i], values[i])


@njit()
def _spelt(stops, data):  # type: ignore[no-untyped-def]
    """Return a hash of each text, computed from eight bytes at a time. `data`: the bytes of all texts. `stops`: the end
    offset of each text in `data`."""
    hashes_of_texts = np.empty(stops.shape[0] - 1, np.int64)
    for i in range(hashes_of_texts.shape[0]):
        hashed = mix(_TEXT, stops[i + 1] - stops[i])
        j = stops[i]
        while j < stops[i + 1]:
            word = np.uint64(0)
            for k in range(min(8, stops[i + 1] - j)):
                word |= np.uint64(data[j + k]) << np.uint64(8 * k)
            hashed = mix(hashed, word)
            j += 8
        hashes_of_texts[i] = np.int64(hashed)
    return hashes_of_texts
