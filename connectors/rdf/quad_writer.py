"""Writing to a store: all changes are counted, and logged while the store is being rebuilt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import BinaryIO

import pyoxigraph as ox

from cep.connectors.rdf.store_files import StoreFiles
from cep.connectors.rdf.time_tree import HERE

MANY = 6_000
"""The number of quads from which on bulk loading is used."""

_SLICE = 50_000  # quads to sort in memory and load together, about 100 MB
_IN_MEMORY = 50_000  # quads added or removed, about 25 MB, after which RocksDB writes its memory to files


class QuadWriter:
    """A writer for a store with these files.

    `log`: a file for all changes from now on, for a rebuild (connectors/rdf/rebuild.py). Each line is a sign, `+` or
    `-`, and a quad. It becomes None if a change cannot be logged.
    """

    def __init__(self, store: ox.Store, files: StoreFiles) -> None:
        self.store, self.files = store, files
        self.log: BinaryIO | None = None
        self._in_memory = 0

    def load(self, text: bytes) -> None:
        """Add lines of N-Triples. Those that exist are ignored."""
        count = text.count(b"\n")
        load = self.store.bulk_load if count >= MANY else self.store.load
        load(text, ox.RdfFormat.N_TRIPLES, lenient=True)
        if self.log is not None and text:
            self._log(b"+" + text[:-1].replace(b"\n", b"\n+") + b"\n")
        self._count(count)

    def add(self, quads: Iterable[ox.Quad]) -> None:
        """Add quads. Those that exist are ignored."""
        rest = iter(quads)
        while some := list(islice(rest, _SLICE)):
            extend = self.store.bulk_extend if len(some) >= MANY else self.store.extend
            extend(some)
            if self.log is not None:
                self._log(_lines(b"+", some))
            self._count(len(some))

    def remove(self, quads: Sequence[ox.Quad]) -> None:
        """Remove quads, and graphs that become empty."""
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
        """Remove quads of the default graph without blank nodes, many per transaction."""
        for start in range(0, len(quads), MANY):
            some = quads[start : start + MANY]
            text = " .\n".join(map(str, some))
            self.store.update(f"DELETE DATA {{ {text} }}")
            if self.log is not None:
                self._log(_lines(b"-", some))
        self.files.removed += len(quads)
        self._count(len(quads))

    def replace(self, path: str) -> None:
        """Replace all quads by the contents of an N-Quads file. This cancels a rebuild."""
        self.log = None
        self.files.removed += len(self.store)
        self.store.clear()
        self.store.bulk_extend(ox.parse(path=path, format=ox.RdfFormat.N_QUADS, lenient=True))

    def flush(self) -> None:
        """Write data in memory to files, and record the hashes of the files."""
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
        """Flush after enough changes. RocksDB by itself would wait for hundreds of megabytes."""
        self._in_memory += changes
        if self._in_memory >= _IN_MEMORY:
            self.flush()


def _lines(sign: bytes, quads: Iterable[ox.Quad]) -> bytes:
    return b"".join(b"%b%b .\n" % (sign, str(quad).encode()) for quad in quads)
