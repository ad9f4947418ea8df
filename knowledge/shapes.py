"""Registers held against SHACL shapes: what is wrong with which node, and what would be right."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyshacl
from pyshacl.errors import ReportableRuntimeError
from rdflib import SH, BNode, Graph, URIRef
from rdflib.collection import Collection

from cep.errors import CepError
from knowledge.rdf.load import load
from knowledge.rdf.names import KNOWN
from knowledge.rdf.terms import Terms
from knowledge.report import prefixes
from knowledge.spoken import graph_of, spoken_of

if TYPE_CHECKING:
    from rdflib.term import Node

    from knowledge.graph import Knowledge

STATIONS = Path(__file__).parent.parent / "ontologies" / "stations.shapes.ttl"
"""What a register of weather stations has to say."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A node that a shape does not fit: the node, the path from it, the values there (or none), and what is right."""

    focus: str
    path: str
    values: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        found = f": found {', '.join(self.values)}" if self.values else ""
        return f"{self.focus}: {self.reason}" + (f" ({self.path}{found})" if self.path else found)


def check(data: Knowledge | Graph, shapes: Path = STATIONS) -> list[Problem]:
    """What in knowledge (as closed as it is), or in a graph, does not fit the shapes; by node, path and reason.

    Of large knowledge only what the shapes speak of is looked at: places cost nothing, a station about a millisecond.
    Raises CepError where the file has no shapes, or shapes that SHACL does not know.
    """
    rules = _read(shapes)
    graph = data if isinstance(data, Graph) else spoken_of(data.terms, data.closed, rules)
    try:
        _, report, _ = pyshacl.validate(graph, shacl_graph=rules, inplace=graph is not data)
    except (ReportableRuntimeError, re.error) as error:
        raise _refused(shapes, str(error).splitlines()[0]) from None
    if not isinstance(report, Graph):
        raise _refused(shapes, str(report))
    return _problems(report, graph, rules)


def _read(path: Path) -> Graph:
    terms = Terms()
    read = load(path, terms)  # which tells what is wrong with a file, and where
    shapes = graph_of(terms, [(read.s, read.p, read.o)])
    for prefix, iri in {**KNOWN, **prefixes([str(path)])}.items():
        shapes.bind(prefix, iri, replace=True)
    words = {word for triple in shapes for word in triple if isinstance(word, URIRef) and word.startswith(str(SH))}
    for word in sorted(words - {URIRef(str(SH))}):
        if word not in SH:
            raise _refused(path, f"SHACL has no word `{_name(word, shapes)}`")
    if not words:
        raise _refused(path, "none is there")
    return shapes


def _refused(path: Path, reason: str) -> CepError:
    return CepError(f"{path}: these are no shapes: {reason}", hint="see https://www.w3.org/TR/shacl/", code="shape")


def _problems(report: Graph, data: Graph, shapes: Graph) -> list[Problem]:
    found: set[Problem] = set()
    for result in report.objects(None, SH.result):
        focus, path = report.value(result, SH.focusNode), report.value(result, SH.resultPath)
        values = list(report.objects(result, SH.value))
        if not values and focus is not None and path is not None:
            values = _at(focus, path, report, data)
        found.add(
            Problem(
                "" if focus is None else focus.n3(),
                "" if path is None else _path(path, report, shapes),
                tuple(sorted(_name(value, shapes) for value in values)),
                _reason(result, report, shapes),
            )
        )
    return sorted(found)


def _reason(result: Node, report: Graph, shapes: Graph) -> str:
    # What the shape itself says, or which of its parameters is not met.
    shape, component = report.value(result, SH.sourceShape), report.value(result, SH.sourceConstraintComponent)
    if shape is None or shapes.value(shape, SH.message) is not None:
        return str(report.value(result, SH.resultMessage))
    name = str(component).removeprefix(str(SH)).removesuffix("ConstraintComponent")
    parameter = URIRef(f"{SH}{name[:1].lower()}{name[1:]}")
    wanted = shapes.value(shape, parameter)
    told = "" if wanted is None or isinstance(wanted, BNode) else " " + _name(wanted, shapes)
    return f"it does not fit {_name(parameter, shapes)}{told}"


def _at(focus: Node, path: Node, report: Graph, data: Graph) -> list[Node]:
    # The values at a path that is one step forward or back; of others there are too many to show.
    if isinstance(path, URIRef):
        return list(data.objects(focus, path))
    inverse = report.value(path, SH.inversePath)
    return list(data.subjects(inverse, focus)) if isinstance(inverse, URIRef) else []


def _path(path: Node, report: Graph, shapes: Graph) -> str:
    """A property path as SPARQL writes it."""
    if isinstance(path, URIRef):
        return _name(path, shapes)
    several = report.value(path, SH.alternativePath)
    if several is not None:
        return " | ".join(_path(one, report, shapes) for one in Collection(report, several))
    inverse = report.value(path, SH.inversePath)
    if inverse is not None:
        return "^" + _path(inverse, report, shapes)
    for repeated, sign in ((SH.zeroOrMorePath, "*"), (SH.oneOrMorePath, "+"), (SH.zeroOrOnePath, "?")):
        step = report.value(path, repeated)
        if step is not None:
            return _path(step, report, shapes) + sign
    return " / ".join(_path(one, report, shapes) for one in Collection(report, path))


def _name(node: Node, shapes: Graph) -> str:
    # With the prefixes of the shapes' own file.
    return node.n3(shapes.namespace_manager)
