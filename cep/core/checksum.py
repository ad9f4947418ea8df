"""Bytes with a hash: what a run goes on from is what was written, or the damage is reported before it is used.

Whole (`seal`): a mark and a hash stand before the content. One by one: records of bytes (`record`), of which the last
may be torn, and lines of JSON (`Chain`), each with a hash of all until it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from hashlib import blake2b
from typing import BinaryIO, TypeAlias

BytesLike: TypeAlias = bytes | bytearray | memoryview

MARK = b"semcep\x00\x02"
"""The first bytes of sealed content; the last of them counts the forms there have been."""

SIZE = 16
"""Bytes of a hash."""
HEAD = len(MARK) + SIZE

_SIZES, _CHECK = struct.Struct("<II"), 8
_HASH = re.compile(rb', "hash": "([0-9a-f]{32})"\}\n?$')


class Broken(ValueError):
    """Bytes are not what was sealed. `number`: of the record or line that is not."""

    def __init__(self, number: int = 0) -> None:
        super().__init__(number)
        self.number = number


def digest(*parts: BytesLike, size: int = SIZE) -> bytes:
    """A hash of bytes in a row."""
    found = blake2b(digest_size=size)
    for part in parts:
        found.update(part)
    return found.digest()


# --- whole ---


def is_sealed(blob: BytesLike) -> bool:
    """Return True if bytes begin as sealed ones do, by half of the mark at least: it may be damaged itself."""
    return sum(one == other for one, other in zip(bytes(blob[: len(MARK)]), MARK)) * 2 >= len(MARK)


def seal(*parts: BytesLike, of: bytes = b"") -> bytes:
    """The parts in a row, sealed. `of`: what they belong to, as a file's name; it is not in them."""
    return b"".join([MARK, digest(MARK, of, *parts), *parts])


def seal_header(file: BinaryIO, of: bytes = b"") -> bytes:
    """Return the header that `seal` puts before the rest of this file."""
    found = blake2b(MARK + of, digest_size=SIZE)
    while part := file.read(1 << 20):
        found.update(part)
    return MARK + found.digest()


def content(blob: BytesLike, of: bytes = b"") -> memoryview:
    """Return the sealed content. Broken: it is damaged, or does not belong to `of`."""
    rest = memoryview(blob)[HEAD:]
    if blob[: len(MARK)] != MARK or digest(MARK, of, rest) != blob[len(MARK) : HEAD]:
        raise Broken
    return rest


def name(blob: BytesLike) -> bytes:
    """Return the hash by which bytes are known: the one that sealed bytes carry, a hash of any others."""
    return bytes(blob[len(MARK) : HEAD]) if is_sealed(blob) else digest(blob)


# --- records ---


def record(head: bytes, body: bytes) -> bytes:
    """A record: sizes with a hash of their own, head, body, and a hash of it all."""
    sizes = _SIZES.pack(len(head), len(body))
    return b"".join([sizes, digest(sizes, size=_CHECK), head, body, digest(sizes, head, body)])


def read_records(data: bytes, place: int = 0) -> Iterator[tuple[bytes, bytes, int]]:
    """Head, body, and where each record ends, up to what is torn: cut short, or of which the end is zeros, since a
    machine has ended before it was on disk. Broken: one is damaged, or torn with more behind it."""
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
    """Lines of JSON objects, one after the other, each with a hash of all lines until it as its last field. `of`: what
    the lines belong to."""

    def __init__(self, of: bytes = b"") -> None:
        self._last = digest(of)
        self.count = 0

    def add(self, line: bytes) -> bytes:
        """The next line, `{...}`, sealed, with its end."""
        self._take(line)
        return line[:-1] + b', "hash": "%s"}\n' % self._last.hex().encode()

    def read(self, line: bytes) -> bytes:
        """The next line without its hash and its end. Broken: it is not the one that was written there."""
        hashed = _HASH.search(line)
        if hashed is None:
            raise Broken(self.count)
        plain = line[: hashed.start()] + b"}"
        self._take(plain)
        if hashed[1] != self._last.hex().encode():
            raise Broken(self.count - 1)
        return plain

    def copy(self) -> Chain:
        """One that goes on from here."""
        made = Chain()
        made._last, made.count = self._last, self.count
        return made

    def _take(self, line: bytes) -> None:
        self._last = digest(self._last, line)
        self.count += 1
