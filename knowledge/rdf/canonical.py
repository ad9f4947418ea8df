"""Canonical literals: all literals of equal value, which are one term in SPARQL, get the same canonical id."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pyoxigraph as ox

from cep.core.values import Ints
from cep.knowledge.rdf.namespaces import XSD
from cep.knowledge.rdf.terms import IRI, LANG_STRING, LITERAL, NONE, Sort, Terms
from cep.knowledge.rdf.triples import TripleSet
from cep.knowledge.rdf.values import INTEGERS

_DIGITS = r"(?:0|-?[1-9][0-9]{0,14})"
_REAL = r"^(?:0|-?[1-9][0-9]{0,6}|-?(?:0|[1-9][0-9]{0,6})\.[0-9]{0,6}[1-9])$"
_FEW = 32  # the maximum number of terms that are converted one by one
CANONICAL = {
    XSD + "integer": f"^{_DIGITS}$",
    XSD + "decimal": _REAL,
    XSD + "double": _REAL,
    XSD + "boolean": "^(?:true|false)$",
    XSD
    + "dateTime": r"^[1-9][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T(?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2}Z$",
}
"""For each datatype, a pattern for lexical forms that are certainly canonical. Oxigraph converts all other forms."""

_BY_VALUE = frozenset(
    XSD + name
    for name in (
        *INTEGERS,
        *("decimal", "double", "float", "boolean", "dateTime", "dateTimeStamp", "date", "time", "duration"),
        *("dayTimeDuration", "yearMonthDuration", "gYear", "gYearMonth", "gMonth", "gMonthDay", "gDay"),
    )
)


class Canonical:
    """A mapping from the ids of a dictionary to canonical ids.

    An Oxigraph store represents numbers, booleans, times and durations by their values. For example,
    `"01"^^xsd:integer`, `"1"^^xsd:int` and `"1"^^xsd:integer` are one literal in a store, and so in every graph
    pattern. The canonical id of a term is the id of the term that a store returns for it.
    """

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._of: Ints = np.empty(0, dtype=np.int64)
        self._found: dict[tuple[str, str, str], int] = {}
        self.changes = False  # True if some id has another canonical id

    def copy(self) -> Canonical:
        """Return a copy of the mapping and its dictionary. Changes to one do not affect the other."""
        self._keep_up()
        copied = Canonical(self.terms.copy())
        copied._of, copied._found, copied.changes = self._of, dict(self._found), self.changes
        return copied

    def renamed(self, terms: Terms, kept: Ints, ids: Ints) -> Canonical:
        """Return the mapping for the dictionary `terms`, which contains only a part of this mapping's terms.

        `kept`: the old ids of these terms. `ids`: the new id for each old id.
        """
        self._keep_up()
        canonical = Canonical(terms)
        canonical._of, canonical.changes = ids[self._of[kept]], self.changes
        return canonical

    def ids(self, ids: Ints) -> Ints:
        """Return the canonical id for each id. NONE stays NONE."""
        self._keep_up()
        return np.where(ids == NONE, NONE, self._of[ids]) if self.changes else ids

    def triples(self, triples: TripleSet) -> TripleSet:
        """Replace the object of each triple by its canonical id."""
        objects = self.ids(triples.o)
        return triples if objects is triples.o else TripleSet.of(triples.s, triples.p, objects)

    def changed(
        self, before: TripleSet, closed: TripleSet, added: TripleSet, removed: TripleSet
    ) -> tuple[TripleSet, TripleSet, TripleSet]:
        """Return the canonical triples after a change, the triples that were added to them, and the triples that were
        removed from them.

        - `before`: the canonical triples before the change.
        - `closed`: all triples after the change, not canonical.
        - `added`, `removed`: the triples by which the change led to `closed`, not canonical.
        """
        new, gone = self.triples(added).minus(before), self.triples(removed)
        if not self.changes:
            return closed, new, gone
        if len(gone):  # another literal of the same value may still be there
            s, p, o = closed.found(gone.s, gone.p, None)[1]
            gone = gone.minus(TripleSet.of(s, p, self.ids(o)))
        return before.minus(gone).plus(new), new, gone

    def find(self, text: str, datatype: str, language: str) -> int:
        """Return the canonical id of a literal. If `datatype` and `language` are empty, `text` is an IRI. Return NONE
        if the term is unknown."""
        known = self._found.get((text, datatype, language))
        if known is not None:
            return known
        sort = Sort(LITERAL if datatype or language else IRI, LANG_STRING if language else datatype, language)
        token = sort.written(pl.Series([text], dtype=pl.String))
        if datatype in _BY_VALUE:
            token = canonical_form(token)
        term_id = int(self.ids(self.terms.tokens(token, add=False))[0])
        if term_id != NONE:
            self._found[text, datatype, language] = term_id
        return term_id

    def _keep_up(self) -> None:
        done, terms = len(self._of), self.terms
        if done == len(terms):
            return
        new: Ints = np.arange(done, len(terms), dtype=np.int64)
        doubtful: list[Ints] = []
        sorts = terms.sort_of(new)
        for index in np.unique(sorts).tolist():
            datatype = terms.sorts[index].datatype
            if datatype in _BY_VALUE:
                ids = new[sorts == index]
                if datatype in CANONICAL and len(ids) <= _FEW:
                    form = re.compile(CANONICAL[datatype])
                    ids = ids[[form.fullmatch(text) is None for text in terms.texts(ids).to_list()]]
                elif datatype in CANONICAL:
                    ids = ids[~terms.texts(ids).str.contains(CANONICAL[datatype]).to_numpy()]
                doubtful.append(ids)
        uncertain = np.concatenate([new[:0], *doubtful])
        canonical_ids = terms.tokens(canonical_form(terms.written(uncertain))) if len(uncertain) else uncertain
        # A returned term may be new; it is its own canonical term.
        self._of = np.concatenate([self._of, np.arange(done, len(terms), dtype=np.int64)])
        self._of[uncertain] = canonical_ids
        self.changes = self.changes or bool((uncertain != canonical_ids).any())


def canonical_form(tokens: pl.Series) -> pl.Series:
    """Convert literals in N-Triples to the literals that an Oxigraph store returns for them."""
    lines = pl.select(pl.format("<x:{}> <x:p> {} .\n", pl.int_range(len(tokens)), pl.lit(tokens))).to_series()
    store = ox.Store()
    store.load("".join(lines.to_list()), ox.RdfFormat.N_TRIPLES, lenient=True)
    written = store.dump(format=ox.RdfFormat.N_TRIPLES, from_graph=ox.DefaultGraph())
    assert written is not None, "without an output the text is given back"
    back = pl.Series([written.decode().removesuffix("\n")]).str.split("\n").explode()
    fields = back.str.splitn(" ", 3).struct.unnest()
    order = fields.to_series(0).str.slice(3).str.head(-1).cast(pl.Int64).arg_sort()
    return fields.to_series(2).str.head(-2).gather(order)
