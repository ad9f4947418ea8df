"""The notes of micro-batches: which version of its state each bucket has after one, and when it is to be stepped again.

A note, `batch-00000007` in the folder of the states, is on disk before the micro-batch counts in the sink. So one that
is done again begins with what was there before it, whatever a killed run has written; and of one that counts already
the note says all that was told of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cep.core import checksum
from cep.core.durable_names import sync_names
from cep.spark.disk import damaged_file, put, writing_to
from cep.spark.state.bucket_states import of_run
from cep.spark.state.segment_files import missing_file

KEPT = 3
"""Notes that stay: Spark goes back by one micro-batch, and by one more where its last log is removed."""

PREFIX = "batch-"


@dataclass(frozen=True, slots=True)
class BatchNote:
    """The `versions` of the states of buckets, by names as `1-0003`; from which watermark on a bucket is to be stepped
    though nothing comes for it (`calls`, milliseconds; those that sleep are not there); and the lines of `reports`."""

    versions: Mapping[str, int] = field(default_factory=dict)
    calls: Mapping[str, int] = field(default_factory=dict)
    reports: Sequence[str] = ()

    def after(self, versions: Mapping[str, int], calls: Mapping[str, int | None], reports: Sequence[str]) -> BatchNote:
        """The note of the next micro-batch, which has stepped these buckets."""
        waiting = {**self.calls, **calls}
        return BatchNote(
            {**self.versions, **versions}, {name: call for name, call in waiting.items() if call is not None}, reports
        )


class BatchNotes:
    """The notes in the folder of the states, which exists."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: tuple[int, BatchNote] = (-1, BatchNote())

    def after(self, batch: int) -> BatchNote:
        """The note of a micro-batch that has ended, -1: of none. CepError: it is missing or damaged."""
        if batch < 0:
            return BatchNote()
        if self._last[0] != batch:
            self._last = batch, self._read(batch)
        return self._last[1]

    def write(self, batch: int, note: BatchNote) -> None:
        """Write the note of a micro-batch; it is on disk when this returns. CepError: it cannot be written."""
        path = self._path(batch)
        content = {"versions": note.versions, "calls": note.calls, "reports": note.reports}
        with writing_to("--checkpoint", self._folder):
            put(path, checksum.seal(json.dumps(content, separators=(",", ":")).encode(), of=of_run(path)))
            sync_names(self._folder)
            self._path(batch - KEPT).unlink(missing_ok=True)
        self._last = batch, note

    def _read(self, batch: int) -> BatchNote:
        path = self._path(batch)
        try:
            found = json.loads(bytes(checksum.content(path.read_bytes(), of_run(path))))
            return BatchNote(found["versions"], found["calls"], found["reports"])
        except FileNotFoundError:
            raise missing_file(path) from None
        except (ValueError, LookupError, TypeError):
            raise damaged_file(path) from None

    def _path(self, batch: int) -> Path:
        return self._folder / f"{PREFIX}{batch:08}"
