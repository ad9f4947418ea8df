"""A pool of strings, IRIs and values of undeclared attributes. It represents each value by a 64-bit code. Equal codes
mean equal values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.nullable import MISSING as MISSING
from cep.core.nullable import nullable, or_none
from cep.core.versions import Versions
from cep.events import Iri, Value

if TYPE_CHECKING:
    from cep.core.hashtable import KeySet

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FREE, INT, FLOAT, BOOL, STRING, IRI = range(6)
"""The kinds of values in a pool. A whole number that fits in 64 bits is INT, so 1.0 and 1 are the same entry."""

Areas = Callable[[Sequence[str]], list[Any]]
"""A function that returns, for each IRI of a place, the place's shape or None (cep/rules/expressions/areas.py)."""

_MANY = 1024  # the number of rows from which looking up columns is faster than looking up rows

# Words that mark the keys of ints, floats and IRIs, so that they rarely equal the key of a value of another kind.
_INT_KEY, _FLOAT_KEY, _IRI_KEY = 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179, 0x3C6EF372FE94F82B


class Pool:
    """A two-way mapping between values and codes. Codes are small integers from 0 on. A value keeps its code until
    `sweep` drops the value.

    Dictionaries contain the mapping. A hash table, which is searched first, only speeds up large columns. Its key is
    one word per value: a hash of a text, or the bits of a number. A second word distinguishes values that have equal
    keys. Only the first of these values is in the hash table; the others are looked up in the dictionaries.
    """

    def __init__(self) -> None:
        self._values: list[Value] = []
        self._strings = _Codes(self, STRING)
        self._iris = _Codes(self, IRI)  # by text
        self._numbers = _Codes(self, INT)
        self._bools = _Codes(self, BOOL)
        self._free: list[int] = []
        self._pinned: set[int] = set()
        self._text_bytes = 0
        self.generation = 0  # increases when values are forgotten
        self.areas: Versions[Areas | None] = Versions(None)  # from the knowledge
        # Arrays by code. The last entry stays empty, because a missing code is clipped to -1 and reads it.
        self._kind: NDArray[np.uint8] = np.zeros(16, dtype=np.uint8)
        self._number: Floats = np.full(16, np.nan)
        self._integer: Ints = np.full(16, MISSING, dtype=np.int64)
        self._hashed: KeySet | None = None
        self._hashed_proofs: Ints = np.empty(0, dtype=np.int64)  # the second words, by id
        self._hashed_codes: Ints = np.empty(0, dtype=np.int64)
        self._texts: pl.Series | None = None  # all values as text, by code; None after values were added
        self._decoded = 0  # the number of rows that were decoded one by one since then

    @property
    def size(self) -> int:
        """The number of values in the pool."""
        return len(self._values) - len(self._free)

    @property
    def nbytes(self) -> int:
        """The approximate memory in bytes of arrays, dictionaries and texts."""
        hashed = self._hashed.nbytes + 2 * self._hashed_codes.nbytes if self._hashed is not None else 0
        return int(17 * len(self._kind) + hashed + 160 * len(self._values) + self._text_bytes)

    @property
    def capacity(self) -> int:
        """The length of an array that is indexed by code. It exceeds the greatest code, so that the last element can
        stand for a missing value."""
        return len(self._kind)

    def kinds(self, codes: Ints) -> NDArray[np.uint8]:
        return self._kind[np.maximum(codes, -1)]

    def numbers(self, codes: Ints) -> Floats:
        """Return the numbers that the codes stand for, as floats. Values that are not numbers become NaN."""
        return self._number[np.maximum(codes, -1)]

    def integers(self, codes: Ints) -> Ints:
        """Return the whole numbers that the codes stand for. Other values become MISSING."""
        return self._integer[np.maximum(codes, -1)]

    def code(self, value: Value) -> int:
        """Return the code of one value. `sweep` never drops this value. Return MISSING for None and for numbers that
        are out of range."""
        code = self._code(value)
        if code != MISSING:
            self._pinned.add(code)
        return code

    def pin(self, codes: Ints) -> None:
        """Protect the values of these codes from `sweep`."""
        self._pinned.update(np.unique(codes[codes != MISSING]).tolist())

    def encode(self, series: pl.Series, type: str) -> Ints:
        """Return the codes of a column. `type`: string or iri for a String series, any for a series of any dtype."""
        dtype = series.dtype
        if dtype == pl.Null:
            return np.full(len(series), MISSING, dtype=np.int64)
        if isinstance(dtype, pl.Categorical | pl.Enum):
            return self._encode_categories(series, type)
        if dtype == pl.String:
            return self._encode_texts(series, self._iris if type == "iri" else self._strings)
        if dtype == pl.Object:
            return self.encode_values(series.to_list())
        assert type == "any", f"a column of {type} is text, not {dtype}"
        if dtype == pl.Boolean:
            return self.encode_bools(series.cast(pl.Int64).fill_null(MISSING).to_numpy())
        if dtype.is_float() or dtype.is_decimal():
            return self.encode_floats(series.cast(pl.Float64).fill_null(math.nan).to_numpy())
        if dtype.is_integer():
            return self.encode_ints(series.cast(pl.Int64, strict=False).fill_null(MISSING).to_numpy())
        assert dtype.is_temporal() and dtype != pl.Time, f"no values can be made of a column of {dtype}"
        ticks = pl.Duration("us") if dtype == pl.Duration else pl.Datetime("us")
        return self.encode_ticks(series.cast(ticks).cast(pl.Int64).fill_null(MISSING).to_numpy())

    def encode_values(self, values: Sequence[Value]) -> Ints:
        """Return the codes of Python values of any types."""
        return np.fromiter(map(self._code, values), dtype=np.int64, count=len(values))

    def encode_ints(self, column: Ints) -> Ints:
        if len(column) < _MANY:
            return _each(self._numbers, or_none(column))
        marks = np.broadcast_to(np.int64(_INT_KEY), column.shape)
        return self._encode_keys(column ^ marks, marks, self._numbers, lambda rows: or_none(column[rows]))

    def encode_floats(self, column: Floats) -> Ints:
        if len(column) < _MANY:
            return _each(self._numbers, column.tolist())
        whole = (np.abs(column) < 2.0**63) & (np.trunc(column) == column)
        bits: Ints = np.where(whole, np.where(whole, column, 0.0).astype(np.int64), column.view(np.int64))
        marks: Ints = np.where(whole, _INT_KEY, _FLOAT_KEY)
        return self._encode_keys(bits ^ marks, marks, self._numbers, lambda rows: column[rows].tolist())

    def encode_bools(self, column: Ints) -> Ints:
        """Return the codes of booleans. `column`: 0, 1 or MISSING for each."""
        no, yes = self._bools[False], self._bools[True]
        return np.where(column == MISSING, MISSING, np.where(column == 1, yes, no)).astype(np.int64, copy=False)

    def encode_ticks(self, column: Ints) -> Ints:
        """Return the codes of times or durations in microseconds. The pool stores them as numbers of seconds."""
        seconds, rest = np.divmod(column, 1_000_000)
        if not rest[column != MISSING].any():
            return self.encode_ints(np.where(column == MISSING, MISSING, seconds))
        return self.encode_floats(np.where(column == MISSING, np.nan, column / 1e6))

    def holds(self, codes: Ints) -> bool:
        """Return True if each code is MISSING, or stands for a value now, or did so earlier."""
        return not codes.size or int(codes.max()) < max(1, len(self._values))

    def value(self, code: int) -> Value:
        """Return the value of a code, or None for MISSING."""
        return None if code == MISSING else self._values[code]

    def decode_values(self, codes: Ints) -> list[Value]:
        values = self._values
        return [None if code < 0 else values[code] for code in codes.tolist()]

    def decode(self, codes: Ints, type: str) -> pl.Series:
        """Return the values of a column of codes.

        For string and iri, the result is a String series. For any, it depends on the values:

        - Int64, Float64, Boolean or String, if all values have one kind
        - Null, if all values are missing
        - Object, for IRIs and for mixed values. Ints among floats stay ints, so that they are always written the same
          way.
        """
        if type in ("string", "iri"):
            return self._decode_texts(codes)
        kinds = set(np.unique(self.kinds(codes)).tolist()) - {FREE}
        if not kinds:
            return pl.Series([None] * len(codes), dtype=pl.Null)
        if kinds == {STRING}:
            return self._decode_texts(codes)
        if kinds == {INT}:
            return nullable(self.integers(codes), codes == MISSING)
        if kinds == {BOOL}:
            return nullable(codes == self._bools[True], codes == MISSING)
        if kinds == {FLOAT}:
            return nullable(self.numbers(codes), codes == MISSING)
        return pl.Series(self.decode_values(codes), dtype=pl.Object)

    def sweep(self, live: Sequence[Ints]) -> int:
        """Drop the values whose codes are not in `live`, except those that `code` or `pin` protect. Return the number
        of dropped values.

        `live` may contain other numbers. The remaining values keep their codes, and free codes are reused.
        """
        keep = self._used(live)
        gone = np.flatnonzero(~keep & (self._kind[: len(keep)] != FREE)).tolist()
        if not gone:
            return 0
        for code in gone:
            value = self._values[code]
            self._by_kind(int(self._kind[code])).pop(value if not isinstance(value, Iri) else str(value))
            self._text_bytes -= len(value) if isinstance(value, str) else 0
            self._values[code] = None
        self._kind[gone], self._number[gone], self._integer[gone] = FREE, np.nan, MISSING
        self._free = sorted([*self._free, *gone], reverse=True)  # the lowest code is used first
        self._hashed, self._texts = None, None
        self.generation += 1
        return len(gone)

    def dump(self, live: Sequence[Ints] | None = None) -> pl.DataFrame:
        """Return a snapshot of the pool, with the columns code, kind, text, integer and number.

        `live`: the only codes that are included, besides those of protected values. None means all codes.
        """
        keep = self._kind[: len(self._values)] != FREE
        if live is not None:
            keep &= self._used(live)
        return self.dump_codes(np.flatnonzero(keep))

    def dump_codes(self, codes: Ints) -> pl.DataFrame:
        """Return a snapshot of the values with these codes."""
        kind, values = self._kind[codes], self.decode_values(codes)
        texts = [str(value) if isinstance(value, str) else None for value in values]
        whole = [int(value) if isinstance(value, int) else None for value in values]
        return pl.DataFrame(
            [
                pl.Series("code", codes, dtype=pl.Int64),
                pl.Series("kind", kind, dtype=pl.UInt8),
                pl.Series("text", texts, dtype=pl.String),
                pl.Series("integer", whole, dtype=pl.Int64),
                nullable(self._number[codes], kind != FLOAT).alias("number"),
            ]
        )

    def load(self, frame: pl.DataFrame) -> Ints:
        """Add the values of a snapshot to this pool. Return an array that maps each code of the snapshot to its code in
        this pool.

        Codes are unchanged if this pool is empty, or contains only constants that have the same codes in the snapshot.
        """
        first, last = frame["code"].min(), frame["code"].max()
        if first is not None and int(str(first)) < 0:
            raise ValueError("no code is less than 0")
        translation: Ints = np.full(0 if last is None else int(str(last)) + 1, MISSING, dtype=np.int64)
        homeless: list[tuple[int, Value]] = []
        for code, kind, text, integer, number in frame.select("code", "kind", "text", "integer", "number").iter_rows():
            value = _restored(kind, text, integer, number)
            known = self._by_kind(kind).get(str(value) if isinstance(value, str) else value)
            if known is not None:
                translation[code] = known
            elif code >= len(self._values) or self._kind[code] == FREE:
                self._reserve(code + 1)
                self._values.extend([None] * (code + 1 - len(self._values)))
                translation[code] = self._place(code, value)
            else:
                homeless.append((code, value))
        self.generation += 1
        self._free = np.flatnonzero(self._kind[: len(self._values)] == FREE)[::-1].tolist()
        for code, value in homeless:
            translation[code] = self._code(value)
        return translation

    def _used(self, live: Sequence[Ints]) -> NDArray[np.bool_]:
        used = np.zeros(len(self._values) + 1, dtype=np.bool_)
        for codes in live:
            used[codes[(codes >= 0) & (codes < len(self._values))]] = True
        used[list(self._pinned)] = True
        return used[:-1]

    def _code(self, value: Value | Any) -> int:
        if value is None:
            return MISSING
        if isinstance(value, str):
            return self._iris[str(value)] if isinstance(value, Iri) else self._strings[value]
        if isinstance(value, bool | np.bool_):
            return self._bools[bool(value)]
        assert isinstance(value, int | float | np.integer | np.floating), f"{value!r} is not a value"
        return self._numbers[value if isinstance(value, int | float) else value.item()]

    def _by_kind(self, kind: int) -> _Codes:
        return (self._numbers, self._numbers, self._numbers, self._bools, self._strings, self._iris)[kind]

    def _encode_categories(self, series: pl.Series, type: str) -> Ints:
        """Return the codes of a categorical column. Each category in the column is looked up once, in order of its
        first row.

        If there are more categories than a quarter of the rows, the rows are looked up instead, which is faster. The
        column may share its categories with other columns of the process.
        """
        cells: Ints
        if series.null_count():
            cells = np.full(len(series), MISSING)
            cells[series.is_not_null().to_numpy()] = self._encode_categories(series.drop_nulls(), type)
            return cells
        places = series.to_physical().to_numpy()
        if len(places) < _MANY or 4 * int(places.max()) > len(places):
            return self.encode(series.cast(pl.String), type)
        first = np.full(int(places.max()) + 1, len(places))
        first[places[::-1]] = np.arange(len(places))[::-1]  # writes the first row of a category last, so that it stays
        known = np.sort(first[first < len(places)])
        codes: Ints = np.empty(len(first), np.int64)
        codes[places[known]] = self.encode(series.gather(known).cast(pl.String), type)
        cells = codes[places]
        return cells

    def _encode_texts(self, series: pl.Series, codes: _Codes) -> Ints:
        if len(series) < _MANY:
            return _each(codes, series.to_list())
        mark = _IRI_KEY if codes is self._iris else 0
        # `^` also makes a copy, because polars' array is read-only, for which the kernel would be compiled again
        keys, proofs = (series.hash(seed).to_numpy().view(np.int64) ^ mark for seed in (1, 2))
        return self._encode_keys(keys, proofs, codes, lambda rows: series.gather(rows).to_list())

    def _encode_keys(self, keys: Ints, proofs: Ints, codes: _Codes, fetch: Callable[[Ints], list[Any]]) -> Ints:
        if self._hashed is None:
            from cep.core.hashtable import KeySet

            self._hashed = KeySet(1)
            self._hashed_proofs, self._hashed_codes = np.empty((2, 1024), dtype=np.int64)
        known = self._hashed.count
        ids, fresh = self._hashed.insert(keys[:, None])
        count = self._hashed.count
        if count > len(self._hashed_codes):
            grown: Ints = np.empty((2, 2 * count), dtype=np.int64)
            grown[:, :known] = self._hashed_proofs[:known], self._hashed_codes[:known]
            self._hashed_proofs, self._hashed_codes = grown
        if len(fresh):
            self._hashed_proofs[known:count] = proofs[fresh]
            self._hashed_codes[known:count] = self._fetched(codes, fetch(fresh))
        cells = self._hashed_codes[ids]
        others = np.flatnonzero(self._hashed_proofs[ids] != proofs)
        if len(others):
            cells[others] = _each(codes, fetch(others))
        return cells

    def _fetched(self, codes: _Codes, values: list[Any]) -> Ints:
        # Most of these distinct values are new, so texts are added all at once.
        if codes.kind not in (STRING, IRI):
            return _each(codes, values)
        cells: Ints = np.full(len(values), -1)
        if not codes.keys().isdisjoint(values):
            cells[:] = [codes.get(value, -1) for value in values]
        new = np.flatnonzero(cells == -1)
        texts = values if len(new) == len(values) else [values[i] for i in new.tolist()]
        again = min(len(texts), len(self._free))
        for i in range(again):
            cells[new[i]] = codes[texts[i]]
        texts, start = texts[again:], len(self._values)
        stop = start + len(texts)
        self._reserve(stop)
        self._values.extend([Iri(text) for text in texts] if codes.kind == IRI else texts)
        codes.update(zip(texts, range(start, stop)))
        self._kind[start:stop] = codes.kind
        self._text_bytes += sum(map(len, texts))
        self._texts = None
        cells[new[again:]] = np.arange(start, stop)
        return cells

    def _reserve(self, size: int) -> None:
        if size >= len(self._kind):  # one entry more than there are codes
            more = max(size + 1, 2 * len(self._kind)) - len(self._kind)
            self._kind = np.concatenate([self._kind, np.zeros(more, dtype=np.uint8)])
            self._number = np.concatenate([self._number, np.full(more, np.nan)])
            self._integer = np.concatenate([self._integer, np.full(more, MISSING, dtype=np.int64)])

    def _new(self, value: Value) -> int:
        if self._free:
            return self._place(self._free.pop(), value)
        self._reserve(len(self._values) + 1)
        self._values.append(None)
        return self._place(len(self._values) - 1, value)

    def _place(self, code: int, value: Value) -> int:
        self._texts = None
        if isinstance(value, str):
            kind = IRI if isinstance(value, Iri) else STRING
            self._by_kind(kind)[str(value)] = code
            self._text_bytes += len(value)
        else:
            assert value is not None, "a missing value has no code"
            kind = BOOL if isinstance(value, bool) else FLOAT if isinstance(value, float) else INT
            self._by_kind(kind)[value] = code
            self._integer[code] = value if kind == INT else MISSING
            self._number[code] = np.nan if kind == BOOL else value
        self._values[code] = value
        self._kind[code] = kind
        return code

    def _decode_texts(self, codes: Ints) -> pl.Series:
        few = len(codes) < _MANY
        self._decoded += 0 if few else len(codes)
        if not few and self._texts is None and self._decoded >= max(64, len(self._values)):
            self._decoded = 0
            texts: list[Any] = self._values
            if ((self._kind > FREE) & (self._kind < STRING)).any():
                texts = [value if isinstance(value, str) else None for value in texts]
            self._texts = pl.Series([*texts, None], dtype=pl.String, strict=False)
        if not few and self._texts is not None:
            return self._texts.gather(np.where(codes < 0, len(self._values), codes))
        values = self._values
        return pl.Series([None if code < 0 else values[code] for code in codes.tolist()], dtype=pl.String)


class _Codes(dict[Any, int]):
    """The codes of the values of one kind. Looking up a new value assigns a code to it."""

    __slots__ = ("kind", "pool")

    def __init__(self, pool: Pool, kind: int) -> None:
        super().__init__({None: MISSING})
        self.pool = pool
        self.kind = kind

    def __missing__(self, value: Any) -> int:
        if self.kind == INT:
            if isinstance(value, float):
                if not math.isfinite(value):
                    return MISSING
                if value.is_integer() and abs(value) < 2.0**63:
                    value = int(value)
            elif abs(value) >= 2**63:
                return MISSING
        return self.pool._new(Iri(value) if self.kind == IRI else value)


def _each(codes: _Codes, values: Sequence[Any]) -> Ints:
    return np.array([codes[value] for value in values], dtype=np.int64)


def _restored(kind: int, text: str, integer: int, number: float) -> Value:
    if kind == IRI:
        return Iri(text)
    if kind == STRING:
        return text
    return bool(integer) if kind == BOOL else number if kind == FLOAT else integer
