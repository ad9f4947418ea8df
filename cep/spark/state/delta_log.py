"""Versions of a bucket's state that consist only of the input since the previous version.

A step depends only on the state, the rows and the watermark. So if the state is large and the input small, only the
input is written. The versions since the last whole version form a log. A worker that does not have the engine repeats
the steps of the log. A log has at most `ENTRIES` versions, and no more bytes than the whole version.
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
"""The first bytes of a version that contains only input. The last of these bytes is the version of this file format."""

ENTRIES = 100
"""The maximum number of successive versions that contain only input."""

_PLACE, _LENGTH = struct.Struct("<qqq"), struct.Struct("<q")

HEAD = len(MARK) + _PLACE.size
"""The number of bytes at the beginning of a file that contain the mark and the version's place."""


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The place of a version in a bucket's log.

    - `whole`: the number of the last whole version up to this version.
    - `size`: the size of that whole version in bytes.
    - `behind`: the total size of the inputs after the whole version, including this version.
    """

    whole: int
    size: int
    behind: int = 0

    @classmethod
    def of(cls, begins: bytes, size: int, version: int) -> LogPlace:
        """Return the place of a version.

        `begins`: the first bytes of the version's file. `size`: its size. Raises struct.error if the bytes are damaged.
        """
        if not begins.startswith(MARK):
            return cls(version, size)
        return cls(*_PLACE.unpack_from(begins, len(MARK)))

    def next(self, version: int, size: int) -> LogPlace | None:
        """Return the place of the next version. Returns None if the next version must contain the whole state.

        `version`: the number of the next version. `size`: the number of bytes of its input.
        """
        if version > self.whole + ENTRIES or self.behind + size > self.size:
            return None
        return LogPlace(self.whole, self.size, self.behind + size)


@dataclass(frozen=True, slots=True)
class Came:
    """The input of one step of a bucket: its rows, and the watermark in milliseconds, or 0 if there is none yet."""

    rows: Sequence[ShuffleBlock]
    watermark: int

    def packed(self, before: LogPlace, version: int) -> bytes | None:
        """Return the content of a version that contains only this input, or None if it must contain the whole state.

        `before`: the place of the previous version. `version`: the number of the new version.
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
        """Read the input of a bucket from the content of a version.

        Raises ValueError, LookupError, TypeError or struct.error if the content is not valid.
        """
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
