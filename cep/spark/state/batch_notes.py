"""Notes of micro-batches. A note records the version of each bucket's state, and which buckets must run without input.

A note, such as `batch-00000007` in the folder of the states, is on disk before the micro-batch is committed in the
sink. So a repeated micro-batch starts from the same states, even if a killed run has written later ones. The note of a
committed micro-batch also contains the reports of its tasks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cep.core import checksum
from cep.core.durable_files import sync_names
from cep.spark.disk import damaged_file, put, writing_to
from cep.spark.state.bucket_states import of_run
from cep.spark.state.segment_files import missing_file

KEPT = 3
"""The number of notes to keep. Spark repeats the last micro-batch, or the last two if its last log entry is removed."""

PREFIX = "batch-"

CLOCKS = "clocks-"
"""The prefix of the names of files that contain the clocks of keys. They exist if each key has its own lateness."""


@dataclass(frozen=True, slots=True)
class BatchNote:
    """The note of a micro-batch.

    - `versions`: the versions of all buckets' states, by names such as `1-0003`.
    - `calls`: for buckets that must run even without input, the watermark (milliseconds) at which they must run.
    - `reports`: the reports of tasks, as lines of JSON.
    - `watermark`: the watermark of the micro-batch, in milliseconds.
    - `reached`: the watermark that follows from the clocks of keys after the micro-batch, in milliseconds.

    `watermark` and `reached` are 0 unless each key has its own lateness.
    """

    versions: Mapping[str, int] = field(default_factory=dict)
    calls: Mapping[str, int] = field(default_factory=dict)
    reports: Sequence[str] = ()
    watermark: int = 0
    reached: int = 0

    def after(self, versions: Mapping[str, int], calls: Mapping[str, int | None], reports: Sequence[str]) -> BatchNote:
        """Return the note of the next micro-batch. `versions`, `calls`: the entries of the buckets that have run."""
        waiting = {**self.calls, **calls}
        calling = {name: call for name, call in waiting.items() if call is not None}
        return BatchNote({**self.versions, **versions}, calling, reports)


class BatchNotes:
    """The notes of a query. `folder`: the folder of the states, which must exist.

    `begins`: for each key of `--lateness-by`, its latest time before the first micro-batch. `first`: the number of the
    first micro-batch.
    """

    def __init__(self, folder: Path, begins: Mapping[str, Any] | None = None, first: int = 0) -> None:
        self._folder, self.begins, self.first = folder, begins, first
        self._last: tuple[int, BatchNote] = (-1, BatchNote())

    def after(self, batch: int) -> BatchNote:
        """Return the note of a finished micro-batch. Before the first micro-batch, return an empty note.

        Raises CepError if the note is missing or damaged.
        """
        if batch < self.first:
            return BatchNote()
        if self._last[0] != batch:
            self._last = batch, self._read(batch)
        return self._last[1]

    def write(self, batch: int, note: BatchNote, clocks: Mapping[str, Any] | None = None) -> None:
        """Write the note of a micro-batch, and the clocks of keys at the end of the micro-batch. Sync both to disk.

        Raises CepError if a file cannot be written.
        """
        path = self._path(batch)
        content: dict[str, object] = {"versions": note.versions, "calls": note.calls, "reports": note.reports}
        content |= {"watermark": note.watermark, "reached": note.reached}
        with writing_to("--checkpoint", self._folder):
            if clocks is not None:
                kept = self._path(batch, CLOCKS)
                put(kept, checksum.seal(json.dumps(clocks, separators=(",", ":")).encode(), of=of_run(kept)))
                self._path(batch - KEPT, CLOCKS).unlink(missing_ok=True)
            put(path, checksum.seal(json.dumps(content, separators=(",", ":")).encode(), of=of_run(path)))
            sync_names(self._folder)
            self._path(batch - KEPT).unlink(missing_ok=True)
        self._last = batch, note

    def _read(self, batch: int) -> BatchNote:
        path = self._path(batch)
        note = self._content(path)
        try:
            return BatchNote(note["versions"], note["calls"], note["reports"], note["watermark"], note["reached"])
        except (LookupError, TypeError):
            raise damaged_file(path) from None

    def clocks(self, batch: int) -> Mapping[str, Any] | None:
        """Return the clocks of keys after a micro-batch. For -1, return the clocks before the first micro-batch, or
        None if keys had no clocks then.

        Raises CepError if the file is missing or damaged.
        """
        return self.begins if batch < 0 else self._content(self._path(batch, CLOCKS))

    def moved(self, batch: int) -> bool:
        """Return True if the clocks of keys have moved the watermark in a micro-batch. Raises CepError if the note of
        the micro-batch is missing or damaged."""
        note = self.after(batch)
        return note.reached > note.watermark

    def _content(self, path: Path) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads(bytes(checksum.content(path.read_bytes(), of_run(path))))
            return content
        except FileNotFoundError:
            raise missing_file(path) from None
        except (ValueError, LookupError, TypeError):
            raise damaged_file(path) from None

    def _path(self, batch: int, prefix: str = PREFIX) -> Path:
        return self._folder / f"{prefix}{batch:08}"
