"""Comparison of literals whose value can be written in several ways, such as `4`, `4.0` and `"04"^^xsd:int`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyoxigraph as ox

from cep.core.values import Pool
from cep.events import Iri, Value
from cep.knowledge.rdf.terms import Term, Terms


def stored(literals: Sequence[ox.Literal]) -> list[ox.Literal]:
    """Return the literals as Oxigraph writes them. Oxigraph stores the values of literals, but not their spelling."""
    if not literals:
        return []
    results = ox.Store().query(f"SELECT ?x {{ VALUES ?x {{ {' '.join(map(str, literals))} }} }}")
    assert isinstance(results, ox.QuerySolutions), "a SELECT gives solutions"
    return [solution["x"] for solution in results]


def engine_values(term: Term) -> tuple[Value, ...]:
    """Return the values by which an engine may represent a term (see `Terms.columns`).

    For a time or duration there are two: in microseconds, and in seconds in a column of mixed types.
    """
    terms, pool = Terms(), Pool()
    (type,), (column,) = terms.columns([terms.ids([term])], pool)
    if type in ("string", "iri"):
        return (pool.value(int(column[0])),)
    if type in ("time", "duration"):
        return int(column[0]), int(column[0]) / 1_000_000
    return (bool(column[0]) if type == "bool" else float(column[0]) if type == "float" else int(column[0]),)


def equal(term: Term, value: Value) -> bool:
    """Return True if an engine may represent the term by this value."""
    return any(_kind(engine_value) == _kind(value) and engine_value == value for engine_value in engine_values(term))


def _kind(value: Value) -> tuple[bool, bool, bool]:
    return isinstance(value, str), isinstance(value, Iri), isinstance(value, bool)


def first_like(wanted: Term | Value, literals: Sequence[Term]) -> int | None:
    """Return the index of the first literal that has the value `wanted`. Return None if there is none."""
    if not isinstance(wanted, ox.Literal):
        assert not isinstance(wanted, ox.NamedNode | ox.BlankNode), "an IRI has one form"
        return next((place for place, literal in enumerate(literals) if equal(literal, wanted)), None)
    places = [place for place, literal in enumerate(literals) if isinstance(literal, ox.Literal)]
    form, *forms = stored([wanted, *(literal for literal in literals if isinstance(literal, ox.Literal))])
    return next((places[i] for i in np.flatnonzero([canonical == form for canonical in forms]).tolist()), None)
