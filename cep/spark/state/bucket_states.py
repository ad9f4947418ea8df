"""The states of buckets as files beside Spark's checkpoint; which version counts is in a note (`batch_notes.py`).

What stays as it is from one version to the next is written once (`segment_files.py`).

A file is on disk before the note is that names its version, so what a note names exists, also after a cut of power. A
repeated task writes the same file. Spark goes back by two micro-batches at most, in each of which a bucket makes one
version at most. Each state begins with the number of its micro-batch, by which a migration knows the states that count,
and with its hash, which depends on the names of the file and the checkpoint.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cep.core import checksum
from cep.core.errors import CepError
from cep.spark.disk import BACK, damaged_file, put, remove_hidden, writing_to
from cep.spark.state.segment_files import PREFIX, Segments, missing_file

if TYPE_CHECKING:  # which loads Arrow, and a process that only plans does without
    from cep.runtime.segments import SegmentedState

Opened = TypeVar("Opened")


RUN = "run"
"""In the folder of the states: the name of the checkpoint."""

_BATCH = 8  # bytes of the number of a micro-batch
_BEFORE = checksum.HEAD + _BATCH + checksum.SIZE

KEPT = 3
"""Versions of a bucket that stay: one for Spark to go back to, one more where Spark's last log is removed."""


@dataclass(frozen=True, slots=True)
class BucketStates:
    """The files of a stage, in a folder that exists and that all workers share."""

    folder: str
    stage: int

    def read(self, bucket: int, version: int) -> bytes:
        """The bytes of a state. CepError: it is missing or damaged."""
        return read_state(self._path(bucket, version))

    def opened(self, bucket: int, version: int, open: Callable[[bytes, Segments], Opened]) -> Opened:
        """What `open` makes of a state and its segments. CepError: something is missing, damaged, or of another
        program."""
        path = self._path(bucket, version)
        state, segments = parted_state(path)
        try:
            return open(state, segments)
        except CepError as error:
            if error.code == "checkpoint":
                raise
            raise CepError(f"--checkpoint: {path}: {error.message}", hint=BACK, code="checkpoint") from None

    def write(self, bucket: int, version: int, state: bytes | SegmentedState, batch: int) -> None:
        """Write the state after a micro-batch, and remove the version that is too old. CepError: it fails."""
        with writing_to("--checkpoint", Path(self.folder)):
            path, content = self._path(bucket, version), state
            kept: frozenset[str] = frozenset()
            if not isinstance(content, bytes):
                before = _segments(self._path(bucket, version - 1)) or Segments(path.parent)
                segments = before.next(state_name(self.stage, bucket), version, content)
                content, kept = segments.before(content.head), frozenset(segments.sizes)
            put(
                path, checksum.seal(batch.to_bytes(_BATCH, "little"), checksum.name(content), of=of_run(path)) + content
            )
            self._drop(bucket, version - KEPT, kept)

    def _drop(self, bucket: int, version: int, kept: frozenset[str]) -> None:
        """Remove a version, and those files of its segments that later ones, of which the last has these `kept`, do not
        use."""
        path = self._path(bucket, version)
        gone = _segments(path)
        if gone is not None and gone.sizes:
            later = [_segments(self._path(bucket, version + each)) for each in range(1, KEPT)]
            if None not in later:
                used = kept.union(*(each.sizes for each in later if each is not None))
                for file in sorted(gone.sizes.keys() - used):
                    (path.parent / file).unlink(missing_ok=True)
        path.unlink(missing_ok=True)

    def newest(self, bucket: int, version: int) -> bool:
        """Whether a version exists and is the newest."""
        return self._path(bucket, version).exists() and not self._path(bucket, version + 1).exists()

    def _path(self, bucket: int, version: int) -> Path:
        return Path(self.folder) / f"{state_name(self.stage, bucket)}-{version:08}"


