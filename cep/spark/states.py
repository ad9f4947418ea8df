"""States of buckets as files beside Spark's checkpoint: its state store holds of which version a bucket is, no more.

A file is written before the store takes its version, whole and under another name first, so what the store names is
there. A task done again writes the same file. Spark goes back by one micro-batch at most, in which a bucket makes one
version at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from cep.errors import CepError

NAME = "buckets"
"""Their folder in a checkpoint."""

KEPT = 3
"""Versions of a bucket that are kept: one for Spark to go back to, one more for whoever removes its last log."""


@dataclass(frozen=True, slots=True)
class States:
    """The files of a stage in a folder that is there, and that all workers have."""

    folder: str
    stage: int

    def read(self, bucket: int, version: int) -> bytes:
        """A state. CepError: it is not there."""
        path = self._path(bucket, version)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise CepError(
                f"--checkpoint: {path} is missing, a part of the state",
                hint="put the whole folder back as it was; on a cluster all workers need it under the same path",
                code="checkpoint",
            ) from None

    def write(self, bucket: int, version: int, state: bytes) -> None:
        """Put a state there, and away with what is too old."""
        path = self._path(bucket, version)
        made = path.with_name(f".{path.name}.{uuid4().hex}")  # the same task may run twice at once, on two machines
        try:
            made.write_bytes(state)
            made.replace(path)
        except OSError:
            made.unlink(missing_ok=True)
            raise
        self._path(bucket, version - KEPT).unlink(missing_ok=True)

    def _path(self, bucket: int, version: int) -> Path:
        return Path(self.folder) / f"{self.stage}-{bucket:04}-{version:08}"
