"""The files beside a store: the knowledge that was loaded, with its hash, and the changes of it since."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from cep.core import checksum

HASH = "hash:"
"""What the store's own note of the hash of the file begins with."""


class Damaged(Exception):
    """A file is not what was written."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is damaged: bring the folder back from a copy, or begin anew with another one")


def hash_path(path: str) -> str:
    """The note of a file's hash."""
    with open(path, "rb") as file:
        return HASH + hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=checksum.SIZE)).hexdigest()


def is_intact(path: str, notes: set[str]) -> bool:
    """Whether a file is what was noted; the version before has noted nothing."""
    known = {note for note in notes if note.startswith(HASH)}
    return not known or hash_path(path) in known


def learn(path: str, gone: bytes, come: bytes) -> None:
    """Note a change; it is on disk when this returns."""
    with open(path, "ab") as file:
        file.write((b"" if file.tell() else checksum.MARK) + checksum.record(gone, come))
        file.flush()
        os.fsync(file.fileno())


def cut_torn_end(path: str) -> None:
    """Cut off what a process that was killed had half written: its change was not made."""
    if not os.path.exists(path):
        return
    data = Path(path).read_bytes()
    try:
        if checksum.marked(data):
            ends = [stop for _, _, stop in checksum.read_records(data, len(checksum.MARK))]
            os.truncate(path, ends[-1] if ends else 0)
        else:  # of the version before, which is read to its end before anything is learned
            os.truncate(path, data.rfind(b"\n") + 1)
    except checksum.Broken:
        return  # reading it raises Damaged


def learned(path: str) -> Iterator[tuple[bytes, bytes]]:
    """The changes that were noted, lines that went and that came; one that is torn was not made. Raises Damaged."""
    data = Path(path).read_bytes()
    try:
        if not checksum.marked(data):  # of the version before: line by line
            for line in data.splitlines(keepends=True):
                if line.endswith(b"\n"):
                    yield (line[1:], b"") if line.startswith(b"-") else (b"", line[1:])
            return
        for gone, come, _ in checksum.read_records(data, len(checksum.MARK)):
            yield gone, come
    except checksum.Broken:
        raise Damaged(path) from None
