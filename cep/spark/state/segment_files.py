"""The segments of bucket states as files. The new segments of a state form one file. The state lists their places.

A file is removed when no kept state uses any of its segments. If less than half of a file is still used, the used
segments are written again together with the new ones.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from cep.core import checksum
from cep.core.errors import CepError
from cep.spark.disk import damaged_file, put

if TYPE_CHECKING:  # it loads Arrow, which processes that only plan do without
    from cep.runtime.snapshot import SegmentedState

MARK = b"\x00segment\x01"
"""The first bytes of a state that has segments. The last of these bytes is the version of this file format."""

PREFIX = "w"
"""The prefix of the names of segment files."""

_LENGTH = 8  # the size in bytes of the length of the table of segments

Place = tuple[str, int, int]
"""The file that contains a segment, and the segment's offset and length in the file."""


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of a state. `folder`: the folder of their files.

    - `names`: the names of the segments in order.
    - `places`: the place of each segment.
    - `sizes`: the size in bytes of each file.
    """

    folder: Path
    names: Sequence[str] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, state: BinaryIO) -> Segments:
        """Read the places of segments from the beginning of a state file. Stop before the rest of the state.

        Raises ValueError, LookupError or TypeError if the content is not valid.
        """
        begins, mark = state.tell(), state.read(len(MARK))
        if mark != MARK:
            state.seek(begins)
            return cls(folder)
        length = int.from_bytes(state.read(_LENGTH), "little")
        begin, end = state.tell(), state.seek(0, os.SEEK_END)
        if length > end - begin:  # the hash is not verified yet
            raise ValueError
        state.seek(begin)
        header = json.loads(state.read(length))
        files = list(header["files"])
        names = [name for name, _, _, _ in header["segments"]]
        places = {name: (files[file], offset, length) for name, file, offset, length in header["segments"]}
        return cls(folder, names, places, header["files"])

    def before(self, head: bytes) -> bytes:
        """Return the content of a state file: the places of these segments, then `head`, the rest of the state."""
        if not self.names:
            return head
        number = {file: position for position, file in enumerate(self.sizes)}
        entries = [[name, number[file], *place] for name in self.names for file, *place in [self.places[name]]]
        text = json.dumps({"files": self.sizes, "segments": entries}, separators=(",", ":")).encode()
        return b"".join([MARK, len(text).to_bytes(_LENGTH, "little"), text, head])

    def fetch(self, name: str) -> bytes:
        """Return the bytes of a segment. Raises CepError if its file is missing or damaged."""
        file, offset, length = self.places[name]
        path = self.folder / file
        try:
            with path.open("rb") as opened:
                opened.seek(offset)
                data = opened.read(length)
        except FileNotFoundError:
            raise missing_file(path) from None
        if checksum.digest(data).hex() != name:
            raise damaged_file(path)
        return data

    def next(self, bucket: str, version: int, state: SegmentedState) -> Segments:
        """Write the segments of a state that are not on disk yet to a file. Return all segments of the state.

        `bucket`: the first part of the names of the bucket's files. `version`: the version of the state. Raises
        CepError if a segment that an earlier version has written is missing or damaged.
        """
        kept = {name: self.places[name] for name in state.names if name in self.places}
        used = Counter[str]()
        for file, _, length in kept.values():
            used[file] += length
        poor = {file for file, length in used.items() if 2 * length < self.sizes[file]}
        written: dict[str, bytes] = {}
        for name in state.names:
            if name not in kept:
                if name not in state.new:  # this state does not continue the previous one
                    raise missing_file(self.folder / f"{bucket}-{version - 1:08}")
                written[name] = state.new[name]
            elif kept[name][0] in poor:
                written[name] = self.fetch(name)
        sizes = {file: self.sizes[file] for file in used if file not in poor}
        if written:
            content = b"".join(written.values())
            file = f"{PREFIX}{bucket}-{version:08}-{checksum.digest(content, size=6).hex()}"
            put(self.folder / file, content)
            offset = 0
            for name, data in written.items():
                kept[name] = file, offset, len(data)
                offset += len(data)
            sizes[file] = offset
        return Segments(self.folder, state.names, kept, sizes)


def missing_file(path: Path) -> CepError:
    """Return the error for a missing file of a state."""
    return CepError(
        f"--checkpoint: {path} is missing: it is a part of the state",
        hint="restore the whole folder from a copy; on a cluster all workers need it under the same path",
        code="checkpoint",
    )
