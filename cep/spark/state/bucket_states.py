"""The states of buckets as files beside Spark's checkpoint. A note (`batch_notes.py`) records the committed versions.

Parts of a state that stay the same are written only once (`segment_files.py`). A version may also consist of only the
input since the previous version (`delta_log.py`).

A file is on disk before the note that names its version. So all versions in a note exist, even after a power failure. A
repeated task writes the same file. Spark repeats at most the last two micro-batches, and a bucket writes at most one
version in each.

A file begins with the number of its micro-batch, by which a migration recognizes committed states. Then follows a hash
of the content, which also depends on the names of the file and of the checkpoint.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cep.core import checksum
from cep.core.errors import CepError
from cep.spark.disk import BACK, damaged_file, put, remove_hidden, writing_to
from cep.spark.state.delta_log import HEAD, Came, LogPlace
from cep.spark.state.segment_files import PREFIX, Segments, missing_file

if TYPE_CHECKING:  # it loads Arrow, which processes that only plan do without
    from cep.runtime.snapshot import SegmentedState

Opened = TypeVar("Opened")


RUN = "run"
"""The name of a file in the folder of the states. The file contains the name of the checkpoint."""

_BATCH = 8  # the size in bytes of the number of a micro-batch
_BEFORE = checksum.HEAD + _BATCH + checksum.SIZE

KEPT = 3
"""The number of a bucket's versions that are kept. Versions on which they depend are also kept.

Spark may repeat the last micro-batch, or the last two if its last log entry is removed.
"""


@dataclass(frozen=True, slots=True)
class BucketStates:
    """The state files of a stage. `folder`: an existing folder that all workers share."""

    folder: str
    stage: int

    def opened(self, bucket: int, version: int, open: Callable[[bytes, Segments], Opened]) -> Opened:
        """Read a state and its segments, and pass both to `open`. Return the result of `open`.

        Raises CepError if a file is missing or damaged, or belongs to another program.
        """
        path = self._path(bucket, version)
        state, segments = parted_state(path)
        try:
            return open(state, segments)
        except CepError as error:
            if error.code == "checkpoint":
                raise
            raise CepError(f"--checkpoint: {path}: {error.message}", hint=BACK, code="checkpoint") from None

    def write(self, bucket: int, version: int, state: bytes | SegmentedState, batch: int) -> None:
        """Write a new version of a state. Remove versions that are no longer needed.

        `batch`: the number of the micro-batch. Raises CepError if a file cannot be written or removed.
        """
        with writing_to("--checkpoint", Path(self.folder)):
            path, content = self._path(bucket, version), state
            kept: frozenset[str] = frozenset()
            if not isinstance(content, bytes):
                before = _segments(self._path(bucket, version - 1)) or Segments(path.parent)
                segments = before.next(state_name(self.stage, bucket), version, content)
                content, kept = segments.before(content.head), frozenset(segments.sizes)
            _put(path, content, batch)
            self._drop_old(bucket, version - KEPT + 1, kept)

    def append(self, bucket: int, version: int, arrived: Came, batch: int) -> bool:
        """Write a new version that contains only the input since the previous version. Return True if it was written.

        Returns False if the whole state must be written instead. `batch`: the number of the micro-batch. Raises
        CepError if the file cannot be written.
        """
        path = self._path(bucket, version)
        before = log_place(self._path(bucket, version - 1))
        content = None if before is None else arrived.packed(before, version)
        if content is None:
            return False
        with writing_to("--checkpoint", path.parent):
            _put(path, content, batch)
            self._drop_old(bucket, version - KEPT + 1, frozenset())
        return True

    def log(self, bucket: int, version: int) -> tuple[int, list[Came]]:
        """Return the number of the last whole version up to `version`, and the inputs of the later versions.

        Raises CepError if a file is missing or damaged.
        """
        entries: list[Came] = []
        for number in range(version, 0, -1):
            path = self._path(bucket, number)
            place = log_place(path)
            if place is not None and place.whole == number:
                return number, entries[::-1]
            content = _read(path)
            try:
                entries.append(Came.of(content, self.stage, bucket))
            except (ValueError, LookupError, TypeError, struct.error):
                raise damaged_file(path) from None
        raise missing_file(self._path(bucket, 0))

    def settle(self, bucket: int, version: int, state: bytes) -> None:
        """Replace a version that contains only input by the whole state. Raises CepError if writing fails."""
        path = self._path(bucket, version)
        with writing_to("--checkpoint", path.parent):
            _put(path, state, batch_of(path))

    def _drop_old(self, bucket: int, oldest: int, kept: frozenset[str]) -> None:
        """Remove the versions before `oldest` on which it does not depend, and segment files that are no longer used.

        `kept`: the segment files that the newest version uses. Versions are removed in ascending order, so that the
        next call can complete an interrupted removal.
        """
        place = log_place(self._path(bucket, oldest))
        last = first = oldest if place is None else min(oldest, place.whole)
        while first > 1 and self._path(bucket, first - 1).exists():
            first -= 1
        for number in range(first, last):
            path = self._path(bucket, number)
            gone = _segments(path)
            if gone is not None and gone.sizes:
                later = [_segments(self._path(bucket, number + offset)) for offset in range(1, KEPT)]
                if None not in later:
                    used = kept.union(*(segments.sizes for segments in later if segments is not None))
                    for file in sorted(gone.sizes.keys() - used):
                        (path.parent / file).unlink(missing_ok=True)
            path.unlink(missing_ok=True)

    def files(self, bucket: int, version: int) -> list[str]:
        """Return the names of all files that a version needs, also its own, or an empty list if it does not exist."""
        path = self._path(bucket, version)
        place, segments = log_place(path), _segments(path)
        if place is None:
            return []
        log = [self._path(bucket, number).name for number in range(place.whole, version + 1)]
        return log + ([] if segments is None or place.whole < version else list(segments.sizes))

    def newest(self, bucket: int, version: int) -> bool:
        """Return True if a version exists and no later version exists."""
        return self._path(bucket, version).exists() and not self._path(bucket, version + 1).exists()

    def _path(self, bucket: int, version: int) -> Path:
        return Path(self.folder) / f"{state_name(self.stage, bucket)}-{version:08}"


def begin(folder: Path, run: str) -> None:
    """Create the folder of the states. `run`: the name of the checkpoint.

    Raises CepError if the folder belongs to another checkpoint or cannot be created.
    """
    file = folder / RUN
    if not file.exists():
        with writing_to("--checkpoint", folder):
            folder.mkdir(exist_ok=True)
            put(file, run.encode())
    elif file.read_bytes() != run.encode():
        raise damaged_file(file, what="is damaged, or of another checkpoint")


def of_run(path: Path) -> bytes:
    """Return the bytes that identify a state file. They are hashed together with the file's content."""
    try:
        return path.with_name(RUN).read_bytes() + path.name.encode()
    except FileNotFoundError:
        return path.name.encode()


