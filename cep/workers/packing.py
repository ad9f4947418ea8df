"""Store tables in one block of memory, column by column, and read them there without a copy.

Columns of integers, floats and texts that have no missing values are stored as in Arrow. All other columns of a table
are stored together as one Arrow stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from cep.connectors.arrow_bytes import stream, unpack
from cep.connectors.writing.json_lines import TextPieces
from cep.connectors.writing.unordered_rows import WrittenRows
from cep.core.kernels import njit
from cep.workers.shared_memory import aligned

Tables = dict[str, pl.DataFrame]
Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

NUMBERS: Mapping[pl.DataType, str] = {pl.Int64(): "int64", pl.Float64(): "double"}
TEXTS, LINES, OTHERS = "texts", "lines", "others"


@dataclass(frozen=True, slots=True)
class TakenNumbers:
    """The values at some rows of a column that has 8 bytes per value."""

    values: Ints
    rows: Ints

    @property
    def nbytes(self) -> int:
        return 8 * len(self.rows)

    def copy(self, to: Bytes) -> None:
        _take(self.values, self.rows, to.view(np.int64))


@dataclass(frozen=True, slots=True)
class TakenTexts:
    """The bytes of the texts at some rows of a column. Text i ends at stops[i + 1]. `nbytes`: their total size."""

    stops: Ints
    data: Bytes
    rows: Ints
    nbytes: int

    def copy(self, to: Bytes) -> None:
        _take_texts(self.stops, self.data, self.rows, to)


@dataclass(frozen=True, slots=True)
class Copied:
    """Memory that is copied unchanged."""

    values: NDArray[np.generic]

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def copy(self, to: Bytes) -> None:
        to[:] = self.values.view(np.uint8)


Piece = TakenNumbers | TakenTexts | Copied
Buffer = Sequence[Piece]
"""Consecutive parts of memory that together form one buffer."""


@dataclass(frozen=True, slots=True)
class PackedColumn:
    """A column to be stored, as its buffers. The `kind` is one of:

    - int64, double: one buffer of values.
    - texts: a buffer of ends and a buffer of bytes.
    - lines: the same for the output lines of `WrittenRows`.
    - others: one buffer with an Arrow stream of several columns.
    """

    name: str
    kind: str
    buffers: Sequence[Buffer]

    @classmethod
    def numbers(cls, series: Sequence[pl.Series], pieces: Buffer) -> PackedColumn:
        return cls(series[0].name, NUMBERS[series[0].dtype], [pieces])


@dataclass(slots=True)
class PackedTable:
    """A table to be stored: the number of rows, the order of the columns, and the stored columns."""

    rows: int
    names: Sequence[str]
    columns: list[PackedColumn] = field(default_factory=list)

    @classmethod
    def of(cls, table: pl.DataFrame) -> PackedTable:
        packed = cls(table.height, table.columns)
        rest = []
        for series in table.get_columns():
            if series.null_count() or (series.dtype not in NUMBERS and series.dtype != pl.String):
                rest.append(series)
            elif series.dtype == pl.String:
                stops, data = text_buffers(series)
                packed.add_texts(series.name, stops - stops[0], data[stops[0] : stops[-1]])
            else:
                pieces = [Copied(chunk.to_numpy()) for chunk in chunks(series)]
                packed.columns.append(PackedColumn.numbers([series], pieces))
        packed.add_others(rest)
        return packed

    def add_texts(self, name: str, ends: Ints, data: Bytes, kind: str = TEXTS) -> None:
        """Add a column of texts. Text i ends at ends[i + 1]."""
        self.columns.append(PackedColumn(name, kind, [[Copied(ends)], [Copied(data)]]))

    def add_lines(self, lines: TextPieces) -> None:
        """Add the output line of each row."""
        self.add_texts("", lines.ends, lines.data, LINES)

    def add_others(self, columns: Sequence[pl.Series]) -> None:
        if columns:
            table = pl.DataFrame(columns)
            self.columns.append(PackedColumn("", OTHERS, [[Copied(np.frombuffer(stream(table), np.uint8))]]))


Layout = list[tuple[str, int, Sequence[str], list[tuple[str, str, list[int]]]]]
"""The layout of stored tables. A table has its name, the number of rows, the names of its columns, and the stored
columns. A stored column has its name, its kind and the sizes of its buffers in bytes."""


def laid_out(tables: Mapping[str, pl.DataFrame | PackedTable]) -> tuple[Layout, list[Buffer], int]:
    """Return the layout of tables, their buffers, and their total size in bytes."""
    layout: Layout = []
    buffers: list[Buffer] = []
    size = 0
    for name, table in tables.items():
        packed = PackedTable.of(table) if isinstance(table, pl.DataFrame) else table
        columns = []
        for column in packed.columns:
            sizes = [sum(piece.nbytes for piece in buffer) for buffer in column.buffers]
            columns.append((column.name, column.kind, sizes))
            buffers += column.buffers
            size += sum(map(aligned, sizes))
        layout.append((name, packed.rows, packed.names, columns))
    return layout, buffers, size


def copy(buffers: Iterable[Buffer], to: Bytes) -> None:
    """Copy buffers into the memory `to`. Each buffer begins at an aligned position."""
    begin = 0
    for buffer in buffers:
        position = begin
        for piece in buffer:
            piece.copy(to[position : position + piece.nbytes])
            position += piece.nbytes
        begin += aligned(position - begin)


def read(layout: Layout, memory: pa.Buffer) -> Tables:
    """Return the tables that are stored in memory. They refer to the memory; nothing is copied."""
    slices = _slices(layout, memory)
    tables: Tables = {}
    for name, rows, names, columns in layout:
        series: list[pl.Series] = []
        plain: dict[str, pa.Array] = {}
        lines: TextPieces | None = None
        for column, kind, sizes in columns:
            buffers = [next(slices) for _ in sizes]
            if kind == OTHERS:
                series += unpack(buffers[0]).get_columns()
            elif kind == LINES:
                ends, data = (np.frombuffer(buffer, type) for buffer, type in zip(buffers, (np.int64, np.uint8)))
                lines = TextPieces(data, ends)
            elif kind == TEXTS:
                plain[column] = pa.LargeStringArray.from_buffers(rows, *buffers)
            else:
                type = pa.int64() if kind == "int64" else pa.float64()
                plain[column] = pa.Array.from_buffers(type, rows, [None, *buffers])
        if plain:
            whole = pl.from_arrow(pa.RecordBatch.from_arrays(list(plain.values()), list(plain)), rechunk=False)
            assert isinstance(whole, pl.DataFrame), "columns are a table"
            series += whole.get_columns()
        table = pl.DataFrame(series)
        table = table if table.columns == list(names) else table.select(names)
        tables[name] = table if lines is None else WrittenRows.of(table, [lines])
    return tables


def _slices(layout: Layout, memory: pa.Buffer) -> Iterator[pa.Buffer]:
    offset = 0
    for _, _, _, columns in layout:
        for _, _, sizes in columns:
            for size in sizes:
                yield memory.slice(offset, size)
                offset += aligned(size)


def chunks(series: pl.Series) -> list[pl.Series]:
    """Return the contiguous parts of a column's memory."""
    return series.get_chunks() if series.n_chunks() > 1 else [series]


