"""The quads by which a copy of the knowledge's store follows changes, including inferred quads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyoxigraph as ox

from cep.knowledge.graph import Knowledge
from cep.knowledge.query import store
from cep.knowledge.rdf.terms import NONE
from cep.knowledge.rdf.triples import TripleSet


class StoreFollower:
    """A follower of changes of the knowledge. For each change, it returns the quads by which a copy of the knowledge's
    store can be updated.

    The copy must have been made from `Knowledge.store`.
    """

    def __init__(self, knowledge: Knowledge) -> None:
        """Start from the knowledge's current state. The caller must pass all later changes to `change`."""
        self._loaded = knowledge
        self._known = knowledge.fork(with_answers=False, apart=True)

    def change(self, changes: Sequence[bytes]) -> tuple[bytes, bytes]:
        """Apply changes (see `Knowledge.change`). Return the removed and added quads, also inferred, as N-Quads."""
        before = self._graphs()
        self._known.apply(self._known.merge(changes))
        now = self._graphs()
        written = self._written(before, now), self._written(now, before)
        self._known.forget()
        return written

    def begin_again(self, changes: Sequence[bytes]) -> tuple[bytes, bytes]:
        """Start again from the initial state, and apply all changes since then. Return the quads by which the result
        differs from the current copy: the removed and the added ones.

        This is needed if a change arrived late, and belongs before changes that were already applied. All quads are
        compared as text, because the two states have different dictionaries.
        """
        before = self._all()
        self._known = self._loaded.fork(with_answers=False, apart=True)
        self._known.apply(self._known.merge(changes))
        now = self._all()
        return b"".join(sorted(before - now)), b"".join(sorted(now - before))

    def _all(self) -> set[bytes]:
        return set(self._written(self._graphs(), {}).splitlines(keepends=True))

    def _graphs(self) -> dict[int, TripleSet]:
        return {**self._known.graphs, NONE: self._known.seen}

    def _written(self, some: dict[int, TripleSet], others: dict[int, TripleSet]) -> bytes:
        return b"".join(self._lines(some, others))

    def _lines(self, some: dict[int, TripleSet], others: dict[int, TripleSet]) -> Iterator[bytes]:
        for graph, triples in some.items():
            other = others.get(graph, TripleSet.empty())
            if triples is not other and len(only := triples.minus(other)):
                written = ox.serialize(store.store_quads(self._known.terms, only, graph), format=ox.RdfFormat.N_QUADS)
                assert written is not None, "without an output the text is given"
                yield written
