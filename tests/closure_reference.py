"""What owlrl says follows from a graph, apart from the differences of docs/decisions/2026-11-21-reasoning.md."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any

from owlrl import OWLRL_Semantics, RDFS_Semantics
from owlrl.OWLRL import OWLRL_Annotation_properties
from owlrl.XsdDatatypes import OWL_RL_Datatypes
from rdflib import BNode, Graph, Literal, URIRef
from rdflib.namespace import OWL, RDF, RDFS, XSD
from rdflib.term import Node

Triple = tuple[Node, Node, Node]

REFLEXIVE = (RDFS.subClassOf, RDFS.subPropertyOf, OWL.equivalentClass, OWL.equivalentProperty)


class Corrected(OWLRL_Semantics):  # type: ignore[misc]
    """owlrl where it follows the W3C's rules. What is overridden is what owlrl does otherwise (differences O1 to O6)."""

    def _properties(self, triple: Triple, cycle_num: int) -> None:
        s, p, o = triple
        if p == OWL.hasKey:
            self._key(s, o)  # O1
        elif p == RDF.type and o == OWL.AllDisjointProperties:
            for of in self.graph.objects(s, OWL.members):  # O2
                for p1, p2 in combinations(self._list(of), 2):
                    if any((x, p2, y) in self.graph for x, y in self.graph.subject_objects(p1)):
                        self.add_error(f"prp-adp: {p1} {p2}")
        else:
            super()._properties(triple, cycle_num)

    def _key(self, of: Node, key: Node) -> None:
        properties = self._list(key)
        things = list(self.graph.subjects(RDF.type, of))
        for x, y in product(things, things):
            shared = [set(self.graph.objects(x, p)) & set(self.graph.objects(y, p)) for p in properties]
            if x != y and properties and all(shared):
                self.store_triple((x, OWL.sameAs, y))

    def _equality(self, triple: Triple, cycle_num: int) -> None:
        s, p, o = triple
        if p == RDF.type and o == OWL.AllDifferent:
            for of in [*self.graph.objects(s, OWL.members), *self.graph.objects(s, OWL.distinctMembers)]:  # O2
                for y, z in combinations(self._list(of), 2):
                    if y == z or (y, OWL.sameAs, z) in self.graph:
                        self.add_error(f"eq-diff: {y} {z}")
            for term in (s, p, o):
                self.store_triple((term, OWL.sameAs, term))
        else:
            if p == OWL.differentFrom and s == o:
                self.add_error(f"eq-diff1: {s}")
            super()._equality(triple, cycle_num)

    def _schema_vocabulary(self, triple: Triple, cycle_num: int) -> None:
        super()._schema_vocabulary(triple, cycle_num)
        s, p, o = triple
        if p in (RDFS.subClassOf, RDFS.subPropertyOf) and (o, p, s) in self.graph:  # O3
            self.store_triple((s, p, s))
            self.store_triple((s, OWL.equivalentClass if p == RDFS.subClassOf else OWL.equivalentProperty, s))
        if p in (OWL.equivalentClass, OWL.equivalentProperty):
            self.store_triple((s, RDFS.subClassOf if p == OWL.equivalentClass else RDFS.subPropertyOf, s))
            self.store_triple((o, RDFS.subClassOf if p == OWL.equivalentClass else RDFS.subPropertyOf, o))

    def _classes(self, triple: Triple, cycle_num: int) -> None:
        s, p, o = triple
        if p not in (OWL.maxCardinality, OWL.maxQualifiedCardinality) or isinstance(o, Literal):  # O6
            super()._classes(triple, cycle_num)

    def post_process(self) -> None:
        for s, _, o in self.graph.triples((None, RDF.type, None)):  # O4
            if isinstance(s, Literal) and not fits(s, o):
                self.add_error(f"dt-not-type: {s} {o}")
        for s, _, o in self.graph.triples((None, OWL.sameAs, None)):  # O5
            if isinstance(s, Literal) and isinstance(o, Literal) and s.value is not None and o.value is not None:
                same = s.language == o.language and s.datatype == o.datatype if isinstance(s.value, str) else True
                if not (same and s.value == o.value and type(s.value) is type(o.value)):
                    self.add_error(f"dt-diff: {s} {o}")
        super().post_process()


BOUNDS = {XSD.integer: int, XSD.decimal: (int, __import__("decimal").Decimal), XSD.string: str, XSD.boolean: bool}


def fits(literal: Literal, datatype: Node) -> bool:
    """Whether a datatype, if it is one of a few, holds a literal."""
    kinds: Any = BOUNDS.get(datatype)
    if kinds is None:
        return True
    value = literal.value
    if datatype == XSD.string:
        return literal.datatype in (None, XSD.string) and not literal.language
    return isinstance(value, kinds) and (datatype == XSD.boolean) == isinstance(value, bool)


def closed_by_owlrl(graph: Graph, kind: type[Any] = Corrected) -> tuple[set[Triple], list[str]]:
    """Triples that follow, and contradictions. A plain literal is one of xsd:string, as in RDF 1.1."""
    asserted = {tuple(map(typed, triple)) for triple in graph}
    work = Graph()
    for triple in asserted:
        work.add(triple)
    semantics = kind(work, False, False)
    semantics.closure()
    return {triple for triple in work if triple in asserted or kept(triple)}, semantics.error_messages


def closed_by_owlrl_in_rdfs(graph: Graph) -> set[Triple]:
    class Plain(RDFS_Semantics):  # type: ignore[misc]
        def one_time_rules(self) -> None:
            pass  # R1: a literal in all its lexical forms

    triples, _ = closed_by_owlrl(graph, Plain)
    asserted = {tuple(map(typed, triple)) for triple in graph}
    noise = {RDFS.Resource}
    return {t for t in triples if t in asserted or not (t[2] in noise and t[1] in (RDF.type, RDFS.subClassOf))}


def typed(term: Node) -> Node:
    if isinstance(term, Literal) and term.datatype is None and not term.language:
        return Literal(str(term), datatype=XSD.string)
    return term


def kept(triple: Triple) -> bool:
    """Whether an inferred triple is one that our closure has too: differences D1 to D4 by rule."""
    s, p, o = triple
    if isinstance(s, Literal) or not isinstance(p, URIRef):
        return False  # D4, generalised triples
    if p == OWL.sameAs and s == o:
        return False  # D1, eq-ref
    if p == RDF.type and o == OWL.AnnotationProperty and s in OWLRL_Annotation_properties:
        return False  # D2, prp-ap
    if p == RDF.type and o == RDFS.Datatype and s in OWL_RL_Datatypes:
        return False  # D3, dt-type1
    if p == OWL.disjointWith and s in OWL_RL_Datatypes and o in OWL_RL_Datatypes:
        return False  # D3
    return "agent-ont#" not in str(p) and "agent-ont#" not in str(o)


def texts(triples: Iterable[Triple]) -> set[str]:
    """Triples as text, to be compared and shown."""
    return {" ".join(term.n3() if not isinstance(term, BNode) else f"_:{term}" for term in triple) for triple in triples}
