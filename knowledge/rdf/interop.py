"""Conversion of terms, triples and graphs between rdflib and pyoxigraph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyoxigraph as ox

from cep.core.errors import CepError
from cep.knowledge.rdf.namespaces import XSD

if TYPE_CHECKING:
    import rdflib
    from rdflib.term import Node

    from cep.knowledge.rdf.terms import Terms
    from cep.knowledge.rdf.triples import TripleSet

_DEFAULT = "urn:x-rdflib:default"


def foreign_quads(source: Any) -> Iterator[ox.Quad]:
    """Yield the quads of an rdflib or pyoxigraph graph, or of an iterable of rdflib's or pyoxigraph's triples or quads.

    Raises CepError if an item is not a triple or quad.
    """
    known: dict[Any, Any] = {}

    def term(triple: Any) -> Any:
        if triple not in known:
            known[triple] = of_rdflib(triple)
        return known[triple]

    for triple in _rows(source):
        if isinstance(triple, ox.Quad):
            yield triple
        elif isinstance(triple, ox.Triple):
            yield ox.Quad(triple.subject, triple.predicate, triple.object)
        else:
            yield _quad(triple, term)


def _quad(triple: Any, term: Callable[[Any], Any]) -> ox.Quad:
    try:
        s, p, o, *graph = triple
        return ox.Quad(term(s), term(p), term(o), term(graph[0]) if graph and graph[0] is not None else None)
    except (TypeError, ValueError) as error:
        hint = "a triple is an IRI or blank node, an IRI, and any term; a quad has the graph's name as well"
        raise CepError(
            f"this is not a triple: {triple!r} ({str(error).lower()})", hint=hint, code="knowledge"
        ) from None


def _rows(source: Any) -> Iterable[Any]:
    if "rdflib" in sys.modules:  # if it is not loaded, there are no rdflib graphs
        from rdflib.graph import ConjunctiveGraph, Graph

        if isinstance(source, ConjunctiveGraph):
            return _with_names(source)
        if isinstance(source, Graph):
            return source
    if isinstance(source, str | bytes) or not isinstance(source, Iterable):
        hint = (
            "use an rdflib graph, or an iterable of triples of rdflib or pyoxigraph; read files with `Knowledge.load`"
        )
        raise CepError(f"triples cannot be read from {type(source).__name__}", hint=hint, code="knowledge")
    return source


def _with_names(graph: rdflib.ConjunctiveGraph) -> Iterator[tuple[Any, ...]]:
    first = graph.default_graph if hasattr(graph, "default_graph") else graph.default_context
    default = (first.identifier, None)
    for s, p, o, context in graph.quads():
        name = getattr(context, "identifier", context)
        yield s, p, o, None if name in default or str(name) == _DEFAULT else name


def of_rdflib(term: Any) -> Any:
    """Convert a term of rdflib to pyoxigraph. Return a term of pyoxigraph unchanged.

    Raises ValueError or TypeError for anything else.
    """
    if isinstance(term, ox.NamedNode | ox.BlankNode | ox.Literal):
        return term
    from rdflib.term import BNode, Literal, URIRef

    if isinstance(term, URIRef):
        return ox.NamedNode(str(term))
    if isinstance(term, BNode):
        return ox.BlankNode(str(term))
    if isinstance(term, Literal):
        if term.language:
            return ox.Literal(str(term), language=term.language)
        return ox.Literal(str(term), datatype=None if term.datatype is None else ox.NamedNode(str(term.datatype)))
    raise TypeError(f"{term!r} is not an RDF term")


def to_rdflib(term: ox.NamedNode | ox.BlankNode | ox.Literal) -> Node:
    """Convert a term of pyoxigraph to rdflib. The lexical form of a literal is kept."""
    from rdflib.term import BNode, Literal, URIRef

    if isinstance(term, ox.NamedNode):
        return URIRef(term.value)
    if isinstance(term, ox.BlankNode):
        return BNode(term.value)
    if term.language:
        return Literal(term.value, lang=term.language)
    if term.datatype.value == XSD + "string":  # rdflib distinguishes `"x"` from `"x"^^xsd:string`
        return Literal(term.value)
    return Literal(term.value, datatype=URIRef(term.datatype.value), normalize=False)


def graph_of(terms: Terms, triples: TripleSet) -> rdflib.Graph:
    """Return triples of ids as an rdflib graph."""
    import rdflib

    used = np.unique(np.concatenate(triples.columns)).tolist()
    named = {id: to_rdflib(terms.term(id)) for id in used}
    graph = rdflib.Graph()
    for s, p, o in zip(*(column.tolist() for column in triples.columns)):
        graph.add((named[s], named[p], named[o]))
    return graph
