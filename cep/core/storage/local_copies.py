"""Local copies of stored files, for libraries that only read from disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cep.core.errors import CepError
from cep.core.storage import files
from cep.core.storage.failures import StorageError
from cep.core.storage.urls import url


@contextmanager
def fetched(address: str, what: str) -> Iterator[Path]:
    """Copy a stored file to the local disk, under its own name, for the duration of the block.

    `what`: a description of the file for messages. Raises CepError if the file cannot be read. A CepError in the block
    names the address instead of the local path.
    """
    with tempfile.TemporaryDirectory(prefix="semcep-") as folder:
        path = Path(folder, url(address).key.rpartition("/")[2])
        try:
            path.write_bytes(files.read(address))
            yield path
        except StorageError as error:
            raise CepError(f"{what}: {address}: {error.strerror}", hint=error.hint, code="option") from None
        except CepError as error:
            message = error.message.replace(str(path), address)
            raise CepError(message, error.source, error.span, error.hint, error.code) from None
