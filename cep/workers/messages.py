"""What a run and its worker processes say to each other: a head, and tables as Arrow streams behind it."""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from cep.compile import CompiledProgram
from cep.core.errors import CepError, Source, Span
from cep.core.schema import Schema
from cep.runtime.counts import Count
from cep.runtime.key_groups import KeyGroups
from cep.runtime.options import EngineOptions
from connectors.arrow_bytes import StreamBuffer, unpack
from connectors.batch import Block, DeadLetter
from connectors.chunks import ReadsChunks

Tables = dict[str, pl.DataFrame]


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
    """What a step has given, as tables, and what the stage holds now; `counts`: of its goals, where they are asked
    for; `warnings`: what the engine has warned of."""

    stage: int
    rows: int
    bytes: int
    counts: tuple[Count, ...] = ()
    warnings: tuple[tuple[str, str, dict[str, object]], ...] = ()


@dataclass(frozen=True, slots=True)
class Lineage:
    """From now on give these columns of what led to an occurrence. Nothing is answered."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteRows:
    """From now on give the rows of these events as they stand in the output (`connectors.writers.written_rows`), in
    place of their attributes. Nothing is answered."""

    schemas: Mapping[str, Schema]
    format: str
    calendar: bool


@dataclass(frozen=True, slots=True)
class Forget:
    """Keep nothing that no later event can need."""


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
    the worker does not know that of the `source` of this number yet."""

    number: int
    source: int
    file: str
    path: str
    position: int
    size: int
    final: bool
    reader: ReadsChunks | None


@dataclass(frozen=True, slots=True)
class ChunkFound:
    """What it holds besides its tables, among which are the arrays of its block; without a block it cannot be read by
    itself."""

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
    Begin | Lineage | WriteRows | Step | Made | ReadChunk | ChunkFound | Forget | Save | Saved | Restore | Done | Failed
)


_SIZE = struct.Struct("<q")


def send(line: socket.socket, head: Head, tables: Tables | None = None, buffer: StreamBuffer | None = None) -> None:
    """One message; `buffer`: of one who has nothing else to say meanwhile. OSError: nobody hears it."""
    streams = (buffer or StreamBuffer()).streams(list((tables or {}).values()))
    text = pickle.dumps((head, list(tables or {}), [len(each) for each in streams]), pickle.HIGHEST_PROTOCOL)
    line.sendall(_SIZE.pack(len(text)) + text)
    for each in streams:
        line.sendall(each)


def receive(line: socket.socket) -> tuple[Head, Tables]:
    """The next message. EOFError, OSError: nobody is there."""
    (size,) = _SIZE.unpack(_read(line, _SIZE.size))
    head, names, sizes = pickle.loads(_read(line, size))
    return head, {name: unpack(pa.py_buffer(_read(line, size))) for name, size in zip(names, sizes, strict=True)}


def _read(line: socket.socket, size: int) -> memoryview:
    """So many bytes."""
    found = np.empty(size, np.uint8).data
    done = 0
    while done < size:
        more = line.recv_into(found[done:])
        if not more:
            raise EOFError
        done += more
    return found