def state_name(stage: int, bucket: int) -> str:
    """Return the first part of the names of a bucket's state files, such as `1-0003`."""
    return f"{stage}-{bucket:04}"


def state_of(file: str) -> str:
    """Return the first part of the names of a bucket's state files. `file`: one of these, or a segment file."""
    stage, bucket, _ = file.removeprefix(PREFIX).split("-", 2)
    return f"{stage}-{bucket}"


def read_state(path: Path) -> bytes:
    """Return the bytes of a state without its segments. Raises CepError if the file is missing or damaged."""
    return parted_state(path)[0]


def parted_state(path: Path) -> tuple[bytes, Segments]:
    """Return a state without its segments, and the segments. Raises CepError if the file is missing or damaged."""
    state = io.BytesIO(_read(path))
    try:
        segments = Segments.of(path.parent, state)
    except (ValueError, LookupError, TypeError):
        raise damaged_file(path) from None
    return state.read(), segments


def _put(path: Path, content: bytes, batch: int) -> None:
    head = checksum.seal(batch.to_bytes(_BATCH, "little"), checksum.name(content), of=of_run(path))
    put(path, head + content)


def log_place(path: Path) -> LogPlace | None:
    """Return the place of a version in its bucket's log. Returns None if the file is missing or too short."""
    try:
        with path.open("rb") as file:
            begins = file.read(_BEFORE + HEAD)
        return LogPlace.of(begins[_BEFORE:], path.stat().st_size, int(path.name.rpartition("-")[2]))
    except (FileNotFoundError, struct.error):
        return None


def batch_of(path: Path) -> int:
    """Return the number of the micro-batch that wrote a version. Raises CepError if the file is missing or damaged."""
    try:
        with path.open("rb") as file:
            return int.from_bytes(_known(path, file.read(_BEFORE))[:_BATCH], "little")
    except FileNotFoundError:
        raise missing_file(path) from None


def _segments(path: Path) -> Segments | None:
    try:
        with path.open("rb") as file:
            file.seek(_BEFORE)
            return Segments.of(path.parent, file)
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return None


def _read(path: Path) -> bytes:
    """Read a state file and check its hashes. Return the state. Raises CepError if the file is missing or damaged."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise missing_file(path) from None
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
    """Return the header of the snapshot in a state file. Raises CepError if the file is damaged."""
    from cep.runtime import snapshot  # it loads Arrow, which processes that only plan do without

    try:
        return snapshot.header(read_state(path))
    except CepError as error:
        raise damaged_file(path) if error.code == snapshot.DAMAGED else error from None


def _known(path: Path, data: bytes) -> bytes:
    try:
        return bytes(checksum.content(data[:_BEFORE], of_run(path)))
    except checksum.Broken:
        raise damaged_file(path) from None


def remove_leftovers(folder: Path) -> None:
    """Remove the unfinished files of killed tasks from the folder of the states. Do not call this while tasks run."""
    remove_hidden(folder)
    last, first = dict[str, int](), dict[str, int]()
    states = [(path, *path.name.rpartition("-")) for path in sorted(folder.glob("[0-9]*-*-*"))]
    for _, bucket, _, version in states:
        last[bucket] = int(version)
    for path, bucket, _, version in states:
        if int(version) > last[bucket] - KEPT:
            place = log_place(path)
            first[bucket] = min(first.get(bucket, int(version)), int(version) if place is None else place.whole)
    used: set[str] = set()
    known = True
    for path, bucket, _, version in states:
        if int(version) < first[bucket]:
            path.unlink()
            continue
        segments = _segments(path)
        known = known and segments is not None
        used.update(() if segments is None else segments.sizes)
    for path in sorted(folder.glob(f"{PREFIX}*")) if known else ():
        if path.name not in used:
            path.unlink()
