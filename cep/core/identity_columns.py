"""Identities of many occurrences at once: a kernel writes the text of a row, hashes it, and goes on to the next.

It writes what `json.dumps` writes of numbers, true and false, what is missing, and plain texts. A row with anything
else is odd, and left to `json.dumps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from cep.core.blake2b import BLOCK, Words, digest
from cep.core.kernels import njit
from cep.core.nullable import MISSING
from cep.core.shortest import ENDLESS, LETTERS, UNSIGNED, write_float, write_whole

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

DIGITS = 32
"""Letters of an identity: two hexadecimal digits a byte."""

WHOLE, OPTIONAL, BOOL, FLOAT, TEXT = 0, 1, 2, 3, 4
"""Kinds of columns: whole numbers; whole numbers, 0 and 1, the bits of floats, each with a number that stands for none;
texts."""
NONE = -1
"""Marks a missing float among bits that are no JSON number; also the beginning of a missing text."""
AROUND = 4
"""Letters around a value, at most: comma, space and two quotes."""

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_NULL, _TRUE, _FALSE = (np.frombuffer(word, np.uint8) for word in (b"null", b"true", b"false"))


@dataclass(frozen=True, slots=True)
class IdentityColumns:
    """Columns to take identities of: the `kinds` of them, the row of cells that has each, of texts its number among
    texts (`places`), and what stands for none there (`nones`). `head`: what every message begins with."""

    head: bytes
    kinds: Ints
    places: Ints
    nones: Ints

    @classmethod
    def of(cls, head: bytes, columns: Sequence[tuple[int, int, int]]) -> IdentityColumns:
        """Each column as kind, place and what stands for none."""
        kinds, places, nones = np.array(columns, np.int64).reshape(-1, 3).T.copy()
        return cls(head, kinds, places, nones)

    def identities(self, cells: Ints, texts: Sequence[pl.Series]) -> tuple[pl.Series, Bools]:
        """The digests of the head, the values of a row as JSON with commas between, and `]`; and which rows are odd,
        whose digests are of something else."""
        n = cells.shape[1]
        spans, letters = np.empty((2 * len(texts), n), np.int64), _NULL
        room = len(self.head) + 1 + (AROUND + LETTERS) * len(self.kinds)
        if texts:
            found, begun = [], 0
            for number, column in enumerate(texts):
                own, ends = _letters(column)
                spans[2 * number], spans[2 * number + 1] = ends[:-1] + begun, ends[1:] + begun
                if column.null_count():
                    spans[2 * number, column.is_null().to_numpy()] = NONE
                found.append(own)
                begun += len(own)
                room += int(np.diff(ends).max(initial=0))
            letters = np.concatenate(found)
        words: Words = np.zeros(-(-room // BLOCK) * BLOCK // 8, np.uint64)
        message = words.view(np.uint8)
        message[: len(self.head)] = np.frombuffer(self.head, np.uint8)
        made, odd = np.empty(DIGITS * n, np.uint8), np.zeros(n, np.bool_)
        _identities(
            cells, self.kinds, self.places, self.nones, spans, letters, words, message, len(self.head), made, odd
        )
        ends = pa.py_buffer(np.arange(0, DIGITS * n + 1, DIGITS))
        return pl.Series(pa.LargeStringArray.from_buffers(n, ends, pa.py_buffer(made))), odd


def column_identities(columns: Sequence[pl.Series], head: bytes) -> tuple[pl.Series, Bools] | None:
    """The same of the columns of a frame. None: one of them has other values, or there is none."""
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
    """The texts of a column one after the other, and where each begins and ends."""
    array = column.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    letters = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    return letters, ends - ends[0]


@njit(_nrt=False)
def _word(letters, at, word):  # type: ignore[no-untyped-def]
    """Write a word; gives where it ends."""
    for i in range(len(word)):
        letters[at + i] = word[i]
    return at + len(word)


@njit(_nrt=False)
def _quoted(letters, at, texts, start, stop):  # type: ignore[no-untyped-def]
    """Write a text in quotes; gives where it ends, and whether JSON would write it otherwise."""
    odd = False
    letters[at] = 34
    for i in range(stop - start):
        letter = texts[start + i]
        odd |= (letter < 32) | (letter > 126) | (letter == 34) | (letter == 92)
        letters[at + 1 + i] = letter
    at += 2 + stop - start
    letters[at - 1] = 34
    return at, odd


@njit(_nrt=False)
def _identities(cells, kinds, places, nones, spans, texts, words, letters, head, made, odd):  # type: ignore[no-untyped-def]
    """Into `made` the digest of each row, DIGITS letters, and into `odd` whether it is none. `words` and `letters` are
    one memory, that of the message, whose first `head` letters are there. It has room for the longest row: LETTERS and
    what is around it for each column, more for the longest text of a column, and whole blocks."""
    for row in range(len(odd)):
        at = head
        for column in range(len(kinds)):
            kind, place = kinds[column], places[column]
            value = spans[2 * place, row] if kind == TEXT else cells[place, row]
            if column:
                letters[at] = 44  # comma
                letters[at + 1] = 32
                at += 2
            if kind != WHOLE and value == nones[column]:
                at = _word(letters, at, _NULL)
            elif kind == TEXT:
                at, otherwise = _quoted(letters, at, texts, value, spans[2 * place + 1, row])
                odd[row] |= otherwise
            elif kind == BOOL:
                at = _word(letters, at, _TRUE if value else _FALSE)
            elif kind == FLOAT:
                if value & UNSIGNED < ENDLESS:
                    at = write_float(letters, at, value)
                else:
                    odd[row] = True
            elif value == MISSING:
                odd[row] = True  # it has no opposite
            else:
                at = write_whole(letters, at, value)
        letters[at] = 93  # bracket
        at += 1
        for i in range(at, -(-at // BLOCK) * BLOCK):
            letters[i] = 0
        one, other = digest(words, at)
        for i in range(DIGITS // 4):
            place = DIGITS * row + 2 * i
            byte = (one >> np.uint64(8 * i)) & np.uint64(255)
            made[place], made[place + 1] = _HEX[byte >> np.uint64(4)], _HEX[byte & np.uint64(15)]
            place += DIGITS // 2
            byte = (other >> np.uint64(8 * i)) & np.uint64(255)
            made[place], made[place + 1] = _HEX[byte >> np.uint64(4)], _HEX[byte & np.uint64(15)]
