"""Scanner of graph patterns. It finds the end of a SPARQL text in braces, and the variables in this text, without
parsing SPARQL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

DEEPEST = 100  # the maximum nesting of braces, which a SPARQL parser must be able to read


class GraphPiece(NamedTuple):
    """A part of a SPARQL text.

    `kind`: variable, brace, string, iri, comment, escape, space, open (a string without an end) or other.
    """

    kind: str
    text: str
    start: int
    end: int


# `<` before a variable or a number is an operator, not the start of an IRI: `FILTER(?a <?b && ?b> 3)`.
_PIECE = re.compile(
    r'''
    (?P<string>"""(?:[^"\\]|\\.|"(?!""))*+"""|\'\'\'(?:[^'\\]|\\.|'(?!\'\'))*+\'\'\'
      |"(?!"")(?:[^"\\\n\r]|\\[^\n\r])*+"|'(?!\'\')(?:[^'\\\n\r]|\\[^\n\r])*+')
  | (?P<open>["'])
  | (?P<iri><(?![?$0-9])[^<>"{}|^`\\\x00-\x20]*+>)
  | (?P<comment>\#[^\n\r]*+)
  | (?P<escape>\\.)
  | (?P<variable>[?$][\w\u00b7\u0300-\u036f\u203f-\u2040]++)
  | (?P<brace>[{}])
  | (?P<space>\s++)
  | (?P<other>[^"'<\#\\?${}\s]++|.)
    ''',
    re.VERBOSE | re.DOTALL,
)


def pieces(text: str, start: int = 0, stop: int | None = None) -> Iterator[GraphPiece]:
    """Split `text[start:stop]` into pieces. Together they contain every character."""
    for match in _PIECE.finditer(text, start, len(text) if stop is None else stop):
        kind = match.lastgroup
        assert kind is not None, "every alternative is named"
        yield GraphPiece(kind, match.group(), match.start(), match.end())


def closed(text: str, start: int, stop: int) -> int:
    """Return the offset just after the brace that closes the brace at `start`, or -1 if there is none before `stop`."""
    depth = 0
    for piece in pieces(text, start, stop):
        if piece.kind == "open":
            return -1
        if piece.kind == "brace":
            depth += 1 if piece.text == "{" else -1
            if depth == 0:
                return piece.end
    return -1


def open_string(text: str, start: int) -> int:
    """Return the offset of the first string that has no end, or -1 if there is none. Search from `start` on."""
    return next((piece.start for piece in pieces(text, start) if piece.kind == "open"), -1)


def depth(graph: str) -> int:
    """Return the largest depth of nested braces."""
    now = most = 0
    for piece in pieces(graph):
        if piece.kind == "brace":
            now += 1 if piece.text == "{" else -1
            most = max(most, now)
    return most


def variables(graph: str) -> dict[str, int]:
    """Return all variables in order of their first occurrence, each with the offset at which its name first begins."""
    offsets: dict[str, int] = {}
    for piece in pieces(graph):
        if piece.kind == "variable":
            offsets.setdefault(piece.text[1:], piece.start + 1)
    return offsets


def of_the_rule(graph: str) -> dict[str, int]:
    """Return the variables that begin with a capital, which are those of the rule, with their offsets."""
    return {name: offset for name, offset in variables(graph).items() if name[0].isupper()}


def with_terms(graph: str, terms: Mapping[str, str]) -> str:
    """Replace variables in a graph pattern by terms. `terms`: the SPARQL term for each variable."""
    return "".join(
        terms.get(piece.text[1:], piece.text) if piece.kind == "variable" else piece.text for piece in pieces(graph)
    )


def on_one_line(graph: str, names: Mapping[str, str] | None = None, longest: int = 0) -> str:
    """Return a graph pattern on one line, without comments.

    `names`: the new names of variables. `longest`: the maximum number of characters, or 0 for no limit.
    """
    parts: list[str] = []
    for piece in pieces(graph):
        if piece.kind in ("space", "comment"):
            if parts and parts[-1] != " ":
                parts.append(" ")
        elif piece.kind == "variable":
            parts.append(piece.text[0] + (names or {}).get(piece.text[1:], piece.text[1:]))
        elif piece.kind == "string":
            first, *more = piece.text.splitlines()
            parts.append(f"{first}...{piece.text[:3]}" if more else first)
        else:
            parts.append(piece.text)
    text = "".join(parts)
    if not longest or len(text) <= longest:
        return text
    cut = text[: longest - 5].rpartition(" ")[0] or text[: longest - 5]
    return f"{cut.rstrip(' ;,.')} ... }}"
