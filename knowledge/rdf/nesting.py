"""Detection of RDF text that is nested too deeply for Oxigraph's parser. Such text would overflow the parser's stack,
which ends the process, or keep the parser busy for a long time."""

from __future__ import annotations

import re
from typing import Protocol

import numpy as np

DEEPEST = 500
"""The maximum nesting depth of brackets in JSON-LD, elements in RDF/XML, or triples that are terms of other triples."""

TOO_DEEP = f"more than {DEEPEST} levels of nesting"

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"|("(?:[^"\\]|\\.)*+\\?\Z)', re.DOTALL)  # in the group: a cut-off string
_TRIPLE = b"<<("
_LONGEST_LINE = 1 << 24
_MARKUP = (b"<!--", b"-->"), (b"<![CDATA[", b"]]>")
_QUIET = re.compile(rb"<!--.*?-->|<!\[CDATA\[.*?\]\]>", re.DOTALL)
"""A pattern for comments and CDATA sections of RDF/XML. They contain no elements."""
_TEXTS = re.compile(
    rb'''"""(?:[^"\\]|\\.|"(?!""))*+(?:"""|(?P<double>\Z))|'{3}(?:[^'\\]|\\.|'(?!''))*+(?:'{3}|(?P<single>\Z))'''
    rb"""|"(?:[^"\\\n\r]|\\.)*+"|'(?:[^'\\\n\r]|\\.)*+'|<[^<>"\s]*+>|\\.|\#[^\n\r]*+""",
    re.DOTALL,
)
"""A pattern for strings, IRIs and comments of Turtle. They contain no triples."""
_TERMS = re.compile(rb"<<\(|\)>>")


class Depth(Protocol):
    """A check of the nesting depth of a text that arrives in pieces."""

    def too_deep(self, piece: bytes) -> bool: ...


class JsonDepth:
    """The nesting depth of brackets in JSON text that arrives in pieces."""

    def __init__(self) -> None:
        self._depth, self._begun = 0, b""

    def too_deep(self, piece: bytes) -> bool:
        """Read the next piece. Return True if a bracket in it is nested deeper than DEEPEST levels."""
        text, quote, string = _STRING.sub(rb"\1", self._begun + piece).partition(b'"')
        escaping = (len(string) - len(string.rstrip(b"\\"))) % 2
        self._begun = quote + b"\\" * escaping
        letters = np.frombuffer(text, np.uint8)
        steps = ((letters == 123) | (letters == 91)).astype(np.int64) - ((letters == 125) | (letters == 93))
        depths = self._depth + np.cumsum(steps)
        self._depth = int(depths[-1]) if len(depths) else self._depth
        return bool((depths > DEEPEST).any())


class TurtleDepth:
    """The nesting depth of quoted triples in Turtle or TriG text, which arrives in pieces.

    A quoted triple is a triple that is a term of another triple.
    """

    def __init__(self) -> None:
        self._depth, self._begun = 0, b""  # at the start of the line, with the quotes of an open string
        self._line: list[bytes] = []  # pieces of an incomplete line
        self._size, self._terms = 0, 0  # its bytes, and an upper bound of the triples that begin in it

    def too_deep(self, piece: bytes) -> bool:
        """Read the next piece. Return True if a triple in it is nested deeper than DEEPEST levels."""
        lines, newline, rest = piece.rpartition(b"\n")
        if newline:
            deepest, self._depth, self._begun = self._read(b"".join((*self._line, lines, newline)))
            if deepest > DEEPEST:
                return True
            self._line, self._size, self._terms = [], 0, 0
        before = self._line[-1][-2:] if self._line else b""
        self._terms += (before + rest).count(_TRIPLE)
        self._size += len(rest)
        self._line.append(rest)
        if self._depth + self._terms <= DEEPEST:
            return False
        return self._size > _LONGEST_LINE or self._read(b"".join(self._line))[0] > DEEPEST

    def _read(self, text: bytes) -> tuple[int, int, bytes]:
        """Return three values for some lines: the maximum depth in them, the depth at their end, and the quotes of the
        string that is open at their end.

        The third value is empty if no string is open.
        """
        if not (self._begun or b'"""' in text or b"'''" in text or _TRIPLE in text or b")>>" in text):
            return self._depth, self._depth, b""
        last: re.Match[bytes] | None = None

        def blank(blank_match: re.Match[bytes]) -> bytes:
            nonlocal last
            last = blank_match
            return b" "

        plain = _TEXTS.sub(blank, self._begun + text)
        begun = b"" if last is None or last.lastgroup is None else last[0][:3]
        deepest = depth = self._depth
        for term in _TERMS.findall(plain):
            depth += 1 if term == _TRIPLE else -1
            deepest = max(deepest, depth)
        return deepest, depth, begun


class XmlDepth:
    """The nesting depth of elements in RDF/XML text that arrives in pieces.

    It must be limited, because the time that the parser needs grows with the square of the depth.
    """

    def __init__(self) -> None:
        self._depth, self._begun = 0, b""

    def too_deep(self, piece: bytes) -> bool:
        """Read the next piece. Return True if an element in it is nested deeper than DEEPEST levels."""
        text = self._begun + piece
        if b"<!" in text:
            text = _QUIET.sub(b" ", text)
        self._begun = b""
        for begin, end in _MARKUP:
            before, begun, inside = text.partition(begin)
            if begun:  # it continues in the next piece
                text, self._begun = before, begin + inside[1 - len(end) :]
        if not self._begun:  # a mark may be cut off
            cut = text.rfind(b"<", -9)
            if cut < 0 or b">" in text[cut:]:
                cut = len(text) - text.endswith(b"/")
            text, self._begun = text[:cut], text[cut:]
        letters = np.frombuffer(text + b" ", np.uint8)
        this, following = letters[:-1], letters[1:]
        opens = (this == 60) & ~np.isin(following, np.frombuffer(b"/!?", np.uint8))
        closes = ((this == 60) & (following == 47)) | ((this == 47) & (following == 62))
        depths = self._depth + np.cumsum(opens.astype(np.int64) - closes)
        self._depth = int(depths[-1]) if len(depths) else self._depth
        return bool((depths > DEEPEST).any())


def triples_too_deep(line: bytes) -> bool:
    """Return True if a line of N-Quads may contain more than DEEPEST nested triples."""
    return line.count(_TRIPLE) > DEEPEST and _STRING.sub(b"", line).count(_TRIPLE) > DEEPEST


class LineDepth:
    """The nesting depth of quoted triples in N-Triples or N-Quads text, which arrives in pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def too_deep(self, piece: bytes) -> bool:
        """Read the next piece. Return True if a line in it has more than DEEPEST nested triples."""
        if _TRIPLE not in self._rest and _TRIPLE not in piece:
            self._rest = piece[-2:]
            return False
        *lines, self._rest = (self._rest + piece).split(b"\n")
        self._rest = self._rest[-_LONGEST_LINE:]
        return any(map(triples_too_deep, (*lines, self._rest)))
