"""The input of a bucket in a micro-batch, as a version of its state: the previous version, stepped with this input.

A step depends only on the state, the rows and the watermark. So if a large state has little input, only the input is
written. The versions since the last whole version form a log. A worker that does not have the engine steps through the
log again. A log has at most `ENTRIES` versions, and no more bytes than the whole version.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it loads polars, which processes that only plan do without
    from cep.spark.shuffle_blocks import ShuffleBlock

MARK = b"\x00came\x02"
"""The first bytes of a version that consists of input. The last of them is the version of the format."""

ENTRIES = 100
"""The maximum number of successive versions that are not whole."""

_PLACE, _LENGTH = struct.Struct("<qqq"), struct.Struct("<q")

HEAD = len(MARK) + _PLACE.size
"""The number of bytes from which the place of a version can be read."""


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The place of a version in the log.

    `whole`: the number of the last whole version up to this one. `size`: the size of that version in bytes. `behind`:
    the total size of the entries after that version, up to and including this one.
    """

    whole: int
    size: int
    behind: int = 0

    @classmethod
    def of(cls, begins: bytes, size: int, version: int) -> LogPlace:
        """Return the place of a version, given the first bytes and the size of its file. struct.error: it is
        damaged."""
        if not begins.startswith(MARK):
            return cls(version, size)
        return cls(*_PLACE.unpack_from(begins, len(MARK)))

    def next(self, version: int, size: int) -> LogPlace | None:
        """Return the place of the next version, which has `size` bytes; None: it must be written whole."""
        if version > self.whole + ENTRIES or self.behind + size > self.size:
            return None
        return LogPlace(self.whole, self.size, self.behind + size)


@dataclass(frozen=True, slots=True)
class Came:
    """The rows with which a bucket was stepped, and the watermark (milliseconds; 0: there is none yet)."""

    rows: Sequence[ShuffleBlock]
    watermark: int

    def packed(self, before: LogPlace, version: int) -> bytes | None:
        """Return the input in the form of a new version; None: the version must be written whole.

        `before`: the place of the previous version. `version`: the number of the new one.
        """
        rows = [[row.event, row.place, row.source, len(row.rows)] for row in self.rows]
        text = json.dumps({"watermark": self.watermark, "rows": rows}, separators=(",", ":")).encode()
        size = HEAD + _LENGTH.size + len(text) + sum(len(row.rows) for row in self.rows)
        place = before.next(version, size)
        if place is None:
            return None
        head = MARK, _PLACE.pack(place.whole, place.size, place.behind), _LENGTH.pack(len(text)), text
        return b"".join([*head, *(row.rows for row in self.rows)])

    @classmethod
    def of(cls, content: bytes, stage: int, bucket: int) -> Came:
        """Read the input of a bucket from a version. ValueError, LookupError, TypeError, struct.error: it is not
        valid."""
        from cep.spark.shuffle_blocks import ShuffleBlock

        start = HEAD + _LENGTH.size
        position = start + _LENGTH.unpack_from(content, HEAD)[0]
        header, rows = json.loads(content[start:position]), list[ShuffleBlock]()
        for event, place, source, length in header["rows"]:
            rows.append(ShuffleBlock(stage, bucket, event, place, source, content[position : position + length], 0))
            position += length
        if position != len(content):
            raise ValueError
        return cls(rows, header["watermark"])
