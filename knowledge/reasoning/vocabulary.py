"""The terms of RDF, RDFS and OWL that rules use, by id."""

from __future__ import annotations

import re

import polars as pl

from cep.knowledge.rdf.namespaces import PREFIXES
from cep.knowledge.rdf.terms import Terms
from cep.knowledge.reasoning import owl2rl, rdfs

_LISTS = ("intersectionOf", "unionOf", "oneOf", "members", "distinctMembers", "propertyChainAxiom", "hasKey")
_NUMBERS = ("maxCardinality", "maxQualifiedCardinality")
_OTHERS = ("rdf:type", "rdf:first", "rdf:rest", "rdf:nil", "owl:propertyChainAxiom", "owl:hasKey")
_TABLES = " ".join((owl2rl.SCHEMA, owl2rl.DATA, rdfs.SCHEMA, rdfs.DATA))
NAMES = tuple(dict.fromkeys([*_OTHERS, *re.findall(r"\b(?:rdf|rdfs|owl):\w+", _TABLES)]))
"""The prefixed names of all terms that rules use."""


class ReasoningVocabulary:
    """The ids of the terms that rules use, by prefixed name. Creating this object adds the terms to the dictionary."""

    def __init__(self, terms: Terms) -> None:
        iris = [PREFIXES[name.partition(":")[0]] + name.partition(":")[2] for name in NAMES]
        self.ids: dict[str, int] = dict(zip(NAMES, terms.iris(pl.Series(iris)).tolist()))
        self.type, self.first, self.rest, self.nil, self.chain, self.key = (self.ids[name] for name in _OTHERS)
        self.range = self.ids["rdfs:range"]
        self.same = self.ids["owl:sameAs"]
        self.transitive = self.ids["owl:TransitiveProperty"]
        self.of_lists = tuple(self.ids["owl:" + name] for name in _LISTS)
        self.of_numbers = tuple(self.ids["owl:" + name] for name in _NUMBERS)
