"""Registers held against SHACL shapes: what is wrong with which node, and what would be right."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from cep.values import Ints
from knowledge.gazetteer import XSD
from knowledge.terms import BLANK, IRI, NONE, Terms
from knowledge.triples import Triples

if TYPE_CHECKING:
    from rdflib import Graph
    from rdflib.term import Node

    from knowledge.graph import Knowledge

STATIONS = Path(__file__).parent.parent / "ontologies" / "stations.shapes.ttl"
"""What a register of weather stations has to say."""

SH = "http://www.w3.org/ns/shacl#"


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
    """
    import pyshacl  # with rdflib and much else: only where shapes are checked
    from rdflib import Graph

    rules = Graph().parse(shapes)
    graph = data if isinstance(data, Graph) else spoken_of(data.terms, data.closed, rules)
    _, report, _ = pyshacl.validate(graph, shacl_graph=rules, inplace=graph is not data)
    assert isinstance(report, Graph), "shapes that are well-formed give a report"
    return _problems(report, graph, rules)


def _problems(report: Graph, data: Graph, shapes: Graph) -> list[Problem]:
    from rdflib import Namespace

    sh = Namespace(SH)
    found: set[Problem] = set()
    for result in report.objects(None, sh.result):
        focus, path = report.value(result, sh.focusNode), report.value(result, sh.resultPath)
        values = list(report.objects(result, sh.value))
        if not values and focus is not None and path is not None:
            values = _at(focus, path, report, data)
        found.add(
            Problem(
                "" if focus is None else focus.n3(),
                "" if path is None else _path(path, report, shapes),
                tuple(sorted(_name(value, shapes) for value in values)),
                str(report.value(result, sh.resultMessage)),
            )
        )
    return sorted(found)


def _at(focus: Node, path: Node, report: Graph, data: Graph) -> list[Node]:
    # The values at a path that is one step forward or back; of others there are too many to show.
    from rdflib import URIRef

    if isinstance(path, URIRef):
        return list(data.objects(focus, path))
    inverse = report.value(path, URIRef(SH + "inversePath"))
    return list(data.subjects(inverse, focus)) if isinstance(inverse, URIRef) else []


def _path(path: Node, report: Graph, shapes: Graph) -> str:
    """A property path as SPARQL writes it."""
    from rdflib import URIRef
    from rdflib.collection import Collection

    if isinstance(path, URIRef):
        return _name(path, shapes)
    several = report.value(path, URIRef(SH + "alternativePath"))
    if several is not None:
        return " | ".join(_path(one, report, shapes) for one in Collection(report, several))
    inverse = report.value(path, URIRef(SH + "inversePath"))
    if inverse is not None:
        return "^" + _path(inverse, report, shapes)
    return " / ".join(_path(one, report, shapes) for one in Collection(report, path))


def _name(node: Node, shapes: Graph) -> str:
    # With the prefixes of the shapes' own file.
    return node.n3(shapes.namespace_manager)


# --- the part of knowledge that shapes speak of ---


def spoken_of(terms: Terms, triples: Triples, shapes: Graph) -> Graph:
    """The targets of shapes, what lies on paths from them, and the classes of all these."""
    from rdflib import RDF, RDFS, Graph, Namespace

    sh = Namespace(SH)
    forward = {*shapes.objects(None, sh.path), *shapes.objects(None, sh.targetSubjectsOf)}
    forward |= {one for several in shapes.objects(None, sh.alternativePath) for one in shapes.items(several)}
    back = {*shapes.objects(None, sh.inversePath), *shapes.objects(None, sh.targetObjectsOf)}
    ahead, behind = ([id for id in map(terms.id_of, _iris(part)) if id != NONE] for part in (forward, back))
    kind, sub = terms.id_of(RDF.type), terms.id_of(RDFS.subClassOf)
    nodes = _targets(terms, triples, shapes, kind, sub)
    while True:
        reached = [_where(triples, p, 0, nodes)[2] for p in ahead] + [_where(triples, p, 2, nodes)[0] for p in behind]
        more = np.unique(np.concatenate([nodes, *reached]))
        if len(more) == len(nodes):
            break
        nodes = more
    parts = [_where(triples, p, 0, nodes) for p in ahead] + [_where(triples, p, 2, nodes) for p in behind]
    parts += [_where(triples, kind, 0, nodes), triples.match(p=sub)]
    made: Graph = Graph()
    for s, p, o in parts:
        columns = [_rdflib(terms, ids) for ids in (s, p, o)]
        for triple in zip(*columns):
            made.add(triple)
    return made


def _iris(nodes: set[Node]) -> list[str]:
    from rdflib import URIRef

    return sorted(str(node) for node in nodes if isinstance(node, URIRef))


def _targets(terms: Terms, triples: Triples, shapes: Graph, kind: int, sub: int) -> Ints:
    from rdflib import Namespace

    sh = Namespace(SH)
    classes = [terms.id_of(iri) for iri in _iris(set(shapes.objects(None, sh.targetClass)))]
    below = list(classes)
    for one in below:  # grows while it is read
        if one != NONE and sub != NONE:
            below += [int(lower) for lower in triples.match(p=sub, o=one)[0] if int(lower) not in below]
    found = [triples.match(p=kind, o=one)[0] for one in below if one != NONE and kind != NONE]
    for target, place in ((sh.targetSubjectsOf, 0), (sh.targetObjectsOf, 2)):
        for iri in _iris(set(shapes.objects(None, target))):
            if terms.id_of(iri) != NONE:
                found.append(triples.match(p=terms.id_of(iri))[place])
    return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *found]))


def _where(triples: Triples, predicate: int, place: int, nodes: Ints) -> tuple[Ints, Ints, Ints]:
    columns = triples.match(p=predicate)
    kept = np.isin(columns[place], nodes)
    return cast(tuple[Ints, Ints, Ints], tuple(column[kept] for column in columns))


def _rdflib(terms: Terms, ids: Ints) -> list[Node]:
    from rdflib import BNode, Literal, URIRef

    distinct, places = np.unique(ids, return_inverse=True)
    sorts = [terms.sorts[i] for i in terms.sort_of(distinct)]
    nodes: list[Node] = []
    for sort, text in zip(sorts, terms.texts(distinct)):
        if sort.kind == IRI:
            nodes.append(URIRef(text))
        elif sort.kind == BLANK:
            nodes.append(BNode(text))
        else:
            plain = sort.language or sort.datatype == XSD + "string"
            nodes.append(Literal(text, lang=sort.language or None, datatype=None if plain else sort.datatype))
    return [nodes[i] for i in places.tolist()]
