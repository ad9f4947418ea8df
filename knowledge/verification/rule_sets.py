"""owlrl's rule sets, corrected for known errors, and without the rules that our closure leaves out.

Differences are numbered (D1, O1, R1, ...) as in docs/decisions/2026-11-21-reasoning.md.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, permutations, product
from typing import Any

from owlrl import OWLRL_Semantics, RDFS_Semantics
from owlrl.OWLRL import OWLRL_Annotation_properties
from owlrl.XsdDatatypes import OWL_RL_Datatypes
from rdflib import Literal, URIRef
from rdflib.namespace import OWL, RDF, RDFS, XSD
from rdflib.term import Node

from cep.knowledge.reasoning.owlrl_rules import Triple
from cep.knowledge.verification.literal_values import LEAST_AND_MOST, datatype_contains, representative, values_differ

DATATYPES = {RDFS.Datatype, *OWL_RL_Datatypes}
CARDINALITIES = (OWL.maxCardinality, OWL.maxQualifiedCardinality)


class CorrectedOwlRl(OWLRL_Semantics):  # type: ignore[misc]
    """owlrl's rules for OWL 2 RL, corrected to the W3C's rules. The differences O1 to O7 are corrected, and the rules
    D1 to D3 are left out.

    `corrections`: the triples that a correction derives, each with the name of the correction.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.corrections: dict[Triple, str] = {}

    def store_triple(self, t: Triple) -> None:
        if left_out(t) is None:
            super().store_triple(t)

    def _correct(self, name: str, *triples: Triple) -> None:
        for triple in triples:
            if triple not in self.graph:
                self.corrections.setdefault(triple, name)
            self.store_triple(triple)

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
        things = set(self.graph.subjects(RDF.type, of)) if properties else set()
        keyed: dict[tuple[Node, ...], list[Node]] = defaultdict(list)
        for x in sorted(things):
            for values in set(product(*(set(self.graph.objects(x, p)) for p in properties))):
                keyed[values].append(x)
        for equal in keyed.values():
            self._correct("O1", *((x, OWL.sameAs, y) for x, y in permutations(equal, 2)))

    def _equality(self, triple: Triple, cycle_num: int) -> None:
        s, p, o = triple
        super()._equality(triple, cycle_num)
        if p == OWL.differentFrom and s == o:  # this rule needs D1
            self.add_error(f"eq-diff1: {s}")
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
        ):
            if p == equal or (p == below and (o, p, s) in self.graph):
                self._correct("O3", *((x, verb, x) for x in (s, o) for verb in (below, equal)))

    def _classes(self, triple: Triple, cycle_num: int) -> None:
        _, p, o = triple
        if p not in CARDINALITIES or isinstance(o, Literal):  # O6
            super()._classes(triple, cycle_num)

    def _one_time_rules_datatypes(self) -> None:
        super()._one_time_rules_datatypes()
        literals = sorted({o for o in self.graph.objects() if isinstance(o, Literal)})
        alike: dict[Node, list[Literal]] = defaultdict(list)
        for literal in literals:
            alike[representative(literal)].append(literal)
            datatypes = [datatype for datatype in LEAST_AND_MOST if datatype_contains(datatype, literal)]
            self._correct("O4", *((literal, RDF.type, datatype) for datatype in datatypes))
        for equal in alike.values():
            self._correct("O7", *((x, OWL.sameAs, y) for x, y in permutations(equal, 2)))

    def post_process(self) -> None:
        for s, _, o in self.graph.triples((None, RDF.type, None)):  # O4
            if isinstance(s, Literal) and not datatype_contains(o, s):
                self.add_error(f"dt-not-type: {s} {o}")
        for s, _, o in self.graph.triples((None, OWL.sameAs, None)):  # O5
            if isinstance(s, Literal) and isinstance(o, Literal) and values_differ(s, o):
                self.add_error(f"dt-diff: {s} {o}")
        super().post_process()


class CorrectedRdfs(RDFS_Semantics):  # type: ignore[misc]
    """owlrl's rules for RDFS, without the rules R1 and R3, which our closure leaves out."""

    def one_time_rules(self) -> None:
        pass  # R3

    def store_triple(self, t: Triple) -> None:
        if t[2] != RDFS.Resource:  # R1
            super().store_triple(t)


def left_out(triple: Triple) -> str | None:
    """Return the known difference (D1 to D3) because of which our closure does not contain the triple. Return None if
    none of them is the reason."""
    s, p, o = triple
    if p == OWL.sameAs and s == o:
        return "D1"
    if p == RDF.type and o == OWL.AnnotationProperty and s in OWLRL_Annotation_properties:
        return "D2"
    if p in (RDF.type, OWL.disjointWith) and s in OWL_RL_Datatypes and o in DATATYPES:
        return "D3"
    return None


def generalised(triple: Triple) -> bool:
    """Return True if a triple is not valid RDF: its subject is a literal, or its predicate is not an IRI."""
    return isinstance(triple[0], Literal) or not isinstance(triple[1], URIRef)


def with_datatype(term: Node) -> Node:
    """Add the datatype to a plain literal, as in RDF 1.1."""
    if isinstance(term, Literal) and term.datatype is None and not term.language:
        return Literal(str(term), datatype=XSD.string)
    return term
