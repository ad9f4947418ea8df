"""Transport of blocks from one Spark job of a micro-batch to the next. Small amounts go through the driver, and large
amounts through files.

The files are in a folder of the checkpoint that all workers share. They are only read within the micro-batch. So they
are not synced to disk, and a repeated micro-batch writes them again.

If workers share no folder, all blocks go through Spark's shuffle (see `cep.spark.shuffled_batch`). A task that reads
the input then returns several Spark rows of about `ROW` bytes each.
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

if TYPE_CHECKING:  # processes that only plan load no polars and no numpy
    import pyarrow as pa

    from cep.spark.outbox import Outbox
    from cep.spark.shuffle_blocks import ShuffleBlock

FEW = 1 << 16
"""The maximum number of bytes that one task may send through the driver."""

ALL = 1 << 28
"""The maximum number of bytes that all reading tasks may send through the driver. With a gigabyte, Spark fails."""

ROW = 1 << 23
"""The approximate size in bytes of a Spark row of blocks, if workers share no folder."""

COLUMNS = "blocks binary, time timestamp"
"""The columns of a source's rows: the pickled blocks of a task, and the `time` that Spark's watermark follows."""


def share(tasks: int) -> int:
    """Return the number of bytes that each of `tasks` reading tasks may send through the driver."""
    return min(FEW, ALL // max(tasks, 1))


def as_row(
    read: Callable[[str | None], Iterable[ShuffleBlock]], dead_letters: str | None, folder: str | None, few: int = FEW
) -> Iterator[pa.RecordBatch]:
    """Yield the blocks of a reading task as Spark rows.

    - `read`: a function that yields the blocks. It writes dead letters to files whose paths begin with its argument.
    - `dead_letters`: the path prefix of these files, or None to drop dead letters.
    - `folder`: the shared folder. If the blocks have more than `few` bytes in total, they are written to a file in it.
      It is None if workers share no folder. The result is then several rows, which also contain the dead letters.
    """
    from cep.spark.outbox import Outbox
    from cep.spark.shuffle_blocks import TIME

    outbox, latest = Outbox(folder, few), 0
    for letter in with_dead_letters(read, dead_letters) if folder is None else read(dead_letters):
        latest = max(latest, letter.latest)
        if letter.stage != TIME:
            outbox.add(letter)
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
    """Yield the blocks of a reading task, followed by its dead letters as blocks. A task on a machine whose files no
    other machine can read passes its dead letters on in this way.

    - `read`: a function that yields the blocks. It writes dead letters to files whose paths begin with its argument.
    - `begin`: the path prefix of the dead-letter files, or None to drop dead letters.
    """
    from cep.spark.shuffle_blocks import DEAD, ShuffleBlock

    if begin is None:
        yield from read(None)
        return
    with TemporaryDirectory(prefix="semcep-") as folder:
        yield from read(os.path.join(folder, os.path.basename(begin)))
        for path in sorted(Path(folder).iterdir()):
            with path.open("rb") as file:
                while piece := b"".join(file.readlines(ROW)):
                    yield ShuffleBlock(DEAD, 0, path.name, file.tell() - len(piece), rows=piece)


def begin(folder: Path) -> None:
    """Create the folder for files of blocks, or empty it. Do not call this while a query runs."""
    shutil.rmtree(folder, ignore_errors=True)
    with writing_to("--checkpoint", folder.parent):
        folder.mkdir(parents=True, exist_ok=True)


def clear(folder: Path) -> None:
    """Remove all files of blocks when a micro-batch is finished. Do not call this while its tasks run."""
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):
            (folder / name).unlink()
