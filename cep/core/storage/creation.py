"""Creation of files that must not exist yet. Of two competing processes, one learns that the other was first."""

from __future__ import annotations

from cep.core.errors import CepError
from cep.core.storage import files, stores
from cep.core.storage.failures import StorageError
from cep.core.storage.urls import url

KINDS = ("s3", "gs", "abfs")
"""File systems with conditional creation."""


def check_creating(address: str) -> None:
    """Raise CepError if the file system of an address has no conditional creation."""
    location = url(address)
    if location.kind not in KINDS:
        raise CepError(
            f"{address}: {location.kind}:// has no conditional put", hint="s3://, gs:// or abfs://", code="option"
        )
    try:
        stores.check_installed(location)
    except StorageError as error:
        raise CepError(f"{address}: {error.strerror}", hint=error.hint, code="option") from None


def create(address: str, content: bytes) -> bool:
    """Create a file unless it exists. Return True if it was created. Raises StorageError.

    The result is also True if an earlier attempt succeeded and its response was lost: no other file has this content.
    """
    return stores.put(url(address), content, "create") or files.read(address) == content


def remove(address: str) -> None:
    """Remove a file, if it exists, without leaving an object for its folder as pyarrow would. Raises StorageError."""
    stores.remove(url(address))
