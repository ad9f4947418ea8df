"""Find text that is nested so deeply that it would overflow the stack of Oxigraph's parser, which ends the process."""

from __future__ import annotations

import re

import numpy as np

DEEPEST = 500
"""Brackets of JSON-LD, or triples as terms of N-Quads, that may stand in one another."""

TOO_DEEP = f"more than {DEEPEST} levels of nesting"

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"|("(?:[^"\\]|\\.)*+\\?\Z)', re.DOTALL)  # group: it is cut off
_TRIPLE = b"<<("


class JsonDepth:
    """How deeply brackets of JSON stand in one another, of text that comes in pieces."""

    def __init__(self) -> None:
        self._depth, self._begun = 0, b""

    def too_deep(self, piece: bytes) -> bool:
        """Return True if a bracket of the next piece stands in more than DEEPEST others."""
        text, quote, string = _STRING.sub(rb"\1", self._begun + piece).partition(b'"')
        escaping = (len(string) - len(string.rstrip(b"\\"))) % 2
        self._begun = quote + b"\\" * escaping
        letters = np.frombuffer(text, np.uint8)
        steps = ((letters == 123) | (letters == 91)).astype(np.int64) - ((letters == 125) | (letters == 93))
        depths = self._depth + np.cumsum(steps)
        self._depth = int(depths[-1]) if len(depths) else self._depth
        return bool((depths > DEEPEST).any())


def triples_too_deep(line: bytes) -> bool:
    """Return True if a line of N-Quads may have more than DEEPEST triples as terms of one another."""
    return line.count(_TRIPLE) > DEEPEST and _STRING.sub(b"", line).count(_TRIPLE) > DEEPEST
