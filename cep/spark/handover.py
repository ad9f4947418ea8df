"""Blocks from one job of a micro-batch to the next: small ones go through the driver, larger ones as a file.

Such a file is in a folder of the checkpoint, which all workers share. It is read within the micro-batch alone, so
nobody waits until it is on disk; a micro-batch that is done again makes it anew. Where workers share no folder, all
blocks go through Spark's shuffle (`cep.spark.shuffled_batch`), and what a task of a source makes is a row for each
`ROW` bytes.
"""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from cep.spark.disk import writing_to

if TYPE_CHECKING:  # which has those who plan load no polars, and no numpy
    import pyarrow as pa

    from cep.spark.outbox import Outbox
    from cep.spark.shuffle_blocks import ShuffleBlock

FEW = 1 << 16
"""Bytes that a task may send through the driver."""

ALL = 1 << 28
"""Bytes that all tasks of a source may, of a micro-batch: Spark gives up where they send a gigabyte."""

ROW = 1 << 23
"""Bytes of a row, about, where no folder is shared."""

COLUMNS = "blocks binary, time timestamp"
"""Those of a source: the blocks of a task, and the `time` that the watermark follows."""


def share(tasks: int) -> int:
    """Bytes that each of so many tasks of a source may send through the driver."""
    return min(FEW, ALL // max(tasks, 1))


def as_row(
    read: Callable[[str | None], Iterable[ShuffleBlock]], dead_letters: str | None, folder: str | None, few: int = FEW
) -> Iterator[pa.RecordBatch]:
    """The blocks of a source's task as a row for Spark; `read` makes them, and files of `dead_letters`, the prefix of
    their paths. The folder is for a file, where that would be more bytes than `few`. Without one, as rows, with the
    dead letters among them."""
    from cep.spark.outbox import Outbox
    from cep.spark.shuffle_blocks import TIME

    outbox, latest = Outbox(folder, few), 0
    for one in with_dead_letters(read, dead_letters) if folder is None else read(dead_letters):
        latest = max(latest, one.latest)
        if one.stage != TIME:
            outbox.add(one)
        if folder is None and outbox.size > ROW:
            yield _row(outbox, latest)
            outbox = Outbox(None, few)
    yield _row(outbox, latest)


def _row(outbox: Outbox, latest: int) -> pa.RecordBatch:
    import pyarrow as pa

    row = [pa.array([pickle.dumps(outbox.close())], pa.binary()), pa.array([latest], pa.timestamp("us", "UTC"))]
    return pa.RecordBatch.from_arrays(row, ["blocks", "time"])


def with_dead_letters(
    read: Callable[[str | None], Iterable[ShuffleBlock]], begin: str | None
) -> Iterator[ShuffleBlock]:
    """The blocks that a source reads, and the files of dead letters that it writes meanwhile, as blocks: where it
    reads, nobody looks for them. `begin`: the prefix of the paths of such files; None: dead letters are dropped."""
    from cep.spark.shuffle_blocks import DEAD, ShuffleBlock

    if begin is None:
        yield from read(None)
        return
    with TemporaryDirectory(prefix="semcep-") as folder:
        yield from read(os.path.join(folder, os.path.basename(begin)))
        for path in sorted(Path(folder).iterdir()):
            with path.open("rb") as file:
                while piece := b"".join(file.readlines(ROW)):
                    yield ShuffleBlock(DEAD, 0, path.name, file.tell() - len(piece), None, piece, 0)


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
