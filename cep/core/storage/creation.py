"""A file put where there is none yet: of two that try, one learns that the other was first.

pyarrow has no conditional put; the library obstore has, for S3, Google Cloud Storage and Azure.
"""

from __future__ import annotations

import errno
import os
from functools import lru_cache
from typing import Any

from cep.core.errors import CepError
from cep.core.storage import files
from cep.core.storage.failures import StorageError, explained, not_there
from cep.core.storage.urls import Url, url

KINDS = ("s3", "gs", "abfs")
"""File systems that can."""


def check_creating(address: str) -> None:
    """CepError: nothing can be put there on a condition."""
    kind = url(address).kind
    if kind not in KINDS:
        raise CepError(f"{address}: {kind}:// has no conditional put", hint="s3://, gs:// or abfs://", code="option")
    try:
        import obstore  # noqa: F401
    except ImportError:
        hint = "pip install 'semcep[storage]'"
        raise CepError(f"{address}: the library obstore is not installed", hint=hint, code="option") from None


def create(address: str, content: bytes) -> bool:
    """Put a file there unless there is one; gives whether it was put, also by an earlier try of this one, of which the
    answer was lost: no other has this content. StorageError: it cannot be."""
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError

    at = url(address)
    try:
        obstore.put(_store(at.kind, at.place, os.getpid()), at.key, content, mode="create")
        return True
    except AlreadyExistsError:
        return files.read(address) == content
    except FileNotFoundError as error:
        raise (explained(error, at) if "NoSuchBucket" in str(error) else not_there(at)) from None
    except (BaseError, OSError) as error:
        raise _refused(error, at) from None


def remove(address: str) -> None:
    """Remove a file, if it is there; pyarrow would leave one for its folder. StorageError: it cannot be."""
    import obstore
    from obstore.exceptions import BaseError

    at = url(address)
    try:
        obstore.delete(_store(at.kind, at.place, os.getpid()), at.key)
    except FileNotFoundError:
        return
    except (BaseError, OSError) as error:
        raise _refused(error, at) from None


def _refused(error: Exception, at: Url) -> StorageError:
    """The error without what is for who writes the library."""
    found = explained(error, at)
    reason = (found.strerror or "").partition(" Debug source")[0]
    return StorageError(found.errno or errno.EIO, reason, str(at), found.hint)


@lru_cache(maxsize=8)
def _store(kind: str, place: str, process: int) -> Any:
    """`process`: connections do not outlive a fork."""
    from obstore.store import AzureStore, GCSStore, S3Store

    plain: dict[str, Any] = {"client_options": {"allow_http": True}}
    if kind == "s3":
        return S3Store(place, **plain)
    if kind == "gs":
        return GCSStore(place)
    container, _, account = place.partition("@")
    return AzureStore(container, account_name=account.partition(".")[0], **plain)


def forget() -> None:
    """The environment says something else now."""
    _store.cache_clear()
