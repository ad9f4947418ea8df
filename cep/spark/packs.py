"""Files of a checkpoint in an object store: each is a part of an object, a pack, which is written once.

Which files count, and where they are, is said by a manifest (`cep.spark.mirror`). A pack is named after the first
manifest that may have it, so one that is in none when there is that is of a task that failed, or of a run that came too
late.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from cep.core import checksum
from cep.core.errors import CepError
from cep.core.storage import objects
from cep.core.storage.failures import StorageError
from cep.core.storage.urls import joined
from cep.spark.disk import BACK


@dataclass(frozen=True, slots=True)
class Packed:
    """The place of a file's content: in the pack of a name, from an offset on, so many bytes; and a hash of it."""

    pack: str
    offset: int
    length: int
    digest: str

    def fields(self) -> list[str | int]:
        """By which it is made again; a manifest has thousands of them."""
        return [self.pack, self.offset, self.length, self.digest]


@dataclass(frozen=True, slots=True)
class Packs:
    """The packs of a checkpoint, in a folder of this `address`."""

    address: str

    def place(self, pack: str) -> str:
        """The address of a pack."""
        return joined(self.address, pack)

    def read(self, one: Packed) -> bytes:
        """The content of a file. CepError: it is missing or damaged, or cannot be read."""
        with storing():
            data = objects.part(self.place(one.pack), one.offset, one.length)
        if checksum.digest(data).hex() != one.digest:
            raise damaged(self.place(one.pack))
        return data

    def put(self, name: str, contents: Mapping[str, bytes]) -> dict[str, Packed]:
        """Put files as one pack, and say where each is. CepError: it cannot be put."""
        found, size = dict[str, Packed](), 0
        for file, content in contents.items():
            found[file] = Packed(name, size, len(content), checksum.digest(content).hex())
            size += len(content)
        if contents:
            with storing():
                objects.put(self.place(name), b"".join(contents.values()))
        return found


def pack_name(number: int, run: str) -> str:
    """A name that no other pack has; `number`: of the first manifest that may have it; `run`: who writes it."""
    return f"{number:012}-{run[:12]}-{uuid4().hex}"


def damaged(address: str) -> CepError:
    """The error for something that is not what was put there."""
    return CepError(f"--checkpoint: {address} is damaged", hint=BACK, code="checkpoint")


@contextmanager
def storing(code: str = "failed") -> Iterator[None]:
    """Turn errors of a file system in the block into a CepError."""
    try:
        yield
    except StorageError as error:
        message = f"--checkpoint: {error.filename}: {error.strerror}"
        raise CepError(message, hint=error.hint or "the same command goes on from there", code=code) from None
