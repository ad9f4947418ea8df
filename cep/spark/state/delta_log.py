"""The rows that came for a bucket in a micro-batch, as a version of its state: the one before, stepped with them.

A step depends on the state, the rows and the watermark alone. So of a large state to which little comes, that is
written, and not the state: the versions since the last whole one are a log, which who has lost the engine steps again.
It has at most `ENTRIES`, and no more bytes than the whole one.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # which loads polars, and a process that only plans does without
    from cep.spark.shuffle_blocks import ShuffleBlock

MARK = b"\x00came\x02"
"""The first bytes of such a version; the last one counts the forms there have been."""

ENTRIES = 100
"""Versions in a row that are not whole."""

_PLACE, _LENGTH = struct.Struct("<qqq"), struct.Struct("<q")

HEAD = len(MARK) + _PLACE.size
"""By so many bytes the place of a version is known."""


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The place of a version in the log: the number of the `whole` version below it (its own if it is whole), that
    version's `size` in bytes, and the bytes of all later entries (`behind`).
    """

    whole: int
    size: int
    behind: int = 0

    @classmethod
    def of(cls, begins: bytes, size: int, version: int) -> LogPlace:
        """The place of a version, of which a file of this size has these first bytes. struct.error: it is damaged."""
        if not begins.startswith(MARK):
            return cls(version, size)
        return cls(*_PLACE.unpack_from(begins, len(MARK)))

    def next(self, version: int, size: int) -> LogPlace | None:
        """That of the next version, of so many bytes; None: it is to be whole."""
        if version > self.whole + ENTRIES or self.behind + size > self.size:
            return None
        return LogPlace(self.whole, self.size, self.behind + size)


@dataclass(frozen=True, slots=True)
class Came:
    """The `rows` that a bucket took, and the `watermark` to which it went on (milliseconds, 0: there is none yet)."""

    rows: Sequence[ShuffleBlock]
    watermark: int

    def packed(self, before: LogPlace, version: int) -> bytes | None:
        """It as the version behind one of a place; None: that is to be whole."""
        rows = [[one.event, one.place, one.source, len(one.rows)] for one in self.rows]
        text = json.dumps({"watermark": self.watermark, "rows": rows}, separators=(",", ":")).encode()
        size = HEAD + _LENGTH.size + len(text) + sum(len(one.rows) for one in self.rows)
        place = before.next(version, size)
        if place is None:
            return None
        head = MARK, _PLACE.pack(place.whole, place.size, place.behind), _LENGTH.pack(len(text)), text
        return b"".join([*head, *(one.rows for one in self.rows)])

    @classmethod
    def of(cls, content: bytes, stage: int, bucket: int) -> Came:
        """The blocks that came for a bucket, from a version. ValueError, LookupError, TypeError, struct.error: it is
        none."""
        from cep.spark.shuffle_blocks import ShuffleBlock

        start = HEAD + _LENGTH.size
        at = start + _LENGTH.unpack_from(content, HEAD)[0]
        header, rows = json.loads(content[start:at]), list[ShuffleBlock]()
        for event, place, source, length in header["rows"]:
            rows.append(ShuffleBlock(stage, bucket, event, place, source, content[at : at + length], 0))
            at += length
        if at != len(content):
            raise ValueError
        return cls(rows, header["watermark"])
