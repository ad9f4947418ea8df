"""An Oxigraph store of triples, for SPARQL. It is filled from columns of ids, and updated after changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl
import pyoxigraph as ox

from cep.core.values import Ints
from cep.knowledge.rdf.terms import BLANK, NONE, Terms
from cep.knowledge.rdf.triples import TripleColumns, TripleSet

_CHUNK = 200_000  # triples per batch


def filled(terms: Terms, triples: TripleSet, graphs: Mapping[int, TripleSet], ordered: bool = False) -> ox.Store:
    """Return a store that contains the triples in its default graph, and the named graphs of `graphs`.

    `ordered`: True to insert the triples in the order of their texts. LIMIT, SAMPLE and GROUP_CONCAT depend on an order
    of solutions that SPARQL does not define. With `ordered`, their results depend only on the triples.
    """
    store = ox.Store()
    for graph, some in [(NONE, triples), *((graph, some) for graph, some in graphs.items() if graph != NONE)]:
        name = ox.DefaultGraph() if graph == NONE else terms.term(graph)
        assert not isinstance(name, ox.Literal), "the name of a graph is no literal"
        columns = _by_text(terms, some) if ordered else some.columns
        kinds = [terms.kinds(column) == BLANK for column in columns]
        blank = kinds[0] | kinds[2]
        for text in _written(terms, _only(columns, ~blank)):
            store.load(text, ox.RdfFormat.N_TRIPLES, to_graph=name, lenient=True)
        for text in _written(terms, _only(columns, blank)):  # `load` would give blank nodes new labels
            store.extend(
                ox.Quad(q.subject, q.predicate, q.object, name) for q in ox.parse(text, ox.RdfFormat.N_TRIPLES)
            )
    return store


def store_quads(terms: Terms, triples: TripleSet, graph: int = NONE) -> list[ox.Quad]:
    """Convert a few triples to quads of pyoxigraph. `graph`: the id of their graph."""
    term_by_id: dict[int, ox.NamedNode | ox.BlankNode | ox.Literal] = {}
    for column in triples.columns:
        term_by_id |= {id: terms.term(id) for id in set(column.tolist()) - term_by_id.keys()}
    name = None if graph == NONE else terms.term(graph)
    rows = zip(*(column.tolist() for column in triples.columns))
    return [ox.Quad(term_by_id[s], term_by_id[p], term_by_id[o], name) for s, p, o in rows]  # type: ignore[arg-type]


def follow(store: ox.Store, terms: Terms, changes: Sequence[tuple[int, TripleSet, TripleSet]]) -> None:
    """Apply changes to a store. Each consists of a graph's id, the removed triples and the added triples."""
    for graph, less, more in changes:
        for quad in store_quads(terms, less, graph):
            store.remove(quad)
        store.extend(store_quads(terms, more, graph))


def _only(columns: TripleColumns, mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> TripleColumns:
    s, p, o = columns
    return (s, p, o) if mask.all() else (s[mask], p[mask], o[mask])


def _written(terms: Terms, columns: TripleColumns) -> Iterator[str]:
    for start in range(0, len(columns[0]), _CHUNK):
        s, p, o = (terms.written(column[start : start + _CHUNK]) for column in columns)
        lines = pl.select(pl.concat_str([pl.lit(s), pl.lit(p), pl.lit(o), pl.lit(".\n")], separator=" "))
        yield "".join(lines.to_series().to_list())


def _by_text(terms: Terms, triples: TripleSet) -> TripleColumns:
    used: Ints = np.unique(np.concatenate(triples.columns))
    rank: Ints = np.empty(len(used), dtype=np.int64)
    rank[terms.written(used).arg_sort().to_numpy()] = np.arange(len(used))
    keys = [rank[np.searchsorted(used, column)] for column in triples.columns]
    order = pl.DataFrame(dict(zip("spo", keys))).with_row_index("row").sort("s", "p", "o")["row"].to_numpy()
    s, p, o = triples.columns
    return s[order], p[order], o[order]
