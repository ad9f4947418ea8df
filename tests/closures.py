"""Closures of RDF by the knowledge package, in terms of rdflib."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyoxigraph as ox
from rdflib import BNode, Literal, URIRef
from rdflib.namespace import OWL, RDF
from rdflib.term import Node

from cep.knowledge.rdf.terms import Terms
from cep.knowledge.rdf.triples import TripleSet
from cep.knowledge.reasoning.closure import Closure, compute_closure
from cep.knowledge.reasoning.owlrl_rules import expanded
from cep.knowledge.reasoning.proof import Proof
from cep.knowledge.reasoning.ruleset import Reasoning
from cep.knowledge.verification.literal_values import representative
from cep.knowledge.verification.rule_sets import DATATYPES, generalised, with_datatype

Triple = tuple[Node, Node, Node]

PREFIXES = {
    "": "http://example.org/",
    "owl": "http://www.w3.org/2002/07/owl#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
HEADER = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in PREFIXES.items())


def read(turtle: str) -> list[ox.Triple]:
    """Triples of Turtle, with the usual prefixes, in their order."""
    return [quad.triple for quad in ox.parse(HEADER + turtle, ox.RdfFormat.TURTLE)]


def loaded(triples: Iterable[ox.Triple | Triple]) -> tuple[Terms, TripleSet]:
    terms, rows = Terms(), [tuple(triple) for triple in triples]
    return terms, TripleSet.of(*(terms.ids([row[i] for row in rows]) for i in range(3)))


def closed(triples: Iterable[ox.Triple | Triple], reasoning: Reasoning = "owlrl") -> Closure:
    return compute_closure(*loaded(triples), reasoning, PREFIXES)


def triples_of(closed: Closure, some: TripleSet | None = None) -> set[Triple]:
    """Its triples."""
    terms = [term(closed.terms.term(id)) for id in range(len(closed.terms))]
    columns = (closed.triples if some is None else some).columns
    return {(terms[s], terms[p], terms[o]) for s, p, o in zip(*(column.tolist() for column in columns))}


def term(found: ox.NamedNode | ox.BlankNode | ox.Literal) -> Node:
    if isinstance(found, ox.NamedNode):
        return URIRef(found.value)
    if isinstance(found, ox.BlankNode):
        return BNode(found.value)
    if found.language:
        return Literal(found.value, lang=found.language)
    return Literal(found.value, datatype=URIRef(found.datatype.value))


def proof_of(closed: Closure, triple: ox.Triple | Triple) -> Proof:
    return closed.proof(*(closed.terms.id_of(part) for part in triple))


def text_of(closed: Closure, proof: Proof) -> str:
    return "\n".join(proof.lines(closed.names()))


def texts(triples: Iterable[Triple]) -> set[str]:
    """Triples as text, to be compared and shown."""
    return {" ".join(f"_:{term}" if isinstance(term, BNode) else term.n3() for term in triple) for triple in triples}


def closed_by(rule_set: type[Any], triples: Iterable[Triple]) -> tuple[set[Triple], tuple[str, ...]]:
    """What is asserted and the triples of RDF that follow from it, and contradictions."""
    asserted = {(with_datatype(s), with_datatype(p), with_datatype(o)) for s, p, o in triples}
    every, run = expanded(rule_set, sorted(asserted))
    return {triple for triple in every if triple in asserted or not generalised(triple)}, tuple(run.error_messages)


def comparable(triples: Iterable[Triple]) -> set[Triple]:
    """Without datatypes as types of what is no literal (D5), without what D1 and another rule give, and with one
    literal for each value (D6)."""
    return {
        (s, p, representative(o))
        for s, p, o in triples
        if not (p == RDF.type and o in DATATYPES) and not (p == OWL.sameAs and s == o)
    }
