"""The lock of a checkpoint: one run at a time, since a second one would remove what the first has not finished."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from cep.core.errors import CepError
from cep.spark.storage.layout import LOCK, TURN

_HINT = "a checkpoint is of one run at a time"
_TIMEOUT = 60.0  # seconds that finishing a micro-batch may take


def locked(folder: Path, timeout: float = 0.0) -> BinaryIO:
    """Lock a folder that exists, until the file is closed or the process ends. CepError: another process has it locked,
    and has not let go of it after `timeout` seconds."""
    file = _locked_file(folder, LOCK, timeout)
    try:
        with _locked_file(folder, TURN, _TIMEOUT):
            file.truncate(0)
            file.write(uuid4().hex.encode())
            file.flush()
    except BaseException:
        file.close()
        raise
    return file


@contextmanager
def exclusive(folder: Path, name: str) -> Iterator[None]:
    """While the block runs, no other run takes the folder over. CepError: the run of that name does not hold it any
    more."""
    with _locked_file(folder, TURN, _TIMEOUT):
        if holder(folder) != name:
            raise CepError(f"--checkpoint: another run has taken over {folder}", hint=_HINT, code="checkpoint")
        yield


def _locked_file(folder: Path, name: str, timeout: float) -> BinaryIO:
    file = (folder / name).open("a+b")
    until = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except OSError:
            if time.monotonic() > until:
                file.close()
                raise CepError(f"{folder} is in use by another run", hint=_HINT, code="checkpoint") from None
            time.sleep(0.1)


def holder(folder: Path) -> str:
    """The name of the run that holds the folder, or held it last. Processes that a killed run has left may live on for
    a moment, and see by this name that they must stop."""
    try:
        return (folder / LOCK).read_text()
    except FileNotFoundError:
        return ""
