"""What owlrl says follows from a graph, apart from the differences of docs/decisions/2026-11-21-reasoning.md."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from itertools import combinations, product
from typing import Any

from owlrl import OWLRL_Semantics, RDFS_Semantics
from owlrl.OWLRL import OWLRL_Annotation_properties
from owlrl.XsdDatatypes import OWL_RL_Datatypes
from rdflib import BNode, Graph, Literal, URIRef
from rdflib.namespace import OWL, RDF, RDFS, XSD
from rdflib.term import Node

from tests.closures import Triple

LEAST_AND_MOST: dict[Node, tuple[int | None, int | None]] = {
    XSD.integer: (None, None),
    XSD.long: (-(2**63), 2**63 - 1),
    XSD.int: (-(2**31), 2**31 - 1),
    XSD.short: (-(2**15), 2**15 - 1),
    XSD.byte: (-128, 127),
    XSD.nonNegativeInteger: (0, None),
    XSD.positiveInteger: (1, None),
    XSD.nonPositiveInteger: (None, 0),
    XSD.negativeInteger: (None, -1),
    XSD.unsignedByte: (0, 255),
}


class Corrected(OWLRL_Semantics):  # type: ignore[misc]
    """owlrl where it follows the W3C's rules; what it does otherwise (O1 to O7) is overridden."""

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
        super()._equality(triple, cycle_num)
        if p == RDF.type and o == OWL.AllDifferent:  # O2
            for of in [*self.graph.objects(s, OWL.members), *self.graph.objects(s, OWL.distinctMembers)]:
                for y, z in combinations(self._list(of), 2):
                    if y == z or (y, OWL.sameAs, z) in self.graph:
                        self.add_error(f"eq-diff: {y} {z}")

    def _schema_vocabulary(self, triple: Triple, cycle_num: int) -> None:
        super()._schema_vocabulary(triple, cycle_num)
        s, p, o = triple
        for below, equal in (
            (RDFS.subClassOf, OWL.equivalentClass),
            (RDFS.subPropertyOf, OWL.equivalentProperty),
        ):  # O3
            if p == equal or (p == below and (o, p, s) in self.graph):
                for x in (s, o):
                    self.store_triple((x, below, x))
                    self.store_triple((x, equal, x))

    def _classes(self, triple: Triple, cycle_num: int) -> None:
        _, p, o = triple
        if p not in (OWL.maxCardinality, OWL.maxQualifiedCardinality) or isinstance(o, Literal):  # O6
            super()._classes(triple, cycle_num)

    def _one_time_rules_datatypes(self) -> None:
        super()._one_time_rules_datatypes()
        for literal in {o for o in self.graph.objects() if isinstance(o, Literal)}:  # O4
            for datatype in LEAST_AND_MOST:
                if holds(datatype, literal):
                    self.store_triple((literal, RDF.type, datatype))
        literals = sorted({o for o in self.graph.objects() if isinstance(o, Literal)})
        for x, y in product(literals, literals):  # O7
            if x != y and standing(x) == standing(y):
                self.store_triple((x, OWL.sameAs, y))

    def post_process(self) -> None:
        for s, _, o in self.graph.triples((None, RDF.type, None)):  # O4
            if isinstance(s, Literal) and not holds(o, s):
                self.add_error(f"dt-not-type: {s} {o}")
        for s, _, o in self.graph.triples((None, OWL.sameAs, None)):  # O5
            if isinstance(s, Literal) and isinstance(o, Literal) and different(s, o):
                self.add_error(f"dt-diff: {s} {o}")
        super().post_process()


def holds(datatype: Node, literal: Literal) -> bool:
    """Whether a datatype holds a literal's value; True for a datatype that is not one of a few."""
    value = literal.value
    number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if datatype in LEAST_AND_MOST:
        least, most = LEAST_AND_MOST[datatype]
        return number and value == int(value) and (least is None or least <= value) and (most is None or value <= most)
    if datatype == XSD.decimal:
        return number
    if datatype == XSD.boolean:
        return isinstance(value, bool)
    return datatype != XSD.string or (isinstance(value, str) and literal.datatype == XSD.string)


