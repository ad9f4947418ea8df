"""Objects of stores with conditional creation: ranged reads, copies, and removal of many at once."""

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
    """Return a range of bytes of an object. Raises StorageError if it does not exist, is shorter, or cannot be read."""
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
    """Write an object as a whole or not at all. It replaces one of the same name. Raises StorageError."""
    stores.put(url(address), content)


def copy(address: str, to: str) -> None:
    """Copy an object within its bucket, on the server. Raises StorageError."""
    source, target = url(address), url(to)
    assert source.place == target.place, "a store copies within a bucket"
    with stores.explaining(source):
        import obstore

        try:
            obstore.copy(stores.store(source), source.key, target.key)
        except FileNotFoundError:
            raise not_there(source) from None


def remove(addresses: Sequence[str]) -> None:
    """Remove objects of one bucket. Missing ones are ignored. Raises StorageError."""
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
    """Call `do` for each value, several at a time. Exceptions are raised when all calls have ended."""
    some = list(arguments)
    if len(some) < 2:
        for argument in some:
            do(argument)
        return
    with ThreadPoolExecutor(min(len(some), _AT_ONCE)) as threads:
        for _ in threads.map(do, some):
            pass
