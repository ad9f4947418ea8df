"""The IRIs of the knowledge that have a certain prefix, and their descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from cep.core.errors import CepError
from cep.core.prefixes import namespace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cep.knowledge.graph import Knowledge

MOST = 2000
"""The greatest number of IRIs that are proposed for one prefix."""
_USED = """SELECT DISTINCT ?x WHERE {{ {{ ?x ?p ?o }} UNION {{ ?s ?x ?o }} UNION {{ ?s ?p ?x }}
    FILTER(isIRI(?x) && STRSTARTS(STR(?x), "{0}")) }} ORDER BY ?x LIMIT {1}"""
_SAID = """PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> PREFIX qudt: <http://qudt.org/schema/qudt/>
PREFIX skos: <http://www.w3.org/2004/02/skos/core#>
SELECT ?kind ?said WHERE {{
    {{ <{0}> rdfs:label|skos:prefLabel ?said BIND("label" AS ?kind) }}
    UNION {{ <{0}> rdfs:comment|skos:definition ?said BIND("comment" AS ?kind) }}
    UNION {{ <{0}> qudt:unit|qudt:hasUnit|qudt:applicableUnit ?said BIND("unit" AS ?kind) }}
    UNION {{ <{0}> a ?said BIND("type" AS ?kind) FILTER(isIRI(?said)) }} }}"""


@dataclass(frozen=True, slots=True)
class Said:
    """The description of an IRI in the knowledge."""

    label: str = ""
    comment: str = ""
    unit: str = ""
    type: str = ""


class Prefixed:
    """A cache of query results about the knowledge. It is cleared when the knowledge changes."""

    def __init__(self) -> None:
        self._known: Knowledge | None = None
        self._names: dict[str, list[str]] = {}
        self._said: dict[str, Said] = {}

    def _renew(self, known: Knowledge | None) -> None:
        if known is not self._known:
            self._known, self._names, self._said = known, {}, {}

    def names(self, known: Knowledge | None, prefix: str, declared: Mapping[str, str]) -> list[str]:
        """Return the local names of the knowledge's IRIs that have this prefix.

        `declared`: the prefixes that the program declares, with their IRIs.
        """
        self._renew(known)
        space = namespace(prefix, declared)
        if known is None or space is None or any(letter in space for letter in '"\\\n'):
            return []
        if space not in self._names:
            rows = _rows(known, _USED.format(space, MOST))
            names = [str(row[0])[len(space) :] for row in rows]
            self._names[space] = [name for name in names if name and name.replace("_", "").replace("-", "").isalnum()]
        return self._names[space]

    def said(self, known: Knowledge | None, iri: str) -> Said:
        """Return the description of an IRI in the knowledge. The description is empty if the knowledge does not
        describe the IRI."""
        self._renew(known)
        if known is None or any(letter in iri for letter in '<>"{}|^`\\ \n'):
            return Said()
        if iri not in self._said:
            by_kind: dict[str, str] = {}
            for kind, said in _rows(known, _SAID.format(iri)):
                by_kind.setdefault(str(kind), str(said))
            self._said[iri] = Said(*(by_kind.get(kind, "") for kind in ("label", "comment", "unit", "type")))
        return self._said[iri]


def _rows(known: Knowledge, query: str) -> list[tuple[object, ...]]:
    try:
        answer = known.query(query)
    except CepError:
        return []
    return answer.rows() if isinstance(answer, pl.DataFrame) else []
