"""Conversion of triples to readable JSON-LD. The document has a context and one object per subject. If a list or blank
node is mentioned only once, it is written inside the object that mentions it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyoxigraph as ox

from cep.connectors.rdf.vocabulary import RDF, XSD

Subject = ox.NamedNode | ox.BlankNode
_FIRST, _REST, _NIL, _TYPE = (ox.NamedNode(RDF + name) for name in ("first", "rest", "nil", "type"))


def to_json_ld(triples: Iterable[ox.Triple], prefixes: Mapping[str, str]) -> bytes:
    """Convert triples to JSON-LD 1.1, and keep their order. The context contains only prefixes that are used."""
    return json.dumps(_Document(triples, prefixes).document(), ensure_ascii=False, separators=(",", ":")).encode()


class _Document:
    def __init__(self, triples: Iterable[ox.Triple], prefixes: Mapping[str, str]) -> None:
        self.nodes: dict[Subject, dict[ox.NamedNode, list[Any]]] = {}
        self.referred: Counter[ox.BlankNode] = Counter()
        schemes = set()
        for triple in dict.fromkeys(triples):
            assert not isinstance(triple.subject, ox.Triple), "no triple is about a triple"
            self.nodes.setdefault(triple.subject, {}).setdefault(triple.predicate, []).append(triple.object)
            if isinstance(triple.object, ox.BlankNode):
                self.referred[triple.object] += 1
            kind = triple.object.datatype if isinstance(triple.object, ox.Literal) else triple.object
            for term in (triple.subject, triple.predicate, kind):
                if isinstance(term, ox.NamedNode):
                    schemes.add(term.value.partition(":")[0])
        # A prefix that is also a scheme would change IRIs of that scheme, and JSON-LD has no prefixes
        # that end in a letter.
        longest = sorted(prefixes.items(), key=lambda prefix: -len(prefix[1]))
        self.prefixes = {name: iri for name, iri in longest if name not in schemes and iri[-1:] in ":/?#[]@"}
        self.used: set[str] = set()
        self.within = self._within()

    def document(self) -> dict[str, Any]:
        graph = [self.node(subject) for subject in self.nodes if subject not in self.within]
        return {"@context": {name: self.prefixes[name] for name in sorted(self.used)}, "@graph": graph}

    def _within(self) -> set[Subject]:
        """Return the blank nodes that are written inside the only node that refers to them.

        Blank nodes that refer to each other in a cycle are left out. They are written at the top level, with names.
        """
        once = {node for node, times in self.referred.items() if times == 1 and node in self.nodes}
        reached: set[Subject] = set()
        waiting: list[Subject] = [subject for subject in self.nodes if subject not in once]
        while waiting:
            for objects in self.nodes[waiting.pop()].values():
                inner = [term for term in objects if term in once and term not in reached]
                reached.update(inner)
                waiting += inner
        return reached

    def node(self, subject: Subject) -> dict[str, Any]:
        document: dict[str, Any] = {}
        if subject not in self.within:
            document["@id"] = self.name(subject)
        for property, objects in self.nodes[subject].items():
            typed = property == _TYPE and all(isinstance(term, ox.NamedNode) for term in objects)
            values = [self.name(term) if typed else self.value(term) for term in objects]
            document["@type" if typed else self.name(property)] = values[0] if len(values) == 1 else values
        return document

    def value(self, term: Any) -> Any:
        if isinstance(term, ox.Literal):
            return self.literal(term)
        if (members := self.members(term)) is not None:
            return {"@list": [self.value(member) for member in members]}
        return self.node(term) if term in self.within else {"@id": self.name(term)}

    def members(self, term: Any) -> list[Any] | None:
        """Return the members of the RDF list whose first node is `term`. Return None if `term` is not the first node of
        a list, or if the list cannot be nested."""
        values: list[Any] = []
        while term != _NIL:
            parts = self.nodes.get(term, {})
            if (
                term not in self.within
                or set(parts) != {_FIRST, _REST}
                or any(len(part) > 1 for part in parts.values())
            ):
                return None
            values.append(parts[_FIRST][0])
            term = parts[_REST][0]
        return values

    def literal(self, term: ox.Literal) -> Any:
        if term.language:
            return {"@value": term.value, "@language": term.language}
        match term.datatype.value.removeprefix(XSD):
            case "string":
                return term.value
            case "boolean" if term.value in ("true", "false"):
                return term.value == "true"
            case "integer" if (
                len(term.value) < 16 and term.value.lstrip("-").isdecimal() and str(int(term.value)) == term.value
            ):
                return int(term.value)
        return {"@value": term.value, "@type": self.name(term.datatype)}

    def name(self, term: Subject) -> str:
        if isinstance(term, ox.BlankNode):
            return f"_:{term.value}"
        iri = term.value
        for name, begins in self.prefixes.items():
            rest = iri.removeprefix(begins)
            if rest != iri and rest and not rest.startswith("//"):
                self.used.add(name)
                return f"{name}:{rest}"
        return iri
