"""Content that is stored with a hash. If the content is damaged, reading it fails before anything uses it.

`seal` puts a mark and a hash before the whole content. `record` encodes byte records, the last of which may be torn.
`Chain` encodes lines of JSON, each with a hash of all lines up to it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from hashlib import blake2b
from typing import BinaryIO, TypeAlias

BytesLike: TypeAlias = bytes | bytearray | memoryview

MARK = b"semcep\x00\x02"
"""The first bytes of sealed content. The last byte is the version of the format."""

SIZE = 16
"""The number of bytes in a hash."""
HEAD = len(MARK) + SIZE

_SIZES, _CHECK = struct.Struct("<II"), 8
_HASH = re.compile(rb', "hash": "([0-9a-f]{32})"\}\n?$')


class Broken(ValueError):
    """An error: content differs from what was written. `number`: the index of the damaged record or line."""

    def __init__(self, number: int = 0) -> None:
        super().__init__(number)
        self.number = number


def digest(*parts: BytesLike, size: int = SIZE) -> bytes:
    """Return the hash of `parts`, as if they were concatenated."""
    digested = blake2b(digest_size=size)
    for part in parts:
        digested.update(part)
    return digested.digest()


# --- whole ---


def is_sealed(blob: BytesLike) -> bool:
    """Return True if the bytes are probably sealed content. Half of the mark suffices, as it may be damaged."""
    return sum(byte == other for byte, other in zip(bytes(blob[: len(MARK)]), MARK)) * 2 >= len(MARK)


def seal(*parts: BytesLike, of: bytes = b"") -> bytes:
    """Concatenate the parts, and put a mark and a hash before them.

    `of`: the name of the content, such as a file name. It is part of the hash, but not of the result.
    """
    return b"".join([MARK, digest(MARK, of, *parts), *parts])


def seal_header(file: BinaryIO, of: bytes = b"") -> bytes:
    """Return the header that `seal` would put before the contents of a file. `of`: as for `seal`."""
    digested = blake2b(MARK + of, digest_size=SIZE)
    while part := file.read(1 << 20):
        digested.update(part)
    return MARK + digested.digest()


def content(blob: BytesLike, of: bytes = b"") -> memoryview:
    """Return the content of sealed bytes. Raises Broken if they are damaged, or were sealed with another `of`."""
    rest = memoryview(blob)[HEAD:]
    if blob[: len(MARK)] != MARK or digest(MARK, of, rest) != blob[len(MARK) : HEAD]:
        raise Broken
    return rest


def name(blob: BytesLike) -> bytes:
    """Return a hash that identifies these bytes: the stored hash of sealed bytes, otherwise a hash of the bytes."""
    return bytes(blob[len(MARK) : HEAD]) if is_sealed(blob) else digest(blob)


# --- records ---


def record(head: bytes, body: bytes) -> bytes:
    """Encode a record. The result consists of the sizes of head and body, a hash of these sizes, the head, the body,
    and a hash of everything."""
    sizes = _SIZES.pack(len(head), len(body))
    return b"".join([sizes, digest(sizes, size=_CHECK), head, body, digest(sizes, head, body)])


def read_records(data: bytes, place: int = 0) -> Iterator[tuple[bytes, bytes, int]]:
    """Yield the head, the body and the end offset of each record. Stop before a torn record.

    A torn record is cut short, or ends in zeros because the machine stopped before writing it. `place`: the offset of
    the first record. Raises Broken if a record is damaged, or if data follows a torn record.
    """
    number, start = 0, _SIZES.size + _CHECK
    while place < len(data):
        rest = memoryview(data)[place:]
        sizes = bytes(rest[: _SIZES.size])
        if len(rest) < start or digest(sizes, size=_CHECK) != rest[_SIZES.size : start]:
            if len(bytes(rest).rstrip(b"\0")) < start:
                return
            raise Broken(number)
        middle = start + _SIZES.unpack(sizes)[0]
        stop = middle + _SIZES.unpack(sizes)[1]
        if len(rest) < stop + SIZE:
            return
        head, body, known = bytes(rest[start:middle]), bytes(rest[middle:stop]), bytes(rest[stop : stop + SIZE])
        if digest(sizes, head, body) != known:
            if not any(rest[stop:]):
                return
            raise Broken(number)
        place += stop + SIZE
        yield head, body, place
        number += 1


# --- lines ---


class Chain:
    """An encoder and decoder of successive JSON lines. The last field of each line is a hash of all lines up to it.

    `of`: the name of the content, such as a file name. It is part of the first hash.
    """

    def __init__(self, of: bytes = b"") -> None:
        self._last = digest(of)
        self.count = 0

    def add(self, line: bytes) -> bytes:
        """Encode the next line. `line`: the text `{...}`. The result has the hash and a line break."""
        self._take(line)
        return line[:-1] + b', "hash": "%s"}\n' % self._last.hex().encode()

    def read(self, line: bytes) -> bytes:
        """Decode the next line: remove its hash and line break. Raises Broken if the line has changed."""
        hashed = _HASH.search(line)
        if hashed is None:
            raise Broken(self.count)
        plain = line[: hashed.start()] + b"}"
        self._take(plain)
        if hashed[1] != self._last.hex().encode():
            raise Broken(self.count - 1)
        return plain

    def copy(self) -> Chain:
        """Return a copy. Lines that are added to the copy later do not change this chain."""
        copied = Chain()
        copied._last, copied.count = self._last, self.count
        return copied

    def _take(self, line: bytes) -> None:
        self._last = digest(self._last, line)
        self.count += 1
