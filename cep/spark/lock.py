"""A folder that is of one run at a time: a second one would take away what the first has not finished."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path
from typing import BinaryIO

from cep.errors import CepError

NAME = "lock"


def locked(folder: Path, patience: float = 0.0) -> BinaryIO:
    """Hold a folder that is there, until the file is closed or the process ends. CepError: another process holds it,
    and has not let go of it after `patience` seconds."""
    file = (folder / NAME).open("wb")
    until = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except OSError:
            if time.monotonic() > until:
                file.close()
                told = f"{folder} is in use by another run"
                raise CepError(told, hint="a checkpoint is of one run at a time", code="checkpoint") from None
            time.sleep(0.1)
