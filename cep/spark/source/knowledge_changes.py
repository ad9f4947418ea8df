"""Changes of the knowledge in a running query. The planning process numbers them, and sends them to every bucket.

The planning process searches for changes regularly. The changes of one search become one line of a file in the
checkpoint. The line is synced to disk before a micro-batch sends the changes. So a repeated micro-batch sends the same
changes, even if the input files have changed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from glob import has_magic
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it
from pyspark.sql.types import StringType, TimestampType

from cep.connectors.ahead_limits import AheadLimits
from cep.core.append_log import LineLog
from cep.core.checksum import Broken
from cep.core.errors import CepError, reason_of
from cep.spark.disk import CHANGES, KNOWLEDGE, damaged_file
from cep.spark.source.work_item import WorkItem

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from cep.knowledge.growing_files import GrowingFile
    from cep.spark.program import ShippedProgram
    from cep.spark.shuffle_blocks import ShuffleBlock


@dataclass(slots=True)
class _Known:
    """The part of a file of changes that was read: the number of bytes `taken`, and their `hash`.

    `growing`: the parser of a file that may grow, or None if the file does not grow.
    """

    taken: int
    hash: Any
    growing: GrowingFile | None


class FileChangeLog:
    """A log of the changes in files. Each search for new changes adds at most one line.

    `names`: the absolute paths of files, folders and patterns.
    """

    def __init__(self, checkpoint: Path, names: Sequence[str]) -> None:
        self._log = LineLog(checkpoint / CHANGES)
        self._names = names
        self._lines: list[dict[str, Any]] = []
        self._files: dict[str, _Known] | None = None

    def __len__(self) -> int:
        self._open()
        return len(self._lines)

    def lines(self, first: int, beyond: int) -> list[dict[str, Any]]:
        """Return the lines at the positions from `first` to `beyond` - 1. Raises CepError if there are fewer lines."""
        if beyond > len(self):
            raise CepError(
                f"--checkpoint: {self._log.path} has {len(self)} changes, but {beyond} were sent",
                hint="restore the whole folder from a copy, or start anew with another one",
                code="checkpoint",
            )
        return self._lines[first:beyond]

    def look(self, last: bool = False, strict: bool = False) -> int:
        """Search for new changes, and return the number of lines in the log.

        - `last`: True if no text will be added to the files later. Incomplete lines are then also read.
        - `strict`: True to raise CepError if a file is missing or invalid. Otherwise a missing file is ignored, and an
          invalid file becomes a dead letter.

        Also raises CepError if text that was read before has changed.
        """
        if not self._names:
            return len(self)
        from cep.knowledge.growing_files import ReadUpdates, there

        files = self._open()
        for name in self._names if strict else ():
            if not (has_magic(name) or os.path.exists(name) or name in files):
                raise CepError(f"--knowledge-updates: {name}: no such file", code="knowledge")
        news, taken = ReadUpdates(), {}
        for file in there(self._names):
            known = files.get(file)
            try:
                data = self._new(file, known, last)
            except OSError as error:
                if known is not None or not strict:
                    continue  # the file is gone again, or cannot be read yet
                reason = reason_of(error)
                raise CepError(f"{file} cannot be read: {reason}", code="knowledge") from None
            if data is None:
                continue
            news.join(self._read(files, file, data, last, strict))
            taken[file] = {"bytes": files[file].taken, "hash": files[file].hash.hexdigest()}
        if taken:
            self._add(news, taken)
        return len(self._lines)

    def _new(self, file: str, known: _Known | None, last: bool) -> bytes | None:
        """Return the bytes of a file that were not read yet. Returns None if there are none.

        If the file may grow, and `last` is False, return only complete lines. Raises CepError if the file has shrunk.
        """
        from cep.knowledge.growing_files import grows

        size = Path(file).stat().st_size
        if known is not None and (size < known.taken or (size > known.taken and known.growing is None)):
            raise _altered(file, known.taken)
        if known is not None and size == known.taken:
            return None
        with open(file, "rb") as opened:
            opened.seek(0 if known is None else known.taken)
            data = opened.read()
        if grows(file) and not last:
            data = data[: data.rfind(b"\n") + 1]
            return data or None
        return data

    def _read(self, files: dict[str, _Known], file: str, data: bytes, last: bool, strict: bool) -> Any:
        """Parse the new bytes of a file, and record that these bytes were read."""
        from cep.knowledge.growing_files import GrowingFile, ReadUpdates, grows, whole
        from cep.knowledge.updates import RefusedUpdate

        known = files.get(file)
        if known is None:
            known = files[file] = _Known(0, hashlib.sha256(), GrowingFile(file) if grows(file) else None)
        known.taken += len(data)
        known.hash.update(data)
        if known.growing is not None:
            return known.growing.read(data, last)
        try:
            return whole(file)
        except CepError as error:
            if strict:
                raise
            return ReadUpdates(
                [], [RefusedUpdate(file, error.span.line if error.span else 1, error.message, error.code, None)]
            )

    def _add(self, news: Any, taken: dict[str, Any]) -> None:
        from cep.knowledge.growing_files import change

        fields = {
            "files": taken,
            "changes": [[timed.time, change(timed).decode(), timed.file, timed.line] for timed in news.changes],
            "refused": [[letter.reason, letter.code, letter.file, letter.line, letter.text] for letter in news.refused],
        }
        self._log.append([fields])
        self._log.close()
        self._lines.append(fields)

    def _open(self) -> dict[str, _Known]:
        """Return the files that were read before. On the first call, read the log and check these files.

        Raises CepError if text that was read before has changed.
        """
        if self._files is not None:
            return self._files
        try:
            self._lines += self._log.unread()
        except Broken as error:
            raise damaged_file(self._log.path, what=f"is damaged in line {error.number + 1}") from None
        parts: dict[str, list[dict[str, Any]]] = {}
        for line in self._lines if self._names else ():
            for file, taken in line["files"].items():
                parts.setdefault(file, []).append(taken)
        self._files = {file: _again(file, file_parts) for file, file_parts in parts.items()}
        return self._files


def _again(file: str, parts: Sequence[dict[str, Any]]) -> _Known:
    """Read the known part of a file again to check its text. Return this part with a parser that can read on.

    `parts`: for each earlier read of the file, the number of bytes that had been read by then, and a hash of these
    bytes. Raises CepError if the text has changed.
    """
    from cep.knowledge.growing_files import GrowingFile, grows

    known = _Known(parts[-1]["bytes"], hashlib.sha256(), GrowingFile(file) if grows(file) else None)
    try:
        with open(file, "rb") as opened:
            offset = 0
            for part in parts:
                data = opened.read(part["bytes"] - offset)
                offset = part["bytes"]
                known.hash.update(data)
                if known.hash.hexdigest() != part["hash"]:
                    raise _altered(file, known.taken)
                if known.growing is not None:
                    known.growing.read(data)
    except FileNotFoundError:
        known.growing = None  # its content is in the checkpoint, and it will not grow
    return known


def _altered(file: str, taken: int) -> CepError:
    return CepError(
        f"--knowledge-updates: {file} has changed: its first {taken:,} bytes have already been read",
        hint="add changes at the end of an .nq file, or in a new file; for others start anew with other folders",
        code="knowledge",
    )


class ChangesMessage(WorkItem):
    """Lines of the log of knowledge changes, as a work item. `first`: the number of the first line."""

    def __init__(self, first: int, lines: Sequence[dict[str, Any]]) -> None:
        super().__init__(first)
        self.first, self.lines = first, list(lines)

    def read(self, program: ShippedProgram, dead_letters: str | None, ahead: AheadLimits) -> Iterator[ShuffleBlock]:
        from cep.spark.source import reading

        yield from reading.changes(program, f"changes-{self.first:08}", self.lines, dead_letters)


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """A reader that converts rows of a DataFrame to changes of the knowledge. `place`: the number of the input."""

    place: int
    name = KNOWLEDGE
    metric = "semcep_changes"

    def blocks(
        self, program: ShippedProgram, batches: Iterable[pa.RecordBatch], dead_letters: str | None, name: str
    ) -> Iterator[ShuffleBlock]:
        """Yield the changes for every bucket, sorted by time (see `cep.spark.source.data_frames.RowReader`)."""
        from cep.knowledge.change import Change
        from cep.spark.source import reading

        changes, refused = list[list[Any]](), list[list[Any]]()
        for row in (row for batch in batches for row in batch.to_pylist()):
            time, add, remove = (row[column] for column in _COLUMNS)
            try:
                if time is None:
                    raise CepError("`time` is missing", code="time")
                changes.append([time, Change.of(add, remove).written().decode(), _SOURCE, 0])
            except CepError as error:
                refused.append([error.message, error.code, _SOURCE, 0, json.dumps(row, ensure_ascii=False)])
        changes.sort(key=itemgetter(0))
        yield from reading.changes(program, name, [{"changes": changes, "refused": refused}], dead_letters)


def change_rows(frame: DataFrame, place: int) -> tuple[DataFrame, ChangeRows]:
    """Return the columns of a DataFrame of changes, and the reader of its rows.

    Raises CepError if a column is missing or has another type.
    """
    kinds = frame.schema.fieldNames()
    for name, kind in zip(_COLUMNS, (TimestampType, StringType, StringType)):
        if name not in kinds or not isinstance(frame.schema[name].dataType, kind):
            type_name = frame.schema[name].dataType.simpleString() if name in kinds else "missing"
            hint = "use `time timestamp, add string, remove string`: the time, and triples to add and remove, in Turtle"
            raise CepError(f"changes: the column `{name}` is {type_name}", hint=hint, code="input")
    time, *texts = (F.col(name) for name in _COLUMNS)
    columns = frame.select(F.unix_micros(time).alias("time"), *texts).coalesce(1)
    return columns, ChangeRows(place)


_COLUMNS, _SOURCE = ("time", "add", "remove"), "changes"
