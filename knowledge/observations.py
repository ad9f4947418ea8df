"""Observations in RDF: nodes of a certain class, whose values are at the ends of property paths."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import pyoxigraph as ox

from cep.knowledge.rdf.namespaces import RDF_TYPE
from cep.knowledge.rdf.nesting import TOO_DEEP, JsonDepth, triples_too_deep

PropertyPath = tuple[str, ...]
"""The IRIs of the properties that lead from a node to a value."""

Kind = Literal["iri", "literal", "blank"]
FORMATS = {"nquads": ox.RdfFormat.N_QUADS, "jsonld": ox.RdfFormat.JSON_LD}


@dataclass(frozen=True, slots=True)
class ObservedTerm:
    """A term in an observation: an IRI, the text of a literal, or the label of a blank node."""

    text: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A description of nodes to read, and the property paths to read from each of them.

    A node matches if its class is `type`, or if it has the first property of `key`.
    """

    type: str
    key: PropertyPath
    paths: tuple[PropertyPath, ...]


@dataclass(frozen=True, slots=True)
class Observation:
    """A node that matches a NodeShape.

    - `shape`: the index of this NodeShape.
    - `line`: the number of the line where the node begins, from 1.
    - `values`: for each path of the NodeShape, the values at the end of the path.
    """

    shape: int
    line: int
    values: tuple[tuple[ObservedTerm, ...], ...]


@dataclass(frozen=True, slots=True)
class InvalidLine:
    """A line that is not valid RDF, with the reason."""

    line: int
    reason: str


def observations(text: bytes, format: str, shapes: Sequence[NodeShape]) -> Iterator[Observation | InvalidLine]:
    """Yield the observations of one document, in the order in which they begin. If a node matches several shapes, it
    yields one observation for each.

    An invalid line of N-Quads is skipped. In other formats, the rest of the document after a mistake is skipped. Blank
    nodes are local to the document.
    """
    mistakes: list[Observation | InvalidLine] = []
    quads = list(_quads(text, format, mistakes))
    nodes_by_name: dict[str, dict[str, list[ObservedTerm]]] = {}
    for quad in quads:
        values = nodes_by_name.setdefault(str(quad.subject), {}).setdefault(quad.predicate.value, [])
        if (term := _term(quad.object)) not in values:  # several graphs may contain it
            values.append(term)
    lines = _lines(text) if format == "nquads" else {}
    wanted: list[Observation | InvalidLine] = [
        Observation(number, lines.get(node, 1), tuple(tuple(_along(nodes_by_name, node, path)) for path in shape.paths))
        for node, properties in nodes_by_name.items()
        for number, shape in enumerate(shapes)
        if ObservedTerm(shape.type, "iri") in properties.get(RDF_TYPE, ()) or shape.key[0] in properties
    ]
    yield from sorted(mistakes + wanted, key=lambda observation: observation.line)


def _along(
    nodes_by_name: dict[str, dict[str, list[ObservedTerm]]], node: str, path: PropertyPath
) -> Iterable[ObservedTerm]:
    ends = nodes_by_name[node].get(path[0], [])
    for step in path[1:]:
        nodes = [f"<{end.text}>" if end.kind == "iri" else f"_:{end.text}" for end in ends if end.kind != "literal"]
        ends = [end for node in nodes for end in nodes_by_name.get(node, {}).get(step, ())]
    return ends


def _quads(text: bytes, format: str, mistakes: list[Observation | InvalidLine]) -> Iterator[ox.Quad]:
    if format == "jsonld" and JsonDepth().too_deep(text):
        mistakes.append(InvalidLine(1, f"no RDF: {TOO_DEEP}"))
        return
    if format == "nquads" and triples_too_deep(text):
        lines = text.split(b"\n")
        deep = [number for number, line in enumerate(lines) if triples_too_deep(line)]
        mistakes += [InvalidLine(number + 1, f"no RDF: {TOO_DEEP}") for number in deep]
        text = b"\n".join(b"" if number in deep else line for number, line in enumerate(lines))
    first = 1
    while True:
        try:
            yield from ox.parse(text, FORMATS[format])
            return
        except SyntaxError as error:
            reason = _reason(error)
            if format != "nquads":
                mistakes.append(InvalidLine(1, reason))
                return
            line = error.lineno or 1
            mistakes.append(InvalidLine(first + line - 1, reason))
        rest = text.split(b"\n", line)
        if len(rest) <= line:
            return
        first, text = first + line, rest[line]


def _reason(error: SyntaxError) -> str:
    reason = error.msg.rpartition(": ")[2] if error.msg.startswith("Parser error") else error.msg
    if "LoadDocumentCallback" in error.msg:
        reason = "its context is not in the record; write it there, because contexts are not fetched from the network"
    place = f" at character {error.offset}" if error.offset else ""
    return f"not valid RDF{place}: {reason[:1].lower()}{reason[1:].rstrip('.')}"


def _term(value: ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple) -> ObservedTerm:
    if isinstance(value, ox.NamedNode):
        return ObservedTerm(value.value, "iri")
    return (
        ObservedTerm(value.value, "literal") if isinstance(value, ox.Literal) else ObservedTerm(str(value)[2:], "blank")
    )


def _lines(text: bytes) -> dict[str, int]:
    """Return, for each word at the beginning of a line, the number of the first line that begins with it. In N-Quads,
    this word is the subject."""
    line_numbers: dict[str, int] = {}
    for number, line in enumerate(text.split(b"\n"), 1):
        words = line.split(None, 1)
        if words:
            line_numbers.setdefault(words[0].decode("utf-8", "replace"), number)
    return line_numbers


def lines_of_json(text: bytes) -> bool:
    """Return True if each line of a JSON-LD file is a document of its own. Only the first line is checked."""
    first = text.lstrip().split(b"\n", 1)[0]
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return False
    return True
