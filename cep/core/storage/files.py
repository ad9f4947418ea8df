"""Files by address. They are read, listed and written as a whole through pyarrow's file systems."""

from __future__ import annotations

import fnmatch
import io
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any, BinaryIO

from cep.core.storage import stores
from cep.core.storage.failures import StorageError, explained, no_bucket, not_there
from cep.core.storage.urls import Url, joined, url

_PIECE = 1 << 24
"""The number of bytes that are sent at once."""
_TRUE = ("1", "true", "yes")


@dataclass(frozen=True, slots=True)
class Found:
    """An entry at an address: a folder, or a file with its size in bytes."""

    address: str
    folder: bool
    size: int = 0

    @property
    def name(self) -> str:
        return self.address.rstrip("/").rpartition("/")[2]


def found(address: str) -> Found | None:
    """Return the file or folder at an address, or None if it does not exist. Raises StorageError if the file system
    fails."""
    location = url(address)
    with _explaining(location):
        info = filesystem(location).get_file_info(location.path)
    return _found(location, info)


def size(address: str) -> int:
    """Return the size of a file in bytes. Raises StorageError if the file does not exist or cannot be inspected."""
    info = found(address)
    if info is None:
        raise _lost(url(address))
    return info.size


def listed(address: str, deep: bool = False) -> list[Found]:
    """List the contents of a folder, by name. `deep`: include its subfolders' contents.

    The list is empty if the folder does not exist. Raises StorageError if the folder cannot be read, or if the bucket
    does not exist.
    """
    from pyarrow.fs import FileSelector

    location = url(address)
    cut = location.kind == "gs" and not deep  # pyarrow lists only folders that have an object of their own there
    with _explaining(location):
        infos = filesystem(location).get_file_info(
            FileSelector(location.path, allow_not_found=True, recursive=deep or cut)
        )
    if not infos:
        _check_bucket(location)
    every = [entry for entry in (_found(location, info) for info in infos) if entry is not None]
    return sorted(_direct(location, every) if cut else every, key=lambda entry: entry.address)


def matching(address: str) -> list[Found]:
    """Return the files that match a pattern, by name. In the pattern, `**` means any number of folders.

    Raises StorageError if the pattern's folder cannot be read, or if the bucket does not exist.
    """
    location = url(address)
    parts = location.key.split("/")
    fixed = next((n for n, part in enumerate(parts) if any(letter in part for letter in "*?[")), len(parts))
    folder = location.root + "/".join(parts[:fixed])
    deep = len(parts) - fixed > 1 or "**" in parts
    return [
        entry
        for entry in listed(folder, deep)
        if not entry.folder and _fits(url(entry.address).key.split("/")[fixed:], parts[fixed:])
    ]


def read(address: str) -> bytes:
    """Return the contents of a file. Raises StorageError if the file does not exist, or if it cannot be read."""
    with StoredFile(address) as file:
        return file.readall()


def put(address: str, content: bytes | BinaryIO) -> None:
    """Write a file as a whole or not at all. It replaces a file of the same name.

    Raises StorageError if the file cannot be written.
    """
    location = url(address)
    if location.kind == "abfs":  # pyarrow would show incomplete files there, and can rename files only in some accounts
        stores.put(location, content)
        return
    pieces = iter([content]) if isinstance(content, bytes) else iter(lambda: content.read(_PIECE), b"")
    with _explaining(location):
        system = filesystem(location)
        path = location.path if location.kind != "hdfs" else f"{location.path}.{os.getpid()}.part"
        if location.kind == "hdfs":
            system.create_dir(path.rpartition("/")[0])
        with system.open_output_stream(path, compression=None) as out:
            for piece in pieces:
                out.write(piece)
        if path != location.path:  # HDFS shows incomplete files, so the file gets its name at the end
            system.move(path, location.path)


def opened(address: str) -> Any:
    """Open a file as a pyarrow file for random access. Raises StorageError if it does not exist or cannot be opened."""
    location = url(address)
    with _explaining(location):
        try:
            return filesystem(location).open_input_file(location.path)
        except FileNotFoundError:
            raise _lost(location) from None


