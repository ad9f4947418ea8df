"""Messages between the main process and its workers. A message has a head and tables."""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa

from cep.compile import CompiledProgram
from cep.connectors.formats.chunks import ReadsChunks
from cep.connectors.records.batch import Block, DeadLetter
from cep.core.errors import CepError, Source, Span
from cep.core.schema import Schema
from cep.runtime.options import EngineOptions
from cep.runtime.partial_matches import Key, RankedMatches
from cep.runtime.run_stats import Count
from cep.runtime.state_by_key import KeyGroups
from cep.workers.packing import PackedTable, Tables, copy, laid_out, read
from cep.workers.shared_memory import GivenMemory, TakenMemory


@dataclass(frozen=True, slots=True)
class Begin:
    """Create an engine for each of these stages, by number. `program` is a result of `cep.compile`. There is no
    answer."""

    program: CompiledProgram
    running: EngineOptions
    stages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """Process tables in the stage with this number, and advance it to `watermark`. The records sent to any worker so
    far end between `first` and `latest`."""

    stage: int
    watermark: int
    latest: int
    first: int


@dataclass(frozen=True, slots=True)
class Made:
    """The result of a step, with the size of the stage's state. Its tables contain the derived rows.

    `counts`: the counters of its goals, on request. `warnings`: the engine's warnings. `keys_replayed`: the number of
    keys that were recomputed. `merged`: the number of records merged with an equal record, by event.
    """

    stage: int
    rows: int
    bytes: int
    counts: tuple[Count, ...] = ()
    warnings: tuple[tuple[str, str, dict[str, object]], ...] = ()
    keys_replayed: int = 0
    merged: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Take:
    """Process tables of input in the stage with this number, without advancing. Their records may withdraw or replace
    others."""

    stage: int


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A refused record of a table, by its `@order`, with the reason."""

    table: str
    order: int
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Taken:
    """The refused records, and the number of late rows in each table."""

    stage: int
    refused: tuple[RefusedRecord, ...]
    late: dict[str, int]


@dataclass(frozen=True, slots=True)
class Learn:
    """Apply changes of the knowledge (`KnowledgeSource.change`), each from a time on."""

    changes: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True, slots=True)
class Learnt:
    """The changes were applied or, if `refused` is not None, none of them was."""

    refused: Failed | None


@dataclass(frozen=True, slots=True)
class Lineage:
    """Return these columns of lineage from now on. There is no answer."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteRows:
    """Return the rows of these events as output text (`cep.connectors.writing.writers.written_rows`) instead of
    attributes from now on. There is no answer."""

    schemas: Mapping[str, Schema]
    format: str
    times: str


@dataclass(frozen=True, slots=True)
class Forget:
    """Drop all state that no later event can need."""


@dataclass(frozen=True, slots=True)
class ListPartial:
    """List at most `limit` partial matches of an event (`cep.runtime.partial_matches`). `copies`: include partial
    matches that every worker has."""

    event: str
    key: Key
    limit: int
    copies: bool


@dataclass(frozen=True, slots=True)
class Listed:
    """The partial matches of each stage, or none if the key is `refused`."""

    matches: tuple[RankedMatches, ...]
    refused: Failed | None = None


@dataclass(frozen=True, slots=True)
class Save:
    """Return the states of all stages, by number."""


@dataclass(frozen=True, slots=True)
class Saved:
    """The states of all stages, by number."""

    states: dict[int, bytes]


@dataclass(frozen=True, slots=True)
class Restore:
    """Restore states by stage: the `whole` state of a partition, or `parts` of the states of partitions that had some
    of the same key groups."""

    whole: dict[int, bytes]
    parts: dict[int, list[tuple[KeyGroups, bytes]]]


@dataclass(frozen=True, slots=True)
class ReadChunk:
    """Read chunk `number`: `size` bytes at `position` of the file at `path`. `final`: they are the last bytes of the
    file.

    `reader`: the reader of the file, if the worker does not yet have the reader of this `source`. `ended`: sources that
    the worker may forget first.
    """

    number: int
    source: int
    file: str
    path: str
    position: int
    size: int
    final: bool
    reader: ReadsChunks | None
    ended: Sequence[int]


@dataclass(frozen=True, slots=True)
class ChunkFound:
    """The contents of a chunk, with its tables and the arrays of its block. Without a block, the chunk cannot be read
    by itself."""

    number: int
    dead: list[DeadLetter]
    block: Block | None
    lines: int


@dataclass(frozen=True, slots=True)
class Done:
    """The request was carried out."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The request failed with a CepError."""

    message: str
    source: Source | None
    span: Span | None
    hint: str | None
    code: str

    @classmethod
    def of(cls, error: CepError) -> Failed:
        return cls(error.message, error.source, error.span, error.hint, error.code)

    def error(self) -> CepError:
        """Return the CepError."""
        return CepError(self.message, self.source, self.span, self.hint, self.code)


Head = (
    Begin
    | Lineage
    | WriteRows
    | Step
    | Made
    | Take
    | Taken
    | Learn
    | Learnt
    | ReadChunk
    | ChunkFound
    | Forget
    | ListPartial
    | Listed
    | Save
    | Saved
    | Restore
    | Done
    | Failed
)


_SIZE = struct.Struct("<q")


class Line:
    """One end of a connection between two processes.

    Tables are written to shared memory if there is room, otherwise after the head. `outgoing`: the memory for sent
    tables. `taken`: the memory for received tables.
    """

    def __init__(self, socket: socket.socket, outgoing: int | None, taken: int | None) -> None:
        """`outgoing` and `taken`: file descriptors of memory. They can be closed afterwards."""
        self.socket = socket
        self._given = None if outgoing is None else GivenMemory(outgoing)
        self._taken = None if taken is None else TakenMemory(taken)

    def send(self, head: Head, tables: Mapping[str, pl.DataFrame | PackedTable] | None = None) -> None:
        """Send a message. Only one thread may send. Raises OSError if the other process has ended."""
        layout, buffers, size = laid_out(tables or {})
        over = [] if self._taken is None else self._taken.over()
        room = self._given.room(size) if self._given is not None and size else None
        text = pickle.dumps((head, layout, size, room and room[0], over), pickle.HIGHEST_PROTOCOL)
        if room is not None:
            copy(buffers, room[1])
        self.socket.sendall(_SIZE.pack(len(text)) + text)
        if room is None and size:
            memory = np.empty(size, np.uint8)
            copy(buffers, memory)
            self.socket.sendall(memory.data)

    def receive(self) -> tuple[Head, Tables]:
        """Receive the next message. Only one thread may receive. Raises EOFError or OSError if the other process has
        ended."""
        (size,) = _SIZE.unpack(self._read(_SIZE.size))
        head, layout, size, begin, over = pickle.loads(self._read(size))
        if self._given is not None:
            self._given.given_back.extend(over)
        if begin is None:
            return head, read(layout, pa.py_buffer(self._read(size)))
        assert self._taken is not None, "what lies in the memory can be read"
        return head, read(layout, self._taken.buffer(begin, size))

    def _read(self, size: int) -> memoryview:
        """Read `size` bytes from the socket."""
        content = np.empty(size, np.uint8).data
        done = 0
        while done < size:
            more = self.socket.recv_into(content[done:])
            if not more:
                raise EOFError
            done += more
        return content
