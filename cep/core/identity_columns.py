"""Identities of many occurrences at once. For each row, a kernel writes a text and hashes it.

For numbers, booleans, missing values and plain texts, the kernel writes the same as `json.dumps`. A row that contains
anything else is called odd. The caller must use `json.dumps` for odd rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from cep.core.blake2b import BLOCK, LANES, Words, digests, lanes_of
from cep.core.kernels import njit
from cep.core.nullable import MISSING
from cep.core.shortest import ENDLESS, LETTERS, UNSIGNED, write_float, write_whole, write_word

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

DIGITS = 32
"""The number of letters in an identity: two hexadecimal digits per byte."""

WHOLE, OPTIONAL, BOOL, FLOAT, TEXT = 0, 1, 2, 3, 4
"""Kinds of columns. WHOLE and OPTIONAL: whole numbers without and with missing values. BOOL: 0 and 1. FLOAT: the bits
of floats. TEXT: texts.

For each kind except WHOLE, one number means a missing value.
"""
NONE = -1
"""The number that means a missing float or text. No finite float has these bits, and no text has this offset."""
AROUND = 4
"""The maximum number of letters that are written around a value: comma, space and two quotes."""

_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)
"""The two hexadecimal digits of each byte, as they are in memory."""
_ZERO = np.uint64(0)
_NULL, _TRUE, _FALSE = (np.frombuffer(word, np.uint8) for word in (b"null", b"true", b"false"))


@dataclass(frozen=True, slots=True)
class IdentityColumns:
    """A description of the columns whose values are part of an identity.

    - `kinds`: the kind of each column.
    - `places`: for each column, its index among the text columns if it contains texts. Otherwise, its row in the matrix
      of cells.
    - `nones`: for each column, the number that means a missing value.
    - `head`: the beginning of every hashed message.
    """

    head: bytes
    kinds: Ints
    places: Ints
    nones: Ints

    @classmethod
    def of(cls, head: bytes, columns: Sequence[tuple[int, int, int]]) -> IdentityColumns:
        """Create a description of columns. `columns`: for each column, its kind, its place, and the number that means
        missing."""
        kinds, places, nones = np.array(columns, np.int64).reshape(-1, 3).T.copy()
        return cls(head, kinds, places, nones)

    def identities(self, cells: Ints, texts: Sequence[pl.Series]) -> tuple[pl.Series, Bools]:
        """Return the hash of each row's message, and a mask of the odd rows (see above). Their hashes are invalid.

        The message consists of the head, the row's values as JSON with commas, and `]`.
        """
        n = cells.shape[1]
        spans, letters = np.empty((2 * len(texts), n), np.int64), _NULL
        room = len(self.head) + 1 + (AROUND + LETTERS) * len(self.kinds)
        if texts:
            parts, begun = [], 0
            for number, column in enumerate(texts):
                own, ends = _letters(column)
                spans[2 * number], spans[2 * number + 1] = ends[:-1] + begun, ends[1:] + begun
                if column.null_count():
                    spans[2 * number, column.is_null().to_numpy()] = NONE
                parts.append(own)
                begun += len(own)
                room += int(np.diff(ends).max(initial=0))
            letters = np.concatenate(parts)
        words: Words = np.zeros((LANES, -(-room // BLOCK) * BLOCK // 8 + 1), np.uint64)
        messages = words.view(np.uint8)
        messages[:, : len(self.head)] = np.frombuffer(self.head, np.uint8)
        digits, odd = np.empty((n, DIGITS // 2), np.uint16), np.zeros(n, np.bool_)
        columns = self.kinds, self.places, self.nones
        _identities(cells, *columns, spans, letters, words, messages, len(self.head), lanes_of(), digits, odd)
        ends = pa.py_buffer(np.arange(0, DIGITS * n + 1, DIGITS))
        return pl.Series(pa.LargeStringArray.from_buffers(n, ends, pa.py_buffer(digits))), odd


def column_identities(columns: Sequence[pl.Series], head: bytes) -> tuple[pl.Series, Bools] | None:
    """Return the hash of each row of some columns, and a mask of the rows that the kernel cannot write (odd rows).

    Return None if a column has a type that the kernel cannot write, or if there is no column.
    """
    cells, texts = list[Ints](), list[pl.Series]()
    about = list[tuple[int, int, int]]()
    for column in columns:
        type, missing = column.dtype, column.null_count() > 0
        if type == pl.String:
            about.append((TEXT, len(texts), NONE))
            texts.append(column)
            continue
        if type == pl.Float64:
            bits = column.to_numpy().view(np.int64)
            if (bits == NONE).any():
                return None
            about.append((FLOAT, len(cells), NONE))
            cells.append(np.where(column.is_null().to_numpy(), NONE, bits) if missing else bits)
        elif type == pl.Int64 and not missing:
            about.append((WHOLE, len(cells), MISSING))
            cells.append(column.to_numpy())
        elif (type == pl.Int64 and not (column == MISSING).any()) or type == pl.Boolean or type == pl.Null:
            about.append((BOOL if type == pl.Boolean else OPTIONAL, len(cells), MISSING))
            cells.append(column.cast(pl.Int64).fill_null(MISSING).to_numpy())
        else:
            return None
    if not columns:
        return None
    together = np.array(cells) if cells else np.empty((0, len(columns[0])), np.int64)
    return IdentityColumns.of(head, about).identities(together, texts)


def _letters(column: pl.Series) -> tuple[Bytes, Ints]:
    """Concatenate the texts of a column. Also return the offset at which each text ends."""
    array = column.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    letters = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    return letters, ends - ends[0]


@njit(_nrt=False)
def _word(letters, end, word):  # type: ignore[no-untyped-def]
    for i in range(len(word)):
        letters[end + i] = word[i]
    return end + len(word)


@njit(_nrt=False)
def _quoted(letters, end, texts, start, stop):  # type: ignore[no-untyped-def]
    """Write a text in quotes at the offset `end`. Return the offset after it, and True if JSON would escape a
    character."""
    odd = False
    letters[end] = 34
    for i in range(stop - start):
        letter = texts[start + i]
        odd |= (letter < 32) | (letter > 126) | (letter == 34) | (letter == 92)
        letters[end + 1 + i] = letter
    end += 2 + stop - start
    letters[end - 1] = 34
    return end, odd


@njit(_nrt=False)
def _message(cells, kinds, places, nones, spans, texts, row, letters, end):  # type: ignore[no-untyped-def]
    """Write the values of a row at the offset `end`, and zeros up to the end of the block. Return the offset after the
    message, and True if the kernel cannot write a value."""
    odd = False
    for column in range(len(kinds)):
        kind, place = kinds[column], places[column]
        value = spans[2 * place, row] if kind == TEXT else cells[place, row]
        if column:
            letters[end] = 44  # comma
            letters[end + 1] = 32
            end += 2
        if kind != WHOLE and value == nones[column]:
            end = _word(letters, end, _NULL)
        elif kind == TEXT:
            end, otherwise = _quoted(letters, end, texts, value, spans[2 * place + 1, row])
            odd |= otherwise
        elif kind == BOOL:
            end = _word(letters, end, _TRUE if value else _FALSE)
        elif kind == FLOAT:
            if value & UNSIGNED < ENDLESS:
                end = write_float(letters, end, value)
            else:
                odd = True
        elif value == MISSING:
            odd = True  # its negative does not exist
        else:
            end = write_whole(letters, end, value)
    letters[end] = 93  # bracket
    end += 1
    for i in range(end, -(-end // BLOCK) * BLOCK, 8):
        write_word(letters, i, _ZERO)
    return end, odd


@njit()
def _identities(cells, kinds, places, nones, spans, texts, words, letters, head, lanes, digits, odd):  # type: ignore[no-untyped-def]
    """Write the hash of each row to `digits`, in pairs of letters. Mark rows that the kernel cannot write in `odd`.

    `words` and `letters` are two views of the same memory, in which the messages of LANES rows are written. The first
    `head` letters of each message are already filled. The memory has room for the longest row: LETTERS and AROUND per
    column, the longest text of each text column, padding to a whole block, and one word more. `lanes`: see `digests`.
    """
    lengths = np.zeros(LANES, np.int64)
    for first in range(0, len(odd), LANES):
        count = min(LANES, len(odd) - first)
        for lane in range(count):
            row = first + lane
            lengths[lane], odd[row] = _message(cells, kinds, places, nones, spans, texts, row, letters[lane], head)
        digests(words, lengths, lanes)
        for lane in range(count):
            for i in range(DIGITS // 2):
                byte = (lanes[i // 8, lane] >> np.uint64(8 * (i % 8))) & np.uint64(255)
                digits[first + lane, i] = _HEX[byte]
