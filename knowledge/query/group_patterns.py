"""The structure of groups in SPARQL: the elements of a group, and the groups inside these elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cep.knowledge.query.sparql import SparqlToken, tokens

_BLOCKS = ("optional", "minus", "graph", "service", "values", "filter", "bind")


@dataclass(frozen=True, slots=True)
class GroupElement:
    """An element of a group.

    - `start`, `end`: its position in the text of the group.
    - `kind`: one of triples (of one subject), group (in braces, with its UNIONs), optional, minus, graph, values,
      filter, bind, and select. A select is a subquery, and is the only element of its group.
    - `variables`: the variables and labelled blank nodes in it. For a subquery, only the variables that it selects.
    """

    kind: str
    start: int
    end: int
    variables: frozenset[str]


def elements(text: str) -> list[GroupElement]:
    """Return the elements of a valid group, in the order of the text."""
    words = tokens(text)[1:-1]
    if words and words[0].text.lower() == "select":
        return [_part("select", words)]
    parts: list[GroupElement] = []
    position = 0
    while position < len(words):
        kind, stop = _next(words, position)
        if kind:
            parts.append(_part(kind, words[position:stop]))
        position = stop
    return parts


def _part(kind: str, piece: Sequence[SparqlToken]) -> GroupElement:
    return GroupElement(kind, piece[0].start, piece[-1].end, frozenset(_visible(piece)))


def _visible(piece: Sequence[SparqlToken]) -> Iterator[str]:
    """Yield the variables in some tokens. For a subquery, yield only the variables that it selects."""
    position = 0
    while position < len(piece):
        token = piece[position]
        if token.kind in ("variable", "blank"):
            yield token.text[1:]
        if token.text == "{" and piece[position + 1].text.lower() == "select":
            stop = _closed(piece, position, "{")
            yield from _selected(piece[position + 1 : stop - 1])
            position = stop
        else:
            position += 1


def _selected(query: Sequence[SparqlToken]) -> Iterator[str]:
    opened = next((i for i, token in enumerate(query) if token.text == "{"), len(query))
    if any(token.text == "*" for token in query[1:3]):  # DISTINCT may precede it
        yield from _visible(query[opened:])
        return
    depth, before = 0, ""
    for token in query[:opened]:
        depth += (token.text in "({[") - (token.text in ")}]") if token.kind == "mark" else 0
        if token.kind == "variable" and (not depth or before == "as"):
            yield token.text[1:]
        before = token.text.lower()


def _next(words: Sequence[SparqlToken], position: int) -> tuple[str, int]:
    token = words[position]
    word = token.text.lower() if token.kind == "word" else ""
    if token.text == ".":
        return "", position + 1
    if word in ("filter", "bind"):
        return word, _closed(words, position, "({")
    if word in _BLOCKS:
        return word, _closed(words, position, "{")
    if token.text == "{":
        stop = _closed(words, position, "{")
        while stop < len(words) and words[stop].text.lower() == "union":
            stop = _closed(words, stop, "{")
        return "group", stop
    stop = position
    while stop < len(words) and words[stop].text not in (".", "{"):
        if words[stop].kind == "word" and words[stop].text.lower() in _BLOCKS:
            break
        stop = _closed(words, stop, "([") if words[stop].text in ("(", "[") else stop + 1
    return "triples", stop


def _closed(words: Sequence[SparqlToken], position: int, opening: str) -> int:
    # Return the position after the bracket that closes the first of these opening ones after `at`.
    depth = 0
    for i in range(position, len(words)):
        if words[i].kind == "mark" and (depth or words[i].text in opening):
            depth += (words[i].text in "({[") - (words[i].text in ")}]")
            if depth == 0:
                return i + 1
    return len(words)


@dataclass(frozen=True, slots=True)
class NestedGroup:
    """A group in braces inside an element of another group.

    - `kind`: the kind of the group: group, union (one alternative), optional, minus, graph, select, or exists.
    - `cut`: True if a LIMIT may drop some of the group's answers.
    - `name`: the term before the braces, if the kind is `graph`.
    - `absent`: True if solutions must not match the group (MINUS, NOT EXISTS).
    """

    kind: str
    start: int
    end: int
    cut: bool = False
    name: str = ""
    absent: bool = False


def nested_groups(text: str, part: GroupElement) -> list[NestedGroup]:
    """Return the groups that are directly inside an element."""
    words = [_moved(token, part.start) for token in tokens(text[part.start : part.end])]
    if part.kind in ("filter", "bind"):
        tests = [i + 1 for i, token in enumerate(words[:-1]) if token.text.lower() == "exists"]
        return [
            NestedGroup(
                "exists",
                words[i].start,
                words[_closed(words, i, "{") - 1].end,
                absent=i > 1 and words[i - 2].text.lower() in ("not", "!"),
            )
            for i in tests
        ]
    if part.kind in ("triples", "values", "service"):
        return []
    groups: list[NestedGroup] = []
    position = 0
    while position < len(words):
        stop = _closed(words, position, "({")
        opened = next((i for i in range(position, stop) if words[i].text in ("(", "{")), stop)
        if opened < stop and words[opened].text == "{":
            end = words[stop - 1].end
            groups.append(NestedGroup(part.kind, words[opened].start, end, absent=part.kind == "minus"))
        position = stop
    if part.kind == "select":  # VALUES may follow its group
        after = {token.text.lower() for token in words if token.start >= groups[0].end}
        return [replace(groups[0], cut="limit" in after and after.isdisjoint(("order", "group")))]
    if part.kind == "group" and len(groups) > 1:
        return [replace(block, kind="union") for block in groups]
    if part.kind == "graph":
        return [replace(groups[0], name=text[part.start : groups[0].start])]
    return groups


def _moved(token: SparqlToken, start: int) -> SparqlToken:
    return token._replace(start=token.start + start, end=token.end + start)
