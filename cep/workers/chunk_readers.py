"""Let worker processes read chunks of files (see `cep.connectors.formats.chunks`), between their steps."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import count

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.connectors.formats.chunks import FoundInChunk, ReadsChunks
from cep.core.errors import CepError
from cep.workers.messages import ChunkFound, ReadChunk
from cep.workers.packing import Tables
from cep.workers.processes import WorkerProcesses

LEAST = 1 << 20
"""The least size in bytes of a chunk that a worker reads."""

_ARRAYS = ("starts", "lines", "rows")
"""The arrays of a block that have one value per record."""


class WorkerReaders:
    """Readers that assign the chunks of files to workers in turn."""

    def __init__(self, processes: WorkerProcesses) -> None:
        self.processes, self.least = processes, LEAST
        self.ahead, self.cheap = 2 * len(processes), len(processes) > 2
        self._sources: dict[int, tuple[str, str, ReadsChunks]] = {}
        self._known: list[set[int]] = [set() for _ in range(len(processes))]
        self._ended: list[list[int]] = [[] for _ in self._known]
        self._numbers, self._begun = count(), count()

    def begin(self, file: str, reader: ReadsChunks) -> int:
        source = next(self._begun)
        self._sources[source] = file, os.path.abspath(file), reader
        return source

    def ask(self, source: int, position: int, size: int, final: bool) -> int:
        number = next(self._numbers)
        worker = number % len(self.processes)
        file, path, reader = self._sources[source]
        known, ended = self._known[worker], self._ended[worker]
        self._ended[worker] = []
        new = None if source in known else reader
        known.add(source)
        self.processes.tell(worker, ReadChunk(number, source, file, path, position, size, final, new, ended))
        return number

    def take(self, number: int) -> FoundInChunk | None:
        head, tables = self.processes.chunk(number)
        if head.block is None:
            return None
        starts, lines, rows = (_array(tables, name) for name in _ARRAYS)
        block = replace(head.block, starts=starts, lines=lines, rows=rows)
        return FoundInChunk(tables, head.dead, block, head.lines)

    def drop(self, number: int) -> None:
        self.processes.drop_chunk(number)

    def end(self, source: int) -> None:
        del self._sources[source]
        for known, ended in zip(self._known, self._ended, strict=True):
            if source in known:  # the worker forgets the source before it reads its next chunk
                known.remove(source)
                ended.append(source)


class WorkerChunks:
    """The part of a worker process that reads the chunks assigned to it."""

    def __init__(self) -> None:
        self._readers: dict[int, ReadsChunks] = {}

    def read(self, asked: ReadChunk) -> tuple[ChunkFound, Tables]:
        for source in asked.ended:
            del self._readers[source]
        if asked.reader is not None:
            self._readers[asked.source] = asked.reader
        try:
            with open(asked.path, "rb", buffering=0) as opened:
                data = os.pread(opened.fileno(), asked.size, asked.position)
            chunk = self._readers[asked.source].chunk(asked.file, data, asked.position, asked.final)
        except (CepError, OSError):  # the main process reports the error when it reads this chunk
            chunk = None
        if chunk is None or len(data) < asked.size:
            return ChunkFound(asked.number, [], None, 0), {}
        block = chunk.block.without_data()
        tables = {name: table for name, table in chunk.tables.items() if table.height}
        for name in _ARRAYS:
            array: NDArray[np.int64] | None = getattr(block, name)
            if array is not None:
                tables[f"@{name}"] = pl.DataFrame({name: array})
        bare = replace(block, starts=None, lines=None, rows=None)
        return ChunkFound(asked.number, chunk.dead, bare, chunk.lines), tables


def _array(tables: Tables, name: str) -> NDArray[np.int64] | None:
    column_table = tables.pop(f"@{name}", None)
    return None if column_table is None else column_table[name].to_numpy()
