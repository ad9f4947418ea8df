"""Creation of files that must not exist yet. If two processes compete, one of them learns that the other was first."""

from __future__ import annotations

from cep.core.errors import CepError
from cep.core.storage import files, stores
from cep.core.storage.failures import StorageError
from cep.core.storage.urls import url

KINDS = ("s3", "gs", "abfs")
"""The kinds of file systems that can create a file only if it does not exist."""


def check_creating(address: str) -> None:
    """Check that the file system of an address can create a file only if it does not exist. Raises CepError
    otherwise."""
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
    """Create a file unless it exists. Return True if it was created.

    The result is also True if the existing file has this content, because an earlier attempt may have created it and
    its response was lost. So no other process may write the same content. Raises StorageError if the file system fails.
    """
    return stores.put(url(address), content, "create") or files.read(address) == content


def remove(address: str) -> None:
    """Remove a file, if it exists. Raises StorageError if the file system fails."""
    stores.remove(url(address))
