"""Operations on the triples of several graphs, by the graph's id. The id NONE stands for the default graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyoxigraph as ox

from cep.knowledge import load
from cep.knowledge.rdf.terms import NONE, Terms
from cep.knowledge.rdf.triples import TripleSet


def by_graph(quads: load.Quads) -> dict[int, TripleSet]:
    """Group triples by the id of their graph."""
    return {
        graph: TripleSet.of(*(column[quads.g == graph] for column in (quads.s, quads.p, quads.o)))
        for graph in np.unique(quads.g).tolist()
    }


def union(graphs: Mapping[int, TripleSet]) -> TripleSet:
    every = TripleSet.empty()
    for triples in graphs.values():
        every = every.plus(triples)
    return every


def differing(
    before: Mapping[int, TripleSet], now: Mapping[int, TripleSet]
) -> Iterator[tuple[int, TripleSet, TripleSet]]:
    """Yield each named graph that differs between `before` and `now`, with the removed and the added triples."""
    for graph in dict.fromkeys([*before, *now]):
        old, new = (graphs.get(graph, TripleSet.empty()) for graphs in (before, now))
        if graph != NONE and old is not new:
            yield graph, old.minus(new), new.minus(old)


def changed(
    graphs: Mapping[int, TripleSet], less: Mapping[int, TripleSet], more: Mapping[int, TripleSet]
) -> dict[int, TripleSet]:
    """Return the graphs after the triples of `less` are removed and then the triples of `more` are added.

    A triple in the default graph of `less` is removed from all graphs.
    """
    nothing = TripleSet.empty()
    triples_by_graph: dict[int, TripleSet] = {}
    for graph in dict.fromkeys([*graphs, *more]):
        triples = graphs.get(graph, nothing).minus(less.get(NONE, nothing))
        if graph != NONE:
            triples = triples.minus(less.get(graph, nothing))
        triples_by_graph[graph] = triples.plus(more.get(graph, nothing))
    return {graph: triples for graph, triples in triples_by_graph.items() if len(triples)}


def graph_contains(line: str, terms: Terms, graphs: Mapping[int, TripleSet], every: TripleSet) -> bool:
    """Return True if the graphs contain a quad. If the quad names no graph, it may be in any graph.

    `line`: the quad as a line of N-Quads. `every`: the union of all graphs.
    """
    (quad,) = ox.parse(line, ox.RdfFormat.N_QUADS)
    ids = [terms.id_of(term) for term in quad.triple]
    triples = every
    if not isinstance(quad.graph_name, ox.DefaultGraph):
        triples = graphs.get(terms.id_of(quad.graph_name), TripleSet.empty())
    return NONE not in ids and triples.count(*ids) > 0
