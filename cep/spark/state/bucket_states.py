"""States of buckets as files beside Spark's checkpoint: its state store holds of which version a bucket is, no more.

A file is on disk before the store takes its version, whole and under another name first, so what the store names is
there, also when the machine has lost its power. A task done again writes the same file. Spark goes back by one
micro-batch at most, in which a bucket makes one version at most. Before a state stands, sealed with the names of the
file and of the checkpoint, the number of its micro-batch, by which a migration knows those that count, and the state's
hash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from cep.core import checksum
from cep.core.errors import CepError
from cep.spark.storage.disk import BACK, damaged, put, remove_hidden, writing_to

Opened = TypeVar("Opened")


RUN = "run"
"""In that folder, the name of the checkpoint."""

_BATCH = 8  # bytes before a state, of its micro-batch
_BEFORE = checksum.HEAD + _BATCH + checksum.SIZE

KEPT = 3
"""Versions of a bucket that are kept: one for Spark to go back to, one more for whoever removes its last log."""


@dataclass(frozen=True, slots=True)
class States:
    """The files of a stage in a folder that is there, and that all workers have."""

    folder: str
    stage: int

    def read(self, bucket: int, version: int) -> bytes:
        """A state. CepError: it is not there, or damaged."""
        return read(self._path(bucket, version))

    def opened(self, bucket: int, version: int, open: Callable[[bytes], Opened]) -> Opened:
        """What is made of a state. CepError: it is not there, damaged, or of another program."""
        path = self._path(bucket, version)
        state = read(path)
        try:
            return open(state)
        except CepError as error:
            raise CepError(f"--checkpoint: {path}: {error.message}", hint=BACK, code="checkpoint") from None

    def write(self, bucket: int, version: int, state: bytes, batch: int) -> None:
        """Put the state after a micro-batch there, and away with what is too old. CepError: it cannot be written."""
        with writing_to("--checkpoint", Path(self.folder)):
            path = self._path(bucket, version)
            put(path, checksum.seal(batch.to_bytes(_BATCH, "little"), checksum.name(state), of=_of(path)) + state)
            self._path(bucket, version - KEPT).unlink(missing_ok=True)

    def newest(self, bucket: int, version: int) -> bool:
        """Whether a version is there, and none has followed it."""
        return self._path(bucket, version).exists() and not self._path(bucket, version + 1).exists()

    def _path(self, bucket: int, version: int) -> Path:
        return Path(self.folder) / f"{named(self.stage, bucket)}-{version:08}"


def begin(folder: Path, run: str) -> None:
    """Make the folder of the states of a checkpoint, by what tells that from others. CepError: it is of another one."""
    folder.mkdir(exist_ok=True)
    file = folder / RUN
    if not file.exists():
        put(file, run.encode())
    elif file.read_bytes() != run.encode():
        raise damaged(file, what="is damaged, or of another checkpoint")


def _of(path: Path) -> bytes:
    """What a state is sealed with."""
    try:
        return path.with_name(RUN).read_bytes() + path.name.encode()
    except FileNotFoundError:
        return path.name.encode()


def named(stage: int, bucket: int) -> str:
    """What the names of a bucket's files begin with."""
    return f"{stage}-{bucket:04}"


def read(path: Path) -> bytes:
    """A state. CepError: it is not there, or damaged."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise CepError(
            f"--checkpoint: {path} is missing, a part of the state",
            hint="put the whole folder back as it was; on a cluster all workers need it under the same path",
            code="checkpoint",
        ) from None
    if not checksum.is_sealed(data):  # of the version before
        return data[_BATCH:]
    try:
        state = data[_BEFORE:]
        if checksum.is_sealed(state):
            checksum.content(state)
        if checksum.name(state) != _known(path, data)[_BATCH:]:
            raise checksum.Broken
    except checksum.Broken:
        raise damaged(path) from None
    return state


def head(path: Path) -> dict[str, Any]:
    """What a state says of itself. CepError: it is damaged."""
    from cep.runtime import snapshot  # Arrow with it: who plans a query alone needs neither

    try:
        return snapshot.header(read(path))
    except CepError as error:
        raise damaged(path) if error.code == snapshot.DAMAGED else error from None


def _known(path: Path, data: bytes) -> bytes:
    """What stands before a state, of the version before only its micro-batch. CepError: it is damaged."""
    if not checksum.is_sealed(data):
        return data[:_BATCH]
    try:
        return bytes(checksum.content(data[:_BEFORE], _of(path)))
    except checksum.Broken:
        raise damaged(path) from None


def newest(folder: Path, last: int) -> dict[str, int]:
    """Of each bucket, by its name, the newest version that a micro-batch until `last` has made. CepError: one is
    damaged."""
    found: dict[str, int] = {}
    for path in folder.glob("[0-9]*-*-*"):
        bucket, _, version = path.name.rpartition("-")
        with path.open("rb") as file:
            batch = _known(path, file.read(_BEFORE))[:_BATCH]
        if int.from_bytes(batch, "little") <= last:
            found[bucket] = max(found.get(bucket, 0), int(version))
    return dict(sorted(found.items()))


def sweep(folder: Path) -> None:
    """Away with what tasks that were killed have left in the folder of states. Not while any run."""
    remove_hidden(folder)
    last: dict[str, int] = {}
    found = [(path, *path.name.rpartition("-")) for path in sorted(folder.glob("*-*-*"))]
    for _, bucket, _, version in found:
        last[bucket] = int(version)
    for path, bucket, _, version in found:
        if int(version) <= last[bucket] - KEPT:
            path.unlink()
