"""Outputs to files and standard output. The bytes of each call of `write` are written completely or not at all."""

from __future__ import annotations

import errno
import gzip
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cep.connectors.tables.names import is_table
from cep.core.errors import CepError
from cep.core.signals import STOPS
from cep.core.storage.failures import StorageError
from cep.core.storage.files import Upload
from cep.core.storage.urls import is_url, local_path
from cep.core.suggest import missing


class Sink:
    """An output to a file, or to standard output if the path is `-`.

    If the run is interrupted, the bytes of each call of `write` have been written completely or not at all. If the path
    ends in `.gz`, the file is compressed.
    """

    def __init__(self, path: str) -> None:
        path = local_path(path)
        self._path = path
        self._compressed: gzip.GzipFile | None = None
        if path == "-":
            if sys.stdout is None:
                raise CepError("cannot write standard output: it is closed", code="output")
            self._file = sys.stdout.buffer
            return
        try:
            self._file = Upload(path) if is_url(path) else open(path, "wb", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise unwritable(path, error) from None
        if path.endswith(".gz"):
            self._compressed = gzip.GzipFile(filename="", fileobj=self._file, mode="wb", compresslevel=6, mtime=0)

    def write(self, piece: bytes | memoryview) -> None:
        with _uninterrupted(), writing(self._path):
            if self._compressed is not None:
                self._compressed.write(piece)
                return
            view = memoryview(piece)
            while len(view):
                view = view[self._file.write(view) :]
            self._file.flush()

    def close(self) -> None:
        with _uninterrupted(), writing(self._path):
            if self._compressed is not None:
                self._compressed.close()
            if self._path != "-":
                self._file.close()

    def discard(self) -> None:
        """Close the output without completing it. Nothing is uploaded to the address of a stored object."""
        if isinstance(self._file, Upload):
            self._file.discard()
        else:
            self.close()


def put_at_end(path: str) -> bool:
    """Return True if the output becomes visible only at the end of the run."""
    return is_url(path) or is_table(path)


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Return a context manager that converts system errors to CepError.

    A BrokenPipeError is not converted. It is raised when the reader of a pipe has closed the pipe.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable(path, error) from None


def unwritable(path: str, error: OSError) -> CepError:
    """Return the error for a file, or standard output (`-`), that cannot be written, with the reason."""
    if isinstance(error, StorageError):
        return CepError(f"cannot write {path}: {error.strerror}", hint=error.hint, code="output")
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno == errno.ELOOP:
        hint = "name another file, or remove the link"
        return CepError(f"cannot write {path}: the link leads back to itself", hint=hint, code="output")
    shown = "standard output" if path == "-" else path
    lost = error.errno == errno.ENOENT and not Path(path).parent.is_dir()
    return CepError(f"cannot write {shown}: {reason}", hint=missing(Path(path)) if lost else None, code="output")


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Return a context manager that delays Ctrl-C and termination until its block ends. It only has an effect in the
    main thread, because only this thread receives the signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
