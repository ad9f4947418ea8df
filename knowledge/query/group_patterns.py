"""The structure of groups in SPARQL: the parts of a group, and the groups inside these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cep.knowledge.query.sparql import SparqlToken, tokens

_BLOCKS = ("optional", "minus", "graph", "service", "values", "filter", "bind")


@dataclass(frozen=True, slots=True)
class GroupElement:
    """A part of a group, from `start` to `end` in its text.

    `kind`: triples (of one subject), group (in braces, with its UNIONs), optional, minus, graph, values, filter, bind,
    or select (a subquery, which is the whole group). `variables`: includes labelled blank nodes; for a subquery, the
    variables that it selects.
    """

    kind: str
    start: int
    end: int
    variables: frozenset[str]


def elements(text: str) -> list[GroupElement]:
    """Return the parts of a valid group, in the order of the text."""
    found = tokens(text)[1:-1]
    if found and found[0].text.lower() == "select":
        return [_part("select", found)]
    made: list[GroupElement] = []
    at = 0
    while at < len(found):
        kind, stop = _next(found, at)
        if kind:
            made.append(_part(kind, found[at:stop]))
        at = stop
    return made


def _part(kind: str, piece: Sequence[SparqlToken]) -> GroupElement:
    return GroupElement(kind, piece[0].start, piece[-1].end, frozenset(_visible(piece)))


def _visible(piece: Sequence[SparqlToken]) -> Iterator[str]:
    """Yield the variables of some tokens, except those that are local to a subquery."""
    at = 0
    while at < len(piece):
        token = piece[at]
        if token.kind in ("variable", "blank"):
            yield token.text[1:]
        if token.text == "{" and piece[at + 1].text.lower() == "select":
            stop = _closed(piece, at, "{")
            yield from _selected(piece[at + 1 : stop - 1])
            at = stop
        else:
            at += 1


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


def _next(found: Sequence[SparqlToken], at: int) -> tuple[str, int]:
    token = found[at]
    word = token.text.lower() if token.kind == "word" else ""
    if token.text == ".":
        return "", at + 1
    if word in ("filter", "bind"):
        return word, _closed(found, at, "({")
    if word in _BLOCKS:
        return word, _closed(found, at, "{")
    if token.text == "{":
        stop = _closed(found, at, "{")
        while stop < len(found) and found[stop].text.lower() == "union":
            stop = _closed(found, stop, "{")
        return "group", stop
    stop = at
    while stop < len(found) and found[stop].text not in (".", "{"):
        if found[stop].kind == "word" and found[stop].text.lower() in _BLOCKS:
            break
        stop = _closed(found, stop, "([") if found[stop].text in ("(", "[") else stop + 1
    return "triples", stop


def _closed(found: Sequence[SparqlToken], at: int, opening: str) -> int:
    # Return the position after the bracket that closes the first of these opening ones after `at`.
    depth = 0
    for i in range(at, len(found)):
        if found[i].kind == "mark" and (depth or found[i].text in opening):
            depth += (found[i].text in "({[") - (found[i].text in ")}]")
            if depth == 0:
                return i + 1
    return len(found)


@dataclass(frozen=True, slots=True)
class NestedGroup:
    """A group in braces inside a part. `kind`: group, union (one alternative), optional, minus, graph, select, exists.

    `cut`: a LIMIT may drop some of its answers. `name`: the term before the braces of a `graph`.
    """

    kind: str
    start: int
    end: int
    cut: bool = False
    name: str = ""


def nested_groups(text: str, part: GroupElement) -> list[NestedGroup]:
    """Return the groups directly inside a part."""
    found = [_moved(token, part.start) for token in tokens(text[part.start : part.end])]
    if part.kind in ("filter", "bind"):
        tests = [i + 1 for i, token in enumerate(found[:-1]) if token.text.lower() == "exists"]
        return [NestedGroup("exists", found[i].start, found[_closed(found, i, "{") - 1].end) for i in tests]
    if part.kind in ("triples", "values", "service"):
        return []
    made: list[NestedGroup] = []
    at = 0
    while at < len(found):
        stop = _closed(found, at, "({")
        opened = next((i for i in range(at, stop) if found[i].text in ("(", "{")), stop)
        if opened < stop and found[opened].text == "{":
            made.append(NestedGroup(part.kind, found[opened].start, found[stop - 1].end))
        at = stop
    if part.kind == "select":  # VALUES may follow its group
        after = {token.text.lower() for token in found if token.start >= made[0].end}
        return [replace(made[0], cut="limit" in after and after.isdisjoint(("order", "group")))]
    if part.kind == "group" and len(made) > 1:
        return [replace(block, kind="union") for block in made]
    if part.kind == "graph":
        return [replace(made[0], name=text[part.start : made[0].start])]
    return made


def _moved(token: SparqlToken, start: int) -> SparqlToken:
    return token._replace(start=token.start + start, end=token.end + start)
