"""A file at an address as a file on the disk, for libraries that read only those."""

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
    """The file under its own name, while the block runs, whose errors name the address. CepError: it cannot be read;
    `what` it is."""
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
