"""Triples by the id of their graph, NONE for the default graph."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from knowledge.rdf import load
from knowledge.rdf.terms import NONE
from knowledge.rdf.triples import Triples


def by_graph(quads: load.Quads) -> dict[int, Triples]:
    """The triples of each graph, by its id."""
    return {
        graph: Triples.of(*(column[quads.g == graph] for column in (quads.s, quads.p, quads.o)))
        for graph in np.unique(quads.g).tolist()
    }


def union(graphs: Mapping[int, Triples]) -> Triples:
    """The triples of all graphs."""
    every = Triples.empty()
    for triples in graphs.values():
        every = every.plus(triples)
    return every


def changed(
    graphs: Mapping[int, Triples], less: Mapping[int, Triples], more: Mapping[int, Triples]
) -> dict[int, Triples]:
    """Graphs without some triples, which go from all where no graph is named, and then with others."""
    nothing = Triples.empty()
    made: dict[int, Triples] = {}
    for graph in dict.fromkeys([*graphs, *more]):
        triples = graphs.get(graph, nothing).minus(less.get(NONE, nothing))
        if graph != NONE:
            triples = triples.minus(less.get(graph, nothing))
        made[graph] = triples.plus(more.get(graph, nothing))
    return {graph: triples for graph, triples in made.items() if len(triples)}
