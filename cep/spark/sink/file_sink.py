"""The sink of a query: files that tasks write, and a log of the committed files in the format of Spark's own file sink.

A micro-batch is committed after all its tasks have written their files. The files then get their final names, and the
log gets an entry, so that Spark can read the folder. Nothing is added if a committed micro-batch is repeated. The next
run removes files that a killed run or task has left.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from cep.core.errors import CepError
from cep.core.schema import Schema
from cep.spark.disk import BACK, SINK_LOG, SPARK, exclusive, remove_hidden, writing_to
from cep.spark.sink.commit_log import WITHDRAWN, CommitLog, OutputFile, file_name
from cep.spark.spark_files import last, plan_hash, sync_batch

if TYPE_CHECKING:  # loaded only where files are written, not in the process that commits
    import polars as pl


@dataclass(frozen=True, slots=True)
class FileSinkOptions:
    """The options of the sink.

    - `folder`: the folder of the files. `format`: jsonl or parquet.
    - `schemas`: the schemas of the written events.
    - `merged`: the events that several buckets may derive. Their identical occurrences are merged before they are
      written.
    - `keep`: the span of event time for which files are kept, in microseconds. None means that they are kept forever.
    - `passing`: True if the reader removes files.
    - `checkpoint`: the folder of the checkpoint, or None if there is none.
    - `holder`: the name of the run that holds the lock of the checkpoint.
    - `spark`: the name of the folder of Spark's own files in the checkpoint.
    - `first`: the number of the query's first micro-batch in the log.
    - `times`: the format of times (see `cep.connectors.records.times`).
    - `meanings`: a fingerprint of each event's rules, if rows may be withdrawn. Rows are then written as a changelog
      (see `cep.spark.sink.changelog`).
    - `address`: the address at which readers find the folder. None means its local path.
    """

    folder: str
    format: str
    schemas: Mapping[str, Schema]
    merged: frozenset[str]
    keep: int | None = None
    checkpoint: str | None = None
    holder: str = ""
    passing: bool = False
    spark: str = SPARK
    first: int = 0
    times: str = "iso"
    meanings: Mapping[str, str] | None = None
    address: str | None = None


class FileWriter:
    """A writer that creates and commits files. `write` runs in tasks, and `commit` in the driver."""

    def __init__(self, options: FileSinkOptions) -> None:
        self.options = options

    def write(self, rows: Iterable[tuple[str, pl.DataFrame]], task: int, batch: int) -> list[OutputFile]:
        """Write tables of events as files. `task`: the number of the task. `batch`: the number of the micro-batch."""
        from cep.spark.sink import event_files

        name = f"part-{task:05}-{uuid4()}"
        number = self.options.first + batch
        return event_files.write_event_files(self.options, rows, name, task == 0 and number == 0, number)

    def stand_in(self, files: Iterable[OutputFile]) -> None:
        """For each file that tasks have uploaded, create a local file of the same size that contains only zeros.

        These local files are committed in place of the uploaded ones.
        """
        log = CommitLog(Path(self.options.folder))
        for output_file in files:
            pending = log.coming(str(Path(output_file.path).relative_to(log.files)))
            with writing_to("--output", log.files):
                pending.parent.mkdir(parents=True, exist_ok=True)
                with pending.open("wb") as file:
                    file.truncate(output_file.size)

    def counts(self, batch: int) -> bool:
        """Return True if a micro-batch is already committed. Raises CepError if it was committed with other input."""
        options = self.options
        log, number = CommitLog(Path(options.folder)), options.first + batch
        if options.checkpoint is None or log.last < number:
            return False
        return log.has(number, plan_hash(Path(options.checkpoint, options.spark), batch))

    def commit(self, files: Sequence[OutputFile], batch: int) -> None:
        """Commit the files of all tasks of a micro-batch."""
        options = self.options
        number = options.first + batch
        if options.checkpoint is None:
            self._count(number, files, "")
            return
        with exclusive(Path(options.checkpoint), options.holder):
            spark = Path(options.checkpoint, options.spark)
            sync_batch(spark, batch)
            self._count(number, files, plan_hash(spark, batch))

    def _count(self, number: int, files: Sequence[OutputFile], plan: str) -> None:
        """Commit a micro-batch if it is not committed yet. Remove uncommitted files of failed or repeated tasks."""
        options = self.options
        log = CommitLog(Path(options.folder), options.address)
        with writing_to("--output", log.files):
            if log.has(number, plan):
                log.settle(options.keep, options.passing)
            else:
                counting = [file for file in files if file.rows or number == 0]
                counting.sort(key=lambda output_file: not output_file.path.endswith(WITHDRAWN))
                log.add(number, counting, options.keep, options.passing, plan)


def finish_batches(folder: Path) -> list[Path]:
    """Finish interrupted commits and remove all uncommitted files, so that each row is in the folder once.

    Do not call this while tasks write. Return the removed files. Raises CepError if a committed file is missing or the
    log cannot be written.
    """
    if not folder.is_dir():
        return []
    log = CommitLog(folder)
    with writing_to("--output", folder):
        log.settle()
    listed = {file_name(line) for line in log.lines()}
    listed.update(log.leaving())
    gone = [folder / name for name in sorted(set(_written(folder)) - listed)]
    for path in gone:
        path.unlink()
    if log.there:
        remove_hidden(folder / SINK_LOG)
    return gone


def missing_files(folder: Path) -> list[Path]:
    """Return the committed files that are missing. Raises CepError if the log is damaged."""
    present = set(_written(folder)) if folder.is_dir() else set()
    return [folder / name for name in dict.fromkeys(map(file_name, CommitLog(folder).lines())) if name not in present]


def agree(folder: Path, output: Path, first: int = 0) -> None:
    """Check that the sink's log and Spark's own logs contain the same micro-batches.

    `folder`: the folder of Spark's own files. `output`: the folder of the sink. `first`: the number of Spark's first
    micro-batch in the sink's log. Raises CepError if the sink's log lacks a micro-batch that Spark has finished, or
    contains one that Spark has not begun.
    """
    log = CommitLog(output)
    done, begun = first + last(folder / "commits"), first + last(folder / "offsets")
    if done > log.last:
        state = f"ends with micro-batch {log.last}, but {done} was finished" if log.there else "is missing"
        raise CepError(f"--output: the log of {output}, {SINK_LOG}, {state}", hint=BACK, code="checkpoint")
    if log.last > begun:
        message = f"--checkpoint: {folder} ends with micro-batch {begun}, but {log.last} is written in {output}"
        raise CepError(message, hint=BACK, code="checkpoint")


def pending(folder: Path, output: Path, first: int = 0) -> int | None:
    """Return the micro-batch that the sink has committed, but Spark has not finished. Returns None if there is none.

    The parameters are the same as for `agree`.
    """
    batch = CommitLog(output).last - first
    return batch if batch > last(folder / "commits") else None


def _written(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.lstrip(".").startswith("part-") and entry.is_file():
                yield entry.name
            elif entry.name.startswith("type=") and entry.is_dir():
                yield from (f"{entry.name}/{name}" for name in _written(Path(entry.path)))
