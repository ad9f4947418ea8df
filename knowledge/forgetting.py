"""Garbage collection of the term dictionary. It drops terms that arrived in changes and are no longer used.

Terms that were loaded from files keep their ids. The other terms keep their order, so sorted columns of ids stay
sorted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cep.core.values import Ints
from cep.knowledge.query.bindings import Bindings
from cep.knowledge.query.pattern_tables import PatternTable
from cep.knowledge.rdf.relation import unpacked
from cep.knowledge.rdf.terms import NONE
from cep.knowledge.reasoning.closure import compute_closure

if TYPE_CHECKING:
    from cep.knowledge.graph import Knowledge

FEW = 1 << 12
"""The number of terms below which garbage collection of the dictionary is not worth its time."""


def forget(knowledge: Knowledge) -> None:
    """Replace the dictionary of the knowledge by one that contains only the loaded terms and the terms in use.

    No other Knowledge object may share the dictionary.
    """
    seen, closed, asserted, closure = knowledge.seen, knowledge.closed, knowledge.asserted, knowledge.closure
    used = np.zeros(len(knowledge.terms), dtype=np.bool_)
    used[: knowledge.first] = True
    for triples in (seen, closed, asserted):
        for column in triples.columns:
            used[column] = True
    for graph in knowledge.graphs:
        used[max(graph, 0)] = True
    for predicate in closure.facts if closure is not None else ():
        assert closure is not None, "it has facts"
        used[max(predicate, 0)] = True
        for column in unpacked(closure.facts[predicate].pairs):
            used[column] = True
    used[knowledge.canonical.ids(np.flatnonzero(used))] = True
    kept = np.flatnonzero(used)
    ids: Ints = np.full(len(used), NONE, dtype=np.int64)
    ids[kept] = np.arange(len(kept))
    terms = knowledge.terms.only(kept)
    renamed = {id(triples): triples.renamed(ids) for triples in (seen, closed, asserted)}
    graphs = {
        graph if graph == NONE else int(ids[graph]): renamed.get(id(triples)) or triples.renamed(ids)
        for graph, triples in knowledge.graphs.items()
    }
    tables = {key: table and _renamed(table, ids) for key, table in knowledge.tables.items()}
    canonical = knowledge.canonical.renamed(terms, kept, ids)
    if closure is not None and knowledge.loaded is not None:
        known = knowledge.loaded.closure
        if known is not None and closure.rules is known.rules:
            labels = np.concatenate([closure.labels, np.arange(len(closure.labels), len(used), dtype=np.int64)])
            facts, stated = closure.facts.renamed(ids), closure.asserted.renamed(ids)
            closure = replace(closure, terms=terms, labels=ids[labels[kept]], facts=facts, asserted=stated)
        else:  # rules contain ids too
            closure = compute_closure(terms, renamed[id(asserted)], closure.reasoning, closure.prefixes)
    seen, closed, asserted = (renamed[id(triples)] for triples in (seen, closed, asserted))
    knowledge.take_on(terms, canonical, graphs, (asserted, closed, seen), closure, tables)


def _renamed(table: PatternTable, ids: Ints) -> PatternTable:
    components = [
        replace(
            component,
            bindings=Bindings(
                {n: ids[column] for n, column in component.bindings.columns.items()}, component.bindings.rows
            ),
        )
        for component in table.components
    ]
    return replace(table, components=tuple(components))
