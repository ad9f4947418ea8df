"""Blocks that tasks send to each other, stored by column.

The driver distributes all blocks of a micro-batch by sorting arrays of numbers. There can be one block for each pair of
a file and a bucket. A block becomes an object only when its rows are read.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, TypeVar
from zlib import crc32

import numpy as np

from cep.core.errors import CepError
from cep.core.stable_order import stable_order
from cep.core.values import Ints
from cep.spark.shuffle_blocks import ShuffleBlock

Held = TypeVar("Held")

_STAGE, _BUCKET, _EVENT, _PLACE, _SOURCE, _HOLDER, _OFFSET, _LENGTH, _SUM = range(9)
_TEXTS = [_EVENT, _SOURCE]
_NONE: Ints = np.empty((9, 0), np.int64)


@dataclass(frozen=True, slots=True)
class FilePart:
    """A range of bytes in a file. `sum`: the checksum of these bytes."""

    path: str
    offset: int
    length: int
    sum: int

    def read(self) -> bytes:
        """Read the bytes. Raises CepError if they differ from the bytes that were written."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self.offset)
                content = file.read(self.length)
        except FileNotFoundError:
            content = b""
        if len(content) != self.length or crc32(content) != self.sum:
            raise lost_file(self.path)
        return content


def lost_file(path: str) -> CepError:
    """Return the error for a missing or damaged file of blocks."""
    return CepError(
        f"--checkpoint: {path}, which one task wrote for another, is missing or damaged",
        hint="the same command repeats the micro-batch; on a cluster all workers need access to the folder",
        code="failed",
    )


class HandedBlocks:
    """A sequence of blocks, stored by column. An iteration reads the rows of a block when it reaches the block. The
    iteration raises CepError if a file of blocks is missing or damaged.

    - `numbers`: a matrix with one column per block, and one row per field of blocks.
    - `texts`: the names of events and sources. `numbers` contains indexes into this sequence.
    - `holders`: the blocks' rows as bytes, or the paths of files that contain them. `numbers` contains indexes into
      this sequence.
    """

    __slots__ = ("_holders", "_numbers", "_texts")

    def __init__(
        self, numbers: Ints = _NONE, texts: Sequence[str | None] = (), holders: Sequence[bytes | str] = ()
    ) -> None:
        self._numbers, self._texts, self._holders = numbers, texts, holders

    @classmethod
    def of(cls, blocks: Iterable[ShuffleBlock], parts: Iterable[FilePart] = ()) -> HandedBlocks:
        """Store blocks by column. `parts`: the places of rows in files. They belong to the first blocks."""
        texts, files, number_rows = dict[str | None, int](), dict[str, int](), list[tuple[int, ...]]()
        holders = list[bytes | str]()
        for block, part in zip_longest(blocks, parts):
            if part is None:
                place = len(holders), 0, len(block.rows), 0
                holders.append(block.rows)
            else:
                if part.path not in files:
                    files[part.path] = len(holders)
                    holders.append(part.path)
                place = files[part.path], part.offset, part.length, part.sum
            event, source = (texts.setdefault(text, len(texts)) for text in (block.event, block.source))
            number_rows.append((block.stage, block.bucket, event, block.place, source, *place))
        numbers = np.array(number_rows, np.int64).T if number_rows else _NONE
        return cls(np.ascontiguousarray(numbers), tuple(texts), tuple(holders))

    @classmethod
    def joined(cls, some: Iterable[HandedBlocks]) -> HandedBlocks:
        """Concatenate sequences of blocks into one sequence."""
        texts, holders, parts = dict[str | None, int](), list[bytes | str](), [_NONE]
        for blocks in some:
            numbers = blocks._numbers.copy()
            places = np.array([texts.setdefault(text, len(texts)) for text in blocks._texts], np.int64)
            numbers[_TEXTS] = places[numbers[_TEXTS]]
            numbers[_HOLDER] += len(holders)
            holders += blocks._holders
            parts.append(numbers)
        return cls(np.concatenate(parts, axis=1), tuple(texts), tuple(holders))

    @property
    def stages(self) -> Ints:
        stage_numbers: Ints = self._numbers[_STAGE]
        return stage_numbers

    @property
    def buckets(self) -> Ints:
        bucket_numbers: Ints = self._numbers[_BUCKET]
        return bucket_numbers

    @property
    def sources(self) -> list[str]:
        return [self._texts[number] or "" for number in self._numbers[_SOURCE].tolist()]

    def of_events(self, names: Collection[str]) -> HandedBlocks:
        """Return the blocks that contain rows of the event types `names`."""
        wanted = np.array([text in names for text in self._texts], bool)
        return self._taken(np.flatnonzero(wanted[self._numbers[_EVENT]])) if len(self) else self

    def by(self, numbers: Ints) -> dict[int, HandedBlocks]:
        """Group the blocks. `numbers`: for each block, the number of its group. Blocks of a group keep their order."""
        order = stable_order(numbers)
        distinct, starts = np.unique(numbers[order], return_index=True)
        return {number: self._taken(mine) for number, mine in zip(distinct.tolist(), np.split(order, starts[1:]))}

    def _taken(self, places: Ints) -> HandedBlocks:
        return HandedBlocks(self._numbers[:, places], self._texts, self._holders)

    def __len__(self) -> int:
        return len(self._numbers[_STAGE])

    def __iter__(self) -> Iterator[ShuffleBlock]:
        for stage, bucket, event, place, source, holder, offset, length, total in self._numbers.T.tolist():
            held, name = self._holders[holder], self._texts[event]
            rows = held if isinstance(held, bytes) else FilePart(held, offset, length, total).read()
            yield ShuffleBlock(stage, bucket, name or "", place, self._texts[source], rows)

    def __reduce__(self) -> tuple[Callable[..., HandedBlocks], tuple[Any, ...]]:
        """Pickle only the texts and the data that these blocks use."""
        numbers = self._numbers.copy()
        texts, holders = _used(numbers, _TEXTS, self._texts), _used(numbers, [_HOLDER], self._holders)
        return HandedBlocks, (numbers, texts, holders)


def _used(numbers: Ints, rows: Sequence[int], held: Sequence[Held]) -> tuple[Held, ...]:
    """Return the elements of `held` to which the matrix `numbers` refers, and renumber these references in place.

    `rows`: the rows of the matrix that contain indexes into `held`.
    """
    used, places = np.unique(numbers[rows], return_inverse=True)
    numbers[rows] = places.reshape(len(rows), -1)
    return tuple(held[place] for place in used.tolist())


def of_rows(rows: Iterable[bytes]) -> HandedBlocks:
    return HandedBlocks.joined(pickle.loads(row) for row in rows)
