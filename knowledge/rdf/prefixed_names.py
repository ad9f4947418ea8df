"""Terms and triples as readable text: prefixed names, lists in parentheses, and OWL restrictions in brackets."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from cep.core.prefixes import PREFIXES
from cep.knowledge.rdf.namespaces import OWL, RDF, XSD
from cep.knowledge.rdf.relation import PredicateRelations
from cep.knowledge.rdf.terms import BLANK, IRI, Terms

IdTriple = tuple[int, int, int]

_PARTS = (
    *(
        "onProperty",
        "someValuesFrom",
        "allValuesFrom",
        "hasValue",
        "maxCardinality",
        "maxQualifiedCardinality",
        "onClass",
    ),
    *("intersectionOf", "unionOf", "oneOf", "complementOf", "inverseOf", "members", "distinctMembers"),
    *("sourceIndividual", "assertionProperty", "targetIndividual", "targetValue"),
)
"""The properties that occur in the description of a class, property or axiom that is a blank node."""
_AXIOMS = ("AllDifferent", "AllDisjointClasses", "AllDisjointProperties")
_BARE = {"integer": r"[+-]?[0-9]+", "decimal": r"[+-]?[0-9]*\.[0-9]+", "boolean": "true|false"}
"""For each datatype whose literals Turtle can write without quotes, a pattern for these literals."""


class PrefixedNames:
    """Readable names of terms.

    `facts`: the triples that describe blank nodes. With them, lists, restrictions and axioms are written in full.
    """

    def __init__(
        self, terms: Terms, prefixes: Mapping[str, str] | None = None, facts: PredicateRelations | None = None
    ) -> None:
        self.terms = terms
        self.prefixes = {**PREFIXES, **(prefixes or {})}
        self.facts = facts

    def of(self, id: int, depth: int = 3) -> str:
        """Return the readable name of a term. `depth`: the levels of nested lists and restrictions to write in full."""
        sort = self.terms.sorts[int(self.terms.sort_of(np.array([id]))[0])]
        if sort.kind == IRI:
            return self._iri(str(self.terms.texts(np.array([id]))[0]))
        if sort.kind == BLANK:
            return (self._written(id, depth) if self.facts and depth else "") or str(self.terms.term(id))
        text = str(self.terms.term(id))
        if sort.language or "^^" not in text:
            return text
        text, datatype = text.rpartition("^^")[0], sort.datatype
        form = _BARE.get(datatype.removeprefix(XSD))
        return text[1:-1] if form and re.fullmatch(form, text[1:-1]) else f"{text}^^{self._iri(datatype)}"

    def triple(self, triple: IdTriple) -> str:
        """Convert a triple to text.

        If the subject is a blank node, its readable name may already contain the triple. Then return only this name.
        """
        s, p, o = triple
        verb, of = self.of(p), self.of(s)
        axioms = ["owl:" + name for name in _AXIOMS]
        parts = ["owl:" + name for name in _PARTS]
        if of.startswith("[") and (verb in parts or (verb == "rdf:type" and self.of(o) in axioms)):
            return of
        return f"{of} {'a' if verb == 'rdf:type' else verb} {self.of(o)}"

    def _iri(self, iri: str) -> str:
        fits = [(len(begin), name) for name, begin in self.prefixes.items() if begin and iri.startswith(begin)]
        if fits:
            length, name = max(fits)
            if re.fullmatch(r"[\w-]+(\.[\w-]+)*", iri[length:]):
                return f"{name}:{iri[length:]}"
        return f"<{iri}>"

    def _written(self, id: int, depth: int) -> str:
        if self._objects(id, RDF + "first"):
            return "(" + " ".join(self.of(member, depth - 1) for member in self._list(id)) + ")"
        types = {self._iri(str(self.terms.texts(np.array([o]))[0])) for o in self._objects(id, RDF + "type")}
        parts = [f"a owl:{name}" for name in _AXIOMS if f"owl:{name}" in types]
        for name in _PARTS:
            parts += [f"owl:{name} {self.of(o, depth - 1)}" for o in self._objects(id, OWL + name)[:1]]
        return f"[{'; '.join(parts)}]" if parts else ""

    def _list(self, id: int) -> list[int]:
        members: list[int] = []
        while (first := self._objects(id, RDF + "first")) and len(members) < 100:
            members.append(first[0])
            rest = self._objects(id, RDF + "rest")
            if not rest:
                break
            id = rest[0]
        return members

    def _objects(self, subject: int, predicate: str) -> list[int]:
        assert self.facts is not None, "what is written out is looked up"
        return self.facts[self.terms.id_of(predicate)].objects_of(subject)
