"""Convert between offsets in a text and an editor's lines and columns. By default, columns count UTF-16 units."""

from __future__ import annotations

import re
from bisect import bisect_right

from lsprotocol.types import Position, PositionEncodingKind, Range

_BREAK = re.compile(r"\r\n|\n|\r")
_BYTES = {PositionEncodingKind.Utf8: ("utf-8", 1), PositionEncodingKind.Utf16: ("utf-16-le", 2)}


class Positions:
    """The positions in one text. `encoding`: the encoding in whose units the editor counts columns."""

    def __init__(self, text: str, encoding: PositionEncodingKind | str | None = PositionEncodingKind.Utf16) -> None:
        self._text = text
        self._starts = [0, *(match.end() for match in _BREAK.finditer(text))]
        self._codec, self._size = _BYTES.get(PositionEncodingKind(encoding or "utf-16"), ("utf-32-le", 4))

    def position(self, offset: int) -> Position:
        """Return the line and column of an offset."""
        line = bisect_right(self._starts, offset) - 1
        before = self._text[self._starts[line] : offset]
        units = len(before) if before.isascii() else len(before.encode(self._codec, "surrogatepass")) // self._size
        return Position(line, units)

    def range(self, start: int, end: int) -> Range:
        """Return the range between two offsets, in the editor's form."""
        return Range(self.position(start), self.position(end))

    def offset(self, position: Position) -> int:
        """Return the offset of a position. For a position outside the text or line, return the nearest offset
        inside."""
        if position.line >= len(self._starts):
            return len(self._text)
        start = self._starts[position.line]
        end = self._starts[position.line + 1] if position.line + 1 < len(self._starts) else len(self._text)
        line = self._text[start:end].rstrip("\r\n")
        if line.isascii():
            return start + min(position.character, len(line))
        taken = line.encode(self._codec, "surrogatepass")[: position.character * self._size]
        return start + len(taken.decode(self._codec, "ignore"))

    @property
    def whole(self) -> Range:
        return self.range(0, len(self._text))
