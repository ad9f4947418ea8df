"""Messages between the main process and its workers. A message consists of a head and tables."""

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
    """A request to create an engine for each stage whose number is in `stages`. It has no answer.

    `program`: a program that `cep.compile` has compiled.
    """

    program: CompiledProgram
    running: EngineOptions
    stages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A request to process tables in the stage with the number `stage`, and to advance the stage to `watermark`.

    `first`, `latest`: the earliest and latest end of all records sent to any worker so far.
    """

    stage: int
    watermark: int
    latest: int
    first: int


@dataclass(frozen=True, slots=True)
class Made:
    """The result of a step. The tables of the message contain the derived rows.

    - `rows`, `bytes`: the size of the stage's state.
    - `counts`: the counters of the stage's operators, if requested.
    - `warnings`: the engine's warnings.
    - `keys_replayed`: the number of keys that were recomputed.
    - `merged`: for each event type, the number of records that were merged with an equal record.
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
    """A request to process input tables in the stage with the number `stage`, without advancing the stage.

    The records in the tables may withdraw or replace earlier records.
    """

    stage: int


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record that a worker has refused, and the reason. `order`: the record's `@order` in its table."""

    table: str
    order: int
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to `Take`: the refused records, and the number of late rows in each table."""

    stage: int
    refused: tuple[RefusedRecord, ...]
    late: dict[str, int]


@dataclass(frozen=True, slots=True)
class Learn:
    """A request to apply changes of the knowledge (see `KnowledgeSource.change`). Each change has the time from which
    it applies."""

    changes: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True, slots=True)
class Learnt:
    """The answer to `Learn`. If `refused` is None, all changes were applied, otherwise none."""

    refused: Failed | None


@dataclass(frozen=True, slots=True)
class Lineage:
    """A request to return the columns of lineage that `columns` names, from now on. It has no answer."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteRows:
    """A request to return the rows of the events in `schemas` as output text from now on, instead of attributes. It has
    no answer.

    The text is that of `cep.connectors.writing.writers.written_rows`.
    """

    schemas: Mapping[str, Schema]
    format: str
    times: str


@dataclass(frozen=True, slots=True)
class Forget:
    """A request to drop all state that no later event can need."""


@dataclass(frozen=True, slots=True)
class ListPartial:
    """A request to list at most `limit` partial matches of an event (see `cep.runtime.partial_matches`).

    `copies`: True to include partial matches that exist in every worker.
    """

    event: str
    key: Key
    limit: int
    copies: bool


@dataclass(frozen=True, slots=True)
class Listed:
    """The answer to `ListPartial`: the partial matches of each stage.

    `refused`: the error if the key in the request is not valid; then there are no matches.
    """

    matches: tuple[RankedMatches, ...]
    refused: Failed | None = None


@dataclass(frozen=True, slots=True)
class Save:
    """A request to return the states of all stages of the worker."""


@dataclass(frozen=True, slots=True)
class Saved:
    """The answer to `Save`: the states of all stages, by stage number."""

    states: dict[int, bytes]


@dataclass(frozen=True, slots=True)
class Restore:
    """A request to restore the states of stages, by stage number.

    - `whole`: the state of a partition that is restored as it was.
    - `parts`: the states of several partitions, each of which had some of the worker's key groups.
    """

    whole: dict[int, bytes]
    parts: dict[int, list[tuple[KeyGroups, bytes]]]


@dataclass(frozen=True, slots=True)
class ReadChunk:
    """A request to read chunk `number`: `size` bytes at `position` of the file at `path`.

    - `final`: True if these are the last bytes of the file.
    - `reader`: the reader of the file, if the worker does not yet have the reader of this `source`.
    - `ended`: the sources whose readers the worker may forget before it reads the chunk.
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
    """The answer to `ReadChunk`: the contents of a chunk. The message contains the tables and arrays of the `block`.

    `block`: the records that were read from the chunk, or None if the chunk cannot be read on its own.
    """

    number: int
    dead: list[DeadLetter]
    block: Block | None
    lines: int


@dataclass(frozen=True, slots=True)
class Done:
    """The answer to a request that was carried out and has no result."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The answer to a request that failed with a CepError."""

    message: str
    source: Source | None
    span: Span | None
    hint: str | None
    code: str

    @classmethod
    def of(cls, error: CepError) -> Failed:
        return cls(error.message, error.source, error.span, error.hint, error.code)

    def error(self) -> CepError:
        """Return the CepError with which the request failed."""
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

    Tables are written to shared memory if it has room. Otherwise they are sent through the socket, after the head of
    the message.

    - `outgoing`: the memory for the tables that this end sends.
    - `taken`: the memory for the tables that this end receives.
    """

    def __init__(self, socket: socket.socket, outgoing: int | None, taken: int | None) -> None:
        """Create one end of a connection over `socket`.

        `outgoing`, `taken`: the file descriptors of the memory. The caller can close them afterwards.
        """
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
        """Receive the next message. Only one thread may receive.

        Raises EOFError or OSError if the other process has ended.
        """
        (size,) = _SIZE.unpack(self._read(_SIZE.size))
        head, layout, size, begin, over = pickle.loads(self._read(size))
        if self._given is not None:
            self._given.given_back.extend(over)
        if begin is None:
            return head, read(layout, pa.py_buffer(self._read(size)))
        assert self._taken is not None, "what lies in the memory can be read"
        return head, read(layout, self._taken.buffer(begin, size))

    def _read(self, size: int) -> memoryview:
        content = np.empty(size, np.uint8).data
        done = 0
        while done < size:
            more = self.socket.recv_into(content[done:])
            if not more:
                raise EOFError
            done += more
        return content
