"""Changes of the knowledge that arrive as N-Quads, line by line in order of time.

The statements about one named graph arrive together: first the graph's times, then its triples. A graph is complete
when a statement about another graph arrives, or when the stream is silent. A graph that has a time but no triples
announces that no earlier change will arrive. The time at which a graph ends may arrive after its triples. Graphs that
have ended are dropped from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush

import pyoxigraph as ox

from cep.core.errors import CepError
from cep.knowledge.updates import Graphs, RefusedUpdate, Update, quads_of

BEGINNING = -(2**62)
Awaited = Callable[[Iterator[bytes]], bytes | None]
"""A function that returns the next piece of a byte stream, or None at the end of the stream."""


def quad_line(quad: ox.Quad | ox.Triple) -> str:
    """Return a quad as a line of N-Quads."""
    return f"{quad} .\n"


class Arriving:
    """A stream of changes that arrives in pieces of whole lines. An empty piece means that nothing arrived for a while.

    - `now`: the time in microseconds that the stream has reached. Changes for earlier times count as late.
    - `over`: True if the stream has ended.
    - `quiet`: True if the stream is silent, so that the program need not wait for it.
    """

    def __init__(self, name: str, pieces: Iterator[bytes]) -> None:
        self.name = name
        self.now = BEGINNING
        self.over = self.quiet = False
        self.refused: list[RefusedUpdate] = []
        self._pieces = pieces
        self._graphs = Graphs("")
        self._line = 0
        self._open: str | None = None  # the graph whose statements are arriving
        self._bringing: dict[ox.Triple, set[str]] = {}  # by triple, the graphs that may still remove it
        self._fading: list[tuple[int, str]] = []  # the times at which graphs may be dropped

    def read(self, awaited: Awaited) -> list[Update]:
        """Read the next piece of the stream. Return the changes that are complete now."""
        piece = awaited(self._pieces)
        if piece is None:
            self.over = True
            return self._close()
        self.quiet = not piece
        updates = self._close() if self.quiet else []
        for line in piece.splitlines(keepends=True):
            self._line += 1
            updates += self._take(line)
        return updates

    def _take(self, line: bytes) -> list[Update]:
        updates: list[Update] = []
        try:
            for quad in quads_of(line):
                default = isinstance(quad.graph_name, ox.DefaultGraph)
                name = str(quad.subject if default else quad.graph_name)
                if name != self._open:
                    updates += self._close()
                    self._open = name
                self._graphs.take(quad, self._line)
                begins = self._graphs.known[name].begins
                if default and begins is not None:
                    self.now = max(self.now, begins)
        except CepError as error:
            self._refuse(self._line, error.message, error.code, line)
        return updates

    def _close(self) -> list[Update]:
        """Finish the graph whose statements have arrived last, and return its changes."""
        name, self._open = self._open, None
        graph = None if name is None else self._graphs.known.get(name)
        if name is None or graph is None:
            return []
        before = dict(graph.brought)
        try:
            updates = self._graphs.settle(name)
        except CepError as error:
            about = graph.fresh[:1] or ([] if graph.about is None else [graph.about])
            self._refuse(graph.line, error.message, error.code, "".join(map(quad_line, about)).encode())
            del self._graphs.known[name]
            self._unlist(name, before)
            return []
        for update in updates:
            update.file = self.name
        if graph.begins is None:  # it is only a removal, so it is complete
            assert graph.ends is not None, "a graph has a time"
            self.now = max(self.now, graph.ends)
            if updates:
                self._gone(graph.ends, updates)
            del self._graphs.known[name]
        elif graph.ends is not None:
            self.now = max(self.now, graph.ends if before else graph.begins)
            self._unlist(name, before)
            heappush(self._fading, (graph.ends, name))
        else:
            for quad in graph.brought.keys() - before.keys():
                self._bringing.setdefault(quad.triple, set()).add(name)
            if not graph.brought:
                heappush(self._fading, (graph.begins + 1, name))
        self._forget()
        return updates

    def _gone(self, time: int, updates: list[Update]) -> None:
        """Record that `updates` removed triples from all graphs at `time`.

        A graph that began earlier and contains such a triple will not remove it a second time when the graph ends.
        """
        for triple in (removed for update in updates for removed in update.remove):
            assert isinstance(triple, ox.Triple), "a removal is of triples"
            for name in sorted(self._bringing.get(triple, ())):
                graph = self._graphs.known[name]
                if graph.begins is not None and graph.begins < time:
                    quad = next(candidate for candidate in graph.brought if candidate.triple == triple)
                    del graph.brought[quad]
                    self._unlist(name, [quad])
                    if not graph.brought:
                        heappush(self._fading, (graph.begins + 1, name))

    def _unlist(self, name: str, quads: Iterable[ox.Quad]) -> None:
        for quad in quads:
            graphs = self._bringing.get(quad.triple, set())
            graphs.discard(name)
            if not graphs:
                self._bringing.pop(quad.triple, None)

    def _forget(self) -> None:
        while self._fading and self._fading[0][0] <= self.now:
            _, name = heappop(self._fading)
            graph = self._graphs.known.get(name)
            if graph is not None and name != self._open and (graph.ends is not None or not graph.brought):
                del self._graphs.known[name]

    def _refuse(self, line: int, reason: str, code: str, text: bytes) -> None:
        self.refused.append(RefusedUpdate(self.name, line, reason, code, text.decode("utf-8", "replace").strip()))
