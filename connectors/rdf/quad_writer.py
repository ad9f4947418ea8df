"""A writer of quads to a store. It counts all changes. During a rebuild of the store, it also logs them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import BinaryIO

import pyoxigraph as ox

from cep.connectors.rdf.store_files import StoreFiles
from cep.connectors.rdf.time_tree import HERE

MANY = 6_000
"""The minimum number of quads for bulk loading, and the maximum number of quads that one transaction removes."""

_SLICE = 50_000  # quads to sort in memory and load together, about 100 MB
_IN_MEMORY = 50_000  # quads added or removed, about 25 MB, after which RocksDB writes its memory to files


class QuadWriter:
    """A writer of quads to a store. `files`: the files of the store.

    `log`: the file to which all changes are logged during a rebuild (connectors/rdf/rebuild.py), else None. Each line
    is a sign, `+` or `-`, and a quad. If a change cannot be logged, `log` becomes None.
    """

    def __init__(self, store: ox.Store, files: StoreFiles) -> None:
        self.store, self.files = store, files
        self.log: BinaryIO | None = None
        self._in_memory = 0

    def load(self, text: bytes) -> None:
        """Add triples, which are lines of N-Triples. Triples that exist already are ignored."""
        count = text.count(b"\n")
        load = self.store.bulk_load if count >= MANY else self.store.load
        load(text, ox.RdfFormat.N_TRIPLES, lenient=True)
        if self.log is not None and text:
            self._log(b"+" + text[:-1].replace(b"\n", b"\n+") + b"\n")
        self._count(count)

    def add(self, quads: Iterable[ox.Quad]) -> None:
        """Add quads. Quads that exist already are ignored."""
        rest = iter(quads)
        while some := list(islice(rest, _SLICE)):
            extend = self.store.bulk_extend if len(some) >= MANY else self.store.extend
            extend(some)
            if self.log is not None:
                self._log(_lines(b"+", some))
            self._count(len(some))

    def remove(self, quads: Sequence[ox.Quad]) -> None:
        """Remove quads. If a graph is empty afterwards, remove the graph too."""
        for quad in quads:
            self.store.remove(quad)
        for graph in {quad.graph_name for quad in quads} - {HERE}:
            if next(self.store.quads_for_pattern(None, None, None, graph), None) is None:
                self.store.remove_graph(graph)
        if self.log is not None:
            self._log(_lines(b"-", quads))
        self.files.removed += len(quads)
        self._count(len(quads))

    def remove_triples(self, quads: Sequence[ox.Quad]) -> None:
        """Remove quads from the default graph, up to MANY per transaction. The quads must not contain blank nodes."""
        for start in range(0, len(quads), MANY):
            some = quads[start : start + MANY]
            text = " .\n".join(map(str, some))
            self.store.update(f"DELETE DATA {{ {text} }}")
            if self.log is not None:
                self._log(_lines(b"-", some))
        self.files.removed += len(quads)
        self._count(len(quads))

    def replace(self, path: str) -> None:
        """Replace all quads of the store by those in an N-Quads file. This cancels a rebuild."""
        self.log = None
        self.files.removed += len(self.store)
        self.store.clear()
        self.store.bulk_extend(ox.parse(path=path, format=ox.RdfFormat.N_QUADS, lenient=True))

    def flush(self) -> None:
        """Write the store's data from memory to its files, and record the hashes of these files."""
        self._in_memory = 0
        self.store.flush()
        self.files.note()

    def _log(self, lines: bytes) -> None:
        assert self.log is not None, "there is a rebuild"
        try:
            self.log.write(lines)
        except OSError:  # the disk is full; the store continues without a log
            self.log = None

    def _count(self, changes: int) -> None:
        """Count changes, and call `flush` after a certain number of them. Otherwise RocksDB would keep hundreds of
        megabytes of changes in memory."""
        self._in_memory += changes
        if self._in_memory >= _IN_MEMORY:
            self.flush()


def _lines(sign: bytes, quads: Iterable[ox.Quad]) -> bytes:
    return b"".join(b"%b%b .\n" % (sign, str(quad).encode()) for quad in quads)
