"""Graph patterns: where SPARQL in braces ends, and which of its variables are the rule's; no more is read of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

DEEPEST = 100  # braces in braces: what a reader of SPARQL may have to carry


class GraphPiece(NamedTuple):
    """A stretch of SPARQL. `kind`: variable, brace, string, iri, comment, escape, space, open (a string without its
    end), other."""

    kind: str
    text: str
    start: int
    end: int


# An IRI that begins like a variable or a number is none: `FILTER(?a <?b && ?b> 3)`.
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
    """The pieces of `text[start:stop]`; together they are all of it."""
    for match in _PIECE.finditer(text, start, len(text) if stop is None else stop):
        kind = match.lastgroup
        assert kind is not None, "every alternative is named"
        yield GraphPiece(kind, match.group(), match.start(), match.end())


def closed(text: str, start: int, stop: int) -> int:
    """The offset behind the brace that closes the one at `start`; -1 where none does before `stop`."""
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
    """The offset of the string for whose lack of an end the brace at `start` is not closed; -1 where there is none."""
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
    """All variables, in the order in which they first appear, and the offsets of their names there."""
    found: dict[str, int] = {}
    for piece in pieces(graph):
        if piece.kind == "variable":
            found.setdefault(piece.text[1:], piece.start + 1)
    return found


def of_the_rule(graph: str) -> dict[str, int]:
    """Return the variables that start with an upper-case letter."""
    return {name: at for name, at in variables(graph).items() if name[0].isupper()}


def with_terms(graph: str, terms: Mapping[str, str]) -> str:
    """Replace variables by terms."""
    return "".join(
        terms.get(piece.text[1:], piece.text) if piece.kind == "variable" else piece.text for piece in pieces(graph)
    )


def on_one_line(graph: str, names: Mapping[str, str] | None = None, longest: int = 0) -> str:
    """A pattern without comments and line breaks, its variables renamed; cut where it is longer than `longest`."""
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
