"""States of buckets as files beside Spark's checkpoint: its state store holds of which version a bucket is, no more.

A file is on disk before the store takes its version, whole and under another name first, so what the store names is
there, also when the machine has lost its power. A task done again writes the same file. Spark goes back by one
micro-batch at most, in which a bucket makes one version at most. Before a state stands the number of its micro-batch,
by which a migration knows those that count.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cep.errors import CepError
from cep.spark.durable import put
from cep.spark.room import onto
from cep.spark.tidy import hidden

NAME = "buckets"
"""Their folder in a checkpoint."""

_BATCH = 8  # bytes before a state, of its micro-batch

KEPT = 3
"""Versions of a bucket that are kept: one for Spark to go back to, one more for whoever removes its last log."""


@dataclass(frozen=True, slots=True)
class States:
    """The files of a stage in a folder that is there, and that all workers have."""

    folder: str
    stage: int

    def read(self, bucket: int, version: int) -> bytes:
        """A state. CepError: it is not there."""
        return read(self._path(bucket, version))

    def write(self, bucket: int, version: int, state: bytes, batch: int) -> None:
        """Put the state after a micro-batch there, and away with what is too old. CepError: it cannot be written."""
        with onto("--checkpoint", Path(self.folder)):
            put(self._path(bucket, version), batch.to_bytes(_BATCH, "little") + state)
            self._path(bucket, version - KEPT).unlink(missing_ok=True)

    def newest(self, bucket: int, version: int) -> bool:
        """Whether a version is there, and none has followed it."""
        return self._path(bucket, version).exists() and not self._path(bucket, version + 1).exists()

    def _path(self, bucket: int, version: int) -> Path:
        return Path(self.folder) / f"{named(self.stage, bucket)}-{version:08}"


def named(stage: int, bucket: int) -> str:
    """What the names of a bucket's files begin with."""
    return f"{stage}-{bucket:04}"


def read(path: Path) -> bytes:
    """A state. CepError: it is not there."""
    try:
        return path.read_bytes()[_BATCH:]
    except FileNotFoundError:
        raise CepError(
            f"--checkpoint: {path} is missing, a part of the state",
            hint="put the whole folder back as it was; on a cluster all workers need it under the same path",
            code="checkpoint",
        ) from None


def head(path: Path) -> dict[str, Any]:
    """What a state says of itself."""
    with path.open("rb") as file:
        file.seek(_BATCH)
        found: dict[str, Any] = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        return found


def newest(folder: Path, last: int) -> dict[str, int]:
    """Of each bucket, by its name, the newest version that a micro-batch until `last` has made."""
    found: dict[str, int] = {}
    for path in folder.glob("[0-9]*-*-*"):
        bucket, _, version = path.name.rpartition("-")
        with path.open("rb") as file:
            if int.from_bytes(file.read(_BATCH), "little") <= last:
                found[bucket] = max(found.get(bucket, 0), int(version))
    return dict(sorted(found.items()))


def sweep(folder: Path) -> None:
    """Away with what tasks that were killed have left in the folder of states. Not while any run."""
    hidden(folder)
    last: dict[str, int] = {}
    found = [(path, *path.name.rpartition("-")) for path in sorted(folder.glob("*-*-*"))]
    for _, bucket, _, version in found:
        last[bucket] = int(version)
    for path, bucket, _, version in found:
        if int(version) <= last[bucket] - KEPT:
            path.unlink()
