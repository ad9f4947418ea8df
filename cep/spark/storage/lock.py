"""A folder that is of one run at a time: a second one would take away what the first has not finished."""

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
_PATIENCE = 60.0  # seconds that a micro-batch may take to be finished


def locked(folder: Path, patience: float = 0.0) -> BinaryIO:
    """Hold a folder that is there, until the file is closed or the process ends. CepError: another process holds it,
    and has not let go of it after `patience` seconds."""
    file = _held(folder, LOCK, patience)
    try:
        with _held(folder, TURN, _PATIENCE):
            file.truncate(0)
            file.write(uuid4().hex.encode())
            file.flush()
    except BaseException:
        file.close()
        raise
    return file


@contextmanager
def turn(folder: Path, name: str) -> Iterator[None]:
    """The run of that name holds the folder while the block runs: none takes it over meanwhile. CepError: another
    has."""
    with _held(folder, TURN, _PATIENCE):
        if holder(folder) != name:
            raise CepError(f"--checkpoint: another run has taken over {folder}", hint=_HINT, code="checkpoint")
        yield


def _held(folder: Path, name: str, patience: float) -> BinaryIO:
    file = (folder / name).open("a+b")
    until = time.monotonic() + patience
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
    """The name of the run that holds the folder, or held it last. What a killed run has left may live for a moment
    without it, and knows by this name that it is not to go on."""
    try:
        return (folder / LOCK).read_text()
    except FileNotFoundError:
        return ""
