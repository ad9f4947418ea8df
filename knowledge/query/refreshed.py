"""The answers to a pattern that does not only consist of triples, as a table that follows changes of the knowledge.

After a change, the pattern is evaluated only for the values of the key that the change affects (see `locality.py`). It
is evaluated in a small store, which contains only the triples that are reachable from these values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyoxigraph as ox

from cep.core.values import Ints
from cep.knowledge.query import store
from cep.knowledge.query.bindings import Bindings, EncodedPattern, TooLarge, solve
from cep.knowledge.query.graph_patterns import MOST_CELLS, select_query
from cep.knowledge.query.locality import Locality, Slots
from cep.knowledge.query.pattern_tables import Resolve, Row, contains, edited, stretch_of, touching
from cep.knowledge.query.sparql import ConstantTerm
from cep.knowledge.rdf.terms import NONE, Terms
from cep.knowledge.rdf.triples import TripleSet

PatternKey = tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]

_LARGE = 8  # query all again if more than one in this many triples is involved
_SINGLE = 1 << 10  # the maximum number of rows to add and remove one by one
_MANY = 1 << 12  # query all again after this many new terms, and at least as many as before


@dataclass(frozen=True, slots=True)
class Refreshed:
    """The distinct rows of a pattern: one column of ids for its key, and one for each other variable.

    - `terms`: a dictionary of its own, because a pattern may compute terms that the knowledge lacks.
    - `first`: the number of terms that this dictionary had when the table was built.
    - `by_key`: the rows with the columns `names`, of which the first is the key. The rows are sorted.
    - `by_value`: the same rows with the columns `variables`, sorted. If the key is not one of `variables`, it is an
      additional last column.
    - `gone`, `new`: the rows of `variables` that the last change removed, and those that it added.
    """

    of: Locality
    variables: tuple[str, ...]
    terms: Terms
    first: int
    by_key: tuple[Ints, ...]
    by_value: tuple[Ints, ...]
    gone: tuple[Row, ...] = ()
    new: tuple[Row, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return names(self.of, self.variables)

    @property
    def rows(self) -> int:
        return len(self.columns()[0])

    def columns(self) -> list[Ints]:
        """Return one column of ids for each of `variables`. Rows are distinct."""
        columns = self.by_value[: len(self.variables)]
        first = np.ones(len(columns[0]), dtype=np.bool_)
        if len(self.by_value) > len(columns):
            first[1:] = False
            for column in columns:
                first[1:] |= column[1:] != column[:-1]
        return [column[first] for column in columns]

    def apart(self) -> Refreshed:
        """Return a copy that has its own dictionary, to which terms can be added independently."""
        return replace(self, terms=self.terms.copy())

    def changed(
        self,
        query: tuple[str, Mapping[str, str]],
        triples: tuple[TripleSet, TripleSet, TripleSet, TripleSet],
        terms: Terms,
        resolve: Resolve,
    ) -> Refreshed | None:
        """Return the table after a change of the knowledge, or None if the pattern should be evaluated anew.

        `query`: the pattern's text and prefixes. `triples`: all triples before the change, all triples after it, the
        added triples, and the removed triples. Raises TooLarge if a join would have too many rows.
        """
        before, after, new, gone = triples
        if (len(new) + len(gone)) * _LARGE > len(after) or len(self.terms) > 2 * self.first + _MANY:
            return None
        keys = self._touched(before, gone, resolve) | self._touched(after, new, resolve)
        if not keys:
            return self
        few = self._found(after, np.array(sorted(keys), dtype=np.int64), resolve)
        if few is None:
            return None
        own = self.terms.ids([terms.term(key) for key in sorted(keys)]).tolist()
        rows = self._solved(query, store.store_quads(terms, few), set(own))
        known = {row for key in own for row in self._rows(key)}
        return self._edited(sorted(known - rows), sorted(rows - known))

    def _touched(self, triples: TripleSet, few: TripleSet, resolve: Resolve) -> set[int]:
        """Return the values of the key from which a triple in `few` is reachable. `few` is a subset of `triples`."""
        keys: set[int] = set()
        for block in self.of.blocks if len(few) else ():
            patterns = [*_resolved(block.own, resolve), *_resolved(block.around, resolve)]
            some = touching(patterns, triples, few, (block.key,), MOST_CELLS, last=len(block.own))
            keys |= set(some.columns[block.key].tolist())
        return keys

    def _found(self, triples: TripleSet, keys: Ints, resolve: Resolve) -> TripleSet | None:
        """Return the triples that are reachable from the values `keys` of the key, or None if there are too many."""
        parts: list[tuple[Ints, Ints, Ints]] = []
        for block in self.of.blocks:
            own = _resolved(block.own, resolve)
            variables = list(dict.fromkeys(slot for pattern in own for slot in pattern if isinstance(slot, str)))
            start = Bindings({block.key: keys}, len(keys))
            some = solve([*own, *_resolved(block.around, resolve)], triples, variables, start, MOST_CELLS)
            for pattern in own if some.rows else ():
                s, p, o = (np.full(some.rows, x) if isinstance(x, int) else some.columns[x] for x in pattern)
                parts.append((s, p, o))
        if sum(len(s) for s, _, _ in parts) * _LARGE > max(len(triples), _MANY):
            return None
        if not parts:
            return TripleSet.empty()
        s, p, o = (np.concatenate(column) for column in zip(*parts))
        return TripleSet.of(s, p, o)

    def _solved(self, query: tuple[str, Mapping[str, str]], few: Sequence[ox.Quad], keys: set[int]) -> set[Row]:
        small = ox.Store()
        small.extend(few)
        results = small.query(select_query(query[0], self.names), prefixes=dict(query[1]))
        assert isinstance(results, ox.QuerySolutions), "a SELECT gives solutions"
        rows = [[solution[i] for i in range(len(self.names))] for solution in results]
        used_terms = {term for row in rows for term in row if term is not None}
        every = list(used_terms)
        ids = dict(zip(every, self.terms.ids(every).tolist()))
        id_rows = {tuple(NONE if term is None else ids[term] for term in row) for row in rows}
        return {row for row in id_rows if row[0] in keys}

    def _rows(self, key: int) -> list[Row]:
        start, stop = stretch_of(self.by_key, (key,))
        return list(zip(*(column[start:stop].tolist() for column in self.by_key)))

    def _edited(self, gone: Sequence[Row], new: Sequence[Row]) -> Refreshed | None:
        if not gone and not new:
            return self
        if len(gone) + len(new) > _SINGLE:
            return None
        places = [self.names.index(name) for name in columns_by_value(self.of, self.variables)]
        by_key = edited(self.by_key, gone, new)
        here = self.by_value
        edited_columns = edited(here, *([tuple(row[i] for i in places) for row in rows] for rows in (gone, new)))
        width = len(self.variables)
        went = dict.fromkeys(tuple(row[i] for i in places[:width]) for row in gone)
        arrived = dict.fromkeys(tuple(row[i] for i in places[:width]) for row in new)
        return replace(
            self,
            by_key=tuple(by_key),
            by_value=tuple(edited_columns),
            gone=tuple(row for row in went if not contains(edited_columns, row)),
            new=tuple(row for row in arrived if not contains(here, row)),
        )


def refreshed(of: Locality, wanted: tuple[str, ...], terms: Terms, columns: Sequence[Ints]) -> Refreshed:
    """Build the table of a pattern. `columns`: distinct rows of ids in `terms`, in the order of `names(of, wanted)`."""
    named = dict(zip(names(of, wanted), columns))
    by_key, values = (_sorted([named[name] for name in order]) for order in (named, columns_by_value(of, wanted)))
    return Refreshed(of, wanted, terms, len(terms), by_key, values)


def tables_following(
    tables: Mapping[PatternKey, Refreshed],
    triples: tuple[TripleSet, TripleSet, TripleSet, TripleSet],
    terms: Terms,
    resolve: Resolve,
) -> dict[PatternKey, Refreshed]:
    """Update the tables of patterns after a change of the knowledge. Leave out patterns that must be evaluated anew.

    A key of the mappings consists of the pattern's text, variables and prefixes. `triples`: as in `Refreshed.changed`.
    """
    renewed_tables: dict[PatternKey, Refreshed] = {}
    for key, refreshed in tables.items():
        try:
            renewed = refreshed.changed((key[0], dict(key[2])), triples, terms, resolve)
        except TooLarge:
            continue
        if renewed is not None:
            renewed_tables[key] = renewed
    return renewed_tables


def names(of: Locality, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the variables in the order of `Refreshed.by_key`: the key, then the other wanted variables."""
    return (of.key, *(name for name in wanted if name != of.key))


def columns_by_value(of: Locality, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the variables in the order of the columns of `Refreshed.by_value`: the wanted variables, then the key
    unless it is one of them."""
    return (*wanted, *({of.key} - set(wanted)))


def _sorted(columns: Sequence[Ints]) -> tuple[Ints, ...]:
    order = np.lexsort(list(reversed(columns)))
    return tuple(column[order] for column in columns)


def _resolved(patterns: Sequence[Slots], resolve: Resolve) -> list[EncodedPattern]:
    return [
        tuple(resolve(slot) if isinstance(slot, ConstantTerm) else slot for slot in pattern)  # type: ignore[misc]
        for pattern in patterns
    ]
