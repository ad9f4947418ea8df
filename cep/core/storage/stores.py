"""Access to object stores through the library obstore, for features that pyarrow's file systems lack.

These features are conditional creation, and atomic writes on Azure.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from typing import Any, BinaryIO, Literal
from urllib.parse import urlsplit

from cep.core.extras import install_command
from cep.core.storage.failures import StorageError, explained, no_bucket
from cep.core.storage.urls import Url

_REQUEST = timedelta(seconds=25)
_PATIENCE = timedelta(seconds=20)
"""`_REQUEST` is the timeout of a request. `_PATIENCE` is the time for which a failed request is retried."""
_AT_ONCE = 4  # the number of parts of 5 MiB that are uploaded in parallel


def put(location: Url, content: bytes | BinaryIO, mode: Literal["create", "overwrite"] = "overwrite") -> bool:
    """Write a file as a whole or not at all. Return True if it was written.

    With the mode `create`, the file is only written if it does not exist. Raises StorageError if the store fails, or if
    the library is not installed.
    """
    with explaining(location):
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            obstore.put(store(location), location.key, content, mode=mode, max_concurrency=_AT_ONCE)
            return True
        except AlreadyExistsError:
            return False
        except FileNotFoundError:
            raise no_bucket(location) from None


def remove(location: Url) -> None:
    """Remove a file, if it exists. Raises StorageError if the store fails, or if the library is not installed."""
    with explaining(location):
        import obstore

        try:
            obstore.delete(store(location), location.key)
        except FileNotFoundError:
            return


def check_installed(location: Url) -> None:
    """Check that the library obstore is installed. Raises StorageError otherwise."""
    try:
        import obstore  # noqa: F401
    except ImportError:
        raise StorageError(
            errno.ENOSYS, "the library obstore is not installed", str(location), install_command("storage")
        ) from None


def store(location: Url) -> Any:
    return _store(location.kind, location.place, os.getpid())


def endpoint() -> tuple[str, str] | None:
    """Return the scheme and the authority of a server that replaces Azure's, or None if none is configured.

    The variable AZURE_STORAGE_ENDPOINT names the server with the account as path: `http://127.0.0.1:10000/account`.
    """
    configured = urlsplit(os.environ.get("AZURE_STORAGE_ENDPOINT") or os.environ.get("AZURE_ENDPOINT") or "")
    return (configured.scheme, configured.netloc) if configured.netloc else None


def of_emulator() -> dict[str, str]:
    """Return settings for a server that replaces Google's, from the environment variable STORAGE_EMULATOR_HOST."""
    emulator = os.environ.get("STORAGE_EMULATOR_HOST")
    if not emulator:
        return {}
    nobody = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    server = emulator if "://" in emulator else f"http://{emulator}"
    return {"service_account_key": json.dumps(nobody | {"gcs_base_url": server.rstrip("/")})}


@lru_cache(maxsize=8)
def _store(kind: str, place: str, process: int) -> Any:
    """Create an object store. `process`: the id of this process, because connections do not survive a fork."""
    from obstore.store import AzureStore, GCSStore, S3Store

    plain: dict[str, Any] = {
        "client_options": {"allow_http": True, "timeout": _REQUEST},
        "retry_config": {"retry_timeout": _PATIENCE},
    }
    if kind == "s3":
        return S3Store(place, **plain)
    if kind == "gs":
        return GCSStore(place, **plain | of_emulator())
    container, _, account = place.partition("@")
    return AzureStore(container, account_name=account.partition(".")[0], **plain)


@contextmanager
def explaining(location: Url) -> Iterator[None]:
    """Convert errors of the library obstore, raised in the `with` block, to StorageErrors."""
    check_installed(location)
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, OSError) as error:
        raise explained(error, location) from None


def forget() -> None:
    """Forget all connections. Call this after environment variables have changed."""
    _store.cache_clear()