def different(x: Literal, y: Literal) -> bool:
    """Whether two literals, numbers, booleans, strings or texts in a language, have different values."""
    sorts = [(XSD.decimal if holds(XSD.decimal, one) else one.datatype, one.language) for one in (x, y)]
    return sorts[0] != sorts[1] or x.value != y.value


def closed_by_owlrl(graph: Iterable[Triple], semantics: type[Any] = Corrected) -> tuple[set[Triple], list[str]]:
    """Triples that follow, and contradictions. A plain literal is one of xsd:string, as in RDF 1.1."""
    asserted = {tuple(map(typed, triple)) for triple in graph}
    work = Graph()
    for triple in asserted:
        work.add(triple)
    run = semantics(work, False, False)
    run.closure()
    return {triple for triple in work if triple in asserted or kept(triple, semantics)}, run.error_messages


class _InRdfs(RDFS_Semantics):  # type: ignore[misc]
    def one_time_rules(self) -> None:
        pass  # R2


def closed_by_owlrl_in_rdfs(graph: Iterable[Triple]) -> set[Triple]:
    """Triples that follow by RDFS."""
    asserted = {tuple(map(typed, triple)) for triple in graph}
    triples, _ = closed_by_owlrl(asserted, _InRdfs)
    return {triple for triple in triples if triple in asserted or triple[2] != RDFS.Resource}  # R1


def typed(term: Node) -> Node:
    """A plain literal with its datatype."""
    if isinstance(term, Literal) and term.datatype is None and not term.language:
        return Literal(str(term), datatype=XSD.string)
    return term


def kept(triple: Triple, semantics: type[Any] = Corrected) -> bool:
    """Whether what owlrl infers is something that our closure has too: differences D1 to D4."""
    s, p, o = triple
    if p == OWL.sameAs and s == o and semantics is Corrected:
        return False  # D1, eq-ref; to RDFS it is a property as any other
    if p == RDF.type and o == OWL.AnnotationProperty and s in OWLRL_Annotation_properties:
        return False  # D2, prp-ap
    if p in (RDF.type, OWL.disjointWith) and s in OWL_RL_Datatypes and o in (RDFS.Datatype, *OWL_RL_Datatypes):
        return False  # D3, dt-type1
    if isinstance(s, Literal) or not isinstance(p, URIRef):
        return False  # D4, generalised triples
    return "agent-ont#" not in f"{p} {o}"  # how owlrl tells of contradictions


def comparable(triples: Iterable[Triple]) -> set[Triple]:
    """Without datatypes as types of what is no literal (D5), without what eq-ref and another rule give (D1), and with
    one literal for each value (D6)."""
    datatypes = {RDFS.Datatype, *OWL_RL_Datatypes}
    return {
        (s, p, standing(o))
        for s, p, o in triples
        if not (p == RDF.type and o in datatypes) and not (p == OWL.sameAs and s == o)
    }


def standing(term: Node) -> Node:
    """The same for all literals of one value, of those that random graphs have."""
    if not isinstance(term, Literal) or isinstance(term.value, str) or term.value is None:
        return term
    if isinstance(term.value, int | Decimal) and not isinstance(term.value, bool):
        value = Decimal(term.value)
        whole = value == value.to_integral_value()
        return Literal(str(int(value)), datatype=XSD.integer) if whole else Literal(value.normalize())
    return Literal(str(term.value).lower(), datatype=term.datatype)


def texts(triples: Iterable[Triple]) -> set[str]:
    """Triples as text, to be compared and shown."""
    return {" ".join(f"_:{term}" if isinstance(term, BNode) else term.n3() for term in triple) for triple in triples}
