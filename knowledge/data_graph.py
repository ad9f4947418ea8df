"""The part of the knowledge that SHACL shapes can refer to, as an rdflib graph.

Even if the knowledge has millions of triples, this part may have only a few thousand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rdflib import OWL, RDF, RDFS, SH, BNode, Graph, Literal, URIRef

from cep.core.prefixes import PREFIXES
from cep.core.values import Ints
from cep.knowledge.rdf.namespaces import XSD
from cep.knowledge.rdf.terms import BLANK, IRI, NONE, Terms
from cep.knowledge.rdf.triples import TripleColumns, TripleSet

if TYPE_CHECKING:
    from rdflib.term import Node

_ANYTHING = (SH.sparql, SH.closed, SH.target, SH.rule, SH.select, SH.ask, SH.js)
"""Terms of SHACL by which a shape can refer to any triple."""


def data_graph(terms: Terms, triples: TripleSet, shapes: Graph) -> Graph:
    """Return the triples to which the shapes can refer. If this may be any triple, return all triples.

    The result contains the triples on paths that start at the targets of shapes, the types of all nodes on these paths,
    and all rdfs:subClassOf triples.
    """
    if any(word in shapes.predicates() for word in _ANYTHING):
        return rdflib_graph(terms, [triples.columns])
    words: set[Node] = {node for node in shapes.objects() if isinstance(node, URIRef) and node not in SH}
    inverse, of_objects = set(shapes.objects(None, SH.inversePath)), set(shapes.objects(None, SH.targetObjectsOf))
    if any(isinstance(path, BNode) for path in inverse):
        inverse = set(words)
    ahead, behind = _known(terms, words), _known(terms, inverse | of_objects)
    kind, below = terms.id_of(RDF.type), terms.id_of(RDFS.subClassOf)
    nodes = _targets(terms, triples, shapes)
    while True:
        reached = [_of(triples, p, 0, nodes)[2] for p in ahead] + [_of(triples, p, 2, nodes)[0] for p in behind]
        more = np.unique(np.concatenate([nodes, *reached]))
        if len(more) == len(nodes):
            break
        nodes = more
    parts = [_of(triples, p, 0, nodes) for p in [*ahead, kind]] + [_of(triples, p, 2, nodes) for p in behind]
    return rdflib_graph(terms, [*parts, triples.match(p=below)])


def _targets(terms: Terms, triples: TripleSet, shapes: Graph) -> Ints:
    of_class: set[Node] = {*shapes.objects(None, SH.targetClass)}
    of_class |= {subject for kind in (RDFS.Class, OWL.Class) for subject in shapes.subjects(RDF.type, kind)}
    classes = _known(terms, of_class)
    kind, below = terms.id_of(RDF.type), terms.id_of(RDFS.subClassOf)
    for class_id in classes:  # it grows during the loop
        classes += [lower for lower in triples.match(p=below, o=class_id)[0].tolist() if lower not in classes]
    targets = [triples.match(p=kind, o=kind_id)[0] for kind_id in classes]
    for word, place in ((SH.targetSubjectsOf, 0), (SH.targetObjectsOf, 2)):
        targets += [triples.match(p=p)[place] for p in _known(terms, set(shapes.objects(None, word)))]
    nodes = [terms.id_of(node) for node in shapes.objects(None, SH.targetNode)]
    return np.unique(np.concatenate([np.array([id for id in nodes if id != NONE], dtype=np.int64), *targets]))


def _known(terms: Terms, nodes: set[Node]) -> list[int]:
    ids = (terms.id_of(node) for node in sorted(node for node in nodes if isinstance(node, URIRef)))
    return [id for id in ids if id != NONE]


def _of(triples: TripleSet, predicate: int, place: int, nodes: Ints) -> TripleColumns:
    # Return the triples with this predicate and one of these nodes at position `place`.
    s, p, o = triples.match(p=predicate)
    kept = np.isin((s, p, o)[place], nodes)
    return s[kept], p[kept], o[kept]


def rdflib_graph(terms: Terms, parts: list[TripleColumns]) -> Graph:
    """Return triples as an rdflib graph in which queries of shapes can use the prefixes rdf, rdfs and so on."""
    graph = Graph()
    for prefix, iri in PREFIXES.items():
        graph.bind(prefix, iri, replace=True)
    for columns in parts:
        for triple in zip(*(_nodes(terms, ids) for ids in columns)):
            graph.add(triple)
    return graph


def _nodes(terms: Terms, ids: Ints) -> list[Node]:
    distinct, places = np.unique(ids, return_inverse=True)
    nodes: list[Node] = []
    for sort, text in zip((terms.sorts[i] for i in terms.sort_of(distinct)), terms.texts(distinct)):
        if sort.kind == IRI:
            nodes.append(URIRef(text))
        elif sort.kind == BLANK:
            nodes.append(BNode(text))
        else:
            plain = sort.language or sort.datatype == XSD + "string"
            nodes.append(Literal(text, lang=sort.language or None, datatype=None if plain else sort.datatype))
    return [nodes[place] for place in places.tolist()]