class StoredFile(io.RawIOBase):
    """A readable stored file, for sequential and random access."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._at = url(address)
        self._file = opened(address)
        with _explaining(self._at):
            self.size: int = self._file.size()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with _explaining(self._at):
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def read(self, size: int = -1) -> bytes:
        with _explaining(self._at):
            return bytes(self._file.read(None if size is None or size < 0 else size))

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class Upload:
    """The new content of a file. It is collected in a temporary local file, and `close` uploads it when it is complete.

    Until then, readers find the old file or none. Without `close`, nothing is uploaded.
    """

    def __init__(self, address: str) -> None:
        self.address, location = address, url(address)
        if location.kind == "abfs":
            stores.check_installed(location)
        _check_bucket(location)
        self.file: BinaryIO = tempfile.TemporaryFile(prefix="semcep-")  # noqa: SIM115

    def write(self, piece: bytes | memoryview) -> int:
        return self.file.write(piece)

    def flush(self) -> None:
        """Do nothing: nothing is stored before the file is closed."""

    def close(self) -> None:
        """Upload what was written. Raises StorageError if the upload fails."""
        if not self.file.closed:
            self.file.seek(0)
            try:
                put(self.address, self.file)
            finally:
                self.file.close()

    def discard(self) -> None:
        self.file.close()


def filesystem(location: Url) -> Any:
    return _filesystem(location.kind, location.place if location.kind in ("abfs", "hdfs") else "", os.getpid())


_PATIENCE = timedelta(seconds=30)
"""The time for which Google's file system retries a request. Its own default is 15 minutes, even if no credentials are
set."""


@lru_cache(maxsize=16)
def _filesystem(kind: str, place: str, process: int) -> Any:
    """Create a file system. `process`: the id of this process, because connections do not survive a fork."""
    from pyarrow import fs

    if kind == "s3":
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        more: dict[str, Any] = {} if region is None else {"region": region}
        if endpoint:
            scheme, _, host = endpoint.rpartition("://")
            more |= {"endpoint_override": host.rstrip("/"), "scheme": scheme or "https"}
        if os.environ.get("AWS_SKIP_SIGNATURE", "").lower() in _TRUE:
            more["anonymous"] = True
        return fs.S3FileSystem(**more)
    if kind == "gs":
        emulator = os.environ.get("STORAGE_EMULATOR_HOST")
        if emulator:
            scheme, _, host = emulator.rpartition("://")
            return fs.GcsFileSystem(
                anonymous=True, endpoint_override=host, scheme=scheme or "http", retry_time_limit=_PATIENCE
            )
        return fs.GcsFileSystem(retry_time_limit=_PATIENCE)
    if kind == "abfs":
        return fs.AzureFileSystem(place.partition("@")[2].partition(".")[0], **_azure())
    host, _, port = place.partition(":")
    return fs.HadoopFileSystem(host or "default", int(port or 0))


def _azure() -> dict[str, str]:
    variables = {"account_key": "AZURE_STORAGE_ACCOUNT_KEY", "sas_token": "AZURE_STORAGE_SAS_TOKEN"}
    known = {name: os.environ[variable] for name, variable in variables.items() if os.environ.get(variable)}
    if (server := stores.endpoint()) is not None:
        scheme, authority = server
        for service in ("blob", "dfs"):
            known |= {f"{service}_storage_scheme": scheme, f"{service}_storage_authority": authority}
    return known


def _check_bucket(location: Url) -> None:
    from pyarrow.fs import FileType

    if location.kind == "hdfs":
        return
    with _explaining(location):
        if filesystem(location).get_file_info(location.path.partition("/")[0]).type == FileType.NotFound:
            raise no_bucket(location)


def _lost(location: Url) -> StorageError:
    try:
        _check_bucket(location)
    except StorageError as error:
        return error
    return not_there(location)


def _found(location: Url, info: Any) -> Found | None:
    from pyarrow.fs import FileType

    if info.type == FileType.NotFound:
        return None
    return Found(location.at(info.path), info.type == FileType.Directory, info.size or 0)


def _direct(location: Url, every: Iterable[Found]) -> Iterable[Found]:
    folder = joined(str(location), "") if location.key else location.root
    direct: dict[str, Found] = {}
    for entry in every:
        name, slash, _ = entry.address.removeprefix(folder).partition("/")
        direct[name] = Found(folder + name, True) if slash else direct.get(name, entry)
    return direct.values()


def _fits(names: list[str], wanted: list[str]) -> bool:
    if not names or not wanted:
        return not names and all(part == "**" for part in wanted)
    if wanted[0] == "**":
        return _fits(names, wanted[1:]) or _fits(names[1:], wanted)
    return fnmatch.fnmatchcase(names[0], wanted[0]) and _fits(names[1:], wanted[1:])


@contextmanager
def _explaining(location: Url) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError as error:
        raise (error if isinstance(error, StorageError) else _lost(location)) from None
    except (OSError, pa.ArrowException) as error:
        raise explained(error, location) from None


def forget() -> None:
    """Forget all connections. Call this after environment variables have changed."""
    _filesystem.cache_clear()
    stores.forget()