def begin(folder: Path, run: str) -> None:
    """Make the folder of the states; `run`: the name of the checkpoint. CepError: it belongs to another checkpoint."""
    folder.mkdir(exist_ok=True)
    file = folder / RUN
    if not file.exists():
        put(file, run.encode())
    elif file.read_bytes() != run.encode():
        raise damaged_file(file, what="is damaged, or of another checkpoint")


def of_run(path: Path) -> bytes:
    """What the hash of a state depends on besides its content."""
    try:
        return path.with_name(RUN).read_bytes() + path.name.encode()
    except FileNotFoundError:
        return path.name.encode()


def state_name(stage: int, bucket: int) -> str:
    """The prefix of the names of a bucket's files."""
    return f"{stage}-{bucket:04}"


def read_state(path: Path) -> bytes:
    """The bytes of a state, without its segments. CepError: it is missing or damaged."""
    return parted_state(path)[0]


def parted_state(path: Path) -> tuple[bytes, Segments]:
    """The bytes of a state, and its segments. CepError: it is missing or damaged."""
    state = io.BytesIO(_read(path))
    try:
        segments = Segments.of(path.parent, state)
    except (ValueError, LookupError, TypeError):
        raise damaged_file(path) from None
    return state.read(), segments


def _segments(path: Path) -> Segments | None:
    """The segments of a state; None: it is missing or damaged."""
    try:
        with path.open("rb") as file:
            begins = file.read(_BEFORE)
            file.seek(_BEFORE if checksum.is_sealed(begins) else _BATCH)
            return Segments.of(path.parent, file)
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return None


def _read(path: Path) -> bytes:
    """What a file holds of a state and its segments. CepError: it is missing or damaged."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise missing_file(path) from None
    if not checksum.is_sealed(data):  # an earlier version wrote it
        return data[_BATCH:]
    try:
        state = data[_BEFORE:]
        if checksum.is_sealed(state):
            checksum.content(state)
        if checksum.name(state) != _known(path, data)[_BATCH:]:
            raise checksum.Broken
    except checksum.Broken:
        raise damaged_file(path) from None
    return state


def state_header(path: Path) -> dict[str, Any]:
    """The header of the snapshot that a state is. CepError: it is damaged."""
    from cep.runtime import snapshot  # loads Arrow, which a process that only plans does without

    try:
        return snapshot.header(read_state(path))
    except CepError as error:
        raise damaged_file(path) if error.code == snapshot.DAMAGED else error from None


def _known(path: Path, data: bytes) -> bytes:
    """What a file holds before the state; of an earlier version only the micro-batch. CepError: it is damaged."""
    if not checksum.is_sealed(data):
        return data[:_BATCH]
    try:
        return bytes(checksum.content(data[:_BEFORE], of_run(path)))
    except checksum.Broken:
        raise damaged_file(path) from None


def newest_versions(folder: Path, last: int) -> dict[str, int]:
    """The newest version of each bucket, by its name, that a micro-batch until `last` has made. CepError: one is
    damaged."""
    found: dict[str, int] = {}
    for path in folder.glob("[0-9]*-*-*"):
        bucket, _, version = path.name.rpartition("-")
        with path.open("rb") as file:
            batch = _known(path, file.read(_BEFORE))[:_BATCH]
        if int.from_bytes(batch, "little") <= last:
            found[bucket] = max(found.get(bucket, 0), int(version))
    return dict(sorted(found.items()))


def remove_leftovers(folder: Path) -> None:
    """Remove what killed tasks have left in the folder of states. Not while tasks run."""
    remove_hidden(folder)
    last: dict[str, int] = {}
    found = [(path, *path.name.rpartition("-")) for path in sorted(folder.glob("[0-9]*-*-*"))]
    for _, bucket, _, version in found:
        last[bucket] = int(version)
    used: set[str] = set()
    known = True
    for path, bucket, _, version in found:
        if int(version) <= last[bucket] - KEPT:
            path.unlink()
            continue
        segments = _segments(path)
        known = known and segments is not None
        used.update(() if segments is None else segments.sizes)
    for path in sorted(folder.glob(f"{PREFIX}*")) if known else ():
        if path.name not in used:
            path.unlink()
