"""A file put where there is none yet: of two that try, one learns that the other was first."""

from __future__ import annotations

from cep.core.errors import CepError
from cep.core.storage import files, stores
from cep.core.storage.failures import StorageError
from cep.core.storage.urls import url

KINDS = ("s3", "gs", "abfs")
"""File systems that can."""


def check_creating(address: str) -> None:
    """CepError: nothing can be put there on a condition."""
    at = url(address)
    if at.kind not in KINDS:
        raise CepError(f"{address}: {at.kind}:// has no conditional put", hint="s3://, gs:// or abfs://", code="option")
    try:
        stores.check_installed(at)
    except StorageError as error:
        raise CepError(f"{address}: {error.strerror}", hint=error.hint, code="option") from None


def create(address: str, content: bytes) -> bool:
    """Put a file there unless there is one; gives whether it was put, also by an earlier try of this one, of which the
    answer was lost: no other has this content. StorageError: it cannot be."""
    return stores.put(url(address), content, "create") or files.read(address) == content


def remove(address: str) -> None:
    """Remove a file, if it is there; pyarrow would leave one for its folder. StorageError: it cannot be."""
    stores.remove(url(address))
