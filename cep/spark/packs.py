"""Files of a checkpoint in an object store. Several files are uploaded as one object, called a pack, which never
changes.

A manifest (see `cep.spark.mirror`) records which files are valid, and where each of them is. The name of a pack begins
with the number of the first manifest that may refer to it. If that manifest exists but no manifest refers to the pack,
the pack is not needed. Either the task that wrote it failed, or another run has overtaken the run that wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple
from uuid import uuid4

from cep.core import checksum
from cep.core.errors import CepError
from cep.core.storage import objects
from cep.core.storage.failures import StorageError
from cep.core.storage.urls import joined
from cep.spark.disk import BACK


class Packed(NamedTuple):
    """The place of a file: the name of its pack, its offset and length in the pack, and a hash of its content."""

    pack: str
    offset: int
    length: int
    digest: str


@dataclass(frozen=True, slots=True)
class Packs:
    """The packs of a checkpoint. `address`: the folder that contains them."""

    address: str

    def place(self, pack: str) -> str:
        """Return the address of a pack."""
        return joined(self.address, pack)

    def read(self, packed: Packed) -> bytes:
        """Return the content of a file. Raises CepError if its pack is missing, damaged or unreadable."""
        with storing():
            data = objects.part(self.place(packed.pack), packed.offset, packed.length)
        if checksum.digest(data).hex() != packed.digest:
            raise damaged(self.place(packed.pack))
        return data

    def put(self, name: str, contents: Mapping[str, bytes]) -> dict[str, Packed]:
        """Upload files as one pack, and return their places. Raises CepError if the upload fails."""
        entries, size = dict[str, Packed](), 0
        for file, content in contents.items():
            entries[file] = Packed(name, size, len(content), checksum.digest(content).hex())
            size += len(content)
        if contents:
            with storing():
                objects.put(self.place(name), b"".join(contents.values()))
        return entries


def pack_name(number: int, run: str) -> str:
    """Return a unique name for a pack. `number`: the number of the first manifest that may refer to the pack. `run`:
    the name of the run that writes the pack."""
    return f"{number:012}-{run[:12]}-{uuid4().hex}"


def damaged(address: str) -> CepError:
    """Return the error for an object in the store that does not contain what was written into it."""
    return CepError(f"--checkpoint: {address} is damaged", hint=BACK, code="checkpoint")


@contextmanager
def storing(code: str = "failed") -> Iterator[None]:
    """Convert errors of the object store or of local files inside a `with` block to a CepError."""
    try:
        yield
    except StorageError as error:
        message = f"--checkpoint: {error.filename}: {error.strerror}"
        raise CepError(message, hint=error.hint or "the same command continues from there", code=code) from None
