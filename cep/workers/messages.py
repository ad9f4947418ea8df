"""Messages between a run and its worker processes: a head, and tables."""

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
    """Make an engine for each of these stages, by number; `program` as `cep.compile` made it. Nothing is answered."""

    program: CompiledProgram
    running: EngineOptions
    stages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """Take tables, and go on to `watermark`: in the stage of that number. `latest` and `first`: between these ends all
    of the input lies that has come to any worker."""

    stage: int
    watermark: int
    latest: int
    first: int


@dataclass(frozen=True, slots=True)
class Made:
    """The result of a step, with the size of the stage's state.

    The derived rows are in the tables. `counts`: of its goals, on request; `warnings`: of the engine;
    `keys_replayed`: how many keys were run again; `merged`: by event, how many records were merged with an equal one.
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
    """Take tables that come from outside, and complete nothing, in the stage of that number: records in them may
    withdraw or replace others."""

    stage: int


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record of a table that was refused: its `@order`, and why."""

    table: str
    order: int
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Taken:
    """The records that were refused, and how many rows of each table were late."""

    stage: int
    refused: tuple[RefusedRecord, ...]
    late: dict[str, int]


@dataclass(frozen=True, slots=True)
class Learn:
    """Take changes of the knowledge (`KnowledgeSource.change`), each from a time on."""

    changes: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True, slots=True)
class Learnt:
    """They are taken, or none of them where one is `refused`."""

    refused: Failed | None


@dataclass(frozen=True, slots=True)
class Lineage:
    """From now on give these columns of what led to an occurrence. Nothing is answered."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteRows:
    """From now on give the rows of these events as they stand in the output
    (`cep.connectors.writing.writers.written_rows`), in place of their attributes. Nothing is answered."""

    schemas: Mapping[str, Schema]
    format: str
    times: str


@dataclass(frozen=True, slots=True)
class Forget:
    """Keep nothing that no later event can need."""


@dataclass(frozen=True, slots=True)
class ListPartial:
    """List partial matches of an event (`cep.runtime.partial_matches`), at most `limit`; `copies`: also what every
    worker has."""

    event: str
    key: Key
    limit: int
    copies: bool


@dataclass(frozen=True, slots=True)
class Listed:
    """Those of each stage; or none where the key is `refused`."""

    found: tuple[RankedMatches, ...]
    refused: Failed | None = None


@dataclass(frozen=True, slots=True)
class Save:
    """Give the states of all stages, by number."""


@dataclass(frozen=True, slots=True)
class Saved:
    """Them."""

    states: dict[int, bytes]


@dataclass(frozen=True, slots=True)
class Restore:
    """Go on from these states by stage: of the stage as it is, or of each partition that had some of these groups."""

    whole: dict[int, bytes]
    parts: dict[int, list[tuple[KeyGroups, bytes]]]


@dataclass(frozen=True, slots=True)
class ReadChunk:
    """Read chunk `number`: these bytes of a file, which is at `path`, the last if `final`; `reader`: of the file, where
    the worker does not know that of the `source` of this number yet; `ended`: sources that it may forget before."""

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
    """A chunk that was read, with its tables and the arrays of its block. Without a block it cannot be read alone."""

    number: int
    dead: list[DeadLetter]
    block: Block | None
    lines: int


@dataclass(frozen=True, slots=True)
class Done:
    """It is so."""


@dataclass(frozen=True, slots=True)
class Failed:
    """It is not: what a `CepError` says."""

    message: str
    source: Source | None
    span: Span | None
    hint: str | None
    code: str

    @classmethod
    def of(cls, error: CepError) -> Failed:
        return cls(error.message, error.source, error.span, error.hint, error.code)

    def error(self) -> CepError:
        """It again."""
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
    """One end of what two processes say to each other. Tables lie in memory that both have, where there is room
    (`given`: for those sent; `taken`: of those received); else they come behind the head."""

    def __init__(self, socket: socket.socket, given: int | None, taken: int | None) -> None:
        """`given` and `taken`: descriptors of memory, which may be closed then."""
        self.socket = socket
        self._given = None if given is None else GivenMemory(given)
        self._taken = None if taken is None else TakenMemory(taken)

    def send(self, head: Head, tables: Mapping[str, pl.DataFrame | PackedTable] | None = None) -> None:
        """One message; one thread sends. OSError: nobody hears it."""
        layout, buffers, size = laid_out(tables or {})
        over = [] if self._taken is None else self._taken.over()
        found = self._given.room(size) if self._given is not None and size else None
        text = pickle.dumps((head, layout, size, found and found[0], over), pickle.HIGHEST_PROTOCOL)
        if found is not None:
            copy(buffers, found[1])
        self.socket.sendall(_SIZE.pack(len(text)) + text)
        if found is None and size:
            memory = np.empty(size, np.uint8)
            copy(buffers, memory)
            self.socket.sendall(memory.data)

    def receive(self) -> tuple[Head, Tables]:
        """The next message; one thread receives. EOFError, OSError: nobody is there."""
        (size,) = _SIZE.unpack(self._read(_SIZE.size))
        head, layout, size, begin, over = pickle.loads(self._read(size))
        if self._given is not None:
            self._given.given_back.extend(over)
        if begin is None:
            return head, read(layout, pa.py_buffer(self._read(size)))
        assert self._taken is not None, "what lies in the memory can be read"
        return head, read(layout, self._taken.buffer(begin, size))

    def _read(self, size: int) -> memoryview:
        """So many bytes."""
        found = np.empty(size, np.uint8).data
        done = 0
        while done < size:
            more = self.socket.recv_into(found[done:])
            if not more:
                raise EOFError
            done += more
        return found
