"""The segments of bucket states as files. The new segments of a state form one file; the state lists the places of all
segments.

A file is removed when no kept state uses any of it. If less than half of a file is still in use, its used segments are
written again with the new segments.
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
from cep.spark.state.remote import present

if TYPE_CHECKING:  # it loads Arrow, which processes that only plan do without
    from cep.runtime.snapshot import SegmentedState

MARK = b"\x00segment\x01"
"""The first bytes of a state with segments. The last of them is the version of the format."""

PREFIX = "w"
"""The prefix of the names of segment files."""

_LENGTH = 8  # the size in bytes of the length of the table of segments

Place = tuple[str, int, int]
"""The file, offset and length of a segment."""


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of a state, in a `folder`.

    `names`: their names in order. `places`: the place of each. `sizes`: the sizes of the files in bytes.
    """

    folder: Path
    names: Sequence[str] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, state: BinaryIO) -> Segments:
        """Read the places of segments at the beginning of a state file, up to the rest of the state.

        ValueError, LookupError, TypeError: the content is not valid.
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
        """Return the bytes of a state: the places of these segments, followed by `head`, the rest of the state."""
        if not self.names:
            return head
        number = {file: position for position, file in enumerate(self.sizes)}
        entries = [[name, number[file], *place] for name in self.names for file, *place in [self.places[name]]]
        text = json.dumps({"files": self.sizes, "segments": entries}, separators=(",", ":")).encode()
        return b"".join([MARK, len(text).to_bytes(_LENGTH, "little"), text, head])

    def fetch(self, name: str) -> bytes:
        """Return the bytes of a segment. CepError: it is missing or damaged."""
        file, offset, length = self.places[name]
        path = self.folder / file
        try:
            with present(path).open("rb") as opened:
                opened.seek(offset)
                data = opened.read(length)
        except FileNotFoundError:
            raise missing_file(path) from None
        if checksum.digest(data).hex() != name:
            raise damaged_file(path)
        return data

    def next(self, bucket: str, version: int, state: SegmentedState) -> Segments:
        """Return the segments of the bucket's next state, after writing the new ones to a file.

        CepError: a segment is missing or damaged.
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
    """Return the error for a missing part of the state."""
    return CepError(
        f"--checkpoint: {path} is missing: it is a part of the state",
        hint="restore the whole folder from a copy; on a cluster all workers need it under the same path",
        code="checkpoint",
    )
