"""Terms, triples and proofs as a reader wants them: prefixed names, lists in parentheses, restrictions in brackets."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from knowledge.relation import Facts
from knowledge.rule import OWL, PREFIXES, RDF
from knowledge.terms import BLANK, IRI, Terms

Triple = tuple[int, int, int]

KNOWN = {
    **PREFIXES,
    "sosa": "http://www.w3.org/ns/sosa/",
    "ssn": "http://www.w3.org/ns/ssn/",
    "geo": "http://www.w3.org/2003/01/geo/wgs84_pos#",
    "gn": "http://www.geonames.org/ontology#",
    "time": "http://www.w3.org/2006/time#",
    "prov": "http://www.w3.org/ns/prov#",
    "qudt": "http://qudt.org/schema/qudt/",
    "unit": "http://qudt.org/vocab/unit/",
}


_CLASS_WORDS = (
    *(
        "onProperty",
        "someValuesFrom",
        "allValuesFrom",
        "hasValue",
        "maxCardinality",
        "maxQualifiedCardinality",
        "onClass",
    ),
    *("intersectionOf", "unionOf", "oneOf", "complementOf", "inverseOf"),
)
"""What a class or property without a name is made of."""


class Names:
    """What terms are called. With `facts`, blank nodes that are lists or restrictions are written out."""

    def __init__(self, terms: Terms, prefixes: Mapping[str, str] | None = None, facts: Facts | None = None) -> None:
        self.terms = terms
        self.prefixes = {**KNOWN, **(prefixes or {})}
        self.facts = facts

    def of(self, id: int, depth: int = 3) -> str:
        """A term by id, nested lists and restrictions down to a depth."""
        sort = self.terms.sorts[int(self.terms.sort_of(np.array([id]))[0])]
        if sort.kind == IRI:
            return self._iri(str(self.terms.texts(np.array([id]))[0]))
        if sort.kind == BLANK:
            return (self._written(id, depth) if self.facts and depth else None) or str(self.terms.term(id))
        text = str(self.terms.term(id))
        return text if sort.language or "^^" not in text else text.rpartition("^^")[0] + "^^" + self._iri(sort.datatype)

    def triple(self, triple: Triple) -> str:
        s, p, o = triple
        verb = "a" if self.of(p) == "rdf:type" else self.of(p)
        return f"{self.of(s)} {verb} {self.of(o)}"

    def _iri(self, iri: str) -> str:
        fits = [(len(begin), name) for name, begin in self.prefixes.items() if begin and iri.startswith(begin)]
        if fits:
            length, name = max(fits)
            if iri[length:].replace("_", "").replace("-", "").isalnum():
                return f"{name}:{iri[length:]}"
        return f"<{iri}>"

    def _written(self, id: int, depth: int) -> str | None:
        assert self.facts is not None
        members = self._objects(id, RDF + "first")
        if members:
            return "(" + " ".join(self.of(member, depth - 1) for member in self._list(id)) + ")"
        parts = []
        for name in _CLASS_WORDS:
            parts += [f"owl:{name} {self.of(o, depth - 1)}" for o in self._objects(id, OWL + name)[:1]]
        return f"[{'; '.join(parts)}]" if parts else None

    def _list(self, id: int) -> list[int]:
        found: list[int] = []
        while (first := self._objects(id, RDF + "first")) and len(found) < 100:
            found.append(first[0])
            rest = self._objects(id, RDF + "rest")
            if not rest:
                break
            id = rest[0]
        return found

    def _objects(self, subject: int, predicate: str) -> list[int]:
        assert self.facts is not None
        p = self.terms.id_of(predicate)
        return self.facts[p].objects_of(subject)
