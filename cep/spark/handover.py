"""What a job of a micro-batch hands to the next one: small blocks go through the driver, larger ones as a file.

Such a file is in a folder of the checkpoint, which all workers share. It is read within the micro-batch alone, so
nobody waits until it is on disk; a micro-batch that is done again makes it anew. Where workers share no folder, all
blocks go through Spark's shuffle (`cep.spark.shuffled_batch`), and what a task of a source makes is a row for each
`ROW` bytes.
"""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO
from uuid import uuid4
from zlib import crc32

from cep.core.errors import CepError
from cep.spark.disk import writing_to

if TYPE_CHECKING:  # which has those who plan load no polars
    import pyarrow as pa

    from cep.spark.shuffle_blocks import ShuffleBlock

FEW = 1 << 16
"""Bytes that a task may send through the driver."""

ALL = 1 << 28
"""Bytes that all tasks of a source may, of a micro-batch: Spark gives up where they send a gigabyte."""

ROW = 1 << 23
"""Bytes of a row, about, where no folder is shared."""

COLUMNS = "blocks binary, time timestamp"
"""Those of a source: the blocks of a task, and the `time` that the watermark follows."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """Bytes in a file, and their check sum."""

    path: str
    offset: int
    length: int
    sum: int

    def read(self) -> bytes:
        """CepError: they are not what was written."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self.offset)
                found = file.read(self.length)
        except FileNotFoundError:
            found = b""
        if len(found) != self.length or crc32(found) != self.sum:
            raise lost_file(self.path)
        return found


@dataclass(frozen=True, slots=True)
class HandedBlock:
    """A block on its way (`cep.spark.shuffle_blocks.ShuffleBlock`)."""

    stage: int
    bucket: int
    event: str
    place: int
    source: str | None
    rows: bytes | FilePart

    def block(self) -> ShuffleBlock:
        """The block, where it is taken. CepError: it is lost."""
        from cep.spark.shuffle_blocks import ShuffleBlock

        rows = self.rows if isinstance(self.rows, bytes) else self.rows.read()
        return ShuffleBlock(self.stage, self.bucket, self.event, self.place, self.source, rows, 0)


class Outbox:
    """The blocks that a task hands on."""

    def __init__(self, folder: str | None, few: int = FEW) -> None:
        """`folder`: for the file, if they are more bytes than `few`; None: there is none."""
        self._folder, self._few = folder, few
        self._here: list[ShuffleBlock] = []
        self.size = 0
        self._handed: list[HandedBlock] = []
        self._file: BinaryIO | None = None

    def add(self, block: ShuffleBlock) -> None:
        """CepError: the file cannot be written."""
        self._here.append(block)
        self.size += len(block.rows)
        if self._folder is not None and (self._file is not None or self.size > self._few):
            self._write(self._folder)

    def close(self) -> list[HandedBlock]:
        """All blocks as they are handed on."""
        if self._file is not None:
            with writing_to("--checkpoint", Path(self._file.name).parent):
                self._file.close()
        return [*self._handed, *(handed(one, one.rows) for one in self._here)]

    def _write(self, folder: str) -> None:
        with writing_to("--checkpoint", Path(folder)):
            if self._file is None:
                self._file = open(os.path.join(folder, uuid4().hex), "wb")  # noqa: SIM115 - closed by `close`
            for one in self._here:
                part = FilePart(self._file.name, self._file.tell(), len(one.rows), crc32(one.rows))
                self._file.write(one.rows)
                self._handed.append(handed(one, part))
        self._here = []


def lost_file(path: str) -> CepError:
    """The error for a file that was handed on, and is not what was written."""
    return CepError(
        f"--checkpoint: {path}, which one task handed to another, is missing or damaged",
        hint="the same command does the micro-batch again; on a cluster all workers need the folder",
        code="failed",
    )


def handed(block: ShuffleBlock, rows: bytes | FilePart) -> HandedBlock:
    """A block on its way with these rows."""
    return HandedBlock(block.stage, block.bucket, block.event, block.place, block.source, rows)


def share(tasks: int) -> int:
    """Bytes that each of so many tasks of a source may send through the driver."""
    return min(FEW, ALL // max(tasks, 1))


def as_row(blocks: Iterable[ShuffleBlock], folder: str | None, few: int = FEW) -> Iterator[pa.RecordBatch]:
    """What a task of a source makes, as the row that Spark takes of it; the folder is for a file, where that would be
    more bytes than `few`. Without one, as rows."""
    from cep.spark.shuffle_blocks import TIME

    outbox, latest = Outbox(folder, few), 0
    for one in blocks:
        latest = max(latest, one.latest)
        if one.stage != TIME:
            outbox.add(one)
        if folder is None and outbox.size > ROW:
            yield _row(outbox, latest)
            outbox = Outbox(None)
    yield _row(outbox, latest)


def _row(outbox: Outbox, latest: int) -> pa.RecordBatch:
    import pyarrow as pa

    row = [pa.array([pickle.dumps(outbox.close())], pa.binary()), pa.array([latest], pa.timestamp("us", "UTC"))]
    return pa.RecordBatch.from_arrays(row, ["blocks", "time"])


def with_dead_letters(
    read: Callable[[str | None], Iterable[ShuffleBlock]], begin: str | None
) -> Iterator[ShuffleBlock]:
    """What a source reads, and the files of dead letters that it writes meanwhile, as blocks: where it reads, nobody
    looks for them. `begin`: the prefix of the paths of such files; None: dead letters are dropped."""
    from cep.spark.shuffle_blocks import DEAD, ShuffleBlock

    if begin is None:
        yield from read(None)
        return
    with TemporaryDirectory(prefix="semcep-") as folder:
        yield from read(os.path.join(folder, os.path.basename(begin)))
        for path in sorted(Path(folder).iterdir()):
            with path.open("rb") as file:
                while piece := file.read(ROW):
                    yield ShuffleBlock(DEAD, 0, path.name, file.tell() - len(piece), None, piece, 0)


def of_rows(rows: Iterable[bytes]) -> list[HandedBlock]:
    """The blocks of such rows."""
    return [block for row in rows for block in pickle.loads(row)]


def begin(folder: Path) -> None:
    """Make the folder, empty. Not while a query runs."""
    shutil.rmtree(folder, ignore_errors=True)
    with writing_to("--checkpoint", folder.parent):
        folder.mkdir(parents=True, exist_ok=True)


def clear(folder: Path) -> None:
    """Remove all files of a micro-batch that has ended. Not while tasks run that count."""
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):
            (folder / name).unlink()


def rows_of(blocks: Sequence[HandedBlock]) -> list[ShuffleBlock]:
    """Blocks where they are taken. CepError: one is lost."""
    return [one.block() for one in blocks]
