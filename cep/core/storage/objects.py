"""Operations on objects in stores that support conditional creation: reading ranges, copying, and removing many objects
at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from cep.core.storage import stores
from cep.core.storage.failures import not_there
from cep.core.storage.urls import url

_AT_ONCE = 16
"""The maximum number of concurrent requests."""

Given = TypeVar("Given")


def part(address: str, offset: int, length: int) -> bytes:
    """Return `length` bytes of an object, from `offset` on.

    Raises StorageError if the object does not exist, is too short, or cannot be read.
    """
    location = url(address)
    if not length:
        return b""
    with stores.explaining(location):
        import obstore

        try:
            return bytes(obstore.get_range(stores.store(location), location.key, start=offset, length=length))
        except FileNotFoundError:
            raise not_there(location) from None


def put(address: str, content: bytes) -> None:
    """Write an object as a whole or not at all. It replaces an object of the same name.

    Raises StorageError if the object cannot be written.
    """
    stores.put(url(address), content)


def copy(address: str, to: str) -> None:
    """Copy an object within its bucket, on the server. Raises StorageError if it does not exist or cannot be copied."""
    source, target = url(address), url(to)
    assert source.place == target.place, "a store copies within a bucket"
    with stores.explaining(source):
        import obstore

        try:
            obstore.copy(stores.store(source), source.key, target.key)
        except FileNotFoundError:
            raise not_there(source) from None


def remove(addresses: Sequence[str]) -> None:
    """Remove objects of one bucket. Missing objects are ignored. Raises StorageError if the store fails."""
    if not addresses:
        return
    first = url(addresses[0])
    with stores.explaining(first):
        import obstore

        try:
            obstore.delete(stores.store(first), [url(address).key for address in addresses])
        except FileNotFoundError:
            return


def at_once(do: Callable[[Given], None], arguments: Iterable[Given]) -> None:
    """Call `do` for each of `arguments`, several at a time. Raise an exception of a call after all calls have ended."""
    some = list(arguments)
    if len(some) < 2:
        for argument in some:
            do(argument)
        return
    with ThreadPoolExecutor(min(len(some), _AT_ONCE)) as threads:
        for _ in threads.map(do, some):
            pass