def text_buffers(series: pl.Series) -> tuple[Ints, Bytes]:
    """Return the ends and the bytes of a text column that has no missing values. Text i ends at ends[i + 1]."""
    array = series.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, stops, data = array.buffers()
    ends = np.frombuffer(stops, np.int64)[array.offset : array.offset + len(array) + 1]
    return ends, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)


@njit()
def _take(values, rows, out):  # type: ignore[no-untyped-def]
    """Copy the values at `rows` to `out`, which has the length of `rows`. All rows must exist in `values`."""
    for i in range(rows.shape[0]):
        out[i] = values[rows[i]]


@njit()
def _take_texts(stops, data, rows, out):  # type: ignore[no-untyped-def]
    """Copy the texts at `rows` to `out`, whose size must be the total size of these texts."""
    o = 0
    for i in range(rows.shape[0]):
        for k in range(stops[rows[i]], stops[rows[i] + 1]):
            out[o] = data[k]
            o += 1


@njit()
def taken_ends(stops, rows, ends, first, base):  # type: ignore[no-untyped-def]
    """Compute where the texts at `rows` end if they are stored one after the other.

    The ends are written to `ends`, starting at index `first`. `base`: the position at which the first text begins.
    Returns the end of the last text.
    """
    for i in range(rows.shape[0]):
        base += stops[rows[i] + 1] - stops[rows[i]]
        ends[first + i] = base
    return base
