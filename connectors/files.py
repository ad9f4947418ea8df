"""Readers that convert files to batches: `read` reads one file after the other, `replay` sorts all records by time."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import polars as pl

from cep.connectors.brokers.sources import Sources
from cep.connectors.clock_skew import without_ahead
from cep.connectors.epochs import SmallUnits
from cep.connectors.formats.chunks import ChunkReaders
from cep.connectors.formats.csv import read_csv
from cep.connectors.formats.parquet import open_parquet, read_parquet
from cep.connectors.formats.streams import LONGEST, ByteStream
from cep.connectors.inputs import Input, inputs, sure
from cep.connectors.open_files import is_being_written
from cep.connectors.records.batch import Batch, Block, DeadLetter
from cep.connectors.records.double_hours import FoldedTables
from cep.connectors.records.order import in_order
from cep.connectors.records.paths import level, source_of
from cep.core.errors import CepError
from cep.core.schema import Schema
from cep.core.signals import stops
from cep.core.storage.failures import StorageError
from cep.core.storage.urls import is_url
from cep.core.suggest import astray

if TYPE_CHECKING:
    from cep.connectors.brokers.live import RunState

CHUNK = 1 << 24
"""The number of bytes of text in a block."""
ROWS = 1 << 17
"""The number of rows in a batch of a Parquet file or of a replay."""
LARGE = 1 << 28
"""The total size of the inputs in bytes above which a replay first checks whether they are sorted. If they are, they
need not be held in memory."""

DEVICE = "device"
"""The code of an error whose cause is a device or the machine. A later attempt may succeed."""

ABSENT = "absent"
"""The code of an error about a file that does not exist or may not be read here. Another machine may read it."""

_ITS_OWN = (errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, None)
"""The numbers of system errors whose cause is the file itself. None represents an error in the contents of the file."""
_NOT_HERE = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM)

_Part = tuple[dict[str, pl.DataFrame], list[DeadLetter], Block | None, int]
_Piece = tuple[dict[str, pl.DataFrame], list[DeadLetter], Block | None, int, int]


def read(
    specs: Sequence[str],
    schemas: Mapping[str, Schema],
    *,
    format: str | None = None,
    chunk: int = CHUNK,
    rows: int = ROWS,
    stdin: BinaryIO | None = None,
    idle: float | None = None,
    rest: RunState | None = None,
    first: int = 0,
    sources: Sources | None = None,
    readers: ChunkReaders | None = None,
) -> Iterator[Batch]:
    """Yield the batches of all inputs, one input after the other. Records stay in the order of their input.

    Memory is bounded by `chunk` bytes of text or `rows` rows of Parquet. A batch from a pipe contains the data that has
    arrived so far. After `idle` seconds without data, an empty batch reports the silence. Such batches are repeated
    until data arrives. Live inputs are read after all other inputs, and all at the same time.

    - `rest`: the state of the run. It is read between the messages of live inputs.
    - `first`: the record number of the first record.
    - `sources`: the object in which lost connections are recorded.
    - `readers`: processes that read chunks of text files.

    Raises CepError in the same cases as `inputs`, and if a header is wrong.
    """
    opened = inputs(specs, schemas, format)
    yield from _read(opened, schemas, chunk, rows, stdin, idle, rest, first, sources, readers)


def read_one(file: Input, schemas: Mapping[str, Schema], *, chunk: int = CHUNK, rows: int = ROWS) -> Generator[Batch]:
    """Yield the batches of a file that exists. Raises CepError if the file cannot be read completely."""
    try:
        yield from _read([sure(file, schemas)], schemas, chunk, rows, None)
    except OSError as error:
        raise _unreadable(file.path, error) from None


def replay(
    specs: Sequence[str],
    schemas: Mapping[str, Schema],
    *,
    format: str | None = None,
    chunk: int = CHUNK,
    rows: int = ROWS,
    large: int = LARGE,
    stdin: BinaryIO | None = None,
    idle: float | None = None,
    rest: RunState | None = None,
    first: int = 0,
    sources: Sources | None = None,
    readers: ChunkReaders | None = None,
) -> Iterator[Batch]:
    """Yield the records of all inputs as batches with watermarks, sorted by end and then by position in the input.

    All records are held in memory, with one exception: if the inputs have more than `large` bytes and are already
    sorted, they are not held. If an input is not a regular file, all inputs are read as `read` does. Then the batches
    are not sorted and have no watermarks. For the other parameters, see `read`.
    """
    file_inputs = inputs(specs, schemas, format)
    known = sizes(file_inputs)
    if any(size is None for size in known):
        yield from _read(file_inputs, schemas, chunk, rows, stdin, idle, rest, first, sources, readers)
    elif sum(size or 0 for size in known) > large and _ordered(file_inputs, schemas, chunk, rows, readers):
        latest: int | None = None
        for batch in _read(file_inputs, schemas, chunk, rows, stdin, sources=sources, readers=readers):
            latest = max([*_ends(batch, "max"), *([] if latest is None else [latest])], default=None)
            # the next record may have the same end
            yield replace(batch, watermark=None if latest is None else latest - 1)
    else:
        read = _read(file_inputs, schemas, chunk, rows, stdin, sources=sources, readers=readers)
        batches = map(_without_data, read)
        yield from in_order(list(batches), schemas, rows)


def _read(
    files: Sequence[Input],
    schemas: Mapping[str, Schema],
    chunk: int,
    rows: int,
    stdin: BinaryIO | None,
    idle: float | None = None,
    rest: RunState | None = None,
    first: int = 0,
    sources: Sources | None = None,
    readers: ChunkReaders | None = None,
) -> Iterator[Batch]:
    if any(attribute.type == "any" for schema in schemas.values() for attribute in schema.attributes):
        readers = None  # values of several kinds cannot be transferred
    known = sizes(files)
    sources = sources or Sources()
    total = 0 if any(size is None for size in known) else sum(size or 0 for size in known)
    done = 0
    feeds = [file for file in files if file.address is not None and not _whole(file, sources)]
    for file, size in zip(files, known):
        if file in feeds:
            continue
        if file.address is not None:
            sources.is_now(file.path, None)
        limit = sources.ahead.live if size is None and sources.lasting else sources.ahead.files
        folded = FoldedTables(schemas)
        units = SmallUnits.of_points(schemas if file.format == "influx" else {})
        for tables, dead, block, position, silence in _parts(file, schemas, chunk, rows, first, stdin, idle, readers):
            stops.look()
            tables = folded.settled({type: table for type, table in tables.items() if table.height})
            if block is None:
                yield Batch({}, [], [], done + position, total, silence=silence)
            else:
                units.take(tables)
                batch = Batch(tables, dead, [block], done + position, total)
                yield without_ahead(batch, limit)
                first = block.beyond
        done += size or 0
        if remarks := (*folded.remarks(file.path), *units.remarks(), *_unfinished(file)):
            yield Batch({}, [], [], done, total, remarks=remarks)
    if feeds:
        from cep.connectors.brokers.live import listen

        yield from listen(feeds, schemas, rows, first, idle, rest, sources)


def _unfinished(file: Input) -> Iterator[str]:
    """Yield a warning if another process is still writing the file, on systems that can detect this."""
    if file.size is not None and not is_url(file.path) and is_being_written(file.path):
        text = f"{file.path} was still being written when it was read: its last records may be missing or incomplete"
        yield f"{text}; write such files under another name, `.{os.path.basename(file.path)}`, and rename them"


def _whole(file: Input, sources: Sources) -> bool:
    """Return True if the input is a connection from which all data must be read before any record is used.

    This is the case for N-Quads, because the triples of a node may be anywhere in the data. Raises CepError if such a
    connection never ends.
    """
    address = file.address
    if address is None or address.kind != "tcp" or file.format != "nquads":
        return False
    from cep.connectors.brokers.live import lasting_connection

    if lasting_connection(address, sources.lasting):
        hint = f"`{file.path}?format=nquads&until=closed` reads them then; `format=jsonld` reads each line as it comes"
        raise address.refused("N-Quads from a connection are complete only when the connection is closed", hint)
    return True


def _parts(
    file: Input,
    schemas: Mapping[str, Schema],
    chunk: int,
    rows: int,
    first: int,
    stdin: BinaryIO | None,
    idle: float | None,
    readers: ChunkReaders | None = None,
) -> Iterator[_Piece]:
    """Yield `(tables, dead letters, block, bytes read, silence)` for each block of an input.

    If no data arrives, `block` is None, and `silence` is the time without data in microseconds. Otherwise, `silence` is
    0. `first`: the record number of the first record.
    """
    try:
        if file.format == "parquet":
            with open_parquet(file.path) as opened:
                count = max(opened.metadata.num_rows, 1)
                done = 0
                for tables, dead, block in read_parquet(file.path, opened, file.events(schemas), rows, first):
                    done += block.count
                    yield tables, dead, block, (file.size or 0) * min(done, count) // count, 0
            return
        with stops.breaking():  # opening a connection, or a pipe without a writer, may block
            binary = stdin
            if file.address is not None:
                from cep.connectors.brokers.tcp import connected

                binary = connected(file.address)
            stream = ByteStream(file.path if file.address is None else "-", binary, idle, _encoding(file, schemas))
    except OSError as error:
        raise _unreadable(file.path, error) from None
    try:
        for tables, dead, part, position in _text(file, stream, schemas, chunk, first, readers):
            part = part if part is None or stream.plain else replace(part, plain=False)
            yield tables, dead, part, position, stream.silence.length if part is None else 0
    except OSError as error:
        raise _unreadable(file.path, error) from None
    finally:
        stream.close()


def check_levels(file: Input, schema: Schema) -> None:
    """Raise CepError if an attribute is declared as a level of a topic. The input `file` has no topics."""
    for attribute in schema.attributes:
        if (number := level(source_of(attribute))) is not None:
            raise CepError(
                f"{file.path}: `{attribute.name}` of {schema.name} is a level of an MQTT topic, `topic[{number}]`, and "
                "this file has no topics",
                hint=f'to read a field of the record, use `FROM "{attribute.name}"`',
                code="input",
            )


def _encoding(file: Input, schemas: Mapping[str, Schema]) -> str | None:
    records = file.events(schemas)[0].records if file.known.shape == "table" else None
    return None if records is None else records.option("encoding")


def sizes(file_inputs: Sequence[Input]) -> list[int | None]:
    """Return the size of each input in bytes. The size of an input that is not a regular file is None.

    Raises CepError if an input cannot be accessed.
    """
    byte_counts: list[int | None] = []
    for file in file_inputs:
        try:
            byte_counts.append(file.size)
        except OSError as error:
            raise _unreadable(file.path, error) from None
    return byte_counts


def _unreadable(path: str, error: OSError) -> CepError:
    name = "standard input" if path == "-" else path
    reason = str(error).splitlines()[0].rstrip(".") if error.errno is None else os.strerror(error.errno)
    reason = astray(Path(path)) or reason
    code = ABSENT if error.errno in _NOT_HERE else "input" if error.errno in _ITS_OWN else DEVICE
    if isinstance(error, StorageError):
        if error.errno == errno.EACCES or error.no_bucket:  # the login is wrong or has expired; the object may exist
            code = DEVICE
        return CepError(f"{name}: {error.strerror}", hint=error.hint, code=code)
    return CepError(f"{name}: {reason.lower()}", code=code)


def _text(
    file: Input,
    stream: ByteStream,
    schemas: Mapping[str, Schema],
    chunk: int,
    first: int,
    readers: ChunkReaders | None,
) -> Iterator[_Part]:
    last = Block(file.path, first, 0, 1)
    chunk = min(chunk, LONGEST)
    if file.known.reader is not None:
        if file.type is not None and file.known.shape != "graph":
            check_levels(file, schemas[file.type])
        for tables, dead, block in _read_text(file, stream, schemas, chunk, first, readers):
            yield tables, dead, block, stream.position
            last = block or last
    else:
        separator = "," if file.format == "csv" else "\t"
        for tables, dead, block in read_csv(file.path, stream, file.events(schemas), separator, chunk, first, readers):
            yield tables, dead, block, stream.position
            last = block or last
    if stream.damage is not None:
        reason = f"the rest of the file cannot be decompressed: {stream.damage}"
        line = last.line_beyond
        block = Block(file.path, last.beyond, 1, line)
        yield {}, [DeadLetter(file.path, line, reason, "gzip", of_file=True)], block, stream.position


def _read_text(
    file: Input, stream: ByteStream, schemas: Mapping[str, Schema], chunk: int, first: int, readers: ChunkReaders | None
) -> Iterator[tuple[dict[str, pl.DataFrame], list[DeadLetter], Block | None]]:
    """Read an input in a format that messages can also have. Yield the tables, the dead letters and the positions of
    the records of each block.

    The modules of these formats are imported here, because most runs need at most one of them.
    """
    from cep.connectors.formats.json_files import read_json
    from cep.connectors.formats.jsonl import LineReader, read_jsonl
    from cep.connectors.formats.packs import PackReader, read_packs
    from cep.connectors.formats.sosa import Documents, read_observations

    reader = file.known.open(schemas, file.type, file.bound)
    if isinstance(reader, LineReader) and (parts := read_json(file.path, stream, reader, chunk, first, readers)):
        yield from parts
    elif isinstance(reader, PackReader):
        for table, dead, block in read_packs(file.path, stream, reader, chunk, first):
            yield ({} if table is None else {reader.schema.name: table}), dead, block
    elif isinstance(reader, Documents):
        for table, dead, block in read_observations(file.path, stream, reader, file.format, chunk, first):
            yield ({} if table is None else {reader.schema.name: table}), dead, block
    else:
        yield from read_jsonl(file.path, stream, reader, chunk, first)


def _ends(batch: Batch, which: str) -> list[int]:
    return [getattr(table["end"], which)() for table in batch.tables.values()]


def _ordered(
    file_inputs: Sequence[Input], schemas: Mapping[str, Schema], chunk: int, rows: int, readers: ChunkReaders | None
) -> bool:
    """Return True if no event ends before an event of an earlier batch. Only the times of events are read for this."""
    bare = {name: replace(schema, attributes=()) for name, schema in schemas.items()}
    latest: int | None = None
    for batch in _read(file_inputs, bare, chunk, rows, None, readers=readers):
        if any(dead.code == "args" for dead in batch.dead):
            return False  # refused records are not visible without the attributes
        if latest is not None and any(end < latest for end in _ends(batch, "min")):
            return False
        latest = max([*_ends(batch, "max"), *([] if latest is None else [latest])], default=None)
    return True


def _without_data(batch: Batch) -> Batch:
    return replace(batch, blocks=[block.without_data() for block in batch.blocks])
